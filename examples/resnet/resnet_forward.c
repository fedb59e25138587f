/* The forward pass. */
#include "resnet_private.h"
#include "trainer/base/try.h"

/* Where the forward pass makes the out of block i; i = -1: the stem's. */
static clprune_mat out_target(const resnet *model, size_t batch, ptrdiff_t i)
{
    const resnet_workspace *work = &model->work;
    if (i < 0) {
        const resnet_keep entry = model->arch.pools ? KEEP_POOL : KEEP_STEM_RELU;
        return resnet_target(model->kept[entry], batch, work->made[entry],
            resnet_pixels(batch, resnet_arch_first_side(&model->arch)), model->parts[0].unit.out);
    }
    const bool last = (size_t)i + 1 == model->blocks_count;
    const resnet_unit *u = &model->blocks[i].conv2->unit;
    return resnet_target(last ? model->kept[KEEP_LAST] : model->blocks[i].kept[KEEP_OUT], batch,
        model->blocks[i].made[KEEP_OUT], resnet_pixels(batch, u->to), u->out);
}

/* next = max(bn2(conv2(max(bn1(conv1 x), 0))) + shortcut, 0). kept_x: the store of x, or NULL. */
static clprune_status block_forward(const resnet *model, const resnet_block *block, size_t batch,
    bool training, clprune_mat x, clprune_saved *kept_x, clprune_mat next)
{
    clprune_context *context = model->context;
    clprune_saved *const *kept = block->kept;
    const size_t rows = next.rows, cols = next.cols;
    const clprune_mat conv1 =
        resnet_target(kept[KEEP_CONV1], batch, block->made[KEEP_CONV1], rows, cols);
    const clprune_mat relu1 =
        resnet_target(kept[KEEP_RELU1], batch, block->made[KEEP_RELU1], rows, cols);
    const clprune_mat conv2 =
        resnet_target(kept[KEEP_CONV2], batch, block->made[KEEP_CONV2], rows, cols);
    const clprune_mat none = CLPRUNE_NO_MAT;
    const clprune_mat mask1 = training ? clprune_saved_mask(kept[KEEP_MASK1], 0, batch) : none;
    const clprune_mat mask2 = training ? clprune_saved_mask(kept[KEEP_MASK2], 0, batch) : none;
    clprune_batch_norm bn;
    clprune_mat shortcut = x;

    TRY(resnet_convolve(block->conv1, batch, x, conv1, training ? kept_x : NULL));
    TRY(resnet_measure(model, block->conv1, training, conv1, &bn));
    TRY(resnet_keep_tensor(training, kept[KEEP_CONV1], batch, conv1));
    TRY(clprune_batch_norm_forward(context, &bn, true, conv1, none, relu1, mask1, NULL));
    TRY(resnet_forget(model, block->made[KEEP_CONV1]));
    TRY(resnet_convolve(block->conv2, batch, relu1, conv2, training ? kept[KEEP_RELU1] : NULL));
    TRY(resnet_forget(model, block->made[KEEP_RELU1]));
    if (block->down != NULL) {
        const clprune_mat down =
            resnet_target(kept[KEEP_DOWN], batch, block->made[KEEP_DOWN], rows, cols);
        shortcut = resnet_room(block->shortcut, rows, cols);
        TRY(resnet_convolve(block->down, batch, x, down, NULL)); /* conv1 has kept x */
        TRY(resnet_measure(model, block->down, training, down, &bn));
        TRY(resnet_keep_tensor(training, kept[KEEP_DOWN], batch, down));
        TRY(clprune_batch_norm_forward(context, &bn, false, down, none, shortcut, none, NULL));
        TRY(resnet_forget(model, block->made[KEEP_DOWN]));
    }
    TRY(resnet_measure(model, block->conv2, training, conv2, &bn));
    TRY(resnet_keep_tensor(training, kept[KEEP_CONV2], batch, conv2));
    TRY(clprune_batch_norm_forward(context, &bn, true, conv2, shortcut, next, mask2, NULL));
    TRY(resnet_forget(model, block->made[KEEP_CONV2]));
    return resnet_forget(model, block->shortcut);
}

/* As PyTorch's BatchNorm2d; the largest count stays. */
static void count_batch(resnet *model)
{
    for (size_t i = 0; i < model->parts_count; ++i) {
        int64_t *batches = &model->parts[i].batches;
        if (*batches != TRAINER_NO_COUNT && *batches < INT64_MAX)
            ++*batches;
    }
}

clprune_status resnet_forward(void *of, size_t batch, clprune_image_bytes images, bool training)
{
    resnet *model = of;
    const resnet_workspace *work = &model->work;
    clprune_mat x = out_target(model, batch, -1);

    trainer_tell(&model->watcher, "forward stem", 0);
    TRY(resnet_stem_forward(model, batch, images, training, x));
    for (size_t i = 0; i < model->blocks_count; ++i) {
        const clprune_mat next = out_target(model, batch, (ptrdiff_t)i);
        trainer_tell(&model->watcher, "forward block", i);
        TRY(block_forward(
            model, &model->blocks[i], batch, training, x, resnet_kept_x(model, i), next));
        TRY(resnet_forget(model, i > 0
                                     ? model->blocks[i - 1].made[KEEP_OUT]
                                     : work->made[model->arch.pools ? KEEP_POOL : KEEP_STEM_RELU]));
        x = next;
    }
    const clprune_mat features = clprune_saved_dense(model->features, 0, batch);
    trainer_tell(&model->watcher, "forward head", 0);
    TRY(clprune_token_mean_forward(model->context, batch, x.rows / batch, x, features, NULL));
    TRY(resnet_keep_tensor(training, model->kept[KEEP_LAST], batch, x));
    TRY(resnet_forget(model, model->blocks[model->blocks_count - 1].made[KEEP_OUT]));
    TRY(clprune_linear_forward(model->head, batch, features, model->head_w, model->head_b,
        clprune_mat_rows(model->logits, 0, batch), training ? model->features : NULL, NULL));
    if (training)
        count_batch(model);
    return CLPRUNE_SUCCESS;
}

clprune_status resnet_loss(
    void *of, size_t batch, cl_mem labels, float smoothing, clprune_mat loss, clprune_mat hit)
{
    const resnet *model = of;
    return clprune_cross_entropy_forward(model->context, smoothing,
        clprune_mat_rows(model->logits, 0, batch), labels, clprune_mat_rows(model->log_p, 0, batch),
        loss, hit, NULL);
}

void resnet_set_seed(void *of, uint64_t seed)
{
    const resnet *model = of;
    const uint64_t stride = UINT64_C(0x9e3779b97f4a7c15);
    for (size_t i = 0; i < model->blocks_count; ++i)
        for (size_t k = 0; k < KEEP_IN_BLOCK; ++k)
            clprune_saved_set_seed(
                model->blocks[i].kept[k], seed + stride * (i * KEEP_IN_BLOCK + k));
    for (size_t k = KEEP_IN_BLOCK; k < KEEP_ALL; ++k)
        clprune_saved_set_seed(
            model->kept[k], seed + stride * (model->blocks_count * KEEP_IN_BLOCK + k));
}
