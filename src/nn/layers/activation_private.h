/* The passes of activation functions, whose callers have entered the context. */
#ifndef CLPRUNE_NN_ACTIVATION_PRIVATE_H
#define CLPRUNE_NN_ACTIVATION_PRIVATE_H

#include "clprune/activation.h"
#include "clprune/relu.h"
#include "ops/codes/quantise_private.h"

/* y = max(x, 0), with RELU6 at most 6; -0 gives 0, NaN gives NaN. With b, x + b takes the place of
 * x; use b after a linear layer without its bias. x, y: M x d; y may be x, otherwise x is
 * unchanged. b: 1 x d, or CLPRUNE_NO_MAT. mask: M x sizes.cols, or CLPRUNE_NO_MAT for inference; a
 * bit is set where the input is positive (of RELU6 and below 6) or NaN. b and mask must not overlap
 * other arguments. */
clprune_status clprune__relu_forward(clprune_context *context, clprune_activation f, clprune_mat x,
    clprune_mat b, clprune_mat y, clprune_mat mask, cl_event *event);

/* dx = dy where the mask's bit is set, else 0 (also at x = 0). The same pass over memory computes
 * db[c] = sum_r dx[r][c] + beta * db[c], the bias gradient of the layer that made x. beta = 0 never
 * reads db; beta = 1 accumulates. dy, dx: M x d; dx may be dy. mask: M x sizes.cols, from
 * clprune__relu_forward. db: 1 x d, must not overlap other arguments; CLPRUNE_NO_MAT skips it. Sums
 * run in a fixed order. */
clprune_status clprune__relu_backward(clprune_context *context, float beta, clprune_mat dy,
    clprune_mat mask, clprune_mat dx, clprune_mat db, cl_event *event);

/* As clprune_gelu_forward, and clprune_gelu_backward or, with `again`, _recompute; of GELU, or of
 * another activation than ReLU and ReLU6 in its place. */
clprune_status clprune__gelu_forward(clprune_context *context, clprune_activation f, clprune_mat h,
    clprune_mat b, clprune_mat g, cl_event *event);
clprune_status clprune__gelu_backward(clprune_context *context, clprune_activation f, float beta,
    bool again, clprune_mat h, clprune_mat dg, clprune_mat g, clprune_mat dh, clprune_mat db,
    cl_event *event);

/* The same bits from a quantised h, without a dense copy of it; CLPRUNE_NO_MAT for g: not
 * recomputed. The caller has checked that dh is dg or nothing overlaps. */
clprune_status clprune__gelu_backward_quantised(clprune_context *context, clprune_activation f,
    float beta, const clprune__quantised *h, clprune_mat dg, clprune_mat g, clprune_mat dh,
    clprune_mat db, cl_event *event);

/* The codes of a rows x cols matrix: columns of the matrix that has them, ceil(cols * bits / 32),
 * and bytes. bits: 2, 4 or 8. */
clprune_status clprune__gelu_code_sizes(clprune_context *context, size_t rows, size_t cols,
    unsigned bits, size_t *words, size_t *bytes);

/* g = h * Phi(h), the same bits as clprune_gelu_forward, and the codes of the slopes. With b, h + b
 * takes the place of h. h, g: M x d; g may be h, otherwise h is unchanged. b: 1 x d, or
 * CLPRUNE_NO_MAT. codes: M x words. b and codes must not overlap other arguments. */
clprune_status clprune__gelu_code_forward(clprune_context *context, clprune_activation f,
    unsigned bits, clprune_mat h, clprune_mat b, clprune_mat g, clprune_mat codes, cl_event *event);

/* dh = dg * level. The same pass over memory computes db[c] = sum_r dh[r][c] + beta * db[c], the
 * bias gradient of the layer that made h; beta = 0 never reads db. dg, dh: M x d; dh may be dg.
 * codes: M x words, from clprune__gelu_code_forward with the same number of bits. db: 1 x d;
 * CLPRUNE_NO_MAT skips it. dh must not overlap codes, db must not overlap other arguments. Sums run
 * in a fixed order. */
clprune_status clprune__gelu_code_backward(clprune_context *context, unsigned bits, float beta,
    clprune_mat dg, clprune_mat codes, clprune_mat dh, clprune_mat db, cl_event *event);

#endif
