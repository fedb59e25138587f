/* Activation functions y = f(x + b) whose backward pass reads a store (clprune/saved.h).
 *
 *     RELU   MASK keeps one bit per element (clprune/relu.h): dx = dy where x is positive or NaN,
 *            else 0. Other forms keep y; dx = dy where the restored y is positive or NaN.
 *            RELU6 likewise, where it is below 6, too.
 *     GELU, GELU_TANH, SILU, TANH
 *            GELU_CODE keeps the derivative as codes. Other forms keep x + b; the derivative
 *            is computed from the restored x + b.
 *
 *     HARD_SIGMOID, HARD_SWISH, SIGMOID, RECIPROCAL
 *            the same without GELU_CODE, whose levels are not those of their derivatives.
 *
 * GELU_CODE. The backward pass of GELU needs only its slope s(h) = Phi(h) + h * phi(h), which lies
 * in [-0.129, 1.129]: dh = dg * s(h). A code is the index of the level nearest to s(h) among 4, 16
 * or 256 levels. The levels form a Lloyd-Max quantiser: they minimise the mean square of s(h) -
 * level for h ~ N(0, sigma^2) with log sigma uniform from log 1/2 to log 2 (tools/fit_gelu_code.py).
 * Measured for N(0, 1):
 *
 *     bits   mean square   RMS        largest error, for any h
 *        2      8.03e-3      0.090      0.182
 *        4      4.67e-4      0.022      0.046
 *        8      1.76e-6      0.0013     0.0028
 *
 * The rounding is not random, so dh has a small bias. An infinite h gets the code nearest to its
 * slope, 0 or 1. A NaN gets code 0: it shows in g, but not in dh.
 *
 * Below, GELU also stands for all but RELU and RELU6, and RELU for RELU6.
 *
 * The backward pass reads DENSE, MASK and GELU_CODE in place, QUANTISED except for RELU, and
 * restores other forms to scratch, a few samples at a time. With a lossy form, dx has the error of
 * the restored tensor. */
#ifndef CLPRUNE_ACTIVATION_H
#define CLPRUNE_ACTIVATION_H

#include "clprune/grads.h"
#include "clprune/saved.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The function f. */
typedef enum clprune_activation {
    CLPRUNE_ACTIVATION_RELU = 0, /* max(x, 0); -0 gives 0, NaN gives NaN */
    CLPRUNE_ACTIVATION_GELU = 1, /* x * Phi(x): clprune/gelu.h */
    /* x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3))): GELU as GPT-2 has it. It differs
       from GELU by 4.7e-4 at most. */
    CLPRUNE_ACTIVATION_GELU_TANH = 2,
    CLPRUNE_ACTIVATION_SILU = 3,         /* x / (1 + exp(-x)), or swish (arXiv 1710.05941) */
    CLPRUNE_ACTIVATION_TANH = 4,         /* tanh(x) */
    CLPRUNE_ACTIVATION_RELU6 = 5,        /* min(max(x, 0), 6) */
    CLPRUNE_ACTIVATION_HARD_SIGMOID = 6, /* min(max(x + 3, 0), 6) / 6 */
    CLPRUNE_ACTIVATION_HARD_SWISH = 7,   /* x * hard sigmoid of x (arXiv 1905.02244) */
    CLPRUNE_ACTIVATION_SIGMOID = 8,      /* 1 / (1 + exp(-x)) */
    CLPRUNE_ACTIVATION_RECIPROCAL = 9    /* 1 / x: keep x without error, its slope is -1 / x^2 */
} clprune_activation;

/* y = f(x + b) for samples [first, first + count), and stores in `saved` what dx needs. x, y:
 * (count * rows) x cols; y may be x, except for GELU with a store other than GELU_CODE, which keeps
 * x + b. b: 1 x cols, must not overlap other arguments, or CLPRUNE_NO_MAT; use it after a linear
 * layer without its bias. GELU with a b overwrites x by x + b, except with GELU_CODE; otherwise x
 * is unchanged unless it is y. saved: NULL for inference, which reads neither first nor count. x
 * and y must not overlap the store; with a DENSE store, x (GELU) or y (RELU) may be the memory of
 * these samples (clprune_saved_target). Except for RELU y may be of bf16, and so may x without b if
 * it is not stored. Errors: INVALID_ARGUMENT (GELU with MASK, RELU and the last four with
 * GELU_CODE, y = x where the store keeps x + b), and as clprune_saved_store. */
CLPRUNE_API clprune_status clprune_activation_forward(clprune_context *context,
    clprune_activation activation, size_t first, size_t count, clprune_mat x, clprune_mat b,
    clprune_mat y, clprune_saved *saved, cl_event *event);

/* dx = dy * f'(x + b) for samples [first, first + count) of the store. Also db = sum of the rows of
 * dx + beta * db, the gradient of b: beta = 0 never reads db, beta = 1 accumulates. dy, dx:
 * (count * rows) x cols; dx may be dy, or be of bf16 apart from it, but must not overlap the store.
 * db: 1 x cols, must not overlap other arguments; CLPRUNE_NO_MAT skips it. grads has dx, db and
 * beta; its dw and dx_beta stay zero. */
CLPRUNE_API clprune_status clprune_activation_backward(clprune_context *context,
    clprune_activation activation, size_t first, size_t count, const clprune_saved *saved,
    clprune_mat dy, const clprune_grads *grads, cl_event *event);

/* As clprune_activation_backward, for callers that did not keep y: also recomputes y = f(x + b)
 * from what the store holds, for QUANTISED GELU in the same pass over memory. y: as dy, of dx's
 * type, must not overlap other arguments or the store. Errors: also INVALID_ARGUMENT for MASK and
 * GELU_CODE. */
CLPRUNE_API clprune_status clprune_activation_backward_recompute(clprune_context *context,
    clprune_activation activation, size_t first, size_t count, const clprune_saved *saved,
    clprune_mat dy, clprune_mat y, const clprune_grads *grads, cl_event *event);

#ifdef __cplusplus
}
#endif
#endif
