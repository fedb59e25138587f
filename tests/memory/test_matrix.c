/* Matrices: write, read, fill and copy with strides, offsets and empty sizes. */
#include "runtime/context/check.h"
#include "support/test.h"

typedef struct shape {
    size_t rows, cols, gap;
} shape;

static const shape shapes[] = {{1, 1, 0}, {1, 17, 3}, {7, 5, 0}, {7, 5, 1}, {33, 16, 0},
    {33, 15, 2}, {40, 300, 5}, {3, 5000, 1}, {2000, 3, 0}, {0, 4, 0}, {4, 0, 3}, {0, 0, 0}};

static void write_and_read(void **state)
{
    const shape *s = *state;
    const size_t count = s->rows * s->cols;
    float *values = test_new_normal(7, count), *back = test_new_normal(8, count);
    test_mat m = test_mat_make(s->rows, s->cols, s->gap, NULL);
    TEST_OK(clprune_mat_write(test_context(), m.mat, values));
    test_same_floats(
        "written", s->rows, s->cols, test_mat_get(&m, "written matrix"), values, "gap %zu", s->gap);
    TEST_OK(clprune_mat_read(test_context(), m.mat, back));
    test_same_floats("read", s->rows, s->cols, back, values, "gap %zu", s->gap);
}

static void fill(void **state)
{
    const shape *s = *state;
    static const float fills[] = {0.0f, -1.5f, 1e-40f, INFINITY};
    for (size_t i = 0; i < COUNT_OF(fills); i++) {
        test_mat m = test_mat_make(s->rows, s->cols, s->gap, NULL);
        TEST_EVENT(clprune_mat_fill(test_context(), fills[i], m.mat, &event));
        float *got = test_mat_get(&m, "filled matrix"),
              *want = test_new_normal(1, s->rows * s->cols);
        for (size_t j = 0; j < s->rows * s->cols; j++)
            want[j] = fills[i];
        test_same_floats("fill", s->rows, s->cols, got, want, "gap %zu", s->gap);
    }
}

static void copy(void **state)
{
    const shape *s = *state;
    float *values = test_new_normal(3, s->rows * s->cols);
    for (size_t gap = 0; gap < 3; gap += 2) {
        test_mat from = test_mat_make(s->rows, s->cols, s->gap, values);
        test_mat to = test_mat_make(s->rows, s->cols, gap, NULL);
        TEST_EVENT(clprune_mat_copy(test_context(), from.mat, to.mat, &event));
        test_same_floats("copy", s->rows, s->cols, test_mat_get(&to, "copy"), values,
            "gaps %zu, %zu", s->gap, gap);
        test_mat_unchanged(&from, "source of a copy");
    }
}

/* Matrices in one buffer with different strides. */
static void copy_to_another_stride(NO_ROW)
{
    float *values = test_new_normal(5, 10 * 6);
    test_mat whole = test_mat_make(10, 6, 0, values);
    const clprune_mat from = clprune_mat_rows(whole.mat, 0, 4);
    const clprune_mat to = {from.buffer, from.offset + 5 * 6, 4, 6, 7};
    TEST_EVENT(clprune_mat_copy(test_context(), from, to, &event));
    float *got = test_mat_get(&whole, "whole");
    for (size_t r = 0; r < 4; r++)
        memcpy(values + 5 * 6 + r * 7, values + r * 6, 6 * sizeof *values);
    test_same_floats("copied", 10, 6, got, values, "ld 6 to ld 7");
}

/* Columns [from, from + cols) of a matrix. */
static clprune_mat columns(clprune_mat mat, size_t from, size_t cols)
{
    return (clprune_mat){mat.buffer, mat.offset + from, mat.rows, cols, mat.ld, mat.type};
}

