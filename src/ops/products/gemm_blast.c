/* The only file that knows CLBlast. */
#include "ops/products/gemm_private.h"

#include <clblast_c.h>
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "clprune/memory.h"
#include "core/checked.h"
#include "runtime/context/check.h"
#include "runtime/context/context_private.h"
#include "runtime/launch/backend.h"
#include "runtime/memory/ledger.h"

const bool clprune__gemm_blast_built = true;

/* CLBlast has global state: compiled programs, and a database of parameters that its first call
 * fills without a lock. So all calls of all contexts are serialised. */
static pthread_mutex_t blast_mutex = PTHREAD_MUTEX_INITIALIZER;
static _Thread_local bool blast_held; /* the mutex, by this thread */

/* Contexts that called CLBlast and are not closed yet, and those closed since its cache was
 * cleared.
 */
static size_t blast_contexts, blast_stale;

/* Closed contexts whose programs CLBlast may hold, about 2.8 MB each. */
#define MOST_STALE 8

/* CLBlast's C++ objects are destroyed when the process exits, while other threads may still
 * multiply, and before functions of atexit that destroy contexts. They are constructed when CLBlast
 * is loaded, so a function that is registered at the first call runs before their destructors. */
static bool blast_gone;
static pid_t blast_process; /* that registered blast_end; 0: none */

static void blast_end(void)
{
    if (getpid() != blast_process) /* a forked child: a thread of the parent may hold the mutex */
        return;
    if (!blast_held) /* a driver may exit within a call */
        (void)pthread_mutex_lock(&blast_mutex);
    blast_gone = true;
    if (!blast_held)
        (void)pthread_mutex_unlock(&blast_mutex);
}

static void blast_unlock(void)
{
    blast_held = false;
    (void)pthread_mutex_unlock(&blast_mutex);
}

/* Before any call of CLBlast. False, and not locked: CLBlast is gone. */
static bool blast_lock(void)
{
    (void)pthread_mutex_lock(&blast_mutex);
    blast_held = true;
    if (blast_process == 0 && !blast_gone && atexit(blast_end) == 0)
        blast_process = getpid();
    if (blast_gone)
        blast_unlock();
    return !blast_gone;
}

#define REQUIRE_BLAST()                                                                            \
    REQUIRE(blast_lock(), CLPRUNE_CLBLAST_ERROR,                                                   \
        "the process exits, and CLBlast has freed its state; multiply before that")

/* CLBlast passes on OpenCL's codes, which are above -1000; its own are below. */
static clprune_status fail_blast(
    clprune_context *context, CLBlastStatusCode code, int line, const char *call)
{
    const bool is_cl = code > -1000;
    clprune_status status = is_cl ? clprune__cl_status((cl_int)code) : CLPRUNE_CLBLAST_ERROR;
    if (status == CLPRUNE_OPENCL_ERROR)
        status = CLPRUNE_CLBLAST_ERROR;
    if (code == CLBlastTempBufferAllocFailure)
        status = CLPRUNE_OUT_OF_DEVICE_MEMORY;
    return clprune__fail(context, status, __FILE__, line, "%s failed with %s (%d)", call,
        is_cl ? clprune__cl_name((cl_int)code) : "a status of CLBlast", (int)code);
}

/* Sets CLBlast's parameters from the context's tuning; CLBlast keeps its default for a set that it
 * refuses. They apply to the device in the whole process: the context that comes last wins. */
static clprune_status blast_prepare(clprune_context *context)
{
    clprune__ops *ops = context->ops;
    if (ops->blast_ready)
        return CLPRUNE_SUCCESS;
    for (int i = 0; i < CLPRUNE__BLAST_KERNELS; i++) {
        clprune__blast_tuning row = clprune__tuning_blast(&ops->tuning, i);
        if (row.count == 0)
            continue;
        REQUIRE_BLAST();
        const CLBlastStatusCode code = CLBlastOverrideParameters(
            context->device, row.kernel, CLBlastPrecisionSingle, row.count, row.names, row.values);
        blast_unlock();
        if (code != CLBlastSuccess)
            clprune__log(context, CLPRUNE_LOG_WARNING, "CLBlast refused parameters of %s: %d",
                row.kernel, (int)code);
    }
    REQUIRE_BLAST();
    blast_contexts++;
    blast_unlock();
    ops->blast_ready = true;
    return CLPRUNE_SUCCESS;
}

/* CLBlast's programs hold the OpenCL context they were built for until its cache is cleared, which
 * drops the programs of all contexts. So it is cleared when no context is left, or once for several
 * closed ones. Here no call is inside CLBlast, and enqueued kernels keep their program. */
void clprune__gemm_blast_close(clprune_context *context)
{
    clprune__ops *ops = context->ops;
    clprune__buffer_release(context, ops->blast_temp);
    ops->blast_temp = NULL;
    if (!ops->blast_ready || !blast_lock())
        return;
    ops->blast_ready = false;
    blast_contexts--;
    blast_stale++;
    if (blast_contexts == 0 || blast_stale == MOST_STALE) {
        (void)CLBlastClearCache();
        blast_stale = 0;
    }
    blast_unlock();
}

