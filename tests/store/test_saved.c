/* Saved activations, dense and pruned: target, store, products. */
#include "ref/prune_ref.h"
#include "support/test_index.h"
#include "support/test_store.h"

enum { BATCH = 3, ROWS = 10, COLS = 41, OUT = 18 };

typedef struct keep_row {
    const char *name;
    clprune_keep keep;
} keep_row;

static clprune_saved *make_saved(const keep_row *row)
{
    return test_new_saved(test_context(), row->keep, BATCH, ROWS, COLS);
}

static const keep_row descs[] = {
    {"dense", {CLPRUNE_FORM_DENSE}},
    {"1x16, 0.7", {CLPRUNE_FORM_PRUNED, 0.7f, {1, 16}}},
    {"1x16, 0", {CLPRUNE_FORM_PRUNED, 0.0f, {1, 16}}},
    {"1x16, 1", {CLPRUNE_FORM_PRUNED, 1.0f, {1, 16}}},
    {"3x7, 0.5, l1", {CLPRUNE_FORM_PRUNED, 0.5f, {3, 7}, CLPRUNE_NORM_L1}},
};

#define LARGEST    CLPRUNE_NORM_L2, CLPRUNE_CRITERION_LARGEST
#define SAMPLED    CLPRUNE_NORM_L2, CLPRUNE_CRITERION_SAMPLED
#define SAMPLED_L1 CLPRUNE_NORM_L1, CLPRUNE_CRITERION_SAMPLED

/* What is kept in parts: dense, and drawn or largest blocks of each value type. */
static const keep_row range_descs[] = {
    {"dense", {CLPRUNE_FORM_DENSE}},
    {"sampled", {CLPRUNE_FORM_PRUNED, 0.7f, {1, 16}, SAMPLED}},
    {"fp16", {CLPRUNE_FORM_PRUNED, 0.3f, {1, 4}, LARGEST, CLPRUNE_VALUES_FP16}},
    {"bf16, all kept", {CLPRUNE_FORM_PRUNED, 0.0f, {1, 16}, LARGEST, CLPRUNE_VALUES_BF16}},
    {"int8, sampled", {CLPRUNE_FORM_PRUNED, 0.5f, {3, 7}, SAMPLED_L1, CLPRUNE_VALUES_INT8}},
    {"int8, none kept", {CLPRUNE_FORM_PRUNED, 1.0f, {1, 16}, LARGEST, CLPRUNE_VALUES_INT8}},
    {"fp16, smallest",
        {CLPRUNE_FORM_PRUNED, 0.3f, {1, 4}, LARGEST, CLPRUNE_VALUES_FP16, CLPRUNE_INDEX_SMALLEST}},
    {"sampled, bitmap",
        {CLPRUNE_FORM_PRUNED, 0.7f, {1, 4}, SAMPLED, CLPRUNE_VALUES_FP32, CLPRUNE_INDEX_BITMAP}},
    {"int8, sampled, smallest", {CLPRUNE_FORM_PRUNED, 0.5f, {3, 7}, SAMPLED_L1, CLPRUNE_VALUES_INT8,
                                    CLPRUNE_INDEX_SMALLEST}},
    {"bf16, all kept, bitmap",
        {CLPRUNE_FORM_PRUNED, 0.0f, {1, 16}, LARGEST, CLPRUNE_VALUES_BF16, CLPRUNE_INDEX_BITMAP}},
};

/* What must be kept of x, as a dense array. */
static float *kept_of(const clprune_keep *k, size_t batch, const float *x)
{
    if (k->form == CLPRUNE_FORM_DENSE)
        return test_copy(batch * ROWS * COLS * sizeof *x, x);
    return prune_ref_kept((prune_ref_norm)k->norm, (uint64_t)(k->sparsity * 10 + 0.5f), batch, ROWS,
        COLS, k->block.rows, k->block.cols, x);
}

/* Checks both products of the first `batch` samples, of which `kept` is kept. */
static void check_first_products(
    const clprune_saved *saved, size_t batch, const float *kept, const char *name)
{
    for (int kind = TN; kind <= NT; kind++) {
        const bspmm_ref_sizes sizes = {batch, ROWS, COLS, OUT};
        operands o = operands_make((product)kind, sizes, 41, 2, 1);
        check_store_product(saved, &o, 0, batch, 0, kept, name);
    }
}

