/* BSR: sizes, the paper's Table II, packing, unpacking, validation. */
#include <float.h>

#include "support/test_folder.h"
#include "support/test_index.h"
#include "support/test_objects.h"
#include "support/test_shapes.h"

/* Table II of arXiv 2311.16883: memory beyond the ideal 1 - s, in percent of the dense size, of one
 * 196 x 384 matrix with blocks of 1 x b. */
static const size_t paper_blocks[8] = {1, 4, 8, 16, 32, 64, 128, 384};
static const double paper_overhead[6][8] = {
    {100.26, 25.26, 12.76, 6.51, 3.39, 1.82, 1.04, 0.52},
    {80.26, 20.26, 10.26, 5.26, 2.78, 1.53, 0.82, 0.57},
    {60.26, 15.26, 7.76, 4.00, 2.13, 1.23, 0.76, 0.62},
    {40.26, 10.26, 5.26, 2.77, 1.52, 0.85, 0.54, 0.16},
    {20.26, 5.26, 2.77, 1.52, 0.87, 0.56, 0.49, 0.21},
    {0.26, 0.26, 0.26, 0.26, 0.26, 0.26, 0.26, 0.26},
};

static void table_two(NO_ROW)
{
    static const float sparsity[6] = {0.0f, 0.2f, 0.4f, 0.6f, 0.8f, 1.0f};
    for (int s = 0; s < 6; s++)
        for (int b = 0; b < 8; b++) {
            const size_t blocks = 196 * (384 / paper_blocks[b]);
            const clprune_bsr_desc desc = {
                1, 196, 384, {1, paper_blocks[b]}, clprune_keep_count(blocks, sparsity[s])};
            clprune_bsr_sizes sizes;
            TEST_OK(clprune_bsr_size_query(&desc, &sizes));
            assert_int_equal(sizes.blocks, blocks);
            const double share = (double)sizes.total_bytes / (double)sizes.dense_bytes;
            const double overhead = 100 * (share - (1 - 0.2 * s));
            if (!(fabs(overhead - paper_overhead[s][b]) <= 0.005 + 1e-9))
                fail_msg("s = %d %%, b = %zu: %.4f %%, the paper has %.2f %%", 20 * s,
                    paper_blocks[b], overhead, paper_overhead[s][b]);
        }
}

static void check_keep(size_t blocks, float sparsity, uint64_t numerator, uint64_t denominator)
{
    const size_t got = clprune_keep_count(blocks, sparsity);
    const size_t want = bsr_ref_keep_count(blocks, numerator, denominator);
    if (got != want)
        fail_msg("keep_count(%zu, %.9g) is %zu, expected %zu", blocks, (double)sparsity, got, want);
}

static void keep_counts(NO_ROW)
{
    for (size_t blocks = 0; blocks <= 500; blocks++)
        for (uint64_t i = 0; i <= 1000; i += blocks <= 100 ? 1 : 50)
            check_keep(blocks, (float)((double)i / 1000), i, 1000);
    test_rng rng = {5};
    for (int i = 0; i < 20000; i++) {
        const uint64_t parts = test_rng_below(&rng, 100001);
        const size_t blocks = test_rng_below(&rng, (size_t)1 << 31);
        check_keep(blocks, (float)((double)parts / 100000), parts, 100000);
    }
    /* Ties are rounded up, so one block less is kept. */
    assert_int_equal(clprune_keep_count(1, 0.5f), 0);
    assert_int_equal(clprune_keep_count(5, 0.5f), 2);
    assert_int_equal(clprune_keep_count(5, 0.7f), 1);
    assert_int_equal(clprune_keep_count(15, 0.7f), 4);
}

/* Floats whose shortest decimal has more digits. */
static void keep_counts_of_long_decimals(NO_ROW)
{
    static const struct {
        float sparsity;
        uint64_t numerator, denominator;
    } rows[] = {
        {0.3333333f, 3333333, 10000000},
        {0.33333334f, 33333334, 100000000},
        {0.99999994f, 99999994, 100000000},
        {0.9999999f, 9999999, 10000000},
        {1e-7f, 1, 10000000},
        {1.5e-8f, 15, 1000000000},
        {1e-20f, 0, 1},
        {FLT_TRUE_MIN, 0, 1},
    };
    static const size_t blocks[] = {1, 2, 196 * 384, 10000000, 99999999, ((size_t)1 << 31) - 1};
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        for (size_t j = 0; j < COUNT_OF(blocks); j++)
            check_keep(blocks[j], rows[i].sparsity, rows[i].numerator, rows[i].denominator);
}

