/* dw of a convolution from one vector for each image, the value of all of its pixels. */
#include "ops/conv/conv_private.h"
#include "ops/products/gemm_private.h"
#include "runtime/context/fail.h"
#include "runtime/launch/rowwise.h"
#include "runtime/memory/scratch.h"

static const clprune__kernel_def conv_tap_sums_kernel = {"conv/conv_tap_sums.cl", "conv_tap_sums"};

/* A work-item has a vector of sums for each tap: 256 on CPUs take 16 KiB of its stack. */
enum { MOST_TAPS = 256 };

bool clprune__conv_sums_taps(const clprune__conv *conv)
{
    return conv->kernel.height <= MOST_TAPS && conv->kernel.width <= MOST_TAPS &&
           conv->kernel.height * conv->kernel.width <= MOST_TAPS;
}

/* sums: batch x (out * taps). */
static clprune_status sum_taps(
    clprune_context *context, const clprune__conv *conv, clprune_mat dy, clprune_mat sums)
{
    clprune__rowwise plan = clprune__rowwise_plan(context, conv->batch, conv->out);
    clprune__define(&plan.defines, "KH", conv->kernel.height);
    clprune__define(&plan.defines, "KW", conv->kernel.width);
    clprune__launch launch;
    TRY(clprune__launch_begin(context, &conv_tap_sums_kernel, &plan.defines, &launch));
    ARG_ULONGS(&launch, conv->image.height, conv->image.width, conv->output.height,
        conv->output.width, conv->stride.height, conv->stride.width, conv->padding.height,
        conv->padding.width, conv->dilation.height, conv->dilation.width, conv->out);
    ARG_MATS(&launch, dy, sums);
    return clprune__rowwise_end_parts(&launch, &plan, NULL);
}

/* Forward: y[n, i, j] = sum over the taps in the image of w_ab * m[n]. So dw_ab = sum over n of
 * (the sum of dy[n] over the results that the tap serves)^T * m[n]. A row of dw is taps x in, so dw
 * without gaps is one (out * taps) x in matrix. */
clprune_status clprune__conv_dw_mean(clprune_context *context, const clprune__conv *conv,
    float beta, clprune_mat m, clprune_mat dy, clprune_mat dw, cl_event *event)
{
    SCRATCH_SCOPE(context);
    const size_t taps = conv->kernel.height * conv->kernel.width;
    const size_t joined = dw.ld == taps * conv->in ? conv->out : 1; /* rows of dw at a time */
    clprune_mat sums;
    TRY(clprune__scratch_mat(context, conv->batch, conv->out * taps, &sums));
    TRY(sum_taps(context, conv, dy, sums));
    for (size_t o = 0; o < conv->out; o += joined) {
        const clprune_mat from = {
            sums.buffer, sums.offset + o * taps, conv->batch, joined * taps, sums.ld};
        const clprune_mat to = {
            dw.buffer, dw.offset + o * dw.ld, joined * taps, conv->in, conv->in};
        TRY(clprune__gemm_single(
            context, true, false, 1.0f, beta, from, m, to, o + joined == conv->out ? event : NULL));
    }
    return CLPRUNE_SUCCESS;
}
