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

/* As clprune_saved_store, with the scores of x where scores.buffer is not NULL. */
clprune_status clprune__saved_store(
    clprune_saved *saved, size_t batch, clprune__region scores, clprune_mat x, cl_event *event);

#endif