static void keep_counts_outside(NO_ROW)
{
    static const float outside[] = {
        -0.001f, -1, 1.0000001f, 1.5f, 1e30f, INFINITY, -INFINITY, NAN, -NAN};
    for (size_t i = 0; i < COUNT_OF(outside); i++) {
        assert_int_equal(clprune_keep_count(100, outside[i]), 100);
        assert_int_equal(clprune_keep_count(SIZE_MAX, outside[i]), SIZE_MAX);
    }
    assert_int_equal(clprune_keep_count(SIZE_MAX, 0.0f), SIZE_MAX);
    assert_int_equal(clprune_keep_count(SIZE_MAX, -0.0f), SIZE_MAX);
    assert_int_equal(clprune_keep_count(SIZE_MAX, 1.0f), 0);
    assert_int_equal(clprune_keep_count(0, 0.5f), 0);
}

/* Descriptors that must be refused, or whose sizes are at the edge of what fits. */
typedef struct size_row {
    const char *name;
    clprune_bsr_desc desc;
    clprune_status status;
    size_t dense_bytes;
} size_row;

#define TWO(n) ((size_t)1 << (n))

static const size_row size_rows[] = {
    {"empty batch", {0, 4, 4, {1, 4}, 1}, CLPRUNE_SUCCESS, 0},
    {"no rows", {3, 0, 4, {1, 4}, 0}, CLPRUNE_SUCCESS, 0},
    {"no columns", {3, 4, 0, {1, 4}, 0}, CLPRUNE_SUCCESS, 0},
    {"block beyond the matrix", {2, 3, 5, {100, 100}, 1}, CLPRUNE_SUCCESS, 120},
    {"block of 0 rows", {1, 4, 4, {0, 4}, 0}, CLPRUNE_INVALID_ARGUMENT, 0},
    {"block of 0 columns", {1, 4, 4, {1, 0}, 0}, CLPRUNE_INVALID_ARGUMENT, 0},
    {"keep one too many", {1, 4, 4, {1, 4}, 5}, CLPRUNE_INVALID_ARGUMENT, 0},
    {"keep SIZE_MAX", {1, 4, 4, {1, 4}, SIZE_MAX}, CLPRUNE_INVALID_ARGUMENT, 0},
    {"keep in no blocks", {1, 0, 4, {1, 4}, 1}, CLPRUNE_INVALID_ARGUMENT, 0},
    {"2^31 - 1 blocks", {1, 1, TWO(31) - 1, {1, 1}, 7}, CLPRUNE_SUCCESS, 4 * (TWO(31) - 1)},
    {"2^31 blocks", {1, TWO(16), TWO(15), {1, 1}, 0}, CLPRUNE_SIZE_OVERFLOW, 0},
    {"2^31 blocks in a row", {1, 1, TWO(31), {1, 1}, 0}, CLPRUNE_SIZE_OVERFLOW, 0},
    {"2^31 block rows", {1, TWO(31), 1, {1, 1}, 0}, CLPRUNE_SIZE_OVERFLOW, 0},
    {"2^32 elements", {1, TWO(16), TWO(16), {1, 64}, TWO(10)}, CLPRUNE_SUCCESS, TWO(34)},
    {"2^63 elements", {TWO(31), TWO(16), TWO(16), {1, 64}, 0}, CLPRUNE_SIZE_OVERFLOW, 0},
    {"2^64 blocks", {1, TWO(32), TWO(32), {1, 1}, 0}, CLPRUNE_SIZE_OVERFLOW, 0},
    {"rows SIZE_MAX", {1, SIZE_MAX, 1, {1, 1}, 0}, CLPRUNE_SIZE_OVERFLOW, 0},
    {"columns SIZE_MAX", {1, 1, SIZE_MAX, {1, 1}, 0}, CLPRUNE_SIZE_OVERFLOW, 0},
    {"batch SIZE_MAX", {SIZE_MAX, 4, 4, {1, 4}, 1}, CLPRUNE_SIZE_OVERFLOW, 0},
    {"a reserved field", {1, 4, 4, {1, 4}, 1, .reserved = {0, 1}}, CLPRUNE_INVALID_ARGUMENT, 0},
    {"2^30 elements in a block", {1, 4, 4, {TWO(15), TWO(15)}, 1}, CLPRUNE_SUCCESS, 64},
    {"more", {1, 4, 4, {TWO(15), TWO(15) + 1}, 1}, CLPRUNE_SIZE_OVERFLOW, 0},
    {"2^32 elements in a row", {1, 4, 4, {1, TWO(32)}, 1}, CLPRUNE_SIZE_OVERFLOW, 0},
    {"2^64 elements in a block", {1, 4, 4, {TWO(32), TWO(32)}, 0}, CLPRUNE_SIZE_OVERFLOW, 0},
    {"block SIZE_MAX", {1, 4, 4, {1, SIZE_MAX}, 1}, CLPRUNE_SIZE_OVERFLOW, 0},
};

