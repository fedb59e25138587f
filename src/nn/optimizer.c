#include "clprune/optimizer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/checked.h"
#include "nn/column_sum.h"
#include "nn/team_plan.h"
#include "runtime/check.h"
#include "runtime/context_private.h"
#include "runtime/launch.h"
#include "runtime/scratch.h"

#define MAX_SLOTS 2

/* Elements of a work-group. */
#define CPU_CHUNK 16384
#define GPU_CHUNK 2048

/* One parameter as the kernels see it: `count` elements, one row. */
typedef struct tensor {
    clprune_param param;
    size_t count;
    clprune_mat state[MAX_SLOTS]; /* of the parameter's shape; SGD: v, the others: m, v */
} tensor;

struct clprune_optimizer {
    clprune_context *context;
    clprune_optimizer_desc desc;
    tensor *tensors;
    size_t count, slots;
    uint64_t steps;
};

static size_t slots_of(const clprune_optimizer_desc *desc)
{
    if (desc->kind == CLPRUNE_OPTIMIZER_SGD)
        return desc->momentum != 0 ? 1 : 0;
    return 2;
}

static clprune_status check_desc(clprune_context *context, const clprune_optimizer_desc *desc)
{
    clprune_status status = CLPRUNE_SUCCESS;
    REQUIRE(desc != NULL, CLPRUNE_INVALID_ARGUMENT, "desc is NULL");
    REQUIRE(isfinite(desc->weight_decay) && desc->weight_decay >= 0, CLPRUNE_INVALID_ARGUMENT,
        "weight_decay is %g", (double)desc->weight_decay);
    switch (desc->kind) {
    case CLPRUNE_OPTIMIZER_SGD:
        REQUIRE(isfinite(desc->momentum) && desc->momentum >= 0, CLPRUNE_INVALID_ARGUMENT,
            "momentum is %g", (double)desc->momentum);
        break;
    case CLPRUNE_OPTIMIZER_ADAMW:
    case CLPRUNE_OPTIMIZER_LAMB:
        REQUIRE(desc->beta1 >= 0 && desc->beta1 < 1, CLPRUNE_INVALID_ARGUMENT, "beta1 is %g",
            (double)desc->beta1);
        REQUIRE(desc->beta2 >= 0 && desc->beta2 < 1, CLPRUNE_INVALID_ARGUMENT, "beta2 is %g",
            (double)desc->beta2);
        REQUIRE(isfinite(desc->eps) && desc->eps >= 0, CLPRUNE_INVALID_ARGUMENT, "eps is %g",
            (double)desc->eps);
        break;
    default:
        REQUIRE(false, CLPRUNE_INVALID_ARGUMENT, "kind %d does not exist", (int)desc->kind);
    }
done:
    return status;
}

static bool is_dense(clprune_mat mat)
{
    return mat.ld == mat.cols || mat.rows <= 1 || mat.cols == 0;
}

static clprune_status check_param(clprune_context *context, size_t i, const clprune_param *param)
{
    clprune_status status = CLPRUNE_SUCCESS;
    const clprune_mat value = param->value;
    char value_name[48], grad_name[48];
    (void)snprintf(value_name, sizeof value_name, "the value of parameter %zu", i);
    (void)snprintf(grad_name, sizeof grad_name, "the gradient of parameter %zu", i);
    TRY(clprune__check_mat(context, value_name, value, value.rows, value.cols));
    TRY(clprune__check_mat(context, grad_name, param->grad, value.rows, value.cols));
    REQUIRE(is_dense(value) && is_dense(param->grad), CLPRUNE_INVALID_SIZE,
        "parameter %zu is not dense", i);
    TRY(clprune__check_apart(context, value_name, value, grad_name, param->grad));
done:
    return status;
}

