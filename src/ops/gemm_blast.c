/* The only file that knows CLBlast. */
#include "ops/gemm_private.h"

#include <clblast_c.h>
#include <pthread.h>

#include "core/checked.h"
#include "runtime/check.h"
#include "runtime/context_private.h"

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

/* Tells CLBlast this context's parameters; a set it refuses leaves its own default in place. They
 * are CLBlast's for the device in the whole process: of several contexts the last one's hold. */
static clprune_status blast_prepare(clprune_context *context)
{
    clprune_status status = CLPRUNE_SUCCESS;
    if (context->blast_ready)
        return status;
    (void)pthread_mutex_lock(&blast_mutex);
    for (int i = 0; i < CLPRUNE__BLAST_KERNELS; i++) {
        clprune__blast_tuning row = clprune__tuning_blast(&context->tuning, i);
        if (row.count == 0)
            continue;
        const CLBlastStatusCode code = CLBlastOverrideParameters(
            context->device, row.kernel, CLBlastPrecisionSingle, row.count, row.names, row.values);
        if (code != CLBlastSuccess)
            clprune__log(context, CLPRUNE_LOG_WARNING, "CLBlast refused parameters of %s: %d",
                row.kernel, (int)code);
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

static clprune_status multiply(clprune_context *context, const clprune__gemm_job *job, size_t i,
    size_t first, size_t count, float beta, cl_event *event)
{
    clprune_status status = CLPRUNE_SUCCESS;
    const CLBlastTranspose ta = job->transpose_a ? CLBlastTransposeYes : CLBlastTransposeNo;
    const CLBlastTranspose tb = job->transpose_b ? CLBlastTransposeYes : CLBlastTransposeNo;
    const clprune_mat *a = &job->a, *b = &job->b, *c = &job->c;
    const size_t a_offset = a->offset + i * job->stride_a + first * (job->transpose_a ? a->ld : 1);
    const size_t b_offset = b->offset + i * job->stride_b + first * (job->transpose_b ? 1 : b->ld);
    const size_t c_offset = c->offset + i * job->stride_c;
    cl_command_queue queue = context->queue;
    /* CLBlast aborts the process where a hidden temporary cannot be had, so it is ours. */
    size_t bytes = 0;
    cl_mem temporary;
    TRY_BLAST(CLBlastSGemmTempBufferSize(CLBlastLayoutRowMajor, ta, tb, job->m, job->n, count,
        a_offset, a->ld, b_offset, b->ld, c_offset, c->ld, &queue, &bytes));
    TRY(clprune__scratch_gemm(context, bytes, &temporary));
    TRY_BLAST(CLBlastSgemmWithTempBuffer(CLBlastLayoutRowMajor, ta, tb, job->m, job->n, count,
        job->alpha, a->buffer, a_offset, a->ld, b->buffer, b_offset, b->ld, beta, c->buffer,
        c_offset, c->ld, &queue, event, temporary));
done:
    return status;
}

clprune_status clprune__gemm_blast(
    clprune_context *context, const clprune__gemm_job *job, cl_event *event)
{
    clprune_status status = CLPRUNE_SUCCESS;
    if (context->dry != NULL) { /* but for the temporary, of which only CLBlast knows */
        TRY(clprune__dry_note(
            context, 3, (const cl_mem[]){job->a.buffer, job->b.buffer, job->c.buffer}));
        TRY(clprune__empty_event(context, event));
        goto done;
    }
    TRY(blast_prepare(context));
    const size_t inner_run = context->tuning.clblast.inner_run;
    const size_t run = inner_run > 0 ? inner_run : job->k;
    for (size_t i = 0; i < job->batch; i++)
        for (size_t first = 0; first < job->k; first += run) {
            const size_t count = clprune__min(run, job->k - first);
            const bool last = i + 1 == job->batch && first + count == job->k;
            TRY(multiply(
                context, job, i, first, count, first == 0 ? job->beta : 1.0f, last ? event : NULL));
        }
done:
    return status;
}
