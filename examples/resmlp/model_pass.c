/* The forward and the backward pass: eight calls per block, in order and reversed. */
#include "model.h"

#include "try.h"

static clprune_mat first_rows(clprune_mat mat, size_t rows)
{
    return clprune_mat_rows(mat, 0, rows);
}

/* A dense rows x cols matrix in the buffer of `mat`. */
static clprune_mat reshape(clprune_mat mat, size_t rows, size_t cols)
{
    return clprune_mat_of(mat.buffer, rows, cols);
}

static clprune_mat hidden_of(const resmlp *model, size_t batch, size_t cols)
{
    return reshape(model->work.hidden, batch * model->tokens, cols);
}

/* Where block i's x is made; behind the last block: its output. */
static clprune_saved *x_of(const resmlp *model, size_t i)
{
    return i < model->arch.depth ? model->blocks[i].kept[KEEP_X] : model->last_x;
}

/* The scratch for each tensor of a block that is not made in place; see resmlp_workspace. */
static clprune_mat scratch_of(const resmlp *model, size_t batch, keep_tensor tensor)
{
    const resmlp_workspace *work = &model->work;
    switch (tensor) {
    case KEEP_X:
    case KEEP_X2:
        return first_rows(work->x, batch * model->tokens);
    case KEEP_N1:
    case KEEP_N2:
        return first_rows(work->token, batch * model->tokens);
    case KEEP_T:
    case KEEP_M:
        return first_rows(work->branch, batch * model->tokens);
    case KEEP_H:
        return first_rows(work->fc1, batch * model->tokens);
    default: /* KEEP_G */
        return hidden_of(model, batch, model->arch.hidden);
    }
}

static clprune_mat target(
    const resmlp *model, const clprune_saved *kept, size_t batch, keep_tensor tensor)
{
    return clprune_saved_target(kept, batch, scratch_of(model, batch, tensor));
}

/* Keeps a tensor that is not the input of a linear layer (those keep theirs themselves). Nothing to
 * do for a dense one: it was made in its place. */
static clprune_status keep(bool training, clprune_saved *kept, size_t batch, clprune_mat mat)
{
    return training ? clprune_saved_store(kept, batch, mat, NULL) : CLPRUNE_SUCCESS;
}

/* The dense form of what keep() kept: as it is, or restored into scratch. */
static clprune_status restore(const resmlp *model, const clprune_saved *kept, size_t batch,
    keep_tensor tensor, clprune_mat *mat)
{
    const clprune_bsr bsr = clprune_saved_bsr(kept, batch);
    *mat = clprune_saved_dense(kept, batch);
    if (mat->rows != 0)
        return CLPRUNE_SUCCESS;
    *mat = scratch_of(model, batch, tensor);
    return clprune_bsr_unpack(model->context, &bsr, *mat, NULL);
}

/* next = the block of x. */
static clprune_status block_forward(const resmlp *model, const resmlp_block *block, size_t batch,
    bool training, clprune_mat x, clprune_mat next)
{
    clprune_status status = CLPRUNE_SUCCESS;
    clprune_context *context = model->context;
    const resmlp_block_weights *w = &block->w;
    clprune_saved *const *kept = block->kept;
    const clprune_mat n1 = target(model, kept[KEEP_N1], batch, KEEP_N1);
    const clprune_mat t = target(model, kept[KEEP_T], batch, KEEP_T);
    const clprune_mat x2 = target(model, kept[KEEP_X2], batch, KEEP_X2);
    const clprune_mat n2 = target(model, kept[KEEP_N2], batch, KEEP_N2);
    const clprune_mat h = target(model, kept[KEEP_H], batch, KEEP_H);
    const clprune_mat g = target(model, kept[KEEP_G], batch, KEEP_G);
    const clprune_mat m = target(model, kept[KEEP_M], batch, KEEP_M);
    clprune_saved *const keep_n1 = training ? kept[KEEP_N1] : NULL;
    clprune_saved *const keep_n2 = training ? kept[KEEP_N2] : NULL;
    clprune_saved *const keep_g = training ? kept[KEEP_G] : NULL;

    /* x2 = x + ls1 * (W_t affine1(x) + b_t) */
    TRY(clprune_affine_forward(context, x, w->alpha1, w->beta1, n1, NULL));
    TRY(clprune_token_linear_forward(
        model->token, batch, n1, w->token_w, w->token_b, t, keep_n1, NULL));
    TRY(keep(training, kept[KEEP_T], batch, t));
    TRY(clprune_layerscale_forward(context, x, t, w->ls1, x2, NULL));
    TRY(keep(training, kept[KEEP_X2], batch, x2));

    /* next = x2 + ls2 * fc2(gelu(fc1(affine2(x2)))) */
    TRY(clprune_affine_forward(context, x2, w->alpha2, w->beta2, n2, NULL));
    TRY(clprune_linear_forward(model->fc1, batch, n2, w->fc1_w, w->fc1_b, h, keep_n2, NULL));
    TRY(keep(training, kept[KEEP_H], batch, h));
    TRY(clprune_gelu_forward(context, h, g, NULL));
    TRY(clprune_linear_forward(model->fc2, batch, g, w->fc2_w, w->fc2_b, m, keep_g, NULL));
    TRY(keep(training, kept[KEEP_M], batch, m));
    TRY(clprune_layerscale_forward(context, x2, m, w->ls2, next, NULL));
done:
    return status;
}

