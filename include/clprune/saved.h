/* Stores: a clprune_saved keeps a tensor from the forward to the backward pass, in the form that a
 * clprune_keep describes. A layer's forward pass stores its input, and its backward pass reads the
 * store in any form.
 *
 * Shapes. A store holds up to `batch` samples of rows x cols. The shape may change between forward
 * passes as long as its bytes fit (clprune_saved_reshape; layers call it themselves). Functions
 * take samples [first, first + count). Storing a batch in parts gives the same bits as storing it
 * whole. Samples must be stored before they are read. After a reshape no sample is stored. A store
 * that fails leaves its samples unstored. PRUNED, MEAN, QUANTISED and POOLED stores refuse unstored
 * samples (INVALID_ARGUMENT). Stores that are matrices do not check: DENSE, GELU_CODE, MASK, and
 * QUANTISED of 16 bits with columns in multiples of 16. There, unstored samples are undefined.
 * Samples of a new store in the caller's buffer count as stored (clprune_saved_create_in).
 *
 * Memory. A store is one blob of clprune_saved_sizes.bytes bytes. The library allocates it
 * (clprune_saved_create), or the caller lends a region of a buffer (clprune_saved_create_in). The
 * blob begins at a multiple of CLPRUNE_SAVED_ALIGN bytes. Its layout, each part at the next
 * multiple of 4 bytes:
 *
 *     DENSE       fp32 [batch * rows][cols]
 *     PRUNED      values, scales (INT8, INT4), then crow and col, or the bitmap: see clprune/bsr.h
 *     MEAN        fp32 [batch][cols]
 *     GELU_CODE   codes [batch * rows][ceil(cols * bits / 32) * 4 bytes]: see clprune/activation.h;
 *                 the first code of a byte in its lowest bits, a row padded with zero bits
 *     MASK        bits [batch * rows][ceil(cols / 32) * 4 bytes]: see clprune/relu.h
 *     QUANTISED, POOLED: see clprune/keep.h
 *
 * Errors. INVALID_ARGUMENT (NULL, a bad clprune_keep, samples never stored), INVALID_SIZE (samples
 * outside the store, a matrix of the wrong shape), OUT_OF_DEVICE_MEMORY (scratch), SIZE_OVERFLOW.
 * The text is in the last error of the store's context. */
#ifndef CLPRUNE_SAVED_H
#define CLPRUNE_SAVED_H

#include "clprune/keep.h"

