/* Activation functions whose backward pass reads a store: y = f(x + b), and what dx needs is kept
 * in any form (clprune/saved.h).
 *
 *     RELU   MASK keeps one bit an element. Other forms keep y; dx = dy where what is restored is
 *            positive.
 *     GELU   GELU_CODE keeps the derivative as codes. Other forms keep x + b; the derivative is
 *            taken at what is restored.
 *
 * DENSE, MASK and GELU_CODE are read in place; other forms are restored, some samples at a time, in
 * scratch. A backward pass on a lossy form is as exact as what is restored. */
#ifndef CLPRUNE_ACTIVATION_H
#define CLPRUNE_ACTIVATION_H

#include "clprune/saved.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum clprune_activation {
    CLPRUNE_ACTIVATION_RELU = 0, /* max(x, 0): clprune/relu.h */
    CLPRUNE_ACTIVATION_GELU = 1  /* x * Phi(x): clprune/gelu.h */
} clprune_activation;

/* y = f(x + b) for samples [first, first + count), and `saved` = what dx needs of them. x, y:
 * (count * rows) x cols; y may be x. b: 1 x cols, apart from all, or CLPRUNE_NO_MAT: for a linear
 * layer that left its bias out, see clprune_linear_fuses_bias. GELU with b overwrites x by x + b,
 * else x stays as it is where y is elsewhere. saved: NULL in inference; x may be its storage where
 * it is DENSE and keeps x + b, y where it is DENSE and keeps y.
 * Errors: INVALID_ARGUMENT (GELU with MASK, RELU with GELU_CODE), and those of clprune_saved_store.
 */
CLPRUNE_API clprune_status clprune_activation_forward(clprune_context *context,
    clprune_activation activation, size_t first, size_t count, clprune_mat x, clprune_mat b,
    clprune_mat y, clprune_saved *saved, cl_event *event);

/* dx = dy * f'(x + b) for samples [first, first + count) of the store, and db = sum of the rows of
 * dx + beta * db, the gradient of b: beta = 0 never reads db, 1 accumulates. dy, dx: (count * rows)
 * x cols; dx may be dy. db: 1 x cols, apart from all, or CLPRUNE_NO_MAT to skip it. */
CLPRUNE_API clprune_status clprune_activation_backward(clprune_context *context,
    clprune_activation activation, size_t first, size_t count, float beta,
    const clprune_saved *saved, clprune_mat dy, clprune_mat dx, clprune_mat db, cl_event *event);

#ifdef __cplusplus
}
#endif
#endif
