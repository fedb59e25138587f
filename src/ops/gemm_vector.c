#include <stdio.h>

#include "core/checked.h"
#include "ops/gemm_private.h"
#include "runtime/check.h"
#include "runtime/context_private.h"
#include "runtime/launch.h"

/* Rows of a packed panel at most, and rows of op(a) that pass over it. Deep panels pay although
 * they leave the first-level cache: c is updated less often. 240 x 384 floats of op(a) are 360 KiB,
 * for a second-level cache to hold beside the panel; of a transposed a, packed, it holds fewer. */
#define PANEL_DEPTH  384
#define BLOCK_ROWS   240
#define PACKED_DEPTH 256
#define PACKED_ROWS  96
/* Groups that keep a compute unit busy to the end. */
#define GROUPS_PER_UNIT 6
#define MAX_VECTORS     8

size_t clprune__choose_vectors(size_t outputs, size_t tile)
{
    size_t best = 1;
    double best_rate = 0.0;
    for (size_t v = 1; v <= MAX_VECTORS && v * tile <= CLPRUNE__MAX_ACCUMULATORS; v++) {
        const double padded = (double)(clprune__ceil_div(outputs, 16 * v) * 16 * v);
        const double work = (double)(v * tile);
        const double rate = (double)outputs / padded * work / (work + (double)v + 2.0);
        if (rate > best_rate * 1.001) {
            best_rate = rate;
            best = v;
        }
    }
    return best;
}

size_t clprune__panel_rows(const clprune_context *context, size_t most, size_t width)
{
    const size_t spare = 1024;
    const size_t budget =
        context->local_memory > 2 * spare ? (size_t)context->local_memory - spare : spare;
    size_t rows = most;
    while (rows > 1 && rows * width * sizeof(float) > budget)
        rows /= 2;
    return rows;
}

clprune_status clprune__gemm_vector(
    clprune_context *context, const clprune__gemm_job *job, cl_event *event)
{
    clprune_status status = CLPRUNE_SUCCESS;
    /* Tiles of 6 x 64, but narrower ones where that would mostly be padding. */
    size_t vectors = 4;
    while (vectors > 1 && job->n <= 16 * (vectors - 1))
        vectors--;
    const size_t tile_rows = CLPRUNE__MAX_ACCUMULATORS / vectors;
    const size_t panels = clprune__ceil_div(job->n, 16 * vectors);
    const size_t most_rows = clprune__round_up(
        job->transpose_a ? PACKED_ROWS : BLOCK_ROWS, 48); /* 48: a multiple of every tile's rows */
    const size_t floats_a_row = 16 * vectors + (job->transpose_a ? most_rows : 0);
    const size_t most_depth =
        clprune__panel_rows(context, job->transpose_a ? PACKED_DEPTH : PANEL_DEPTH, floats_a_row);
    const size_t depth =
        clprune__ceil_div(job->k, clprune__ceil_div(job->k, most_depth)); /* equal panels */
    const size_t ranges = clprune__ceil_div(job->m, most_rows);
    /* Runs of panels as long as groups enough for the device remain. */
    const size_t wanted = (size_t)context->compute_units * GROUPS_PER_UNIT;
    const size_t run = clprune__max(
        1, clprune__min(panels, panels * ranges * job->batch / clprune__max(wanted, 1)));
    const size_t local[3] = {1, 1, 1};
    const size_t global[3] = {clprune__ceil_div(panels, run), ranges, job->batch};
    char defines[128];
    (void)snprintf(defines, sizeof defines,
        "-DV=%zu -DMR=%zu -DKC=%zu -DMC=%zu -DTRANSPOSE_A=%d -DTRANSPOSE_B=%d -DBIAS=%d", vectors,
        tile_rows, most_depth, most_rows, job->transpose_a, job->transpose_b, (int)job->bias);
    clprune__launch launch;
    TRY(clprune__launch_begin(context, CLPRUNE__GEMM_VECTOR, defines, &launch));
    clprune__arg_ulong(&launch, job->m);
    clprune__arg_ulong(&launch, job->n);
    clprune__arg_ulong(&launch, job->k);
    clprune__arg_uint(&launch, (cl_uint)depth);
    clprune__arg_ulong(&launch, run);
    clprune__arg_float(&launch, job->alpha);
    clprune__arg_float(&launch, job->beta);
    clprune__arg_mat(&launch, job->a);
    clprune__arg_ulong(&launch, job->stride_a);
    clprune__arg_mat(&launch, job->b);
    clprune__arg_ulong(&launch, job->stride_b);
    clprune__arg_mat(&launch, job->c);
    clprune__arg_ulong(&launch, job->stride_c);
    if (job->bias != CLPRUNE__NO_BIAS)
        clprune__arg_mat(&launch, job->bias_values);
    TRY(clprune__launch_enqueue(&launch, 3, global, local, event));
done:
    return status;
}