/* Creates the state of one parameter, zeroed, as "name.m" and "name.v". */
static clprune_status create_state(clprune_optimizer *optimizer, size_t i)
{
    clprune_status status = CLPRUNE_SUCCESS;
    clprune_context *context = optimizer->context;
    tensor *t = &optimizer->tensors[i];
    char given[32];
    const char *base = t->param.name;
    if (base == NULL) {
        (void)snprintf(given, sizeof given, "parameter %zu", i);
        base = given;
    }
    const size_t size = strlen(base) + sizeof ".m";
    char *name = malloc(size);
    REQUIRE(name != NULL, CLPRUNE_OUT_OF_HOST_MEMORY, "the name of a state");
    for (size_t slot = 0; slot < optimizer->slots; slot++) {
        (void)snprintf(name, size, "%s.%c", base, slot + 1 == optimizer->slots ? 'v' : 'm');
        TRY(clprune_mat_create(context, CLPRUNE_MEMORY_OPTIMIZER, name, t->param.value.rows,
            t->param.value.cols, &t->state[slot]));
        TRY(clprune_mat_fill(context, 0, t->state[slot], NULL));
    }
done:
    free(name);
    t->param.name = NULL; /* the caller's string may go */
    return status;
}

clprune_status clprune_optimizer_create(clprune_context *context,
    const clprune_optimizer_desc *desc, size_t count, const clprune_param *params,
    clprune_optimizer **optimizer)
{
    clprune_status status = CLPRUNE_SUCCESS;
    clprune_optimizer *made = NULL;
    REQUIRE(optimizer != NULL, CLPRUNE_INVALID_ARGUMENT, "optimizer is NULL");
    *optimizer = NULL;
    REQUIRE(context != NULL, CLPRUNE_INVALID_ARGUMENT, "context is NULL");
    TRY(check_desc(context, desc));
    REQUIRE(count == 0 || params != NULL, CLPRUNE_INVALID_ARGUMENT, "params is NULL");
    for (size_t i = 0; i < count; i++)
        TRY(check_param(context, i, &params[i]));

    made = calloc(1, sizeof *made);
    REQUIRE(made != NULL, CLPRUNE_OUT_OF_HOST_MEMORY, "an optimizer");
    made->context = context;
    made->desc = *desc;
    made->slots = slots_of(desc);
    made->tensors = count > 0 ? calloc(count, sizeof *made->tensors) : NULL;
    REQUIRE(
        count == 0 || made->tensors != NULL, CLPRUNE_OUT_OF_HOST_MEMORY, "%zu parameters", count);
    made->count = count;
    for (size_t i = 0; i < count; i++) {
        made->tensors[i].param = params[i];
        made->tensors[i].count = params[i].value.rows * params[i].value.cols;
        TRY(create_state(made, i));
    }
    *optimizer = made;
    made = NULL;
done:
    clprune_optimizer_destroy(made);
    return status;
}

void clprune_optimizer_destroy(clprune_optimizer *optimizer)
{
    if (optimizer == NULL)
        return;
    for (size_t i = 0; i < optimizer->count; i++)
        for (size_t slot = 0; slot < optimizer->slots; slot++)
            clprune_buffer_release(optimizer->context, optimizer->tensors[i].state[slot].buffer);
    free(optimizer->tensors);
    free(optimizer);
}

/* How a flat array of `count` elements is divided. */
typedef struct flat_plan {
    size_t global, local, groups;
    char defines[96];
} flat_plan;

static flat_plan plan_flat(const clprune_context *context, size_t count, bool momentum)
{
    const bool vector = context->kernels == CLPRUNE_KERNELS_VECTOR;
    const size_t chunk = vector ? CPU_CHUNK : GPU_CHUNK;
    flat_plan plan;
    plan.local = vector ? 1 : 128; /* a power of two: all of a group add up together */
    while (plan.local > context->max_work_group)
        plan.local /= 2;
    plan.groups = clprune__ceil_div(count, chunk);
    plan.global = plan.groups * plan.local;
    (void)snprintf(plan.defines, sizeof plan.defines,
        "-DCHUNK=%zu -DLOCAL=%zu -DMOMENTUM=%d -DTEAM=%zu -DVW=%zu", chunk, plan.local, momentum,
        plan.local, clprune__vector_width(context));
    return plan;
}

