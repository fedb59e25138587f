#include "nn/tokens/rotary_private.h"

#include <math.h>

#include "core/checked.h"
#include "runtime/context/check.h"
#include "runtime/launch/rowwise.h"
#include "runtime/memory/matrix_private.h"
#include "runtime/memory/scratch.h"

static const clprune__kernel_def rotary_table_kernel = {"tokens/rotary.cl", "rotary_table"};
static const clprune__kernel_def rotary_table_of_kernel = {"tokens/rotary.cl", "rotary_table_of"};
static const clprune__kernel_def rotary_turn_kernel = {"tokens/rotary.cl", "rotary_turn"};

/* 2^64 / (2 pi): the angle of row 1 and pair 0, one radian, in turns of 2^64. */
#define ONE_RADIAN UINT64_C(2935890503282001226)

/* What is turned: 2 * half columns of each of `heads` heads of head_cols, in `tokens` rows of
 * samples, from row `first` on. */
typedef struct rotation {
    size_t first, batch, tokens, heads, head_cols, half;
    float theta;
    bool adjacent, back;
    clprune_mat table; /* of clprune_rotary_by; else absent */
} rotation;

static clprune_status fill_table(clprune_context *context, const rotation *of, clprune_mat table)
{
    const double ratio = pow((double)of->theta, -1.0 / (double)of->half);
    const clprune__rowwise plan = clprune__rowwise_plan(context, of->tokens, of->half);
    clprune__launch launch;
    TRY(clprune__rowwise_begin(context, &rotary_table_kernel, &plan, &launch));
    ARG_ULONGS(&launch, of->first, ONE_RADIAN, (size_t)fmin(ratio * 0x1p64, 0x1.fffffffffffffp63));
    clprune__arg_mat(&launch, table);
    return clprune__rowwise_end(&launch, &plan, NULL);
}

void clprune__rotary_turns(double angle, uint32_t words[2])
{
    const double turn = 6.283185307179586476925, part = angle / turn - floor(angle / turn);
    const uint64_t turns = (uint64_t)fmin(part * 0x1p64, 0x1.fffffffffffffp63);
    words[0] = (uint32_t)turns;
    words[1] = (uint32_t)(turns >> 32);
}

clprune_status clprune__rotary_table(
    clprune_context *context, size_t first, float factor, clprune_mat turns, clprune_mat table)
{
    const clprune__rowwise plan = clprune__rowwise_plan(context, table.rows, table.cols / 2);
    clprune__launch launch;
    TRY(clprune__rowwise_begin(context, &rotary_table_of_kernel, &plan, &launch));
    ARG_ULONGS(&launch, first);
    clprune__arg_float(&launch, factor);
    ARG_MATS(&launch, turns, table);
    return clprune__rowwise_end(&launch, &plan, NULL);
}

static clprune_status check_rotation(
    clprune_context *context, rotation *of, size_t turned, const char *name, clprune_mat x)
{
    size_t cols;
    const bool given = !clprune__is_absent(of->table);
    REQUIRE(given || (of->theta > 1 && isfinite(of->theta)), CLPRUNE_INVALID_ARGUMENT,
        "theta is %g, expected above 1", (double)of->theta);
    REQUIRE(turned % 2 == 0 && turned <= of->head_cols, CLPRUNE_INVALID_SIZE,
        "%s %zu, expected an even number, at most the %zu columns of a head",
        given ? "the columns of table are" : "turned is", turned, of->head_cols);
    REQUIRE(clprune__mul(of->heads, of->head_cols, &cols) && cols <= x.cols, CLPRUNE_INVALID_SIZE,
        "%s is %zu x %zu, expected columns for %zu heads of %zu", name, x.rows, x.cols, of->heads,
        of->head_cols);
    REQUIRE(of->batch > 0 ? x.rows % of->batch == 0 : x.rows == 0, CLPRUNE_INVALID_SIZE,
        "%s is %zu x %zu, expected rows of %zu samples", name, x.rows, x.cols, of->batch);
    of->half = turned / 2;
    of->tokens = of->batch > 0 ? x.rows / of->batch : 0;
    return CLPRUNE_SUCCESS;
}

/* x and y have been checked. Columns that stay are copied, unless they are in place: those behind
 * the heads, or all if there are some in heads, too. */
