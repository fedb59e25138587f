/* Nets in files: a resumed training has the bits of an uninterrupted one; the bytes of a file are
 * those of PyTorch's; files that are damaged or of another net are refused and change nothing. */
#include "clprune/net_file.h"

#include "net/net_models.h"
#include "support/test_folder.h"

#include <sys/stat.h>

enum { BATCH = 4, SIDE = 6, ROWS = 3, COLS = 32 };

/* ---- resumed training ------------------------------------------------------------------------ */

static void build_images(clprune_net *net, const net_model *model)
{
    const clprune_net_conv conv = {.out = 8, .kernel = {3, 3}, .padding = {1, 1}, .bias = true};
    clprune_net_value x = clprune_net_images(net, 3, model->cols, model->cols);
    x = clprune_net_batch_norm(net, "bn", clprune_net_conv2d(net, "conv", x, &conv));
    x = clprune_net_flatten(net, "flat", clprune_net_relu(net, "relu", x));
    x = clprune_net_gelu(net, "gelu", clprune_net_linear(net, "fc", x, 16));
    clprune_net_cross_entropy(net, clprune_net_linear(net, "head", x, NET_CLASSES));
}

static void build_lora(clprune_net *net, const net_model *model)
{
    static const char *const trained[] = {"*.lora_*", "ln.*"};
    clprune_net_value x = clprune_net_rows(net, model->rows, model->cols);
    clprune_net_lora(net, "fc?", 2, 4);
    x = clprune_net_gelu(net, "gelu", clprune_net_linear(net, "fc1", x, 24));
    x = clprune_net_linear(net, "fc2", clprune_net_layer_norm(net, "ln", x), model->target_cols);
    clprune_net_lora(net, NULL, 0, 0);
    clprune_net_mean_squared_error(net, x);
    clprune_net_train_only(net, trained, 2);
}

static const net_model images = {"images", build_images, 0, SIDE, 0, 0, true, false, 0},
                       lora = {"lora", build_lora, ROWS, COLS, ROWS, 8, false, false, 0};

typedef struct resume_row {
    const char *name;
    const net_model *model;
    clprune_optimizer_desc desc;
    bool none; /* no optimizer in the file */
} resume_row;

#define SGD                                                                                        \
    {                                                                                              \
        .kind = CLPRUNE_OPTIMIZER_SGD, .momentum = 0.9f                                            \
    }
#define ADAMW                                                                                      \
    {                                                                                              \
        .kind = CLPRUNE_OPTIMIZER_ADAMW, .weight_decay = 0.01f                                     \
    }
#define CODED                                                                                      \
    {                                                                                              \
        .kind = CLPRUNE_OPTIMIZER_ADAMW, .state_bits = 8                                           \
    }
static const resume_row resumes[] = {{"images, SGD", &images, SGD, false},
    {"images, SGD without momentum", &images, {.kind = CLPRUNE_OPTIMIZER_SGD}, false},
    {"images, SGD of 8 bits", &images,
        {.kind = CLPRUNE_OPTIMIZER_SGD, .momentum = 0.9f, .state_bits = 8}, false},
    {"images, AdamW", &images, ADAMW, false},
    {"images, LAMB", &images, {.kind = CLPRUNE_OPTIMIZER_LAMB, .weight_decay = 0.01f}, false},
    {"images, AdamW of 8 bits", &images, CODED, false},
    {"images, no optimizer", &images, ADAMW, true},
    {"tied, AdamW", &net_token_models[NET_TIED], ADAMW, false},
    {"tied back, SGD", &net_token_models[NET_TIED_BACK], SGD, false},
    {"llama, AdamW of 8 bits", &net_token_models[NET_LLAMA], CODED, false},
    {"adapters, AdamW", &lora, ADAMW, false}, {"adapters, no optimizer", &lora, ADAMW, true}};

static void train(net_job *job, clprune_optimizer *optimizer, unsigned steps)
{
    for (unsigned i = 0; i < steps; i++) {
        net_step(job, BATCH);
        TEST_OK(clprune_optimizer_step(optimizer, 0.01f, NULL));
    }
}