static clprune_status step_sgd(const clprune_optimizer *optimizer, const tensor *t, float lr)
{
    clprune_status status = CLPRUNE_SUCCESS;
    const clprune_optimizer_desc *desc = &optimizer->desc;
    const bool momentum = optimizer->slots > 0;
    const flat_plan plan = plan_flat(optimizer->context, t->count, momentum);
    clprune__launch launch;
    TRY(clprune__launch_begin(optimizer->context, CLPRUNE__SGD, plan.defines, &launch));
    clprune__arg_ulong(&launch, t->count);
    clprune__arg_float(&launch, lr);
    clprune__arg_float(&launch, desc->momentum);
    clprune__arg_float(&launch, t->param.decay ? desc->weight_decay : 0);
    clprune__arg_uint(&launch, optimizer->steps == 0);
    clprune__arg_mat(&launch, t->param.grad);
    clprune__arg_mat(&launch, t->param.value);
    clprune__arg_mat(&launch, t->state[0]);
    TRY(clprune__launch_enqueue(&launch, 1, &plan.global, &plan.local, NULL));
done:
    return status;
}

/* The numbers that the moments of a step depend on, in the precision of the kernels. */
typedef struct moments {
    float b1, b1_rest, b2, b2_rest; /* rest: 1 - b */
    float m_scale, v_scale;         /* 1 / (1 - b^t) */
} moments;

static moments moments_of(const clprune_optimizer *optimizer)
{
    const double t = (double)optimizer->steps + 1;
    const double b1 = (double)optimizer->desc.beta1, b2 = (double)optimizer->desc.beta2;
    return (moments){.b1 = optimizer->desc.beta1,
        .b1_rest = (float)(1 - b1),
        .b2 = optimizer->desc.beta2,
        .b2_rest = (float)(1 - b2),
        .m_scale = (float)(1 / (1 - pow(b1, t))),
        .v_scale = (float)(1 / (1 - pow(b2, t)))};
}

static void arg_moments(clprune__launch *launch, const moments *m)
{
    clprune__arg_float(launch, m->b1);
    clprune__arg_float(launch, m->b1_rest);
    clprune__arg_float(launch, m->b2);
    clprune__arg_float(launch, m->b2_rest);
    clprune__arg_float(launch, m->m_scale);
    clprune__arg_float(launch, m->v_scale);
}

static clprune_status step_adamw(
    const clprune_optimizer *optimizer, const moments *m, const tensor *t, float lr)
{
    clprune_status status = CLPRUNE_SUCCESS;
    const clprune_optimizer_desc *desc = &optimizer->desc;
    const double decay = t->param.decay ? (double)desc->weight_decay : 0;
    const flat_plan plan = plan_flat(optimizer->context, t->count, false);
    clprune__launch launch;
    TRY(clprune__launch_begin(optimizer->context, CLPRUNE__ADAMW, plan.defines, &launch));
    clprune__arg_ulong(&launch, t->count);
    clprune__arg_float(&launch, lr);
    clprune__arg_float(&launch, (float)((double)lr * decay));
    arg_moments(&launch, m);
    clprune__arg_float(&launch, desc->eps);
    clprune__arg_mat(&launch, t->param.grad);
    clprune__arg_mat(&launch, t->param.value);
    clprune__arg_mat(&launch, t->state[0]);
    clprune__arg_mat(&launch, t->state[1]);
    TRY(clprune__launch_enqueue(&launch, 1, &plan.global, &plan.local, NULL));
done:
    return status;
}

