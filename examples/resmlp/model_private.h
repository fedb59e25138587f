/* Shared by the forward and the backward pass: where the tensors of a block lie, and how some of
 * them are recomputed. */
#ifndef RESMLP_MODEL_PRIVATE_H
#define RESMLP_MODEL_PRIVATE_H

#include "model.h"

/* Some samples of a batch. */
typedef struct resmlp_range {
    size_t first, count;
} resmlp_range;

/* The samples of a step of at most `step` samples that starts at sample `first`. */
static inline resmlp_range resmlp_range_at(size_t first, size_t step, size_t batch)
{
    return (resmlp_range){first, step < batch - first ? step : batch - first};
}

/* Samples at a time in each half of a block: a chunk if the half is recomputed, else all. */
size_t resmlp_token_step(const resmlp *model, const resmlp_block *block, size_t batch);
size_t resmlp_mlp_step(const resmlp *model, const resmlp_block *block, size_t batch);

/* The images from sample `first` on. */
clprune_image_bytes resmlp_images(const resmlp *model, clprune_image_bytes images, size_t first);

/* The tokens of a range of samples in a matrix of all of them. */
clprune_mat resmlp_rows(const resmlp *model, clprune_mat mat, resmlp_range range);

/* Where to make a range of samples of a tensor of a block: in its store if that is dense, else in
 * the stream (x, and x2 that is kept) or in work.made, which has rows for the range alone. gelu is
 * made in place of fc1 if fc1 is a code. */
clprune_mat resmlp_target(
    const resmlp *model, const resmlp_block *block, keep_tensor tensor, resmlp_range range);

/* The dense form of a range of samples: the store itself if it is dense, else restored into
 * `scratch`. */
clprune_status resmlp_restore(const resmlp *model, const clprune_saved *kept, resmlp_range range,
    clprune_mat scratch, clprune_mat *mat);

/* The contents of a matrix are dead; it may be absent. */
static inline clprune_status resmlp_forget(const resmlp *model, clprune_mat mat)
{
    return clprune_buffer_forget(model->context, mat.buffer);
}

/* The same for work.made of a tensor. */
static inline clprune_status resmlp_forget_made(const resmlp *model, keep_tensor tensor)
{
    return resmlp_forget(model, model->work.made[tensor]);
}

/* The token half of a block for a range of samples: x2 = x + ls1 * (W_t affine1(x) + b_t). x has
 * all samples, x2 those of the range. With `training` it stores norm1 and tokens as the rules
 * say. */
clprune_status resmlp_token_half(const resmlp *model, const resmlp_block *block, bool training,
    clprune_mat x, resmlp_range range, clprune_mat x2);

#endif
