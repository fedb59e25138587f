#include "clprune/dropout.h"

#include "runtime/context/check.h"
#include "runtime/launch/rowwise.h"
#include "runtime/memory/matrix_private.h"

static const clprune__kernel_def dropout_kernel = {"layers/dropout.cl", "dropout"};

/* Drops elements or, with `each`, samples of so many rows. */
static clprune_status drop(clprune_context *context, float rate, uint64_t seed, uint64_t first,
    size_t each, clprune_mat x, clprune_mat y, cl_event *event)
{
    REQUIRE(rate >= 0 && rate < 1, CLPRUNE_INVALID_ARGUMENT,
        "rate is %g, expected a value in [0, 1)", (double)rate);
    enum { X, Y, ALL };
    const clprune__operand operands[ALL] = {
        {"x", x, x.rows, x.cols}, {"y", y, x.rows, x.cols, .in_place = 1u << X}};
    TRY(clprune__check_operands(context, operands, Y, ALL));
    if (rate == 0) {
        bool same;
        TRY(clprune__is_in_place(context, x, y, &same));
        return same ? clprune__empty_event(context, event)
                    : clprune__mat_copy(context, x, y, event);
    }
    clprune__rowwise plan = clprune__rowwise_plan(context, x.rows, x.cols);
    if (each > 0)
        clprune__define(&plan.defines, "PATH", 1);
    clprune__launch launch;
    TRY(clprune__rowwise_begin(context, &dropout_kernel, &plan, &launch));
    ARG_ULONGS(&launch, seed, first, each);
    clprune__arg_uint(&launch, (uint32_t)((double)rate * 0x1p32));
    clprune__arg_float(&launch, (float)(1 / (1 - (double)rate)));
    ARG_MATS(&launch, x, y);
    return clprune__rowwise_end(&launch, &plan, event);
}

clprune_status clprune_dropout(clprune_context *context, float rate, uint64_t seed,
    uint64_t first_row, clprune_mat x, clprune_mat y, cl_event *event)
{
    ENTER(context);
    return drop(context, rate, seed, first_row, 0, x, y, event);
}

clprune_status clprune_drop_path(clprune_context *context, float rate, uint64_t seed, size_t batch,
    uint64_t first, clprune_mat x, clprune_mat y, cl_event *event)
{
    ENTER(context);
    TRY(clprune__check_batch(context, batch, x));
    return drop(context, rate, seed, first, batch > 0 ? x.rows / batch : 0, x, y, event);
}