static void same_mat(const char *name, clprune_mat a, clprune_mat b)
{
    const size_t count = a.rows * a.cols, mark = test_mark();
    float *left = test_floats(count), *right = test_floats(count);
    assert_int_equal(count, b.rows * b.cols);
    TEST_OK(clprune_mat_read(test_context(), a, left));
    TEST_OK(clprune_mat_read(test_context(), b, right));
    if (memcmp(left, right, count * sizeof *left) != 0)
        fail_msg("%s differs", name);
    test_release(mark);
}

/* Fails unless all parameters and states have the same bits. */
static void same_nets(clprune_net *a, clprune_net *b)
{
    clprune_net_weight left, right;
    size_t count;
    for (size_t i = 0; clprune_net_weight_at(a, i, &left); i++) {
        assert_true(clprune_net_weight_at(b, i, &right));
        same_mat(left.name, left.value, right.value);
    }
    const clprune_net_state *states = clprune_net_states(a, &count);
    for (size_t i = 0; i < count; i++)
        same_mat(states[i].name, states[i].mat, clprune_net_states(b, &count)[i].mat);
}

static void resumed(void **state)
{
    const resume_row *r = *state;
    const char *path = test_text("%s/net.safetensors", test_folder());
    net_job one = net_open(test_context(), r->model, BATCH, NULL);
    net_job two = net_open(test_context(), r->model, BATCH, NULL);
    clprune_optimizer *first = test_new_optimizer(test_context(), r->desc, one.count, one.params);
    clprune_optimizer *second = test_new_optimizer(test_context(), r->desc, two.count, two.params);
    TEST_OK(clprune_net_init(two.net, 99));
    train(&one, first, 2);
    TEST_OK(clprune_net_save(one.net, r->none ? NULL : first, path));
    TEST_OK(clprune_net_load(two.net, r->none ? NULL : second, path));
    same_nets(one.net, two.net);
    if (r->none)
        return;
    assert_int_equal(clprune_optimizer_steps(second), 2);
    train(&one, first, 2);
    train(&two, second, 2);
    same_nets(one.net, two.net);
    TEST_OK(clprune_net_forward(two.net, &two.data, true));
    TEST_OK(clprune_net_loss(two.net, &two.data, two.loss, CLPRUNE_NO_MAT));
    TEST_OK(clprune_net_load(two.net, NULL, path)); /* the state of an optimizer may be left */
    TEST_FAILS(clprune_net_backward(two.net, &two.data), CLPRUNE_INVALID_ARGUMENT, NULL);
}

/* ---- bytes ----------------------------------------------------------------------------------- */

static void build_order(clprune_net *net, const net_model *model)
{
    const clprune_net_conv conv = {.out = 2, .kernel = {1, 2}};
    clprune_net_value x = clprune_net_conv2d(net, "c", clprune_net_pixels(net, 3, 1, 4), &conv);
    x = clprune_net_linear(net, "fc", clprune_net_flatten(net, "f", x), model->target_cols);
    clprune_net_mean_squared_error(net, x);
}
static const net_model order = {"order", build_order, 4, 3, 1, 1, false, false, 0};

/* What safetensors.torch.save_file writes for the two modules, Conv2d(3, 2, (1, 2), bias=False) and
 * Linear(6, 1), with metadata {"format": "pt"}. */
static const char order_header[] =
    "{\"__metadata__\":{\"format\":\"pt\"},"
    "\"c.weight\":{\"dtype\":\"F32\",\"shape\":[2,3,1,2],\"data_offsets\":[0,48]},"
    "\"fc.bias\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[48,52]},"
    "\"fc.weight\":{\"dtype\":\"F32\",\"shape\":[1,6],\"data_offsets\":[52,76]}}";
static const float order_values[] = {
    0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18};

static clprune_net *open_net(const net_model *model)
{
    return net_open(test_context(), model, BATCH, NULL).net;
}

static clprune_mat value_of(clprune_net *net, const char *name)
{
    clprune_net_weight weight;
    assert_true(clprune_net_weight_of(net, name, &weight));
    return weight.value;
}

/* Writes a file: the length, a header, spaces up to a multiple of 8 if it is `padded`, data. */
static void put_file(
    const char *path, const char *header, bool padded, const void *data, size_t bytes)
{
    const size_t length = strlen(header), all = padded ? (length + 7) / 8 * 8 : length;
    unsigned char *file = test_alloc(8 + all + bytes + 1);
    memset(file, ' ', 8 + all);
    for (unsigned i = 0; i < 8; i++)
        file[i] = (unsigned char)(all >> (8 * i));
    memcpy(file + 8, header, length);
    memcpy(file + 8 + all, data, bytes);
    test_file_write(path, file, 8 + all + bytes);
}