static void size_query(void **state)
{
    const size_row *row = *state;
    const clprune_bsr_desc *d = &row->desc;
    clprune_bsr_sizes sizes;
    memset(&sizes, 0x5A, sizeof sizes);
    if (row->status != CLPRUNE_SUCCESS) {
        TEST_FAILS_IN(NULL, clprune_bsr_size_query(d, &sizes), row->status, NULL);
        return;
    }
    TEST_OK(clprune_bsr_size_query(d, &sizes));
    assert_int_equal(sizes.dense_bytes, row->dense_bytes);
    assert_int_equal(sizes.blocks, sizes.block_rows * sizes.block_cols);
    assert_int_equal(sizes.col_bytes, 4 * d->batch * d->keep);
    assert_int_equal(sizes.crow_bytes, 4 * d->batch * (sizes.block_rows + 1));
    assert_int_equal(sizes.values_bytes, 4 * d->batch * d->keep * d->block.rows * d->block.cols);
    assert_int_equal(sizes.total_bytes, sizes.values_bytes + sizes.crow_bytes + sizes.col_bytes);
}

static void size_query_nulls(NO_ROW)
{
    const clprune_bsr_desc desc = {1, 1, 1, {1, 1}, 1};
    clprune_bsr_sizes sizes;
    assert_int_equal(clprune_bsr_size_query(NULL, &sizes), CLPRUNE_INVALID_ARGUMENT);
    assert_int_equal(clprune_bsr_size_query(&desc, NULL), CLPRUNE_INVALID_ARGUMENT);
}

/* Bytes of crow, col and bitmap, and which index type is the smallest. */
typedef struct part_row {
    clprune_bsr_desc desc;
    size_t crow, col, bitmap;
    clprune_index_type smallest;
} part_row;

static const part_row part_rows[] = {
    {{3, 196, 384, {1, 16}, 1411}, 2364, 16932, 1764, CLPRUNE_INDEX_BITMAP},
    {{0, 196, 384, {1, 16}, 1411}, 0, 0, 0, CLPRUNE_INDEX_BITMAP}, /* as any batch */
    {{2, 3, 15, {1, 4}, 5}, 32, 40, 4, CLPRUNE_INDEX_BITMAP},
    {{1, 1, 65537, {1, 1}, 3}, 8, 12, 8193, CLPRUNE_INDEX_INT32},
    {{1, 1, 64, {1, 1}, 0}, 8, 0, 8, CLPRUNE_INDEX_INT32}, /* equal */
    {{1, 1, 88, {1, 1}, 1}, 8, 4, 11, CLPRUNE_INDEX_BITMAP},
    {{1, 1, 96, {1, 1}, 1}, 8, 4, 12, CLPRUNE_INDEX_INT32}, /* equal */
    {{2, 0, 4, {1, 4}, 0}, 8, 0, 0, CLPRUNE_INDEX_BITMAP},
};

