/* Saved activations: one tensor kept from the forward to the backward pass, in a chosen form.
 *
 * What is kept is a choice of the caller, not of the layers: a layer writes its activation into
 * clprune_saved_target, calls clprune_saved_store, and its backward pass multiplies with whatever
 * form was kept. */
#ifndef CLPRUNE_SAVED_H
#define CLPRUNE_SAVED_H

#include "clprune/prune.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct clprune_saved clprune_saved;

typedef enum clprune_saved_form {
    CLPRUNE_SAVED_DENSE = 0, /* as it is */
    CLPRUNE_SAVED_PRUNED = 1 /* the best blocks, as BSR */
} clprune_saved_form;

typedef struct clprune_saved_desc {
    clprune_saved_form form;
    size_t batch;      /* samples it has room for */
    size_t rows, cols; /* of one sample */
    /* The rest is read for PRUNED only. */
    clprune_block block;
    float
        sparsity; /* in [0, 1]; round-half-up(sparsity * blocks) blocks of each sample are pruned */
    clprune_norm norm;
    clprune_criterion criterion;
    clprune_value_type value_type; /* of the kept blocks */
    clprune_index_type index_type; /* which blocks are kept; SMALLEST where memory counts */
} clprune_saved_desc;

/* Creates the storage, booked under activations as `name` (or name.values, ...: see
 * clprune_bsr_create).
 * On failure *saved is NULL. Errors: INVALID_ARGUMENT, SIZE_OVERFLOW, OUT_OF_DEVICE_MEMORY. */
CLPRUNE_API clprune_status clprune_saved_create(clprune_context *context, const char *name,
    const clprune_saved_desc *desc, clprune_saved **saved);

/* Releases the storage; accepts NULL. */
CLPRUNE_API void clprune_saved_destroy(clprune_saved *saved);

/* Where to produce the activation of `batch` samples: the storage itself for DENSE, so that nothing
 * is copied, else `scratch` unchanged. */
CLPRUNE_API clprune_mat clprune_saved_target(
    const clprune_saved *saved, size_t batch, clprune_mat scratch);

/* Keeps x, (batch * rows) x cols with batch at most the room: nothing to do if x is the storage, a
 * copy for DENSE, prune and pack for PRUNED. x may be overwritten by later commands. */
CLPRUNE_API clprune_status clprune_saved_store(
    clprune_saved *saved, size_t batch, clprune_mat x, cl_event *event);

/* As clprune_saved_store for samples [first, first + count) alone, x being (count * rows) x cols:
 * the parts of a batch, stored one by one, are kept as the whole would be, bit for bit. The storage
 * of a dense part is rows [first * rows, (first + count) * rows) of clprune_saved_dense. */
CLPRUNE_API clprune_status clprune_saved_store_range(
    clprune_saved *saved, size_t first, size_t count, clprune_mat x, cl_event *event);

/* x = what is kept of samples [first, first + count), dense: (count * rows) x cols, zero where
 * blocks were pruned. Nothing to do where x is the storage. */
CLPRUNE_API clprune_status clprune_saved_restore(
    const clprune_saved *saved, size_t first, size_t count, clprune_mat x, cl_event *event);

/* What the next store of a SAMPLED form draws from, 0 at first: the same seed draws the same
 * blocks, so give each store of a training run its own. No effect on other forms. */
CLPRUNE_API void clprune_saved_set_seed(clprune_saved *saved, uint64_t seed);

/* What is kept: the dense matrix (rows 0 where the form is PRUNED) ... */
CLPRUNE_API clprune_mat clprune_saved_dense(const clprune_saved *saved, size_t batch);
/* ... or the BSR matrix (batch 0 where the form is DENSE). */
CLPRUNE_API clprune_bsr clprune_saved_bsr(const clprune_saved *saved, size_t batch);

/* dw = sum_n dy_n^T * x_n, o x cols, from the kept x; dy: (batch * rows) x o. */
CLPRUNE_API clprune_status clprune_saved_product_tn(clprune_context *context, size_t batch,
    clprune_mat dy, const clprune_saved *saved, clprune_mat dw, cl_event *event);

/* dw = sum_n dy_n * x_n^T, p x rows, from the kept x; dy: (batch * p) x cols. */
CLPRUNE_API clprune_status clprune_saved_product_nt(clprune_context *context, size_t batch,
    clprune_mat dy, const clprune_saved *saved, clprune_mat dw, cl_event *event);

/* dw = sum_n dy_n^T * x_n + beta * dw over samples [first, first + count) of the kept x, so that a
 * backward pass can go through a batch in parts; dy: (count * rows) x o, of these samples alone.
 * beta = 0 never reads dw. */
CLPRUNE_API clprune_status clprune_saved_product_tn_range(clprune_context *context, size_t first,
    size_t count, float beta, clprune_mat dy, const clprune_saved *saved, clprune_mat dw,
    cl_event *event);

/* dw = sum_n dy_n * x_n^T + beta * dw, likewise; dy: (count * p) x cols. */
CLPRUNE_API clprune_status clprune_saved_product_nt_range(clprune_context *context, size_t first,
    size_t count, float beta, clprune_mat dy, const clprune_saved *saved, clprune_mat dw,
    cl_event *event);

#ifdef __cplusplus
}
#endif
#endif
