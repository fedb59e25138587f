/* Dense products of samples on GPUs, of floats and of codes. */
#include "core/checked.h"
#include "ops/products/gemm_private.h"
#include "ops/products/gemm_tile.h"
#include "runtime/context/fail.h"
#include "runtime/launch/launch.h"

static const clprune__kernel_def gemm_tiled_kernel = {"products/gemm_tiled.cl", "gemm_tiled"};
static const clprune__kernel_def gemm_tiled_quantised_kernel = {
    "products/gemm_tiled.cl", "gemm_tiled_quantised"};

/* Samples of a launch: some GPUs allow no more groups along the third dimension. */
enum { MOST_SAMPLES = 65535 };

/* Floats of an operand that are read or written at once: 4 where all its rows allow it. */
static size_t row_vector(clprune_mat mat, size_t stride)
{
    return mat.offset % 4 == 0 && mat.ld % 4 == 0 && mat.cols % 4 == 0 && stride % 4 == 0 ? 4 : 1;
}

/* One launch; job->batch <= MOST_SAMPLES. */
static clprune_status launch_samples(
    clprune_context *context, const clprune__gemm_job *job, cl_event *event)
{
    const size_t local[3] = {CLPRUNE__TILE_LOCAL, 1, 1};
    const size_t tiles = clprune__ceil_div(job->n, CLPRUNE__TILE) *
                         clprune__ceil_div(job->m, clprune__tile_rows(context));
    const size_t global[3] = {tiles * CLPRUNE__TILE_LOCAL, 1, job->batch};
    const clprune__quantised *q = job->quantised_b;
    clprune__defines defines = {0};
    clprune__define(&defines, "TRANSPOSE_A", job->transpose_a);
    clprune__define(&defines, "TRANSPOSE_B", job->transpose_b);
    clprune__define(&defines, "BIAS", job->bias);
    clprune__define(&defines, "AV", row_vector(job->a, job->stride_a));
    clprune__define(&defines, "BV", q != NULL ? 4 : row_vector(job->b, job->stride_b));
    clprune__define(&defines, "CV", row_vector(job->c, job->stride_c));
    clprune__tile_define(context, &defines);
    if (q != NULL)
        clprune__quantised_defines(q, &defines);
    clprune__launch launch;
    TRY(clprune__launch_begin(
        context, q != NULL ? &gemm_tiled_quantised_kernel : &gemm_tiled_kernel, &defines, &launch));
    ARG_ULONGS(&launch, job->m, job->n, job->k);
    clprune__arg_gemm(&launch, job);
    return clprune__launch_enqueue(&launch, 3, global, local, event);
}

clprune_status clprune__gemm_tiled(
    clprune_context *context, const clprune__gemm_job *job, cl_event *event)
{
    for (size_t first = 0; first < job->batch; first += MOST_SAMPLES) {
        const bool last = job->batch - first <= MOST_SAMPLES;
        clprune__gemm_job part = *job;
        clprune__quantised rows;
        part.batch = last ? job->batch - first : MOST_SAMPLES;
        part.a.offset += first * job->stride_a;
        part.b.offset += first * job->stride_b;
        part.c.offset += first * job->stride_c;
        if (job->quantised_b != NULL) {
            rows = clprune__quantised_rows(
                job->quantised_b, first * job->stride_b, part.batch * job->stride_b);
            part.quantised_b = &rows;
        }
        TRY(launch_samples(context, &part, last ? event : NULL));
    }
    return CLPRUNE_SUCCESS;
}
