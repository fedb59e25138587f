#include "clprune/gemm.h"

#include <limits.h>

#include "core/checked.h"
#include "ops/device/ops_state.h"
#include "ops/products/gemm_private.h"
#include "runtime/context/check.h"
#include "runtime/context/context_private.h"
#include "runtime/launch/launch.h"
#include "runtime/launch/rowwise.h"

static const clprune__kernel_def mat_scale_kernel = {"products/fill.cl", "mat_scale"};

clprune_status clprune__scale(clprune_context *context, float beta, clprune_mat c, cl_event *event)
{
    clprune_status status = CLPRUNE_SUCCESS;
    if (beta == 0.0f) {
        TRY(clprune_mat_fill(context, 0.0f, c, event));
        goto done;
    }
    const clprune__rowwise plan = clprune__rowwise_plan(context, c.rows, c.cols);
    clprune__launch launch;
    TRY(clprune__rowwise_begin(context, &mat_scale_kernel, &plan, &launch));
    clprune__arg_float(&launch, beta);
    clprune__arg_mat(&launch, c);
    TRY(clprune__rowwise_end(&launch, &plan, event));
done:
    return status;
}

/* Checks that sample `batch - 1` of an operand still lies in its buffer. */
static clprune_status check_last_sample(
    clprune_context *context, const char *name, clprune_mat mat, size_t batch, size_t stride)
{
    clprune_status status = CLPRUNE_SUCCESS;
    size_t shift;
    REQUIRE(clprune__mul(batch - 1, stride, &shift) && clprune__add(mat.offset, shift, &mat.offset),
        CLPRUNE_SIZE_OVERFLOW, "the offset of the last of %zu samples of %s overflows size_t",
        batch, name);
    TRY(clprune__check_mat(context, name, mat, mat.rows, mat.cols));
done:
    return status;
}

/* A matrix that holds all samples of a checked operand: rows of the same ld where the stride allows
 * it, else one row from the first element to the last. */
static clprune_mat all_samples(clprune_mat mat, size_t batch, size_t stride)
{
    if (mat.rows == 0 || mat.cols == 0)
        return CLPRUNE_NO_MAT;
    if (batch == 1 || stride % mat.ld == 0) {
        mat.rows += (batch - 1) * (stride / mat.ld);
        return mat;
    }
    const size_t span = (batch - 1) * stride + (mat.rows - 1) * mat.ld + mat.cols;
    return (clprune_mat){mat.buffer, mat.offset, 1, span, span};
}

void clprune__arg_gemm(clprune__launch *launch, const clprune__gemm_job *job)
{
    clprune__arg_float(launch, job->alpha);
    clprune__arg_float(launch, job->beta);
    clprune__arg_mat(launch, job->a);
    clprune__arg_ulong(launch, job->stride_a);
    if (job->quantised_b != NULL)
        clprune__arg_quantised(launch, job->quantised_b);
    else
        clprune__arg_mat(launch, job->b);
    clprune__arg_ulong(launch, job->stride_b);
    clprune__arg_mat(launch, job->c);
    clprune__arg_ulong(launch, job->stride_c);
    if (job->bias != CLPRUNE__NO_BIAS)
        clprune__arg_mat(launch, job->bias_values);
}

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

/* Products of samples take the tiled kernel. CLBlast would multiply them one by one, each too small
 * for a GPU, and its batched products abort the process if a hidden temporary cannot be allocated.
 * `of_samples` decides, not the batch: a last sample that is multiplied alone then has the bits
 * that it has in the whole batch. */
static clprune__gemm_engine engine_of(const clprune_context *context, bool of_samples)
{
    clprune__gemm_engine engine = context->ops->gemm_engine;
    if (engine == CLPRUNE__ENGINE_BY_KIND) {
        const bool small = context->facts.max_work_group < BLAST_GROUP;
        engine = of_samples || small ? CLPRUNE__ENGINE_TILED : CLPRUNE__ENGINE_BLAST;
    }
    if (engine == CLPRUNE__ENGINE_TILED && !clprune__gemm_tiled_fits(context))
        engine = CLPRUNE__ENGINE_BLAST;
    return engine;
}

/* Adds to *sum the elements of CLBlast's copy of an operand, padded to whole tiles; false on
 * overflow. */
static bool add_padded(size_t rows, size_t cols, size_t tile, size_t *sum)
{
    size_t padded;
    return clprune__mul(clprune__round_up(rows, tile), clprune__round_up(cols, tile), &padded) &&
           clprune__add(*sum, padded, sum);
}

/* An upper bound of the sides of CLBlast's tiles: 128 in its own parameters, maybe more in tuned
 * ones. */
static size_t blast_tile(const clprune_context *context)
{
    const clprune__blast_tuning tuned = clprune__tuning_blast(&context->ops->tuning, 0);
    size_t tile = 128;
    for (size_t i = 0; i < tuned.count; i++)
        tile = clprune__max(tile, tuned.values[i]);
    return tile;
}

/* Whether the indices of all elements of an operand in its buffer are below 2^31. */
static bool ends_early(clprune_mat mat, size_t batch, size_t stride)
{
    return mat.offset + (batch - 1) * stride + (mat.rows - 1) * mat.ld + mat.cols <= INT_MAX;
}

/* CLBlast indexes the operands' buffers and its temporary with ints; larger indices would wrap and
 * reach other memory. */