/* Windows of one matrix, side by side: apart, however their rows lie to each other. */
static void copy_side_by_side(NO_ROW)
{
    enum { ROWS = 9, COLS = 12 };
    static const struct {
        size_t from, from_row, to, to_row, cols;
        bool apart;
    } cases[] = {{0, 0, 6, 0, 6, true}, {6, 0, 0, 0, 6, true}, {7, 0, 2, 1, 5, true},
        {2, 2, 7, 0, 5, true}, {0, 0, 11, 3, 1, true}, {0, 0, 5, 0, 6, false},
        {6, 0, 1, 0, 6, false}, {6, 0, 1, 1, 6, false}, {0, 0, 5, 2, 6, false},
        {4, 0, 4, 4, 3, false}};
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        const size_t height = ROWS - 4;
        float *values = test_new_normal(6, ROWS * COLS);
        test_mat whole = test_mat_make(ROWS, COLS, 0, values);
        const clprune_mat from = columns(clprune_mat_rows(whole.mat, cases[i].from_row, height),
                              cases[i].from, cases[i].cols),
                          to = columns(clprune_mat_rows(whole.mat, cases[i].to_row, height),
                              cases[i].to, cases[i].cols);
        if (cases[i].apart) {
            TEST_OK(clprune_mat_copy(test_context(), from, to, NULL));
            for (size_t r = 0; r < height; r++)
                memcpy(values + (cases[i].to_row + r) * COLS + cases[i].to,
                    values + (cases[i].from_row + r) * COLS + cases[i].from,
                    cases[i].cols * sizeof *values);
        } else {
            TEST_FAILS(clprune_mat_copy(test_context(), from, to, NULL), CLPRUNE_INVALID_ARGUMENT,
                "overlaps");
        }
        test_same_floats(
            "copied", ROWS, COLS, test_mat_get(&whole, "whole"), values, "case %zu", i);
    }
}

/* Windows of different ld are not told apart, a single row has no ld. */
static void ld_of_windows(NO_ROW)
{
    test_mat whole = test_mat_make(8, 12, 0, NULL);
    const clprune_mat left = columns(whole.mat, 0, 4), right = columns(whole.mat, 6, 4);
    clprune_mat other = columns(clprune_mat_rows(whole.mat, 0, 4), 6, 4);
    other.ld = 13;
    TEST_OK(clprune__check_apart(test_context(), "a", left, "b", right));
    TEST_FAILS(clprune__check_apart(test_context(), "a", left, "b", other),
        CLPRUNE_INVALID_ARGUMENT, "a overlaps b");
    other.rows = 1;
    TEST_OK(clprune__check_apart(test_context(), "a", left, "b", other));
    TEST_OK(clprune__check_apart(test_context(), "a", other, "b", left));
    other.cols = 7; /* into the next row of `left` */
    TEST_FAILS(clprune__check_apart(test_context(), "a", other, "b", left),
        CLPRUNE_INVALID_ARGUMENT, "a overlaps b");
}

/* Two matrices in one buffer, apart and overlapping by one element. */
static void copy_within_a_buffer(NO_ROW)
{
    float *values = test_new_normal(4, 10 * 6);
    test_mat whole = test_mat_make(10, 6, 0, values);
    TEST_OK(clprune_mat_copy(test_context(), clprune_mat_rows(whole.mat, 0, 4),
        clprune_mat_rows(whole.mat, 5, 4), NULL));
    float *got = test_mat_get(&whole, "whole");
    memcpy(values + 5 * 6, values, 4 * 6 * sizeof *values);
    test_same_floats("rows 5 to 8", 10, 6, got, values, "copied from rows 0 to 3");
    test_mat_set(&whole, values);
    TEST_FAILS(clprune_mat_copy(test_context(), clprune_mat_rows(whole.mat, 0, 4),
                   clprune_mat_rows(whole.mat, 3, 4), NULL),
        CLPRUNE_INVALID_ARGUMENT, "from overlaps to");
    clprune_mat shifted = clprune_mat_rows(whole.mat, 4, 4);
    shifted.offset -= 1;
    TEST_FAILS(clprune_mat_copy(test_context(), clprune_mat_rows(whole.mat, 0, 4), shifted, NULL),
        CLPRUNE_INVALID_ARGUMENT, "overlaps");
    TEST_FAILS(clprune_mat_copy(test_context(), shifted, shifted, NULL), CLPRUNE_INVALID_ARGUMENT,
        "overlaps");
    test_mat_unchanged(&whole, "matrix of refused copies");
}

