/* The backward pass: the forward calls reversed. Each half of a block has one of these ways:
 *
 *     from kept    all tensors that its gradients need are kept
 *     from input   the token half from x; the MLP from x2 (or x) and fc1
 *     from code    the MLP from x2, gelu and the code of GELU's derivative
 *
 * For the MLP, the last two rest on the identities below: from input exactly, from code up to the
 * code's error. G = dy^T gelu, P = dfc1^T x2, and W o G is the product of the elements:
 *
 *     fc2 = gelu W2^T + b2, scaled by ls2:
 *         dls2 = rowsum(W2 o G) + b2 * colsum(dy), dW2 = diag(ls2) G
 *     norm2 = alpha2 * x2 + beta2, into W1:
 *         dalpha2 = colsum(W1 o P), dbeta2 = W1^T colsum(dfc1),
 *         dW1 = P diag(alpha2) + colsum(dfc1)^T beta2,
 *         where P is computed from x2 - centre: see clprune/affine.h
 *     dgelu = dy (diag(ls2) W2), dx2 = dfc1 (W1 diag(alpha2)): no scaled copy of an activation
 *
 * The token half from input: see <clprune/token_mix.h>. */
#include "model_private.h"
#include "trainer/base/try.h"

/* x2 = x + ls1 * (W_t affine1(x) + b_t), from x alone. */
static clprune_status tokens_from_input(
    const resmlp *model, const resmlp_block *block, size_t batch, clprune_mat dx)
{
    const resmlp_block_weights *w = &block->w, *dw = &block->dw;
    const clprune_token_mix params = {w->alpha1, w->beta1, w->token_w, w->token_b, w->ls1};
    const clprune_token_mix grads = {dw->alpha1, dw->beta1, dw->token_w, dw->token_b, dw->ls1};
    const size_t step = resmlp_token_step(model, block, batch);
    for (size_t first = 0; first < batch; first += step) {
        const resmlp_range range = resmlp_range_at(first, step, batch);
        const clprune_mat mixing =
            clprune_mat_rows(model->work.mixing, 0, range.count * model->tokens);
        clprune_mat x;
        TRY(resmlp_restore(model, block->kept[KEEP_X], range, model->work.made[KEEP_X], &x));
        TRY(clprune_token_mix_backward(model->context, range.count, first > 0, x, &params,
            resmlp_rows(model, dx, range), mixing, &grads, NULL));
        TRY(resmlp_forget_made(model, KEEP_X));
        TRY(resmlp_forget(model, mixing));
    }
    return CLPRUNE_SUCCESS;
}

static clprune_status tokens_from_kept(
    const resmlp *model, const resmlp_block *block, size_t batch, clprune_mat dx)
{
    clprune_context *context = model->context;
    const resmlp_block_weights *w = &block->w, *dw = &block->dw;
    clprune_saved *const *kept = block->kept;
    const resmlp_workspace *work = &model->work;
    const clprune_mat dtokens = clprune_mat_rows(work->dtokens, 0, dx.rows);
    const clprune_mat dnorm1 = clprune_mat_rows(work->dnorm1, 0, dx.rows);
    const resmlp_range all = {0, batch};
    clprune_mat x, tokens;

    /* x2 = x + ls1 * tokens, tokens = ... + b_t */
    TRY(resmlp_restore(model, kept[KEEP_TOKENS], all, work->made[KEEP_TOKENS], &tokens));
    TRY(clprune_layerscale_backward(context, 0, tokens, w->ls1, dx, dtokens,
        &(clprune_layerscale_grads){.dls = dw->ls1, .db_tokens = dw->token_b}, NULL));
    TRY(resmlp_forget_made(model, KEEP_TOKENS));
    /* tokens = W_t norm1 + b_t */
    TRY(clprune_linear_backward(model->token, batch, kept[KEEP_NORM1], dtokens, w->token_w,
        &(clprune_grads){.dx = dnorm1, .dw = dw->token_w}, NULL));
    TRY(resmlp_forget(model, dtokens));
    /* norm1 = alpha1 * x + beta1 */
    TRY(resmlp_restore(model, kept[KEEP_X], all, work->made[KEEP_X], &x));
    TRY(clprune_affine_backward(context, 0, 1, x, w->alpha1, dnorm1, dx,
        &(clprune_affine){.alpha = dw->alpha1, .beta = dw->beta1}, NULL));
    TRY(resmlp_forget_made(model, KEEP_X));
    return resmlp_forget(model, dnorm1);
}

