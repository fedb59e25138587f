/* Making and destroying a model; the passes are in model_forward.c and model_backward.c. */
#include "model.h"

#include <stdio.h> /* snprintf */
#include <stdlib.h>
#include <string.h> /* memcpy */

#include "trainer/base/try.h"

static size_t max_size(size_t a, size_t b)
{
    return a > b ? a : b;
}

static bool is_dense(const keep_rule *rule)
{
    return keep_has_form(rule, CLPRUNE_FORM_DENSE);
}

/* Whether a tensor is kept in a form that must be restored before use. */
static bool is_restored(const keep_rule *rule)
{
    return !rule->recomputed && !is_dense(rule);
}

/* How the last block's output is kept. */
static const keep_rule *last_rule(const resmlp *model)
{
    return &model->rules[model->arch.depth * KEEP_TENSORS];
}

/* Whether only its mean over the tokens is kept. */
static bool keeps_mean(const resmlp *model)
{
    return keep_has_form(last_rule(model), CLPRUNE_FORM_MEAN);
}

_Static_assert(sizeof(resmlp_block_weights) == RESMLP_BLOCK_TENSORS * sizeof(clprune_mat) &&
                   sizeof(resmlp_outer_weights) ==
                       (RESMLP_STEM_TENSORS + RESMLP_TAIL_TENSORS) * sizeof(clprune_mat),
    "weights are arrays of matrices");

/* Values and gradients of `count` parameters. */
static void take_weights(
    const clprune_param *params, size_t count, clprune_mat *values, clprune_mat *grads)
{
    for (size_t i = 0; i < count; ++i) {
        values[i] = params[i].value;
        grads[i] = params[i].grad;
    }
}

static clprune_status create_block(resmlp *model, size_t index)
{
    resmlp_block *block = &model->blocks[index];
    const clprune_param *params =
        &model->params[RESMLP_STEM_TENSORS + RESMLP_BLOCK_TENSORS * index];
    block->rules = &model->rules[KEEP_TENSORS * index];
    take_weights(params, RESMLP_BLOCK_TENSORS, (clprune_mat *)&block->w, (clprune_mat *)&block->dw);
    for (keep_tensor tensor = 0; tensor < KEEP_TENSORS; ++tensor) {
        const keep_rule *rule = &block->rules[tensor];
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
        matters = matters || keep_recomputes_mlp(&model->rules[KEEP_TENSORS * i]);
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
static void add_block(const resmlp *model, const keep_rule *rules, work_rows *rows)
{
    const size_t all = model->batch * model->tokens, chunk = model->chunk * model->tokens;
    const bool tokens_again = keep_recomputes_tokens(rules), codes = keep_codes(rules);
    const bool mlp_again = keep_recomputes_mlp(rules);
    const size_t tokens = tokens_again ? chunk : all, mlp = mlp_again ? chunk : all;
    for (keep_tensor tensor = 0; tensor < KEEP_TENSORS; ++tensor)
        if (tensor != KEEP_X && tensor != KEEP_X2)
            grow(&rows->made[tensor], !is_dense(&rules[tensor]) && !(tensor == KEEP_GELU && codes),
                in_token_half(tensor) ? tokens : mlp);
    grow(&rows->made[KEEP_X], is_restored(&rules[KEEP_X]), tokens);
    grow(&rows->made[KEEP_X2], rules[KEEP_X2].recomputed, chunk);
    grow(&rows->made[KEEP_X2], is_restored(&rules[KEEP_X2]) && !codes, mlp);
    grow(&rows->stream, is_restored(&rules[KEEP_X]) || is_restored(&rules[KEEP_X2]), all);
    grow(&rows->kept_tokens, !tokens_again, all);
    grow(&rows->kept_mlp, !mlp_again, all);
    grow(&rows->dfc1, true, mlp);
    grow(&rows->mixing, tokens_again, tokens);
    rows->weights = rows->weights || mlp_again;
}

static work_rows rows_of(const resmlp *model)
{
    const size_t all = model->batch * model->tokens;
    const bool dense = is_dense(last_rule(model));
    work_rows rows = {0};
    for (size_t i = 0; i < model->arch.depth; ++i)
        add_block(model, &model->rules[KEEP_TENSORS * i], &rows);
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

/* Fills in a model that is zero but for its sizes and rules. */
static clprune_status create_all(resmlp *model)
{
    const model_tensors all = resmlp_arch_all(&model->arch);
    model->tensors = all.count;
    TRY(model_params_create(model->context, &all, &model->params, &model->names));
    clprune_mat *w = (clprune_mat *)&model->w, *dw = (clprune_mat *)&model->dw;
    take_weights(model->params, RESMLP_STEM_TENSORS, w, dw);
    take_weights(&model->params[model->tensors - RESMLP_TAIL_TENSORS], RESMLP_TAIL_TENSORS,
        w + RESMLP_STEM_TENSORS, dw + RESMLP_STEM_TENSORS);
    for (size_t i = 0; i < model->arch.depth; ++i)
        TRY(create_block(model, i));
    TRY(create_layers(model));
    TRY(create_tail(model));
    return create_workspace(model);
}

clprune_status resmlp_create(clprune_context *context, const resmlp_arch *arch,
    const keep_rule *rules, size_t batch, resmlp *model)
{
    *model = (resmlp){0};
    if (resmlp_arch_check(arch) != NULL || batch == 0)
        return CLPRUNE_INVALID_ARGUMENT;
    for (size_t i = 0; i <= arch->depth; ++i)
        if (!keep_check(&resmlp_keep, arch->depth, i, rules, NULL, 0))
            return CLPRUNE_INVALID_ARGUMENT;
    const size_t count = keep_rules_count(&resmlp_keep, arch->depth);
    model->context = context;
    model->arch = *arch;
    model->batch = batch;
    model->tokens = resmlp_arch_tokens(arch);
    model->chunk = chunk_of(model);
    model->blocks = calloc(arch->depth, sizeof *model->blocks);
    model->rules = calloc(count, sizeof *model->rules);
    const bool room = model->blocks != NULL && model->rules != NULL;
    if (room)
        memcpy(model->rules, rules, count * sizeof *rules);
    const clprune_status status = room ? create_all(model) : CLPRUNE_OUT_OF_HOST_MEMORY;
    if (status != CLPRUNE_SUCCESS)
        resmlp_destroy(model);
    return status;
}

void resmlp_destroy(resmlp *model)
{
    clprune_context *context = model->context;
    const clprune_mat *work = (const clprune_mat *)&model->work; /* it has nothing else */
    if (context == NULL)
        return;
    for (size_t i = 0; i < sizeof model->work / sizeof *work; ++i)
        clprune_buffer_release(context, work[i].buffer);
    clprune_buffer_release(context, model->logits.buffer);
    clprune_buffer_release(context, model->log_p.buffer);
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
    free(model->rules);
    *model = (resmlp){0};
}
