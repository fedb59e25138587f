/* The gated unit of Llama (arXiv 2002.05202): y = silu(a) * b, silu(a) = a / (1 + exp(-a)); and
 * those of other activations, of which Gemma has GELU by tanh. */
#ifndef CLPRUNE_SWIGLU_H
#define CLPRUNE_SWIGLU_H

#include "clprune/activation.h"

#ifdef __cplusplus
extern "C" {
#endif

/* y[r][c] = silu(x[r][c]) * x[r][d + c]: a is the first half of x's columns, b the second. x: M x
 * 2d; y: M x d, must not overlap x. */
CLPRUNE_API clprune_status clprune_swiglu_forward(
    clprune_context *context, clprune_mat x, clprune_mat y, cl_event *event);

/* dx[r][c] = dy[r][c] * b * silu'(a), dx[r][d + c] = dy[r][c] * silu(a). x, dx: M x 2d; dy: M x d;
 * dx may be x. */
CLPRUNE_API clprune_status clprune_swiglu_backward(
    clprune_context *context, clprune_mat x, clprune_mat dy, clprune_mat dx, cl_event *event);

/* The same with f(a) in place of silu(a). Errors: INVALID_ARGUMENT (RELU, RELU6). */
CLPRUNE_API clprune_status clprune_glu_forward(clprune_context *context,
    clprune_activation activation, clprune_mat x, clprune_mat y, cl_event *event);
CLPRUNE_API clprune_status clprune_glu_backward(clprune_context *context,
    clprune_activation activation, clprune_mat x, clprune_mat dy, clprune_mat dx, cl_event *event);

#ifdef __cplusplus
}
#endif
#endif
