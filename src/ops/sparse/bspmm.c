#include "clprune/bspmm.h"

#include <limits.h>

#include "core/checked.h"
#include "ops/device/ops_state.h"
#include "ops/products/gemm_private.h"
#include "ops/sparse/bspmm_private.h"
#include "runtime/context/check.h"
#include "runtime/context/context_private.h"
#include "runtime/launch/launch.h"
#include "runtime/launch/rowwise.h"

static const clprune__kernel_def bspmm_lists_kernel = {"sparse/bspmm_lists.cl", "bspmm_lists"};
static const clprune__kernel_def bspmm_nn_kernel = {"sparse/bspmm_nn.cl", "bspmm_nn"};
static const clprune__kernel_def bspmm_finish_kernel = {"sparse/bspmm_finish.cl", "bspmm_finish"};

size_t clprune__largest_divisor(size_t n, size_t limit)
{
    for (size_t d = clprune__min(n, limit); d > 1; d--)
        if (n % d == 0)
            return d;
    return 1;
}

clprune_status clprune__bspmm_take_scratch(clprune_context *context, const clprune_bsr *xs,
    const clprune_bsr_sizes *sizes, const clprune__bspmm_plan *plan,
    clprune__bspmm_scratch *scratch)
{
    clprune_status status = CLPRUNE_SUCCESS;
    const clprune_bsr_desc *desc = &xs->desc;
    size_t starts, entries, partial;
    const bool fits = clprune__mul3(desc->batch, plan->segments, sizes->block_cols + 1, &starts) &&
                      clprune__mul3(desc->batch, desc->keep, desc->block.rows, &entries) &&
                      clprune__add(entries, plan->ahead, &entries) &&
                      clprune__mul3(plan->splits, plan->panels, plan->inner, &partial) &&
                      clprune__mul(partial, plan->panel, &partial);
    REQUIRE(fits, CLPRUNE_SIZE_OVERFLOW,
        "the scratch of a product with %zu splits overflows size_t", plan->splits);
    TRY(clprune__scratch_array(context, starts, sizeof(cl_uint), &scratch->starts));
    TRY(clprune__scratch_array(context, entries, sizeof(cl_uint2), &scratch->entries));
    TRY(clprune__scratch_array(context, partial, sizeof(float), &scratch->partial));
done:
    return status;
}

clprune_status clprune__bspmm_list_columns(clprune_context *context, const clprune_bsr *xs,
    const clprune_bsr_sizes *sizes, const clprune__bspmm_plan *plan,
    const clprune__bspmm_scratch *scratch)
{
    clprune_status status = CLPRUNE_SUCCESS;
    const size_t local = clprune__group_size(context, 64);
    const size_t global = xs->desc.batch * plan->segments * local;
    clprune__defines defines = {0};
    clprune__define(&defines, "LOCAL", local);
    clprune__define(&defines, "BR", xs->desc.block.rows);
    clprune__define(&defines, "EVEN_ROWS", scratch->even_rows);
    clprune__launch launch;
    TRY(clprune__launch_begin(context, &bspmm_lists_kernel, &defines, &launch));
    launch.least_group = 1;
    clprune__arg_ulong(&launch, xs->desc.rows);
    clprune__arg_ulong(&launch, sizes->block_cols);
    clprune__arg_ulong(&launch, sizes->block_rows);
    clprune__arg_ulong(&launch, plan->segment);
    clprune__arg_ulong(&launch, plan->segments);
    clprune__arg_ulong(&launch, xs->desc.keep);
    clprune__arg_index(&launch, &scratch->index);
    clprune__arg_region(&launch, scratch->starts);
    clprune__arg_region(&launch, scratch->entries);
    TRY(clprune__launch_enqueue(&launch, 1, &global, &local, NULL));
done:
    return status;
}

clprune_status clprune__bspmm_finish(clprune_context *context, const clprune__bspmm_plan *plan,
    float alpha, float beta, const clprune__bspmm_scratch *scratch, clprune_mat dw, cl_event *event)
{
    clprune_status status = CLPRUNE_SUCCESS;
    enum { COLS = 64 };
    const size_t local = clprune__group_size(context, 64);
    const size_t strip = local == 1 ? 16 : 8;
    const size_t global =
        clprune__ceil_div(dw.rows, strip) * clprune__ceil_div(dw.cols, COLS) * local;
    clprune__defines defines = {0};
    clprune__define(&defines, "LOCAL", local);
    clprune__define(&defines, "PANEL", plan->panel);
    clprune__define(&defines, "STRIP", strip);
    clprune__define(&defines, "COLS", COLS);
    clprune__define(&defines, "READ_DW", beta != 0.0f);
    clprune__launch launch;
    TRY(clprune__launch_begin(context, &bspmm_finish_kernel, &defines, &launch));
    launch.least_group = 1;
    clprune__arg_ulong(&launch, dw.rows);
    clprune__arg_ulong(&launch, dw.cols);
    clprune__arg_ulong(&launch, plan->inner);
    clprune__arg_ulong(&launch, plan->panels);
    clprune__arg_ulong(&launch, plan->splits);
    clprune__arg_float(&launch, alpha);
    clprune__arg_float(&launch, beta);
    clprune__arg_region(&launch, scratch->partial);
    clprune__arg_mat(&launch, dw);
    TRY(clprune__launch_enqueue(&launch, 1, &global, &local, event));
done:
    return status;
}

