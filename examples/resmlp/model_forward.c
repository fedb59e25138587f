/* The forward pass: eight calls per block; and where the tensors of a block lie. */
#include "model_private.h"
#include "trainer/base/try.h"

size_t resmlp_token_step(const resmlp *model, const resmlp_block *block, size_t batch)
{
    return keep_recomputes_tokens(block->rules) ? model->chunk : batch;
}

size_t resmlp_mlp_step(const resmlp *model, const resmlp_block *block, size_t batch)
{
    return keep_recomputes_mlp(block->rules) ? model->chunk : batch;
}

clprune_mat resmlp_rows(const resmlp *model, clprune_mat mat, resmlp_range range)
{
    return clprune_mat_rows(mat, range.first * model->tokens, range.count * model->tokens);
}

clprune_image_bytes resmlp_images(const resmlp *model, clprune_image_bytes images, size_t first)
{
    images.offset += first * model->stem.channels * model->stem.height * model->stem.width;
    return images;
}

/* The store of block i's x; i = depth: of the last block's output. NULL: only its mean is kept. */
static clprune_saved *kept_x(const resmlp *model, size_t i)
{
    return i < model->arch.depth ? model->blocks[i].kept[KEEP_X] : model->last_x;
}

clprune_mat resmlp_target(
    const resmlp *model, const resmlp_block *block, keep_tensor tensor, resmlp_range range)
{
    const clprune_mat dense = clprune_saved_dense(block->kept[tensor], range.first, range.count);
    const bool streams = tensor == KEEP_X || (tensor == KEEP_X2 && block->kept[KEEP_X2] != NULL);
    if (dense.rows > 0)
        return dense;
    if (tensor == KEEP_GELU && keep_codes(block->rules))
        tensor = KEEP_FC1; /* in place: only the code of fc1 is needed after GELU */
    return streams ? resmlp_rows(model, model->work.stream, range)
                   : clprune_mat_rows(model->work.made[tensor], 0, range.count * model->tokens);
}

clprune_status resmlp_restore(const resmlp *model, const clprune_saved *kept, resmlp_range range,
    clprune_mat scratch, clprune_mat *mat)
{
    const clprune_mat dense = clprune_saved_dense(kept, range.first, range.count);
    *mat = dense.rows > 0 ? dense : clprune_mat_rows(scratch, 0, range.count * model->tokens);
    return clprune_saved_restore(kept, range.first, range.count, *mat, NULL);
}

/* Where block i's x is made; i = depth: the last block's output. */
static clprune_mat x_target(const resmlp *model, size_t i, size_t batch)
{
    return clprune_saved_target(
        kept_x(model, i), 0, batch, clprune_mat_rows(model->work.stream, 0, batch * model->tokens));
}

/* Stores a range of samples of a tensor. Linear layers store their inputs themselves. A no-op for
 * dense tensors, which were made in their store. */
static clprune_status keep(bool training, clprune_saved *kept, resmlp_range range, clprune_mat mat)
{
    return training && kept != NULL ? clprune_saved_store(kept, range.first, range.count, mat, NULL)
                                    : CLPRUNE_SUCCESS;
}

clprune_status resmlp_token_half(const resmlp *model, const resmlp_block *block, bool training,
    clprune_mat x, resmlp_range range, clprune_mat x2)
{
    const resmlp_block_weights *w = &block->w;
    clprune_saved *const *kept = block->kept;
    const clprune_mat in = resmlp_rows(model, x, range);
    const clprune_mat norm1 = resmlp_target(model, block, KEEP_NORM1, range);
    const clprune_mat tokens = resmlp_target(model, block, KEEP_TOKENS, range);

    TRY(clprune_affine_forward(model->context, in, w->alpha1, w->beta1, norm1, NULL));
    TRY(clprune_linear_forward(model->token, range.count, norm1, w->token_w, w->token_b, tokens,
        training ? kept[KEEP_NORM1] : NULL, NULL));
    TRY(resmlp_forget_made(model, KEEP_NORM1));
    TRY(keep(training, kept[KEEP_TOKENS], range, tokens));
    TRY(clprune_layerscale_forward(model->context, in, tokens, w->ls1, x2, NULL));
    return resmlp_forget_made(model, KEEP_TOKENS);
}