/* Makes the temporary at least `bytes` large. */
static clprune_status grow_temporary(clprune_context *context, size_t bytes)
{
    clprune__ops *ops = context->ops;
    clprune__buffer_release(context, ops->blast_temp);
    ops->blast_temp = NULL;
    ops->blast_temp_bytes = 0;
    TRY(clprune__buffer_create_own(
        context, CLPRUNE_MEMORY_WORKSPACE, "gemm temporary", bytes, &ops->blast_temp));
    ops->blast_temp_bytes = bytes;
    return CLPRUNE_SUCCESS;
}

static clprune_status multiply(clprune_context *context, const clprune__gemm_job *job, size_t i,
    size_t first, size_t count, float beta, cl_event *event)
{
    const CLBlastTranspose ta = job->transpose_a ? CLBlastTransposeYes : CLBlastTransposeNo;
    const CLBlastTranspose tb = job->transpose_b ? CLBlastTransposeYes : CLBlastTransposeNo;
    const clprune_mat *a = &job->a, *b = &job->b, *c = &job->c;
    const size_t a_offset = a->offset + i * job->stride_a + first * (job->transpose_a ? a->ld : 1);
    const size_t b_offset = b->offset + i * job->stride_b + first * (job->transpose_b ? 1 : b->ld);
    const size_t c_offset = c->offset + i * job->stride_c;
    cl_command_queue queue = context->queue;
    clprune__ops *ops = context->ops;
    /* CLBlast aborts the process if its hidden temporary cannot be allocated, so we pass ours.
     * Query and product are under one lock, because another context may change the parameters that
     * the size depends on; if the temporary is too small, it grows outside of the lock, and both
     * are tried again. */
    for (bool asked = false; !asked;) {
        size_t bytes = 0;
        REQUIRE_BLAST();
        const char *call = "CLBlastSGemmTempBufferSize";
        CLBlastStatusCode code = CLBlastSGemmTempBufferSize(CLBlastLayoutRowMajor, ta, tb, job->m,
            job->n, count, a_offset, a->ld, b_offset, b->ld, c_offset, c->ld, &queue, &bytes);
        asked = code != CLBlastSuccess || bytes <= ops->blast_temp_bytes;
        if (code == CLBlastSuccess && asked) {
            call = "CLBlastSgemmWithTempBuffer";
            code = CLBlastSgemmWithTempBuffer(CLBlastLayoutRowMajor, ta, tb, job->m, job->n, count,
                job->alpha, a->buffer, a_offset, a->ld, b->buffer, b_offset, b->ld, beta, c->buffer,
                c_offset, c->ld, &queue, event, bytes > 0 ? ops->blast_temp : NULL);
        }
        blast_unlock();
        if (code != CLBlastSuccess)
            return fail_blast(context, code, __LINE__, call);
        if (!asked)
            TRY(grow_temporary(context, bytes));
    }
    return CLPRUNE_SUCCESS;
}

/* The product of each sample, its inner size cut into runs. Operands of a plan lie in the slab. */
static clprune_status enqueue(clprune_context *context, const void *of, cl_event *event)
{
    clprune__gemm_job placed = *(const clprune__gemm_job *)of;
    const clprune__gemm_job *job = &placed;
    placed.a = clprune__mat_in_window(placed.a);
    placed.b = clprune__mat_in_window(placed.b);
    placed.c = clprune__mat_in_window(placed.c);
    REQUIRE(clprune__gemm_blast_reaches(context, job), CLPRUNE_UNSUPPORTED,
        "the plan's arena has buffers of more than %llu bytes, which CLBlast cannot index; "
        "CLPRUNE_DEBUG=arena=off runs without",
        (unsigned long long)CLPRUNE__BLAST_BYTES);
    TRY(blast_prepare(context));
    const size_t inner_run = context->ops->tuning.clblast.inner_run;
    const size_t run = inner_run > 0 ? inner_run : job->k;
    for (size_t i = 0; i < job->batch; i++)
        for (size_t first = 0; first < job->k; first += run) {
            const size_t count = clprune__min(run, job->k - first);
            const bool last = i + 1 == job->batch && first + count == job->k;
            TRY(multiply(
                context, job, i, first, count, first == 0 ? job->beta : 1.0f, last ? event : NULL));
        }
    return CLPRUNE_SUCCESS;
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

/* Whether the indices of all elements of an operand in its buffer are below 2^31. A buffer with a
 * place in an arena counts as one of its own, as in the dry context that made the plan; its slab is
 * no larger than CLPRUNE__BLAST_BYTES. */
static bool ends_early(clprune_mat mat, size_t batch, size_t stride)
{
    return mat.offset + (batch - 1) * stride + (mat.rows - 1) * mat.ld + mat.cols <= INT_MAX;
}

/* CLBlast indexes the operands' buffers and its temporary with ints; larger indices would wrap and
 * reach other memory. */
bool clprune__gemm_blast_reaches(const clprune_context *context, const clprune__gemm_job *job)
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

/* A dry context notes the operands, but not the temporary: only CLBlast knows its size. */
clprune_status clprune__gemm_blast(
    clprune_context *context, const clprune__gemm_job *job, cl_event *event)
{
    const cl_mem buffers[] = {job->a.buffer, job->b.buffer, job->c.buffer};
    const clprune__foreign product = {enqueue, job, 3, buffers, clprune__gemm_work(context, job)};
    return context->backend->foreign(context, &product, event);
}