static clprune_status turn_checked(
    clprune_context *context, const rotation *of, clprune_mat x, clprune_mat y, cl_event *event)
{
    const size_t in_front = of->head_cols == 2 * of->half ? of->heads * of->head_cols : 0;
    clprune_mat table = of->table, from = x, to = y;
    from.offset += in_front;
    to.offset += in_front;
    from.cols = to.cols = x.cols - in_front;
    const bool some = x.rows > 0 && of->heads > 0 && of->half > 0;
    bool same;
    TRY(clprune__is_in_place(context, x, y, &same));
    if (!same && from.cols > 0)
        TRY(clprune__mat_copy(context, from, to, some ? NULL : event));
    else if (!some)
        return clprune__empty_event(context, event);
    if (!some)
        return CLPRUNE_SUCCESS;
    if (clprune__is_absent(table)) {
        TRY(clprune__scratch_mat(context, of->tokens, 2 * of->half, &table));
        TRY(fill_table(context, of, table));
    }
    clprune__rowwise plan = clprune__lanes_plan(
        context, x.rows * of->heads, of->half, 0, clprune__vector_width(context));
    clprune__define(&plan.defines, "BACK", of->back);
    clprune__define(&plan.defines, "ADJACENT", of->adjacent);
    clprune__launch launch;
    TRY(clprune__rowwise_begin(context, &rotary_turn_kernel, &plan, &launch));
    ARG_ULONGS(&launch, of->heads, of->head_cols, of->tokens);
    ARG_MATS(&launch, table, in_front > 0 ? x : y, y);
    return clprune__rowwise_end(&launch, &plan, event);
}

static clprune_status turn(clprune_context *context, rotation of, size_t turned, const char *x_name,
    clprune_mat x, const char *y_name, clprune_mat y, cl_event *event)
{
    enum { X, TABLE, Y, ALL };
    TRY(check_rotation(context, &of, turned, x_name, x));
    const clprune__operand operands[ALL] = {{x_name, x, x.rows, x.cols},
        {"table", of.table, of.batch > 0 ? of.tokens : of.table.rows, turned, .optional = true},
        {y_name, y, x.rows, x.cols, .in_place = 1u << X}};
    TRY(clprune__check_operands(context, operands, Y, ALL));
    return turn_checked(context, &of, x, y, event);
}

clprune_status clprune__rotary_forward_from(clprune_context *context, size_t first, size_t batch,
    size_t heads, size_t head_cols, size_t turned, float theta, bool adjacent, clprune_mat x,
    clprune_mat y, cl_event *event)
{
    SCRATCH_SCOPE(context);
    const rotation of = {.first = first,
        .batch = batch,
        .heads = heads,
        .head_cols = head_cols,
        .theta = theta,
        .adjacent = adjacent};
    return turn(context, of, turned, "x", x, "y", y, event);
}

clprune_status clprune_rotary_forward(clprune_context *context, size_t batch, size_t heads,
    size_t head_cols, size_t turned, float theta, bool adjacent, clprune_mat x, clprune_mat y,
    cl_event *event)
{
    ENTER(context);
    return clprune__rotary_forward_from(
        context, 0, batch, heads, head_cols, turned, theta, adjacent, x, y, event);
}

/* Forward: y is x, turned by t; so dx is dy, turned by -t. */
clprune_status clprune_rotary_backward(clprune_context *context, size_t batch, size_t heads,
    size_t head_cols, size_t turned, float theta, bool adjacent, clprune_mat dy, clprune_mat dx,
    cl_event *event)
{
    ENTER(context);
    SCRATCH_SCOPE(context);
    const rotation of = {.batch = batch,
        .heads = heads,
        .head_cols = head_cols,
        .theta = theta,
        .adjacent = adjacent,
        .back = true};
    return turn(context, of, turned, "dy", dy, "dx", dx, event);
}

clprune_status clprune_rotary_by(clprune_context *context, size_t batch, size_t heads,
    size_t head_cols, bool adjacent, bool back, clprune_mat table, clprune_mat x, clprune_mat y,
    cl_event *event)
{
    ENTER(context);
    SCRATCH_SCOPE(context);
    REQUIRE(!clprune__is_absent(table), CLPRUNE_INVALID_ARGUMENT, "table is absent");
    const rotation of = {.batch = batch,
        .heads = heads,
        .head_cols = head_cols,
        .adjacent = adjacent,
        .back = back,
        .table = table};
    return turn(context, of, table.cols, "x", x, "y", y, event);
}
