/* Shared by the passes: where the tensors of a block lie, and how some of them are recomputed. */
#ifndef RESNET_MODEL_PRIVATE_H
#define RESNET_MODEL_PRIVATE_H

#include "resnet.h"

static const float resnet_eps = 1e-5f, resnet_momentum = 0.1f; /* PyTorch's defaults */

/* Pixels of `batch` images of `side` pixels per side. */
static inline size_t resnet_pixels(size_t batch, size_t side)
{
    return batch * side * side;
}

static inline clprune_extent resnet_square(size_t side)
{
    return (clprune_extent){side, side};
}

/* The first rows x cols of a workspace matrix, dense. */
clprune_mat resnet_room(clprune_mat work, size_t rows, size_t cols);

/* Where to make a tensor of `rows` x `cols`: in its store where that is dense, else in `work`. */
clprune_mat resnet_target(
    const clprune_saved *kept, size_t batch, clprune_mat work, size_t rows, size_t cols);

/* The dense form of a tensor: the store itself if it is dense, else restored into `work`. */
clprune_status resnet_restore(const clprune_saved *kept, size_t batch, clprune_mat work,
    size_t rows, size_t cols, clprune_mat *mat);

/* The parameters and statistics of a batch norm. */
static inline clprune_batch_norm resnet_norm(const resnet_part *part)
{
    return (clprune_batch_norm){part->gamma, part->beta, part->mean, part->inv};
}

/* The store of block i's x, the out of the block before or the stem's; NULL: not kept. */
clprune_saved *resnet_kept_x(const resnet *model, size_t i);

/* Whether batch norm, ReLU and max pool of the stem run as one pass. Then its relu and mask are not
 * kept; the positions of the max pool also tell where ReLU passed. */
static inline bool resnet_stem_fused(const resnet *model)
{
    return model->arch.pools && model->rule[KEEP_STEM_RELU].recomputed &&
           model->rule[KEEP_STEM_MASK].recomputed;
}

/* Whether the gradients of the stem come from products, without its convolution's output
 * (clprune_batch_norm_backward_product). */
static inline bool resnet_stem_by_product(const resnet *model)
{
    return resnet_stem_fused(model) && model->rule[KEEP_STEM].recomputed &&
           model->rule[KEEP_IMAGE].recomputed;
}

/* Whether the stem's relu is made in place of its convolution: neither is kept dense. */
static inline bool resnet_relu_in_place(const resnet *model)
{
    return model->arch.pools && !keep_has_form(&model->rule[KEEP_STEM], CLPRUNE_FORM_DENSE) &&
           !keep_has_form(&model->rule[KEEP_STEM_RELU], CLPRUNE_FORM_DENSE);
}

/* Sides and channels of block i's x. */
static inline size_t resnet_x_side(const resnet *model, size_t i)
{
    return model->blocks[i].conv1->unit.from;
}
static inline size_t resnet_x_channels(const resnet *model, size_t i)
{
    return model->blocks[i].conv1->unit.in;
}

/* The statistics that y is normalised with: its own in training, else the running ones. */
clprune_status resnet_measure(const resnet *model, const resnet_part *part, bool training,
    clprune_mat y, clprune_batch_norm *bn);

/* Stores a tensor. Convolutions store their inputs themselves. A no-op for dense tensors, which
 * were made in their store. */
clprune_status resnet_keep_tensor(
    bool training, clprune_saved *kept, size_t batch, clprune_mat mat);

/* y = W x; stores x in kept_x unless that is NULL. */
clprune_status resnet_convolve(
    const resnet_part *part, size_t batch, clprune_mat x, clprune_mat y, clprune_saved *kept_x);

/* *kept = store, a dense store on a workspace matrix, shaped as mat. */
clprune_status resnet_view(
    clprune_saved *store, size_t batch, clprune_mat mat, clprune_saved **kept);

/* dx and the parameters' gradients of y = bn(x), or with `relu` of y = max(bn(x) + residual, 0). dz
 * receives the gradient of ReLU's argument. It may be dy, or absent, which saves writing it. */
clprune_status resnet_norm_backward(const resnet *model, const resnet_part *part, bool relu,
    clprune_mat x, clprune_mat mask, clprune_mat residual, clprune_mat dy, clprune_mat dz,
    clprune_mat dx);

/* x: of the first block. */
clprune_status resnet_stem_forward(
    const resnet *model, size_t batch, clprune_image_bytes images, bool training, clprune_mat x);

/* The stem's convolution, as it was kept or made again from the images. */
clprune_status resnet_stem_again(
    const resnet *model, size_t batch, clprune_image_bytes images, clprune_mat *conv);

/* dx: the gradient of the first block's x, overwritten. */
clprune_status resnet_stem_backward(
    const resnet *model, size_t batch, clprune_image_bytes images, clprune_mat dx);

/* The contents of a matrix are dead; it may be absent. */
static inline clprune_status resnet_forget(const resnet *model, clprune_mat mat)
{
    return clprune_buffer_forget(model->context, mat.buffer);
}

#endif
