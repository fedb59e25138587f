/* Making and destroying a model; the passes are in model_forward.c and model_backward.c. */
#include "model.h"

#include <stdio.h> /* snprintf */
#include <stdlib.h>
#include <string.h> /* memset */

#include "trainer/base/try.h"

static size_t max_size(size_t a, size_t b)
{
    return a > b ? a : b;
}

static bool is_dense(const keep_policy *policy, keep_tensor tensor)
{
    return keep_has_form(&policy->rule[tensor], CLPRUNE_FORM_DENSE);
}

/* Whether a tensor is kept in a form that must be restored before use. */
static bool is_restored(const keep_policy *policy, keep_tensor tensor)
{
    return !policy->rule[tensor].recomputed && !is_dense(policy, tensor);
}

/* How the last block's output is kept. */
static const keep_rule *last_rule(const resmlp *model)
{
    return &model->policies[model->arch.depth - 1].last_x;
}

/* Whether only its mean over the tokens is kept. */
static bool keeps_mean(const resmlp *model)
{
    return keep_has_form(last_rule(model), CLPRUNE_FORM_MEAN);
}

typedef clprune_mat (*pick_fn)(const clprune_param *param);

static clprune_mat pick_value(const clprune_param *param)
{
    return param->value;
}

static clprune_mat pick_grad(const clprune_param *param)
{
    return param->grad;
}

/* params: the twelve of a block. */
static resmlp_block_weights block_weights(const clprune_param *params, pick_fn pick)
{
    return (resmlp_block_weights){
        .ls1 = pick(&params[0]),
        .ls2 = pick(&params[1]),
        .alpha1 = pick(&params[2]),
        .beta1 = pick(&params[3]),
        .token_w = pick(&params[4]),
        .token_b = pick(&params[5]),
        .alpha2 = pick(&params[6]),
        .beta2 = pick(&params[7]),
        .fc1_w = pick(&params[8]),
        .fc1_b = pick(&params[9]),
        .fc2_w = pick(&params[10]),
        .fc2_b = pick(&params[11]),
    };
}

/* tail: the four behind the blocks. */
static resmlp_outer_weights outer_weights(
    const clprune_param *params, const clprune_param *tail, pick_fn pick)
{
    return (resmlp_outer_weights){
        .stem_w = pick(&params[0]),
        .stem_b = pick(&params[1]),
        .alpha = pick(&tail[0]),
        .beta = pick(&tail[1]),
        .head_w = pick(&tail[2]),
        .head_b = pick(&tail[3]),
    };
}

static clprune_status create_block(resmlp *model, size_t index)
{
    resmlp_block *block = &model->blocks[index];
    const clprune_param *params =
        &model->params[RESMLP_STEM_TENSORS + RESMLP_BLOCK_TENSORS * index];
    block->policy = &model->policies[index];
    block->w = block_weights(params, pick_value);
    block->dw = block_weights(params, pick_grad);
    for (keep_tensor tensor = 0; tensor < KEEP_TENSORS; ++tensor) {
        const keep_rule *rule = &block->policy->rule[tensor];
        char name[64];
        if (rule->recomputed)
            continue;
        (void)snprintf(name, sizeof name, "blocks.%zu.%s%s", index,
            resmlp_keep.entries[tensor].name,
            rule->keep.form == CLPRUNE_FORM_GELU_CODE ? ".code" : "");
        TRY(clprune_saved_create(model->context, name, &rule->keep, model->batch, model->tokens,
            keep_features(&model->arch, tensor), &block->kept[tensor]));
    }
    return CLPRUNE_SUCCESS;
}

/* Images cut into patches at a time: all, unless a block recomputes its MLP to save memory; then as
 * many as have patches that fit a chunk's part of T. */
static size_t stem_step(const resmlp *model)
{
    const resmlp_arch *arch = &model->arch;
    const size_t patch = RESMLP_CHANNELS * arch->patch * arch->patch;
    bool matters = false;
    for (size_t i = 0; i < arch->depth; ++i)
        matters = matters || keep_recomputes_mlp(&model->policies[i]);
    if (!matters)
        return model->batch;
    return max_size(model->chunk * arch->dim / patch, 1);
}

