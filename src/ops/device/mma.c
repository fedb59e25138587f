#include "ops/device/mma.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clprune/memory.h"
#include "ops/device/ops_state.h"
#include "runtime/context/context_private.h"
#include "runtime/context/fail.h"
#include "runtime/context/queue.h"
#include "runtime/launch/backend.h"
#include "runtime/launch/launch.h"
#include "runtime/memory/transfer.h"

static const clprune__kernel_def mma_probe_kernel = {"device/mma_probe.cl", "mma_probe"};

#define COMPUTE_CAPABILITY_MAJOR 0x4000 /* of cl_nv_device_attribute_query */

/* By clprune_precision; DEFAULT has none. */
static const char *const names[] = {NULL, "fp32", "tf32", "bf16"};

enum { WARP = 32, PRECISIONS = sizeof names / sizeof names[0] };

/* The probe's product: tiles of 16 x 8, its M x N results, and k at most. */
enum { M_TILES = 2, N_TILES = 2, M = 16 * M_TILES, N = 8 * N_TILES, MOST_K = 16 };

size_t clprune__mma_depth(const clprune_context *context)
{
    return context->ops->precision == CLPRUNE_PRECISION_TF32 ? 8 : 16;
}

void clprune__mma_defines(
    const clprune_context *context, size_t m_tiles, size_t n_tiles, clprune__defines *defines)
{
    clprune__define(defines, "M_TILES", m_tiles);
    clprune__define(defines, "N_TILES", n_tiles);
    /* 1: TF32, 2: bf16 */
    clprune__define(defines, "PRECISION", context->ops->precision - CLPRUNE_PRECISION_FP32);
    clprune__define(defines, "MMA_PTX", !context->ops->mma_emulated);
}

size_t clprune__mma_local(const clprune_context *context, size_t m_tiles, size_t n_tiles)
{
    return context->ops->mma_emulated ? WARP * (4 * m_tiles + 2 * n_tiles) * sizeof(cl_uint) : 0;
}

/* The option, else $CLPRUNE_PRECISION. */
static clprune_status choose_precision(clprune_context *context, clprune_precision option)
{
    clprune_status status = CLPRUNE_SUCCESS;
    const char *environment = getenv("CLPRUNE_PRECISION");
    REQUIRE((unsigned)option < PRECISIONS, CLPRUNE_INVALID_ARGUMENT,
        "options.precision is %d, expected a clprune_precision", (int)option);
    context->ops->precision = option != CLPRUNE_PRECISION_DEFAULT ? option : CLPRUNE_PRECISION_FP32;
    if (option != CLPRUNE_PRECISION_DEFAULT || environment == NULL || environment[0] == '\0')
        goto done;
    size_t i = CLPRUNE_PRECISION_FP32;
    while (i < PRECISIONS && strcmp(environment, names[i]) != 0)
        i++;
    REQUIRE(i < PRECISIONS, CLPRUNE_INVALID_ARGUMENT,
        "CLPRUNE_PRECISION is \"%.100s\", expected fp32, tf32 or bf16", environment);
    context->ops->precision = (clprune_precision)i;
done:
    return status;
}

/* The major number of NVIDIA's compute capability, 0 for other devices. */
static clprune_status compute_capability(clprune_context *context, cl_uint *major)
{
    clprune_status status = CLPRUNE_SUCCESS;
    cl_device_id device = context->device;
    char *extensions = NULL;
    size_t size = 0;
    *major = 0;
    TRY_CL(clGetDeviceInfo(device, CL_DEVICE_EXTENSIONS, 0, NULL, &size));
    extensions = calloc(size + 1, 1);
    REQUIRE(extensions != NULL, CLPRUNE_OUT_OF_HOST_MEMORY,
        "no memory for the names of the device's extensions, %zu bytes", size);
    TRY_CL(clGetDeviceInfo(device, CL_DEVICE_EXTENSIONS, size, extensions, NULL));
    if (strstr(extensions, "cl_nv_device_attribute_query") != NULL)
        TRY_CODE("clGetDeviceInfo(CL_DEVICE_COMPUTE_CAPABILITY_MAJOR_NV)",
            clGetDeviceInfo(device, COMPUTE_CAPABILITY_MAJOR, sizeof *major, major, NULL));
done:
    free(extensions);
    return status;
}

/* x, rounded as an operand: TF32 to 10 fraction bits, ties away from zero; bf16 to 7, ties to
 * even. */
static double rounded(clprune_precision precision, double x)
{
    int exponent;
    const double fraction = frexp(x, &exponent); /* 0.5 <= |fraction| < 1 */
    if (precision == CLPRUNE_PRECISION_TF32)
        return ldexp(round(ldexp(fraction, 11)), exponent - 11);
    return ldexp(rint(ldexp(fraction, 8)), exponent - 8);
}

/* Fills a (M x k), b (k x N) and c (M x N), one after the other. Of a and b, one has 12 fraction
 * bits, so that it is rounded, ties included; the other has powers of two. c is so coarse that sums
 * are exact in any order. No two rows, columns or values of k are equal. */
