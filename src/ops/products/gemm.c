/* Dense products: which engine makes them. */
#include "clprune/gemm.h"

#include "ops/device/ops_state.h"
#include "ops/products/gemm_private.h"
#include "runtime/context/check.h"
#include "runtime/context/context_private.h"
#include "runtime/memory/scratch.h"

clprune__gemm_engine clprune__gemm_choose(
    const clprune_context *context, clprune__gemm_switch choice)
{
    switch (choice) {
    case CLPRUNE__GEMM_VECTOR:
        return CLPRUNE__ENGINE_VECTOR;
    case CLPRUNE__GEMM_TILED:
        return CLPRUNE__ENGINE_TILED;
    case CLPRUNE__GEMM_BLAST:
        return CLPRUNE__ENGINE_BLAST;
    case CLPRUNE__GEMM_AUTO:
        break;
    }
    return context->kernels == CLPRUNE_KERNELS_VECTOR ? CLPRUNE__ENGINE_VECTOR
                                                      : CLPRUNE__ENGINE_BY_KIND;
}

/* Work-items of CLBlast's largest groups; on devices that allow fewer, its products of some sizes
 * fail. */
enum { BLAST_GROUP = 256 };

static clprune__gemm_engine own_engine(const clprune_context *context)
{
    return clprune__gemm_tiled_fits(context) ? CLPRUNE__ENGINE_TILED : CLPRUNE__ENGINE_VECTOR;
}

/* Products of samples take the tiled kernel. CLBlast would multiply them one by one, each too small
 * for a GPU, and its batched products abort the process if a hidden temporary cannot be allocated.
 * `of_samples` decides, not the batch: a last sample that is multiplied alone then has the bits
 * that it has in the whole batch. */
static clprune__gemm_engine engine_of(const clprune_context *context, bool of_samples)
{
    clprune__gemm_engine engine = context->ops->gemm_engine;
    if (engine == CLPRUNE__ENGINE_BY_KIND) {
        const bool small = context->facts.max_work_group < BLAST_GROUP;
        const bool tiled = of_samples || small || clprune__gemm_tile_of(context).mma;
        engine = tiled ? CLPRUNE__ENGINE_TILED : CLPRUNE__ENGINE_BLAST;
    }
    if (engine == CLPRUNE__ENGINE_TILED && !clprune__gemm_tiled_fits(context))
        engine = CLPRUNE__ENGINE_BLAST;
    if (engine == CLPRUNE__ENGINE_BLAST && !clprune__gemm_blast_built)
        engine = own_engine(context);
    return engine;
}

/* Of any job: CLBlast and the tiles of floats have no tensor cores. */
static bool on_tensor_cores(const clprune_context *context)
{
    return engine_of(context, false) == CLPRUNE__ENGINE_TILED && clprune__gemm_tile_of(context).mma;
}

bool clprune__gemm_reads_bf16(const clprune_context *context)
{
    if (context == NULL)
        return false;
    return engine_of(context, false) == CLPRUNE__ENGINE_VECTOR
               ? context->ops->pairs != CLPRUNE__PAIRS_NONE
               : on_tensor_cores(context) && context->ops->precision == CLPRUNE_PRECISION_BF16;
}

bool clprune__gemm_reads_bf16_dy(const clprune_context *context)
{
    return clprune__gemm_reads_bf16(context) && on_tensor_cores(context);
}

bool clprune__gemm_fuses_bias(const clprune_context *context, bool of_samples)
{
    return engine_of(context, of_samples) != CLPRUNE__ENGINE_BLAST;
}

/* A c of bf16 whose sums take several panels: through floats in scratch. */
static clprune_status round_product(
    clprune_context *context, clprune__gemm_job *job, cl_event *event)
{
    SCRATCH_SCOPE(context);
    const clprune_mat c = job->c;
    const size_t rows = job->batch * job->m, stride = job->stride_c;
    const clprune_mat all = {c.buffer, c.offset, rows, job->n, c.ld, c.type};
    clprune__quantised rounded;
    clprune_mat sums;
    REQUIRE(job->batch == 1 || stride == job->m * c.ld, CLPRUNE_INVALID_ARGUMENT,
        "samples of a c of bf16 do not follow each other");
    TRY(clprune__quantised_view(context, "c", all, &rounded));
    TRY(clprune__scratch_mat(context, rows, job->n, &sums));
    job->c = clprune_mat_rows(sums, 0, job->m);
    job->stride_c = job->m * sums.ld;
    TRY(clprune__gemm_bf16(context, job, NULL));
    job->c = c;
    job->stride_c = stride;
    return clprune__quantise(context, NULL, 1, 0, sums, &rounded, event);
}

