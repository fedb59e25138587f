#include "clprune/embedding.h"

#include "core/checked.h"
#include "ops/products/gemm_private.h"
#include "runtime/context/check.h"
#include "runtime/launch/rowwise.h"
#include "runtime/memory/scratch.h"

static const clprune__kernel_def embedding_forward_kernel = {
    "tokens/embedding.cl", "embedding_forward"};
static const clprune__kernel_def embedding_links_kernel = {
    "tokens/embedding.cl", "embedding_links"};
static const clprune__kernel_def embedding_backward_kernel = {
    "tokens/embedding.cl", "embedding_backward"};

/* Work-items of a group of links. */
#define LINKS_LOCAL 64

clprune_status clprune_embedding_forward(clprune_context *context, clprune_ints tokens,
    clprune_mat weight, clprune_mat y, cl_event *event)
{
    ENTER(context);
    clprune_mat all;
    TRY(clprune__check_ints(context, "tokens", tokens, y.rows, &all));
    enum { TOKENS, WEIGHT, Y, ALL };
    const clprune__operand operands[ALL] = {{"tokens", all, 1, y.rows},
        {"weight", weight, weight.rows, weight.cols, .bf16 = true, .codes = true},
        {"y", y, y.rows, weight.cols}};
    TRY(clprune__check_operands(context, operands, Y, ALL));
    clprune__rowwise plan = clprune__rowwise_plan(context, y.rows, y.cols);
    clprune__quantised codes;
    const bool coded = weight.type != CLPRUNE_VALUES_FP32;
    if (coded) {
        TRY(clprune__quantised_view(context, "weight", weight, &codes));
        clprune__quantised_defines(&codes, &plan.defines);
    }
    clprune__launch launch;
    TRY(clprune__rowwise_begin(context, &embedding_forward_kernel, &plan, &launch));
    clprune__arg_ulong(&launch, weight.rows);
    clprune__arg_ints(&launch, tokens);
    if (coded)
        clprune__arg_quantised(&launch, &codes);
    else
        clprune__arg_mat(&launch, weight);
    clprune__arg_mat(&launch, y);
    return clprune__rowwise_end(&launch, &plan, event);
}

static clprune_status find_links(
    clprune_context *context, size_t rows, clprune_ints tokens, clprune__region links)
{
    const size_t local = clprune__group_size(context, LINKS_LOCAL);
    const size_t global = clprune__round_up(rows, local);
    clprune__defines defines = {0};
    clprune__define(&defines, "LOCAL", local);
    clprune__define(&defines, "VW", clprune__vector_width(context));
    clprune__launch launch;
    TRY(clprune__launch_begin(context, &embedding_links_kernel, &defines, &launch));
    launch.least_group = 1;
    clprune__arg_ulong(&launch, rows);
    clprune__arg_ints(&launch, tokens);
    clprune__arg_region(&launch, links);
    return clprune__launch_enqueue(&launch, 1, &global, &local, NULL);
}

/* Forward: y[r] = weight[tokens[r]]. Rows with one token are linked, so that each is read once. */
clprune_status clprune_embedding_backward(clprune_context *context, float beta, clprune_ints tokens,
    clprune_mat dy, clprune_mat dweight, cl_event *event)
{
    ENTER(context);
    SCRATCH_SCOPE(context);
    clprune_mat all;
    TRY(clprune__check_ints(context, "tokens", tokens, dy.rows, &all));
    enum { TOKENS, DY, DWEIGHT, ALL };
    const clprune__operand operands[ALL] = {{"tokens", all, 1, dy.rows},
        {"dy", dy, dy.rows, dweight.cols}, {"dweight", dweight, dweight.rows, dweight.cols}};
    TRY(clprune__check_operands(context, operands, DWEIGHT, ALL));
    const bool sums = dy.rows > 0 && dweight.rows > 0 && dweight.cols > 0;
    if (beta != 1.0f)
        TRY(clprune__scale(context, beta, dweight, sums ? NULL : event));
    if (!sums)
        return beta != 1.0f ? CLPRUNE_SUCCESS : clprune__empty_event(context, event);
    clprune__region links;
    TRY(clprune__scratch_array(context, dy.rows, sizeof(cl_long), &links));
    TRY(find_links(context, dy.rows, tokens, links));
    const clprune__rowwise plan = clprune__rowwise_plan(context, dy.rows, dy.cols);
    clprune__launch launch;
    TRY(clprune__rowwise_begin(context, &embedding_backward_kernel, &plan, &launch));
    clprune__arg_ulong(&launch, dweight.rows);
    clprune__arg_ints(&launch, tokens);
    clprune__arg_region(&launch, links);
    ARG_MATS(&launch, dy, dweight);
    return clprune__rowwise_end(&launch, &plan, event);
}
