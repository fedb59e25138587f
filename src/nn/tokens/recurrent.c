/* Recurrent layers. Forward, each step is a product of the states before with w, and a kernel. The
 * backward pass knows all states: one product makes those of all steps again, in dz, which the
 * kernels then replace, from the last step on. The gradient of w is one product, too: rows of dz
 * times the rows of y before. The rows of first steps, which have none before, are 0 in it: what
 * they have from given states comes last. */
#include "clprune/recurrent.h"

#include "clprune/activation.h"
#include "core/checked.h"
#include "nn/layers/sums.h"
#include "nn/tokens/recurrent_private.h"
#include "ops/products/gemm_private.h"
#include "runtime/context/check.h"
#include "runtime/launch/rowwise.h"
#include "runtime/memory/matrix_private.h"
#include "runtime/memory/scratch.h"

static const clprune__kernel_def lstm_forward_kernel = {"tokens/recurrent.cl", "lstm_forward"};
static const clprune__kernel_def lstm_backward_kernel = {"tokens/recurrent.cl", "lstm_backward"};
static const clprune__kernel_def gru_forward_kernel = {"tokens/recurrent.cl", "gru_forward"};
static const clprune__kernel_def gru_backward_kernel = {"tokens/recurrent.cl", "gru_backward"};
static const clprune__kernel_def plain_forward_kernel = {"tokens/recurrent.cl", "plain_forward"};
static const clprune__kernel_def plain_backward_kernel = {"tokens/recurrent.cl", "plain_backward"};

/* What cells differ in. */
typedef struct cell {
    size_t gates, states;
    clprune_activation activation;
    const clprune__kernel_def *forward, *backward;
} cell;

#define KERNELS(name) &name##_forward_kernel, &name##_backward_kernel
static const cell cells[] = {
    [CLPRUNE_CELL_LSTM] = {4, 2, CLPRUNE_ACTIVATION_SIGMOID, KERNELS(lstm)},
    [CLPRUNE_CELL_GRU] = {3, 1, CLPRUNE_ACTIVATION_SIGMOID, KERNELS(gru)},
    [CLPRUNE_CELL_TANH] = {1, 1, CLPRUNE_ACTIVATION_TANH, KERNELS(plain)},
    [CLPRUNE_CELL_RELU] = {1, 1, CLPRUNE_ACTIVATION_RELU, KERNELS(plain)},
};

bool clprune__cell_sizes(clprune_cell which, size_t *gates, size_t *states)
{
    const bool known = (size_t)which < sizeof cells / sizeof *cells;
    const cell *of = &cells[known ? which : CLPRUNE_CELL_LSTM];
    *gates = of->gates;
    *states = of->states;
    return known;
}

/* The cell, and the columns of its gates and of y. */
static clprune_status take_cell(clprune_context *context, const clprune_recurrent_desc *desc,
    size_t rows, size_t hidden, const cell **found, size_t *gates, size_t *states)
{
    REQUIRE(context != NULL && desc != NULL, CLPRUNE_INVALID_ARGUMENT, "context or desc is NULL");
    TRY(clprune__check_reserved(context, "desc", desc->reserved, sizeof desc->reserved));
    REQUIRE(clprune__cell_sizes(desc->cell, gates, states), CLPRUNE_INVALID_ARGUMENT,
        "cell is %d, expected a clprune_cell", (int)desc->cell);
    REQUIRE(desc->steps > 0 && rows % desc->steps == 0, CLPRUNE_INVALID_SIZE,
        "z has %zu rows, expected a multiple of %zu steps, at least 1", rows, desc->steps);
    *found = &cells[desc->cell];
    REQUIRE(clprune__mul(hidden, (*found)->gates, gates), CLPRUNE_SIZE_OVERFLOW,
        "%zu gates of %zu columns overflow size_t", (*found)->gates, hidden);
    *states *= hidden;
    return CLPRUNE_SUCCESS;
}

static clprune_mat columns(clprune_mat mat, size_t first, size_t count)
{
    mat.offset += first;
    mat.cols = count;
    return mat;
}

