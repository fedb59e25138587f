#include "ops/device/self_check.h"

#include <math.h>
#include <pthread.h>
#include <stdbool.h>

#include "runtime/context/context_private.h"
#include "runtime/context/fail.h"
#include "runtime/context/queue.h"
#include "runtime/launch/backend.h"
#include "runtime/launch/launch.h"
#include "runtime/launch/rowwise.h"

static const clprune__kernel_def self_check_kernel = {"device/self_check.cl", "self_check"};

/* As in self_check.cl. */
enum { N = 16, PART = N * N, LOCAL = 64 };
enum { TRANSPOSE, PRODUCTS, FUNCTIONS, DRAWS, LOOP, PARTS, RESULTS = LOOP * PART + 1 };

static const char *const part_names[PARTS] = {"a transpose in local memory", "products of vectors",
    "exp, erf, sqrt and log", "64-bit products", "a long loop"};

/* Devices that passed, by kernel family. Devices that find the list full are checked again each
 * time. */
enum { MOST_PASSED = 32 };
static struct passed {
    cl_device_id device;
    clprune_kernels kernels;
} all_passed[MOST_PASSED];
static size_t passed_count;
static pthread_mutex_t passed_lock = PTHREAD_MUTEX_INITIALIZER;

static bool has_passed(const clprune_context *context)
{
    bool found = false;
    (void)pthread_mutex_lock(&passed_lock);
    for (size_t i = 0; i < passed_count; i++)
        found = found || (all_passed[i].device == context->device &&
                             all_passed[i].kernels == context->kernels);
    (void)pthread_mutex_unlock(&passed_lock);
    return found;
}

static void remember(const clprune_context *context)
{
    (void)pthread_mutex_lock(&passed_lock);
    if (passed_count < MOST_PASSED)
        all_passed[passed_count++] = (struct passed){context->device, context->kernels};
    (void)pthread_mutex_unlock(&passed_lock);
}

/* Multiples of 1/8 of both signs, no two rows alike: sums of 16 products are exact in any order. */
static float input(size_t i)
{
    return (float)((int)(i * 37 % 61) - 30) / 8.0f;
}

/* The right value of element i of a part. */
static double expected(int part, size_t i)
{
    const double x = (double)input(i);
    double sum = 0;
    switch (part) {
    case TRANSPOSE:
        return 2 * (double)input(i % N * N + i / N) + 1;
    case PRODUCTS:
        for (size_t k = 0; k < N; k++)
            sum += (double)input(i / N * N + k) * (double)input(i % N * N + k);
        return sum;
    case FUNCTIONS:
        return i < PART / 4       ? exp(x)
               : i < PART / 2     ? erf(x)
               : i < PART / 4 * 3 ? sqrt(fabs(x))
                                  : log1p(fabs(x));
    case DRAWS:
        return (double)((uint64_t)(i + 1) * 0x9e3779b97f4a7c15u >> 24 & 0xffffff);
    default: {
        uint32_t state = 1;
        for (int step = 0; step < N * 8192; step++)
            state = state * 1664525u + 1013904223u;
        return (double)(state >> 8);
    }
    }
}

/* OpenCL allows errors of 3 to 16 units in the last place, 2e-6, in exp, erf, sqrt and log; the
 * other parts are exact. */
static clprune_status compare(clprune_context *context, const float *got)
{
    const clprune_device_info *facts = &context->facts;
    for (int part = 0; part < PARTS; part++)
        for (size_t i = 0; i < (part == LOOP ? 1 : PART); i++) {
            const double want = expected(part, i), value = (double)got[(size_t)part * PART + i];
            const double room = part == FUNCTIONS ? 1e-5 * fabs(want) : 0;
            REQUIRE(fabs(value - want) <= room, CLPRUNE_UNSUPPORTED,
                "the device computes wrong results: %s (%s, driver %s) gives %.9g instead of %.9g "
                "in the self-check of %s; take another device or version of its driver; "
                "CLPRUNE_DEBUG=check=off skips the check",
                facts->device, facts->platform, facts->driver, value, want, part_names[part]);
        }
    return CLPRUNE_SUCCESS;
}

/* Runs the kernel on context->queue; results go to `got`. */
static clprune_status run(clprune_context *context, float *got)
{
    clprune_status status = CLPRUNE_SUCCESS;
    const size_t local = clprune__group_size(context, LOCAL);
    float x[PART];
    cl_mem in = NULL, out = NULL;
    cl_int code;
    clprune__defines defines = {0};
    for (size_t i = 0; i < PART; i++)
        x[i] = input(i);
    /* Not by the context's allocator: it may be the caller's, and the memory ledger stays empty. */
    in = clCreateBuffer(context->cl, CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR, sizeof x, x, &code);
    TRY_CODE_DONE("clCreateBuffer", code);
    out = clCreateBuffer(context->cl, CL_MEM_READ_WRITE, RESULTS * sizeof(float), NULL, &code);
    TRY_CODE_DONE("clCreateBuffer", code);
    clprune__define(&defines, "LOCAL", local);
    clprune__define(&defines, "VW", clprune__vector_width(context));
    clprune__launch launch;
    TRY_DONE(clprune__launch_begin(context, &self_check_kernel, &defines, &launch));
    launch.least_group = 1;
    clprune__arg_uint(&launch, N);
    clprune__arg_mem(&launch, in);
    clprune__arg_mem(&launch, out);
    TRY_DONE(clprune__launch_enqueue(&launch, 1, &local, &local, NULL));
    TRY_CL_DONE(clEnqueueReadBuffer(
        context->queue, out, CL_TRUE, 0, RESULTS * sizeof(float), got, 0, NULL, NULL));
done:
    if (in != NULL)
        (void)clReleaseMemObject(in);
    if (out != NULL)
        (void)clReleaseMemObject(out);
    return status;
}

clprune_status clprune__self_check(clprune_context *context)
{
    if (!context->backend->runs || has_passed(context))
        return CLPRUNE_SUCCESS;
    const clprune_cache_stats stats = context->cache->stats;
    float got[RESULTS];
    clprune__own_queue own;
    TRY(clprune__own_queue_begin(context, &own));
    const clprune_status status = run(context, got);
    clprune__own_queue_end(context, &own);
    context->cache->stats = stats;
    TRY(status);
    TRY(compare(context, got));
    remember(context);
    return CLPRUNE_SUCCESS;
}
