/* The backward pass: the forward calls reversed. relu1 and out that were not kept are recomputed
 * from the outputs of convolutions. */
#include "resnet_private.h"
#include "trainer/base/try.h"

/* The shortcut of a block with a downsample: bn(downsample), in block->shortcut. */
static clprune_status make_shortcut(
    const resnet *model, size_t batch, const resnet_block *block, clprune_mat *shortcut)
{
    const resnet_unit *u = &block->down->unit;
    const size_t rows = resnet_pixels(batch, u->to);
    const clprune_batch_norm bn = resnet_norm(block->down);
    clprune_mat down;
    *shortcut = resnet_room(block->shortcut, rows, u->out);
    TRY(resnet_restore(block->kept[KEEP_DOWN], batch, block->made[KEEP_DOWN], rows, u->out, &down));
    TRY(clprune_batch_norm_forward(
        model->context, &bn, false, down, CLPRUNE_NO_MAT, *shortcut, CLPRUNE_NO_MAT, NULL));
    return resnet_forget(model, block->made[KEEP_DOWN]);
}

/* y = max(bn(x) + residual, 0) from a restored x. With a kept mask, the mask decides where y is 0,
 * so y is linear in x: unbiased codes of x give an unbiased y. max(., 0) of them would be
 * biased. */
static clprune_status relu_again(const resnet *model, const clprune_batch_norm *bn, clprune_mat x,
    clprune_mat residual, clprune_mat mask, clprune_mat y)
{
    return mask.rows > 0
               ? clprune_batch_norm_forward_gated(model->context, bn, x, residual, mask, y, NULL)
               : clprune_batch_norm_forward(
                     model->context, bn, true, x, residual, y, CLPRUNE_NO_MAT, NULL);
}

/* Recomputes the out of block j; x: the out of the block before. */
static clprune_status out_again(
    const resnet *model, size_t batch, size_t j, clprune_mat x, clprune_mat *out)
{
    const resnet_block *block = &model->blocks[j];
    const resnet_unit *u = &block->conv2->unit;
    const size_t rows = resnet_pixels(batch, u->to);
    const clprune_batch_norm bn = resnet_norm(block->conv2);
    clprune_mat conv2, shortcut = x;
    *out = resnet_room(block->made[KEEP_OUT], rows, u->out);
    if (block->down != NULL)
        TRY(make_shortcut(model, batch, block, &shortcut));
    /* if conv2 is not kept dense, it is restored in place of out */
    TRY(resnet_restore(
        block->kept[KEEP_CONV2], batch, block->made[KEEP_OUT], rows, u->out, &conv2));
    TRY(relu_again(
        model, &bn, conv2, shortcut, clprune_saved_mask(block->kept[KEEP_MASK2], 0, batch), *out));
    return resnet_forget(model, block->shortcut);
}

/* Block i's x is dead, unless it is kept dense. */
static clprune_status forget_x(const resnet *model, size_t i)
{
    return resnet_forget(
        model, i > 0 ? model->blocks[i - 1].made[KEEP_OUT]
                     : model->work.made[model->arch.pools ? KEEP_POOL : KEEP_STEM_RELU]);
}

/* Block i's x for the backward pass, dense: as it was kept, restored, or recomputed from the
 * outputs of convolutions, beginning at the last kept x or downsample. */