static void fill_probe(size_t k, bool round_a, float *data)
{
    uint32_t state = 12345;
    for (size_t i = 0; i < M * k + k * N + M * N; i++) {
        state = state * 1664525u + 1013904223u;
        const bool in_a = i < M * k, in_c = i >= M * k + k * N;
        const uint32_t bits = state >> 9;
        const float fraction = 1.0f + (float)(bits >> 3 & 0xfffu) * 0x1p-12f;
        const float scale = ldexpf(bits & 4u ? -1.0f : 1.0f, (int)(bits & 3u) - 1);
        if (in_c)
            data[i] = (float)(int)(bits & 0xffu) - 128.0f;
        else
            data[i] = in_a == round_a ? scale * fraction : scale;
    }
}

/* Compares the device's c with the exact result. */
static clprune_status compare(
    clprune_context *context, size_t k, const float *data, const float *got)
{
    clprune_status status = CLPRUNE_SUCCESS;
    const clprune_precision precision = context->ops->precision;
    const float *a = data, *b = a + M * k, *c = b + k * N;
    for (size_t i = 0; i < M * N; i++) {
        double want = (double)c[i];
        for (size_t e = 0; e < k; e++)
            want += rounded(precision, (double)a[i / N * k + e]) *
                    rounded(precision, (double)b[e * N + i % N]);
        REQUIRE((double)got[i] == want, CLPRUNE_UNSUPPORTED,
            "the probe's element (%zu, %zu) is %.9g instead of %.9g", i / N, i % N, (double)got[i],
            want);
    }
done:
    return status;
}

/* Runs the probe once; fails if a result is wrong. */
static clprune_status run_probe(clprune_context *context, bool round_a)
{
    clprune_status status = CLPRUNE_SUCCESS;
    const size_t k = clprune__mma_depth(context), c_at = M * k + k * N, local = WARP;
    float data[M * MOST_K + MOST_K * N + M * N], got[M * N];
    clprune__defines defines = {0};
    cl_mem buffer = NULL;
    fill_probe(k, round_a, data);
    TRY(clprune_buffer_create(
        context, CLPRUNE_MEMORY_WORKSPACE, "mma_probe", sizeof data, &buffer));
    TRY(clprune__transfer_write(context, data, buffer, 0, (c_at + M * N) * sizeof(float)));
    clprune__mma_defines(context, M_TILES, N_TILES, &defines);
    clprune__launch launch;
    TRY(clprune__launch_begin(context, &mma_probe_kernel, &defines, &launch));
    clprune__arg_mem(&launch, buffer);
    TRY(clprune__launch_enqueue(&launch, 1, &local, &local, NULL));
    TRY(clprune__transfer_read(context, buffer, c_at * sizeof(float), sizeof got, got));
    TRY(compare(context, k, data, got));
done:
    clprune_buffer_release(context, buffer);
    return status;
}

/* Writes the reason why tensor cores are not usable, or an empty text if they are. */
static clprune_status probe(clprune_context *context, char *reason, size_t size)
{
    clprune_status status = CLPRUNE_SUCCESS;
    cl_uint major;
    reason[0] = '\0';
    TRY(compute_capability(context, &major));
    if (!context->ops->mma_emulated && major < 8) {
        (void)snprintf(
            reason, size, "the device is not an NVIDIA GPU of compute capability 8.0 or later");
        goto done;
    }
    clprune__own_queue own;
    TRY(clprune__own_queue_begin(context, &own));
    /* A failed probe is not the caller's error: it is not logged as one. */
    const clprune_log_fn log = context->log;
    context->log = NULL;
    for (int i = 0; i < 2 && reason[0] == '\0'; i++)
        if (run_probe(context, i == 0) != CLPRUNE_SUCCESS)
            (void)snprintf(reason, size, "%.*s", (int)size - 1, clprune__error_text(context));
    context->log = log;
    clprune__own_queue_end(context, &own);
    clprune__error_text(context)[0] = '\0'; /* the context's own: it has no lock yet */
    clprune_memory_reset_peak(context);
done:
    return status;
}

clprune_status clprune__mma_open(clprune_context *context, clprune_precision option)
{
    clprune_status status = CLPRUNE_SUCCESS;
    TRY(choose_precision(context, option));
    const clprune_precision wanted = context->ops->precision;
    if (wanted == CLPRUNE_PRECISION_FP32)
        goto done;
    char reason[1024] = "";
    if (context->facts.max_work_group < WARP)
        (void)snprintf(reason, sizeof reason, "the device's work-groups are smaller than %d", WARP);
    else if (context->backend->runs)
        TRY(probe(context, reason, sizeof reason));
    else if (!context->ops->mma_emulated && strstr(context->facts.vendor, "NVIDIA") == NULL)
        (void)snprintf(reason, sizeof reason, "the device is not an NVIDIA GPU");
    if (reason[0] != '\0') {
        context->ops->precision = CLPRUNE_PRECISION_FP32;
        clprune__log(context, CLPRUNE_LOG_WARNING,
            "precision %s is not available, block-sparse products stay in fp32: %s", names[wanted],
            reason);
    } else {
        clprune__log(context, CLPRUNE_LOG_INFO, "precision %s, %s", names[wanted],
            context->ops->mma_emulated ? "emulated" : "by mma.sync");
    }
done:
    return status;
}

clprune_precision clprune_context_precision(const clprune_context *context)
{
    return context != NULL ? context->ops->precision : CLPRUNE_PRECISION_FP32;
}

const char *clprune_precision_name(clprune_precision precision)
{
    return (unsigned)precision < PRECISIONS ? names[precision] : NULL;
}