/* next = x2 + ls2 * fc2(gelu(fc1(affine2(x2)))); x2 and next have the rows of the range. gelu adds
 * fc1's bias unless the product of fc1 fuses it. */
static clprune_status mlp_half(const resmlp *model, const resmlp_block *block, bool training,
    clprune_mat x2, resmlp_range range, clprune_mat next)
{
    clprune_context *context = model->context;
    const resmlp_block_weights *w = &block->w;
    clprune_saved *const *kept = block->kept;
    const clprune_mat norm2 = resmlp_target(model, block, KEEP_NORM2, range);
    const clprune_mat fc1 = resmlp_target(model, block, KEEP_FC1, range);
    const clprune_mat gelu = resmlp_target(model, block, KEEP_GELU, range);
    const clprune_mat fc2 = resmlp_target(model, block, KEEP_FC2, range);
    const bool codes = keep_codes(block->rules), fused = clprune_linear_fuses_bias(model->fc1);
    const clprune_mat fc1_b = fused ? w->fc1_b : CLPRUNE_NO_MAT;
    const clprune_mat gelu_b = fused ? CLPRUNE_NO_MAT : w->fc1_b;

    TRY(clprune_affine_forward(context, x2, w->alpha2, w->beta2, norm2, NULL));
    TRY(clprune_linear_forward(model->fc1, range.count, norm2, w->fc1_w, fc1_b, fc1,
        training ? kept[KEEP_NORM2] : NULL, NULL));
    TRY(resmlp_forget_made(model, KEEP_NORM2));
    TRY(clprune_activation_forward(context, CLPRUNE_ACTIVATION_GELU, range.first, range.count, fc1,
        gelu_b, gelu, training ? kept[KEEP_FC1] : NULL, NULL));
    if (codes) /* gelu is in fc1's place */
        TRY(keep(training, kept[KEEP_GELU], range, gelu));
    else
        TRY(resmlp_forget_made(model, KEEP_FC1));
    TRY(clprune_linear_forward(model->fc2, range.count, gelu, w->fc2_w, w->fc2_b, fc2,
        training && !codes ? kept[KEEP_GELU] : NULL, NULL));
    TRY(resmlp_forget_made(model, codes ? KEEP_FC1 : KEEP_GELU));
    TRY(keep(training, kept[KEEP_FC2], range, fc2));
    TRY(clprune_layerscale_forward(context, x2, fc2, w->ls2, next, NULL));
    return resmlp_forget_made(model, KEEP_FC2);
}

/* next = the block of x. */
static clprune_status block_forward(const resmlp *model, const resmlp_block *block, size_t batch,
    bool training, clprune_mat x, clprune_mat next)
{
    const bool keeps_x2 = block->kept[KEEP_X2] != NULL;
    size_t step = resmlp_token_step(model, block, batch);

    for (size_t first = 0; first < batch && keeps_x2; first += step) {
        const resmlp_range range = resmlp_range_at(first, step, batch);
        const clprune_mat x2 = resmlp_target(model, block, KEEP_X2, range);
        TRY(resmlp_token_half(model, block, training, x, range, x2));
        TRY(keep(training, block->kept[KEEP_X2], range, x2));
    }
    step = resmlp_mlp_step(model, block, batch);
    for (size_t first = 0; first < batch; first += step) {
        const resmlp_range range = resmlp_range_at(first, step, batch);
        const clprune_mat x2 = resmlp_target(model, block, KEEP_X2, range);
        if (!keeps_x2)
            TRY(resmlp_token_half(model, block, training, x, range, x2));
        TRY(mlp_half(model, block, training, x2, range, resmlp_rows(model, next, range)));
        TRY(resmlp_forget_made(model, KEEP_X2));
    }
    return CLPRUNE_SUCCESS;
}

