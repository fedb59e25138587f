/* Saved activations, dense and pruned: target, store, products. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/bspmm_ref.h"
#include "ref/bsr_ref.h"
#include "ref/prune_ref.h"
#include "support/test_buffer.h"
#include "support/test_compare.h"
#include "support/test_rng.h"

enum { BATCH = 3, ROWS = 10, COLS = 41, OUT = 18 };

/* How a tensor is kept, in the order of the table below. */
typedef struct keep_row {
    clprune_form form;
    clprune_block block;
    float sparsity;
    clprune_norm norm;
    clprune_criterion criterion;
    clprune_value_type value_type;
    clprune_index_type index_type;
} keep_row;

static clprune_saved *make_saved(const char *name, const keep_row *row)
{
    clprune_saved *saved = NULL;
    const clprune_keep keep = {row->form, row->sparsity, row->block, row->norm, row->criterion,
        row->value_type, row->index_type};
    TEST_OK(clprune_saved_create(test_context(), name, &keep, BATCH, ROWS, COLS, &saved));
    return saved;
}

static const keep_row descs[] = {
    {CLPRUNE_FORM_DENSE, {0, 0}, 0, CLPRUNE_NORM_L2, CLPRUNE_CRITERION_LARGEST},
    {CLPRUNE_FORM_PRUNED, {1, 16}, 0.7f, CLPRUNE_NORM_L2, CLPRUNE_CRITERION_LARGEST},
    {CLPRUNE_FORM_PRUNED, {1, 16}, 0.0f, CLPRUNE_NORM_L2, CLPRUNE_CRITERION_LARGEST},
    {CLPRUNE_FORM_PRUNED, {1, 16}, 1.0f, CLPRUNE_NORM_L2, CLPRUNE_CRITERION_LARGEST},
    {CLPRUNE_FORM_PRUNED, {3, 7}, 0.5f, CLPRUNE_NORM_L1, CLPRUNE_CRITERION_LARGEST},
};

/* What is kept in parts: dense, and drawn or largest blocks of each value type. */
static const keep_row range_descs[] = {
    {CLPRUNE_FORM_DENSE, {0, 0}, 0, CLPRUNE_NORM_L2, CLPRUNE_CRITERION_LARGEST},
    {CLPRUNE_FORM_PRUNED, {1, 16}, 0.7f, CLPRUNE_NORM_L2, CLPRUNE_CRITERION_SAMPLED},
    {CLPRUNE_FORM_PRUNED, {1, 4}, 0.3f, CLPRUNE_NORM_L2, CLPRUNE_CRITERION_LARGEST,
        CLPRUNE_VALUES_FP16},
    {CLPRUNE_FORM_PRUNED, {1, 16}, 0.0f, CLPRUNE_NORM_L2, CLPRUNE_CRITERION_LARGEST,
        CLPRUNE_VALUES_BF16},
    {CLPRUNE_FORM_PRUNED, {3, 7}, 0.5f, CLPRUNE_NORM_L1, CLPRUNE_CRITERION_SAMPLED,
        CLPRUNE_VALUES_INT8},
    {CLPRUNE_FORM_PRUNED, {1, 16}, 1.0f, CLPRUNE_NORM_L2, CLPRUNE_CRITERION_LARGEST,
        CLPRUNE_VALUES_INT8},
    {CLPRUNE_FORM_PRUNED, {1, 4}, 0.3f, CLPRUNE_NORM_L2, CLPRUNE_CRITERION_LARGEST,
        CLPRUNE_VALUES_FP16, CLPRUNE_INDEX_SMALLEST},
    {CLPRUNE_FORM_PRUNED, {1, 4}, 0.7f, CLPRUNE_NORM_L2, CLPRUNE_CRITERION_SAMPLED,
        CLPRUNE_VALUES_FP32, CLPRUNE_INDEX_BITMAP},
    {CLPRUNE_FORM_PRUNED, {3, 7}, 0.5f, CLPRUNE_NORM_L1, CLPRUNE_CRITERION_SAMPLED,
        CLPRUNE_VALUES_INT8, CLPRUNE_INDEX_SMALLEST},
    {CLPRUNE_FORM_PRUNED, {1, 16}, 0.0f, CLPRUNE_NORM_L2, CLPRUNE_CRITERION_LARGEST,
        CLPRUNE_VALUES_BF16, CLPRUNE_INDEX_BITMAP},
};