static void create(NO_ROW)
{
    clprune_context *context = test_context();
    clprune_mat mat;
    const uint64_t before = test_live(context, CLPRUNE_MEMORY_GRADIENTS);
    TEST_OK(clprune_mat_create(context, CLPRUNE_MEMORY_GRADIENTS, "g", 3, 5, &mat));
    assert_true(mat.rows == 3 && mat.cols == 5 && mat.ld == 5 && mat.offset == 0);
    assert_int_equal(test_live(context, CLPRUNE_MEMORY_GRADIENTS), before + 3 * 5 * 4);
    clprune_buffer_release(context, mat.buffer);
    TEST_OK(clprune_mat_create(context, CLPRUNE_MEMORY_GRADIENTS, "g", 0, 5, &mat));
    clprune_buffer_release(context, mat.buffer);
    TEST_FAILS(clprune_mat_create(context, CLPRUNE_MEMORY_GRADIENTS, "g", 1, 1, NULL),
        CLPRUNE_INVALID_ARGUMENT, "mat");
    TEST_FAILS(clprune_mat_create(context, CLPRUNE_MEMORY_GRADIENTS, NULL, 1, 1, &mat),
        CLPRUNE_INVALID_ARGUMENT, "name");
}

/* --- Several matrices in one buffer --- */

enum { SHARED = 5 };

typedef struct ledger_text {
    char names[64];
    uint64_t bytes;
} ledger_text;

static void note_entry(void *user, const clprune_memory_entry *entry)
{
    ledger_text *text = user;
    if (entry->category != CLPRUNE_MEMORY_PARAMETERS)
        return;
    strcat(text->names, entry->name);
    strcat(text->names, " ");
    text->bytes += entry->bytes;
}

static void create_shared(NO_ROW)
{
    clprune_context *context = test_context();
    static const size_t sizes[SHARED][2] = {{1, 7}, {3, 32}, {0, 4}, {5, 3}, {1, 16}};
    const char *const names[SHARED] = {"a", "b", "c", "d", "e"};
    const clprune_memory_usage before = clprune_memory_query(context, CLPRUNE_MEMORY_TOTAL);
    clprune_mat mats[SHARED];
    uint64_t bytes = 0;
    bool used[7 + 96 + 15 + 16] = {false};
    for (size_t i = 0; i < SHARED; i++) {
        mats[i] = (clprune_mat){.rows = sizes[i][0], .cols = sizes[i][1]};
        bytes += sizes[i][0] * sizes[i][1] * sizeof(float);
    }
    TEST_OK(clprune_mats_create(context, CLPRUNE_MEMORY_PARAMETERS, SHARED, names, mats));
    for (size_t i = 0; i < SHARED; i++) {
        const size_t count = sizes[i][0] * sizes[i][1];
        assert_true(mats[i].buffer == mats[0].buffer && mats[i].buffer != NULL);
        assert_true(mats[i].rows == sizes[i][0] && mats[i].cols == sizes[i][1]);
        assert_true(mats[i].ld == sizes[i][1]);
        assert_true(count % 16 != 0 || mats[i].offset % 16 == 0);
        for (size_t j = 0; j < count; j++) { /* apart, and no element to spare */
            assert_true(mats[i].offset + j < sizeof used && !used[mats[i].offset + j]);
            used[mats[i].offset + j] = true;
        }
    }
    size_t size;
    TEST_CL(clGetMemObjectInfo(mats[0].buffer, CL_MEM_SIZE, sizeof size, &size, NULL));
    assert_int_equal(size, bytes);
    ledger_text text = {"", 0};
    clprune_memory_visit(context, note_entry, &text);
    assert_string_equal(text.names, "a b c d e ");
    assert_int_equal(text.bytes, bytes);
    assert_int_equal(test_live(context, CLPRUNE_MEMORY_TOTAL), before.live + bytes);
    assert_int_equal(
        clprune_memory_query(context, CLPRUNE_MEMORY_TOTAL).count, before.count + SHARED);
    clprune_buffer_release(context, mats[2].buffer);
    assert_int_equal(test_live(context, CLPRUNE_MEMORY_TOTAL), before.live);
    assert_int_equal(clprune_memory_query(context, CLPRUNE_MEMORY_TOTAL).count, before.count);
}