/* The rows of all sequences that are step i in time. */
static clprune_mat step_of(const clprune_recurrent_desc *desc, clprune_mat mat, size_t i)
{
    mat = clprune_mat_rows(mat, desc->reverse ? desc->steps - 1 - i : i, mat.rows / desc->steps);
    mat.ld *= desc->steps;
    return mat;
}

/* The states before step i in time, if there are any. */
static clprune_mat past_of(
    const clprune_recurrent_desc *desc, clprune_mat y, clprune_mat states0, size_t i)
{
    return i == 0 && !clprune__is_absent(states0) ? states0 : step_of(desc, y, i > 0 ? i - 1 : 0);
}

/* Of `rows` rows those that have a row before in time, and these rows. */
static clprune_mat rows_behind(const clprune_recurrent_desc *desc, clprune_mat mat, size_t rows)
{
    return clprune_mat_rows(mat, desc->reverse ? 0 : 1, rows - 1);
}
static clprune_mat rows_before(const clprune_recurrent_desc *desc, clprune_mat mat, size_t rows)
{
    return clprune_mat_rows(mat, desc->reverse ? 1 : 0, rows - 1);
}

static clprune__rowwise plan_step(
    const clprune_context *context, const cell *of, size_t batch, size_t hidden, bool bias)
{
    clprune__rowwise plan = clprune__rowwise_plan(context, batch, hidden);
    clprune__define(&plan.defines, "BIAS", bias);
    clprune__define(&plan.defines, "ACTIVATION", of->activation);
    return plan;
}

clprune_status clprune_recurrent_forward(clprune_context *context,
    const clprune_recurrent_desc *desc, clprune_mat z, clprune_mat w, clprune_mat b,
    clprune_mat states0, clprune_mat y, cl_event *event)
{
    ENTER(context);
    const cell *of;
    size_t gates, states;
    const size_t hidden = w.cols;
    TRY(take_cell(context, desc, z.rows, hidden, &of, &gates, &states));
    const size_t batch = z.rows / desc->steps;
    enum { Z, W, B, STATES0, Y, ALL };
    const clprune__operand operands[ALL] = {{"z", z, z.rows, gates}, {"w", w, gates, hidden},
        {"b", b, 1, gates, .optional = true}, {"states0", states0, batch, states, .optional = true},
        {"y", y, z.rows, states}};
    TRY(clprune__check_operands(context, operands, Y, ALL));
    if (batch == 0 || hidden == 0)
        return clprune__empty_event(context, event);
    SCRATCH_SCOPE(context);
    const bool bias = !clprune__is_absent(b);
    const clprune__rowwise plan = plan_step(context, of, batch, hidden, bias);
    clprune_mat a;
    TRY(clprune__scratch_mat(context, batch, gates, &a));
    for (size_t i = 0; i < desc->steps; ++i) {
        const clprune_mat to = step_of(desc, y, i), past = past_of(desc, y, states0, i);
        const bool first = i == 0 && clprune__is_absent(states0);
        clprune__launch launch;
        if (!first)
            TRY(clprune__gemm_single(
                context, false, true, 1.0f, 0.0f, columns(past, 0, hidden), w, a, NULL));
        TRY(clprune__rowwise_begin(context, of->forward, &plan, &launch));
        clprune__arg_uint(&launch, first);
        ARG_MATS(&launch, step_of(desc, z, i), a, bias ? b : clprune__untouched(z), past, to);
        TRY(clprune__rowwise_end(&launch, &plan, i + 1 < desc->steps ? NULL : event));
    }
    return CLPRUNE_SUCCESS;
}

/* Forward: a = w h' + b. dz = the products of all rows that have a row before; others are 0. */
static clprune_status multiply_states(clprune_context *context, const clprune_recurrent_desc *desc,
    clprune_mat h, clprune_mat w, clprune_mat dz)
{
    const size_t steps = desc->steps;
    TRY(clprune__mat_fill(context, 0, step_of(desc, dz, 0), NULL));
    if (steps == 1 || dz.rows == 0)
        return CLPRUNE_SUCCESS;
    return clprune__gemm_batched(context, dz.rows / steps, false, true, 1.0f, 0.0f,
        rows_before(desc, h, steps), steps * h.ld, w, 0, rows_behind(desc, dz, steps),
        steps * dz.ld, NULL);
}

