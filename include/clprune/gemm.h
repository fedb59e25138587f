/* Dense matrix products with BLAS semantics at every size. GPUs use CLBlast, and for batches our
 * own kernel, which computes all samples in one launch. That kernel also computes single products
 * on devices whose largest work-group is below 256, which CLBlast's kernels need, and those with
 * operands beyond 2^31 elements of their buffer, because CLBlast counts in 31 bits. CPUs use
 * another kernel of ours, which is faster than tuned CLBlast. CLPRUNE_DEBUG=gemm=clblast,
 * gemm=tiled or gemm=vector overrides the choice.
 *
 * CLBlast has one state per process. The library therefore serialises its calls over all contexts
 * and threads. CLBlast frees its state when the process exits; products that need it then fail with
 * CLBLAST_ERROR. CLBlast's tuned parameters (clprune_context_tuning) apply to all contexts of a
 * device; each context sets them at its first product. CLBlast's compiled programs are released
 * with the last context that used it. */
#ifndef CLPRUNE_GEMM_H
#define CLPRUNE_GEMM_H

#include <stdbool.h>

#include "clprune/matrix.h"

#ifdef __cplusplus
extern "C" {
#endif

/* c = alpha * op(a) * op(b) + beta * c, with op(a): M x K, op(b): K x N, c: M x N; op transposes if
 * its flag is set. Sizes of zero behave as in BLAS: K = 0 scales c by beta, M = 0 or N = 0 is a
 * no-op. alpha = 0 never reads a and b, beta = 0 never reads c. c must not overlap a or b.
 * Where clprune_linear_takes_bf16 is true, a may be of bf16 unless it is transposed, and with beta
 * 0 c may be, in columns of multiples of 16. b may be of bf16 or codes (clprune/matrix.h).
 * CLBlast's temporary buffer belongs to the context and is booked under workspace.
 * Errors: INVALID_SIZE, INVALID_ARGUMENT, CLBLAST_ERROR, OUT_OF_DEVICE_MEMORY. */
CLPRUNE_API clprune_status clprune_gemm(clprune_context *context, bool transpose_a,
    bool transpose_b, float alpha, float beta, clprune_mat a, clprune_mat b, clprune_mat c,
    cl_event *event);

/* `batch` products of the same sizes. a, b and c are the operands of sample 0; the operands of
 * sample i start i * stride elements later. A stride of 0 shares a or b between samples. Each c
 * must end before the next begins: stride_c >= (M - 1) * ld + N. The memory from the first c to the
 * last must not overlap that of all a or all b, unless they lie side by side in columns of one
 * matrix: operands must not take turns within a sample. Otherwise as clprune_gemm. */
CLPRUNE_API clprune_status clprune_gemm_batched(clprune_context *context, size_t batch,
    bool transpose_a, bool transpose_b, float alpha, float beta, clprune_mat a, size_t stride_a,
    clprune_mat b, size_t stride_b, clprune_mat c, size_t stride_c, cl_event *event);

#ifdef __cplusplus
}
#endif
#endif
