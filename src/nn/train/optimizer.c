#include "clprune/optimizer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/checked.h"
#include "nn/train/optimizer_private.h"
#include "runtime/context/check.h"
#include "runtime/context/context_private.h"
#include "runtime/launch/rowwise.h"
#include "runtime/memory/ledger.h"
#include "runtime/memory/matrix_private.h"
#include "runtime/memory/transfer.h"

/* Elements of a work-group. */
#define CPU_CHUNK 16384
#define GPU_CHUNK 2048
/* On GPUs a group of lamb_ratio has an eighth of the other kernels' work-items. */
#define GPU_LANES 8

/* Elements that share a scale if the state is codes, and codes of a word. */
#define BLOCK 256
#define WORD  4

/* A row of the table; optimizer.clh says what it means. */
typedef struct table_row {
    cl_ulong first_group, partial, count, cols, value, value_gap, grad, grad_gap, state, is_coded;
    cl_float lr, decay;
} table_row;

static size_t slots_of(const clprune__optimizer_row *row, const clprune_optimizer_desc *desc)
{
    const bool none = row->usual.desc.momentum != 0 && desc->momentum == 0;
    return none ? 0 : strlen(row->usual.slots);
}

/* Whether a kind has a setting, and this is no legal value of it. */
static bool is_bad_beta(float usual, float value)
{
    return usual != 0 && !(value >= 0 && value < 1);
}

static bool is_bad_size(float usual, float value)
{
    return usual != 0 && !(isfinite(value) && value >= 0);
}

static clprune_status check_desc(clprune_context *context, const clprune_optimizer_desc *desc)
{
    REQUIRE(desc != NULL, CLPRUNE_INVALID_ARGUMENT, "desc is NULL");
    TRY(clprune__check_reserved(context, "desc", desc->reserved, sizeof desc->reserved));
    REQUIRE(isfinite(desc->weight_decay) && desc->weight_decay >= 0, CLPRUNE_INVALID_ARGUMENT,
        "weight_decay is %g, expected a finite value >= 0", (double)desc->weight_decay);
    REQUIRE(desc->state_bits == 0 || desc->state_bits == 8 || desc->state_bits == 32,
        CLPRUNE_INVALID_ARGUMENT, "state_bits is %u, expected 0, 8 or 32", desc->state_bits);
    const clprune__optimizer_row *row = clprune__optimizer_row_of(desc->kind);
    REQUIRE(row != NULL, CLPRUNE_INVALID_ARGUMENT, "kind is %d, expected a clprune_optimizer_kind",
        (int)desc->kind);
    REQUIRE(desc->state_bits != 8 || row->takes_codes, CLPRUNE_INVALID_ARGUMENT,
        "state_bits is 8, expected 0 or 32 for %s", row->usual.name);
    const clprune_optimizer_desc *usual = &row->usual.desc;
    REQUIRE(!is_bad_size(usual->momentum, desc->momentum), CLPRUNE_INVALID_ARGUMENT,
        "momentum is %g, expected a finite value >= 0", (double)desc->momentum);
    REQUIRE(!is_bad_beta(usual->beta1, desc->beta1), CLPRUNE_INVALID_ARGUMENT,
        "beta1 is %g, expected a value in [0, 1)", (double)desc->beta1);
    REQUIRE(!is_bad_beta(usual->beta2, desc->beta2), CLPRUNE_INVALID_ARGUMENT,
        "beta2 is %g, expected a value in [0, 1)", (double)desc->beta2);
    REQUIRE(!is_bad_size(usual->eps, desc->eps), CLPRUNE_INVALID_ARGUMENT,
        "eps is %g, expected a finite value >= 0", (double)desc->eps);
    return CLPRUNE_SUCCESS;
}

/* The values that zeros stand for. */
static clprune_optimizer_desc with_defaults(
    const clprune__optimizer_row *row, clprune_optimizer_desc desc)
{
    if (desc.beta1 == 0 && desc.beta2 == 0) {
        desc.beta1 = row->usual.desc.beta1;
        desc.beta2 = row->usual.desc.beta2;
    }
    if (desc.eps == 0)
        desc.eps = row->usual.desc.eps;
    return desc;
}