static void bytes(NO_ROW)
{
    static const float conv[] = {0, 2, 4, 1, 3, 5, 6, 8, 10, 7, 9, 11}, bias[] = {12},
                       fc[] = {13, 16, 14, 17, 15, 18};
    const char *folder = test_folder(), *path = test_text("%s/a", folder),
               *want = test_text("%s/b", folder);
    clprune_net *net = open_net(&order), *read = open_net(&order);
    TEST_OK(clprune_mat_write(test_context(), value_of(net, "c.weight"), conv));
    TEST_OK(clprune_mat_write(test_context(), value_of(net, "fc.bias"), bias));
    TEST_OK(clprune_mat_write(test_context(), value_of(net, "fc.weight"), fc));
    put_file(path, "another file", false, "", 0); /* which is replaced */
    TEST_OK(clprune_net_save(net, NULL, path));
    put_file(want, order_header, true, order_values, sizeof order_values);
    test_file_same(path, want);
    TEST_OK(clprune_net_load(read, NULL, path));
    same_nets(net, read);
    assert_int_equal(test_folder_count(folder, NULL), 2);
}

/* ---- files that are read --------------------------------------------------------------------- */

static void build_tiny(clprune_net *net, const net_model *model)
{
    const clprune_net_value x = clprune_net_rows(net, model->rows, model->cols);
    clprune_net_mean_squared_error(net, clprune_net_linear(net, "a", x, 1));
}
static const net_model tiny = {"tiny", build_tiny, 1, 2, 1, 1, false, false, 0};

#define BIAS   "\"a.bias\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}"
#define WEIGHT "\"a.weight\":{\"dtype\":\"F32\",\"shape\":[1,2],\"data_offsets\":[4,12]}"
#define OTHER(name, shape, from, to)                                                               \
    "\"" name "\":{\"dtype\":\"F32\",\"shape\":" shape ",\"data_offsets\":[" #from "," #to "]}"

typedef struct good_row {
    const char *name, *header;
    const unsigned char *data;
    size_t bytes;
    float bias, weight[2];
} good_row;

/* 1, -2, 0.5 in each type; then fp16's smallest and an infinity. */
static const unsigned char f32[] = {0, 0, 0x80, 0x3f, 0, 0, 0, 0xc0, 0, 0, 0, 0x3f, 9, 9, 9, 9},
                           f16[] = {0, 0x3c, 0, 0xc0, 0, 0x38}, edge[] = {0, 0x7c, 1, 0x80, 1, 4},
                           bf16[] = {0x80, 0x3f, 0, 0xc0, 0, 0x3f};
#define NARROW(type)                                                                               \
    "{\"a.bias\":{\"dtype\":\"" type "\",\"shape\":[1],\"data_offsets\":[0,2]},"                   \
    "\"a.weight\":{\"dtype\":\"" type "\",\"shape\":[1,2],\"data_offsets\":[2,6]}}"

static const good_row goods[] = {{"plain", "{" BIAS "," WEIGHT "}", f32, 12, 1, {-2, 0.5f}},
    {"turned around", "{" WEIGHT "," BIAS "}", f32, 12, 1, {-2, 0.5f}},
    {"white space", "{ \t" BIAS " ,\r\n" WEIGHT " } \n", f32, 12, 1, {-2, 0.5f}},
    {"metadata", "{\"__metadata__\":{\"a\\n\\ud83d\\ude00\":\"\\u00e4\"}," BIAS "," WEIGHT "}", f32,
        12, 1, {-2, 0.5f}},
    {"no metadata", "{\"__metadata__\":{}," BIAS "," WEIGHT "}", f32, 12, 1, {-2, 0.5f}},
    {"escaped names",
        "{" OTHER("\\u0061.bi\\u0061s", "[1]", 0, 4) "," OTHER(
            "a.w\\u0065ight", "[1,2]", 4, 12) "}",
        f32, 12, 1, {-2, 0.5f}},
    {"sizes of 1", "{" OTHER("a.bias", "[]", 0, 4) "," OTHER("a.weight", "[1,2,1]", 4, 12) "}", f32,
        12, 1, {-2, 0.5f}},
    {"another tensor", "{" BIAS "," WEIGHT "," OTHER("b", "[1]", 12, 16) "}", f32, 16, 1,
        {-2, 0.5f}},
    {"an empty tensor", "{" BIAS "," WEIGHT "," OTHER("b", "[0,3]", 12, 12) "}", f32, 12, 1,
        {-2, 0.5f}},
    {"an unknown type",
        "{" BIAS "," WEIGHT ",\"b\":{\"dtype\":\"F4\",\"shape\":[5],\"data_offsets\":[12,15]}}",
        f32, 15, 1, {-2, 0.5f}},
    {"F16", NARROW("F16"), f16, 6, 1, {-2, 0.5f}}, {"BF16", NARROW("BF16"), bf16, 6, 1, {-2, 0.5f}},
    {"edges of F16", NARROW("F16"), edge, 6, INFINITY, {-0x1p-24f, 0x1.004p-14f}}};