void clprune__arg_tn_sizes(clprune__launch *launch, const clprune__bspmm_plan *plan,
    const clprune__bspmm_operands *operands)
{
    const clprune_bsr_desc *desc = &operands->xs->desc;
    clprune__arg_ulong(launch, desc->batch);
    clprune__arg_ulong(launch, desc->rows);
    clprune__arg_ulong(launch, operands->outputs);
    clprune__arg_ulong(launch, operands->sizes->block_cols);
    clprune__arg_ulong(launch, plan->segment);
    clprune__arg_ulong(launch, plan->segments);
    clprune__arg_ulong(launch, desc->keep);
}

void clprune__arg_tn_operands(clprune__launch *launch, const clprune__bspmm_operands *operands)
{
    clprune__arg_mat(launch, operands->dy);
    clprune__arg_region(launch, operands->scratch->values);
    clprune__arg_region(launch, operands->scratch->starts);
    clprune__arg_region(launch, operands->scratch->entries);
    clprune__arg_region(launch, operands->scratch->partial);
}

void clprune__arg_nt(clprune__launch *launch, const clprune__bspmm_plan *plan,
    const clprune__bspmm_operands *operands)
{
    const clprune_bsr_desc *desc = &operands->xs->desc;
    clprune__arg_ulong(launch, desc->batch);
    clprune__arg_ulong(launch, desc->rows);
    clprune__arg_ulong(launch, desc->cols);
    clprune__arg_ulong(launch, operands->outputs);
    clprune__arg_ulong(launch, operands->sizes->block_cols);
    clprune__arg_ulong(launch, plan->segments);
    clprune__arg_ulong(launch, desc->keep);
    clprune__arg_tn_operands(launch, operands);
}

/* The functions of a kernel family that plan and launch a product. */
typedef struct family {
    clprune__bspmm_plan (*plan)(const clprune_context *context, const clprune_bsr *xs,
        const clprune_bsr_sizes *sizes, size_t outputs);
    clprune_status (*multiply)(clprune_context *context, const clprune__bspmm_plan *plan,
        const clprune__bspmm_operands *operands);
} family;

/* dw = alpha * product + beta * dw; the product is not empty. `stored` is the matrix as the caller
 * passed it, operands.xs the same matrix with samples joined (join_samples). */
static clprune_status multiply(clprune_context *context, family kernels, float alpha, float beta,
    const clprune_bsr *stored, const clprune_bsr_sizes *stored_sizes,
    clprune__bspmm_operands operands, clprune_mat dw, cl_event *event)
{
    clprune_status status = CLPRUNE_SUCCESS;
    clprune__bspmm_scratch scratch = {
        .even_rows = operands.sizes->block_rows != stored_sizes->block_rows};
    const clprune_bsr *xs = operands.xs;
    const clprune_bsr_sizes *sizes = operands.sizes;
    const clprune__bspmm_plan plan = kernels.plan(context, xs, sizes, operands.outputs);
    const clprune__scratch_mark mark = clprune__scratch_begin(context);
    operands.scratch = &scratch;
    TRY(clprune__bsr_values(context, stored, &scratch.values));
    TRY(clprune__bsr_read_index(context, stored, stored_sizes, &scratch.index));
    TRY(clprune__bspmm_take_scratch(context, xs, sizes, &plan, &scratch));
    TRY(clprune__bspmm_list_columns(context, xs, sizes, &plan, &scratch));
    TRY(kernels.multiply(context, &plan, &operands));
    TRY(clprune__bspmm_finish(context, &plan, alpha, beta, &scratch, dw, event));
done:
    clprune__scratch_end(context, mark);
    return status;
}

/* Rows of a joined sample, at least; joined samples, at most. */
enum { JOINED_ROWS = 256, JOINED_SAMPLES = 16 };

/* Joins samples of one block row each, as those of a plain MLP, whose lists would have an entry or
 * none. Values and columns of `run` consecutive samples are those of one sample of `run` block
 * rows, which tn multiplies faster. The number of joined samples is enough for a CPU and does not
 * depend on its compute units. Other matrices stay as they are. */
static void join_samples(clprune_bsr *xs, clprune_bsr_sizes *sizes)
{
    clprune_bsr_desc *desc = &xs->desc;
    if (sizes->block_rows != 1 || desc->rows != desc->block.rows || desc->batch == 0)
        return;
    const size_t worth = clprune__max(1, desc->batch * desc->rows / JOINED_ROWS);
    const size_t samples =
        clprune__largest_divisor(desc->batch, clprune__min(worth, JOINED_SAMPLES));
    const size_t run = desc->batch / samples;
    if (run > INT_MAX / desc->keep || /* crow, col and the entries of a list are 32 bits */
        run > UINT32_MAX / (desc->keep * desc->rows))
        return;
    desc->batch = samples;
    desc->rows *= run;
    desc->keep *= run;
    sizes->block_rows = run;
    sizes->blocks = run * sizes->block_cols;
}

