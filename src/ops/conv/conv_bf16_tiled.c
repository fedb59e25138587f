/* Products of convolutions on tensor cores, of operands that lie in memory as bf16. */
#include "core/checked.h"
#include "ops/conv/conv_private.h"
#include "ops/device/ops_state.h"
#include "ops/products/gemm_private.h"
#include "ops/products/gemm_tile.h"
#include "runtime/context/context_private.h"
#include "runtime/context/fail.h"
#include "runtime/memory/scratch.h"

static const clprune__kernel_def conv_bf16_tiled_kernel = {
    "conv/conv_bf16_tiled.cl", "conv_bf16_tiled"};
static const clprune__kernel_def conv_dw_bf16_tiled_kernel = {
    "conv/conv_dw_bf16_tiled.cl", "conv_dw_bf16_tiled"};

/* Elements of a copy; more rows of results than the tiles of any device. */
enum { CHUNK = 8, MANY_ROWS = 1 << 30 };

static bool is_whole(clprune_mat mat)
{
    return mat.offset % CHUNK == 0 && mat.ld % CHUNK == 0;
}

bool clprune__conv_gathers_bf16(
    const clprune_context *context, const clprune__conv_gather *job, bool as_it_is)
{
    const size_t taps = job->taps.height * job->taps.width;
    const size_t rows = job->batch * job->grid.height * job->grid.width;
    return job->k % CHUNK == 0 &&
           clprune__gemm_takes_bf16(context, rows, job->n, taps * job->k, as_it_is);
}

clprune_status clprune__conv_gather_bf16(
    clprune_context *context, const clprune__conv_gather *job, cl_event *event)
{
    const size_t rows = job->batch * job->grid.height * job->grid.width;
    const size_t taps = job->taps.height * job->taps.width;
    const clprune__gemm_tile tile = clprune__gemm_bf16_tile(context, rows, job->n);
    const int64_t pixel = (int64_t)job->from.ld, row = (int64_t)job->source.width * pixel;
    SCRATCH_SCOPE(context);
    clprune_mat w;
    REQUIRE(is_whole(job->from), CLPRUNE_INVALID_ARGUMENT,
        "x of bf16 has ld %zu and offset %zu, expected multiples of %d on tensor cores",
        job->from.ld, job->from.offset, CHUNK);
    TRY(clprune__conv_weight_rows(context, job, CHUNK, CLPRUNE_VALUES_BF16, &w));
    clprune__defines defines = {0};
    clprune__gemm_bf16_tile_defines(context, &tile, &defines);
    clprune__define(&defines, "TV", clprune__conv_result_vector(job));
    clprune__define(&defines, "FEW", job->k < tile.depth);
    clprune__launch launch;
    TRY(clprune__launch_begin(context, &conv_bf16_tiled_kernel, &defines, &launch));
    clprune__arg_ulong(&launch, rows);
    clprune__arg_uint(&launch, (uint32_t)job->n);
    clprune__arg_uint(&launch, (uint32_t)job->k);
    clprune__arg_uint(&launch, (uint32_t)taps);
    clprune__arg_uint(&launch, (uint32_t)(taps * job->k));
    const int64_t across = job->tap_step_x * pixel;
    clprune__arg_ulong(&launch, (uint64_t)(across - (int64_t)job->k));
    clprune__arg_ulong(
        &launch, (uint64_t)(job->tap_step_y * row - ((int64_t)job->taps.width - 1) * across -
                            (int64_t)job->k));
    return clprune__conv_enqueue_tiles(&launch, job, &tile, w, event);
}

bool clprune__conv_dw_takes_bf16(const clprune_context *context, const clprune__conv *conv,
    const clprune__conv_source *from, bool as_it_is)
{
    const size_t pixels = conv->batch * conv->output.height * conv->output.width;
    size_t all;
    return from->cell == 1 && clprune__conv_dw_tiled_flattens(conv) && conv->in % CHUNK == 0 &&
           (from->q == NULL ||
               (from->q->desc.bits == 16 && is_whole(clprune__quantised_pairs(from->q)))) &&
           clprune__mul3(conv->batch, conv->image.height, conv->image.width, &all) &&
           all <= INT32_MAX &&
           clprune__gemm_takes_bf16(context, conv->kernel.height * conv->kernel.width * conv->in,
               conv->out, pixels, as_it_is || from->q != NULL);
}

