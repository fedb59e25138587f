/* bench_measure.c: operands of a case, and the alternating repetitions behind its medians. */
#ifdef __linux__
#define _DEFAULT_SOURCE /* madvise */
#include <sys/mman.h>
#endif

#include "bench.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef enum run { RUN_OURS, RUN_DENSE, RUN_PEER, RUNS } run;

#define WARM_UP_SECONDS 0.04

static double clock_seconds(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double quantile(const double *sorted, int count, double q)
{
    return sorted[(int)(q * (count - 1) + 0.5)];
}

/* Memory for the peer, in huge pages if possible, like the library's buffers. */
static float *allocate_host(size_t bytes)
{
    const size_t huge_page = (size_t)2 << 20;
    void *memory = NULL;
    if (posix_memalign(&memory, huge_page, bytes) != 0)
        return NULL;
#ifdef MADV_HUGEPAGE
    (void)madvise(memory, bytes / huge_page * huge_page, MADV_HUGEPAGE);
#endif
    return memory;
}

void bench_tensor_create(
    bench_job *job, const char *name, size_t rows, size_t cols, bench_tensor *tensor)
{
    CHECK(job->context, clprune_mat_create(job->context, CLPRUNE_MEMORY_WORKSPACE, name, rows, cols,
                            &tensor->mat)); /* refuses sizes that overflow */
    tensor->host = allocate_host(rows * cols * sizeof *tensor->host);
    if (tensor->host == NULL)
        tool_quit(EXIT_RUN, "no host memory for %zu floats", rows * cols);
    random_activations(tensor->host, rows * cols);
    CHECK(job->context, clprune_mat_write(job->context, tensor->mat, tensor->host));
}

void bench_take_kept(bench_job *job)
{
    const clprune_bsr bsr = clprune_saved_bsr(job->saved, 0, job->shape.batch);
    clprune_bsr_sizes sizes;
    if (bsr.desc.batch == 0)
        return;
    CHECK(job->context, clprune_bsr_size_query(&bsr.desc, &sizes));
    job->kept = (double)bsr.desc.keep / (double)sizes.blocks;
}

void bench_prune_x(bench_job *job)
{
    const bench_shape *shape = &job->shape;
    clprune_bsr_sizes sizes;
    clprune_bsr_desc desc = {shape->batch, shape->tokens, shape->in, {1, shape->block}, 0};
    CHECK(job->context, clprune_bsr_size_query(&desc, &sizes));
    desc.keep = clprune_keep_count(sizes.blocks, shape->sparsity);
    job->kept = (double)desc.keep / (double)sizes.blocks;
    CHECK(job->context,
        clprune_bsr_create(job->context, CLPRUNE_MEMORY_ACTIVATIONS, "xs", &desc, &job->xs));
    CHECK(job->context, clprune_prune(job->context, CLPRUNE_NORM_L2, CLPRUNE_CRITERION_LARGEST, 0,
                            job->x.mat, &job->xs, NULL));
}

static void release(bench_job *job)
{
    bench_tensor *tensors[] = {&job->x, &job->w, &job->b, &job->y, &job->t, &job->dx, &job->dy,
        &job->dw, &job->db, &job->stored};
    for (size_t i = 0; i < sizeof tensors / sizeof *tensors; i++) {
        clprune_buffer_release(job->context, tensors[i]->mat.buffer);
        free(tensors[i]->host);
    }
    clprune_bsr_destroy(job->context, &job->xs);
    clprune_saved_destroy(job->saved);
    clprune_saved_destroy(job->dense_saved);
    clprune_linear_destroy(job->layer);
    clprune_linear_destroy(job->dense_layer);
    clprune_conv2d_destroy(job->conv);
    bench_conv_peer_destroy(job->conv_peer);
    clprune_optimizer_destroy(job->optimizer);
    clprune_buffer_release(job->context, job->labels.buffer);
}

/* Waits until the process is idle, at most 0.1 s: after a call, the threads of a BLAS spin for some
 * ten milliseconds and would take cores from the next timing. */
static void settle(void)
{
    const struct timespec pause = {0, 1000000};
    const double limit = tool_now() + 0.1;
    double wall, busy;
    do {
        wall = tool_now();
        busy = clock_seconds(CLOCK_PROCESS_CPUTIME_ID);
        (void)nanosleep(&pause, NULL);
        wall = tool_now() - wall;
        busy = clock_seconds(CLOCK_PROCESS_CPUTIME_ID) - busy;
    } while (busy > 0.2 * wall && tool_now() < limit);
}

/* One run; the peer's is on the host. */
static double time_run(bench_job *job, run r)
{
    const bench_op *op = job->op;
    const double start = tool_now();
    if (r == RUN_PEER) {
        op->peer(job);
    } else {
        CHECK(job->context, (r == RUN_OURS ? op->ours : op->dense)(job));
        CHECK(job->context, clprune_context_finish(job->context));
    }
    return tool_now() - start;
}

/* Runs untimed for WARM_UP_SECONDS, so that the threads are awake and on cores of their own. */
static void warm_up(bench_job *job, run r)
{
    const double end = tool_now() + WARM_UP_SECONDS;
    do
        (void)time_run(job, r);
    while (tool_now() < end);
}

/* The shape with 0 (sparsity: NaN) on the axes that the operation does not have. */
static bench_shape used_part(const bench_op *op, const bench_shape *shape)
{
    bench_shape used = *shape;
    const struct {
        bench_axis axis;
        size_t *size;
    } sizes[] = {{AXIS_BATCH, &used.batch}, {AXIS_TOKENS, &used.tokens}, {AXIS_IN, &used.in},
        {AXIS_OUT, &used.out}, {AXIS_BLOCK, &used.block}, {AXIS_IMAGE, &used.image},
        {AXIS_IMAGE, &used.kernel}, {AXIS_IMAGE, &used.stride}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if ((op->axes >> sizes[i].axis & 1u) == 0)
            *sizes[i].size = 0;
    if ((op->axes >> AXIS_SPARSITY & 1u) == 0)
        used.sparsity = NAN;
    return used;
}

bench_result bench_measure(const bench *b, const bench_op *op, const bench_shape *shape)
{
    static double seconds[RUNS][MAX_REPETITIONS];
    const int repetitions = b->settings->repetitions;
    const char *peer = b->peers && op->peer != NULL
                           ? (op->peer_name != NULL ? op->peer_name : bench_peer_name)()
                           : NULL;
    const bool has[RUNS] = {true, op->dense != NULL, peer != NULL};
    bench_job job = {.context = b->context, .op = op, .shape = used_part(op, shape), .kept = 1.0};
    job.rows = job.shape.batch * job.shape.tokens;
    op->prepare(&job);
    for (run r = 0; r < RUNS; r++)
        if (has[r])
            (void)time_run(&job, r); /* builds the kernels */
    for (int i = 0; i < repetitions; i++)
        for (run r = 0; r < RUNS; r++) {
            if (!has[r])
                continue;
            if (has[RUN_PEER]) {
                settle();
                warm_up(&job, r);
            }
            seconds[r][i] = time_run(&job, r);
        }
    double median[RUNS];
    for (int r = 0; r < RUNS; r++) {
        qsort(seconds[r], (size_t)repetitions, sizeof **seconds, compare_doubles);
        median[r] = has[r] ? 1e3 * quantile(seconds[r], repetitions, 0.5) : NAN;
    }
    const bench_result result = {
        .peer = peer,
        .shape = job.shape,
        .ms = median[RUN_OURS],
        .low_ms = 1e3 * quantile(seconds[RUN_OURS], repetitions, 0.25),
        .high_ms = 1e3 * quantile(seconds[RUN_OURS], repetitions, 0.75),
        .dense_ms = median[RUN_DENSE],
        .peer_ms = median[RUN_PEER],
        .kept = job.kept,
        .flops = job.flops,
        .bytes = job.bytes,
        .repetitions = repetitions,
    };
    release(&job);
    return result;
}