static clprune_status create_layers(resmlp *model)
{
    const resmlp_arch *arch = &model->arch;
    const size_t p = model->tokens;

    model->stem = (clprune_patch_embed_desc){
        RESMLP_CHANNELS, arch->image, arch->image, arch->patch, arch->dim};
    model->stem_step = stem_step(model);
    /* The blocks own the stores of the inputs: see create_block. */
    const clprune_linear_desc token = {.in = p, .out = p, .axis = CLPRUNE_AXIS_ROWS};
    TRY(clprune_linear_create(model->context, &token, &model->token));
    const clprune_linear_desc fc1 = {.in = arch->dim, .out = arch->hidden};
    TRY(clprune_linear_create(model->context, &fc1, &model->fc1));
    const clprune_linear_desc fc2 = {.in = arch->hidden, .out = arch->dim};
    TRY(clprune_linear_create(model->context, &fc2, &model->fc2));
    const clprune_linear_desc head = {.in = arch->dim, .out = arch->classes};
    return clprune_linear_create(model->context, &head, &model->head);
}

/* What is kept after the blocks. */
static clprune_status create_tail(resmlp *model)
{
    const keep_rule *rule = last_rule(model);
    const clprune_keep dense = {.form = CLPRUNE_FORM_DENSE};
    const size_t batch = model->batch, dim = model->arch.dim;
    if (keeps_mean(model))
        TRY(clprune_saved_create(model->context, "mean_x", &dense, batch, 1, dim, &model->mean_x));
    else
        TRY(clprune_saved_create(
            model->context, "last_x", &rule->keep, batch, model->tokens, dim, &model->last_x));
    TRY(clprune_saved_create(model->context, "pooled", &dense, batch, 1, dim, &model->pooled));
    return clprune_mat_create(model->context, CLPRUNE_MEMORY_ACTIVATIONS, "log_softmax",
        model->batch, model->arch.classes, &model->log_p);
}

/* Rows of the matrices of a workspace whose sizes depend on what blocks keep; 0: absent. */
typedef struct work_rows {
    size_t stream, made[KEEP_TENSORS], last_norm;
    size_t kept_tokens; /* dtokens and dnorm1, for token halves whose tensors are kept */
    size_t kept_mlp;    /* dfc2 and dnorm2, likewise for the MLP */
    size_t dfc1, mixing;
    bool weights; /* fc1_w, fc2_w and centre */
} work_rows;

static void grow(size_t *size, bool needed, size_t rows)
{
    if (needed)
        *size = max_size(*size, rows);
}

static bool in_token_half(keep_tensor tensor)
{
    return tensor == KEEP_X || tensor == KEEP_NORM1 || tensor == KEEP_TOKENS;
}

/* See resmlp_workspace. */
static void add_block(const resmlp *model, const keep_policy *policy, work_rows *rows)
{
    const size_t all = model->batch * model->tokens, chunk = model->chunk * model->tokens;
    const bool tokens_again = keep_recomputes_tokens(policy);
    const bool mlp_again = keep_recomputes_mlp(policy);
    const size_t tokens = tokens_again ? chunk : all, mlp = mlp_again ? chunk : all;
    for (keep_tensor tensor = 0; tensor < KEEP_TENSORS; ++tensor)
        if (tensor != KEEP_X && tensor != KEEP_X2)
            grow(&rows->made[tensor],
                !is_dense(policy, tensor) && !(tensor == KEEP_GELU && keep_codes(policy)),
                in_token_half(tensor) ? tokens : mlp);
    grow(&rows->made[KEEP_X], is_restored(policy, KEEP_X), tokens);
    grow(&rows->made[KEEP_X2], policy->rule[KEEP_X2].recomputed, chunk);
    grow(&rows->made[KEEP_X2], is_restored(policy, KEEP_X2) && !keep_codes(policy), mlp);
    grow(&rows->stream, is_restored(policy, KEEP_X) || is_restored(policy, KEEP_X2), all);
    grow(&rows->kept_tokens, !tokens_again, all);
    grow(&rows->kept_mlp, !mlp_again, all);
    grow(&rows->dfc1, true, mlp);
    grow(&rows->mixing, tokens_again, tokens);
    rows->weights = rows->weights || mlp_again;
}