static family tn_family(const clprune_context *context)
{
    if (context->ops->precision != CLPRUNE_PRECISION_FP32)
        return (family){clprune__plan_tn_mma, clprune__multiply_tn_mma};
    if (context->kernels == CLPRUNE_KERNELS_VECTOR)
        return (family){clprune__plan_tn_vector, clprune__multiply_tn_vector};
    return (family){clprune__plan_tn_tiled, clprune__multiply_tn_tiled};
}

clprune_status clprune_bspmm_tn(clprune_context *context, float alpha, float beta, clprune_mat dy,
    const clprune_bsr *xs, clprune_mat dw, cl_event *event)
{
    ENTER(context);
    clprune_status status = CLPRUNE_SUCCESS;
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
    join_samples(&joined, &joined_sizes);
    const clprune__bspmm_operands operands = {dy, dy.cols, &joined, &joined_sizes, NULL, NULL};
    TRY(multiply(context, tn_family(context), alpha, beta, xs, &sizes, operands, dw, event));
done:
    return status;
}

static family nt_family(const clprune_context *context)
{
    if (context->ops->precision != CLPRUNE_PRECISION_FP32)
        return (family){clprune__plan_nt_mma, clprune__multiply_nt_mma};
    if (context->kernels == CLPRUNE_KERNELS_VECTOR)
        return (family){clprune__plan_nt_vector, clprune__multiply_nt_vector};
    return (family){clprune__plan_nt_tiled, clprune__multiply_nt_tiled};
}

clprune_status clprune_bspmm_nt(clprune_context *context, float alpha, float beta, clprune_mat dy,
    const clprune_bsr *xs, clprune_mat dw, cl_event *event)
{
    ENTER(context);
    clprune_status status = CLPRUNE_SUCCESS;
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
    const clprune__bspmm_operands operands = {dy, outputs, xs, &sizes, NULL, NULL};
    TRY(multiply(context, nt_family(context), alpha, beta, xs, &sizes, operands, dw, event));
done:
    return status;
}

clprune_status clprune_bspmm_nn(clprune_context *context, float alpha, float beta,
    const clprune_bsr *xs, clprune_mat w, clprune_mat y, cl_event *event)
{
    ENTER(context);
    clprune_status status = CLPRUNE_SUCCESS;
    clprune_bsr_sizes sizes;
    const clprune__scratch_mark mark = clprune__scratch_begin(context);
    TRY(clprune__check_bsr(context, xs, &sizes));
    const clprune_bsr_desc *desc = &xs->desc;
    TRY(clprune__check_mat(context, "w", w, desc->cols, w.cols));
    TRY(clprune__check_mat(context, "y", y, desc->batch * desc->rows, w.cols));
    TRY(clprune__check_apart(context, "y", y, "w", w));
    TRY(clprune__check_bsr_apart(context, "y", clprune__bytes_of(y), xs));
    if (alpha == 0.0f || desc->keep == 0 || y.rows == 0 || y.cols == 0)
        return clprune__scale(context, beta, y, event);
    clprune__region values;
    clprune__index index;
    TRY(clprune__bsr_values(context, xs, &values));
    TRY(clprune__bsr_read_index(context, xs, &sizes, &index));
    const bool vector = context->kernels == CLPRUNE_KERNELS_VECTOR;
    const size_t local = clprune__group_size(context, 64);
    const size_t global = desc->batch * sizes.block_rows * local;
    clprune__defines defines = {0};
    clprune__define(&defines, "LOCAL", local);
    clprune__define(&defines, "VW", vector ? 16 : 1);
    clprune__define(&defines, "BR", desc->block.rows);
    clprune__define(&defines, "BC", desc->block.cols);
    clprune__define(&defines, "READ_Y", beta != 0.0f);
    clprune__launch launch;
    TRY(clprune__launch_begin(context, &bspmm_nn_kernel, &defines, &launch));
    launch.least_group = 1;
    clprune__arg_ulong(&launch, desc->rows);
    clprune__arg_ulong(&launch, desc->cols);
    clprune__arg_ulong(&launch, w.cols);
    clprune__arg_ulong(&launch, sizes.block_rows);
    clprune__arg_ulong(&launch, desc->keep);
    clprune__arg_float(&launch, alpha);
    clprune__arg_float(&launch, beta);
    clprune__arg_region(&launch, values);
    clprune__arg_index(&launch, &index);
    clprune__arg_mat(&launch, w);
    clprune__arg_mat(&launch, y);
    TRY(clprune__launch_enqueue(&launch, 1, &global, &local, event));
done:
    clprune__scratch_end(context, mark);
    return status;
}