static bool blast_reaches(const clprune_context *context, const clprune__gemm_job *job)
{
    const size_t tile = blast_tile(context);
    size_t temporary = 0;
    return ends_early(job->a, job->batch, job->stride_a) &&
           ends_early(job->b, job->batch, job->stride_b) &&
           ends_early(job->c, job->batch, job->stride_c) &&
           add_padded(job->m, job->k, tile, &temporary) &&
           add_padded(job->k, job->n, tile, &temporary) &&
           add_padded(job->m, job->n, tile, &temporary) && temporary <= INT_MAX;
}

/* Checks b: k x n, or n x k if it is transposed. A quantised b holds all samples; its stride then
 * counts rows. */
static clprune_status check_b(
    clprune_context *context, clprune__gemm_job *job, size_t rows, size_t cols)
{
    clprune_status status = CLPRUNE_SUCCESS;
    const clprune__quantised *q = job->quantised_b;
    size_t all_rows;
    if (q == NULL) {
        TRY(clprune__check_mat(context, "b", job->b, rows, cols));
        goto done;
    }
    TRY(clprune__check_quantised(context, "b", q));
    REQUIRE(clprune__mul(job->batch, rows, &all_rows), CLPRUNE_SIZE_OVERFLOW,
        "b: the rows of %zu samples overflow size_t", job->batch);
    REQUIRE(q->desc.rows == all_rows && q->desc.cols == cols, CLPRUNE_INVALID_SIZE,
        "quantised b is %zu x %zu, expected %zu x %zu", q->desc.rows, q->desc.cols, all_rows, cols);
    job->stride_b = rows;
done:
    return status;
}

bool clprune__gemm_fuses_bias(const clprune_context *context, bool of_samples)
{
    return engine_of(context, of_samples) != CLPRUNE__ENGINE_BLAST;
}

clprune_status clprune__gemm(clprune_context *context, clprune__gemm_job *job, cl_event *event)
{
    clprune_status status = CLPRUNE_SUCCESS;
    const clprune_mat a = job->a, b = job->b, c = job->c;
    const size_t batch = job->batch, m = c.rows, n = c.cols, k = job->transpose_a ? a.rows : a.cols;
    job->m = m;
    job->n = n;
    job->k = k;
    TRY(clprune__check_mat(context, "a", a, job->transpose_a ? k : m, job->transpose_a ? m : k));
    TRY(check_b(context, job, job->transpose_b ? n : k, job->transpose_b ? k : n));
    TRY(clprune__check_mat(context, "c", c, m, n));
    const bool empty = batch == 0 || m == 0 || n == 0;
    const bool scales = k == 0 || job->alpha == 0.0f; /* a and b are not read */
    clprune__gemm_engine engine = engine_of(context, job->of_samples);
    const clprune__gemm_engine own =
        clprune__gemm_tiled_fits(context) ? CLPRUNE__ENGINE_TILED : CLPRUNE__ENGINE_VECTOR;
    if (job->quantised_b != NULL && engine == CLPRUNE__ENGINE_BLAST) /* only our own read codes */
        engine = own;
    if (empty || scales || engine == CLPRUNE__ENGINE_BLAST)
        job->bias = CLPRUNE__NO_BIAS;
    if (empty || scales || engine != CLPRUNE__ENGINE_VECTOR)
        job->scores.to.buffer = NULL;
    if (empty) {
        TRY(clprune__empty_event(context, event));
        goto done;
    }
    TRY(check_last_sample(context, "a", a, batch, job->stride_a));
    if (job->quantised_b == NULL)
        TRY(check_last_sample(context, "b", b, batch, job->stride_b));
    TRY(check_last_sample(context, "c", c, batch, job->stride_c));
    REQUIRE(batch == 1 || job->stride_c >= (m - 1) * c.ld + n, CLPRUNE_INVALID_ARGUMENT,
        "stride_c is %zu: the samples of c overlap", job->stride_c);
    const clprune_mat all_c = all_samples(c, batch, job->stride_c);
    TRY(clprune__check_apart(context, "c", all_c, "a", all_samples(a, batch, job->stride_a)));
    if (job->quantised_b == NULL)
        TRY(clprune__check_apart(context, "c", all_c, "b", all_samples(b, batch, job->stride_b)));
    else
        TRY(clprune__check_quantised_apart(context, "c", all_c, job->quantised_b));
    if (scales) {
        for (size_t i = 0; i < batch; i++) {
            const clprune_mat ci = {c.buffer, c.offset + i * job->stride_c, m, n, c.ld};
            TRY(clprune__scale(context, job->beta, ci, i + 1 == batch ? event : NULL));
        }
        goto done;
    }
    if (engine == CLPRUNE__ENGINE_BLAST && !blast_reaches(context, job))
        engine = own;
    if (engine == CLPRUNE__ENGINE_VECTOR)
        TRY(clprune__gemm_vector(context, job, event));
    else if (engine == CLPRUNE__ENGINE_TILED)
        TRY(clprune__gemm_tiled(context, job, event));
    else
        TRY(clprune__gemm_blast(context, job, event));
done:
    return status;
}

clprune_status clprune_gemm_batched(clprune_context *context, size_t batch, bool transpose_a,
    bool transpose_b, float alpha, float beta, clprune_mat a, size_t stride_a, clprune_mat b,
    size_t stride_b, clprune_mat c, size_t stride_c, cl_event *event)
{
    ENTER(context);
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

clprune_status clprune_gemm(clprune_context *context, bool transpose_a, bool transpose_b,
    float alpha, float beta, clprune_mat a, clprune_mat b, clprune_mat c, cl_event *event)
{
    ENTER(context);
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
