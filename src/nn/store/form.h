/* The forms in which a tensor is kept: one table of functions for each, in a file of its own. */
#ifndef CLPRUNE_NN_FORM_H
#define CLPRUNE_NN_FORM_H

#include "clprune/gemm.h"
#include "clprune/saved.h"
#include "nn/store/stored.h"
#include "ops/codes/pool_private.h"
#include "ops/conv/conv_private.h"
#include "ops/products/gemm_private.h"

typedef struct clprune__form clprune__form;

/* A store as its form sees it. */
typedef struct clprune__kept {
    const clprune__form *form;
    clprune_keep keep; /* settled: see clprune__form.settle */
    size_t batch, rows, cols;
    cl_mem buffer; /* the blob begins at byte `offset`, a multiple of CLPRUNE_SAVED_ALIGN */
    size_t offset;
    uint64_t seed; /* of the next store */
} clprune__kept;

typedef struct clprune__packing clprune__packing; /* nn/store/packed_form.h */

/* A form. Callers have checked that ranges lie inside the store and matrices have their shapes. */
struct clprune__form {
    const char *name;

    /* Fills in the defaults of the fields that the form reads; fails for invalid values. NULL: the
     * form reads no field. */
    clprune_status (*settle)(clprune_context *context, clprune_keep *keep);

    /* values_bytes, index_bytes and bytes (not yet rounded up) for the shape in `kept`. context may
     * be NULL. */
    clprune_status (*sizes)(
        clprune_context *context, const clprune__kept *kept, clprune_saved_sizes *sizes);

    /* The kept elements of these samples as a matrix, for clprune_saved_dense, _codes and _mask.
     * NULL, or CLPRUNE_NO_MAT from it: they are no matrix. */
    clprune_mat (*mat)(const clprune__kept *kept, clprune__range range);

    /* Stores x as these samples. scores: norms of its blocks; its buffer may be NULL. */
    clprune_status (*store)(clprune_context *context, const clprune__kept *kept,
        clprune__range range, clprune__region scores, clprune_mat x, cl_event *event);

    /* x = these samples, dense. */
    clprune_status (*restore)(clprune_context *context, const clprune__kept *kept,
        clprune__range range, clprune_mat x, cl_event *event);

    /* dw = product + beta * dw: dy^T * x or, with nt, the sum over the samples of dy_n * x_n^T.
     * NULL: clprune__restored_product. */
    clprune_status (*product)(clprune_context *context, const clprune__kept *kept,
        clprune__range range, bool nt, float beta, clprune_mat dy, clprune_mat dw, cl_event *event);

    /* Whether product, without nt, reads a dy of bf16 where dense products do. */
    bool product_reads_bf16;

    /* dw of a convolution of these samples, range.count = conv->batch. NULL: as above. */
    clprune_status (*product_conv)(clprune_context *context, const clprune__kept *kept,
        clprune__range range, const clprune__conv *conv, float beta, clprune_mat dy, clprune_mat dw,
        cl_event *event);

    /* Describes the norms of x's blocks that the layer's product may compute, and takes scratch for
     * them if the form uses them. NULL: never. */
    clprune_status (*scores)(clprune_context *context, const clprune__kept *kept, size_t batch,
        clprune__gemm_scores *scores);

    /* For forms of activations, whose functions are clprune__packed_...; else NULL. */
    const clprune__packing *packing;
};

/* Below the forms: kept_cells.c and restored_product.c. */

/* Fails unless `keep` describes cells: a side, and a grid with both sides or none. */
clprune_status clprune__check_cells(clprune_context *context, const clprune_keep *keep);

/* The cells of a POOLED or centred store, one for each sample where keep.cell is 0; ... */
clprune__pool_grid clprune__kept_grid(const clprune__kept *kept);

/* ... the bytes of their means; fails where the grid does not have the samples' rows; ... */
clprune_status clprune__kept_cells_bytes(
    clprune_context *context, const clprune__kept *kept, size_t *bytes);

/* ... and those means, which the store begins with: (range.count * cells) x cols. */
clprune_mat clprune__kept_cells(const clprune__kept *kept, clprune__range range);

/* Whether clprune__conv_dw_pooled takes those cells as the images of this convolution. */
bool clprune__kept_conv_pools(
    const clprune_context *context, const clprune__kept *kept, const clprune__conv *conv);

/* The products from restored samples, some at a time, which are multiplied as dense ones; and dw of
 * a convolution. */
clprune_status clprune__restored_product(clprune_context *context, const clprune__kept *kept,
    clprune__range range, bool nt, float beta, clprune_mat dy, clprune_mat dw, cl_event *event);
clprune_status clprune__restored_product_conv(clprune_context *context, const clprune__kept *kept,
    clprune__range range, const clprune__conv *conv, float beta, clprune_mat dy, clprune_mat dw,
    cl_event *event);

/* The forms: form_*.c. */

/* Every form, in the order of clprune_form. */
#define CLPRUNE__FORMS(FORM)                                                                       \
    FORM(dense)                                                                                    \
    FORM(pruned)                                                                                   \
    FORM(mean)                                                                                     \
    FORM(gelu_code)                                                                                \
    FORM(quantised)                                                                                \
    FORM(pooled)                                                                                   \
    FORM(mask)

#define CLPRUNE__DECLARE_FORM(name) extern const clprune__form clprune__form_##name;
CLPRUNE__FORMS(CLPRUNE__DECLARE_FORM)

/* These samples of a store of form QUANTISED. */
clprune__quantised clprune__kept_quantised(const clprune__kept *kept, clprune__range range);

/* The BSR matrix of a store of form PRUNED, and the sizes of its parts. */
clprune_status clprune__pruned_bsr(clprune_context *context, const clprune__kept *kept,
    clprune_bsr *bsr, clprune_saved_sizes *sizes);

/* Above them: form.c. */

/* NULL if `form` is not a clprune_form. */
const clprune__form *clprune__form_of(clprune_form form);

/* Whether dy^T * x, from x kept so, and dy * w read a dy of bf16: on tensor cores. */
bool clprune__form_reads_bf16_dy(const clprune_context *context, clprune_form form);

/* *settled = *keep with all defaults filled in; fails for invalid settings. */
clprune_status clprune__keep_settle(
    clprune_context *context, const clprune_keep *keep, clprune_keep *settled);

/* Fails for GELU_CODE and MASK, which keep derivatives: dw cannot be computed from them. */
clprune_status clprune__keep_restores(clprune_context *context, const clprune_keep *keep);

#endif