static void accepted(void **state)
{
    const good_row *r = *state;
    const char *path = test_text("%s/net", test_folder());
    clprune_net *net = open_net(&tiny);
    float values[2];
    put_file(path, r->header, false, r->data, r->bytes);
    TEST_OK(clprune_net_load(net, NULL, path));
    TEST_OK(clprune_mat_read(test_context(), value_of(net, "a.bias"), values));
    assert_true(values[0] == r->bias);
    TEST_OK(clprune_mat_read(test_context(), value_of(net, "a.weight"), values));
    assert_true(values[0] == r->weight[0] && values[1] == r->weight[1]);
}

typedef struct bad_row {
    const char *name, *header;
    size_t bytes;
    const char *part;
    bool optimizer;
} bad_row;

#define NOTES(text) "{\"__metadata__\":{" text "}," BIAS "," WEIGHT "}"
static const bad_row bads[] = {{"empty header", "", 0, "does not begin with {", false},
    {"a list", "[]", 0, "does not begin with {", false},
    {"a space first", " {" BIAS "," WEIGHT "}", 12, "does not begin with {", false},
    {"cut off", "{" BIAS "," WEIGHT, 12, "no } at byte", false},
    {"cut off in a name", "{" BIAS ",\"a.wei", 4, "ends within a string", false},
    {"a comma too many", "{" BIAS "," WEIGHT ",}", 12, "no string at byte", false},
    {"a comma too few", "{" BIAS WEIGHT "}", 12, "no } at byte", false},
    {"more behind it", "{" BIAS "," WEIGHT "} x", 12, "no end at byte", false},
    {"a name twice", "{" BIAS "," WEIGHT "," OTHER("a.bias", "[1]", 12, 16) "}", 16,
        "\"a.bias\" is there twice", false},
    {"a name twice, escaped", "{" BIAS "," WEIGHT "," OTHER("a.b\\u0069as", "[1]", 12, 16) "}", 16,
        "\"a.bias\" is there twice", false},
    {"metadata twice", "{\"__metadata__\":{},\"__metadata__\":{}," BIAS "," WEIGHT "}", 12,
        "\"__metadata__\" twice", false},
    {"a key twice", NOTES("\"x\":\"1\",\"x\":\"2\""), 12, "\"x\" twice", false},
    {"a number as metadata", NOTES("\"x\":1"), 12, "no string at byte", false},
    {"an unknown escape", NOTES("\"\\x\":\"1\""), 12, "no escape of JSON", false},
    {"a short escape", NOTES("\"\\u12\":\"1\""), 12, "no hexadecimal digit", false},
    {"half a pair", NOTES("\"\\ud83d\":\"1\""), 12, "no character in its \\u", false},
    {"a wrong pair", NOTES("\"\\ud83d\\u0041\":\"1\""), 12, "no second half of a pair", false},
    {"an escaped 0", NOTES("\"\\u0000\":\"1\""), 12, "no character in its \\u", false},
    {"a control character", NOTES("\"\n\":\"1\""), 12, "no valid UTF-8", false},
    {"a byte that is no UTF-8", NOTES("\"\xff\":\"1\""), 12, "no valid UTF-8", false},
    {"overlong UTF-8", NOTES("\"\xc0\xaf\":\"1\""), 12, "no valid UTF-8", false},
    {"a surrogate in UTF-8", NOTES("\"\xed\xa0\x80\":\"1\""), 12, "no valid UTF-8", false},
    {"UTF-8 that is cut off", NOTES("\"\xe2\x82\":\"1\""), 12, "no valid UTF-8", false},
    {"no object", "{" BIAS ",\"a.weight\":5}", 12, "no { at byte", false},
    {"no dtype", "{" BIAS ",\"a.weight\":{\"shape\":[1,2],\"data_offsets\":[4,12]}}", 12,
        "\"a.weight\" has no dtype", false},
    {"no shape", "{" BIAS ",\"a.weight\":{\"dtype\":\"F32\",\"data_offsets\":[4,12]}}", 12,
        "\"a.weight\" has no shape", false},
    {"no offsets", "{" BIAS ",\"a.weight\":{\"dtype\":\"F32\",\"shape\":[1,2]}}", 12,
        "\"a.weight\" has no data_offsets", false},
    {"a field twice",
        "{" BIAS ",\"a.weight\":{\"dtype\":\"F32\",\"dtype\":\"F32\",\"shape\":[1,2],"
        "\"data_offsets\":[4,12]}}",
        12, "its \"dtype\" is there twice", false},
    {"an unknown field",
        "{" BIAS ",\"a.weight\":{\"type\":\"F32\",\"shape\":[1,2],\"data_offsets\":[4,12]}}", 12,
        "its \"type\" is not expected", false},
    {"three offsets",
        "{" BIAS ",\"a.weight\":{\"dtype\":\"F32\",\"shape\":[1,2],\"data_offsets\":[4,12,12]}}",
        12, "no ] at byte", false},
    {"a negative size", "{" BIAS "," OTHER("a.weight", "[-1,2]", 4, 12) "}", 12, "no size at byte",
        false},
    {"a fraction", "{" BIAS "," OTHER("a.weight", "[1,2.0]", 4, 12) "}", 12, "no ] at byte", false},
    {"a leading 0", "{" BIAS "," OTHER("a.weight", "[1,02]", 4, 12) "}", 12, "no size at byte",
        false},
    {"a number above 64 bits", "{" BIAS "," OTHER("a.weight", "[18446744073709551616]", 4, 12) "}",
        12, "no number of 64 bits", false},
    {"elements above 64 bits", "{" BIAS "," OTHER("a.weight", "[4294967296,4294967296]", 4, 12) "}",
        12, "elements overflow 64 bits", false},
    {"bytes above 64 bits", "{" BIAS "," OTHER("a.weight", "[4611686018427387906]", 4, 12) "}", 12,
        "elements of F32, but 8 bytes", false},
    {"more shape than data", "{" BIAS "," OTHER("a.weight", "[1,3]", 4, 12) "}", 12,
        "3 elements of F32, but 8 bytes", false},
    {"offsets turned around", "{" BIAS "," OTHER("a.weight", "[1,2]", 12, 4) "}", 12,
        "bytes 12 to 4 of the data", false},
    {"data outside", "{" BIAS "," OTHER("a.weight", "[1,2]", 8, 16) "}", 12,
        "bytes 8 to 16 of the data, which have 12", false},
    {"an overlap", "{" BIAS "," OTHER("a.weight", "[1,2]", 0, 8) "}", 8, "begins at byte 0", false},
    {"a hole", "{" BIAS "," OTHER("a.weight", "[1,2]", 8, 16) "}", 16, "begins at byte 8", false},
    {"data too short", "{" BIAS "," WEIGHT "}", 11, "which have 11", false},
    {"data too long", "{" BIAS "," WEIGHT "}", 13, "have 12 bytes, its data 13", false},
    {"a missing tensor", "{" BIAS "}", 4,
        "has no tensor \"a.weight\", expected F32, F16 or BF16 of 1 x 2", false},
    {"nothing", "{}", 0, "has no tensor \"a.bias\"", false},
    {"another shape", "{" BIAS "," OTHER("a.weight", "[1,3]", 4, 16) "}", 16,
        "\"a.weight\" is F32 of 1 x 3, expected F32, F16 or BF16 of 1 x 2", false},
    {"a shape of many sizes", "{" BIAS "," OTHER("a.weight", "[1,1,1,1,1,1,1,1,1,1,2]", 4, 12) "}",
        12, "1 x 1 x ..., expected", false},
    {"another type",
        "{" BIAS ",\"a.weight\":{\"dtype\":\"I32\",\"shape\":[1,2],\"data_offsets\":[4,12]}}", 12,
        "\"a.weight\" is I32 of 1 x 2", false},
    {"no optimizer", "{" BIAS "," WEIGHT "}", 12, "no state of an optimizer, expected that of sgd",
        true},
    {"another optimizer", NOTES("\"optimizer\":\"adamw\",\"optimizer.steps\":\"1\""), 12,
        "optimizer \"adamw\", expected \"sgd\"", true},
    {"no steps", NOTES("\"optimizer\":\"sgd\""), 12, "expected a number of 64 bits", true},
    {"steps that are none", NOTES("\"optimizer\":\"sgd\",\"optimizer.steps\":\"-1\""), 12,
        "\"optimizer.steps\" \"-1\"", true},
    {"steps above 64 bits",
        NOTES("\"optimizer\":\"sgd\",\"optimizer.steps\":\"18446744073709551616\""), 12,
        "expected a number of 64 bits", true},
    {"no state", NOTES("\"optimizer\":\"sgd\",\"optimizer.steps\":\"1\""), 12,
        "has no tensor \"optimizer.a.bias.v\"", true}};