/* What a parameter is called in messages. */
typedef struct param_names {
    char value[48], grad[48];
} param_names;

static param_names names_of(size_t i)
{
    param_names names;
    (void)snprintf(names.value, sizeof names.value, "the value of parameter %zu", i);
    (void)snprintf(names.grad, sizeof names.grad, "the gradient of parameter %zu", i);
    return names;
}

static clprune_status check_param(clprune_context *context, size_t i, const clprune_param *param)
{
    const clprune_mat value = param->value;
    const param_names names = names_of(i);
    TRY(clprune__check_reserved(context, "param", param->reserved, sizeof param->reserved));
    TRY(clprune__check_mat(context, names.value, value, value.rows, value.cols));
    return clprune__check_mat(context, names.grad, param->grad, value.rows, value.cols);
}

/* Fails if parameter i overlaps an earlier one, whose value would be stepped twice, or gradient
 * clipped twice. */
static clprune_status check_param_apart(
    clprune_context *context, size_t i, const clprune_param *params)
{
    const clprune_mat value = params[i].value, grad = params[i].grad;
    const char *other_value = "the value of an earlier one";
    const char *other_grad = "the gradient of an earlier one";
    const param_names own = names_of(i);
    TRY(clprune__check_apart(context, own.value, value, own.grad, grad));
    for (size_t k = 0; k < i; k++) {
        TRY(clprune__check_apart(context, own.value, value, other_value, params[k].value));
        TRY(clprune__check_apart(context, own.value, value, other_grad, params[k].grad));
        TRY(clprune__check_apart(context, own.grad, grad, other_value, params[k].value));
        TRY(clprune__check_apart(context, own.grad, grad, other_grad, params[k].grad));
    }
    return CLPRUNE_SUCCESS;
}

static clprune__flat_plan plan_flat(
    const clprune_context *context, const clprune_optimizer_desc *desc, bool momentum, bool coded)
{
    const bool vector = context->kernels == CLPRUNE_KERNELS_VECTOR;
    const size_t width = clprune__vector_width(context);
    clprune__flat_plan plan = {.chunk = vector ? CPU_CHUNK : GPU_CHUNK};
    plan.local = vector ? 1 : 128; /* a power of two: the work-items of a group add up in a tree */
    while (plan.local > context->facts.max_work_group || (coded && plan.local * width > BLOCK))
        plan.local /= 2;
    plan.slices = clprune__max(plan.local / GPU_LANES, 1);
    clprune__define(&plan.defines, "CHUNK", plan.chunk);
    clprune__define(&plan.defines, "LOCAL", plan.local);
    clprune__define(&plan.defines, "MOMENTUM", momentum);
    clprune__define(&plan.defines, "SLICES", plan.slices);
    clprune__define(&plan.defines, "TEAM", plan.local);
    clprune__define(&plan.defines, "VW", width);
    if (coded)
        clprune__define(&plan.defines, "CODES", 1);
    if (momentum && desc->kind == CLPRUNE_OPTIMIZER_SGD && desc->nesterov)
        clprune__define(&plan.defines, "NESTEROV", 1);
    return plan;
}

/* Puts each tensor into the bundle of its buffers. */
static void sort_into_bundles(clprune_optimizer *optimizer)
{
    for (size_t i = 0; i < optimizer->count; i++) {
        clprune__tensor *t = &optimizer->tensors[i];
        const cl_mem value = t->param.value.buffer, grad = t->param.grad.buffer;
        size_t b = 0;
        while (b < optimizer->bundle_count &&
               (optimizer->bundles[b].value != value || optimizer->bundles[b].grad != grad))
            b++;
        if (b == optimizer->bundle_count) {
            optimizer->bundles[b] = (clprune__bundle){.value = value, .grad = grad};
            optimizer->bundle_count++;
        }
        t->bundle = b;
        optimizer->bundles[b].tensors++;
    }
}

