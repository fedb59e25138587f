/* Gated units, y = f(a) * b (arXiv 2002.05202): SwiGLU, Llama's, with f(a) = silu(a) = a / (1 +
 * exp(-a)); and those of other activations, of which Gemma has GELU by tanh. */
#ifndef CLPRUNE_SWIGLU_H
#define CLPRUNE_SWIGLU_H

#include "clprune/activation.h"

#ifdef __cplusplus
extern "C" {
#endif

/* y[r][c] = f(x[r][c]) * x[r][d + c], f = silu with CLPRUNE_ACTIVATION_SILU: a is the first half of
 * x's columns, b the second. x: M x 2d; y: M x d, also of bf16, must not overlap x. Errors:
 * INVALID_ARGUMENT (RELU, RELU6). */
CLPRUNE_API clprune_status clprune_glu_forward(clprune_context *context,
    clprune_activation activation, clprune_mat x, clprune_mat y, cl_event *event);

/* dx[r][c] = dy[r][c] * b * f'(a), dx[r][d + c] = dy[r][c] * f(a). x, dx: M x 2d; dy: M x d; dx may
 * be x, or be of bf16 apart from it. Errors as above. */
CLPRUNE_API clprune_status clprune_glu_backward(clprune_context *context,
    clprune_activation activation, clprune_mat x, clprune_mat dy, clprune_mat dx, cl_event *event);

#ifdef __cplusplus
}
#endif
#endif