static const char *const range_names[] = {"dense", "sampled", "fp16", "bf16, all kept",
    "int8, sampled", "int8, none kept", "fp16, smallest", "sampled, bitmap",
    "int8, sampled, smallest", "bf16, all kept, bitmap"};

static const char *const names[] = {"dense", "1x16, 0.7", "1x16, 0", "1x16, 1", "3x7, 0.5, l1"};

/* What must be kept of x, as a dense array. */
static float *kept_of(const keep_row *d, size_t batch, const float *x)
{
    const bool dense = d->form == CLPRUNE_FORM_DENSE;
    bsr_ref ref =
        bsr_ref_make(batch, ROWS, COLS, dense ? 1 : d->block.rows, dense ? 1 : d->block.cols, 0);
    unsigned char *mask = test_alloc(batch * ref.blocks + 1);
    memset(mask, 1, batch * ref.blocks);
    if (!dense) {
        double *scores = prune_ref_scores(
            (prune_ref_norm)d->norm, batch, ROWS, COLS, d->block.rows, d->block.cols, x);
        float *rounded = test_new_normal(0, batch * ref.blocks);
        for (size_t i = 0; i < batch * ref.blocks; i++)
            rounded[i] = (float)scores[i];
        const size_t tenths = (size_t)(d->sparsity * 10 + 0.5f);
        const size_t keep = bsr_ref_keep_count(ref.blocks, tenths, 10);
        for (size_t n = 0; n < batch; n++)
            prune_ref_select(ref.blocks, keep, rounded + n * ref.blocks, mask + n * ref.blocks);
    }
    float *kept = bsr_ref_masked(&ref, x, mask);
    return kept;
}

/* Checks both products of the kept activation of `batch` samples. */
static void check_products(
    const clprune_saved *saved, size_t batch, const float *kept, const char *name)
{
    const bspmm_ref_sizes sizes = {batch, ROWS, COLS, OUT};
    for (int nt = 0; nt < 2; nt++) {
        const size_t dy_rows = batch * (nt ? OUT : ROWS), dy_cols = nt ? COLS : OUT;
        const size_t dw_cols = nt ? ROWS : COLS;
        float *dy = test_new_normal(41, dy_rows * dy_cols);
        test_mat ddy = test_mat_make(dy_rows, dy_cols, 2, dy);
        test_mat dw = test_mat_make(OUT, dw_cols, 1, NULL);
        cl_event event = NULL;
        TEST_OK((nt ? clprune_saved_product_nt : clprune_saved_product_tn)(
            saved, 0, batch, 0.0f, ddy.mat, dw.mat, &event));
        assert_non_null(event);
        assert_int_equal(clReleaseEvent(event), CL_SUCCESS);
        gemm_ref ref = nt ? bspmm_ref_nt(sizes, 1, 0, dy, kept, NULL)
                          : bspmm_ref_tn(sizes, 1, 0, dy, kept, NULL);
        float *got = test_mat_get(&dw, "dw");
        test_close("dw", OUT, dw_cols, got, ref.want, ref.bound, "%s, %s, %zu samples",
            nt ? "nt" : "tn", name, batch);
    }
}

static void store_and_multiply(void **state)
{
    const keep_row *d = *state;
    const char *name = names[d - descs];
    clprune_saved *saved = make_saved("s", d);
    static const size_t batches[] = {BATCH, 1, 0, 2};
    for (size_t i = 0; i < sizeof batches / sizeof batches[0]; i++) {
        const size_t batch = batches[i];
        float *x = test_new_normal(50 + i, batch * ROWS * COLS);
        test_mat dx = test_mat_make(batch * ROWS, COLS, 3, x);
        cl_event event = NULL;
        TEST_OK(clprune_saved_store(saved, 0, batch, dx.mat, &event));
        assert_non_null(event);
        assert_int_equal(clReleaseEvent(event), CL_SUCCESS);
        test_mat_unchanged(&dx, "x");
        TEST_OK(clprune_mat_fill(test_context(), NAN, dx.mat, NULL)); /* x may be overwritten */
        float *kept = kept_of(d, batch, x);
        check_products(saved, batch, kept, name);

        const clprune_mat dense = clprune_saved_dense(saved, 0, batch);
        const clprune_bsr bsr = clprune_saved_bsr(saved, 0, batch);
        float *got = test_new_normal(0, batch * ROWS * COLS);
        if (d->form == CLPRUNE_FORM_DENSE) {
            assert_int_equal(dense.rows, batch * ROWS);
            assert_int_equal(bsr.desc.batch, 0);
            TEST_OK(clprune_mat_read(test_context(), dense, got));
        } else {
            assert_int_equal(dense.rows, 0);
            assert_int_equal(bsr.desc.batch, batch);
            TEST_OK(clprune_bsr_validate(test_context(), &bsr));
            test_mat y = test_mat_make(batch * ROWS, COLS, 0, NULL);
            TEST_OK(clprune_bsr_unpack(test_context(), &bsr, y.mat, NULL));
            got = test_mat_get(&y, "y");
        }
        test_same_floats("kept", batch * ROWS, COLS, got, kept, "%s", name);
    }
    clprune_saved_destroy(saved);
}