static clprune_status x_again(
    const resnet *model, size_t batch, clprune_image_bytes images, size_t i, clprune_mat *x)
{
    const resnet_workspace *work = &model->work;
    size_t from = i; /* the block whose x is kept, or needs no x before it to be recomputed */
    while (resnet_kept_x(model, from) == NULL && from > 0 && model->blocks[from - 1].down == NULL)
        --from;
    if (resnet_kept_x(model, from) != NULL) {
        const clprune_mat room = from > 0
                                     ? model->blocks[from - 1].made[KEEP_OUT]
                                     : work->made[model->arch.pools ? KEEP_POOL : KEEP_STEM_RELU];
        TRY(resnet_restore(resnet_kept_x(model, from), batch, room,
            resnet_pixels(batch, resnet_x_side(model, from)), resnet_x_channels(model, from), x));
    } else if (from > 0) {
        TRY(out_again(model, batch, from - 1, CLPRUNE_NO_MAT, x));
    } else { /* without a pool: relu of the stem */
        const clprune_batch_norm bn = resnet_norm(&model->parts[0]);
        clprune_mat conv;
        TRY(resnet_stem_again(model, batch, images, &conv));
        *x = resnet_room(work->made[KEEP_STEM_RELU], conv.rows, conv.cols);
        TRY(relu_again(model, &bn, conv, CLPRUNE_NO_MAT,
            clprune_saved_mask(model->kept[KEEP_STEM_MASK], 0, batch), *x));
        TRY(resnet_forget(model, work->conv_again));
    }
    for (size_t j = from; j < i; ++j) {
        TRY(out_again(model, batch, j, *x, x));
        TRY(forget_x(model, j));
    }
    return CLPRUNE_SUCCESS;
}

/* part->dw and, unless dx is absent, dx = the gradient of x + dx_beta * dx. */
static clprune_status conv_backward(const resnet_part *part, size_t batch, float dx_beta,
    const clprune_saved *kept_x, clprune_mat dy, clprune_mat dx)
{
    return clprune_conv2d_backward(part->conv, batch, resnet_square(part->unit.from), kept_x, dy,
        part->w, &(clprune_grads){.dx = dx, .dw = part->dw, .dx_beta = dx_beta}, NULL);
}

