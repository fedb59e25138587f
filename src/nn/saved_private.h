/* What the layers ask of a saved activation beyond its public functions. */
#ifndef CLPRUNE_NN_SAVED_PRIVATE_H
#define CLPRUNE_NN_SAVED_PRIVATE_H

#include "clprune/saved.h"
#include "ops/gemm_private.h"

/* The description it was created with. */
clprune_saved_desc clprune__saved_desc(const clprune_saved *saved);

/* Scratch for the scores that a product may make of the activation while it multiplies with it;
 * none (a buffer of NULL) where what is kept needs none or its blocks have several rows. */
clprune_status clprune__saved_scores(
    const clprune_saved *saved, size_t batch, clprune__gemm_scores *scores);

/* As clprune_saved_store_range, with the scores of x where scores.buffer is not NULL. */
clprune_status clprune__saved_store(clprune_saved *saved, size_t first, size_t count,
    clprune__region scores, clprune_mat x, cl_event *event);

/* dw = sum over the samples of dy_n * x_n^T + beta * dw, o x p, in their order. dy: (batch * o) x d;
 * x: (batch * p) x d; not checked but for the products. */
clprune_status clprune__dense_product_nt(clprune_context *context, size_t batch, float beta,
    clprune_mat dy, clprune_mat x, clprune_mat dw, cl_event *event);

#endif