/* Before the first chunk of an MLP from input or code: scaled weights; the sums of dy in dw->fc2_b,
 * which must be taken before the chunks add to dx. */
static clprune_status mlp_begin(
    const resmlp *model, const resmlp_block *block, size_t batch, clprune_mat dx)
{
    clprune_context *context = model->context;
    const resmlp_block_weights *w = &block->w;
    TRY(clprune_layerscale_weights(context, w->ls2, w->fc2_w, model->work.fc2_w, NULL));
    TRY(clprune_affine_weights(context, w->alpha2, w->fc1_w, model->work.fc1_w, NULL));
    return clprune_linear_backward(
        model->fc2, batch, NULL, dx, CLPRUNE_NO_MAT, &(clprune_grads){.db = block->dw.fc2_b}, NULL);
}

/* After the last chunk: the gradients, from the products G and P in dw->fc2_w and dw->fc1_w and the
 * sums of dy and dfc1 in dw->fc2_b and dw->fc1_b. */
static clprune_status mlp_end(const resmlp *model, const resmlp_block *block)
{
    clprune_context *context = model->context;
    const resmlp_block_weights *w = &block->w, *dw = &block->dw;
    TRY(clprune_layerscale_backward_product(
        context, 0, w->fc2_w, w->fc2_b, w->ls2, dw->ls2, dw->fc2_w, dw->fc2_b, NULL));
    TRY(clprune_affine_backward_product(context, 0, w->fc1_w,
        &(clprune_affine){.alpha = w->alpha2, .beta = w->beta2}, model->work.centre, dw->fc1_b,
        dw->fc1_w, &(clprune_affine){.alpha = dw->alpha2, .beta = dw->beta2}, NULL));
    TRY(resmlp_forget(model, model->work.fc1_w));
    TRY(resmlp_forget(model, model->work.fc2_w));
    return resmlp_forget(model, model->work.centre);
}

/* A chunk of the MLP from input: adds its part of the products G and P to dw->fc2_w and dw->fc1_w,
 * its sums of dfc1 to dw->fc1_b, and the gradient of x2 to dx. x2 and dx have the rows of the
 * chunk. x2 becomes x2 - centre in place, and a dense fc1 becomes gelu. */
static clprune_status mlp_chunk(const resmlp *model, const resmlp_block *block, resmlp_range range,
    clprune_mat x2, clprune_mat dx)
{
    clprune_context *context = model->context;
    const resmlp_workspace *work = &model->work;
    const resmlp_block_weights *dw = &block->dw;
    const clprune_saved *kept = block->kept[KEEP_FC1];
    const clprune_mat fc1 = clprune_saved_dense(kept, range.first, range.count);
    const clprune_mat dfc1 = clprune_mat_rows(work->dfc1, 0, dx.rows);
    const clprune_mat gelu =
        fc1.rows > 0 ? fc1 : clprune_mat_rows(work->made[KEEP_FC1], 0, dx.rows);
    const bool first = range.first == 0;
    const float beta = first ? 0.0f : 1.0f;

    /* next = x2 + ls2 * (gelu W2^T + b2) */
    TRY(clprune_gemm(context, false, false, 1.0f, 0.0f, dx, work->fc2_w, dfc1, NULL));
    /* gelu = GELU(fc1) */
    if (fc1.rows > 0)
        TRY(clprune_gelu_backward_recompute(context, beta, fc1, dfc1, gelu, dfc1, dw->fc1_b, NULL));
    else
        TRY(clprune_activation_backward_recompute(context, CLPRUNE_ACTIVATION_GELU, range.first,
            range.count, kept, dfc1, gelu,
            &(clprune_grads){.dx = dfc1, .db = dw->fc1_b, .beta = beta}, NULL));
    TRY(clprune_gemm(context, true, false, 1.0f, beta, dx, gelu, dw->fc2_w, NULL));
    TRY(resmlp_forget_made(model, KEEP_FC1));
    /* fc1 = (alpha2 * x2 + beta2) W1^T + b1 */
    if (first)
        TRY(clprune_token_mean_forward(
            context, 1, model->tokens, clprune_mat_rows(x2, 0, model->tokens), work->centre, NULL));
    TRY(clprune_affine_centre(context, work->centre, x2, NULL));
    TRY(clprune_gemm(context, true, false, 1.0f, beta, dfc1, x2, dw->fc1_w, NULL));
    TRY(resmlp_forget_made(model, KEEP_X2));
    TRY(clprune_gemm(context, false, false, 1.0f, 1.0f, dfc1, work->fc1_w, dx, NULL));
    return resmlp_forget(model, dfc1);
}