/* "name.m" or "name.v" of parameter i; malloced. */
static char *state_name(const clprune_optimizer *optimizer, size_t i, size_t slot)
{
    char given[32];
    const char *base = optimizer->tensors[i].param.name;
    if (base == NULL) {
        (void)snprintf(given, sizeof given, "parameter %zu", i);
        base = given;
    }
    const size_t size = strlen(base) + sizeof ".m";
    char *name = malloc(size);
    if (name != NULL)
        (void)snprintf(name, size, "%s.%c", base, optimizer->row->usual.slots[slot]);
    return name;
}

static size_t code_words(const clprune__tensor *t)
{
    return clprune__ceil_div(t->count, WORD);
}

static size_t scales_of(const clprune__tensor *t)
{
    return clprune__ceil_div(t->count, BLOCK);
}

/* Creates one slot of the state of a bundle, zeroed. */
static clprune_status create_state(clprune_optimizer *optimizer, size_t b, size_t slot)
{
    clprune_status status = CLPRUNE_SUCCESS;
    clprune_context *context = optimizer->context;
    clprune__bundle *made = &optimizer->bundles[b];
    clprune_mat *mats = calloc(made->tensors, sizeof *mats);
    char **names = calloc(made->tensors, sizeof *names);
    size_t count = 0, bytes = 0;
    REQUIRE_DONE(mats != NULL && names != NULL, CLPRUNE_OUT_OF_HOST_MEMORY,
        "no memory for %zu states", made->tensors);
    for (size_t i = 0; i < optimizer->count; i++) {
        const clprune__tensor *t = &optimizer->tensors[i];
        if (t->bundle != b)
            continue;
        names[count] = state_name(optimizer, i, slot);
        REQUIRE_DONE(
            names[count] != NULL, CLPRUNE_OUT_OF_HOST_MEMORY, "no memory for the name of a state");
        mats[count].rows = t->coded ? 1 : t->param.value.rows;
        mats[count].cols = t->coded ? code_words(t) + scales_of(t) : t->param.value.cols;
        bytes += mats[count].rows * mats[count].cols * sizeof(float);
        count++;
    }
    TRY_DONE(clprune__mats_create(
        context, CLPRUNE_MEMORY_OPTIMIZER, count, (const char *const *)names, mats));
    made->state[slot] = mats[0].buffer;
    const float zero = 0;
    TRY_DONE(
        clprune__transfer_fill(context, &zero, sizeof zero, made->state[slot], 0, bytes, NULL));
    count = 0;
    for (size_t i = 0; i < optimizer->count; i++)
        if (optimizer->tensors[i].bundle == b)
            optimizer->tensors[i].state[slot] = mats[count++];
done:
    for (size_t i = 0; names != NULL && i < made->tensors; i++)
        free(names[i]);
    free((void *)names);
    free(mats);
    return status;
}

static bool is_dense(clprune_mat mat)
{
    return mat.ld == mat.cols || mat.rows <= 1;
}

static table_row row_of(const clprune_optimizer *optimizer, const clprune__tensor *t)
{
    const clprune_mat value = t->param.value, grad = t->param.grad;
    const bool dense = is_dense(value) && is_dense(grad);
    return (table_row){.first_group = optimizer->bundles[t->bundle].groups,
        .partial = optimizer->groups,
        .count = t->count,
        .cols = dense ? t->count : value.cols,
        .value = clprune__mat_in_window(value).offset,
        .value_gap = dense ? 0 : value.ld - value.cols,
        .grad = clprune__mat_in_window(grad).offset,
        .grad_gap = dense ? 0 : grad.ld - grad.cols,
        .state = clprune__mat_in_window(t->state[0]).offset,
        .is_coded = t->coded,
        .lr = 1,
        .decay = t->param.decay ? 1 : 0};
}

/* Writes a row for each tensor that has elements, and counts rows and groups. Partial sums are in
 * the order of the parameters, across bundles. */