/* A net with an optimizer that has taken a step, and a copy of both. */
typedef struct held {
    net_job job, copy;
    clprune_optimizer *optimizer, *copied;
} held;

static held hold(void)
{
    const clprune_optimizer_desc desc = SGD;
    held h = {net_open(test_context(), &tiny, BATCH, NULL),
        net_open(test_context(), &tiny, BATCH, NULL), NULL, NULL};
    h.optimizer = test_new_optimizer(test_context(), desc, h.job.count, h.job.params);
    h.copied = test_new_optimizer(test_context(), desc, h.copy.count, h.copy.params);
    train(&h.job, h.optimizer, 1);
    train(&h.copy, h.copied, 1);
    return h;
}

/* Fails unless nothing has changed: the next step has the same bits, too. */
static void check_held(held *h)
{
    assert_int_equal(clprune_optimizer_steps(h->optimizer), 1);
    same_nets(h->job.net, h->copy.net);
    train(&h->job, h->optimizer, 1);
    train(&h->copy, h->copied, 1);
    same_nets(h->job.net, h->copy.net);
}

static void refused(void **state)
{
    const bad_row *r = *state;
    const char *path = test_text("%s/bad.safetensors", test_folder());
    held h = hold();
    put_file(path, r->header, false, f32, r->bytes);
    TEST_FAILS(clprune_net_load(h.job.net, r->optimizer ? h.optimizer : NULL, path),
        CLPRUNE_INVALID_ARGUMENT, r->part);
    test_says(clprune_last_error(test_context()), "bad.safetensors");
    check_held(&h);
}

