#include "ops/device/bf16.h"

#include <math.h>

#include "clprune/memory.h"
#include "core/checked.h"
#include "ops/device/operand.h"
#include "ops/device/ops_state.h"
#include "runtime/context/context_private.h"
#include "runtime/context/fail.h"
#include "runtime/launch/launch.h"
#include "runtime/memory/transfer.h"

static const clprune__kernel_def bf16_probe_kernel = {"device/bf16_probe.cl", "bf16_probe"};

void clprune__bf16_define(const clprune_context *context, clprune__defines *defines)
{
    if (context->ops->pairs != CLPRUNE__PAIRS_NONE)
        clprune__define(defines, "BF16", context->ops->pairs);
}

void clprune__rounding_define(const clprune_context *context, clprune__defines *defines)
{
    clprune__define(defines, "BF16", clprune__max(context->ops->pairs, CLPRUNE__PAIRS_CONVERTED));
}

/* 0: of floats; 2: vectors of four begin at multiples of 8 bytes, which GPUs read at once; else 1.
 */
static unsigned narrow_kind(const clprune_context *context, clprune_mat mat)
{
    if (mat.type != CLPRUNE_VALUES_BF16)
        return 0;
    return context->kernels == CLPRUNE_KERNELS_TILED && mat.offset % 4 == 0 && mat.ld % 4 == 0 ? 2
                                                                                               : 1;
}

void clprune__narrow_define(const clprune_context *context, clprune_mat source, clprune_mat result,
    clprune__defines *defines)
{
    const unsigned in = narrow_kind(context, source), out = narrow_kind(context, result);
    if (in == 0 && out == 0)
        return;
    clprune__define(defines, "BF16_IN", in);
    clprune__define(defines, "BF16_OUT", out);
    clprune__rounding_define(context, defines);
}

/* Vectors of the probe; each has pairs of a and b, and sums. */
enum { LANES = 16, VECTORS = 8, VECTOR = 5 * LANES, FLOATS = VECTORS * VECTOR };

/* The pairs of a lie one behind the other; those of b have their halves in two rows of LANES. Of a
 * and b, one has 12 fraction bits, so that it is rounded, ties included; the other has powers of
 * two. Sums are so coarse that they are exact in any order. The last vector's operands that are
 * rounded are subnormal: they count as zero. */
static void fill_probe(bool round_a, float *data)
{
    uint32_t state = 12345;
    for (size_t i = 0; i < FLOATS; i++) {
        state = state * 1664525u + 1013904223u;
        const size_t at = i % VECTOR;
        const bool in_a = at < 2 * LANES, in_sum = at >= 4 * LANES;
        const bool tiny = i / VECTOR == VECTORS - 1;
        const uint32_t bits = state >> 9;
        const float fraction = 1.0f + (float)(bits >> 3 & 0xfffu) * 0x1p-12f;
        const float scale = ldexpf(bits & 4u ? -1.0f : 1.0f, (int)(bits & 3u) - 1);
        if (in_sum)
            data[i] = (float)(int)(bits & 0xffu) - 128.0f;
        else if (in_a == round_a)
            data[i] = tiny ? scale * 0x1p-130f : scale * fraction;
        else
            data[i] = tiny ? scale * 0x1p120f : scale;
    }
}

static double operand(float x)
{
    if (fabsf(x) < 0x1p-126f)
        return 0;
    return clprune__round_operand(CLPRUNE_PRECISION_BF16, (double)x);
}

static clprune_status compare(clprune_context *context, const float *data, const float *got)
{
    for (size_t v = 0; v < VECTORS; v++)
        for (size_t i = 0; i < LANES; i++) {
            const float *a = data + v * VECTOR, *b = a + 2 * LANES, *sum = b + 2 * LANES;
            const double want = (double)sum[i] + operand(a[2 * i]) * operand(b[i]) +
                                operand(a[2 * i + 1]) * operand(b[LANES + i]);
            const double is = (double)got[v * VECTOR + 4 * LANES + i];
            REQUIRE(is == want, CLPRUNE_UNSUPPORTED,
                "sum %zu of vector %zu of the probe is %.9g instead of %.9g", i, v, is, want);
        }
    return CLPRUNE_SUCCESS;
}

clprune_status clprune__bf16_probe(clprune_context *context, bool round_a)
{
    clprune_status status = CLPRUNE_SUCCESS;
    const size_t one = 1;
    float data[FLOATS], got[FLOATS];
    cl_uint found = 0;
    clprune__defines defines = {0};
    cl_mem buffer = NULL;
    fill_probe(round_a, data);
    TRY_DONE(clprune_buffer_create(
        context, CLPRUNE_MEMORY_WORKSPACE, "bf16_probe", sizeof data + sizeof found, &buffer));
    TRY_DONE(clprune__transfer_write(context, data, buffer, 0, sizeof data));
    clprune__define(&defines, "BF16", CLPRUNE__PAIRS_INSTRUCTION);
    clprune__launch launch;
    TRY_DONE(clprune__launch_begin(context, &bf16_probe_kernel, &defines, &launch));
    clprune__arg_uint(&launch, VECTORS);
    clprune__arg_mem(&launch, buffer);
    TRY_DONE(clprune__launch_enqueue(&launch, 1, &one, &one, NULL));
    TRY_DONE(clprune__transfer_read(context, buffer, sizeof data, sizeof found, &found));
    REQUIRE_DONE(found != 0, CLPRUNE_UNSUPPORTED, "the device has no AVX512-BF16");
    TRY_DONE(clprune__transfer_read(context, buffer, 0, sizeof got, got));
    TRY_DONE(compare(context, data, got));
done:
    clprune_buffer_release(context, buffer);
    return status;
}
