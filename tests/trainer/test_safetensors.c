/* Weights from and to other programs: the checks of a file, and importing and exporting it in
 * models.
 *
 * F16, BF16, F64 and I64 are read exactly. Every cut of a file is refused, and a header above 100
 * MB. Weights of all models come back; a file exported again has the same bytes, with and without
 * counts of batches. Files of GPT2LMHeadModel are read, and positions of a longer context. A
 * refused file, also for a count of another type or shape or below 0, changes nothing. */
#define _GNU_SOURCE /* fopencookie */
#include "resmlp_model.h"
#include "resnet_model.h"
#include "support/test_fault.h"
#include "support/test_folder.h"
#include "support/test_model.h"
#include "trainer/files/safetensors_file.h"
#include "trainer/files/weights.h"
#include <inttypes.h>
#include <sys/stat.h>
#include <unistd.h> /* alarm */

typedef struct fault_row {
    const char *header;
    uint64_t data;
    const char *part; /* of the message; NULL: the header is right */
} fault_row;

#define T(dtype, shape, offsets)                                                                   \
    "{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":" offsets "}"

static const fault_row headers[] = {
    {"{\"a\":" T("F32", "[2,3]", "[0,24]") "}", 24, NULL},
    {"{\"__metadata__\":{\"a\":\"b\"},\"a\":" T("F16", "[]", "[0,2]") "}  ", 2, NULL},
    {"{}", 0, NULL},
    {"{\"b\":" T("F32", "[1]", "[4,8]") ",\"a\":" T("BF16", "[2]", "[0,4]") "}", 8, NULL},
    {"{\"a\":" T("F32", "[0,5]", "[0,0]") "}", 0, NULL},
    {"", 0, "begin with {"},
    {" {}", 0, "begin with {"},
    {"[]", 0, "begin with {"},
    {"{\"a\":", 4, "no JSON"},
    {"{}{}", 0, "no JSON"},
    {"{\"a\":" T("F32", "[1]", "[0,4]") ",\"a\":" T("F32", "[1]", "[0,4]") "}", 4, "no JSON"},
    {"{\"a\":1}", 0, "no object"},
    {"{\"a\":{}}", 0, "dtype"},
    {"{\"a\":" T("F4", "[2,8]", "[0,8]") "}", 8, NULL}, /* nobody reads it */
    {"{\"a\":" T("F32", "1", "[0,4]") "}", 4, "no list"},
    {"{\"a\":" T("F32", "[1.5]", "[0,4]") "}", 4, "no size"},
    {"{\"a\":" T("F32", "[-1]", "[0,4]") "}", 4, "no size"},
    {"{\"a\":" T("F32", "[1,1,1,1,1,1,1,1,1]", "[0,4]") "}", 4, NULL},
    {"{\"a\":" T("F32", "[1,1,1,1,1,1,1,1,-1]", "[0,4]") "}", 4, "no size"},
    {"{\"a\":" T("F32", "[4611686018427387904,4]", "[0,4]") "}", 4, "overflows"},
    {"{\"a\":" T("F32", "[4611686018427387904]", "[0,0]") "}", 0, "different sizes"},
    {"{\"a\":" T("F32", "[1]", "[0]") "}", 4, "pair"},
    {"{\"a\":" T("F32", "[1]", "[\"0\",4]") "}", 4, "pair"},
    {"{\"a\":" T("F32", "[1]", "[4,0]") "}", 4, "outside"},
    {"{\"a\":" T("F32", "[2]", "[0,8]") "}", 4, "outside"},
    {"{\"a\":" T("F32", "[2]", "[0,4]") "}", 4, "different sizes"},
    {"{\"a\":" T("F32", "[1]", "[4,8]") "}", 8, "begins at byte 4"},
    {"{\"a\":" T("F32", "[1]", "[0,4]") ",\"b\":" T("F32", "[1]", "[2,6]") "}", 6,
        "begins at byte 2"},
    {"{\"a\":" T("F32", "[1]", "[0,4]") "}", 8, "its data 8"},
    {"{\"a\":" T("F32", "[9223372036854775808]", "[0,4]") "}", 4, "no JSON"},
};

