#include "nn/bias.h"

#include "core/checked.h"
#include "runtime/check.h"
#include "runtime/rowwise.h"

static const clprune__kernel_def bias_rows_kernel = {"bias.cl", "bias_rows", "nn.clh rowwise.clh"};
static const clprune__kernel_def bias_tokens_kernel = {
    "bias.cl", "bias_tokens", "nn.clh rowwise.clh"};

static clprune_status check_bias(
    clprune_context *context, clprune_mat b, size_t count, clprune_mat y)
{
    clprune_status status = CLPRUNE_SUCCESS;
    TRY(clprune__check_mat(context, "b", b, 1, count));
    TRY(clprune__check_apart(context, "y", y, "b", b));
done:
    return status;
}

clprune_status clprune__bias_rows(
    clprune_context *context, clprune_mat b, clprune_mat y, cl_event *event)
{
    clprune_status status = CLPRUNE_SUCCESS;
    TRY(clprune__check_mat(context, "y", y, y.rows, y.cols));
    TRY(check_bias(context, b, y.cols, y));
    const clprune__rowwise plan = clprune__rowwise_plan(context, y.rows, y.cols);
    const clprune_mat mats[] = {b, y};
    TRY(clprune__rowwise_run(context, &bias_rows_kernel, &plan, 2, mats, event));
done:
    return status;
}

clprune_status clprune__bias_tokens(clprune_context *context, size_t batch, size_t tokens,
    clprune_mat b, clprune_mat y, cl_event *event)
{
    clprune_status status = CLPRUNE_SUCCESS;
    size_t rows;
    REQUIRE(clprune__mul(batch, tokens, &rows), CLPRUNE_SIZE_OVERFLOW, "%zu samples of %zu tokens",
        batch, tokens);
    TRY(clprune__check_mat(context, "y", y, rows, y.cols));
    TRY(check_bias(context, b, tokens, y));
    const clprune__rowwise plan = clprune__rowwise_plan(context, y.rows, y.cols);
    clprune__launch launch;
    TRY(clprune__rowwise_begin(context, &bias_tokens_kernel, &plan, &launch));
    clprune__arg_ulong(&launch, tokens);
    clprune__arg_mat(&launch, b);
    clprune__arg_mat(&launch, y);
    TRY(clprune__rowwise_end(&launch, &plan, event));
done:
    return status;
}

/* The product of a job whose bias_values, one per `count`, may be none; the bias is of `kind`. On
 * return *left says whether it is still to be added, which then makes the event. */
static clprune_status product(clprune_context *context, clprune__gemm_job *job,
    clprune__gemm_bias kind, size_t count, clprune_mat y, bool *left, cl_event *event)
{
    clprune_status status = CLPRUNE_SUCCESS;
    const bool bias = !clprune__is_absent(job->bias_values);
    *left = false;
    if (bias) {
        TRY(check_bias(context, job->bias_values, count, y));
        job->bias = kind;
    }
    TRY(clprune__gemm(context, job, bias ? NULL : event));
    *left = bias && job->bias == CLPRUNE__NO_BIAS;
    if (bias && !*left)
        TRY(clprune__empty_event(context, event));
done:
    return status;
}

clprune_status clprune__product_rows(clprune_context *context, clprune_mat x, clprune_mat w,
    clprune_mat b, clprune_mat y, clprune__gemm_scores *scores, cl_event *event)
{
    clprune_status status = CLPRUNE_SUCCESS;
    clprune__gemm_job job = {
        .batch = 1, .transpose_b = true, .alpha = 1.0f, .a = x, .b = w, .c = y, .bias_values = b};
    bool left;
    if (scores != NULL)
        job.scores = *scores;
    TRY(product(context, &job, CLPRUNE__BIAS_OF_COLUMNS, y.cols, y, &left, event));
    if (scores != NULL)
        *scores = job.scores;
    if (left)
        TRY(clprune__bias_rows(context, b, y, event));
done:
    return status;
}

clprune_status clprune__product_tokens(clprune_context *context, size_t batch, clprune_mat x,
    clprune_mat w, clprune_mat b, clprune_mat y, cl_event *event)
{
    clprune_status status = CLPRUNE_SUCCESS;
    clprune__gemm_job job = {.batch = batch,
        .alpha = 1.0f,
        .a = w,
        .b = clprune_mat_rows(x, 0, w.cols),
        .c = clprune_mat_rows(y, 0, w.rows),
        .stride_b = w.cols * x.ld,
        .stride_c = w.rows * y.ld,
        .bias_values = b};
    bool left;
    TRY(product(context, &job, CLPRUNE__BIAS_OF_ROWS, w.rows, y, &left, event));
    if (left)
        TRY(clprune__bias_tokens(context, batch, w.rows, b, y, event));
done:
    return status;
}