clprune_status clprune_recurrent_backward(clprune_context *context,
    const clprune_recurrent_desc *desc, float beta, clprune_mat z, clprune_mat w, clprune_mat b,
    clprune_mat states0, clprune_mat y, clprune_mat dy, clprune_mat dz, clprune_mat dw,
    clprune_mat db, clprune_mat dstates0, cl_event *event)
{
    ENTER(context);
    const cell *of;
    size_t gates, states;
    const size_t hidden = w.cols, rows = z.rows, some = rows > 0 ? rows : 1;
    TRY(take_cell(context, desc, rows, hidden, &of, &gates, &states));
    const size_t steps = desc->steps, batch = rows / steps;
    enum { Z, W, B, STATES0, Y, DY, DZ, DW, DB, DSTATES0, ALL };
    const clprune__operand operands[ALL] = {{"z", z, rows, gates}, {"w", w, gates, hidden},
        {"b", b, 1, gates, .optional = true}, {"states0", states0, batch, states, .optional = true},
        {"y", y, rows, states}, {"dy", dy, rows, states}, {"dz", dz, rows, gates},
        {"dw", dw, gates, hidden, .optional = true}, {"db", db, 1, gates, .optional = true},
        {"dstates0", dstates0, batch, states, .optional = true}};
    TRY(clprune__check_operands(context, operands, DZ, ALL));
    SCRATCH_SCOPE(context);
    const bool has_states0 = !clprune__is_absent(states0), wants0 = !clprune__is_absent(dstates0);
    const bool has_dw = !clprune__is_absent(dw);
    const bool bias = !clprune__is_absent(b), gru = desc->cell == CLPRUNE_CELL_GRU;
    const bool lstm = desc->cell == CLPRUNE_CELL_LSTM;
    const clprune_mat h = columns(y, 0, hidden);
    const clprune__rowwise plan = plan_step(context, of, batch, hidden, bias);
    clprune_mat dh = columns(dstates0, 0, hidden);
    if (!wants0)
        TRY(clprune__scratch_mat(context, batch, hidden, &dh));
    /* dc, or of a GRU dn of all rows */
    clprune_mat more = lstm ? columns(dstates0, hidden, hidden) : dh;
    if (gru || (lstm && !wants0))
        TRY(clprune__scratch_mat(context, gru ? rows : batch, hidden, &more));
    TRY(multiply_states(context, desc, h, w, dz));
    for (size_t i = steps; i-- > 0;) {
        const clprune_mat to = step_of(desc, dz, i), past = past_of(desc, y, states0, i);
        const clprune_mat past_h = columns(past, 0, hidden);
        const bool given = i == 0 && has_states0;
        clprune__launch launch;
        if (i == 0 && has_dw) /* dw = sum of da^T h' */
            TRY(clprune__gemm_single(context, true, false, 1.0f, beta, rows_behind(desc, dz, some),
                rows_before(desc, h, some), dw, NULL));
        if (given)
            TRY(clprune__gemm_single(context, false, true, 1.0f, 0.0f, past_h, w, to, NULL));
        TRY(clprune__rowwise_begin(context, of->backward, &plan, &launch));
        clprune__arg_uint(&launch, i == 0 && !has_states0);
        clprune__arg_uint(&launch, i == steps - 1);
        ARG_MATS(&launch, step_of(desc, z, i), bias ? b : clprune__untouched(z), past,
            step_of(desc, dy, i), to, dh, gru ? step_of(desc, more, i) : more);
        TRY(clprune__rowwise_end(&launch, &plan, NULL));
        if (given && has_dw)
            TRY(clprune__gemm_single(context, true, false, 1.0f, 1.0f, to, past_h, dw, NULL));
        if (i > 0 || wants0) /* a = w h' + b; of a GRU dh has u * dh */
            TRY(clprune__gemm_single(
                context, false, false, 1.0f, gru ? 1.0f : 0.0f, to, w, dh, NULL));
    }
    if (!clprune__is_absent(db))
        TRY(clprune__column_sum(context, beta, dz, db, NULL));
    if (gru)
        TRY(clprune__mat_copy(context, more, columns(dz, 2 * hidden, hidden), NULL));
    return clprune__empty_event(context, event);
}
