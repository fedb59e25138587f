#include "clprune/gemm.h"

#include <clblast_c.h>
#include <pthread.h>

#include "core/checked.h"
#include "runtime/check.h"
#include "runtime/context_private.h"
#include "runtime/tuning.h"

/* Serialises the parts of CLBlast that race: its first call in a process fills a static database
 * without a lock, and overriding parameters changes it. */
static pthread_mutex_t blast_mutex = PTHREAD_MUTEX_INITIALIZER;

static clprune_status fail_blast(
    clprune_context *context, CLBlastStatusCode code, int line, const char *expression)
{
    clprune_status status = CLPRUNE_CLBLAST_ERROR;
    if (code == CLBlastTempBufferAllocFailure || code == CLBlastOpenCLOutOfResources)
        status = CLPRUNE_OUT_OF_DEVICE_MEMORY;
    else if (code == CLBlastOpenCLOutOfHostMemory)
        status = CLPRUNE_OUT_OF_HOST_MEMORY;
    return clprune__fail(
        context, status, __FILE__, line, expression, "CLBlast status %d", (int)code);
}

#define TRY_BLAST(call)                                                                            \
    do {                                                                                           \
        const CLBlastStatusCode code_ = (call);                                                    \
        if (code_ != CLBlastSuccess) {                                                             \
            status = fail_blast(context, code_, __LINE__, #call);                                  \
            goto done;                                                                             \
        }                                                                                          \
    } while (0)

/* Tells CLBlast this device's parameters; a set it refuses leaves its own default in place. */
static clprune_status blast_prepare(clprune_context *context)
{
    clprune_status status = CLPRUNE_SUCCESS;
    if (context->blast_ready)
        return status;
    (void)pthread_mutex_lock(&blast_mutex);
    size_t count;
    const clprune__blast_tuning *rows = clprune__blast_tuning_for(context, &count);
    for (size_t i = 0; i < count; i++) {
        const CLBlastStatusCode code = CLBlastOverrideParameters(context->device, rows[i].kernel,
            CLBlastPrecisionSingle, rows[i].count, (const char **)rows[i].names, rows[i].values);
        if (code != CLBlastSuccess)
            clprune__log(context, CLPRUNE_LOG_WARNING, "CLBlast refused parameters of %s: %d",
                rows[i].kernel, (int)code);
    }
    /* The first call of all, on one element. */
    cl_mem one = NULL;
    TRY(clprune__scratch_gemm(context, sizeof(float), &one));
    cl_command_queue queue = context->queue;
    TRY_BLAST(CLBlastSscal(1, 0.0f, one, 0, 1, &queue, NULL));
    context->blast_ready = true;
done:
    (void)pthread_mutex_unlock(&blast_mutex);
    return status;
}

/* The sizes of one product, from its operands. */
typedef struct gemm_sizes {
    size_t m, n, k;
} gemm_sizes;

static clprune_status check_operands(clprune_context *context, bool transpose_a, bool transpose_b,
    clprune_mat a, clprune_mat b, clprune_mat c, gemm_sizes *sizes)
{
    clprune_status status = CLPRUNE_SUCCESS;
    const size_t m = c.rows, n = c.cols, k = transpose_a ? a.rows : a.cols;
    *sizes = (gemm_sizes){m, n, k};
    TRY(clprune__check_mat(context, "a", a, transpose_a ? k : m, transpose_a ? m : k));
    TRY(clprune__check_mat(context, "b", b, transpose_b ? n : k, transpose_b ? k : n));
    TRY(clprune__check_mat(context, "c", c, m, n));
    TRY(clprune__check_apart(context, "c", c, "a", a));
    TRY(clprune__check_apart(context, "c", c, "b", b));
done:
    return status;
}

/* c = beta * c, where the sum is empty. */
static clprune_status scale(clprune_context *context, float beta, clprune_mat c, cl_event *event)
{
    clprune_status status = CLPRUNE_SUCCESS;
    if (beta == 0.0f) {
        TRY(clprune_mat_fill(context, 0.0f, c, event));
    } else if (beta == 1.0f || c.rows == 0 || c.cols == 0) {
        TRY(clprune__empty_event(context, event));
    } else {
        TRY(blast_prepare(context));
        cl_command_queue queue = context->queue;
        for (size_t r = 0; r < c.rows; r++)
            TRY_BLAST(CLBlastSscal(c.cols, beta, c.buffer, c.offset + r * c.ld, 1, &queue,
                r + 1 == c.rows ? event : NULL));
    }
done:
    return status;
}

clprune_status clprune_gemm(clprune_context *context, bool transpose_a, bool transpose_b,
    float alpha, float beta, clprune_mat a, clprune_mat b, clprune_mat c, cl_event *event)
{
    clprune_status status = CLPRUNE_SUCCESS;
    gemm_sizes size;
    TRY(check_operands(context, transpose_a, transpose_b, a, b, c, &size));
    if (size.m == 0 || size.n == 0 || size.k == 0) {
        TRY(scale(context, beta, c, event));
        goto done;
    }
    TRY(blast_prepare(context));
    const CLBlastTranspose ta = transpose_a ? CLBlastTransposeYes : CLBlastTransposeNo;
    const CLBlastTranspose tb = transpose_b ? CLBlastTransposeYes : CLBlastTransposeNo;
    cl_command_queue queue = context->queue;
    /* CLBlast aborts the process where a hidden temporary cannot be had, so it is ours. */
    size_t bytes = 0;
    cl_mem temporary;
    TRY_BLAST(CLBlastSGemmTempBufferSize(CLBlastLayoutRowMajor, ta, tb, size.m, size.n, size.k,
        a.offset, a.ld, b.offset, b.ld, c.offset, c.ld, &queue, &bytes));
    TRY(clprune__scratch_gemm(context, bytes, &temporary));
    TRY_BLAST(CLBlastSgemmWithTempBuffer(CLBlastLayoutRowMajor, ta, tb, size.m, size.n, size.k,
        alpha, a.buffer, a.offset, a.ld, b.buffer, b.offset, b.ld, beta, c.buffer, c.offset, c.ld,
        &queue, event, temporary));
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
        CLPRUNE_SIZE_OVERFLOW, "the last of %zu samples of %s", batch, name);
    TRY(clprune__check_mat(context, name, mat, mat.rows, mat.cols));
done:
    return status;
}

