/* Functions of a store that only layers use. */
#ifndef CLPRUNE_NN_SAVED_PRIVATE_H
#define CLPRUNE_NN_SAVED_PRIVATE_H

#include "clprune/saved.h"
#include "nn/store/form.h"
#include "ops/conv/conv_private.h"
#include "ops/products/gemm_private.h"

/* The context of a store; NULL for NULL. */
clprune_context *clprune__saved_context(const clprune_saved *saved);

/* What the forms see of a store, not NULL. */
const clprune__kept *clprune__saved_kept(const clprune_saved *saved);

/* As clprune_saved_create, within a call; *saved is NULL. */
clprune_status clprune__saved_create(clprune_context *context, const char *name,
    const clprune_keep *keep, size_t batch, size_t rows, size_t cols, clprune_saved **saved);

/* The checks of a store; public functions have refused one of another context (ENTER_WITH). */

/* For a layer that stores operands[0], x, `batch` samples of rows x cols; all operands are checked.
 * Fails unless the store can hold and restore x, and lies apart from the operands (x may be a DENSE
 * store's own memory). Then reshapes the store if its shape differs. A call that fails does not
 * change the store. */
clprune_status clprune__saved_fit(clprune_context *context, clprune_saved *saved, size_t batch,
    size_t rows, size_t cols, size_t count, const clprune__operand *operands);

/* Fails unless the samples of `range`, rows x cols each, were stored, and can be restored. */
clprune_status clprune__saved_check(clprune_context *context, const clprune_saved *saved,
    clprune__range range, size_t rows, size_t cols);

/* Fails unless the store holds the samples of `range`, of any shape. */
clprune_status clprune__saved_check_range(
    clprune_context *context, const clprune_saved *saved, clprune__range range);

/* Fails unless each of these samples, which the store has, was stored since the last reshape. Forms
 * that are matrices (clprune__form.mat) may have been written otherwise and pass. */
clprune_status clprune__saved_check_stored(
    clprune_context *context, const clprune_saved *saved, clprune__range range);

/* Fails if `mat` overlaps the store's blob; it may be CLPRUNE_NO_MAT. */
clprune_status clprune__saved_check_apart(
    clprune_context *context, const clprune_saved *saved, const char *name, clprune_mat mat);

/* Takes scratch for the scores of x that the layer's product may compute; scores->to.buffer is NULL
 * if the form needs none. */
clprune_status clprune__saved_scores(
    const clprune_saved *saved, size_t batch, clprune__gemm_scores *scores);

/* Whether clprune__saved_product, without nt, reads a dy of bf16 where dense products do. */
bool clprune__saved_reads_bf16(const clprune_saved *saved);

/* dw = dy^T * x + beta * dw or, with nt, the sum over the samples of dy_n * x_n^T + beta * dw. The
 * operands are checked, and the store holds the samples. */
clprune_status clprune__saved_product(const clprune_saved *saved, clprune__range range, bool nt,
    float beta, clprune_mat dy, clprune_mat dw, cl_event *event);

/* dw of a convolution of samples [first, first + conv->batch), which the store holds in this
 * shape. */
clprune_status clprune__saved_product_conv(const clprune_saved *saved, size_t first,
    const clprune__conv *conv, float beta, clprune_mat dy, clprune_mat dw, cl_event *event);

/* As clprune_saved_store; scores: the scores of x, or a NULL buffer. */
clprune_status clprune__saved_store(clprune_saved *saved, size_t first, size_t count,
    clprune__region scores, clprune_mat x, cl_event *event);

/* The samples as codes; the form is QUANTISED. */
clprune_status clprune__saved_quantised(
    const clprune_saved *saved, size_t first, size_t count, clprune__quantised *q);

/* y = x + ls * the samples that the store, of form QUANTISED, has; x + them if ls is
 * CLPRUNE_NO_MAT. y may be x. */
clprune_status clprune__saved_add(const clprune_saved *saved, size_t first, size_t count,
    clprune_mat x, clprune_mat ls, clprune_mat y, cl_event *event);

/* As clprune_saved_restore, and clprune_saved_product_tn or, with nt, _nt; within a call. */
clprune_status clprune__saved_restore(
    const clprune_saved *saved, size_t first, size_t count, clprune_mat x, cl_event *event);
clprune_status clprune__saved_multiply(const clprune_saved *saved, clprune__range range, bool nt,
    float beta, clprune_mat dy, clprune_mat dw, cl_event *event);

#endif
