/* What the operations on BSR matrices share. */
#ifndef CLPRUNE_OPS_BSR_PRIVATE_H
#define CLPRUNE_OPS_BSR_PRIVATE_H

#include "clprune/bsr.h"

/* Fails unless `bsr` has a legal description and buffers that are large enough; fills *sizes. */
clprune_status clprune__check_bsr(
    clprune_context *context, const clprune_bsr *bsr, clprune_bsr_sizes *sizes);

/* Fails unless `desc` is legal, with the reason in the last error; fills *sizes. */
clprune_status clprune__check_bsr_desc(
    clprune_context *context, const clprune_bsr_desc *desc, clprune_bsr_sizes *sizes);

/* Fails where `mat` meets one of the buffers of `bsr`. */
clprune_status clprune__check_bsr_apart(clprune_context *context, const char *name, clprune_mat mat,
    const clprune_bsr *bsr, const clprune_bsr_sizes *sizes);

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
