#define _DEFAULT_SOURCE /* syscall */
#include "ops/device/amx.h"

#include <math.h>
#if defined(__linux__) && defined(__x86_64__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include "clprune/memory.h"
#include "ops/device/bf16.h"
#include "ops/device/operand.h"
#include "ops/device/ops_state.h"
#include "runtime/context/context_private.h"
#include "runtime/context/fail.h"
#include "runtime/launch/launch.h"
#include "runtime/memory/transfer.h"

static const clprune__kernel_def amx_probe_kernel = {"device/amx_probe.cl", "amx_probe"};

/* arch_prctl(ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA): Linux 5.16,
 * Documentation/arch/x86/xstate.rst */
static bool is_permitted(void)
{
#if defined(__linux__) && defined(__x86_64__)
    enum { REQUEST = 0x1023, TILE_DATA = 18 };
    return syscall(SYS_arch_prctl, REQUEST, TILE_DATA) == 0;
#else
    return false;
#endif
}

/* Of amx_probe.cl: rows of a, elements of a row of a, columns of b. */
enum { ROWS = 32, INNER = 32, COLS = 16, A = ROWS * INNER, B = INNER * COLS, C = ROWS * COLS };

/* Of a and b, one has 12 fraction bits, so that it is rounded, ties included; the other has powers
 * of two. Sums are so coarse that they are exact in any order. */
static void fill(bool round_a, float *data)
{
    uint32_t state = 54321;
    for (size_t i = 0; i < A + B + C; i++) {
        state = state * 1664525u + 1013904223u;
        const uint32_t bits = state >> 9;
        const float fraction = 1.0f + (float)(bits >> 3 & 0xfffu) * 0x1p-12f;
        const float scale = ldexpf(bits & 4u ? -1.0f : 1.0f, (int)(bits & 3u) - 1);
        data[i] = i >= A + B           ? (float)(int)(bits & 0xffu) - 128.0f
                  : (i < A) == round_a ? scale * fraction
                                       : scale;
    }
}

static clprune_status compare(clprune_context *context, const float *data, const float *got)
{
    for (size_t i = 0; i < C; i++) {
        const float *a = data + i / COLS * INNER, *b = data + A + i % COLS;
        double want = (double)data[A + B + i];
        for (size_t k = 0; k < INNER; k++)
            want += clprune__round_operand(CLPRUNE_PRECISION_BF16, (double)a[k]) *
                    clprune__round_operand(CLPRUNE_PRECISION_BF16, (double)b[k * COLS]);
        REQUIRE((double)got[i] == want, CLPRUNE_UNSUPPORTED,
            "sum %zu of the probe is %.9g instead of %.9g", i, (double)got[i], want);
    }
    return CLPRUNE_SUCCESS;
}

clprune_status clprune__amx_probe(clprune_context *context, bool round_a)
{
    clprune_status status = CLPRUNE_SUCCESS;
    const size_t one = 1;
    float data[A + B + C], got[C];
    cl_uint found = 0;
    clprune__defines defines = {0};
    cl_mem buffer = NULL;
    fill(round_a, data);
    REQUIRE(context->ops->amx == CLPRUNE__AMX_EMULATED || is_permitted(), CLPRUNE_UNSUPPORTED,
        "the system has no AMX, or does not let this process use it");
    TRY_DONE(clprune_buffer_create(
        context, CLPRUNE_MEMORY_WORKSPACE, "amx_probe", sizeof data + sizeof found, &buffer));
    TRY_DONE(clprune__transfer_write(context, data, buffer, 0, sizeof data));
    clprune__bf16_define(context, &defines);
    clprune__define(&defines, "AMX", context->ops->amx);
    clprune__define(&defines, "V", 1);
    clprune__launch launch;
    TRY_DONE(clprune__launch_begin(context, &amx_probe_kernel, &defines, &launch));
    clprune__arg_mem(&launch, buffer);
    TRY_DONE(clprune__launch_enqueue(&launch, 1, &one, &one, NULL));
    TRY_DONE(clprune__transfer_read(context, buffer, sizeof data, sizeof found, &found));
    REQUIRE_DONE(found != 0, CLPRUNE_UNSUPPORTED, "the device has no AMX");
    TRY_DONE(clprune__transfer_read(context, buffer, (A + B) * sizeof *data, sizeof got, got));
    TRY_DONE(compare(context, data, got));
done:
    clprune_buffer_release(context, buffer);
    return status;
}