/* next = x2 + ls2 * fc2(gelu(fc1)), fc1 = fc1(affine2(x2)), from x2 (or x) and fc1 alone. */
static clprune_status mlp_from_input(
    const resmlp *model, const resmlp_block *block, size_t batch, clprune_mat dx)
{
    clprune_saved *const *kept = block->kept;
    const size_t step = resmlp_mlp_step(model, block, batch);

    TRY(mlp_begin(model, block, batch, dx));
    for (size_t first = 0; first < batch; first += step) {
        const resmlp_range range = resmlp_range_at(first, step, batch);
        clprune_mat x2;
        if (kept[KEEP_X2] != NULL) {
            TRY(resmlp_restore(model, kept[KEEP_X2], range, model->work.made[KEEP_X2], &x2));
        } else {
            x2 = resmlp_target(model, block, KEEP_X2, range);
            TRY(resmlp_token_half(
                model, block, false, clprune_saved_dense(kept[KEEP_X], 0, batch), range, x2));
        }
        TRY(mlp_chunk(model, block, range, x2, resmlp_rows(model, dx, range)));
    }
    return mlp_end(model, block);
}

/* The same of an MLP from code; dx has the rows of the chunk. */
static clprune_status mlp_coded_chunk(
    const resmlp *model, const resmlp_block *block, resmlp_range range, clprune_mat dx)
{
    clprune_context *context = model->context;
    const resmlp_workspace *work = &model->work;
    const resmlp_block_weights *dw = &block->dw;
    const clprune_mat dfc1 = clprune_mat_rows(work->dfc1, 0, dx.rows);
    const bool first = range.first == 0;
    const float beta = first ? 0.0f : 1.0f;

    /* next = x2 + ls2 * (gelu W2^T + b2) */
    TRY(clprune_saved_product_tn(
        block->kept[KEEP_GELU], range.first, range.count, beta, dx, dw->fc2_w, NULL));
    TRY(clprune_gemm(context, false, false, 1.0f, 0.0f, dx, work->fc2_w, dfc1, NULL));
    /* gelu = GELU(fc1) */
    TRY(clprune_activation_backward(context, CLPRUNE_ACTIVATION_GELU, range.first, range.count,
        block->kept[KEEP_FC1], dfc1, &(clprune_grads){.dx = dfc1, .db = dw->fc1_b, .beta = beta},
        NULL));
    /* fc1 = (alpha2 * x2 + beta2) W1^T + b1 */
    TRY(clprune_saved_product_tn(
        block->kept[KEEP_X2], range.first, range.count, beta, dfc1, dw->fc1_w, NULL));
    TRY(clprune_gemm(context, false, false, 1.0f, 1.0f, dfc1, work->fc1_w, dx, NULL));
    return resmlp_forget(model, dfc1);
}

/* next = x2 + ls2 * fc2(gelu(fc1)), fc1 = fc1(affine2(x2)), from what is kept of x2 and gelu and
 * the code of fc1. */