enum { VALUE_TYPES = CLPRUNE_VALUES_INT4 + 1 };

/* Every value type with every index type, SMALLEST among them. */
static void part_sizes(void **state)
{
    static const size_t bits[VALUE_TYPES] = {32, 16, 16, 8, 4},
                        scales[VALUE_TYPES] = {0, 0, 0, 2, 2};
    const part_row *row = *state;
    for (int type = 0; type < VALUE_TYPES; type++)
        for (int index = 0; index <= TEST_INDEXES; index++) {
            clprune_bsr_desc d = test_with_index(row->desc, test_index_types[index]);
            d.value_type = (clprune_value_type)type;
            const size_t kept = d.batch * d.keep, block = d.block.rows * d.block.cols;
            const clprune_index_type is =
                d.index_type == CLPRUNE_INDEX_SMALLEST ? row->smallest : d.index_type;
            const bool bitmap = is == CLPRUNE_INDEX_BITMAP;
            clprune_bsr_sizes s;
            TEST_OK(clprune_bsr_size_query(&d, &s));
            assert_int_equal(s.index_type, is);
            assert_int_equal(s.values_bytes, kept * ((block * bits[type] + 7) / 8));
            assert_int_equal(s.scales_bytes, kept * scales[type]);
            assert_int_equal(s.crow_bytes, bitmap ? 0 : row->crow);
            assert_int_equal(s.col_bytes, bitmap ? 0 : row->col);
            assert_int_equal(s.bitmap_bytes, bitmap ? row->bitmap : 0);
            assert_int_equal(s.total_bytes,
                s.values_bytes + s.scales_bytes + s.crow_bytes + s.col_bytes + s.bitmap_bytes);
            assert_int_equal(s.dense_bytes, d.batch * d.rows * d.cols * sizeof(float));
        }
}

static void unknown_types(NO_ROW)
{
    static const int indexes[] = {-1, 1, 4}; /* 1 was a type once */
    clprune_bsr_desc d = {1, 4, 4, {1, 4}, 1, (clprune_value_type)5};
    clprune_bsr_sizes s;
    TEST_FAILS(clprune_bsr_size_query(&d, &s), CLPRUNE_INVALID_ARGUMENT, "value_type");
    d.value_type = CLPRUNE_VALUES_FP32;
    for (size_t i = 0; i < COUNT_OF(indexes); i++) {
        d.index_type = (clprune_index_type)indexes[i];
        TEST_FAILS(clprune_bsr_size_query(&d, &s), CLPRUNE_INVALID_ARGUMENT, "index_type");
    }
}

static void pack_and_unpack(void **state)
{
    const test_shape *shape = *state;
    const clprune_bsr_desc d = shape->desc;
    bsr_ref ref = bsr_ref_of(d);
    float *x = test_new_normal(21, d.batch * d.rows * d.cols);
    unsigned char *mask = test_random_mask(22, &ref);
    bsr_ref_pack(&ref, x, mask);
    float *want = bsr_ref_masked(&ref, x, mask);
    test_mat dx = test_mat_make(d.batch * d.rows, d.cols, 3, x);
    test_buf dmask = test_buf_make(d.batch * ref.blocks, mask);
    for (int index = 0; index < TEST_INDEXES; index++) {
        const char *name = test_text("%s, %s", shape->name, test_index_names[index]);
        test_bsr bsr = test_bsr_make(test_with_index(d, test_index_types[index]));
        for (int without_mask = 0; without_mask <= (d.keep == ref.blocks); without_mask++) {
            const cl_mem given = without_mask ? NULL : dmask.buffer;
            TEST_EVENT(clprune_bsr_pack(test_context(), dx.mat, given, &bsr.bsr, &event));
            test_same_bsr(&bsr, &ref, name);
        }
        test_same_floats(
            "mask * x", d.batch * d.rows, d.cols, test_unpacked(&bsr.bsr), want, "%s", name);
    }
    test_mat_unchanged(&dx, "x");
    test_buf_unchanged(&dmask, "mask");
}

/* Ways to break a good BSR: 2 samples of 3 x 4 blocks, 5 kept: rows of 2, 0 and 3 blocks. */
typedef struct break_row {
    const char *name;
    bool in_crow;
    size_t at;
    int32_t value;
    const char *part;
} break_row;

