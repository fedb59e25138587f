/* Dense matrix products with BLAS semantics at every size: on GPUs by CLBlast, batches by a kernel
 * of our own that takes all samples at once; on CPUs by our own kernel, which is faster than tuned
 * CLBlast. $CLPRUNE_DEBUG = gemm=clblast, gemm=tiled or gemm=vector overrides the choice.
 *
 * CLBlast keeps one state for the process. Its calls are made one at a time, whatever their context
 * and thread, and its tuned parameters (clprune_context_tuning) hold for all contexts of a device:
 * those of the last context that made its first product. Its compiled programs are released when
 * the last context that used it is destroyed. */
#ifndef CLPRUNE_GEMM_H
#define CLPRUNE_GEMM_H

#include <stdbool.h>

#include "clprune/matrix.h"

#ifdef __cplusplus
extern "C" {
#endif

/* c = alpha * op(a) * op(b) + beta * c, with op(a) of M x K, op(b) of K x N and c of M x N, where
 * op transposes if its flag is set. Zero sizes behave as BLAS: K = 0 scales c by beta, M = 0 or
 * N = 0 does nothing; beta = 0 never reads c. c must not overlap a or b.
 * The temporary that CLBlast needs is the context's, booked under workspace.
 * Errors: INVALID_SIZE, INVALID_ARGUMENT, CLBLAST_ERROR, OUT_OF_DEVICE_MEMORY. */
CLPRUNE_API clprune_status clprune_gemm(clprune_context *context, bool transpose_a,
    bool transpose_b, float alpha, float beta, clprune_mat a, clprune_mat b, clprune_mat c,
    cl_event *event);

/* `batch` products of the same sizes: a, b and c are the operands of sample 0, those of sample i
 * start i * stride elements later. A stride of 0 for a or b shares that operand; each c must end
 * before the next begins, stride_c >= (M - 1) * ld + N. Otherwise as clprune_gemm. */
CLPRUNE_API clprune_status clprune_gemm_batched(clprune_context *context, size_t batch,
    bool transpose_a, bool transpose_b, float alpha, float beta, clprune_mat a, size_t stride_a,
    clprune_mat b, size_t stride_b, clprune_mat c, size_t stride_c, cl_event *event);

#ifdef __cplusplus
}
#endif
#endif