/* The steps of conv_dw_bf16_tiled.cl from a pixel to that `depth` behind. */
static void arg_walk(clprune__launch *launch, const clprune__conv *c, size_t depth)
{
    const int32_t width = (int32_t)c->image.width, all = width * (int32_t)c->image.height;
    const int32_t stride_x = (int32_t)c->stride.width, stride_y = (int32_t)c->stride.height;
    const int32_t wrap_x = (int32_t)c->output.width * stride_x,
                  wrap_y = (int32_t)c->output.height * stride_y;
    const size_t rows = depth / c->output.width;
    const int32_t step_x = (int32_t)(depth % c->output.width) * stride_x,
                  step_y = (int32_t)(rows % c->output.height) * stride_y,
                  images = (int32_t)(rows / c->output.height);
    clprune__arg_uint(launch, (uint32_t)step_x);
    clprune__arg_uint(launch, (uint32_t)step_y);
    clprune__arg_uint(launch, (uint32_t)(step_x + step_y * width + images * all));
    clprune__arg_uint(launch, (uint32_t)wrap_x);
    clprune__arg_uint(launch, (uint32_t)(stride_y * width - wrap_x));
    clprune__arg_uint(launch, (uint32_t)wrap_y);
    clprune__arg_uint(launch, (uint32_t)(all - wrap_y * width));
}

clprune_status clprune__conv_dw_bf16(clprune_context *context, const clprune__conv *conv,
    const clprune__conv_source *from, float beta, size_t run, clprune_mat dy, clprune_mat dw,
    cl_event *event)
{
    const size_t pixels = conv->batch * conv->output.height * conv->output.width;
    const clprune__gemm_tile tile =
        clprune__gemm_bf16_tile(context, MANY_ROWS, conv->out); /* splits fill the device */
    clprune__bspmm_plan sums = {.inner = conv->kernel.height * conv->kernel.width * conv->in,
        .panel = tile.cols,
        .panels = clprune__ceil_div(conv->out, tile.cols),
        .splits = clprune__ceil_div(pixels, run)};
    sums.groups = clprune__ceil_div(sums.inner, tile.rows);
    const size_t local[2] = {tile.local, 1};
    const size_t global[2] = {sums.panels * sums.groups * tile.local, sums.splits};
    SCRATCH_SCOPE(context);
    clprune__bspmm_scratch scratch = {.even_rows = false};
    clprune_mat x = from->q != NULL ? clprune__quantised_pairs(from->q) : from->x;
    TRY(clprune__gemm_to_bf16(context, &x));
    TRY(clprune__gemm_to_bf16(context, &dy));
    TRY(clprune__conv_take_partial(context, &sums, &scratch));
    clprune__defines defines = {0};
    clprune__gemm_bf16_tile_defines(context, &tile, &defines);
    clprune__launch launch;
    TRY(clprune__launch_begin(context, &conv_dw_bf16_tiled_kernel, &defines, &launch));
    clprune__arg_ulong(&launch, conv->batch);
    clprune__arg_uint(&launch, (uint32_t)conv->in);
    clprune__arg_uint(&launch, (uint32_t)conv->out);
    clprune__arg_conv(&launch, conv);
    arg_walk(&launch, conv, tile.depth);
    clprune__arg_ulong(&launch, run);
    ARG_MATS(&launch, x, dy);
    clprune__arg_region(&launch, scratch.partial);
    clprune__launch_multiplies(
        &launch, CLPRUNE_PRECISION_BF16, (double)pixels * (double)sums.inner * (double)conv->out);
    TRY(clprune__launch_enqueue(&launch, 2, global, local, NULL));
    return clprune__conv_finish_source(context, conv, from, &sums, beta, scratch, dw, event);
}