/* What is no such file at all. */
static void no_file(NO_ROW)
{
    static const unsigned char large[10] = {3, 0, 0, 0, 0, 0, 0, 0, '{', '}'},
                               larger[10] = {1, 0, 0, 0, 0, 0, 0, 0x80, '{', '}'};
    const char *folder = test_folder(), *path = test_text("%s/file", folder),
               *fifo = test_text("%s/fifo", folder);
    const clprune_status bad = CLPRUNE_INVALID_ARGUMENT;
    held h = hold();
    clprune_net *net = h.job.net;
    TEST_FAILS(clprune_net_load(net, NULL, path), bad, "No such file");
    TEST_FAILS(clprune_net_load(net, NULL, folder), bad, "no regular file");
    assert_int_equal(mkfifo(fifo, 0600), 0);
    TEST_FAILS(clprune_net_load(net, NULL, fifo), bad, "no regular file");
    for (size_t size = 0; size < 8; size++) {
        test_file_write(path, large, size);
        TEST_FAILS(clprune_net_load(net, NULL, path), bad, "a safetensors file has at least 10");
    }
    test_file_write(path, large, sizeof large);
    TEST_FAILS(clprune_net_load(net, NULL, path), bad, "a header of 3 bytes, but 10");
    test_file_write(path, larger, sizeof larger);
    TEST_FAILS(clprune_net_load(net, NULL, path), bad, "a header of 9223372036854775809 bytes");
    check_held(&h);
}