/* Three commands: the moments with square sums per group, their sums, the update. */
static clprune_status step_lamb(
    const clprune_optimizer *optimizer, const moments *m, const tensor *t, float lr)
{
    clprune_status status = CLPRUNE_SUCCESS;
    clprune_context *context = optimizer->context;
    const clprune_optimizer_desc *desc = &optimizer->desc;
    const float decay = t->param.decay ? desc->weight_decay : 0;
    const flat_plan plan = plan_flat(context, t->count, false);
    const clprune__scratch_mark mark = clprune__scratch_begin(context);
    clprune_mat partial, sums;
    clprune__launch launch;
    TRY(clprune__scratch_mat(context, plan.groups, 4, &partial));
    TRY(clprune__scratch_mat(context, 1, 4, &sums));
    TRY(clprune__launch_begin(context, CLPRUNE__LAMB_MOMENTS, plan.defines, &launch));
    clprune__arg_ulong(&launch, t->count);
    clprune__arg_float(&launch, decay);
    arg_moments(&launch, m);
    clprune__arg_float(&launch, desc->eps);
    clprune__arg_mat(&launch, t->param.grad);
    clprune__arg_mat(&launch, t->param.value);
    clprune__arg_mat(&launch, t->state[0]);
    clprune__arg_mat(&launch, t->state[1]);
    clprune__arg_mat(&launch, partial);
    TRY(clprune__launch_enqueue(&launch, 1, &plan.global, &plan.local, NULL));
    TRY(clprune__column_sum_final(context, plan.groups, 1, partial, sums, NULL));
    TRY(clprune__launch_begin(context, CLPRUNE__LAMB_APPLY, plan.defines, &launch));
    clprune__arg_ulong(&launch, t->count);
    clprune__arg_float(&launch, lr);
    clprune__arg_float(&launch, decay);
    clprune__arg_float(&launch, m->m_scale);
    clprune__arg_float(&launch, m->v_scale);
    clprune__arg_float(&launch, desc->eps);
    clprune__arg_mat(&launch, sums);
    clprune__arg_mat(&launch, t->state[0]);
    clprune__arg_mat(&launch, t->state[1]);
    clprune__arg_mat(&launch, t->param.value);
    TRY(clprune__launch_enqueue(&launch, 1, &plan.global, &plan.local, NULL));
done:
    clprune__scratch_end(context, mark);
    return status;
}

clprune_status clprune_optimizer_step(clprune_optimizer *optimizer, float lr, cl_event *event)
{
    clprune_status status = CLPRUNE_SUCCESS;
    clprune_context *context = optimizer != NULL ? optimizer->context : NULL;
    REQUIRE(optimizer != NULL, CLPRUNE_INVALID_ARGUMENT, "optimizer is NULL");
    REQUIRE(isfinite(lr) && lr >= 0, CLPRUNE_INVALID_ARGUMENT, "lr is %g", (double)lr);
    const moments m = moments_of(optimizer);
    for (size_t i = 0; i < optimizer->count; i++) {
        const tensor *t = &optimizer->tensors[i];
        if (t->count == 0)
            continue;
        if (optimizer->desc.kind == CLPRUNE_OPTIMIZER_SGD)
            TRY(step_sgd(optimizer, t, lr));
        else if (optimizer->desc.kind == CLPRUNE_OPTIMIZER_ADAMW)
            TRY(step_adamw(optimizer, &m, t, lr));
        else
            TRY(step_lamb(optimizer, &m, t, lr));
    }
    optimizer->steps++;
    TRY(clprune__empty_event(context, event));
done:
    return status;
}

/* The square sums of every gradient's groups, one tensor after the other, in `partial`. */
static clprune_status sum_squares(const clprune_optimizer *optimizer, clprune_mat partial)
{
    clprune_status status = CLPRUNE_SUCCESS;
    for (size_t i = 0; i < optimizer->count; i++) {
        const tensor *t = &optimizer->tensors[i];
        const flat_plan plan = plan_flat(optimizer->context, t->count, false);
        clprune__launch launch;
        TRY(clprune__launch_begin(optimizer->context, CLPRUNE__SQUARE_SUM, plan.defines, &launch));
        clprune__arg_ulong(&launch, t->count);
        clprune__arg_mat(&launch, t->param.grad);
        clprune__arg_mat(&launch, partial);
        TRY(clprune__launch_enqueue(&launch, 1, &plan.global, &plan.local, NULL));
        partial.offset += plan.groups * partial.ld;
    }
done:
    return status;
}

