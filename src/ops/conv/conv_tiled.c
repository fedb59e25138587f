/* The forward product and dx of a convolution on GPUs. */
#include "core/checked.h"
#include "ops/conv/conv_private.h"
#include "ops/device/mma.h"
#include "ops/products/gemm_tile.h"
#include "runtime/context/check.h"

static const clprune__kernel_def conv_tiled_kernel = {"conv/conv_tiled.cl", "conv_tiled"};

clprune_status clprune__conv_gather_tiled(
    clprune_context *context, const clprune__conv_gather *job, cl_event *event)
{
    const size_t rows = job->batch * job->grid.height * job->grid.width;
    const clprune__gemm_tile tile = clprune__gemm_tile_of(context);
    const size_t local = tile.local;
    const size_t global =
        clprune__ceil_div(job->n, tile.cols) * clprune__ceil_div(rows, tile.rows) * local;
    const bool bias = !clprune__is_absent(job->bias);
    clprune__defines defines = {0};
    clprune__gemm_tile_defines(context, &defines);
    clprune__define(&defines, "BACK", job->back);
    clprune__define(&defines, "FV", clprune__conv_row_vector(job->from, job->k));
    clprune__define(&defines, "WV", clprune__conv_row_vector(job->w, job->back ? job->n : job->k));
    clprune__launch launch;
    TRY(clprune__launch_begin(context, &conv_tiled_kernel, &defines, &launch));
    clprune__arg_ulong(&launch, rows);
    clprune__arg_uint(&launch, (uint32_t)job->n);
    clprune__arg_uint(&launch, (uint32_t)job->k);
    clprune__arg_uint(&launch, (uint32_t)(job->taps.height * job->taps.width));
    clprune__arg_gather_pixels(&launch, job);
    clprune__arg_gather_weights(&launch, job);
    clprune__arg_float(&launch, job->beta);
    clprune__arg_uint(&launch, bias);
    ARG_MATS(&launch, job->from, job->w);
    clprune__arg_mat(&launch, bias ? job->bias : clprune__untouched(job->w));
    clprune__arg_mat(&launch, job->to);
    clprune__launch_multiplies(&launch, clprune__precision_on(context, tile.mma),
        (double)rows * (double)job->n * (double)job->k *
            (double)(job->taps.height * job->taps.width));
    return clprune__launch_enqueue(&launch, 1, &global, &local, event);
}
