#include "core/checked.h"
#include "ops/products/gemm_private.h"
#include "runtime/context/check.h"
#include "runtime/context/context_private.h"
#include "runtime/memory/scratch.h"

/* Bytes of the products that are made before they are added up. */
#define SIDE_BY_SIDE ((size_t)8 << 20)

/* Fails unless the operands of dw = sum of dy_n * x_n^T have the sizes of `batch` samples and dw
 * lies apart from both. */
static clprune_status check(clprune_context *context, size_t batch, clprune_mat dy, clprune_mat x,
    const clprune__quantised *q, clprune_mat dw)
{
    size_t dy_rows, x_rows;
    REQUIRE(clprune__mul(batch, dw.rows, &dy_rows) && clprune__mul(batch, dw.cols, &x_rows),
        CLPRUNE_SIZE_OVERFLOW, "the rows of %zu samples overflow size_t", batch);
    TRY(clprune__check_mat(context, "dw", dw, dw.rows, dw.cols));
    TRY(clprune__check_mat(context, "dy", dy, dy_rows, dy.cols));
    TRY(clprune__check_apart(context, "dw", dw, "dy", dy));
    if (q == NULL) {
        TRY(clprune__check_mat(context, "x", x, x_rows, dy.cols));
        TRY(clprune__check_apart(context, "dw", dw, "x", x));
    } else {
        TRY(clprune__check_quantised(context, "x", q));
        REQUIRE(q->desc.rows == x_rows && q->desc.cols == dy.cols, CLPRUNE_INVALID_SIZE,
            "quantised x is %zu x %zu, expected %zu x %zu", q->desc.rows, q->desc.cols, x_rows,
            dy.cols);
        TRY(clprune__check_quantised_apart(context, "dw", dw, q));
    }
    return CLPRUNE_SUCCESS;
}

/* The product of one sample is too small for a device, or not worth a launch. So as many as fit
 * SIDE_BY_SIDE are made in one launch and then added up. */
clprune_status clprune__gemm_sum_nt(clprune_context *context, size_t batch, float beta,
    clprune_mat dy, clprune_mat x, const clprune__quantised *q, clprune_mat dw, cl_event *event)
{
    SCRATCH_SCOPE(context);
    TRY(check(context, batch, dy, x, q, dw));
    const size_t results = dw.rows * dw.cols;
    if (batch == 0 || results == 0 || dy.cols == 0) { /* empty sums */
        TRY(clprune__scale(context, beta, dw, event));
        return CLPRUNE_SUCCESS;
    }
    const size_t fit = SIDE_BY_SIDE / sizeof(float) / results;
    const size_t run = clprune__max(1, clprune__min(batch, fit));
    clprune_mat products = CLPRUNE_NO_MAT;
    if (run > 1)
        TRY(clprune__scratch_mat(context, run, results, &products));
    for (size_t n = 0; n < batch; n += run) {
        const size_t count = clprune__min(run, batch - n);
        const float old = n == 0 ? beta : 1.0f;
        cl_event *last = n + count == batch ? event : NULL;
        clprune__quantised part;
        clprune__gemm_job job = {.batch = count,
            .of_samples = fit > 1, /* large ones get a launch each */
            .transpose_b = true,
            .alpha = 1.0f,
            .beta = run == 1 ? old : 0.0f,
            .a = clprune_mat_rows(dy, n * dw.rows, dw.rows),
            .stride_a = dw.rows * dy.ld,
            .c = dw};
        if (run > 1) {
            job.c =
                (clprune_mat){products.buffer, products.offset, dw.rows, dw.cols, dw.cols, dw.type};
            job.stride_c = results;
        }
        if (q != NULL) {
            part = clprune__quantised_rows(q, n * dw.cols, count * dw.cols);
            job.quantised_b = &part;
        } else {
            job.b = clprune_mat_rows(x, n * dw.cols, dw.cols);
            job.stride_b = dw.cols * x.ld;
        }
        TRY(clprune__gemm(context, &job, run > 1 ? NULL : last));
        if (run > 1)
            TRY(clprune__sample_sum(context, old, count, products, dw, last));
    }
    return CLPRUNE_SUCCESS;
}
