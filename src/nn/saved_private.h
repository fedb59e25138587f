/* What the layers ask of a store beyond its public functions. */
#ifndef CLPRUNE_NN_SAVED_PRIVATE_H
#define CLPRUNE_NN_SAVED_PRIVATE_H

#include "clprune/saved.h"
#include "nn/form.h"
#include "ops/conv_private.h"
#include "ops/gemm_private.h"

/* The context of a store; NULL for NULL. */
clprune_context *clprune__saved_context(const clprune_saved *saved);

/* *keep with all defaults filled in; fails where it makes no sense. */
clprune_status clprune__keep_settle(
    clprune_context *context, const clprune_keep *keep, clprune_keep *settled);

/* Fails for GELU_CODE and MASK: a layer cannot make dw from what its activation function needs. */
clprune_status clprune__keep_restores(clprune_context *context, const clprune_keep *keep);

/* The checks of a store; public functions have refused one of another context (ENTER_WITH). */

/* For a layer that stores x, `batch` samples of rows x cols, and writes y, which have passed their
 * own checks: fails unless the store can hold and restore x, and its memory lies apart from x,
 * unless that is a DENSE store's own, and from y. Then gives it that shape where it has another; a
 * call that fails leaves the store as it was. */
clprune_status clprune__saved_fit(clprune_context *context, clprune_saved *saved, size_t batch,
    size_t rows, size_t cols, clprune_mat x, clprune_mat y);

/* Fails unless samples [0, batch) of rows x cols were stored, and can be restored. */
clprune_status clprune__saved_check(
    clprune_context *context, const clprune_saved *saved, size_t batch, size_t rows, size_t cols);

/* Fails unless the store holds the samples of `range`, of any shape. */
clprune_status clprune__saved_check_range(
    clprune_context *context, const clprune_saved *saved, clprune__range range);

/* Fails unless each of these samples, which the store has, was stored since the last reshape. Forms
 * that are matrices (clprune__form.mat) may have been written otherwise and pass. */
clprune_status clprune__saved_check_stored(
    clprune_context *context, const clprune_saved *saved, clprune__range range);

/* Fails where `mat`, which may be CLPRUNE_NO_MAT, meets the store's blob. */
clprune_status clprune__saved_check_apart(
    clprune_context *context, const clprune_saved *saved, const char *name, clprune_mat mat);

/* Scratch for the scores that a product may make of the activation while it multiplies with it; a
 * buffer of NULL where the form needs none. */
clprune_status clprune__saved_scores(
    const clprune_saved *saved, size_t batch, clprune__gemm_scores *scores);

/* dw of a convolution of samples [0, conv->batch), which the store holds in this shape. */
clprune_status clprune__saved_product_conv(const clprune_saved *saved, const clprune__conv *conv,
    float beta, clprune_mat dy, clprune_mat dw, cl_event *event);

/* As clprune_saved_store, with the scores of x where scores.buffer is not NULL. */
clprune_status clprune__saved_store(clprune_saved *saved, size_t first, size_t count,
    clprune__region scores, clprune_mat x, cl_event *event);

#endif