static void store_and_multiply(void **state)
{
    const keep_row *row = *state;
    clprune_saved *saved = make_saved(row);
    static const size_t batches[] = {BATCH, 1, 0, 2};
    for (size_t i = 0; i < COUNT_OF(batches); i++) {
        const size_t batch = batches[i];
        float *x = test_new_normal(50 + i, batch * ROWS * COLS);
        test_mat dx = test_mat_make(batch * ROWS, COLS, 3, x);
        TEST_EVENT(clprune_saved_store(saved, 0, batch, dx.mat, &event));
        test_mat_unchanged(&dx, "x");
        TEST_OK(clprune_mat_fill(test_context(), NAN, dx.mat, NULL)); /* x may be overwritten */
        float *kept = kept_of(&row->keep, batch, x), *got = test_floats(batch * ROWS * COLS);
        check_first_products(saved, batch, kept, row->name);

        const clprune_mat dense = clprune_saved_dense(saved, 0, batch);
        const clprune_bsr bsr = clprune_saved_bsr(saved, 0, batch);
        const bool is_dense = row->keep.form == CLPRUNE_FORM_DENSE;
        assert_int_equal(dense.rows, is_dense ? batch * ROWS : 0);
        assert_int_equal(bsr.desc.batch, is_dense ? 0 : batch);
        if (is_dense) {
            TEST_OK(clprune_mat_read(test_context(), dense, got));
        } else {
            TEST_OK(clprune_bsr_validate(test_context(), &bsr));
            got = test_unpacked(&bsr);
        }
        test_same_floats("kept", batch * ROWS, COLS, got, kept, "%s", row->name);
    }
}

/* The target of a dense form is its storage, so that storing copies nothing. */
static void target(void **state)
{
    const keep_row *row = *state;
    clprune_saved *saved = make_saved(row);
    float *x = test_new_normal(61, 2 * ROWS * COLS);
    test_mat scratch = test_mat_make(2 * ROWS, COLS, 0, NULL);
    const clprune_mat where = clprune_saved_target(saved, 0, 2, scratch.mat);
    assert_int_equal(where.rows, 2 * ROWS);
    assert_int_equal(where.cols, COLS);
    if (row->keep.form == CLPRUNE_FORM_DENSE)
        assert_ptr_not_equal(where.buffer, scratch.mat.buffer);
    else
        assert_memory_equal(&where, &scratch.mat, sizeof where);
    TEST_OK(clprune_mat_write(test_context(), where, x));
    TEST_OK(clprune_saved_store(saved, 0, 2, where, NULL));
    check_first_products(saved, 2, kept_of(&row->keep, 2, x), row->name);
}

static void ranges_store(void **state)
{
    const keep_row *row = *state;
    check_parts(row->keep, BATCH, ROWS, COLS, row->name);
}

/* Rows of dw lie one behind the other, or apart. */
static void ranges_multiply(void **state)
{
    const keep_row *row = *state;
    clprune_saved *saved = make_saved(row);
    store_all(saved, test_new_normal(83, BATCH * ROWS * COLS));
    for (size_t gap = 0; gap < 2; gap++)
        check_products(saved, OUT, gap, row->name);
}

/* A dense product of more samples than are multiplied side by side. */
static void many_outputs(NO_ROW)
{
    enum { SAMPLES = 7, TOKENS = 600, FEATURES = 5 };
    const clprune_keep dense = {.form = CLPRUNE_FORM_DENSE};
    const bspmm_ref_sizes sizes = {SAMPLES, TOKENS, FEATURES, TOKENS};
    clprune_saved *saved = test_new_saved(test_context(), dense, SAMPLES, TOKENS, FEATURES);
    float *x = test_new_normal(91, (size_t)SAMPLES * TOKENS * FEATURES);
    store_all(saved, x);
    operands o = operands_make(NT, sizes, 92, 0, 0);
    for (int add = 0; add < 2; add++)
        check_store_product(saved, &o, 0, SAMPLES, (float)add, x, "many outputs");
}

