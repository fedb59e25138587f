/* Linear layer that keeps its input in any form (clprune_keep) that restores it. GELU_CODE and MASK
 * do not, and are refused: INVALID_ARGUMENT. The forward pass, dx and db are dense; only dw depends
 * on how the input was kept.
 *
 *     FEATURES   y = x * w^T + 1 * b      w multiplies each row of x, such as a token's features
 *     ROWS       y_n = w * x_n + b^T * 1  w multiplies each column of a sample: mixes rows (tokens)
 *
 * With ROWS, tensors stay in the layout rows x features; there is no transpose. Blocks lie along
 * the features in both cases. */
#ifndef CLPRUNE_LINEAR_H
#define CLPRUNE_LINEAR_H

#include <stdbool.h>

#include "clprune/gemm.h"
#include "clprune/grads.h"
#include "clprune/saved.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The axis that w multiplies. */
typedef enum clprune_axis {
    CLPRUNE_AXIS_FEATURES = 0, /* rows of x */
    CLPRUNE_AXIS_ROWS = 1      /* columns of each sample */
} clprune_axis;

/* A linear layer; the caller destroys it. */
typedef struct clprune_linear clprune_linear;

/* Zero-initialise, then set in, out and the fields that you need. */
typedef struct clprune_linear_desc {
    size_t in, out; /* w is out x in */
    clprune_axis axis;
    clprune_keep keep;    /* of the input; zeros: kept dense */
    uint64_t reserved[4]; /* zeros */
} clprune_linear_desc;

/* On failure *layer is NULL. The layer holds no parameters; the caller owns them as matrices. One
 * layer takes any number of samples and rows. Errors: INVALID_ARGUMENT, OUT_OF_HOST_MEMORY. */
CLPRUNE_API clprune_status clprune_linear_create(
    clprune_context *context, const clprune_linear_desc *desc, clprune_linear **layer);
CLPRUNE_API void clprune_linear_destroy(clprune_linear *layer); /* accepts NULL */

/* Creates a store for up to `batch` inputs of this layer, with desc.keep, booked under activations
 * as `name`; the caller destroys it (clprune_saved_destroy). `size` is the sample's other side: its
 * rows for FEATURES, its features for ROWS. Errors as clprune_saved_create. */
CLPRUNE_API clprune_status clprune_linear_saved_create(
    clprune_linear *layer, size_t batch, size_t size, const char *name, clprune_saved **saved);

/* Whether clprune_linear_forward also takes an x of bf16 (clprune_mat.type), and gives y in it: if
 * products round their operands to it (clprune_context_precision). x in bf16 gives the
 * bits of the same x in fp32; it is not stored, `saved` is NULL. Both need columns in multiples of
 * 16, and an even ld and offset. On tensor cores clprune_linear_backward of FEATURES then also
 * takes such a dy, with a DENSE or QUANTISED store. False for NULL. */
CLPRUNE_API bool clprune_linear_takes_bf16(const clprune_context *context);

/* Computes y, as above, for `batch` samples, and stores x in `saved`.
 *
 *     FEATURES   x: (batch * rows) x in; b: 1 x out; y: (batch * rows) x out; any rows
 *     ROWS       x: (batch * in) x features; b: 1 x out; y: (batch * out) x features; any features
 *
 * w: out x in. b may be CLPRUNE_NO_MAT. saved: any store of the layer's context, which is reshaped
 * if x has another shape (clprune_saved_reshape), or NULL for inference. y must not overlap x,
 * w, b or the memory of saved. Errors: INVALID_ARGUMENT, INVALID_SIZE (also a store too small for
 * x), OUT_OF_DEVICE_MEMORY. */
CLPRUNE_API clprune_status clprune_linear_forward(clprune_linear *layer, size_t batch,
    clprune_mat x, clprune_mat w, clprune_mat b, clprune_mat y, clprune_saved *saved,
    cl_event *event);

/* Computes the gradients from dy, shaped as y, and the store; x itself is not needed:
 *
 *     FEATURES   dx = dy * w;         dw = dy^T * saved + beta * dw
 *     ROWS       dx_n = w^T * dy_n;   dw = sum_n dy_n * saved_n^T + beta * dw
 *     both       db = sums of dy over all but the axis of out + beta * db
 *
 * beta = 0 overwrites dw and db and never reads them; beta = 1 accumulates. dx_beta does
 * the same for dx. CLPRUNE_NO_MAT skips dx, dw or db; saved may be NULL if dw is skipped. dx, dw
 * and db must overlap neither dy nor w, nor the memory of saved.
 *
 * db takes a pass over dy; clprune_gelu_backward and clprune_layerscale_backward can compute it in
 * their own pass, of AXIS_FEATURES with the same bits. Errors: INVALID_ARGUMENT (also samples that
 * were never stored), INVALID_SIZE, OUT_OF_DEVICE_MEMORY. */
CLPRUNE_API clprune_status clprune_linear_backward(clprune_linear *layer, size_t batch,
    const clprune_saved *saved, clprune_mat dy, clprune_mat w, const clprune_grads *grads,
    cl_event *event);

#ifdef __cplusplus
}
#endif
#endif
