/* GGUF files: the elements of each type are those of another decoder (golden/make_golden_gguf.py);
 * values, shapes and the rows of heads; each kind of bad file is refused with a sentence. Whole
 * models: models/test_gguf_model.sh. */
#include <math.h>

#include "support/gguf_text.h"
#include "support/test_fault.h"
#include "support/test_folder.h"
#include "trainer/files/tensors/gguf_file.h"

typedef struct golden_block {
    const char *name;
    uint32_t type;
    unsigned elements, bytes;
    unsigned char block[GGUF_BLOCK_BYTES];
    uint32_t bits[GGUF_BLOCK_ELEMENTS];
} golden_block;

static const golden_block golden[] = {
#include "golden/golden_gguf.inc"
};

static void block_types(NO_ROW)
{
    for (size_t i = 0; i < COUNT_OF(golden); i++) {
        const golden_block *g = &golden[i];
        const gguf_block *b = gguf_block_of(g->type);
        float values[GGUF_BLOCK_ELEMENTS];
        assert_non_null(b);
        assert_string_equal(b->name, g->name);
        assert_true(b->elements == g->elements && b->bytes == g->bytes);
        b->decode(g->block, values);
        for (unsigned k = 0; k < g->elements; k++) {
            float want;
            memcpy(&want, &g->bits[k], sizeof want);
            if (memcmp(&values[k], &want, sizeof want) != 0)
                fail_msg("%s: element %u is %.9g, not %.9g", g->name, k, (double)values[k],
                    (double)want);
        }
    }
}

/* Writes a file of a text, and opens it. */
static bool open_text(const char *folder, const char *text, gguf_file *g, fault *f)
{
    unsigned char bytes[4096];
    char path[TEST_PATH];
    (void)snprintf(path, sizeof path, "%s/file.gguf", folder);
    test_file_write(path, bytes, gguf_text_make(text, bytes, sizeof bytes));
    return gguf_open(path, g, f);
}

/* A number of each type; texts; arrays. */
#define VALUES                                                                                     \
    "s:u8 4:0 1:0xff s:i8 4:1 1:0xff s:u16 4:2 2:0xffff s:i16 4:3 2:0xfffe s:u32 4:4 "             \
    "4:0xffffffff "                                                                                \
    "s:i32 4:5 4:0xfffffffd s:f32 4:6 4:0xbf800000 s:yes 4:7 1:1 s:text 4:8 s:llama "              \
    "s:raw 4:8 8:2 x:0a x:41 s:list 4:9 4:8 8:2 s:a s:bc s:numbers 4:9 4:5 8:3 z:12 "              \
    "s:u64 4:10 8:0x100000000 s:i64 4:11 8:0xfffffffffffffffc s:f64 4:12 8:0x3fe0000000000000 "

static void values(NO_ROW)
{
    static const struct {
        const char *key;
        double want;
    } numbers[] = {{"u8", 255}, {"i8", -1}, {"u16", 65535}, {"i16", -2}, {"u32", 4294967295.0},
        {"i32", -3}, {"f32", -1}, {"yes", 1}, {"u64", 4294967296.0}, {"i64", -4}, {"f64", 0.5}};
    for (unsigned version = 2; version <= 3; version++) {
        gguf_file g;
        fault f = {0};
        test_good(
            open_text(test_folder(), test_text("GGUF 4:%u 8:0 8:15 " VALUES, version), &g, &f), &f);
        for (size_t i = 0; i < COUNT_OF(numbers); i++)
            assert_true(gguf_number(&g, numbers[i].key, 7) == numbers[i].want);
        assert_true(gguf_number(&g, "none", 7) == 7 && isnan(gguf_number(&g, "text", 7)));
        assert_string_equal(gguf_text(&g, "text", "x"), "llama");
        assert_string_equal(gguf_text(&g, "none", "x"), "x");
        assert_null(gguf_text(&g, "raw", "x")); /* a newline */
        assert_null(gguf_text(&g, "u8", "x"));
        const gguf_value *list = gguf_find(&g, "list");
        assert_true(list->kind == GGUF_ARRAY && list->type == 8 && list->count == 2 &&
                    list->end - list->at == 19);
        gguf_close(&g);
    }
}

