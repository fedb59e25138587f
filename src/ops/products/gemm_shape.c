/* Dense products: their operands, the parameters of kernels, and what fits a device. */
#include "core/checked.h"
#include "ops/device/mma.h"
#include "ops/products/gemm_private.h"
#include "runtime/context/check.h"
#include "runtime/context/context_private.h"
#include "runtime/launch/launch.h"

/* Checks b: k x n, or n x k if it is transposed. A quantised b holds all samples; its stride then
 * counts rows. */
static clprune_status check_b(
    clprune_context *context, clprune__gemm_job *job, size_t rows, size_t cols)
{
    size_t all_rows;
    if (job->quantised_b == NULL) {
        TRY(clprune__check_mat_any(context, "b", job->b, rows, cols));
        if (job->b.type == CLPRUNE_VALUES_FP32)
            return CLPRUNE_SUCCESS;
        REQUIRE(job->batch == 1, CLPRUNE_INVALID_ARGUMENT,
            "b has elements of type %d, expected fp32 for the samples of a batch",
            (int)job->b.type);
        TRY(clprune__quantised_view(context, "b", job->b, &job->codes_b));
        job->quantised_b = &job->codes_b;
    }
    const clprune__quantised *q = job->quantised_b;
    TRY(clprune__check_quantised(context, "b", q));
    REQUIRE(clprune__mul(job->batch, rows, &all_rows), CLPRUNE_SIZE_OVERFLOW,
        "b: the rows of %zu samples overflow size_t", job->batch);
    REQUIRE(q->desc.rows == all_rows && q->desc.cols == cols, CLPRUNE_INVALID_SIZE,
        "quantised b is %zu x %zu, expected %zu x %zu", q->desc.rows, q->desc.cols, all_rows, cols);
    job->stride_b = rows;
    return CLPRUNE_SUCCESS;
}

clprune_status clprune__gemm_settle(
    clprune_context *context, clprune__gemm_job *job, bool bf16_a, bool bf16)
{
    const clprune_mat a = job->a, c = job->c;
    const size_t m = c.rows, n = c.cols, k = job->transpose_a ? a.rows : a.cols;
    job->m = m;
    job->n = n;
    job->k = k;
    const clprune__operand in = {
        "a", a, job->transpose_a ? k : m, job->transpose_a ? m : k, .bf16 = bf16_a};
    const clprune__operand out = {"c", c, m, n, .bf16 = bf16 && job->beta == 0.0f};
    TRY(clprune__check_operands(context, &in, 1, 1));
    TRY(check_b(context, job, job->transpose_b ? n : k, job->transpose_b ? k : n));
    TRY(clprune__check_operands(context, &out, 1, 1));
    return clprune__check_units(context, "c", c);
}

/* Checks that sample `batch - 1` of an operand still lies in its buffer. */
static clprune_status check_last_sample(
    clprune_context *context, const char *name, clprune_mat mat, size_t batch, size_t stride)
{
    size_t shift;
    REQUIRE(clprune__mul(batch - 1, stride, &shift) && clprune__add(mat.offset, shift, &mat.offset),
        CLPRUNE_SIZE_OVERFLOW, "the offset of the last of %zu samples of %s overflows size_t",
        batch, name);
    const clprune__operand operand = {name, mat, mat.rows, mat.cols, .bf16 = true};
    return clprune__check_operands(context, &operand, 1, 1);
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
    return (clprune_mat){mat.buffer, mat.offset, 1, span, span, mat.type};
}

clprune_status clprune__gemm_check_samples(clprune_context *context, const clprune__gemm_job *job)
{
    const clprune_mat a = job->a, b = job->b, c = job->c;
    const size_t batch = job->batch, m = job->m, n = job->n;
    REQUIRE(c.type != CLPRUNE_VALUES_BF16 || batch == 1 || job->stride_c % 2 == 0,
        CLPRUNE_INVALID_ARGUMENT, "c of bf16 has a stride of %zu, expected a multiple of 2",
        job->stride_c);
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
    return CLPRUNE_SUCCESS;
}

/* Of rows x cols elements of each sample, which may all be the same. */
static double bytes_of(
    const clprune__gemm_job *job, clprune_mat mat, size_t stride, double rows, double cols)
{
    const double samples = stride > 0 ? (double)job->batch : 1;
    return samples * rows * cols * (double)clprune__element_bytes(mat);
}

clprune_plan_work clprune__gemm_work(const clprune_context *context, const clprune__gemm_job *job)
{
    const clprune__quantised *q = job->quantised_b;
    const double m = (double)job->m, n = (double)job->n, k = (double)job->k;
    const double rows_b = job->transpose_b ? n : k, cols_b = job->transpose_b ? k : n;
    const double words = q != NULL ? (double)(q->codes.cols + q->groups.cols) : cols_b;
    const double left_out = job->k_last > 0 ? k - (double)job->k_last : 0; /* by the last part */
    const double written = job->beta != 0 ? 2 * n : n;                     /* and read */
    return (clprune_plan_work){.kernel = "CLBlast",
        .bytes = bytes_of(job, job->a, job->stride_a, m, k) +
                 bytes_of(job, q != NULL ? q->codes : job->b, job->stride_b, rows_b, words) +
                 bytes_of(job, job->c, job->stride_c, m, written),
        .multiplications = m * n * ((double)job->batch * k - left_out),
        .precision = clprune__precision_on(context, clprune__gemm_tile_of(context).mma)};
}

void clprune__arg_gemm(clprune__launch *launch, const clprune__gemm_job *job)
{
    clprune_plan_work work = clprune__gemm_work(launch->context, job);
    work.kernel = launch->work.kernel;
    ARG_FLOATS(launch, job->alpha, job->beta);
    clprune__arg_mat(launch, job->a);
    clprune__arg_ulong(launch, job->stride_a);
    if (job->quantised_b != NULL)
        clprune__arg_quantised(launch, job->quantised_b);
    else
        clprune__arg_mat(launch, job->b);
    clprune__arg_ulong(launch, job->stride_b);
    clprune__arg_mat(launch, job->c);
    clprune__arg_ulong(launch, job->stride_c);
    launch->work = work;
}

size_t clprune__panel_rows(const clprune_context *context, size_t most, size_t width)
{
    const size_t spare = 1024;
    const size_t budget = context->facts.local_memory > 2 * spare
                              ? (size_t)context->facts.local_memory - spare
                              : spare;
    size_t rows = most;
    while (rows > 1 && rows * width * sizeof(float) > budget)
        rows /= 2;
    return rows;
}
