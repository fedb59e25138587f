/* Saved activations with host memory: the same bits as with device matrices. */
#include "support/test_host.h"

enum { BATCH = 5, ROWS = 6, COLS = 33, OUT = 11, FIRST = 1, COUNT = 3, GAP = 7 };
enum { X = COUNT * ROWS * COLS, DY = COUNT * ROWS * OUT, DW = OUT * COLS };

static const clprune_keep keeps[] = {
    {.form = CLPRUNE_FORM_DENSE},
    {.form = CLPRUNE_FORM_PRUNED, .sparsity = 0.7f, .block = {1, 8}},
    {.form = CLPRUNE_FORM_PRUNED,
        .sparsity = 0.5f,
        .criterion = CLPRUNE_CRITERION_SAMPLED,
        .value_type = CLPRUNE_VALUES_INT8,
        .index_type = CLPRUNE_INDEX_BITMAP},
};

static test_host *host_make(size_t rows, size_t cols, size_t gap, size_t shift, const float *values)
{
    return test_host_make(rows, cols, cols + gap, shift, values);
}

/* The elements are `values`, and nothing else was written. Frees the array. */
static void host_check(test_host *h, const float *values, const char *what)
{
    test_host_check(h, values, what);
    test_end(h);
}

/* What the calls with device matrices give, into arrays of the sizes above. */
static void on_device(const clprune_keep *keep, const float *x, const float *dy, const float *dw,
    float *restored, float *first_dw, float *second_dw)
{
    clprune_context *context = test_context();
    clprune_saved *saved = test_new_saved(context, *keep, BATCH, ROWS, COLS);
    const clprune_mat mx = test_new_mat_of(context, "x", COUNT * ROWS, COLS, x);
    const clprune_mat my = test_new_mat(context, COUNT * ROWS, COLS);
    const clprune_mat mdy = test_new_mat_of(context, "dy", COUNT * ROWS, OUT, dy);
    const clprune_mat mdw = test_new_mat_of(context, "dw", OUT, COLS, dw);
    clprune_saved_set_seed(saved, 99);
    TEST_OK(clprune_saved_store(saved, FIRST, COUNT, mx, NULL));
    TEST_OK(clprune_saved_restore(saved, FIRST, COUNT, my, NULL));
    TEST_OK(clprune_mat_read(context, my, restored));
    TEST_OK(clprune_saved_product_tn(saved, FIRST, COUNT, 0.5f, mdy, mdw, NULL));
    TEST_OK(clprune_mat_read(context, mdw, first_dw));
    TEST_OK(clprune_saved_product_tn(saved, FIRST, COUNT, 0.0f, mdy, mdw, NULL));
    TEST_OK(clprune_mat_read(context, mdw, second_dw));
}

static void same_bits(void **state)
{
    const clprune_keep *keep = *state;
    clprune_context *context = test_context();
    float *x = test_new_normal(1, X), *dy = test_new_normal(2, DY), *dw = test_new_normal(3, DW);
    float restored[X], first_dw[DW], second_dw[DW];
    on_device(keep, x, dy, dw, restored, first_dw, second_dw);
    for (size_t gap = 0; gap <= GAP; gap += GAP)
        for (size_t shift = 0; shift < 3; shift += 2) {
            clprune_saved *saved = test_new_saved(context, *keep, BATCH, ROWS, COLS);
            const uint64_t before = test_live(context, CLPRUNE_MEMORY_INPUT);
            test_host *hx = host_make(COUNT * ROWS, COLS, gap, shift, x);
            test_host *hy = host_make(COUNT * ROWS, COLS, gap, shift, NULL);
            test_host *hdy = host_make(COUNT * ROWS, OUT, gap, shift, dy);
            test_host *hdw = host_make(OUT, COLS, gap, shift, dw);
            test_host *fresh = host_make(OUT, COLS, gap, shift, NULL);
            clprune_saved_set_seed(saved, 99);
            TEST_OK(clprune_saved_store_host(saved, FIRST, COUNT, hx->at, hx->ld));
            host_check(hx, x, "x"); /* and freed: the call has waited */
            TEST_OK(clprune_saved_restore_host(saved, FIRST, COUNT, hy->at, hy->ld));
            host_check(hy, restored, "restored");
            TEST_OK(clprune_saved_product_tn_host(
                saved, FIRST, COUNT, OUT, 0.5f, hdy->at, hdy->ld, hdw->at, hdw->ld));
            host_check(hdw, first_dw, "dw, beta 0.5");
            TEST_OK(clprune_saved_product_tn_host(
                saved, FIRST, COUNT, OUT, 0.0f, hdy->at, hdy->ld, fresh->at, fresh->ld));
            host_check(fresh, second_dw, "dw, beta 0");
            host_check(hdy, dy, "dy");
            assert_int_equal(test_live(context, CLPRUNE_MEMORY_INPUT), before);
        }
}