clprune_status clprune__gemm(clprune_context *context, clprune__gemm_job *job, cl_event *event)
{
    const bool narrow = clprune__gemm_reads_bf16(context);
    TRY(clprune__gemm_settle(
        context, job, narrow && (!job->transpose_a || on_tensor_cores(context)), narrow));
    const clprune_mat c = job->c;
    const size_t batch = job->batch, m = job->m, n = job->n, k = job->k;
    const bool empty = batch == 0 || m == 0 || n == 0;
    const bool scales = k == 0 || job->alpha == 0.0f; /* a and b are not read */
    clprune__gemm_engine engine = engine_of(context, job->of_samples);
    const clprune__gemm_engine own = own_engine(context);
    if (job->quantised_b != NULL && engine == CLPRUNE__ENGINE_BLAST) /* only our own read codes */
        engine = own;
    if (empty || scales || engine == CLPRUNE__ENGINE_BLAST)
        job->bias = CLPRUNE__NO_BIAS;
    if (empty || scales || engine != CLPRUNE__ENGINE_VECTOR)
        job->scores.to.buffer = NULL;
    if (empty) {
        TRY(clprune__empty_event(context, event));
        return CLPRUNE_SUCCESS;
    }
    TRY(clprune__gemm_check_samples(context, job));
    if (scales) {
        for (size_t i = 0; i < batch; i++) {
            const clprune_mat ci = {c.buffer, c.offset + i * job->stride_c, m, n, c.ld, c.type};
            TRY(clprune__scale(context, job->beta, ci, i + 1 == batch ? event : NULL));
        }
        return CLPRUNE_SUCCESS;
    }
    if (engine == CLPRUNE__ENGINE_BLAST && !clprune__gemm_blast_reaches(context, job))
        engine = own;
    const bool bf16 =
        engine == CLPRUNE__ENGINE_VECTOR && context->ops->pairs != CLPRUNE__PAIRS_NONE;
    if (bf16 && c.type == CLPRUNE_VALUES_BF16 && !clprune__gemm_bf16_at_once(context, job))
        TRY(round_product(context, job, event));
    else if (bf16)
        TRY(clprune__gemm_bf16(context, job, event));
    else if (engine == CLPRUNE__ENGINE_VECTOR)
        TRY(clprune__gemm_vector(context, job, event));
    else if (engine == CLPRUNE__ENGINE_TILED)
        TRY(clprune__gemm_tiled(context, job, event));
    else
        TRY(clprune__gemm_blast(context, job, event));
    return CLPRUNE_SUCCESS;
}

clprune_status clprune__gemm_batched(clprune_context *context, size_t batch, bool transpose_a,
    bool transpose_b, float alpha, float beta, clprune_mat a, size_t stride_a, clprune_mat b,
    size_t stride_b, clprune_mat c, size_t stride_c, cl_event *event)
{
    clprune__gemm_job job = {.batch = batch,
        .of_samples = true,
        .transpose_a = transpose_a,
        .transpose_b = transpose_b,
        .alpha = alpha,
        .beta = beta,
        .a = a,
        .b = b,
        .c = c,
        .stride_a = stride_a,
        .stride_b = stride_b,
        .stride_c = stride_c};
    return clprune__gemm(context, &job, event);
}

clprune_status clprune__gemm_single(clprune_context *context, bool transpose_a, bool transpose_b,
    float alpha, float beta, clprune_mat a, clprune_mat b, clprune_mat c, cl_event *event)
{
    clprune__gemm_job job = {.batch = 1,
        .transpose_a = transpose_a,
        .transpose_b = transpose_b,
        .alpha = alpha,
        .beta = beta,
        .a = a,
        .b = b,
        .c = c};
    return clprune__gemm(context, &job, event);
}

clprune_status clprune_gemm_batched(clprune_context *context, size_t batch, bool transpose_a,
    bool transpose_b, float alpha, float beta, clprune_mat a, size_t stride_a, clprune_mat b,
    size_t stride_b, clprune_mat c, size_t stride_c, cl_event *event)
{
    ENTER(context);
    return clprune__gemm_batched(context, batch, transpose_a, transpose_b, alpha, beta, a, stride_a,
        b, stride_b, c, stride_c, event);
}

clprune_status clprune_gemm(clprune_context *context, bool transpose_a, bool transpose_b,
    float alpha, float beta, clprune_mat a, clprune_mat b, clprune_mat c, cl_event *event)
{
    ENTER(context);
    return clprune__gemm_single(context, transpose_a, transpose_b, alpha, beta, a, b, c, event);
}