static const break_row break_rows[] = {
    {"crow does not start at 0", true, 0, 1, "crow[0][0]"},
    {"crow starts below 0", true, 4, -1, "crow[1][0]"},
    {"crow falls", true, 2, 1, "crow[0][2]"},
    {"crow rises beyond keep", true, 5, 6, "crow[1][1]"},
    {"crow is huge", true, 1, INT32_MAX, "crow[0][1]"},
    {"crow is negative inside", true, 6, INT32_MIN, "crow[1][2]"},
    {"crow ends below keep", true, 3, 4, "crow[0][3]"},
    {"crow ends above keep", true, 7, 6, "crow[1][3]"},
    {"col is negative", false, 0, -1, "col[0][0]"},
    {"col is one too large", false, 9, 4, "col[1][4]"},
    {"col is huge", false, 4, INT32_MAX, "col[0][4]"},
    {"col repeats", false, 1, 0, "col[0][1]"},
    {"col descends", false, 3, 3, "col[0][4]"},
};

static void validator(void **state)
{
    const break_row *row = *state;
    const clprune_bsr_desc d = {2, 3, 16, {1, 4}, 5};
    int32_t crow[8] = {0, 2, 2, 5, 0, 2, 2, 5};
    int32_t col[10] = {0, 2, 0, 1, 3, 1, 3, 0, 1, 3};
    test_index_validates(d, crow, col, NULL, NULL);
    (row->in_crow ? crow : col)[row->at] = row->value;
    test_index_validates(d, crow, col, NULL, row->part);
}

static void create_and_destroy(NO_ROW)
{
    clprune_context *context = test_context();
    const clprune_bsr_desc d = {2, 196, 384, {1, 16}, 1411};
    clprune_bsr_sizes sizes;
    clprune_bsr bsr;
    TEST_OK(clprune_bsr_size_query(&d, &sizes));
    const clprune_memory_category of = CLPRUNE_MEMORY_ACTIVATIONS;
    const clprune_memory_usage before = clprune_memory_query(context, of);
    TEST_OK(clprune_bsr_create(context, of, "x", &d, &bsr));
    const clprune_memory_usage after = clprune_memory_query(context, of);
    assert_int_equal(after.live - before.live, sizes.total_bytes);
    assert_int_equal(after.count - before.count, 3);
    assert_memory_equal(&bsr.desc, &d, sizeof d);
    clprune_bsr_destroy(context, &bsr);
    assert_int_equal(test_live(context, of), before.live);
    assert_null(bsr.values);
    assert_int_equal(bsr.desc.batch, 0);
    bsr.desc = d; /* the description may lie in the matrix */
    TEST_OK(clprune_bsr_create(context, of, "x", &bsr.desc, &bsr));
    assert_memory_equal(&bsr.desc, &d, sizeof d);
    clprune_bsr_destroy(context, &bsr);
    clprune_bsr_destroy(context, &bsr);
    clprune_bsr_destroy(context, NULL);
    clprune_bsr_destroy(NULL, NULL);
}

/* Collects "v.values=160 v.crow=32 ". */
static void collect_booked(void *user, const clprune_memory_entry *entry)
{
    char *text = user;
    const size_t used = strlen(text);
    if (strncmp(entry->name, "v.", 2) == 0)
        (void)snprintf(text + used, 256 - used, "%s=%zu ", entry->name, (size_t)entry->bytes);
}

