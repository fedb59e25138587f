/* Saved activations: a tensor kept from the forward to the backward pass, in the form that a
 * clprune_keep describes.
 *
 * The form is the caller's choice, not the layers': a layer stores its input, and its backward pass
 * multiplies with whatever was kept.
 *
 * Shapes. A store holds up to `batch` samples of rows x cols. The shape may change from one forward
 * pass to the next as long as its bytes fit (clprune_saved_reshape; layers do it themselves).
 * Functions take samples [first, first + count): the parts of a batch, stored one by one, are kept
 * as the whole would be, bit for bit.
 *
 * Memory. What is kept is one blob of clprune_saved_sizes.bytes bytes. The library allocates it
 * (clprune_saved_create), or the caller lends a region of a buffer (clprune_saved_create_in). The
 * blob begins at a multiple of CLPRUNE_SAVED_ALIGN bytes. Its layout, each part at the next
 * multiple of 4 bytes:
 *
 *     DENSE       fp32 [batch * rows][cols]
 *     PRUNED      values, scales (INT8), then crow and col, or the bitmap: see clprune/bsr.h
 *     MEAN        fp32 [batch][cols]
 *     GELU_CODE   codes [batch * rows][ceil(cols * bits / 32) * 4 bytes]: see clprune/gelu_code.h
 *     MASK        bits [batch * rows][ceil(cols / 32) * 4 bytes]: see clprune/relu.h
 *     others      as clprune/keep.h says where it lists them
 *
 * Errors. INVALID_ARGUMENT (NULL, a bad clprune_keep), INVALID_SIZE (samples outside of the store,
 * a matrix of another shape), OUT_OF_DEVICE_MEMORY (scratch), SIZE_OVERFLOW; the last error of the
 * store's context has the text. */
#ifndef CLPRUNE_SAVED_H
#define CLPRUNE_SAVED_H

#include "clprune/keep.h"

#ifdef __cplusplus
extern "C" {
#endif

#define CLPRUNE_SAVED_ALIGN 64 /* bytes */

typedef struct clprune_saved clprune_saved;

typedef struct clprune_saved_sizes {
    size_t bytes;        /* of the blob: a multiple of CLPRUNE_SAVED_ALIGN */
    size_t values_bytes; /* of it: values, codes and their scales */
    size_t index_bytes;  /* of it: which blocks are kept */
    size_t dense_bytes;  /* batch * rows * cols * 4: what DENSE takes */
} clprune_saved_sizes;

/* Computes the sizes without touching a device. On failure *sizes is zeroed, and the text is in
 * clprune_last_error(NULL). */
CLPRUNE_API clprune_status clprune_saved_size_query(
    const clprune_keep *keep, size_t batch, size_t rows, size_t cols, clprune_saved_sizes *sizes);

/* Creates a store for `batch` samples of rows x cols, in a buffer of its own that is booked under
 * activations as `name`. On failure *saved is NULL. */
CLPRUNE_API clprune_status clprune_saved_create(clprune_context *context, const char *name,
    const clprune_keep *keep, size_t batch, size_t rows, size_t cols, clprune_saved **saved);

/* The same in `bytes` bytes of the caller's buffer from byte `offset` on. The buffer stays the
 * caller's and must outlive the store's last command; nothing is booked. The bytes may exceed the
 * shape's, for later shapes; they may be 0 where the shape's are. */
CLPRUNE_API clprune_status clprune_saved_create_in(clprune_context *context,
    const clprune_keep *keep, size_t batch, size_t rows, size_t cols, cl_mem buffer, size_t offset,
    size_t bytes, clprune_saved **saved);

/* Releases the store; accepts NULL. */
CLPRUNE_API void clprune_saved_destroy(clprune_saved *saved);

/* Gives the store another shape; what it held is lost. Host work only. INVALID_SIZE where the blob
 * is too small. */
CLPRUNE_API clprune_status clprune_saved_reshape(
    clprune_saved *saved, size_t batch, size_t rows, size_t cols);

/* How x is kept, with all defaults filled in, and the shape. Zeros for NULL. */
typedef struct clprune_saved_info {
    clprune_keep keep;
    size_t batch, rows, cols;
    clprune_saved_sizes sizes; /* of that shape */
    cl_mem buffer;             /* the blob: not retained */
    size_t offset, bytes;      /* where it lies, and its room */
} clprune_saved_info;

CLPRUNE_API clprune_saved_info clprune_saved_describe(const clprune_saved *saved);

/* Where to produce the activation of samples [first, first + count): the storage itself for DENSE,
 * so that storing copies nothing, else `scratch` unchanged, as for NULL. */
CLPRUNE_API clprune_mat clprune_saved_target(
    const clprune_saved *saved, size_t first, size_t count, clprune_mat scratch);

/* Keeps x, (count * rows) x cols, as samples [first, first + count). Nothing to do if x is the
 * storage. x may be overwritten by later commands. */
CLPRUNE_API clprune_status clprune_saved_store(
    clprune_saved *saved, size_t first, size_t count, clprune_mat x, cl_event *event);

/* x = what is kept of samples [first, first + count), dense: (count * rows) x cols, zero where
 * blocks were pruned. Nothing to do if x is the storage. */
CLPRUNE_API clprune_status clprune_saved_restore(
    const clprune_saved *saved, size_t first, size_t count, clprune_mat x, cl_event *event);

/* dw = sum_n dy_n^T * x_n + beta * dw over samples [first, first + count) of the kept x. dy:
 * (count * rows) x o, of these samples alone; dw: o x cols, apart from dy and the store. beta = 0
 * never reads dw. */
CLPRUNE_API clprune_status clprune_saved_product_tn(const clprune_saved *saved, size_t first,
    size_t count, float beta, clprune_mat dy, clprune_mat dw, cl_event *event);

/* dw = sum_n dy_n * x_n^T + beta * dw, likewise; dy: (count * p) x cols; dw: p x rows. */
CLPRUNE_API clprune_status clprune_saved_product_nt(const clprune_saved *saved, size_t first,
    size_t count, float beta, clprune_mat dy, clprune_mat dw, cl_event *event);

/* What the next store draws random numbers from, 0 at first: the same seed draws the same ones, so
 * give each store of a training run its own. */
CLPRUNE_API void clprune_saved_set_seed(clprune_saved *saved, uint64_t seed);

/* Samples [first, first + count), clipped to those there are, as they are kept: the matrix of a
 * DENSE store, the BSR matrix of a PRUNED one, the codes of a GELU_CODE one, the bits of a MASK
 * one. The matrices have no rows, the BSR matrix no samples, where the form is another. */
CLPRUNE_API clprune_mat clprune_saved_dense(const clprune_saved *saved, size_t first, size_t count);
CLPRUNE_API clprune_bsr clprune_saved_bsr(const clprune_saved *saved, size_t first, size_t count);
CLPRUNE_API clprune_mat clprune_saved_codes(const clprune_saved *saved, size_t first, size_t count);
CLPRUNE_API clprune_mat clprune_saved_mask(const clprune_saved *saved, size_t first, size_t count);

#ifdef __cplusplus
}
#endif
#endif