static void faults(NO_ROW)
{
    for (size_t i = 0; i < COUNT_OF(headers); i++) {
        const fault_row *row = &headers[i];
        safetensors s;
        fault f = {0};
        const bool good =
            safetensors_parse("w.safetensors", row->header, strlen(row->header), row->data, &s, &f);
        if (good != (row->part == NULL))
            fail_msg("%s: %s", row->header, good ? "accepted" : f.text);
        if (row->part != NULL) {
            test_says(f.text, "w.safetensors");
            test_refused(good, &f, CODE_DATA, row->part);
        }
        safetensors_close(&s);
    }
}

/* Deep nesting and no end of brackets are refused, too. */
static void nesting(NO_ROW)
{
    enum { DEPTH = 100000 };
    char *header = test_alloc(DEPTH);
    memset(header, '[', DEPTH);
    memcpy(header, "{\"a\":", 5);
    safetensors s;
    TEST_REFUSED(safetensors_parse("w", header, DEPTH, 4, &s, &f), CODE_DATA, "");
}

/* Streams of memory that runs out at the write number `at`, once or for ever; 0: they do not. */
static struct {
    char **text;
    size_t *length;
    unsigned writes, at;
    bool forever, fired;
} memory;

static ssize_t write_memory(void *cookie, const char *bytes, size_t count)
{
    (void)cookie;
    ++memory.writes;
    if (memory.writes == memory.at || (memory.forever && memory.fired)) {
        memory.fired = true;
        return 0;
    }
    char *grown = realloc(*memory.text, *memory.length + count);
    assert_non_null(grown);
    memcpy(grown + *memory.length, bytes, count);
    *memory.text = grown;
    *memory.length += count;
    return (ssize_t)count;
}

TEST_WRAP(FILE *, open_memstream, (char **text, size_t *length))
{
    if (memory.at == 0)
        return __real_open_memstream(text, length);
    memory.text = text;
    memory.length = length;
    memory.writes = 0;
    memory.fired = false;
    *text = NULL;
    *length = 0;
    return fopencookie(NULL, "w", (cookie_io_functions_t){.write = write_memory});
}

/* A header is written whole, or the failure is told. */
static void out_of_memory(NO_ROW)
{
    enum { TENSORS = 300 }; /* more than a stream's buffer holds */
    static char names[TENSORS][16];
    safetensor tensors[TENSORS] = {{.name = NULL}};
    for (size_t i = 0; i < TENSORS; i++) {
        (void)snprintf(names[i], sizeof names[i], "tensor.%zu", i);
        tensors[i] = (safetensor){
            .name = names[i], .type = SAFETENSOR_F32, .rank = 1, .shape = {7}, .count = 7};
    }
    for (int forever = 0; forever < 2; forever++)
        for (unsigned at = 1;; at++) {
            fault f = {0};
            atomic_file file = {.stream = fopen("/dev/null", "wb")};
            assert_non_null(file.stream);
            memory.at = at;
            memory.forever = forever;
            (void)alarm(60); /* it ends */
            const bool good = safetensors_put_header(&file, TENSORS, tensors, &f);
            (void)alarm(0);
            memory.at = 0;
            (void)fclose(file.stream);
            assert_int_equal(good, !memory.fired);
            assert_int_equal(f.code, good ? CODE_OK : CODE_MEMORY);
            if (good) {
                assert_true(at > 3);
                break;
            }
        }
}

static void put_length(unsigned char file[8], uint64_t length)
{
    for (int i = 0; i < 8; i++)
        file[i] = (unsigned char)(length >> (8 * i));
}

static void put(const char *path, const char *header, const void *data, size_t bytes)
{
    const uint64_t length = strlen(header);
    unsigned char *file = test_alloc(8 + (size_t)length + bytes);
    put_length(file, length);
    memcpy(file + 8, header, (size_t)length);
    memcpy(file + 8 + length, data, bytes);
    test_file_write(path, file, 8 + (size_t)length + bytes);
}

TEST_UNDO(close_file, safetensors_close(what))

/* Opens a file, which ends with the case. */
static const safetensors *open_file(const char *path)
{
    safetensors *s = test_alloc(sizeof *s);
    TEST_GOOD(safetensors_open(path, s, &f));
    test_later(close_file, NULL, s);
    return s;
}

static void refuse_file(const char *path, const char *part)
{
    safetensors s;
    TEST_REFUSED(safetensors_open(path, &s, &f), CODE_DATA, part);
}