clprune_status clprune_gemm_batched(clprune_context *context, size_t batch, bool transpose_a,
    bool transpose_b, float alpha, float beta, clprune_mat a, size_t stride_a, clprune_mat b,
    size_t stride_b, clprune_mat c, size_t stride_c, cl_event *event)
{
    clprune_status status = CLPRUNE_SUCCESS;
    gemm_sizes size;
    TRY(check_operands(context, transpose_a, transpose_b, a, b, c, &size));
    if (batch == 0) {
        TRY(clprune__empty_event(context, event));
        goto done;
    }
    TRY(check_last_sample(context, "a", a, batch, stride_a));
    TRY(check_last_sample(context, "b", b, batch, stride_b));
    TRY(check_last_sample(context, "c", c, batch, stride_c));
    REQUIRE(batch == 1 || size.m == 0 || size.n == 0 || stride_c >= (size.m - 1) * c.ld + size.n,
        CLPRUNE_INVALID_ARGUMENT, "stride_c is %zu: the samples of c overlap", stride_c);
    for (size_t i = 0; i < batch; i++) {
        const clprune_mat ai = {a.buffer, a.offset + i * stride_a, a.rows, a.cols, a.ld};
        const clprune_mat bi = {b.buffer, b.offset + i * stride_b, b.rows, b.cols, b.ld};
        const clprune_mat ci = {c.buffer, c.offset + i * stride_c, c.rows, c.cols, c.ld};
        TRY(clprune_gemm(context, transpose_a, transpose_b, alpha, beta, ai, bi, ci,
            i + 1 == batch ? event : NULL));
    }
done:
    return status;
}