static clprune_status mlp_from_code(
    const resmlp *model, const resmlp_block *block, size_t batch, clprune_mat dx)
{
    const size_t step = resmlp_mlp_step(model, block, batch);

    TRY(mlp_begin(model, block, batch, dx));
    TRY(clprune_mat_fill(model->context, 0.0f, model->work.centre, NULL));
    for (size_t first = 0; first < batch; first += step) {
        const resmlp_range range = resmlp_range_at(first, step, batch);
        TRY(mlp_coded_chunk(model, block, range, resmlp_rows(model, dx, range)));
    }
    return mlp_end(model, block);
}

static clprune_status mlp_from_kept(
    const resmlp *model, const resmlp_block *block, size_t batch, clprune_mat dx)
{
    clprune_context *context = model->context;
    const resmlp_block_weights *w = &block->w, *dw = &block->dw;
    clprune_saved *const *kept = block->kept;
    const resmlp_workspace *work = &model->work;
    const clprune_mat dfc2 = clprune_mat_rows(work->dfc2, 0, dx.rows);
    const clprune_mat dfc1 = clprune_mat_rows(work->dfc1, 0, dx.rows), dgelu = dfc1;
    const clprune_mat dnorm2 = clprune_mat_rows(work->dnorm2, 0, dx.rows);
    const resmlp_range all = {0, batch};
    clprune_mat x2, fc1, fc2;

    /* next = x2 + ls2 * fc2, fc2 = ... + b2 */
    TRY(resmlp_restore(model, kept[KEEP_FC2], all, work->made[KEEP_FC2], &fc2));
    TRY(clprune_layerscale_backward(context, 0, fc2, w->ls2, dx, dfc2,
        &(clprune_layerscale_grads){.dls = dw->ls2, .db = dw->fc2_b}, NULL));
    TRY(resmlp_forget_made(model, KEEP_FC2));
    /* fc2 = gelu W2^T + b2 */
    TRY(clprune_linear_backward(model->fc2, batch, kept[KEEP_GELU], dfc2, w->fc2_w,
        &(clprune_grads){.dx = dgelu, .dw = dw->fc2_w}, NULL));
    TRY(resmlp_forget(model, dfc2));
    /* gelu = GELU(fc1), fc1 = ... + b1 */
    TRY(resmlp_restore(model, kept[KEEP_FC1], all, work->made[KEEP_FC1], &fc1));
    TRY(clprune_gelu_backward(context, 0, fc1, dgelu, dfc1, dw->fc1_b, NULL));
    TRY(resmlp_forget_made(model, KEEP_FC1));
    /* fc1 = norm2 W1^T + b1 */
    TRY(clprune_linear_backward(model->fc1, batch, kept[KEEP_NORM2], dfc1, w->fc1_w,
        &(clprune_grads){.dx = dnorm2, .dw = dw->fc1_w}, NULL));
    TRY(resmlp_forget(model, dfc1));
    /* norm2 = alpha2 * x2 + beta2 */
    TRY(resmlp_restore(model, kept[KEEP_X2], all, work->made[KEEP_X2], &x2));
    TRY(clprune_affine_backward(context, 0, 1, x2, w->alpha2, dnorm2, dx,
        &(clprune_affine){.alpha = dw->alpha2, .beta = dw->beta2}, NULL));
    TRY(resmlp_forget_made(model, KEEP_X2));
    return resmlp_forget(model, dnorm2);
}

/* dx holds the gradient of the block's output on entry, of its input on return. The residual path
 * passes the gradient on unchanged, so each half of the block only adds to it. */
static clprune_status block_backward(
    const resmlp *model, const resmlp_block *block, size_t batch, clprune_mat dx)
{
    if (keep_codes(block->rules))
        TRY(mlp_from_code(model, block, batch, dx));
    else if (keep_recomputes_mlp(block->rules))
        TRY(mlp_from_input(model, block, batch, dx));
    else
        TRY(mlp_from_kept(model, block, batch, dx));
    if (keep_recomputes_tokens(block->rules))
        TRY(tokens_from_input(model, block, batch, dx));
    else
        TRY(tokens_from_kept(model, block, batch, dx));
    return CLPRUNE_SUCCESS;
}