static void types(NO_ROW)
{
    const char *folder = test_folder(), *path = test_text("%s/w", folder);
    const unsigned char data[] = {0x00, 0x3c, 0x01, 0x00, 0x00, 0x80, 0xff, 0x7b, 0x00,
        0x7c,                                                                    /* F16 */
        0x80, 0x3f, 0xc0, 0xbf,                                                  /* BF16 */
        0, 0, 0, 0, 0, 0, 0xf8, 0x3f,                                            /* F64 */
        0x07, 0x00,                                                              /* I16 */
        0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 1, 0, 0, 0, 0, 0, 0}; /* I64 */
    put(path,
        "{\"h\":" T("F16", "[5]", "[0,10]") ",\"b\":" T("BF16", "[2]", "[10,14]") ",\"d\":" T(
            "F64", "[1]", "[14,22]") ",\"i\":" T("I16", "[1]", "[22,24]") ",\"w\":" T("I64", "[2]",
            "[24,40]") "}",
        data, sizeof data);
    const safetensors *s = open_file(path);
    float values[5];
    TEST_GOOD(safetensors_read(s, safetensors_find(s, "h"), values, &f));
    const float halves[5] = {1.0f, 0x1p-24f, -0.0f, 65504.0f, INFINITY};
    assert_memory_equal(values, halves, sizeof halves);
    TEST_GOOD(safetensors_read(s, safetensors_find(s, "b"), values, &f));
    assert_true(values[0] == 1.0f && values[1] == -1.5f);
    TEST_GOOD(safetensors_read(s, safetensors_find(s, "d"), values, &f));
    assert_true(values[0] == 1.5f);
    assert_null(safetensors_find(s, "hh"));
    TEST_REFUSED(
        safetensors_read(s, safetensors_find(s, "i"), values, &f), CODE_DATA, "\"i\" is I16");
    int64_t wholes[2];
    TEST_GOOD(safetensors_read_i64(s, safetensors_find(s, "w"), wholes, &f));
    assert_true(wholes[0] == -2 && wholes[1] == 256);
    TEST_REFUSED(safetensors_read(s, safetensors_find(s, "w"), values, &f), CODE_DATA, "");
    TEST_REFUSED(safetensors_read_i64(s, safetensors_find(s, "i"), wholes, &f), CODE_DATA,
        "\"i\" is I16, not I64");
    /* each shorter file, and names that are no files */
    size_t size;
    const unsigned char *whole = test_file_read(path, &size);
    for (size_t cut = 0; cut < size; cut++) {
        test_file_write(path, whole, cut);
        refuse_file(path, "");
    }
    refuse_file(folder, "");
    const char *fifo = test_text("%s/fifo", folder);
    assert_int_equal(mkfifo(fifo, 0600), 0);
    (void)alarm(60); /* it does not wait for a writer */
    refuse_file(fifo, "FIFO");
    (void)alarm(0);
}

/* What users take for such a file is named. */
static void other_files(NO_ROW)
{
    static const char *const begins[][2] = {{"PK\3\4\24\0\0\10", "torch.save"},
        {"\x80\2}q\0X\1\0", "torch.save"}, {"CLPRCKPT", "a checkpoint; --resume goes on"},
        {"GGUF\3\0\0\0", "a GGUF file"}, {"\x89HDF\r\n\x1a\n", "an HDF5 file"},
        {"version https://git-lfs", "Git LFS"}, {"<!DOCTYPE html>", "a page of HTML"},
        {"{\"metadata\": {}}", "JSON"}};
    const char *path = test_text("%s/w", test_folder());
    for (size_t i = 0; i < COUNT_OF(begins); i++) {
        char file[64] = "";
        memcpy(file, begins[i][0], i < 5 ? 8 : strlen(begins[i][0]));
        test_file_write(path, file, sizeof file);
        refuse_file(path, test_text("no safetensors file, but %s", i == 0 ? "a file of" : ""));
        refuse_file(path, begins[i][1]);
    }
}

/* A header of 100 MB is read, a longer one is not. */
static void long_header(NO_ROW)
{
    enum { MOST = 100000000 };
    const char *path = test_text("%s/w", test_folder());
    for (uint64_t length = MOST; length <= MOST + 1; length++) {
        const char *part = test_text("a header of %" PRIu64 " bytes", length);
        unsigned char prefix[8];
        put_length(prefix, length);
        test_file_write(path, prefix, sizeof prefix);
        assert_int_equal(truncate(path, (off_t)(sizeof prefix + length)), 0); /* zeros: no JSON */
        safetensors s;
        fault f = {0};
        assert_false(safetensors_open(path, &s, &f));
        assert_int_equal(f.code, CODE_DATA);
        assert_int_equal(strstr(f.text, part) != NULL, length > MOST);
    }
}