/* ---- arguments ------------------------------------------------------------------------------- */

static void arguments(NO_ROW)
{
    const clprune_status bad = CLPRUNE_INVALID_ARGUMENT;
    const char *folder = test_folder(), *path = test_text("%s/net", folder);
    clprune_context *other = test_open((clprune_context_options){0});
    const clprune_optimizer_desc desc = SGD;
    held h = hold();
    clprune_net *net = h.job.net, *fresh;
    assert_int_equal(clprune_net_save(NULL, NULL, path), bad);
    assert_int_equal(clprune_net_load(NULL, NULL, path), bad);
    TEST_FAILS(clprune_net_save(net, NULL, NULL), bad, "path is NULL");
    TEST_FAILS(clprune_net_load(net, NULL, NULL), bad, "path is NULL");
    TEST_FAILS(clprune_net_save(net, NULL, ""), bad, "path is empty");
    TEST_FAILS(clprune_net_load(net, NULL, ""), bad, "path is empty");
    TEST_FAILS(clprune_net_save(net, h.copied, path), bad, "is no parameter of the net");
    TEST_FAILS(clprune_net_load(net, h.copied, path), bad, "is no parameter of the net");
    net_job foreign = net_open(other, &tiny, BATCH, NULL);
    clprune_optimizer *far = test_new_optimizer(other, desc, foreign.count, foreign.params);
    TEST_FAILS(clprune_net_save(net, far, path), bad, "optimizer");
    TEST_FAILS(clprune_net_load(net, far, path), bad, "optimizer");
    TEST_OK(clprune_net_create(test_context(), &(clprune_net_desc){.batch = 1}, &fresh));
    TEST_FAILS(clprune_net_save(fresh, NULL, path), bad, "not settled");
    TEST_FAILS(clprune_net_load(fresh, NULL, path), bad, "not settled");
    build_tiny(fresh, &tiny);
    TEST_OK(clprune_net_settle(fresh, NULL));
    TEST_FAILS(clprune_net_save(fresh, NULL, path), bad, "has no values");
    TEST_OK(clprune_net_save(net, NULL, path));
    TEST_OK(clprune_net_load(fresh, NULL, path)); /* in place of clprune_net_init */
    same_nets(net, fresh);
    clprune_net_destroy(fresh);
    clprune_context *dry = test_open_dry(NULL, &(clprune_context_options){0});
    net_job planned = net_open(dry, &tiny, BATCH, NULL);
    TEST_FAILS_IN(dry, clprune_net_save(planned.net, NULL, path), CLPRUNE_UNSUPPORTED, "dry");
    TEST_OK(clprune_net_load(planned.net, NULL, path)); /* part of a plan, as other writes are */
    assert_int_equal(test_folder_count(folder, NULL), 1);
    check_held(&h);
}

/* Where a file cannot be written, what is there stays, and nothing beside it. */
static void unwritable(NO_ROW)
{
    const char *folder = test_folder(), *taken = test_text("%s/taken", folder),
               *inside = test_text("%s/taken/file", folder);
    held h = hold();
    assert_int_equal(mkdir(taken, 0700), 0);
    test_file_write(inside, "x", 1);
    TEST_FAILS(clprune_net_save(h.job.net, NULL, taken), CLPRUNE_INVALID_ARGUMENT,
        "taken cannot be written");
    TEST_FAILS(clprune_net_save(h.job.net, NULL, test_text("%s/none/file", folder)),
        CLPRUNE_INVALID_ARGUMENT, "No such file");
    assert_int_equal(test_folder_count(folder, NULL), 1);
    check_held(&h);
}

int main(void)
{
    test_list list = {0};
    TEST_ADD_EACH(&list, resumed, resumes, "resumed: %s");
    test_add(&list, bytes, NULL, "bytes");
    TEST_ADD_EACH(&list, accepted, goods, "read: %s");
    TEST_ADD_EACH(&list, refused, bads, "refused: %s");
    test_add(&list, no_file, NULL, "no such file");
    test_add(&list, arguments, NULL, "arguments");
    test_add(&list, unwritable, NULL, "unwritable");
    return test_run_on_devices("net files", &list);
}
