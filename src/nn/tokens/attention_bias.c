#include "nn/tokens/attention_bias_private.h"

#include "runtime/context/check.h"
#include "runtime/launch/rowwise.h"

static const clprune__kernel_def read_kernel = {"tokens/attention_bias.cl", "attention_bias_read"};
static const clprune__kernel_def sums_kernel = {"tokens/attention_bias.cl", "attention_bias_sums"};

clprune_status clprune__attention_bias(clprune_context *context, const clprune__attention_lists *of,
    size_t heads, clprune_mat values, clprune_mat bias)
{
    const bool some = !clprune__is_absent(values);
    clprune__rowwise plan = clprune__rowwise_plan(context, bias.rows, bias.cols);
    clprune__define(&plan.defines, "VALUES", some);
    clprune__define(&plan.defines, "MASK", of->masked);
    clprune__launch launch;
    TRY(clprune__rowwise_begin(context, &read_kernel, &plan, &launch));
    ARG_ULONGS(&launch, heads, of->masks);
    ARG_MATS(&launch, of->lists, some ? values : of->lists, bias);
    return clprune__rowwise_end(&launch, &plan, NULL);
}

/* Forward: bias is a sum of values and masks. */
clprune_status clprune__attention_bias_backward(clprune_context *context,
    const clprune__attention_lists *of, float beta, clprune_mat dbias, clprune_mat dvalues)
{
    clprune__rowwise plan = clprune__rowwise_plan(context, dvalues.rows, dvalues.cols);
    clprune__define(&plan.defines, "READ_OLD", beta != 0);
    clprune__launch launch;
    TRY(clprune__rowwise_begin(context, &sums_kernel, &plan, &launch));
    ARG_ULONGS(&launch, dbias.cols, dbias.rows / dbias.cols / dvalues.cols);
    clprune__arg_float(&launch, beta);
    ARG_MATS(&launch, of->lists, dbias, dvalues);
    return clprune__rowwise_end(&launch, &plan, NULL);
}