extern const trainer_model vit_model, gpt_model;

/* A small model of any kind. */
typedef struct model_row {
    const trainer_model *type;
    size_t arch;
    const char *oihw; /* a convolution of 3 x 3, or NULL */
} model_row;

static const model_row models[] = {
    {&resmlp_model, 4, NULL},
    {&resnet_model, 3, "layer2.0.conv1.weight"},
    {&vit_model, 4, NULL},
};
static const model_row gpt = {&gpt_model, 0, NULL};

/* classes: of GPT, the context. */
static net_model *make_model(const model_row *row, size_t classes, uint64_t seed)
{
    trainer_sizes sizes = {.arch = row->arch};
    if (row->type->tokens) {
        sizes.extra[0] = classes;
    } else {
        sizes.image = 32;
        sizes.classes = classes;
    }
    return test_model(row->type, &sizes, NULL, 2, seed);
}

/* Exports a model to a file; imports a file into one. */
static void write_weights(const net_model *model, const char *path)
{
    TEST_GOOD(weights_export(model, path, &f));
}

static void read_weights(net_model *model, const char *path, bool leaves_head)
{
    weights_imported imported;
    TEST_GOOD(weights_import(model, path, 1, &imported, &f));
    assert_int_equal(imported.head_left, leaves_head);
}

static float *values_of(const trainer_weight *w)
{
    float *values = test_alloc(w->mat.rows * w->mat.cols * sizeof *values);
    TEST_OK(clprune_mat_read(test_context(), w->mat, values));
    return values;
}

/* Whether two models have the same weights; of the head, only where `head`. */
static bool same_weights(const net_model *a, const net_model *b, bool head)
{
    bool same = true;
    assert_int_equal(a->weights_count, b->weights_count);
    for (size_t i = 0; i < a->weights_count; i++) {
        const trainer_weight wa = a->weights[i], wb = b->weights[i];
        if (wa.head && !head)
            continue;
        float *va = values_of(&wa), *vb = values_of(&wb);
        same = same && memcmp(va, vb, wa.mat.rows * wa.mat.cols * sizeof *va) == 0;
    }
    return same;
}

/* A copy of a file in which the head's tensors have other names. */
static void put_without_head(const net_model *model, const char *from, const char *to)
{
    size_t bytes;
    char *file = test_file_read(from, &bytes);
    for (size_t i = 0; i < model->weights_count; i++) {
        const trainer_weight w = model->weights[i];
        char *at = w.head ? strstr(file + 8, test_text("\"%s\"", w.name)) : NULL;
        assert_true(at != NULL || !w.head);
        if (at != NULL)
            at[1] = '_';
    }
    test_file_write(to, file, bytes);
}

/* A copy of a file with `prefix` before each name and, with `twice`, all tensors again behind it.
 */
static void put_prefixed(const char *from, const char *prefix, const char *twice, const char *to)
{
    const safetensors *s = open_file(from);
    size_t size;
    const unsigned char *file = test_file_read(from, &size);
    const uint64_t bytes = size - s->parts[0].data, copies = twice != NULL ? 2 : 1;
    const char *header = "";
    for (uint64_t copy = 0; copy < copies; copy++)
        for (size_t i = 0; i < s->count; i++) {
            const safetensor *t = &s->tensors[i];
            const char *shape = "";
            for (size_t k = 0; k < t->rank; k++)
                shape = test_text("%s%s%" PRIu64, shape, k > 0 ? "," : "", t->shape[k]);
            header =
                test_text("%s%s\"%s%s\":{\"dtype\":\"%s\",\"shape\":[%s],\"data_offsets\":[%" PRIu64
                          ",%" PRIu64 "]}",
                    header, header[0] != '\0' ? "," : "", copy > 0 ? twice : prefix, t->name,
                    t->dtype, shape, t->from + copy * bytes, t->to + copy * bytes);
        }
    unsigned char *data = test_alloc((size_t)(copies * bytes));
    for (uint64_t copy = 0; copy < copies; copy++)
        memcpy(data + copy * bytes, file + s->parts[0].data, (size_t)bytes);
    put(to, test_text("{%s}", header), data, (size_t)(copies * bytes));
}

