/* The forward product and dx of a convolution on CPUs: one work-item a group, register tiles of
 * 16-wide vectors. */
#include "core/checked.h"
#include "ops/conv/conv_private.h"
#include "ops/device/bf16.h"
#include "ops/device/ops_state.h"
#include "ops/products/gemm_private.h"
#include "runtime/context/check.h"
#include "runtime/context/context_private.h"
#include "runtime/context/fail.h"
#include "runtime/memory/scratch.h"

static const clprune__kernel_def conv_vector_kernel = {"conv/conv_vector.cl", "conv_vector"};
static const clprune__kernel_def conv_pairs_kernel = {"conv/conv_pairs.cl", "conv_pairs"};

/* Vector registers: sums must leave some for a row of the panel and a source pixel, or they spill.
 * Bytes of a panel, which stays in a second-level cache beside the pixels. Images whose pixels of
 * one position come side by side: with fewer, tiles lie less often as a whole in the padding of a
 * tap; with more, their sources leave the caches before the next position reads them. */
enum { REGISTERS = 32, PANEL_BYTES = 448 << 10, BLOCK_IMAGES = 16 };

/* Floats of a group that rounds pairs. */
enum { ROUNDED = 1 << 15 };

bool clprune__conv_takes_pairs(const clprune_context *context, const clprune__conv_gather *job)
{
    return context->ops->pairs != CLPRUNE__PAIRS_NONE && clprune__conv_uses_vectors(context) &&
           !clprune__conv_strips(context, job);
}

clprune_status clprune__conv_round_source(clprune_context *context, clprune_mat *from)
{
    clprune_mat pairs;
    TRY(clprune__scratch_mat(context, from->rows, clprune__ceil_div(from->cols, 2), &pairs));
    const size_t run = clprune__max(1, ROUNDED / from->cols), local = 1;
    const size_t global = clprune__ceil_div(from->rows, run);
    clprune__defines defines = {0};
    clprune__bf16_define(context, &defines);
    clprune__launch launch;
    TRY(clprune__launch_begin(context, &conv_pairs_kernel, &defines, &launch));
    clprune__arg_ulong(&launch, from->rows);
    clprune__arg_uint(&launch, (uint32_t)from->cols);
    clprune__arg_ulong(&launch, run);
    clprune__arg_mat(&launch, *from);
    clprune__arg_region(&launch, (clprune__region){pairs.buffer, pairs.offset, sizeof(float)});
    TRY(clprune__launch_enqueue(&launch, 1, &global, &local, NULL));
    *from = pairs;
    return CLPRUNE_SUCCESS;
}

clprune_status clprune__conv_gather_vector(
    clprune_context *context, const clprune__conv_gather *job, cl_event *event)
{
    if (clprune__conv_takes_amx(context, job))
        return clprune__conv_gather_amx(context, job, event);
    const clprune__tuning *tuning = &context->ops->tuning;
    const size_t rows = job->batch * job->grid.height * job->grid.width;
    const size_t taps = job->taps.height * job->taps.width;
    const size_t vectors = clprune__gemm_tile_vectors(tuning->gemm.tile_vectors, job->n);
    const size_t tile_rows = clprune__max(
        1, clprune__min(tuning->gemm.accumulators / vectors, (REGISTERS - 1 - vectors) / vectors));
    const size_t panels = clprune__ceil_div(job->n, 16 * vectors);
    /* Equal runs of taps. */
    const size_t k = clprune__conv_terms(context, job->k);
    const size_t fit = clprune__max(1, PANEL_BYTES / sizeof(float) / (16 * vectors) / k);
    const size_t run =
        clprune__max(1, clprune__ceil_div(taps, clprune__max(1, clprune__ceil_div(taps, fit))));
    /* Runs of panels: as long as enough groups for the device remain. */
    const size_t wanted = (size_t)context->facts.compute_units * tuning->gemm.groups_per_unit;
    const size_t most_rows = clprune__round_up(tuning->gemm.block_rows, tile_rows);
    const size_t ranges = clprune__ceil_div(rows, most_rows);
    const size_t panel_run =
        clprune__max(1, clprune__min(panels, panels * ranges / clprune__max(wanted, 1)));
    const size_t local[2] = {1, 1}, global[2] = {ranges, clprune__ceil_div(panels, panel_run)};
    SCRATCH_SCOPE(context);
    clprune__region packed;
    TRY(clprune__conv_pack_weights(context, job, vectors, true, k, &packed));
    clprune__defines defines = {0};
    clprune__bf16_define(context, &defines);
    clprune__define(&defines, "V", vectors);
    clprune__define(&defines, "MR", tile_rows);
    clprune__launch launch;
    TRY(clprune__launch_begin(context, &conv_vector_kernel, &defines, &launch));
    ARG_ULONGS(&launch, rows, most_rows, panel_run);
    clprune__arg_uint(&launch, (uint32_t)job->n);
    clprune__arg_uint(&launch, (uint32_t)k);
    clprune__arg_uint(&launch, (uint32_t)taps);
    clprune__arg_uint(&launch, (uint32_t)run);
    clprune__arg_ulong(&launch, job->batch);
    clprune__arg_ulong(
        &launch, clprune__ceil_div(job->batch, clprune__ceil_div(job->batch, BLOCK_IMAGES)));
    clprune__arg_gather_pixels(&launch, job);
    clprune__arg_gather_operands(&launch, job, packed);
    return clprune__launch_enqueue(&launch, 2, global, local, event);
}
