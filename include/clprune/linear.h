/* Linear layer: y = x * w^T + b, the plug-in for a dense layer with two parameters more, sparsity
 * and block. The forward pass is dense; the input is kept pruned; only dw feels the pruning. */
#ifndef CLPRUNE_LINEAR_H
#define CLPRUNE_LINEAR_H

#include <stdbool.h>

#include "clprune/gemm.h"
#include "clprune/saved.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct clprune_linear clprune_linear;

typedef struct clprune_linear_desc {
    size_t rows; /* of one sample: its tokens; pruning ranks blocks within one sample */
    size_t in, out;
    clprune_block block; /* default {1, 16} where both are 0 */
    float sparsity; /* 0, of fp32 values, keeps the input dense: the dense layer, bit for bit */
    clprune_norm norm;
    clprune_criterion criterion;
    clprune_value_type value_type; /* narrow: BSR at any sparsity, 0 keeps all its blocks */
    clprune_index_type index_type; /* of that BSR */
} clprune_linear_desc;

/* On failure *layer is NULL. The layer holds no parameters: they are the caller's matrices.
 * Errors: INVALID_ARGUMENT, OUT_OF_HOST_MEMORY. */
CLPRUNE_API clprune_status clprune_linear_create(
    clprune_context *context, const clprune_linear_desc *desc, clprune_linear **layer);
CLPRUNE_API void clprune_linear_destroy(clprune_linear *layer); /* accepts NULL */

/* The store for up to `batch` inputs of this layer: dense at sparsity 0 and fp32 values,
 * else BSR. */
CLPRUNE_API clprune_status clprune_linear_saved_create(
    clprune_linear *layer, size_t batch, const char *name, clprune_saved **saved);

/* Who adds the bias. True: the product of clprune_linear_forward does, at no cost (the library's
 * own product, on CPUs). False: that takes another pass over y (CLBlast); where the next operation
 * can take the bias along, as clprune_gelu_forward can, give b to that one and CLPRUNE_NO_MAT to
 * clprune_linear_forward: the same bits in a pass less. False for NULL. */
CLPRUNE_API bool clprune_linear_fuses_bias(const clprune_linear *layer);

/* y = x * w^T + b for all tokens of `batch` samples, and saved = x in its kept form.
 * x: (batch * rows) x in; w: out x in; b: 1 x out, or CLPRUNE_NO_MAT; y: (batch * rows) x out.
 * saved: NULL in inference. y must not overlap x. */
CLPRUNE_API clprune_status clprune_linear_forward(clprune_linear *layer, size_t batch,
    clprune_mat x, clprune_mat w, clprune_mat b, clprune_mat y, clprune_saved *saved,
    cl_event *event);

/* dx = dy * w; dw = dy^T * saved; db = sum of the rows of dy. All are overwritten; each of them may
 * be CLPRUNE_NO_MAT to skip it. x is not needed. dx must not overlap dy. db takes a pass over dy:
 * clprune_gelu_backward and clprune_layerscale_backward make it on their way, with the same bits.
 */
CLPRUNE_API clprune_status clprune_linear_backward(clprune_linear *layer, size_t batch,
    const clprune_saved *saved, clprune_mat dy, clprune_mat w, clprune_mat dx, clprune_mat dw,
    clprune_mat db, cl_event *event);

#ifdef __cplusplus
}
#endif
#endif