/* Two tensors, the second one of a type that is not known; the first one's data begin at 8. */
static void tensors(NO_ROW)
{
    static const float want[] = {1, 2, -1, 0.5f, 3, 4};
    float have[6];
    gguf_file g;
    TEST_GOOD(open_text(test_folder(),
        "GGUF 4:3 8:2 8:1 s:general.alignment 4:4 4:8 s:b 4:1 8:7 4:99 8:32 "
        "s:a.b 4:2 8:3 8:2 4:0 8:8 p:8 z:8 4:0x3f800000 4:0x40000000 4:0xbf800000 "
        "4:0x3f000000 4:0x40400000 4:0x40800000",
        &g, &f));
    assert_true(g.count == 2 && gguf_find_tensor(&g, "none") == NULL);
    const gguf_tensor *a = gguf_find_tensor(&g, "a.b");
    assert_true(a == &g.tensors[0] && a->rank == 2 && a->shape[0] == 2 && a->shape[1] == 3);
    TEST_GOOD(gguf_read(&g, a, 0, have, &f));
    assert_memory_equal(have, want, sizeof want);
    TEST_REFUSED(gguf_read(&g, gguf_find_tensor(&g, "b"), 0, have, &f), CODE_DATA, "of type 99");
    TEST_REFUSED(gguf_read(&g, a, 1, (float[6]){0}, &f) && gguf_read(&g, a, 2, have, &f), CODE_DATA,
        "2 rows, which are no 2 heads");
    gguf_close(&g);
}

/* The rows of two heads, as a matrix of several reads at once, and as a vector. */
static void heads(NO_ROW)
{
    enum { ROWS = 12, COLS = 700 };
    static const size_t places[ROWS] = {0, 3, 1, 4, 2, 5, 6, 9, 7, 10, 8, 11};
    static unsigned char bytes[128 + 4 * ROWS * COLS];
    static float have[ROWS * COLS];
    for (size_t vector = 0; vector < 2; vector++) {
        const size_t cols = vector == 1 ? 1 : COLS;
        const char *path = test_text("%s/heads.gguf", test_folder());
        gguf_file g;
        fault f = {0};
        size_t used =
            gguf_text_make(vector == 1 ? "GGUF 4:3 8:1 8:0 s:q 4:1 8:12 4:0 8:0 p:32"
                                       : "GGUF 4:3 8:1 8:0 s:q 4:2 8:700 8:12 4:0 8:0 p:32",
                bytes, sizeof bytes);
        for (size_t i = 0; i < ROWS * cols; i++) {
            const float value = (float)i;
            uint32_t bits;
            memcpy(&bits, &value, sizeof bits);
            for (unsigned k = 0; k < 4; k++)
                bytes[used++] = (unsigned char)(bits >> (8 * k));
        }
        test_file_write(path, bytes, used);
        test_good(gguf_open(path, &g, &f), &f);
        test_good(gguf_read(&g, &g.tensors[0], 2, have, &f), &f);
        for (size_t row = 0; row < ROWS; row++)
            for (size_t k = 0; k < cols; k++)
                assert_true(have[places[row] * cols + k] == (float)(row * cols + k));
        gguf_close(&g);
    }
}

#define TENSOR "s:a 4:1 8:8 4:0 "
#define ONE    "GGUF 4:3 8:1 8:0 "
#define KEY    "GGUF 4:3 8:0 8:1 "