/* A range that is its own storage is neither copied nor refused; one that does not fit is. */
static void ranges_refused(void **state)
{
    const keep_row *row = *state;
    clprune_saved *saved = make_saved(row);
    test_mat x = test_mat_make(BATCH * ROWS, COLS, 0, NULL);
    const clprune_mat two = clprune_mat_rows(x.mat, 0, 2 * ROWS);
    const clprune_mat dw = clprune_mat_rows(x.mat, 0, ROWS);
    const clprune_status bad = CLPRUNE_INVALID_SIZE;
    const char *most = "the store holds 3";
    static const size_t firsts[] = {BATCH - 1, BATCH + 1, SIZE_MAX};
    for (size_t i = 0; i < COUNT_OF(firsts); i++) {
        const size_t first = firsts[i];
        TEST_FAILS(clprune_saved_store(saved, first, 2, two, NULL), bad, most);
        TEST_FAILS(clprune_saved_restore(saved, first, 2, two, NULL), bad, most);
        TEST_FAILS(clprune_saved_product_tn(saved, first, 2, 0, two, dw, NULL), bad, most);
        TEST_FAILS(clprune_saved_product_nt(saved, first, 2, 0, two, dw, NULL), bad, most);
    }
    TEST_FAILS(clprune_saved_restore(saved, 0, 1, two, NULL), bad, "x");
    TEST_FAILS(clprune_saved_store(saved, 0, 1, two, NULL), bad, "x");
    TEST_FAILS_IN(NULL, clprune_saved_restore(NULL, 0, 2, two, NULL), CLPRUNE_INVALID_ARGUMENT,
        "saved is NULL");
    test_mat_unchanged(&x, "x");
    if (row->keep.form == CLPRUNE_FORM_DENSE) {
        const clprune_mat own = clprune_saved_dense(saved, 1, 2);
        TEST_OK(clprune_saved_store(saved, 1, 2, own, NULL));
        TEST_OK(clprune_saved_restore(saved, 1, 2, own, NULL));
    }
}

static void collect(void *user, const clprune_memory_entry *entry)
{
    char *text = user;
    const size_t used = strlen(text);
    if (entry->category == CLPRUNE_MEMORY_ACTIVATIONS)
        (void)snprintf(text + used, 256 - used, "%s=%zu ", entry->name, (size_t)entry->bytes);
}

/* Stores are booked as one buffer, in multiples of 64 bytes. */
static void booked(NO_ROW)
{
    static const struct {
        const keep_row *row;
        const char *want;
    } rows[] = {
        {&descs[0], "saved=4928 "}, /* 3 * 10 * 41 floats */
        /* 30 blocks a sample, 9 kept: values 1728, crow 132, col 108 bytes */
        {&descs[1], "saved=1984 "},
        /* 24 blocks a sample, 12 kept: values 756, scales 72, crow 60, col 144 bytes */
        {&range_descs[4], "saved=1088 "},
        {&range_descs[8], "saved=896 "}, /* values 756, scales 72, bitmap 9 bytes */
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        clprune_saved *saved = make_saved(rows[i].row);
        char text[256] = "";
        clprune_memory_visit(test_context(), collect, text);
        assert_string_equal(text, rows[i].want);
        if (rows[i].row == &range_descs[8])
            assert_int_equal(clprune_saved_bsr(saved, 0, 1).desc.index_type, CLPRUNE_INDEX_BITMAP);
        test_end(saved);
    }
    assert_int_equal(test_live(test_context(), CLPRUNE_MEMORY_ACTIVATIONS), 0);
    clprune_saved_destroy(NULL);
}

int main(void)
{
    test_list list = {0};
    TEST_ADD_EACH(&list, store_and_multiply, descs, "store, multiply: %s");
    TEST_ADD_EACH(&list, target, descs, "target: %s");
    TEST_ADD_EACH(&list, ranges_store, range_descs, "store ranges: %s");
    TEST_ADD_EACH(&list, ranges_multiply, range_descs, "multiply ranges: %s");
    TEST_ADD_EACH(&list, ranges_refused, range_descs, "bad ranges: %s");
    test_add(&list, many_outputs, NULL, "a dense product of 600 x 600 from 7 samples");
    test_add(&list, booked, NULL, "booked under activations");
    return test_run_on_devices("saved", &list);
}