static clprune_status create_table(clprune_optimizer *optimizer)
{
    clprune_status status = CLPRUNE_SUCCESS;
    clprune_context *context = optimizer->context;
    table_row *table = NULL;
    for (size_t i = 0; i < optimizer->count; i++)
        optimizer->bundles[optimizer->tensors[i].bundle].rows += optimizer->tensors[i].count > 0;
    for (size_t b = 0; b < optimizer->bundle_count; b++) {
        optimizer->bundles[b].first_row = optimizer->rows;
        optimizer->rows += optimizer->bundles[b].rows;
        optimizer->bundles[b].rows = 0; /* counted again below */
    }
    if (optimizer->rows == 0)
        goto done;
    table = calloc(optimizer->rows, sizeof *table);
    REQUIRE_DONE(table != NULL, CLPRUNE_OUT_OF_HOST_MEMORY, "no memory for a table of %zu rows",
        optimizer->rows);
    for (size_t i = 0; i < optimizer->count; i++) {
        const clprune__tensor *t = &optimizer->tensors[i];
        clprune__bundle *b = &optimizer->bundles[t->bundle];
        if (t->count == 0)
            continue;
        const size_t groups = clprune__ceil_div(t->count, optimizer->plan.chunk);
        optimizer->tensors[i].row = b->first_row + b->rows;
        table[b->first_row + b->rows++] = row_of(optimizer, t);
        b->groups += groups;
        b->elements += t->count;
        optimizer->groups += groups;
    }
    TRY_DONE(clprune__buffer_create(context, CLPRUNE_MEMORY_OPTIMIZER, "optimizer.table",
        optimizer->rows * sizeof *table, &optimizer->table));
    TRY_DONE(clprune__transfer_write(
        context, table, optimizer->table, 0, optimizer->rows * sizeof *table));
done:
    free(table);
    return status;
}

clprune_status clprune_optimizer_create(clprune_context *context,
    const clprune_optimizer_desc *desc, size_t count, const clprune_param *params,
    clprune_optimizer **optimizer)
{
    ENTER_CREATE(context, optimizer);
    clprune_status status = CLPRUNE_SUCCESS;
    clprune_optimizer *made = NULL;
    REQUIRE_DONE(optimizer != NULL, CLPRUNE_INVALID_ARGUMENT, "optimizer is NULL");
    REQUIRE_DONE(context != NULL, CLPRUNE_INVALID_ARGUMENT, "context is NULL");
    TRY_DONE(check_desc(context, desc));
    REQUIRE_DONE(count == 0 || params != NULL, CLPRUNE_INVALID_ARGUMENT, "params is NULL");
    for (size_t i = 0; i < count; i++)
        TRY_DONE(check_param(context, i, &params[i]));
    for (size_t i = 0; i < count; i++)
        TRY_DONE(check_param_apart(context, i, params));

    made = calloc(1, sizeof *made);
    REQUIRE_DONE(made != NULL, CLPRUNE_OUT_OF_HOST_MEMORY, "no memory for the optimizer");
    made->context = context;
    made->row = clprune__optimizer_row_of(desc->kind);
    made->desc = with_defaults(made->row, *desc);
    made->slots = slots_of(made->row, desc);
    const bool coded = desc->state_bits == 8 && made->slots > 0;
    made->plan = plan_flat(context, desc, made->slots > 0, coded);
    if (count > 0) {
        made->tensors = calloc(count, sizeof *made->tensors);
        made->bundles = calloc(count, sizeof *made->bundles);
        REQUIRE_DONE(made->tensors != NULL && made->bundles != NULL, CLPRUNE_OUT_OF_HOST_MEMORY,
            "no memory for %zu parameters", count);
    }
    made->count = count;
    for (size_t i = 0; i < count; i++) {
        made->tensors[i].param = params[i];
        made->tensors[i].count = params[i].value.rows * params[i].value.cols;
        made->tensors[i].coded = coded && made->tensors[i].count >= CLPRUNE_OPTIMIZER_CODED_LEAST;
    }
    sort_into_bundles(made);
    for (size_t b = 0; b < made->bundle_count; b++)
        for (size_t slot = 0; slot < made->slots; slot++)
            TRY_DONE(create_state(made, b, slot));
    for (size_t i = 0; i < count; i++)
        made->tensors[i].param.name = NULL; /* the caller's string may go */
    TRY_DONE(create_table(made));
    *optimizer = made;
    made = NULL;
done:
    clprune_optimizer_destroy(made);
    return status;
}