static work_rows rows_of(const resmlp *model)
{
    const size_t all = model->batch * model->tokens;
    const bool dense = keep_has_form(last_rule(model), CLPRUNE_FORM_DENSE);
    work_rows rows = {0};
    for (size_t i = 0; i < model->arch.depth; ++i)
        add_block(model, &model->policies[i], &rows);
    grow(&rows.stream, !dense, all);
    grow(&rows.made[KEEP_X], !dense && !keeps_mean(model), all);
    grow(&rows.last_norm, !keeps_mean(model), all);
    return rows;
}

static clprune_status create_made(resmlp *model, keep_tensor tensor, size_t rows)
{
    char name[32];
    if (rows == 0)
        return CLPRUNE_SUCCESS;
    (void)snprintf(name, sizeof name, "%s_made", resmlp_keep.entries[tensor].name);
    return clprune_mat_create(model->context, CLPRUNE_MEMORY_WORKSPACE, name, rows,
        keep_features(&model->arch, tensor), &model->work.made[tensor]);
}

static clprune_status create_workspace(resmlp *model)
{
    const resmlp_arch *arch = &model->arch;
    resmlp_workspace *work = &model->work;
    const size_t dim = arch->dim, hidden = arch->hidden, all = model->batch * model->tokens;
    const work_rows rows = rows_of(model);
    const struct {
        const char *name;
        size_t rows, cols;
        clprune_mat *mat;
    } mats[] = {
        {"stream", rows.stream, dim, &work->stream},
        {"last_norm", rows.last_norm, dim, &work->last_norm},
        {"dx", all, dim, &work->dx},
        {"dlast_norm", rows.last_norm, dim, &work->dlast_norm},
        {"dfc2", rows.kept_mlp, dim, &work->dfc2},
        {"dfc1", rows.dfc1, hidden, &work->dfc1},
        {"dnorm2", rows.kept_mlp, dim, &work->dnorm2},
        {"dtokens", rows.kept_tokens, dim, &work->dtokens},
        {"dnorm1", rows.kept_tokens, dim, &work->dnorm1},
        {"mixing", rows.mixing, dim, &work->mixing},
        {"fc1_w", rows.weights ? hidden : 0, dim, &work->fc1_w},
        {"fc2_w", rows.weights ? dim : 0, hidden, &work->fc2_w},
        {"centre", rows.weights ? 1 : 0, dim, &work->centre},
        {"dpooled", model->batch, dim, &work->dpooled},
        {"logits", model->batch, arch->classes, &model->logits},
    };
    for (keep_tensor tensor = 0; tensor < KEEP_TENSORS; ++tensor)
        TRY(create_made(model, tensor, rows.made[tensor]));
    for (size_t i = 0; i < sizeof mats / sizeof *mats; ++i)
        if (mats[i].rows > 0)
            TRY(clprune_mat_create(model->context, CLPRUNE_MEMORY_WORKSPACE, mats[i].name,
                mats[i].rows, mats[i].cols, mats[i].mat));
    return CLPRUNE_SUCCESS;
}

/* Samples whose fc1 fits the larger of one T and 8 MiB: in smaller chunks, starting kernels would
 * take longer than running them. */
static size_t chunk_of(const resmlp *model)
{
    const size_t least = (size_t)1 << 21; /* elements of fc1: 8 MiB */
    const size_t sample = model->tokens * model->arch.hidden;
    const size_t all = model->batch * model->tokens * model->arch.dim;
    const size_t chunk = max_size(max_size(all, least) / sample, 1);
    return chunk < model->batch ? chunk : model->batch;
}

