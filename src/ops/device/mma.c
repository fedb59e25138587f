#include "ops/device/mma.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clprune/memory.h"
#include "ops/device/operand.h"
#include "ops/device/ops_state.h"
#include "runtime/context/context_private.h"
#include "runtime/context/fail.h"
#include "runtime/launch/backend.h"
#include "runtime/launch/launch.h"
#include "runtime/memory/transfer.h"

static const clprune__kernel_def mma_probe_kernel = {"device/mma_probe.cl", "mma_probe"};

#define COMPUTE_CAPABILITY_MAJOR 0x4000 /* of cl_nv_device_attribute_query */

enum { WARP = 32 };

/* The probe's product: tiles of 16 x 8, its M x N results, and k at most. */
enum { M_TILES = 2, N_TILES = 2, M = 16 * M_TILES, N = 8 * N_TILES, MOST_K = 16 };

bool clprune__uses_mma(const clprune_context *context)
{
    return context->ops->precision != CLPRUNE_PRECISION_FP32 &&
           context->ops->pairs == CLPRUNE__PAIRS_NONE;
}

clprune_precision clprune__precision_on(const clprune_context *context, bool mma)
{
    return mma ? context->ops->precision : CLPRUNE_PRECISION_FP32;
}

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

/* The major number of NVIDIA's compute capability, 0 for other devices. */
static clprune_status compute_capability(clprune_context *context, cl_uint *major)
{
    clprune_status status = CLPRUNE_SUCCESS;
    cl_device_id device = context->device;
    char *extensions = NULL;
    size_t size = 0;
    *major = 0;
    TRY_CL_DONE(clGetDeviceInfo(device, CL_DEVICE_EXTENSIONS, 0, NULL, &size));
    extensions = calloc(size + 1, 1);
    REQUIRE_DONE(extensions != NULL, CLPRUNE_OUT_OF_HOST_MEMORY,
        "no memory for the names of the device's extensions, %zu bytes", size);
    TRY_CL_DONE(clGetDeviceInfo(device, CL_DEVICE_EXTENSIONS, size, extensions, NULL));
    if (strstr(extensions, "cl_nv_device_attribute_query") != NULL)
        TRY_CODE_DONE("clGetDeviceInfo(CL_DEVICE_COMPUTE_CAPABILITY_MAJOR_NV)",
            clGetDeviceInfo(device, COMPUTE_CAPABILITY_MAJOR, sizeof *major, major, NULL));
done:
    free(extensions);
    return status;
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
    const clprune_precision precision = context->ops->precision;
    const float *a = data, *b = a + M * k, *c = b + k * N;
    for (size_t i = 0; i < M * N; i++) {
        double want = (double)c[i];
        for (size_t e = 0; e < k; e++)
            want += clprune__round_operand(precision, (double)a[i / N * k + e]) *
                    clprune__round_operand(precision, (double)b[e * N + i % N]);
        REQUIRE((double)got[i] == want, CLPRUNE_UNSUPPORTED,
            "the probe's element (%zu, %zu) is %.9g instead of %.9g", i / N, i % N, (double)got[i],
            want);
    }
    return CLPRUNE_SUCCESS;
}

clprune_status clprune__mma_probe(clprune_context *context, bool round_a)
{
    clprune_status status = CLPRUNE_SUCCESS;
    const size_t k = clprune__mma_depth(context), c_at = M * k + k * N, local = WARP;
    float data[M * MOST_K + MOST_K * N + M * N], got[M * N];
    clprune__defines defines = {0};
    cl_mem buffer = NULL;
    fill_probe(k, round_a, data);
    TRY_DONE(clprune_buffer_create(
        context, CLPRUNE_MEMORY_WORKSPACE, "mma_probe", sizeof data, &buffer));
    TRY_DONE(clprune__transfer_write(context, data, buffer, 0, (c_at + M * N) * sizeof(float)));
    clprune__mma_defines(context, M_TILES, N_TILES, &defines);
    clprune__launch launch;
    TRY_DONE(clprune__launch_begin(context, &mma_probe_kernel, &defines, &launch));
    clprune__arg_mem(&launch, buffer);
    clprune__arg_uint(&launch, round_a);
    TRY_DONE(clprune__launch_enqueue(&launch, 1, &local, &local, NULL));
    TRY_DONE(clprune__transfer_read(context, buffer, c_at * sizeof(float), sizeof got, got));
    TRY_DONE(compare(context, k, data, got));
done:
    clprune_buffer_release(context, buffer);
    return status;
}

clprune_status clprune__mma_missing(clprune_context *context, char *reason, size_t size)
{
    cl_uint major = 0;
    const bool emulated = context->ops->mma_emulated;
    reason[0] = '\0';
    if (context->facts.max_work_group < WARP) {
        (void)snprintf(reason, size, "the device's work-groups are smaller than %d", WARP);
    } else if (context->backend->runs) {
        TRY(compute_capability(context, &major));
        if (!emulated && major < 8)
            (void)snprintf(
                reason, size, "the device is not an NVIDIA GPU of compute capability 8.0 or later");
    } else if (!emulated && strstr(context->facts.vendor, "NVIDIA") == NULL) {
        (void)snprintf(reason, size, "the device is not an NVIDIA GPU");
    }
    return CLPRUNE_SUCCESS;
}