/* pooled = mean over the tokens of alpha * x + beta. If only the mean of x is kept, the mean comes
 * first and the affine last. */
static clprune_status pool(const resmlp *model, size_t batch, clprune_mat x, clprune_mat pooled)
{
    clprune_context *context = model->context;
    const resmlp_outer_weights *w = &model->w;
    if (model->last_x == NULL) {
        const clprune_mat mean = clprune_saved_dense(model->mean_x, 0, batch);
        TRY(clprune_token_mean_forward(context, batch, model->tokens, x, mean, NULL));
        TRY(clprune_affine_forward(context, mean, w->alpha, w->beta, pooled, NULL));
    } else {
        const clprune_mat norm = clprune_mat_rows(model->work.last_norm, 0, x.rows);
        TRY(clprune_affine_forward(context, x, w->alpha, w->beta, norm, NULL));
        TRY(clprune_token_mean_forward(context, batch, model->tokens, norm, pooled, NULL));
        TRY(resmlp_forget(model, norm));
    }
    return CLPRUNE_SUCCESS;
}

static clprune_status stem_forward(
    const resmlp *model, size_t batch, clprune_image_bytes images, clprune_mat x)
{
    const resmlp_outer_weights *w = &model->w;
    for (size_t first = 0; first < batch; first += model->stem_step) {
        const resmlp_range range = resmlp_range_at(first, model->stem_step, batch);
        TRY(clprune_patch_embed_forward_bytes(model->context, &model->stem, range.count,
            resmlp_images(model, images, first), w->stem_w, w->stem_b, resmlp_rows(model, x, range),
            NULL));
    }
    return CLPRUNE_SUCCESS;
}

void resmlp_set_seed(void *of, uint64_t seed)
{
    const resmlp *model = of;
    const uint64_t stride = UINT64_C(0x9e3779b97f4a7c15);
    const size_t depth = model->arch.depth;
    for (size_t i = 0; i < depth; ++i)
        for (size_t tensor = 0; tensor < KEEP_TENSORS; ++tensor)
            clprune_saved_set_seed(
                model->blocks[i].kept[tensor], seed + stride * (i * KEEP_TENSORS + tensor));
    clprune_saved_set_seed(model->last_x, seed + stride * (depth * KEEP_TENSORS));
}

clprune_status resmlp_forward(void *of, size_t batch, clprune_image_bytes images, bool training)
{
    const resmlp *model = of;
    const resmlp_outer_weights *w = &model->w;
    const size_t depth = model->arch.depth;
    const resmlp_range all = {0, batch};
    clprune_mat x = x_target(model, 0, batch);

    trainer_tell(&model->watcher, "forward stem", 0);
    TRY(stem_forward(model, batch, images, x));
    TRY(keep(training, kept_x(model, 0), all, x));
    for (size_t i = 0; i < depth; ++i) {
        const clprune_mat next = x_target(model, i + 1, batch);
        trainer_tell(&model->watcher, "forward block", i);
        TRY(block_forward(model, &model->blocks[i], batch, training, x, next));
        TRY(keep(training, kept_x(model, i + 1), all, next));
        x = next;
    }
    const clprune_mat pooled = clprune_saved_dense(model->pooled, 0, batch);
    trainer_tell(&model->watcher, "forward head", 0);
    TRY(pool(model, batch, x, pooled));
    TRY(resmlp_forget(model, model->work.stream));
    return clprune_linear_forward(model->head, batch, pooled, w->head_w, w->head_b,
        clprune_mat_rows(model->logits, 0, batch), training ? model->pooled : NULL, NULL);
}

clprune_status resmlp_loss(
    void *of, size_t batch, cl_mem labels, float smoothing, clprune_mat loss, clprune_mat hit)
{
    const resmlp *model = of;
    return clprune_cross_entropy_forward(model->context, smoothing,
        clprune_mat_rows(model->logits, 0, batch), labels, clprune_mat_rows(model->log_p, 0, batch),
        loss, hit, NULL);
}