#ifdef __cplusplus
extern "C" {
#endif

#define CLPRUNE_SAVED_ALIGN 64 /* bytes */

/* A store; the caller destroys it. */
typedef struct clprune_saved clprune_saved;

/* The bytes that a form takes for a shape. */
typedef struct clprune_saved_sizes {
    size_t bytes;        /* the blob: a multiple of CLPRUNE_SAVED_ALIGN */
    size_t values_bytes; /* its part for values, codes and scales */
    size_t index_bytes;  /* its part for the index of kept blocks */
    size_t dense_bytes;  /* batch * rows * cols * 4: the size of DENSE */
} clprune_saved_sizes;

/* Computes the sizes without touching a device. On failure *sizes is zeroed, and the text is in
 * clprune_last_error(NULL). */
CLPRUNE_API clprune_status clprune_saved_size_query(
    const clprune_keep *keep, size_t batch, size_t rows, size_t cols, clprune_saved_sizes *sizes);

/* Creates a store for `batch` samples of rows x cols, in its own buffer, booked under activations
 * as `name`; the caller destroys it. On failure *saved is NULL. Errors also: OUT_OF_HOST_MEMORY. */
CLPRUNE_API clprune_status clprune_saved_create(clprune_context *context, const char *name,
    const clprune_keep *keep, size_t batch, size_t rows, size_t cols, clprune_saved **saved);

/* Creates a store in `bytes` bytes of the caller's buffer, starting at byte `offset`. The caller
 * keeps ownership; the buffer must outlive the store's last command. Nothing is booked. `bytes` may
 * exceed the size of this shape, to allow larger shapes later, and may be 0 if that size is 0. The
 * region may hold a blob of the same keep and shape, which can be read at once; until something is
 * stored, the caller vouches for its contents. The index of a PRUNED blob is not checked: with an
 * invalid index, kernels access memory outside of the region. */
CLPRUNE_API clprune_status clprune_saved_create_in(clprune_context *context,
    const clprune_keep *keep, size_t batch, size_t rows, size_t cols, cl_mem buffer, size_t offset,
    size_t bytes, clprune_saved **saved);

/* Releases the store; accepts NULL. */
CLPRUNE_API void clprune_saved_destroy(clprune_saved *saved);

/* Changes the shape; the contents are lost, unless the call fails. Enqueues nothing. Errors:
 * INVALID_SIZE (the blob is too small). */
CLPRUNE_API clprune_status clprune_saved_reshape(
    clprune_saved *saved, size_t batch, size_t rows, size_t cols);

/* A store's keep, with defaults filled in, its shape and its place. */
typedef struct clprune_saved_info {
    clprune_keep keep;
    size_t batch, rows, cols;
    clprune_saved_sizes sizes; /* of this shape */
    cl_mem buffer;             /* has the blob; not retained for the caller */
    size_t offset, bytes;      /* of the region: where it starts, its capacity */
} clprune_saved_info;

/* Describes a store; zeros for NULL. */
CLPRUNE_API clprune_saved_info clprune_saved_describe(const clprune_saved *saved);

/* Where to write the activation of samples [first, first + count) before storing it. For DENSE this
 * is the store's own memory, so that storing copies nothing; for other forms, and for saved = NULL,
 * it is `scratch`: (count * rows) x cols, returned unchanged. */
CLPRUNE_API clprune_mat clprune_saved_target(
    const clprune_saved *saved, size_t first, size_t count, clprune_mat scratch);

/* Stores x, (count * rows) x cols, as samples [first, first + count). A no-op if x is the store's
 * own memory (clprune_saved_target). Later commands may overwrite x. */
CLPRUNE_API clprune_status clprune_saved_store(
    clprune_saved *saved, size_t first, size_t count, clprune_mat x, cl_event *event);

/* Restores samples [first, first + count) to x, dense: (count * rows) x cols, zero where blocks
 * were pruned. A no-op if x is the store's own memory. */
CLPRUNE_API clprune_status clprune_saved_restore(
    const clprune_saved *saved, size_t first, size_t count, clprune_mat x, cl_event *event);

/* dw = sum_n dy_n^T * x_n + beta * dw, summed over samples [first, first + count) of the stored x.
 * dy: (count * rows) x o, for these samples only; dw: o x cols, must not overlap dy or the store.
 * beta = 0 never reads dw. */
CLPRUNE_API clprune_status clprune_saved_product_tn(const clprune_saved *saved, size_t first,
    size_t count, float beta, clprune_mat dy, clprune_mat dw, cl_event *event);

/* dw = sum_n dy_n * x_n^T + beta * dw, under the same rules; dy: (count * p) x cols; dw: p x rows.
 */
CLPRUNE_API clprune_status clprune_saved_product_nt(const clprune_saved *saved, size_t first,
    size_t count, float beta, clprune_mat dy, clprune_mat dw, cl_event *event);

/* Sets the seed of the random numbers that later calls of clprune_saved_store draw; initially 0.
 * The same seed draws the same numbers, so give each store another seed in each training step. */
CLPRUNE_API void clprune_saved_set_seed(clprune_saved *saved, uint64_t seed);

/* Views of samples [first, first + count), clipped to the samples of the store: the matrix of a
 * DENSE store, or of a QUANTISED one of 16 bits with columns in multiples of 16, in bf16; the BSR
 * matrix of PRUNED, the bits of MASK. For a store of another form, the matrix has no rows and the
 * BSR matrix no samples. */
CLPRUNE_API clprune_mat clprune_saved_dense(const clprune_saved *saved, size_t first, size_t count);
CLPRUNE_API clprune_bsr clprune_saved_bsr(const clprune_saved *saved, size_t first, size_t count);
CLPRUNE_API clprune_mat clprune_saved_mask(const clprune_saved *saved, size_t first, size_t count);

#ifdef __cplusplus
}
#endif
#endif