/* The target of a dense form is its storage, so that storing copies nothing. */
static void target(void **state)
{
    const keep_row *d = *state;
    clprune_saved *saved = make_saved("s", d);
    float *x = test_new_normal(61, 2 * ROWS * COLS);
    test_mat scratch = test_mat_make(2 * ROWS, COLS, 0, NULL);
    const clprune_mat where = clprune_saved_target(saved, 0, 2, scratch.mat);
    assert_int_equal(where.rows, 2 * ROWS);
    assert_int_equal(where.cols, COLS);
    if (d->form == CLPRUNE_FORM_DENSE)
        assert_ptr_not_equal(where.buffer, scratch.mat.buffer);
    else
        assert_memory_equal(&where, &scratch.mat, sizeof where);
    TEST_OK(clprune_mat_write(test_context(), where, x));
    TEST_OK(clprune_saved_store(saved, 0, 2, where, NULL));
    float *kept = kept_of(d, 2, x);
    check_products(saved, 2, kept, names[d - descs]);
    clprune_saved_destroy(saved);
}

/* What is kept of samples [first, first + count), as an array. */
static float *restored(const clprune_saved *saved, size_t first, size_t count)
{
    test_mat y = test_mat_make(count * ROWS, COLS, 2, NULL);
    cl_event event = NULL;
    TEST_OK(clprune_saved_restore(saved, first, count, y.mat, &event));
    assert_non_null(event);
    assert_int_equal(clReleaseEvent(event), CL_SUCCESS);
    float *got = test_mat_get(&y, "restored");
    return got;
}

/* Samples stored one by one are kept as all at once are; parts are restored as they are. */
static void ranges_store(void **state)
{
    const keep_row *d = *state;
    const char *name = range_names[d - range_descs];
    clprune_saved *whole = make_saved("whole", d), *apart = make_saved("apart", d);
    clprune_saved_set_seed(whole, 99);
    clprune_saved_set_seed(apart, 99);
    float *x = test_new_normal(81, BATCH * ROWS * COLS);
    test_mat dx = test_mat_make(BATCH * ROWS, COLS, 1, x);
    TEST_OK(clprune_saved_store(whole, 0, BATCH, dx.mat, NULL));
    for (size_t n = BATCH; n-- > 0;)
        TEST_OK(clprune_saved_store(apart, n, 1, clprune_mat_rows(dx.mat, n * ROWS, ROWS), NULL));
    float *want = restored(whole, 0, BATCH), *got = restored(apart, 0, BATCH);
    test_same_floats("stored apart", BATCH * ROWS, COLS, got, want, "%s", name);
    for (size_t first = 0; first <= BATCH; first++)
        for (size_t count = 0; first + count <= BATCH; count++) {
            got = restored(apart, first, count);
            test_same_floats("a part", count * ROWS, COLS, got, want + first * ROWS * COLS,
                "%s, %zu samples from %zu on", name, count, first);
        }
    clprune_saved_destroy(whole);
    clprune_saved_destroy(apart);
}