static void create_shared_fails(NO_ROW)
{
    const char *const names[2] = {"a", "b"}, *const no_names[2] = {"a", NULL};
    clprune_context *context =
        test_open((clprune_context_options){.cache_dir = "off", .mem_limit = 100});
    const clprune_memory_category category = CLPRUNE_MEMORY_PARAMETERS;
    const clprune_status bad = CLPRUNE_INVALID_ARGUMENT;
    test_mat kept = test_mat_make(1, 1, 0, NULL);
    clprune_mat mats[2] = {kept.mat, {.rows = 5, .cols = 5}};
#define CREATE(...) clprune_mats_create(__VA_ARGS__)
#define REFUSED()   assert_true(mats[0].buffer == NULL && mats[1].buffer == NULL)
    mats[0].rows = 1; /* 4 + 100 bytes: each would fit */
    TEST_OK(CREATE(context, category, 0, NULL, NULL));
    assert_int_equal(CREATE(context, category, 2, names, mats), CLPRUNE_OUT_OF_DEVICE_MEMORY);
    REFUSED();
    mats[0].buffer = kept.mat.buffer;
    mats[1].rows = SIZE_MAX / 8;
    assert_int_equal(CREATE(context, category, 2, names, mats), CLPRUNE_SIZE_OVERFLOW);
    REFUSED();
    mats[0] = (clprune_mat){.buffer = kept.mat.buffer, .rows = SIZE_MAX / 4 - 1, .cols = 1};
    mats[1] = mats[0]; /* only the sum overflows */
    assert_int_equal(CREATE(context, category, 2, names, mats), CLPRUNE_SIZE_OVERFLOW);
    REFUSED();
    mats[0] = mats[1] = (clprune_mat){.rows = 1, .cols = 1};
    assert_int_equal(CREATE(context, category, 2, no_names, mats), bad);
    assert_int_equal(CREATE(context, category, 2, NULL, mats), bad);
    assert_int_equal(CREATE(context, category, 2, names, NULL), bad);
    assert_int_equal(CREATE(context, CLPRUNE_MEMORY_CATEGORIES, 2, names, mats), bad);
    assert_int_equal(CREATE(NULL, category, 2, names, mats), bad);
    REFUSED();
#undef CREATE
#undef REFUSED
    assert_int_equal(clprune_memory_query(context, CLPRUNE_MEMORY_TOTAL).count, 0);
}

static void other_bad_arguments(NO_ROW)
{
    test_mat a = test_mat_make(3, 4, 0, NULL);
    TEST_FAILS(clprune_mat_write(test_context(), a.mat, NULL), CLPRUNE_INVALID_ARGUMENT, "host");
    TEST_FAILS(clprune_mat_read(test_context(), a.mat, NULL), CLPRUNE_INVALID_ARGUMENT, "host");
    clprune_mat mat;
    assert_int_equal(
        clprune_mat_create(NULL, CLPRUNE_MEMORY_INPUT, "x", 1, 1, &mat), CLPRUNE_INVALID_ARGUMENT);
}

int main(void)
{
    test_list list = {0};
    for (size_t i = 0; i < COUNT_OF(shapes); i++) {
        const shape *s = &shapes[i];
        test_add(&list, write_and_read, s, "write, read %zu x %zu + %zu", s->rows, s->cols, s->gap);
        test_add(&list, fill, s, "fill %zu x %zu + %zu", s->rows, s->cols, s->gap);
        test_add(&list, copy, s, "copy %zu x %zu + %zu", s->rows, s->cols, s->gap);
    }
    test_add(&list, copy_within_a_buffer, NULL, "copies within one buffer");
    test_add(&list, copy_side_by_side, NULL, "copies between windows of one matrix");
    test_add(&list, ld_of_windows, NULL, "windows of different ld");
    test_add(&list, copy_to_another_stride, NULL, "a copy within one buffer to another stride");
    test_add(&list, create, NULL, "creating matrices");
    test_add(&list, create_shared, NULL, "several matrices in one buffer");
    test_add(&list, create_shared_fails, NULL, "several matrices that cannot be made");
    test_add(&list, other_bad_arguments, NULL, "other bad arguments");
    return test_run_on_devices("matrix", &list);
}