void clprune_optimizer_destroy(clprune_optimizer *optimizer)
{
    ENTER_QUIETLY(optimizer != NULL ? optimizer->context : NULL);
    if (optimizer == NULL)
        return;
    for (size_t b = 0; b < optimizer->bundle_count; b++)
        for (size_t slot = 0; slot < optimizer->slots; slot++)
            clprune__buffer_release(optimizer->context, optimizer->bundles[b].state[slot]);
    clprune__buffer_release(optimizer->context, optimizer->table);
    free(optimizer->bundles);
    free(optimizer->tensors);
    free(optimizer);
}

clprune_status clprune_optimizer_set_rates(
    clprune_optimizer *optimizer, size_t param, float lr, float weight_decay)
{
    ENTER(optimizer != NULL ? optimizer->context : NULL);
    clprune_context *context = optimizer != NULL ? optimizer->context : NULL;
    REQUIRE(optimizer != NULL, CLPRUNE_INVALID_ARGUMENT, "optimizer is NULL");
    REQUIRE(param < optimizer->count, CLPRUNE_INVALID_ARGUMENT, "param is %zu of %zu", param,
        optimizer->count);
    REQUIRE(isfinite(lr) && lr >= 0, CLPRUNE_INVALID_ARGUMENT,
        "lr is %g, expected a finite value >= 0", (double)lr);
    REQUIRE(isfinite(weight_decay) && weight_decay >= 0, CLPRUNE_INVALID_ARGUMENT,
        "weight_decay is %g, expected a finite value >= 0", (double)weight_decay);
    const clprune__tensor *t = &optimizer->tensors[param];
    const cl_float rates[] = {lr, weight_decay};
    if (t->count == 0)
        return CLPRUNE_SUCCESS;
    return clprune__transfer_write(context, rates, optimizer->table,
        t->row * sizeof(table_row) + offsetof(table_row, lr), sizeof rates);
}

uint64_t clprune_optimizer_steps(const clprune_optimizer *optimizer)
{
    ENTER_QUIETLY(optimizer != NULL ? optimizer->context : NULL);
    return optimizer != NULL ? optimizer->steps : 0;
}

void clprune_optimizer_set_steps(clprune_optimizer *optimizer, uint64_t steps)
{
    ENTER_QUIETLY(optimizer != NULL ? optimizer->context : NULL);
    if (optimizer != NULL)
        optimizer->steps = steps;
}

size_t clprune_optimizer_slots(const clprune_optimizer *optimizer)
{
    ENTER_QUIETLY(optimizer != NULL ? optimizer->context : NULL);
    return optimizer != NULL ? optimizer->slots : 0;
}

/* The tensor, if it has this slot with state in this form; else NULL. */
static const clprune__tensor *tensor_with(
    const clprune_optimizer *optimizer, size_t param, size_t slot, bool coded)
{
    const bool exists = optimizer != NULL && param < optimizer->count && slot < optimizer->slots;
    return exists && optimizer->tensors[param].coded == coded ? &optimizer->tensors[param] : NULL;
}

clprune_mat clprune_optimizer_state(const clprune_optimizer *optimizer, size_t param, size_t slot)
{
    ENTER_QUIETLY(optimizer != NULL ? optimizer->context : NULL);
    const clprune__tensor *t = tensor_with(optimizer, param, slot, false);
    return t != NULL ? t->state[slot] : CLPRUNE_NO_MAT;
}

void clprune_optimizer_codes(const clprune_optimizer *optimizer, size_t param, size_t slot,
    clprune_mat *codes, clprune_mat *scales)
{
    ENTER_QUIETLY(optimizer != NULL ? optimizer->context : NULL);
    const clprune__tensor *t = tensor_with(optimizer, param, slot, true);
    clprune_mat words = CLPRUNE_NO_MAT, rest = CLPRUNE_NO_MAT;
    if (t != NULL) {
        words = rest = t->state[slot];
        words.cols = words.ld = code_words(t);
        rest.cols = rest.ld = scales_of(t);
        rest.offset += words.cols;
    }
    if (codes != NULL)
        *codes = words;
    if (scales != NULL)
        *scales = rest;
}
