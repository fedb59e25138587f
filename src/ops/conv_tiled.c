/* How the products of a convolution run on GPUs. */
#include "core/checked.h"
#include "ops/bspmm_private.h"
#include "ops/conv_private.h"
#include "ops/ops_state.h"
#include "runtime/check.h"
#include "runtime/context_private.h"
#include "runtime/scratch.h"

static const clprune__kernel_def conv_tiled_kernel = {
    "conv_tiled.cl", "conv_tiled", "gemm_tile.clh"};
static const clprune__kernel_def conv_dw_tiled_kernel = {
    "conv_dw_tiled.cl", "conv_dw_tiled", "gemm_tile.clh"};

/* As in gemm_tile.clh: the results of a work-group, in both directions, and its work-items. */
enum { TILE = 64, LOCAL = 64 };

/* Floats that are read at once of rows that begin at multiples of `unit` elements. */
static size_t row_vector(clprune_mat mat, size_t unit)
{
    return mat.offset % 4 == 0 && mat.ld % 4 == 0 && unit % 4 == 0 ? 4 : 1;
}

clprune_status clprune__conv_gather_tiled(
    clprune_context *context, const clprune__conv_gather *job, cl_event *event)
{
    clprune_status status = CLPRUNE_SUCCESS;
    const size_t rows = job->batch * job->grid.height * job->grid.width;
    const size_t local[2] = {LOCAL, 1};
    const size_t global[2] = {
        clprune__ceil_div(job->n, TILE) * LOCAL, clprune__ceil_div(rows, TILE)};
    const bool bias = !clprune__is_absent(job->bias);
    clprune__defines defines = {0};
    clprune__define(&defines, "BACK", job->back);
    clprune__define(&defines, "FV", row_vector(job->from, job->k));
    clprune__define(&defines, "WV", row_vector(job->w, job->back ? job->n : job->k));
    clprune__launch launch;
    TRY(clprune__launch_begin(context, &conv_tiled_kernel, &defines, &launch));
    clprune__arg_ulong(&launch, rows);
    clprune__arg_uint(&launch, (uint32_t)job->n);
    clprune__arg_uint(&launch, (uint32_t)job->k);
    clprune__arg_uint(&launch, (uint32_t)(job->taps.height * job->taps.width));
    clprune__arg_gather(&launch, job);
    clprune__arg_float(&launch, job->beta);
    clprune__arg_uint(&launch, bias);
    clprune__arg_mat(&launch, job->from);
    clprune__arg_mat(&launch, job->w);
    clprune__arg_mat(&launch, bias ? job->bias : job->w); /* else not read */
    clprune__arg_mat(&launch, job->to);
    TRY(clprune__launch_enqueue(&launch, 2, global, local, event));
done:
    return status;
}

clprune_status clprune__conv_dw_tiled(clprune_context *context, const clprune__conv *conv,
    float beta, clprune_mat x, clprune_mat dy, clprune_mat dw, cl_event *event)
{
    clprune_status status = CLPRUNE_SUCCESS;
    const size_t pixels = conv->batch * conv->output.height * conv->output.width;
    const size_t taps = conv->kernel.height * conv->kernel.width;
    const size_t parts = taps * clprune__ceil_div(conv->in, TILE);
    clprune__bspmm_plan sums = {.inner = taps * conv->in,
        .panel = TILE,
        .panels = clprune__ceil_div(conv->out, TILE),
        .groups = parts};
    sums.splits = clprune__tiled_splits(context, &sums,
        context->ops->tuning.tiled_tn.groups_per_unit, clprune__ceil_div(pixels, 4 * TILE));
    const size_t run = clprune__ceil_div(pixels, sums.splits);
    sums.splits = clprune__ceil_div(pixels, run);
    const size_t local[3] = {LOCAL, 1, 1};
    const size_t global[3] = {sums.panels * LOCAL, parts, sums.splits};
    const clprune__scratch_mark mark = clprune__scratch_begin(context);
    clprune__bspmm_scratch scratch = {.partial = NULL};
    TRY(clprune__conv_take_partial(context, &sums, &scratch));
    clprune__defines defines = {0};
    clprune__define(&defines, "XV", row_vector(x, conv->in));
    clprune__define(&defines, "DYV", row_vector(dy, conv->out));
    clprune__launch launch;
    TRY(clprune__launch_begin(context, &conv_dw_tiled_kernel, &defines, &launch));
    clprune__arg_ulong(&launch, conv->batch);
    clprune__arg_uint(&launch, (uint32_t)conv->in);
    clprune__arg_uint(&launch, (uint32_t)conv->out);
    clprune__arg_conv(&launch, conv);
    clprune__arg_ulong(&launch, run);
    clprune__arg_mat(&launch, x);
    clprune__arg_mat(&launch, dy);
    clprune__arg_ulong(&launch, scratch.partial_offset);
    clprune__arg_mem(&launch, scratch.partial);
    TRY(clprune__launch_enqueue(&launch, 3, global, local, NULL));
    TRY(clprune__bspmm_finish(context, &sums, 1.0f, beta, &scratch, dw, event));
done:
    clprune__scratch_end(context, mark);
    return status;
}