/* As torch.compile, DistributedDataParallel and Lightning write names. */
static void prefixes(void **state)
{
    static const char *const known[] = {"_orig_mod.", "module._orig_mod.", "model."};
    const model_row *row = *state;
    const char *folder = test_folder(), *first = test_text("%s/1", folder),
               *second = test_text("%s/2", folder);
    net_model *a = make_model(row, 10, 1), *b = make_model(row, 10, 2);
    weights_imported imported;
    write_weights(a, first);
    for (size_t i = 0; i < COUNT_OF(known); i++) {
        put_prefixed(first, known[i], NULL, second);
        TEST_OK(net_model_init(b, 2, NULL));
        TEST_GOOD(weights_import(b, second, 1, &imported, &f));
        assert_string_equal(imported.prefix, known[i]);
        assert_false(imported.head_left);
        assert_true(same_weights(a, b, true));
    }
    put_prefixed(first, "", "ema.", second);
    TEST_GOOD(weights_import(b, second, 1, &imported, &f));
    assert_string_equal(imported.prefix, "");
    put_prefixed(first, "model.", "ema.", second);
    TEST_REFUSED(
        weights_import(b, second, 1, &imported, &f), CODE_DATA, "\"model.\" or with \"ema.\"");
    put_prefixed(first, "x", NULL, second); /* no name of a module */
    TEST_REFUSED(weights_import(b, second, 1, &imported, &f), CODE_DATA, "no tensor \"");
}

static void round_trip(void **state)
{
    const model_row *row = *state;
    const char *folder = test_folder(), *first = test_text("%s/1", folder),
               *second = test_text("%s/2", folder);
    weights_imported imported;
    net_model *a = make_model(row, 10, 1), *b = make_model(row, 10, 2);
    assert_false(same_weights(a, b, true));
    write_weights(a, first);
    read_weights(b, first, false);
    assert_true(same_weights(a, b, true));
    write_weights(b, second);
    test_file_same(first, second);
    if (row->oihw != NULL) { /* PyTorch's order in the file */
        const safetensors *s = open_file(first);
        const safetensor *t = safetensors_find(s, row->oihw);
        assert_non_null(t);
        float *read = test_floats(t->count), *have = values_of(test_weight(a, row->oihw));
        TEST_GOOD(safetensors_read(s, t, read, &f));
        const size_t in = t->shape[1], o = 3, c = 5, y = 2, x = 1;
        assert_true(
            read[((o * in + c) * 3 + y) * 3 + x] == have[o * 9 * in + (y * 3 + x) * in + c]);
    }
    /* a head of other classes, or that is not there, stays; anything else that does not fit changes
     * nothing */
    net_model *c = make_model(row, 7, 4);
    read_weights(c, first, true);
    assert_true(same_weights(a, c, false));
    TEST_OK(net_model_init(c, 6, NULL));
    put_without_head(a, first, second);
    read_weights(c, second, true);
    assert_true(same_weights(a, c, false));
    TEST_OK(net_model_init(b, 5, NULL));
    net_model *d = make_model(row, 10, 5);
    size_t bytes;
    unsigned char *file = test_file_read(first, &bytes);
    memset(file + bytes - 4, 0xff, 4); /* of the last tensor: a NaN */
    test_file_write(second, file, bytes);
    TEST_REFUSED(weights_import(b, second, 1, &imported, &f), CODE_DATA, "not finite");
    assert_true(same_weights(b, d, true));
}

/* A copy of a file of GPT-2 as GPT2LMHeadModel has it: names begin with "transformer.", block 0 has
 * a mask, and the head is there again. */