static clprune_status scale_gradients(const clprune_optimizer *optimizer, clprune_mat factor)
{
    clprune_status status = CLPRUNE_SUCCESS;
    for (size_t i = 0; i < optimizer->count; i++) {
        const tensor *t = &optimizer->tensors[i];
        const flat_plan plan = plan_flat(optimizer->context, t->count, false);
        clprune__launch launch;
        TRY(clprune__launch_begin(optimizer->context, CLPRUNE__SCALE, plan.defines, &launch));
        clprune__arg_ulong(&launch, t->count);
        clprune__arg_mat(&launch, factor);
        clprune__arg_mat(&launch, t->param.grad);
        TRY(clprune__launch_enqueue(&launch, 1, &plan.global, &plan.local, NULL));
    }
done:
    return status;
}

clprune_status clprune_optimizer_clip(
    clprune_optimizer *optimizer, float max_norm, clprune_mat norm, cl_event *event)
{
    clprune_status status = CLPRUNE_SUCCESS;
    clprune_context *context = optimizer != NULL ? optimizer->context : NULL;
    clprune__scratch_mark mark = {0};
    bool marked = false;
    REQUIRE(optimizer != NULL, CLPRUNE_INVALID_ARGUMENT, "optimizer is NULL");
    REQUIRE(max_norm > 0, CLPRUNE_INVALID_ARGUMENT, "max_norm is %g", (double)max_norm);
    const bool has_norm = norm.buffer != NULL || norm.rows != 0 || norm.cols != 0;
    if (has_norm)
        TRY(clprune__check_mat(context, "norm", norm, 1, 1));
    size_t groups = 0;
    for (size_t i = 0; i < optimizer->count; i++) {
        if (has_norm)
            TRY(clprune__check_apart(
                context, "norm", norm, "a gradient", optimizer->tensors[i].param.grad));
        groups += plan_flat(context, optimizer->tensors[i].count, false).groups;
    }
    mark = clprune__scratch_begin(context);
    marked = true;
    clprune_mat partial, sums, factor;
    TRY(clprune__scratch_mat(context, groups, 2, &partial));
    TRY(clprune__scratch_mat(context, 1, 2, &sums));
    TRY(clprune__scratch_mat(context, 1, 1, &factor));
    if (!has_norm)
        TRY(clprune__scratch_mat(context, 1, 1, &norm));
    TRY(sum_squares(optimizer, partial));
    TRY(clprune__column_sum_final(context, groups, 1, partial, sums, NULL));
    const flat_plan plan = plan_flat(context, 1, false);
    clprune__launch launch;
    TRY(clprune__launch_begin(context, CLPRUNE__CLIP_FACTOR, plan.defines, &launch));
    clprune__arg_float(&launch, max_norm);
    clprune__arg_mat(&launch, sums);
    clprune__arg_mat(&launch, norm);
    clprune__arg_mat(&launch, factor);
    TRY(clprune__launch_enqueue(&launch, 1, &plan.local, &plan.local, NULL));
    TRY(scale_gradients(optimizer, factor));
    TRY(clprune__empty_event(context, event));
done:
    if (marked)
        clprune__scratch_end(context, mark);
    return status;
}

uint64_t clprune_optimizer_steps(const clprune_optimizer *optimizer)
{
    return optimizer != NULL ? optimizer->steps : 0;
}

void clprune_optimizer_set_steps(clprune_optimizer *optimizer, uint64_t steps)
{
    if (optimizer != NULL)
        optimizer->steps = steps;
}

size_t clprune_optimizer_slots(const clprune_optimizer *optimizer)
{
    return optimizer != NULL ? optimizer->slots : 0;
}

clprune_mat clprune_optimizer_state(const clprune_optimizer *optimizer, size_t param, size_t slot)
{
    if (optimizer == NULL || param >= optimizer->count || slot >= optimizer->slots)
        return CLPRUNE_NO_MAT;
    return optimizer->tensors[param].state[slot];
}
