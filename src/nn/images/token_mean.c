#include "clprune/token_mean.h"

#include <math.h>

#include "core/checked.h"
#include "nn/images/token_mean_private.h"
#include "runtime/context/check.h"
#include "runtime/launch/rowwise.h"

static const clprune__kernel_def token_mean_forward_kernel = {
    "images/token_mean.cl", "token_mean_forward"};
static const clprune__kernel_def token_mean_backward_kernel = {
    "images/token_mean.cl", "token_mean_backward"};

/* The mean of no tokens is NaN. */
static float scale_of(size_t tokens)
{
    return tokens > 0 ? 1 / (float)tokens : NAN;
}

clprune_status clprune__token_sum(clprune_context *context, size_t batch, size_t tokens,
    float scale, clprune_mat x, clprune_mat y, cl_event *event)
{
    size_t rows;
    REQUIRE(clprune__mul(batch, tokens, &rows), CLPRUNE_SIZE_OVERFLOW,
        "%zu samples of %zu tokens overflow size_t", batch, tokens);
    TRY(clprune__check_mat(context, "x", x, rows, x.cols));
    TRY(clprune__check_mat(context, "y", y, batch, x.cols));
    TRY(clprune__check_apart(context, "y", y, "x", x));
    const clprune__rowwise plan = clprune__rowwise_plan(context, batch, x.cols);
    clprune__launch launch;
    TRY(clprune__launch_begin(context, &token_mean_forward_kernel, &plan.defines, &launch));
    ARG_ULONGS(&launch, tokens, x.cols);
    clprune__arg_float(&launch, scale);
    ARG_MATS(&launch, x, y);
    return clprune__rowwise_end_parts(&launch, &plan, event);
}

clprune_status clprune__token_spread(clprune_context *context, size_t batch, size_t tokens,
    float scale, clprune_mat dy, clprune_mat dx, cl_event *event)
{
    size_t rows;
    REQUIRE(clprune__mul(batch, tokens, &rows), CLPRUNE_SIZE_OVERFLOW,
        "%zu samples of %zu tokens overflow size_t", batch, tokens);
    TRY(clprune__check_mat(context, "dy", dy, batch, dy.cols));
    TRY(clprune__check_mat(context, "dx", dx, rows, dy.cols));
    TRY(clprune__check_apart(context, "dx", dx, "dy", dy));
    const clprune__rowwise plan = clprune__rowwise_plan(context, rows, dy.cols);
    clprune__launch launch;
    TRY(clprune__rowwise_begin(context, &token_mean_backward_kernel, &plan, &launch));
    clprune__arg_ulong(&launch, tokens);
    clprune__arg_float(&launch, scale);
    ARG_MATS(&launch, dy, dx);
    return clprune__rowwise_end(&launch, &plan, event);
}

clprune_status clprune_token_mean_forward(clprune_context *context, size_t batch, size_t tokens,
    clprune_mat x, clprune_mat y, cl_event *event)
{
    ENTER(context);
    return clprune__token_sum(context, batch, tokens, scale_of(tokens), x, y, event);
}

/* Forward: y_n = mean of the rows of x_n. */
clprune_status clprune_token_mean_backward(clprune_context *context, size_t batch, size_t tokens,
    clprune_mat dy, clprune_mat dx, cl_event *event)
{
    ENTER(context);
    return clprune__token_spread(context, batch, tokens, scale_of(tokens), dy, dx, event);
}