static void put_lm_head(const char *from, const char *to)
{
    const safetensors *s = open_file(from);
    const safetensor *wte = safetensors_find(s, "wte.weight");
    size_t size;
    char *header = test_text("{");
    const unsigned char *file = test_file_read(from, &size);
    const uint64_t bytes = size - s->parts[0].data, head = wte->to - wte->from, mask = 8 * 8 * 4;
    for (size_t i = 0; i < s->count; i++) {
        const safetensor *t = &s->tensors[i];
        const char *shape = t->rank == 1
                                ? test_text("%" PRIu64, t->shape[0])
                                : test_text("%" PRIu64 ",%" PRIu64, t->shape[0], t->shape[1]);
        header = test_text("%s\"transformer.%s\":{\"dtype\":\"F32\",\"shape\":[%s],"
                           "\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]},",
            header, t->name, shape, t->from, t->to);
    }
    header = test_text("%s\"lm_head.weight\":{\"dtype\":\"F32\",\"shape\":[256,128],"
                       "\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]},"
                       "\"transformer.h.0.attn.bias\":{\"dtype\":\"F32\",\"shape\":[1,1,8,8],"
                       "\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}}",
        header, bytes, bytes + head, bytes + head, bytes + head + mask);
    unsigned char *data = test_alloc((size_t)(bytes + head + mask));
    memset(data, 0, (size_t)(bytes + head + mask));
    memcpy(data, file + s->parts[0].data, (size_t)bytes);
    memcpy(data + bytes, file + s->parts[0].data + wte->from, (size_t)head);
    put(to, header, data, (size_t)(bytes + head + mask));
}

/* Matrices of blocks are in x out, the tied head is not there. */
static void gpt_files(NO_ROW)
{
    enum { CONTEXT = 8, DIM = 128 };
    const char *folder = test_folder(), *first = test_text("%s/1", folder),
               *second = test_text("%s/2", folder), *third = test_text("%s/3", folder);
    weights_imported imported;
    net_model *a = make_model(&gpt, CONTEXT, 1), *b = make_model(&gpt, CONTEXT, 2);
    write_weights(a, first);
    const safetensors *s = open_file(first);
    const safetensor *t = safetensors_find(s, "h.1.mlp.c_fc.weight");
    assert_non_null(t);
    assert_true(t->rank == 2 && t->shape[0] == DIM && t->shape[1] == 4 * DIM);
    assert_null(safetensors_find(s, "lm_head.weight"));
    float *read = test_floats(t->count), *have = values_of(test_weight(a, "h.1.mlp.c_fc.weight"));
    TEST_GOOD(safetensors_read(s, t, read, &f));
    assert_true(read[3 * 4 * DIM + 200] == have[200 * DIM + 3]);

    put_lm_head(first, second);
    read_weights(b, second, false);
    assert_true(same_weights(a, b, true));
    write_weights(b, third);
    test_file_same(first, third);

    /* a shorter context takes the first positions */
    net_model *shorter = make_model(&gpt, CONTEXT - 3, 3),
              *longer = make_model(&gpt, CONTEXT + 1, 4);
    read_weights(shorter, first, false);
    const trainer_weight *first_ones = test_weight(shorter, "wpe.weight");
    have = values_of(test_weight(a, "wpe.weight"));
    assert_int_equal(first_ones->mat.rows, CONTEXT - 3);
    assert_memory_equal(values_of(first_ones), have, (CONTEXT - 3) * DIM * sizeof *have);
    TEST_REFUSED(weights_import(longer, first, 1, &imported, &f), CODE_DATA,
        "\"wpe.weight\" is 8 x 128, the model's 9 x 128");
}

/* A copy of the file `from` in which the first `old` of the header is `new`, and the first count of
 * the data has the byte `top` as its highest; -1: its own. */
static void put_changed(const char *from, const char *to, const char *old, const char *new, int top)
{
    size_t size;
    unsigned char *file = test_file_read(from, &size);
    const size_t length = file[0] | (size_t)file[1] << 8, data = 8 + length;
    assert_true(file[2] == 0 && data < size);
    const char *text = test_text("%.*s", (int)length, (const char *)file + 8);
    const char *at = strstr(text, old);
    assert_non_null(at);
    if (top >= 0)
        file[data + 7] = (unsigned char)top;
    put(to, test_text("%.*s%s%s", (int)(at - text), text, new, at + strlen(old)), file + data,
        size - data);
}