static const struct {
    const char *text, *part;
} bad[] = {
    {"GGU", "shorter than 4 bytes"},
    {"GGML z:60", "no GGUF file"},
    {"GGUF", "ends inside of its header"},
    {"GGUF 4:3 8:0", "ends inside of its header"},
    {"GGUF 4:1 z:60", "of version 1, expected 2 or 3"},
    {"GGUF 4:4 z:60", "of version 4, expected 2 or 3"},
    {"GGUF 4:0x3000000 z:60", "(big-endian?)"},
    {"GGUF 4:3 8:0 8:5 z:60", "says that it has 5 values"},
    {"GGUF 4:3 8:0 8:0xffffffffffffffff z:60", "says that it has 18446744073709551615 values"},
    {"GGUF 4:3 8:0x1000000000000000 8:0 z:60", "says that it has 1152921504606846976 tensors"},
    {KEY "s8:99:key z:60", "a text of 99 bytes, but 63 are left"},
    {KEY "s8:0xffffffffffffffff:key z:60", "a text of 18446744073709551615 bytes"},
    {KEY "8:0 4:4 4:1 z:60", "a key has 0 bytes, expected 1 to 65535"},
    {KEY "8:2 x:c3 x:28 4:4 4:1", "a key is no UTF-8 that can be printed"},
    {KEY "8:2 x:61 x:00 4:4 4:1", "a key is no UTF-8 that can be printed"},
    {KEY "8:2 x:61 x:1b 4:4 4:1", "a key is no UTF-8 that can be printed"},
    {KEY "s:key 4:13 4:1", "key has the unknown type 13"},
    {KEY "s:key 4:10 4:1", "ends inside of its header"},
    {KEY "s:key 4:7 1:2 z:8", "key is true or false, but has the value 2"},
    {KEY "s:key 4:8 s8:9:abc", "a text of 9 bytes, but 3 are left"},
    {KEY "s:key 4:9 4:9 8:1 4:4 8:0", "key is an array of arrays"},
    {KEY "s:key 4:9 4:13 8:1 4:4 8:0", "key is an array of something unknown (type 13)"},
    {KEY "s:key 4:9 4:10 8:3 z:23", "key is an array of 3 elements, but 23 bytes are left"},
    {KEY "s:key 4:9 4:10 8:0x2000000000000000 z:23", "of 2305843009213693952 elements"},
    {KEY "s:key 4:9 4:8 8:0x2000000000000001 z:23", "of 2305843009213693953 elements"},
    {KEY "s:key 4:9 4:8 8:2 s:abcdefgh s8:9:abc", "a text of 9 bytes, but 3 are left"},
    {"GGUF 4:3 8:0 8:2 s:key 4:4 4:1 s:key 4:0 1:1", "key is there twice"},
    {KEY "s:general.alignment 4:4 4:12", "general.alignment is no power of 2"},
    {KEY "s:general.alignment 4:4 4:0", "general.alignment is no power of 2"},
    {KEY "s:general.alignment 4:8 s:32", "general.alignment is no power of 2"},
    {KEY "s:split.count 4:2 2:3", "a part of a model in 3 files"},
    {ONE "8:0 4:1 8:8 4:0 8:0 p:32 z:32", "a name of a tensor has 0 bytes"},
    {ONE "8:1 x:ff 4:1 8:8 4:0 8:0 p:32 z:32", "a name of a tensor is no UTF-8"},
    {ONE "s:a 4:5 8:1 8:1 8:1 8:1 8:1 4:0 8:0", "5 dimensions, expected at most 4"},
    {ONE "s:a 4:2 8:0x100000000 8:0x100000000 4:0 8:0", "number of elements overflows"},
    {ONE "s:a 4:2 8:0x100000000 8:0x40000000 4:0 8:0", "number of bytes overflows"},
    {ONE "s:a 4:1 8:8 4:2 8:0 p:32 z:64", "rows of 8 elements, and is Q4_0, in blocks of 32"},
    {ONE "s:a 4:2 8:128 8:2 4:12 8:0 p:32 z:640", "rows of 128 elements, and is Q4_K"},
    {ONE TENSOR "8:8 p:32 z:64", "begins at byte 8 of the data, no multiple of 32"},
    {ONE TENSOR "8:0 p:32 z:31", "32 bytes from byte 0 of the data on, which has 31"},
    {ONE TENSOR "8:0", "which has 0; is the file whole?"},
    {ONE TENSOR "8:0xffffffffffffffe0 p:32 z:64", "32 bytes from byte 18446744073709551584"},
    {ONE "s:a 4:1 8:8 4:99 8:64 p:32 z:32", "from byte 64 of the data on, which has 32"},
    {ONE TENSOR, "ends inside of its header"},
    {"GGUF 4:3 8:2 8:0 " TENSOR "8:0 " TENSOR "8:32 p:32 z:64", "tensor \"a\": it is there twice"},
    {"GGUF 4:3 8:2 8:0 s:b 4:1 8:9 4:0 8:0 " TENSOR "8:32 p:32 z:64",
        "tensors \"b\" and \"a\" have bytes in common"},
    {"GGUF 4:3 8:2 8:0 s:b 4:1 8:9 4:99 8:32 s:a 4:1 8:16 4:0 8:0 p:32 z:64",
        "tensors \"a\" and \"b\" have bytes in common"},
};

static void bad_files(NO_ROW)
{
    gguf_file g;
    const char *folder = test_folder();
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        TEST_REFUSED(open_text(folder, bad[i].text, &g, &f), CODE_DATA, bad[i].part);
        assert_true(g.stream == NULL && g.tensors == NULL && g.values == NULL);
    }
    TEST_REFUSED(gguf_open(folder, &g, &f), CODE_DATA, "it is a folder");
    TEST_REFUSED(gguf_open(test_text("%s/none", folder), &g, &f), CODE_DATA, "No such file");
    assert_true(!gguf_begins(folder) && !gguf_begins(test_text("%s/none", folder)));
}

/* Each beginning of a file that is good as a whole. */
static void cut_off(NO_ROW)
{
    unsigned char bytes[1024];
    const char *path = test_text("%s/cut.gguf", test_folder());
    const size_t whole =
        gguf_text_make("GGUF 4:3 8:1 8:15 " VALUES TENSOR "8:32 p:32 z:64", bytes, sizeof bytes);
    gguf_file g;
    for (size_t length = 0; length < whole; length++) {
        test_file_write(path, bytes, length);
        TEST_REFUSED(gguf_open(path, &g, &f), CODE_DATA, path);
    }
    test_file_write(path, bytes, whole);
    TEST_GOOD(gguf_open(path, &g, &f));
    gguf_close(&g);
}

int main(void)
{
    test_list list = {0};
    test_add(&list, block_types, NULL, "types of blocks");
    test_add(&list, values, NULL, "values");
    test_add(&list, tensors, NULL, "tensors");
    test_add(&list, heads, NULL, "rows of heads");
    test_add(&list, bad_files, NULL, "bad files");
    test_add(&list, cut_off, NULL, "files that are cut off");
    return test_run_on_host("gguf", &list);
}