/* On entry work.stream holds the gradient of the block's output, on return that of its input. The
 * residual path passes it on as it is, so each half of the block only adds to it. */
static clprune_status block_backward(const resmlp *model, const resmlp_block *block, size_t batch)
{
    clprune_status status = CLPRUNE_SUCCESS;
    clprune_context *context = model->context;
    const resmlp_block_weights *w = &block->w, *dw = &block->dw;
    clprune_saved *const *kept = block->kept;
    const size_t rows = batch * model->tokens;
    const clprune_mat dx = first_rows(model->work.stream, rows);
    const clprune_mat dtoken = first_rows(model->work.token, rows); /* dm, then dn2, then dt */
    const clprune_mat dhidden = hidden_of(model, batch, model->arch.hidden); /* dg, then dh */
    const clprune_mat dn1 = hidden_of(model, batch, model->arch.dim);        /* once dh is used */
    clprune_mat x, t, x2, h, m;

    /* next = x2 + ls2 * m */
    TRY(restore(model, kept[KEEP_M], batch, KEEP_M, &m));
    TRY(clprune_layerscale_backward(context, m, w->ls2, dx, dtoken, dw->ls2, NULL));
    /* m = g W2^T + b2 */
    TRY(clprune_linear_backward(
        model->fc2, batch, kept[KEEP_G], dtoken, w->fc2_w, dhidden, dw->fc2_w, dw->fc2_b, NULL));
    /* g = gelu(h) */
    TRY(restore(model, kept[KEEP_H], batch, KEEP_H, &h));
    TRY(clprune_gelu_backward(context, h, dhidden, dhidden, NULL));
    /* h = n2 W1^T + b1 */
    TRY(clprune_linear_backward(
        model->fc1, batch, kept[KEEP_N2], dhidden, w->fc1_w, dtoken, dw->fc1_w, dw->fc1_b, NULL));
    /* n2 = alpha2 * x2 + beta2 */
    TRY(restore(model, kept[KEEP_X2], batch, KEEP_X2, &x2));
    TRY(clprune_affine_backward(
        context, true, x2, w->alpha2, dtoken, dx, dw->alpha2, dw->beta2, NULL));

    /* x2 = x + ls1 * t */
    TRY(restore(model, kept[KEEP_T], batch, KEEP_T, &t));
    TRY(clprune_layerscale_backward(context, t, w->ls1, dx, dtoken, dw->ls1, NULL));
    /* t = W_t n1 + b_t */
    TRY(clprune_token_linear_backward(model->token, batch, kept[KEEP_N1], dtoken, w->token_w, dn1,
        dw->token_w, dw->token_b, NULL));
    /* n1 = alpha1 * x + beta1 */
    TRY(restore(model, kept[KEEP_X], batch, KEEP_X, &x));
    TRY(clprune_affine_backward(context, true, x, w->alpha1, dn1, dx, dw->alpha1, dw->beta1, NULL));
done:
    return status;
}