/* Counts of batches: each fault is named with its tensor, and changes nothing. */
static void counts(NO_ROW)
{
    static const char name[] = "bn1.num_batches_tracked", i64[] = "\"I64\",\"shape\":[]";
    static const struct {
        const char *to;
        int top;
        const char *part; /* of the message; NULL: no fault */
    } rows[] = {
        {i64, -1, NULL},
        {i64, 0x7f, NULL},
        {i64, 0x80, "is -9223372036854775801; a count is 0 or more"},
        {"\"U64\",\"shape\":[]", -1, "is U64 of shape []; a count is I64 of shape []"},
        {"\"F64\",\"shape\":[]", -1, "is F64 of shape []; a count is I64 of shape []"},
        {"\"I64\",\"shape\":[1]", -1, "is I64 of shape [1]; a count is I64 of shape []"},
        {"\"F32\",\"shape\":[1,2]", -1, "is F32 of shape [1 x 2]; a count is I64 of shape []"},
    };
    const model_row *row = &models[1];
    const char *folder = test_folder(), *from = test_text("%s/from", folder),
               *path = test_text("%s/path", folder), *out = test_text("%s/out", folder);
    net_model *a = make_model(row, 10, 1), *b = make_model(row, 10, 2), *c = make_model(row, 10, 2);
    const trainer_count *mine = a->counts, *its = b->counts;
    const size_t count = a->counts_count;
    assert_string_equal(mine[0].name, name);
    assert_int_equal(*mine[0].value, 0); /* of a new model */
    for (size_t i = 0; i < count; i++)
        *mine[i].value = (int64_t)(7 + i);
    write_weights(a, from);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        fault f = {0};
        weights_imported imported;
        TEST_OK(net_model_init(b, 2, NULL));
        put_changed(from, path, i64, rows[i].to, rows[i].top);
        if (rows[i].part == NULL) {
            const int64_t top = rows[i].top < 0 ? 0 : rows[i].top;
            read_weights(b, path, false);
            assert_int_equal(*its[0].value, (top << 56) + 7);
            assert_int_equal(*its[count - 1].value, 7 + count - 1);
            continue;
        }
        const bool good = weights_import(b, path, 1, &imported, &f);
        test_says(f.text, name);
        test_refused(good, &f, CODE_DATA, rows[i].part);
        assert_true(same_weights(b, c, true));
        for (size_t k = 0; k < count; k++)
            assert_int_equal(*its[k].value, 0);
    }
    /* a file without counts comes back without them */
    for (size_t i = 0; i < count; i++)
        *mine[i].value = TRAINER_NO_COUNT;
    write_weights(a, from);
    read_weights(b, from, false);
    assert_int_equal(*its[0].value, TRAINER_NO_COUNT);
    write_weights(b, out);
    test_file_same(from, out);
}

/* Counts are written in the order of their names, whatever the model's. */
static void order_of_counts(NO_ROW)
{
    int64_t values[3] = {5, TRAINER_NO_COUNT, 6}, got;
    trainer_count model_counts[3] = {{"b", &values[0]}, {"none", &values[1]}, {"a", &values[2]}};
    const net_model model = {.counts = model_counts, .counts_count = 3};
    const char *path = test_text("%s/w", test_folder());
    TEST_GOOD(weights_export(&model, path, &f));
    const safetensors *s = open_file(path);
    assert_int_equal(s->count, 2);
    for (size_t i = 0; i < 2; i++) {
        assert_string_equal(s->tensors[i].name, i == 0 ? "a" : "b");
        TEST_GOOD(safetensors_read_i64(s, &s->tensors[i], &got, &f));
        assert_int_equal(got, i == 0 ? 6 : 5);
    }
}

int main(void)
{
    test_list list = {0};
    if (!safetensors_readable())
        return TEST_SKIPPED;
    test_add(&list, faults, NULL, "faults of a header");
    test_add(&list, nesting, NULL, "nesting");
    test_add(&list, out_of_memory, NULL, "memory runs out while a header is made");
    test_add(&list, types, NULL, "types, and shorter files");
    test_add(&list, other_files, NULL, "files of other kinds");
    test_add(&list, long_header, NULL, "a header above the limit");
    for (size_t i = 0; i < COUNT_OF(models); i++)
        test_add(&list, round_trip, &models[i], "%s", models[i].type->program);
    for (size_t i = 0; i < COUNT_OF(models); i++)
        test_add(&list, prefixes, &models[i], "names with a prefix, %s", models[i].type->program);
    test_add(&list, gpt_files, NULL, "files of GPT-2");
    test_add(&list, counts, NULL, "counts");
    test_add(&list, order_of_counts, NULL, "order of counts");
    return test_run_on_each_device("safetensors", &list);
}