/* The buffers of a matrix "v" are in the ledger while it lives. */
static void booked(NO_ROW)
{
    static const struct {
        clprune_bsr_desc desc;
        const char *want;
    } rows[] = {
        {{2, 3, 15, {1, 4}, 5}, "v.values=160 v.crow=32 v.col=40 "},
        {{2, 3, 15, {1, 4}, 5, .index_type = CLPRUNE_INDEX_BITMAP}, "v.values=160 v.bitmap=4 "},
        {{2, 3, 15, {1, 4}, 5, .index_type = CLPRUNE_INDEX_SMALLEST}, "v.values=160 v.bitmap=4 "},
        {{2, 4, 64, {1, 16}, 12}, "v.values=1536 v.crow=40 v.col=96 "},
        {{2, 4, 64, {1, 16}, 12, CLPRUNE_VALUES_FP16}, "v.values=768 v.crow=40 v.col=96 "},
        {{2, 4, 64, {1, 16}, 12, CLPRUNE_VALUES_BF16}, "v.values=768 v.crow=40 v.col=96 "},
        {{2, 4, 64, {1, 16}, 12, CLPRUNE_VALUES_INT8},
            "v.values=384 v.crow=40 v.col=96 v.scales=48 "},
        {{2, 4, 64, {1, 16}, 12, CLPRUNE_VALUES_INT4},
            "v.values=192 v.crow=40 v.col=96 v.scales=48 "},
    };
    clprune_context *context = test_context();
    const uint64_t before = test_live(context, CLPRUNE_MEMORY_TOTAL);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        clprune_bsr bsr;
        char text[256] = "";
        TEST_OK(clprune_bsr_create(context, CLPRUNE_MEMORY_ACTIVATIONS, "v", &rows[i].desc, &bsr));
        clprune_memory_visit(context, collect_booked, text);
        assert_string_equal(text, rows[i].want);
        assert_int_equal(bsr.desc.index_type,
            strstr(rows[i].want, "bitmap") != NULL ? CLPRUNE_INDEX_BITMAP : CLPRUNE_INDEX_INT32);
        assert_int_equal(bsr.scales != NULL, strstr(rows[i].want, "scales") != NULL);
        clprune_bsr_destroy(context, &bsr);
        assert_null(bsr.bitmap);
        assert_null(bsr.scales);
        assert_int_equal(test_live(context, CLPRUNE_MEMORY_TOTAL), before);
    }
}

/* Each of the three buffers is refused in turn; nothing stays behind. */
static void create_over_budget(NO_ROW)
{
    const clprune_bsr_desc d = {1, 10, 40, {1, 4}, 50}; /* values 800, crow 44, col 200 bytes */
    static const uint64_t limits[] = {799, 843, 1043};
    for (size_t i = 0; i < COUNT_OF(limits); i++) {
        clprune_context *context = test_open((clprune_context_options){.mem_limit = limits[i]});
        clprune_bsr bsr;
        TEST_FAILS_IN(context,
            clprune_bsr_create(context, CLPRUNE_MEMORY_ACTIVATIONS, "x", &d, &bsr),
            CLPRUNE_OUT_OF_DEVICE_MEMORY, NULL);
        assert_null(bsr.values);
        assert_null(bsr.crow);
        assert_null(bsr.col);
        assert_int_equal(test_live(context, CLPRUNE_MEMORY_TOTAL), 0);
    }
}

int main(int argc, char **argv)
{
    const bool full = argc > 1 && strcmp(argv[1], "full") == 0;
    test_list list = {0};
    int failed = 0;
    if (!full) {
        test_add(&list, table_two, NULL, "Table II of the paper, 48 cells");
        test_add(&list, keep_counts, NULL, "keep_count, thousandths and hundred thousandths");
        test_add(&list, keep_counts_of_long_decimals, NULL, "keep_count, longer decimals");
        test_add(&list, keep_counts_outside, NULL, "keep_count outside [0, 1]");
        TEST_ADD_EACH(&list, size_query, size_rows, "sizes: %s");
        for (size_t i = 0; i < COUNT_OF(part_rows); i++)
            test_add(&list, part_sizes, &part_rows[i], "sizes of all types %zu", i);
        test_add(&list, unknown_types, NULL, "sizes: types that there are not");
        test_add(&list, size_query_nulls, NULL, "sizes: NULL");
        failed = test_run_on_host("bsr sizes", &list);
        TEST_ADD_EACH(&list, validator, break_rows, "validate: %s");
        test_add(&list, create_and_destroy, NULL, "create and destroy");
        test_add(&list, booked, NULL, "booked");
        test_add(&list, create_over_budget, NULL, "create over the budget");
    }
    test_add_shapes(&list, pack_and_unpack, full, "pack");
    return failed + test_run_on_devices("bsr", &list);
}