/* Products of parts, which add up. */
static void ranges_multiply(void **state)
{
    const keep_row *d = *state;
    const char *name = range_names[d - range_descs];
    clprune_saved *saved = make_saved("s", d);
    float *x = test_new_normal(83, BATCH * ROWS * COLS);
    test_mat dx = test_mat_make(BATCH * ROWS, COLS, 1, x);
    TEST_OK(clprune_saved_store(saved, 0, BATCH, dx.mat, NULL));
    float *kept = restored(saved, 0, BATCH);
    for (int form = 0; form < 4; form++) {
        const bool nt = form % 2 == 1;
        const size_t gap = (size_t)form / 2; /* rows of dw one behind the other, or apart */
        const size_t each = nt ? OUT : ROWS, dy_cols = nt ? COLS : OUT, dw_cols = nt ? ROWS : COLS;
        float *dy = test_new_normal(84, BATCH * each * dy_cols);
        float *old = test_new_normal(85, OUT * dw_cols);
        test_mat ddy = test_mat_make(BATCH * each, dy_cols, 2, dy);
        test_mat dw = test_mat_make(OUT, dw_cols, gap, NULL);
        for (size_t first = 0; first <= BATCH; first++)
            for (size_t count = 0; first + count <= BATCH; count++)
                for (int add = 0; add < 2; add++) {
                    const bspmm_ref_sizes sizes = {count, ROWS, COLS, OUT};
                    const float *part_dy = dy + first * each * dy_cols;
                    const float *part_x = kept + first * ROWS * COLS;
                    const float beta = (float)add;
                    test_mat_set(&dw, add ? old : NULL); /* beta = 0 must not read the NaNs */
                    cl_event event = NULL;
                    TEST_OK((nt ? clprune_saved_product_nt : clprune_saved_product_tn)(saved, first,
                        count, beta, clprune_mat_rows(ddy.mat, first * each, count * each), dw.mat,
                        &event));
                    assert_non_null(event);
                    assert_int_equal(clReleaseEvent(event), CL_SUCCESS);
                    gemm_ref ref = nt ? bspmm_ref_nt(sizes, 1, beta, part_dy, part_x, old)
                                      : bspmm_ref_tn(sizes, 1, beta, part_dy, part_x, old);
                    float *got = test_mat_get(&dw, "dw");
                    test_close("dw", OUT, dw_cols, got, ref.want, ref.bound,
                        "%s, %s, %zu samples from %zu on, beta %d", nt ? "nt" : "tn", name, count,
                        first, add);
                }
    }
    clprune_saved_destroy(saved);
}

/* A dense product of more samples than are multiplied side by side. */
static void many_outputs(void **state)
{
    (void)state;
    enum { SAMPLES = 7, TOKENS = 600, FEATURES = 5 };
    const clprune_keep dense = {.form = CLPRUNE_FORM_DENSE};
    const bspmm_ref_sizes sizes = {SAMPLES, TOKENS, FEATURES, TOKENS};
    clprune_saved *saved = NULL;
    TEST_OK(clprune_saved_create(test_context(), "s", &dense, SAMPLES, TOKENS, FEATURES, &saved));
    float *x = test_new_normal(91, (size_t)SAMPLES * TOKENS * FEATURES);
    float *dy = test_new_normal(92, (size_t)SAMPLES * TOKENS * FEATURES);
    float *old = test_new_normal(93, (size_t)TOKENS * TOKENS);
    test_mat dx = test_mat_make((size_t)SAMPLES * TOKENS, FEATURES, 0, x);
    test_mat ddy = test_mat_make((size_t)SAMPLES * TOKENS, FEATURES, 0, dy);
    test_mat dw = test_mat_make(TOKENS, TOKENS, 0, NULL);
    TEST_OK(clprune_saved_store(saved, 0, SAMPLES, dx.mat, NULL));
    for (int add = 0; add < 2; add++) {
        test_mat_set(&dw, add ? old : NULL);
        TEST_OK(clprune_saved_product_nt(saved, 0, SAMPLES, (float)add, ddy.mat, dw.mat, NULL));
        gemm_ref ref = bspmm_ref_nt(sizes, 1, (float)add, dy, x, old);
        float *got = test_mat_get(&dw, "dw");
        test_close("dw", TOKENS, TOKENS, got, ref.want, ref.bound, "beta %d", add);
    }
    clprune_saved_destroy(saved);
}

