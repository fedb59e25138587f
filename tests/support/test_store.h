/* Stores of any form: what they keep of parts of a batch, and its products. */
#ifndef CLPRUNE_TEST_STORE_H
#define CLPRUNE_TEST_STORE_H

#include "support/test.h"
#include "support/test_product.h"

/* Stores all samples of x; NULL: NaNs. */
static inline void store_all(clprune_saved *saved, const float *x)
{
    const clprune_saved_info info = clprune_saved_describe(saved);
    test_mat mx = test_mat_make(info.batch * info.rows, info.cols, 3, x);
    TEST_EVENT(clprune_saved_store(saved, 0, info.batch, mx.mat, &event));
    test_mat_unchanged(&mx, "x");
}

/* What is kept of samples [first, first + count). */
static inline float *restored(const clprune_saved *saved, size_t first, size_t count)
{
    const clprune_saved_info info = clprune_saved_describe(saved);
    test_mat y = test_mat_make(count * info.rows, info.cols, 2, NULL);
    TEST_EVENT(clprune_saved_restore(saved, first, count, y.mat, &event));
    return test_mat_get(&y, "restored");
}

/* Both stores keep the same bits of all samples. */
static inline void same_kept(
    const clprune_saved *saved, const clprune_saved *want, const char *name)
{
    const clprune_saved_info info = clprune_saved_describe(want);
    test_same_floats("kept", info.batch * info.rows, info.cols, restored(saved, 0, info.batch),
        restored(want, 0, info.batch), "%s", name);
}

/* Samples stored one by one, last first, are kept as all at once; any part is restored alone. */
static inline void check_parts(
    clprune_keep keep, size_t batch, size_t rows, size_t cols, const char *name)
{
    clprune_saved *whole = test_new_saved(test_context(), keep, batch, rows, cols);
    clprune_saved *apart = test_new_saved(test_context(), keep, batch, rows, cols);
    clprune_saved_set_seed(whole, 99);
    clprune_saved_set_seed(apart, 99);
    float *x = test_new_normal(81, batch * rows * cols);
    test_mat mx = test_mat_make(batch * rows, cols, 1, x);
    store_all(whole, x);
    for (size_t n = batch; n-- > 0;)
        TEST_OK(clprune_saved_store(apart, n, 1, clprune_mat_rows(mx.mat, n * rows, rows), NULL));
    float *want = restored(whole, 0, batch);
    for (size_t first = 0; first <= batch; first++)
        for (size_t count = 0; first + count <= batch; count++)
            test_same_floats("a part", count * rows, cols, restored(apart, first, count),
                want + first * rows * cols, "%s, %zu samples from %zu on", name, count, first);
}

/* tn or nt of samples [first, first + count), of which x is kept. */
static inline clprune_status store_product(const clprune_saved *saved, const operands *o,
    size_t first, size_t count, float beta, cl_event *event)
{
    return (o->kind == NT ? clprune_saved_product_nt : clprune_saved_product_tn)(
        saved, first, count, beta, operands_part(o, first, count), o->out.mat, event);
}

static inline void check_store_product(const clprune_saved *saved, operands *o, size_t first,
    size_t count, float beta, const float *x, const char *name)
{
    operands_reset(o, beta);
    TEST_EVENT(store_product(saved, o, first, count, beta, &event));
    (void)operands_check_part(o, first, count, 1, beta, x, name);
}

/* Both products of every part are those of what is restored, whatever is added to. `gap`: elements
 * between rows of dw. */
static inline void check_products(
    const clprune_saved *saved, size_t outputs, size_t gap, const char *name)
{
    static const float betas[] = {0, 1, 0.5f};
    const clprune_saved_info info = clprune_saved_describe(saved);
    float *x = restored(saved, 0, info.batch);
    for (int kind = TN; kind <= NT; kind++) {
        const bspmm_ref_sizes sizes = {info.batch, info.rows, info.cols, outputs};
        operands o = operands_make((product)kind, sizes, 84, 2, gap);
        for (size_t first = 0; first <= info.batch; first++)
            for (size_t count = 0; first + count <= info.batch; count++)
                for (size_t i = 0; i < COUNT_OF(betas); i++)
                    check_store_product(saved, &o, first, count, betas[i], x, name);
    }
}

#endif