/* pooled = mean over the tokens of alpha * x + beta, or alpha * (mean of x) + beta; dpooled is
 * overwritten in the second case. */
static clprune_status pool_backward(
    const resmlp *model, size_t batch, clprune_mat dpooled, clprune_mat dx)
{
    clprune_context *context = model->context;
    const resmlp_outer_weights *w = &model->w, *dw = &model->dw;
    if (model->last_x == NULL) {
        TRY(clprune_affine_backward(context, 0, 0, clprune_saved_dense(model->mean_x, 0, batch),
            w->alpha, dpooled, dpooled, &(clprune_affine){.alpha = dw->alpha, .beta = dw->beta},
            NULL));
        TRY(clprune_token_mean_backward(context, batch, model->tokens, dpooled, dx, NULL));
    } else {
        const resmlp_workspace *work = &model->work;
        const clprune_mat dnorm = clprune_mat_rows(work->dlast_norm, 0, dx.rows);
        const resmlp_range all = {0, batch};
        clprune_mat x;
        TRY(clprune_token_mean_backward(context, batch, model->tokens, dpooled, dnorm, NULL));
        TRY(resmlp_restore(model, model->last_x, all, work->made[KEEP_X], &x));
        TRY(clprune_affine_backward(context, 0, 0, x, w->alpha, dnorm, dx,
            &(clprune_affine){.alpha = dw->alpha, .beta = dw->beta}, NULL));
        TRY(resmlp_forget_made(model, KEEP_X));
        TRY(resmlp_forget(model, dnorm));
    }
    return CLPRUNE_SUCCESS;
}

/* x = cut(images) W_s^T + b_s, some images at a time. */
static clprune_status stem_backward(
    const resmlp *model, size_t batch, clprune_image_bytes images, clprune_mat dx)
{
    const resmlp_outer_weights *dw = &model->dw;
    for (size_t first = 0; first < batch; first += model->stem_step) {
        const resmlp_range range = resmlp_range_at(first, model->stem_step, batch);
        TRY(clprune_patch_embed_backward_bytes(model->context, &model->stem, range.count,
            resmlp_images(model, images, first), resmlp_rows(model, dx, range),
            &(clprune_grads){.dw = dw->stem_w, .db = dw->stem_b, .beta = first == 0 ? 0 : 1},
            NULL));
    }
    return CLPRUNE_SUCCESS;
}

clprune_status resmlp_backward(
    void *of, size_t batch, clprune_image_bytes images, cl_mem labels, float smoothing)
{
    const resmlp *model = of;
    clprune_context *context = model->context;
    const resmlp_outer_weights *w = &model->w, *dw = &model->dw;
    const clprune_mat dlogits = clprune_mat_rows(model->logits, 0, batch);
    const clprune_mat dpooled = clprune_mat_rows(model->work.dpooled, 0, batch);
    const clprune_mat dx = clprune_mat_rows(model->work.dx, 0, batch * model->tokens);

    trainer_tell(&model->watcher, "backward head", 0);
    /* loss = mean of -sum_k q_k log_softmax(logits)_k */
    TRY(clprune_cross_entropy_backward(context, smoothing, 1.0f / (float)batch,
        clprune_mat_rows(model->log_p, 0, batch), labels, dlogits, NULL));
    /* logits = pooled W_h^T + b_h */
    TRY(clprune_linear_backward(model->head, batch, model->pooled, dlogits, w->head_w,
        &(clprune_grads){.dx = dpooled, .dw = dw->head_w, .db = dw->head_b}, NULL));
    TRY(pool_backward(model, batch, dpooled, dx));
    TRY(resmlp_forget(model, dpooled));
    for (size_t i = model->arch.depth; i-- > 0;) {
        trainer_tell(&model->watcher, "backward block", i);
        TRY(block_backward(model, &model->blocks[i], batch, dx));
    }
    trainer_tell(&model->watcher, "backward stem", 0);
    return stem_backward(model, batch, images, dx);
}