/* A range that is its own storage is neither copied nor refused; one that does not fit is. */
static void ranges_refused(void **state)
{
    const keep_row *d = *state;
    clprune_saved *saved = make_saved("s", d);
    test_mat x = test_mat_make(BATCH * ROWS, COLS, 0, NULL);
    const clprune_mat two = clprune_mat_rows(x.mat, 0, 2 * ROWS);
    const clprune_mat dw = clprune_mat_rows(x.mat, 0, ROWS);
    const clprune_status bad = CLPRUNE_INVALID_SIZE;
    static const size_t firsts[] = {BATCH - 1, BATCH + 1, SIZE_MAX};
    for (size_t i = 0; i < 3; i++) {
        const size_t first = firsts[i];
        TEST_FAILS(clprune_saved_store(saved, first, 2, two, NULL), bad, "the store holds 3");
        TEST_FAILS(clprune_saved_restore(saved, first, 2, two, NULL), bad, "the store holds 3");
        TEST_FAILS(
            clprune_saved_product_tn(saved, first, 2, 0, two, dw, NULL), bad, "the store holds 3");
        TEST_FAILS(
            clprune_saved_product_nt(saved, first, 2, 0, two, dw, NULL), bad, "the store holds 3");
    }
    TEST_FAILS(clprune_saved_restore(saved, 0, 1, two, NULL), bad, "x");
    TEST_FAILS(clprune_saved_store(saved, 0, 1, two, NULL), bad, "x");
    assert_int_equal(clprune_saved_restore(NULL, 0, 2, two, NULL), CLPRUNE_INVALID_ARGUMENT);
    assert_non_null(strstr(clprune_last_error(NULL), "saved is NULL"));
    test_mat_unchanged(&x, "x");
    if (d->form == CLPRUNE_FORM_DENSE) {
        const clprune_mat own = clprune_saved_dense(saved, 1, 2);
        TEST_OK(clprune_saved_store(saved, 1, 2, own, NULL));
        TEST_OK(clprune_saved_restore(saved, 1, 2, own, NULL));
    }
    clprune_saved_destroy(saved);
}

static void collect(void *user, const clprune_memory_entry *entry)
{
    char *text = user;
    const size_t used = strlen(text);
    if (entry->category == CLPRUNE_MEMORY_ACTIVATIONS)
        (void)snprintf(text + used, 256 - used, "%s=%zu ", entry->name, (size_t)entry->bytes);
}

static void booked(void **state)
{
    (void)state;
    clprune_saved *saved;
    char text[256] = "";
    saved = make_saved("act", &descs[0]);
    clprune_memory_visit(test_context(), collect, text);
    assert_string_equal(text, "act=4928 "); /* 3 * 10 * 41 floats, rounded up to 64 bytes */
    clprune_saved_destroy(saved);
    saved = make_saved("act", &descs[1]);
    text[0] = '\0';
    clprune_memory_visit(test_context(), collect, text);
    /* 30 blocks a sample, 9 kept: values 1728, crow 132, col 108 bytes */
    assert_string_equal(text, "act=1984 ");
    clprune_saved_destroy(saved);
    saved = make_saved("act", &range_descs[4]);
    text[0] = '\0';
    clprune_memory_visit(test_context(), collect, text);
    /* 24 blocks a sample, 12 kept: values 756, scales 72, crow 60, col 144 bytes */
    assert_string_equal(text, "act=1088 ");
    clprune_saved_destroy(saved);
    saved = make_saved("act", &range_descs[8]);
    text[0] = '\0';
    clprune_memory_visit(test_context(), collect, text);
    assert_string_equal(text, "act=896 "); /* values 756, scales 72, bitmap 9 bytes */
    assert_int_equal(clprune_saved_bsr(saved, 0, 1).desc.index_type, CLPRUNE_INDEX_BITMAP);
    clprune_saved_destroy(saved);
    assert_int_equal(clprune_memory_query(test_context(), CLPRUNE_MEMORY_ACTIVATIONS).live, 0);
    clprune_saved_destroy(NULL);
}

int main(void)
{
    test_list list = {0};
    for (size_t i = 0; i < sizeof descs / sizeof descs[0]; i++) {
        test_add(&list, store_and_multiply, &descs[i], "store, multiply: %s", names[i]);
        test_add(&list, target, &descs[i], "target: %s", names[i]);
    }
    for (size_t i = 0; i < sizeof range_descs / sizeof range_descs[0]; i++) {
        test_add(&list, ranges_store, &range_descs[i], "store ranges: %s", range_names[i]);
        test_add(&list, ranges_multiply, &range_descs[i], "multiply ranges: %s", range_names[i]);
        test_add(&list, ranges_refused, &range_descs[i], "bad ranges: %s", range_names[i]);
    }
    test_add(&list, many_outputs, NULL, "a dense product of 600 x 600 from 7 samples");
    test_add(&list, booked, NULL, "booked under activations");
    return test_run_on_devices("saved", &list);
}