/* Fills in a model that is zero but for its sizes and policies. */
static clprune_status create_all(resmlp *model)
{
    const model_tensors all = resmlp_arch_all(&model->arch);
    model->tensors = all.count;
    TRY(model_params_create(model->context, &all, &model->params, &model->names));
    const clprune_param *tail = &model->params[model->tensors - 4];
    model->w = outer_weights(model->params, tail, pick_value);
    model->dw = outer_weights(model->params, tail, pick_grad);
    for (size_t i = 0; i < model->arch.depth; ++i)
        TRY(create_block(model, i));
    TRY(create_layers(model));
    TRY(create_tail(model));
    return create_workspace(model);
}

/* policies: one for each block (stride 1) or one for all (stride 0). */
static clprune_status create(clprune_context *context, const resmlp_arch *arch,
    const keep_policy *policies, size_t stride, size_t batch, resmlp *model)
{
    char why[128];
    *model = (resmlp){0};
    if (resmlp_arch_check(arch) != NULL || batch == 0)
        return CLPRUNE_INVALID_ARGUMENT;
    for (size_t i = 0; i < arch->depth; ++i)
        if (!keep_policy_check(&policies[i * stride], why, sizeof why))
            return CLPRUNE_INVALID_ARGUMENT;
    model->context = context;
    model->arch = *arch;
    model->batch = batch;
    model->tokens = resmlp_arch_tokens(arch);
    model->chunk = chunk_of(model);
    model->blocks = calloc(arch->depth, sizeof *model->blocks);
    model->policies = calloc(arch->depth, sizeof *model->policies);
    const bool room = model->blocks != NULL && model->policies != NULL;
    for (size_t i = 0; room && i < arch->depth; ++i)
        model->policies[i] = policies[i * stride];
    const clprune_status status = room ? create_all(model) : CLPRUNE_OUT_OF_HOST_MEMORY;
    if (status != CLPRUNE_SUCCESS)
        resmlp_destroy(model);
    return status;
}

clprune_status resmlp_create(clprune_context *context, const resmlp_arch *arch,
    const keep_policy *policy, size_t batch, resmlp *model)
{
    return create(context, arch, policy, 0, batch, model);
}

clprune_status resmlp_create_each(clprune_context *context, const resmlp_arch *arch,
    const keep_policy *policies, size_t batch, resmlp *model)
{
    return create(context, arch, policies, 1, batch, model);
}

void resmlp_destroy(resmlp *model)
{
    clprune_context *context = model->context;
    const resmlp_workspace *work = &model->work;
    const clprune_mat mats[] = {work->stream, work->last_norm, work->dx, work->dlast_norm,
        work->dfc2, work->dfc1, work->dnorm2, work->dtokens, work->dnorm1, work->mixing,
        work->fc1_w, work->fc2_w, work->centre, work->dpooled, model->logits, model->log_p};
    if (context == NULL)
        return;
    for (size_t i = 0; i < sizeof mats / sizeof *mats; ++i)
        clprune_buffer_release(context, mats[i].buffer);
    for (int i = 0; i < KEEP_TENSORS; ++i)
        clprune_buffer_release(context, work->made[i].buffer);
    clprune_saved_destroy(model->pooled);
    clprune_saved_destroy(model->mean_x);
    clprune_saved_destroy(model->last_x);
    clprune_linear_destroy(model->head);
    clprune_linear_destroy(model->fc2);
    clprune_linear_destroy(model->fc1);
    clprune_linear_destroy(model->token);
    for (size_t i = 0; model->blocks != NULL && i < model->arch.depth; ++i) {
        for (int k = 0; k < KEEP_TENSORS; ++k)
            clprune_saved_destroy(model->blocks[i].kept[k]);
    }
    model_params_release(context, model->params, model->names);
    free(model->blocks);
    free(model->policies);
    memset(model, 0, sizeof *model);
}