/* dout: the gradient of the block's out, overwritten; *dx: receives the gradient of x. */
static clprune_status block_backward(const resnet *model, size_t i, size_t batch,
    clprune_image_bytes images, clprune_mat dout, clprune_mat *dx)
{
    const resnet_workspace *work = &model->work;
    const resnet_block *block = &model->blocks[i];
    clprune_saved *const *kept = block->kept;
    clprune_saved *kept_x = resnet_kept_x(model, i), *kept_relu1 = kept[KEEP_RELU1];
    const size_t rows = dout.rows, cols = dout.cols;
    const bool signs = kept[KEEP_MASK2] == NULL; /* of out, recomputed from its terms */
    const clprune_mat none = CLPRUNE_NO_MAT;
    clprune_mat x = none, shortcut = none, conv1, conv2, down;

    if (signs && block->down == NULL)
        TRY(x_again(model, batch, images, i, &x));
    if (signs && block->down != NULL)
        TRY(make_shortcut(model, batch, block, &shortcut));
    else if (signs)
        shortcut = x;

    /* out = max(bn2(conv2) + shortcut, 0); dout becomes the gradient of both parts */
    const clprune_mat dconv2 = resnet_room(block->dconv2, rows, cols);
    TRY(resnet_restore(kept[KEEP_CONV2], batch, block->dconv2, rows, cols, &conv2));
    TRY(resnet_norm_backward(model, block->conv2, true, conv2,
        clprune_saved_mask(kept[KEEP_MASK2], 0, batch), shortcut, dout, dout, dconv2));
    TRY(resnet_forget(model, block->shortcut));
    /* conv2 = W2 relu1, relu1 = max(bn1(conv1), 0). If relu1 is not kept, conv1 is restored into
     * relu1's place and relu1 recomputed there. */
    const clprune_mat drelu1 = resnet_room(block->drelu1, rows, cols);
    if (kept_relu1 == NULL) {
        const clprune_batch_norm bn = resnet_norm(block->conv1);
        const clprune_mat relu1 = resnet_room(block->made[KEEP_RELU1], rows, cols);
        TRY(resnet_restore(kept[KEEP_CONV1], batch, relu1, rows, cols, &conv1));
        TRY(relu_again(
            model, &bn, conv1, none, clprune_saved_mask(kept[KEEP_MASK1], 0, batch), relu1));
        TRY(resnet_view(block->relu1_view, batch, relu1, &kept_relu1));
    }
    TRY(conv_backward(block->conv2, batch, 0.0f, kept_relu1, dconv2, drelu1));
    TRY(resnet_forget(model, block->made[KEEP_RELU1]));
    TRY(resnet_forget(model, block->dconv2));
    TRY(resnet_restore(kept[KEEP_CONV1], batch, block->made[KEEP_CONV1], rows, cols, &conv1));
    TRY(resnet_norm_backward(model, block->conv1, true, conv1,
        clprune_saved_mask(kept[KEEP_MASK1], 0, batch), none, drelu1, none, drelu1));
    TRY(resnet_forget(model, block->made[KEEP_CONV1]));
    /* conv1 = W1 x */
    if (kept_x == NULL) {
        if (x.rows == 0)
            TRY(x_again(model, batch, images, i, &x));
        TRY(resnet_view(
            i > 0 ? model->blocks[i - 1].out_view : work->first_view, batch, x, &kept_x));
    }
    const bool apart = block->down != NULL;
    *dx = apart ? resnet_room(block->dx, resnet_pixels(batch, resnet_x_side(model, i)),
                      resnet_x_channels(model, i))
                : dout;
    TRY(conv_backward(block->conv1, batch, apart ? 0.0f : 1.0f, kept_x, drelu1, *dx));
    TRY(resnet_forget(model, block->drelu1));
    if (apart) { /* shortcut = bn(downsample), downsample = Wd x */
        const clprune_mat ddown = resnet_room(block->dconv2, rows, cols);
        TRY(resnet_restore(kept[KEEP_DOWN], batch, block->made[KEEP_DOWN], rows, cols, &down));
        TRY(resnet_norm_backward(model, block->down, false, down, none, none, dout, none, ddown));
        TRY(resnet_forget(model, block->made[KEEP_DOWN]));
        TRY(resnet_forget(model, dout));
        TRY(conv_backward(block->down, batch, 1.0f, kept_x, ddown, *dx));
        TRY(resnet_forget(model, block->dconv2));
    }
    return forget_x(model, i);
}

clprune_status resnet_backward(
    void *of, size_t batch, clprune_image_bytes images, cl_mem labels, float smoothing)
{
    const resnet *model = of;
    clprune_context *context = model->context;
    const size_t last = model->blocks_count - 1;
    const resnet_unit *u = &model->blocks[last].conv2->unit;
    const clprune_mat dlogits = clprune_mat_rows(model->logits, 0, batch);
    const clprune_mat dfeatures = resnet_room(model->work.dfeatures, batch, u->out);
    clprune_mat dx = resnet_room(model->work.dlast, resnet_pixels(batch, u->to), u->out);

    trainer_tell(&model->watcher, "backward head", 0);
    TRY(clprune_cross_entropy_backward(context, smoothing, 1.0f / (float)batch,
        clprune_mat_rows(model->log_p, 0, batch), labels, dlogits, NULL));
    /* logits = features W^T + b, features = the mean of out over the pixels */
    TRY(clprune_linear_backward(model->head, batch, model->features, dlogits, model->head_w,
        &(clprune_grads){.dx = dfeatures, .dw = model->head_dw, .db = model->head_db}, NULL));
    TRY(clprune_token_mean_backward(context, batch, u->to * u->to, dfeatures, dx, NULL));
    TRY(resnet_forget(model, dfeatures));
    for (size_t i = last + 1; i-- > 0;) {
        trainer_tell(&model->watcher, "backward block", i);
        TRY(block_backward(model, i, batch, images, dx, &dx));
    }
    trainer_tell(&model->watcher, "backward stem", 0);
    return resnet_stem_backward(model, batch, images, dx);
}
