/* Products that read codes without a dense copy. */
#include "ops/codes/rotate_private.h"
#include "ops/products/gemm_private.h"
#include "runtime/context/fail.h"

clprune_status clprune__quantised_tn(clprune_context *context, float beta, clprune_mat dy,
    const clprune__quantised *q, clprune_mat dw, cl_event *event)
{
    clprune__gemm_job job = {.batch = 1,
        .transpose_a = true,
        .alpha = 1.0f,
        .beta = beta,
        .a = dy,
        .quantised_b = q,
        .c = dw};
    if (!q->desc.rotated || q->desc.rows == 0)
        return clprune__gemm(context, &job, event);
    /* x = q R^T, so dy^T x + beta dw = (dy^T q + beta dw R) R^T: without scratch. */
    if (beta != 0.0f)
        TRY(clprune__rotate(context, q->desc.group, false, dw, NULL));
    TRY(clprune__gemm(context, &job, NULL));
    return clprune__rotate(context, q->desc.group, true, dw, event);
}

clprune_status clprune__quantised_nt(clprune_context *context, size_t batch, float beta,
    clprune_mat dy, const clprune__quantised *q, clprune_mat dw, cl_event *event)
{
    return clprune__gemm_sum_nt(context, batch, beta, dy, CLPRUNE_NO_MAT, q, dw, event);
}
