/* Dense products of samples on GPUs, of floats and of codes. */
#include "core/checked.h"
#include "ops/products/gemm_private.h"
#include "runtime/context/context_private.h"
#include "runtime/context/fail.h"
#include "runtime/launch/launch.h"
#include "runtime/memory/scratch.h"

static const clprune__kernel_def gemm_tiled_kernel = {"products/gemm_tiled.cl", "gemm_tiled"};
static const clprune__kernel_def gemm_tiled_quantised_kernel = {
    "products/gemm_tiled.cl", "gemm_tiled_quantised"};
static const clprune__kernel_def gemm_bf16_tiled_kernel = {
    "products/gemm_bf16_tiled.cl", "gemm_bf16_tiled"};

/* Samples of a launch: some GPUs allow no more groups along the third dimension. */
enum { MOST_SAMPLES = 65535 };

/* Floats of an operand that are read or written at once: 4 where all its rows allow it. */
static size_t row_vector(clprune_mat mat, size_t stride)
{
    return mat.offset % 4 == 0 && mat.ld % 4 == 0 && mat.cols % 4 == 0 && stride % 4 == 0 ? 4 : 1;
}

static clprune__gemm_tile tile_of(const clprune_context *context, const clprune__gemm_job *job)
{
    return clprune__gemm_is_bf16_tiled(job) ? clprune__gemm_bf16_tile(context, job->m, job->n)
                                            : clprune__gemm_tile_of(context);
}

/* One launch; job->batch <= MOST_SAMPLES. */
static clprune_status launch_samples(
    clprune_context *context, const clprune__gemm_job *job, cl_event *event)
{
    const bool bf16 = clprune__gemm_is_bf16_tiled(job);
    const clprune__gemm_tile tile = tile_of(context, job);
    const size_t local[3] = {tile.local, 1, 1};
    const size_t tiles =
        clprune__ceil_div(job->n, tile.cols) * clprune__ceil_div(job->m, tile.rows);
    const size_t global[3] = {tiles * tile.local, 1, job->batch};
    const clprune__quantised *q = job->quantised_b;
    clprune__defines defines = {0};
    if (bf16)
        clprune__gemm_bf16_tile_defines(context, &tile, &defines);
    else
        clprune__gemm_tile_defines(context, &defines);
    clprune__define(&defines, "TRANSPOSE_A", job->transpose_a);
    clprune__define(&defines, "TRANSPOSE_B", job->transpose_b);
    clprune__define(&defines, "BIAS", job->bias);
    clprune__define(&defines, "CV", row_vector(job->c, job->stride_c));
    if (job->c.type == CLPRUNE_VALUES_BF16)
        clprune__define(&defines, "C_BF16", 1);
    if (!bf16) {
        clprune__define(&defines, "AV", row_vector(job->a, job->stride_a));
        clprune__define(&defines, "BV", q != NULL ? 4 : row_vector(job->b, job->stride_b));
        if (job->a.type == CLPRUNE_VALUES_BF16)
            clprune__define(&defines, "A_BF16", 1);
    }
    if (q != NULL)
        clprune__quantised_defines(q, &defines);
    clprune__launch launch;
    TRY(clprune__launch_begin(context,
        bf16        ? &gemm_bf16_tiled_kernel
        : q != NULL ? &gemm_tiled_quantised_kernel
                    : &gemm_tiled_kernel,
        &defines, &launch));
    ARG_ULONGS(&launch, job->m, job->n, job->k, job->k_last > 0 ? job->k_last : job->k);
    clprune__arg_gemm(&launch, job);
    if (job->bias != CLPRUNE__NO_BIAS)
        clprune__arg_mat(&launch, job->bias_values);
    return clprune__launch_enqueue(&launch, 3, global, local, event);
}

/* Parts into which the sum of a single product is cut, so that it has groups for all units: as many
 * as they hold, parts of LEAST_STEPS at least, whose results fit PARTS_BYTES. */
static size_t parts_of(const clprune_context *context, const clprune__gemm_job *job)
{
    enum { LEAST_STEPS = 16, PARTS_BYTES = 16 << 20 };
    const clprune__gemm_tile tile = tile_of(context, job);
    if (!tile.mma || job->of_samples || job->bias != CLPRUNE__NO_BIAS ||
        job->c.type == CLPRUNE_VALUES_BF16 || (job->quantised_b != NULL && job->transpose_b))
        return 1;
    const size_t tiles =
        clprune__ceil_div(job->n, tile.cols) * clprune__ceil_div(job->m, tile.rows);
    const size_t wanted = tile.resident * context->facts.compute_units / tiles;
    const size_t fit = PARTS_BYTES / sizeof(float) / job->m / job->n;
    const size_t most = job->k / (LEAST_STEPS * tile.depth);
    return clprune__max(1, clprune__min(wanted, clprune__min(fit, most)));
}

/* The product as a sum of `parts` products, each of `run` of the inner size but the last. */
static clprune_status add_parts(
    clprune_context *context, const clprune__gemm_job *job, size_t parts, cl_event *event)
{
    SCRATCH_SCOPE(context);
    const size_t depth = tile_of(context, job).depth;
    const size_t run = clprune__round_up(clprune__ceil_div(job->k, parts), depth);
    const size_t count = clprune__ceil_div(job->k, run), results = job->m * job->n;
    clprune_mat products;
    TRY(clprune__scratch_mat(context, count, results, &products));
    clprune__gemm_job part = *job;
    part.batch = count;
    part.k = run;
    part.k_last = job->k - (count - 1) * run;
    part.stride_a = job->transpose_a ? run * job->a.ld : run;
    part.stride_b = job->quantised_b != NULL ? run : job->transpose_b ? run : run * job->b.ld;
    part.beta = 0.0f;
    part.c = (clprune_mat){products.buffer, products.offset, job->m, job->n, job->n, job->c.type};
    part.stride_c = results;
    TRY(launch_samples(context, &part, NULL));
    return clprune__sample_sum(context, job->beta, count, products, job->c, event);
}

clprune_status clprune__gemm_tiled(
    clprune_context *context, clprune__gemm_job *job, cl_event *event)
{
    SCRATCH_SCOPE(context);
    TRY(clprune__gemm_narrow(context, job));
    const size_t parts = parts_of(context, job);
    if (parts > 1)
        return add_parts(context, job, parts, event);
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
