/* dw from kept blocks: which kernel family multiplies. */
#include "clprune/bspmm.h"

#include "core/checked.h"
#include "ops/device/mma.h"
#include "ops/device/ops_state.h"
#include "ops/products/gemm_private.h"
#include "ops/sparse/bspmm_private.h"
#include "runtime/context/check.h"
#include "runtime/context/context_private.h"

/* The functions of a kernel family that plan and launch a product. */
typedef struct family {
    clprune__bspmm_plan (*plan)(const clprune_context *context, const clprune_bsr *xs,
        const clprune_bsr_sizes *sizes, size_t outputs);
    clprune_status (*multiply)(clprune_context *context, const clprune__bspmm_plan *plan,
        const clprune__bspmm_operands *operands);
    bool reads_stored; /* values of any type; else they are fp32 */
} family;

/* dw = alpha * product + beta * dw; the product is not empty. `stored` is the matrix as the caller
 * passed it, operands.xs the same matrix with samples joined (clprune__join_samples). */
static clprune_status multiply(clprune_context *context, family kernels, float alpha, float beta,
    const clprune_bsr *stored, const clprune_bsr_sizes *stored_sizes,
    clprune__bspmm_operands operands, clprune_mat dw, cl_event *event)
{
    clprune__bspmm_scratch scratch = {
        .even_rows = operands.sizes->block_rows != stored_sizes->block_rows};
    const clprune_bsr *xs = operands.xs;
    const clprune_bsr_sizes *sizes = operands.sizes;
    const clprune__bspmm_plan plan = kernels.plan(context, xs, sizes, operands.outputs);
    SCRATCH_SCOPE(context);
    operands.scratch = &scratch;
    if (kernels.reads_stored) {
        scratch.values = clprune__bsr_values_region(stored);
        scratch.scales = clprune__bsr_scales_region(stored);
    } else {
        TRY(clprune__bsr_values(context, stored, &scratch.values));
    }
    TRY(clprune__bsr_read_index(context, stored, stored_sizes, &scratch.index));
    TRY(clprune__bspmm_take_scratch(context, xs, sizes, &plan, &scratch));
    if (!plan.listless)
        TRY(clprune__bspmm_list_columns(context, xs, sizes, &plan, &scratch));
    TRY(kernels.multiply(context, &plan, &operands));
    return clprune__bspmm_finish(context, &plan, alpha, beta, &scratch, dw, event);
}

static family tn_family(const clprune_context *context)
{
    if (clprune__uses_mma(context))
        return (family){clprune__plan_tn_mma, clprune__multiply_tn_mma, false};
    if (context->ops->pairs != CLPRUNE__PAIRS_NONE)
        return (family){clprune__plan_tn_bf16, clprune__multiply_tn_bf16, true};
    if (context->kernels == CLPRUNE_KERNELS_VECTOR)
        return (family){clprune__plan_tn_vector, clprune__multiply_tn_vector, false};
    return (family){clprune__plan_tn_tiled, clprune__multiply_tn_tiled, false};
}

clprune_status clprune__bspmm_tn(clprune_context *context, float alpha, float beta, clprune_mat dy,
    const clprune_bsr *xs, clprune_mat dw, cl_event *event)
{
    clprune_bsr_sizes sizes;
    TRY(clprune__check_bsr(context, xs, &sizes));
    TRY(clprune__check_mat(context, "dy", dy, xs->desc.batch * xs->desc.rows, dy.cols));
    TRY(clprune__check_mat(context, "dw", dw, dy.cols, xs->desc.cols));
    TRY(clprune__check_apart(context, "dw", dw, "dy", dy));
    TRY(clprune__check_bsr_apart(context, "dw", clprune__bytes_of(dw), xs));
    if (alpha == 0.0f || xs->desc.batch == 0 || xs->desc.keep == 0 || dw.rows == 0 || dw.cols == 0)
        return clprune__scale(context, beta, dw, event);
    clprune_bsr joined = *xs;
    clprune_bsr_sizes joined_sizes = sizes;
    clprune__join_samples(&joined, &joined_sizes);
    const clprune__bspmm_operands operands = {dy, dy.cols, &joined, &joined_sizes};
    return multiply(context, tn_family(context), alpha, beta, xs, &sizes, operands, dw, event);
}

clprune_status clprune_bspmm_tn(clprune_context *context, float alpha, float beta, clprune_mat dy,
    const clprune_bsr *xs, clprune_mat dw, cl_event *event)
{
    ENTER(context);
    return clprune__bspmm_tn(context, alpha, beta, dy, xs, dw, event);
}

static family nt_family(const clprune_context *context)
{
    if (clprune__uses_mma(context))
        return (family){clprune__plan_nt_mma, clprune__multiply_nt_mma, false};
    if (context->ops->pairs != CLPRUNE__PAIRS_NONE)
        return (family){clprune__plan_nt_bf16, clprune__multiply_nt_bf16, true};
    if (context->kernels == CLPRUNE_KERNELS_VECTOR)
        return (family){clprune__plan_nt_vector, clprune__multiply_nt_vector, false};
    return (family){clprune__plan_nt_tiled, clprune__multiply_nt_tiled, false};
}

clprune_status clprune__bspmm_nt(clprune_context *context, float alpha, float beta, clprune_mat dy,
    const clprune_bsr *xs, clprune_mat dw, cl_event *event)
{
    clprune_bsr_sizes sizes;
    TRY(clprune__check_bsr(context, xs, &sizes));
    const size_t outputs = dw.rows;
    size_t dy_rows;
    REQUIRE(clprune__mul(xs->desc.batch, outputs, &dy_rows), CLPRUNE_SIZE_OVERFLOW,
        "dy: %zu samples of %zu rows overflow size_t", xs->desc.batch, outputs);
    TRY(clprune__check_mat(context, "dy", dy, dy_rows, xs->desc.cols));
    TRY(clprune__check_mat(context, "dw", dw, outputs, xs->desc.rows));
    TRY(clprune__check_apart(context, "dw", dw, "dy", dy));
    TRY(clprune__check_bsr_apart(context, "dw", clprune__bytes_of(dw), xs));
    if (alpha == 0.0f || xs->desc.batch == 0 || xs->desc.keep == 0 || dw.rows == 0 || dw.cols == 0)
        return clprune__scale(context, beta, dw, event);
    const clprune__bspmm_operands operands = {dy, outputs, xs, &sizes};
    return multiply(context, nt_family(context), alpha, beta, xs, &sizes, operands, dw, event);
}

clprune_status clprune_bspmm_nt(clprune_context *context, float alpha, float beta, clprune_mat dy,
    const clprune_bsr *xs, clprune_mat dw, cl_event *event)
{
    ENTER(context);
    return clprune__bspmm_nt(context, alpha, beta, dy, xs, dw, event);
}
