#include "nn/layers/biased_product.h"

#include "nn/layers/bias.h"
#include "runtime/context/check.h"

/* The product of a job. bias_values, one per `count`, may be absent; `kind` is their kind. On
 * return *left: the bias is still to be added, by a command that makes the event. */
static clprune_status product(clprune_context *context, clprune__gemm_job *job,
    clprune__gemm_bias kind, size_t count, clprune_mat y, bool *left, cl_event *event)
{
    const bool bias = !clprune__is_absent(job->bias_values);
    *left = false;
    if (bias) {
        TRY(clprune__check_bias(context, job->bias_values, count, y));
        job->bias = kind;
    }
    TRY(clprune__gemm(context, job, bias ? NULL : event));
    *left = bias && job->bias == CLPRUNE__NO_BIAS;
    if (bias && !*left)
        TRY(clprune__empty_event(context, event));
    return CLPRUNE_SUCCESS;
}

clprune_status clprune__product_rows(clprune_context *context, clprune_mat x, clprune_mat w,
    clprune_mat b, clprune_mat y, clprune__gemm_scores *scores, cl_event *event)
{
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
    return CLPRUNE_SUCCESS;
}

clprune_status clprune__product_tokens(clprune_context *context, size_t batch, clprune_mat x,
    clprune_mat w, clprune_mat b, clprune_mat y, cl_event *event)
{
    clprune__gemm_job job = {.batch = batch,
        .of_samples = true,
        .alpha = 1.0f,
        .a = w,
        .b = clprune_mat_rows(x, 0, w.cols),
        .c = clprune_mat_rows(y, 0, w.rows),
        .stride_b = w.cols * x.ld,
        .stride_c = w.rows * y.ld,
        .bias_values = b};
    clprune__quantised codes;
    bool left;
    if (x.type == CLPRUNE_VALUES_BF16) {
        TRY(clprune__quantised_view(context, "x", x, &codes));
        job.quantised_b = &codes;
    }
    TRY(product(context, &job, CLPRUNE__BIAS_OF_ROWS, w.rows, y, &left, event));
    if (left)
        TRY(clprune__bias_tokens(context, batch, w.rows, b, y, event));
    return CLPRUNE_SUCCESS;
}