void resmlp_set_seed(resmlp *model, uint64_t seed)
{
    const uint64_t stride = UINT64_C(0x9e3779b97f4a7c15);
    const size_t depth = model->arch.depth;
    for (size_t i = 0; i < depth; ++i)
        for (size_t tensor = 0; tensor < KEEP_TENSORS; ++tensor)
            clprune_saved_set_seed(
                model->blocks[i].kept[tensor], seed + stride * (i * KEEP_TENSORS + tensor));
    clprune_saved_set_seed(model->last_x, seed + stride * (depth * KEEP_TENSORS));
}

clprune_status resmlp_forward(resmlp *model, size_t batch, clprune_mat images, bool training)
{
    clprune_status status = CLPRUNE_SUCCESS;
    clprune_context *context = model->context;
    const resmlp_outer_weights *w = &model->w;
    const size_t depth = model->arch.depth, rows = batch * model->tokens;
    clprune_mat x = target(model, x_of(model, 0), batch, KEEP_X);

    TRY(clprune_patch_embed_forward(
        context, &model->stem, batch, images, w->stem_w, w->stem_b, x, NULL));
    TRY(keep(training, x_of(model, 0), batch, x));
    for (size_t i = 0; i < depth; ++i) {
        const clprune_mat next = target(model, x_of(model, i + 1), batch, KEEP_X);
        TRY(block_forward(model, &model->blocks[i], batch, training, x, next));
        TRY(keep(training, x_of(model, i + 1), batch, next));
        x = next;
    }
    const clprune_mat n = first_rows(model->work.token, rows);
    const clprune_mat pooled = clprune_saved_dense(model->pooled, batch);
    const clprune_mat logits = first_rows(model->logits, batch);
    TRY(clprune_affine_forward(context, x, w->alpha, w->beta, n, NULL));
    TRY(clprune_token_mean_forward(context, batch, model->tokens, n, pooled, NULL));
    TRY(clprune_linear_forward(model->head, batch, pooled, w->head_w, w->head_b, logits,
        training ? model->pooled : NULL, NULL));
done:
    return status;
}

clprune_status resmlp_loss(
    resmlp *model, size_t batch, cl_mem labels, float smoothing, clprune_mat loss, clprune_mat hit)
{
    return clprune_cross_entropy_forward(model->context, smoothing,
        first_rows(model->logits, batch), labels, first_rows(model->log_p, batch), loss, hit, NULL);
}

clprune_status resmlp_backward(resmlp *model, size_t batch, clprune_mat images, cl_mem labels,
    float smoothing, clprune_mat dimages)
{
    clprune_status status = CLPRUNE_SUCCESS;
    clprune_context *context = model->context;
    const resmlp_outer_weights *w = &model->w, *dw = &model->dw;
    const size_t depth = model->arch.depth, rows = batch * model->tokens;
    const clprune_mat dlogits = first_rows(model->logits, batch);
    const clprune_mat dpooled = reshape(model->work.hidden, batch, model->arch.dim);
    const clprune_mat dn = first_rows(model->work.token, rows);
    const clprune_mat dx = first_rows(model->work.stream, rows);
    clprune_mat x;

    /* loss = mean of -sum_k q_k log_softmax(logits)_k */
    TRY(clprune_cross_entropy_backward(context, smoothing, 1.0f / (float)batch,
        first_rows(model->log_p, batch), labels, dlogits, NULL));
    /* logits = pooled W_h^T + b_h */
    TRY(clprune_linear_backward(model->head, batch, model->pooled, dlogits, w->head_w, dpooled,
        dw->head_w, dw->head_b, NULL));
    /* pooled = mean over tokens of n */
    TRY(clprune_token_mean_backward(context, batch, model->tokens, dpooled, dn, NULL));
    /* n = alpha * x + beta */
    TRY(restore(model, model->last_x, batch, KEEP_X, &x));
    TRY(clprune_affine_backward(context, false, x, w->alpha, dn, dx, dw->alpha, dw->beta, NULL));
    for (size_t i = depth; i-- > 0;)
        TRY(block_backward(model, &model->blocks[i], batch));
    /* x = cut(images) W_s^T + b_s */
    TRY(clprune_patch_embed_backward(context, &model->stem, batch, images, dx, w->stem_w, dimages,
        dw->stem_w, dw->stem_b, NULL));
done:
    return status;
}