/* A call that fails after its memory was staged leaves the outputs as they were. */
static void kept_on_failure(NO_ROW)
{
    const clprune_status bad = CLPRUNE_INVALID_ARGUMENT;
    const char *text = "was not stored";
    float *values = test_new_normal(1, X), *dy = test_new_normal(2, DY);
    clprune_saved *saved = test_new_saved(test_context(), keeps[1], BATCH, ROWS, COLS);
    for (size_t gap = 0; gap <= GAP; gap += GAP) {
        test_host *x = host_make(COUNT * ROWS, COLS, gap, 1, values);
        test_host *dw = host_make(OUT, COLS, gap, 1, values);
        TEST_FAILS(clprune_saved_restore_host(saved, FIRST, COUNT, x->at, x->ld), bad, text);
        for (int beta = 0; beta < 2; beta++)
            TEST_FAILS(clprune_saved_product_tn_host(
                           saved, FIRST, COUNT, OUT, (float)beta, dy, OUT, dw->at, dw->ld),
                bad, text);
        host_check(x, values, "x");
        host_check(dw, values, "dw");
    }
}

static void refused(NO_ROW)
{
    clprune_context *context = test_context();
    const clprune_status bad = CLPRUNE_INVALID_ARGUMENT, size = CLPRUNE_INVALID_SIZE;
    float *x = test_new_normal(1, X), dw[DW] = {0};
    clprune_saved *saved = test_new_saved(context, keeps[1], BATCH, ROWS, COLS);
    const uint64_t before = test_live(context, CLPRUNE_MEMORY_TOTAL);
    assert_int_equal(clprune_saved_store_host(NULL, 0, 1, x, COLS), bad);
    assert_int_equal(clprune_saved_restore_host(NULL, 0, 1, x, COLS), bad);
    assert_int_equal(clprune_saved_product_tn_host(NULL, 0, 1, OUT, 0, x, OUT, dw, COLS), bad);
    TEST_FAILS(clprune_saved_store_host(saved, 0, 1, NULL, COLS), bad, "host is NULL");
    TEST_FAILS(clprune_saved_store_host(saved, 0, 1, x, COLS - 1), bad, "ld is 32");
    TEST_FAILS(clprune_saved_store_host(saved, 3, 3, x, COLS), size, "3 from sample 3");
    TEST_FAILS(clprune_saved_restore_host(saved, 0, SIZE_MAX, x, COLS), size, "the store holds 5");
    TEST_FAILS(clprune_saved_product_tn_host(saved, 6, 0, OUT, 0, x, OUT, dw, COLS), size,
        "from sample 6");
    TEST_FAILS(clprune_saved_product_tn_host(saved, 0, 1, OUT, 0, NULL, OUT, dw, COLS), bad,
        "host is NULL");
    TEST_FAILS(clprune_saved_product_tn_host(saved, 0, 1, OUT, 0, x, OUT, dw, 1), bad, "ld is 1");
    assert_int_equal(test_live(context, CLPRUNE_MEMORY_TOTAL), before);
    TEST_OK(clprune_saved_store_host(saved, BATCH, 0, NULL, COLS)); /* nothing */
}

int main(void)
{
    static const char *const names[] = {"dense", "pruned", "sampled, int8, bitmap"};
    test_list list = {0};
    for (size_t i = 0; i < COUNT_OF(keeps); i++)
        test_add(&list, same_bits, &keeps[i], "host memory: %s", names[i]);
    test_add(&list, kept_on_failure, NULL, "outputs after a failure");
    test_add(&list, refused, NULL, "bad arguments");
    return test_run_on_devices("saved host", &list);
}
