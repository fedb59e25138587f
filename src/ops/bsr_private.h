/* What the operations on BSR matrices share. */
#ifndef CLPRUNE_OPS_BSR_PRIVATE_H
#define CLPRUNE_OPS_BSR_PRIVATE_H

#include "clprune/bsr.h"

/* A region of a buffer, in elements of what it holds. */
typedef struct clprune__region {
    cl_mem buffer; /* NULL: none */
    size_t offset;
} clprune__region;

/* Fails unless `bsr` has a legal description and buffers that are large enough; fills *sizes. */
clprune_status clprune__check_bsr(
    clprune_context *context, const clprune_bsr *bsr, clprune_bsr_sizes *sizes);

/* Fails unless `desc` is legal, with the reason in the last error; fills *sizes. */
clprune_status clprune__check_bsr_desc(
    clprune_context *context, const clprune_bsr_desc *desc, clprune_bsr_sizes *sizes);

/* Fails where `mat` meets one of the buffers of `bsr`, up to its last sample. */
clprune_status clprune__check_bsr_apart(
    clprune_context *context, const char *name, clprune_mat mat, const clprune_bsr *bsr);

/* Floats of a vector for rows of `cols`: 16, 4 or 1. */
int clprune__row_vector(size_t cols);

/* Writes the defines of bsr_values.clh. */
void clprune__value_defines(clprune_value_type type, int width, char *defines, size_t size);

/* The kept values of `bsr` in fp32: its own, or scratch, taken from the caller's, to which they are
 * widened. */
clprune_status clprune__bsr_values(
    clprune_context *context, const clprune_bsr *bsr, clprune__region *values);

/* The work-group size of kernels with one group a sample or a block row: 1 on CPUs. */
size_t clprune__group_size(const clprune_context *context, size_t wanted);

/* The weights of a sampled selection: a score for each block, a threshold for each sample; offsets
 * in floats. */
typedef struct clprune__weights {
    cl_mem scores, thresholds;
    size_t scores_offset, thresholds_offset;
} clprune__weights;

/* As clprune_bsr_pack, with the mask at a byte offset of its buffer; weights: NULL for ones. */
clprune_status clprune__bsr_pack_at(clprune_context *context, clprune_mat x, cl_mem mask,
    size_t mask_offset, const clprune__weights *weights, const clprune_bsr *bsr, cl_event *event);

#endif
