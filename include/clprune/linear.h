/* Linear layer: the plug-in for a dense layer whose input is kept in any form (clprune_keep). The
 * forward pass is dense; only dw feels how the input was kept.
 *
 *     FEATURES   y = x * w^T + 1 * b      each row of x: channels of a token, or of a whole sample
 *     ROWS       y_n = w * x_n + b^T * 1  each column of a sample: mixes its rows (tokens)
 *
 * With ROWS everything stays in the layout rows x features, without a transpose; blocks lie along
 * the features, which is the reduction axis of the weight gradient. */
#ifndef CLPRUNE_LINEAR_H
#define CLPRUNE_LINEAR_H

#include <stdbool.h>

#include "clprune/gemm.h"
#include "clprune/saved.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What w multiplies. */
typedef enum clprune_axis {
    CLPRUNE_AXIS_FEATURES = 0, /* rows of x */
    CLPRUNE_AXIS_ROWS = 1      /* columns of each sample */
} clprune_axis;

typedef struct clprune_linear clprune_linear;

typedef struct clprune_linear_desc {
    size_t in, out; /* w is out x in */
    clprune_axis axis;
    clprune_keep keep;    /* of the input; zeros keep it dense: the dense layer, bit for bit */
    uint64_t reserved[4]; /* zeros */
} clprune_linear_desc;

/* On failure *layer is NULL. The layer holds no parameters: they are the caller's matrices. One
 * layer serves any number of samples and of rows. Errors: INVALID_ARGUMENT, OUT_OF_HOST_MEMORY. */
CLPRUNE_API clprune_status clprune_linear_create(
    clprune_context *context, const clprune_linear_desc *desc, clprune_linear **layer);
CLPRUNE_API void clprune_linear_destroy(clprune_linear *layer); /* accepts NULL */

/* The store for up to `batch` inputs of this layer, kept as desc.keep says. `size` is the side of a
 * sample that the layer does not know: its rows for FEATURES, its features for ROWS. */
CLPRUNE_API clprune_status clprune_linear_saved_create(
    clprune_linear *layer, size_t batch, size_t size, const char *name, clprune_saved **saved);

/* Who adds the bias. True: the product of clprune_linear_forward does, at no cost (the library's
 * own product, on CPUs). False: that takes another pass over y (CLBlast); where the next operation
 * can take the bias along, as clprune_gelu_forward can, give b to that one and CLPRUNE_NO_MAT to
 * clprune_linear_forward: the same bits in a pass less. False for NULL. */
CLPRUNE_API bool clprune_linear_fuses_bias(const clprune_linear *layer);

/* y, as above, for `batch` samples, and saved = x in its kept form.
 *
 *     FEATURES   x: (batch * rows) x in; b: 1 x out; y: (batch * rows) x out; any rows
 *     ROWS       x: (batch * in) x features; b: 1 x out; y: (batch * out) x features; any features
 *
 * w: out x in. b may be CLPRUNE_NO_MAT. saved: NULL in inference; any store of the layer's context,
 * which takes the shape of x if it has another (clprune_saved_reshape). y must not overlap x. */
CLPRUNE_API clprune_status clprune_linear_forward(clprune_linear *layer, size_t batch,
    clprune_mat x, clprune_mat w, clprune_mat b, clprune_mat y, clprune_saved *saved,
    cl_event *event);

/* The gradients, from dy (shaped as y) and the kept x, which is not needed itself:
 *
 *     FEATURES   dx = dy * w;         dw = dy^T * saved + beta * dw
 *     ROWS       dx_n = w^T * dy_n;   dw = sum_n dy_n * saved_n^T + beta * dw
 *     both       db = sums of dy over all but the axis of out + beta * db
 *
 * beta = 0 overwrites dw and db and never reads them; 1 accumulates gradients. dx is overwritten.
 * Each of dx, dw and db may be CLPRUNE_NO_MAT to skip it; saved may be NULL where dw is. dx must
 * not overlap dy. db takes a pass over dy: clprune_gelu_backward and clprune_layerscale_backward
 * make it on their way, with the same bits. */
CLPRUNE_API clprune_status clprune_linear_backward(clprune_linear *layer, size_t batch, float beta,
    const clprune_saved *saved, clprune_mat dy, clprune_mat w, clprune_mat dx, clprune_mat dw,
    clprune_mat db, cl_event *event);

#ifdef __cplusplus
}
#endif
#endif
