/* Weight gradients of convolutions on GPUs: from dense images, pooled cells, codes and kept blocks.
 */
#include "core/checked.h"
#include "ops/codes/quantise_private.h"
#include "ops/conv/conv_private.h"
#include "ops/device/mma.h"
#include "ops/device/ops_state.h"
#include "ops/products/gemm_tile.h"
#include "runtime/context/context_private.h"
#include "runtime/context/fail.h"
#include "runtime/memory/scratch.h"

static const clprune__kernel_def conv_dw_tiled_kernel = {"conv/conv_dw_tiled.cl", "conv_dw_tiled"};
static const clprune__kernel_def conv_dw_tiled_quantised_kernel = {
    "conv/conv_dw_tiled.cl", "conv_dw_tiled_quantised"};

static const clprune__kernel_def conv_dw_pooled_tiled_kernel = {
    "conv/conv_dw_pooled_tiled.cl", "conv_dw_pooled_tiled"};

/* Of a split's pixels, counted in 31 bits; channels of a slice. */
enum { LONGEST_RUN = 1 << 30, SLICE = 16 };

/* A group has channels of one tap if x is pooled, because each tap has sums of dy of its own. Else
 * it has channels of several taps; but more taps than fit a word are products of cells of a pixel.
 */
clprune_status clprune__conv_dw_tiled(clprune_context *context, const clprune__conv *conv,
    const clprune__conv_source *from, float beta, clprune_mat dy, clprune_mat dw, cl_event *event)
{
    const bool pooled = from->cell > 1 || !clprune__conv_dw_tiled_flattens(conv);
    const clprune_extent cells = {clprune__ceil_div(conv->image.height, from->cell),
        clprune__ceil_div(conv->image.width, from->cell)};
    const clprune_extent grid = pooled ? cells : conv->output;
    const size_t pixels = conv->batch * grid.height * grid.width;
    const size_t taps = conv->kernel.height * conv->kernel.width;
    const clprune__gemm_tile tile = clprune__gemm_tile_of(context);
    clprune__bspmm_plan sums = {.inner = taps * conv->in,
        .panel = tile.cols,
        .panels = clprune__ceil_div(conv->out, tile.cols)};
    sums.groups = pooled ? taps * clprune__ceil_div(conv->in, tile.rows)
                         : clprune__ceil_div(sums.inner, tile.rows);
    sums.splits = clprune__max(clprune__ceil_div(pixels, LONGEST_RUN),
        clprune__tiled_splits(context, &sums, context->ops->tuning.tiled_tn.groups_per_unit,
            clprune__ceil_div(pixels, 4 * tile.cols)));
    const size_t run = clprune__round_up(clprune__ceil_div(pixels, sums.splits), tile.depth);
    sums.splits = clprune__ceil_div(pixels, run);
    if (clprune__conv_dw_takes_bf16(context, conv, from, dy.type == CLPRUNE_VALUES_BF16))
        return clprune__conv_dw_bf16(context, conv, from, beta, run, dy, dw, event);
    const size_t local[2] = {tile.local, 1};
    const size_t global[2] = {sums.panels * sums.groups * tile.local, sums.splits};
    SCRATCH_SCOPE(context);
    clprune__bspmm_scratch scratch = {.even_rows = false};
    TRY(clprune__conv_take_partial(context, &sums, &scratch));
    clprune__defines defines = {0};
    clprune__gemm_tile_defines(context, &defines);
    clprune__define(&defines, "XV",
        from->q == NULL     ? clprune__conv_row_vector(from->x, conv->in)
        : conv->in % 4 == 0 ? 4
                            : 1);
    clprune__define(&defines, "DYV", clprune__conv_row_vector(dy, conv->out));
    if (from->q != NULL)
        clprune__quantised_defines(from->q, &defines);
    clprune__launch launch;
    TRY(clprune__launch_begin(context,
        pooled            ? &conv_dw_pooled_tiled_kernel
        : from->q != NULL ? &conv_dw_tiled_quantised_kernel
                          : &conv_dw_tiled_kernel,
        &defines, &launch));
    clprune__arg_ulong(&launch, conv->batch);
    clprune__arg_uint(&launch, (uint32_t)conv->in);
    clprune__arg_uint(&launch, (uint32_t)conv->out);
    clprune__arg_conv(&launch, conv);
    const size_t slice = conv->in % SLICE == 0 ? SLICE : conv->in;
    clprune__arg_uint(&launch, (uint32_t)(pooled ? from->cell : slice));
    clprune__arg_ulong(&launch, run);
    if (from->q != NULL)
        clprune__arg_quantised(&launch, from->q);
    else
        clprune__arg_mat(&launch, from->x);
    clprune__arg_mat(&launch, dy);
    clprune__arg_region(&launch, scratch.partial);
    clprune__launch_multiplies(&launch, clprune__precision_on(context, tile.mma),
        (double)pixels * (double)taps * (double)conv->in * (double)conv->out);
    TRY(clprune__launch_enqueue(&launch, 2, global, local, NULL));
    return clprune__conv_finish_source(context, conv, from, &sums, beta, scratch, dw, event);
}

static void arg_pixels(clprune__launch *launch, const void *pixels)
{
    clprune__arg_conv(launch, pixels);
}

/* As bspmm_tn, whose rows are pixels here: dy is replaced by the results under a tap, and one
 * launch takes all taps over the same lists. */
clprune_status clprune__conv_dw_pruned_tiled(clprune_context *context, const clprune__conv *conv,
    float beta, const clprune_bsr *xs, const clprune_bsr_sizes *sizes, clprune_mat dy,
    clprune_mat dw, cl_event *event)
{
    SCRATCH_SCOPE(context);
    const size_t taps = conv->kernel.height * conv->kernel.width;
    clprune__bspmm_scratch scratch = {.even_rows = false};
    clprune__bspmm_plan plan = clprune__plan_tn_tiled(context, xs, sizes, conv->out);
    const size_t padded = plan.inner; /* channels of whole blocks */
    plan.inner *= taps;
    plan.groups *= taps;
    plan.splits = clprune__tiled_splits(
        context, &plan, context->ops->tuning.tiled_tn.groups_per_unit, conv->batch);
    const clprune__bspmm_operands operands = {
        dy, conv->out, xs, sizes, &scratch, .arg_pixels = arg_pixels, .pixels = conv, .taps = taps};
    TRY(clprune__bsr_values(context, xs, &scratch.values));
    TRY(clprune__bsr_read_index(context, xs, sizes, &scratch.index));
    TRY(clprune__bspmm_take_scratch(context, xs, sizes, &plan, &scratch));
    TRY(clprune__bspmm_list_columns(context, xs, sizes, &plan, &scratch));
    TRY(clprune__multiply_tn_tiled(context, &plan, &operands));
    return clprune__conv_finish(context, conv, &plan, padded, beta, scratch, dw, event);
}
