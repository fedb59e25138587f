/* The partial results of dw: their scratch, the launch that writes them, and their sum. */
#include "core/checked.h"
#include "ops/conv/conv_private.h"
#include "ops/products/gemm_private.h"
#include "runtime/context/fail.h"
#include "runtime/memory/scratch.h"

bool clprune__conv_direct(const clprune_context *context, const clprune__conv *conv,
    const clprune__bspmm_plan *plan, size_t padded)
{
    const size_t floats = 16 * plan->panel + 256; /* beside the segment */
    const size_t rows = plan->segment_most + clprune__ceil_div(floats, plan->panel);
    return plan->splits == 1 && 16 % plan->tile == 0 && conv->in % 16 == 0 && conv->in == padded &&
           clprune__panel_rows(context, rows, plan->panel) == rows;
}

clprune_status clprune__conv_take_partial(
    clprune_context *context, const clprune__bspmm_plan *plan, clprune__bspmm_scratch *scratch)
{
    size_t count;
    REQUIRE(clprune__mul3(plan->splits, plan->panels, plan->inner, &count) &&
                clprune__mul(count, plan->panel, &count),
        CLPRUNE_SIZE_OVERFLOW, "the scratch of a product with %zu splits overflows size_t",
        plan->splits);
    return clprune__scratch_array(context, count, sizeof(float), &scratch->partial);
}

clprune_status clprune__conv_enqueue_dw(clprune__launch *launch, const clprune__bspmm_plan *plan,
    float beta, clprune_mat dw, cl_event *event)
{
    const size_t local[2] = {1, 1};
    const size_t global[2] = {clprune__ceil_div(plan->panels, plan->panel_run), plan->splits};
    if (plan->direct) {
        clprune__arg_float(launch, beta);
        clprune__arg_mat(launch, dw);
    }
    return clprune__launch_enqueue(launch, 2, global, local, plan->direct ? event : NULL);
}

/* Tap by tap if the last block of a pixel overhangs its channels (padded > conv->in). */
clprune_status clprune__conv_finish(clprune_context *context, const clprune__conv *conv,
    const clprune__bspmm_plan *plan, size_t padded, float beta, clprune__bspmm_scratch scratch,
    clprune_mat dw, cl_event *event)
{
    const bool even = padded == conv->in;
    const size_t taps = conv->kernel.height * conv->kernel.width;
    for (size_t t = 0; t < (even ? 1 : taps); t++) {
        clprune_mat part = dw;
        part.offset += t * conv->in;
        if (!even)
            part.cols = conv->in;
        TRY(clprune__bspmm_finish(
            context, plan, 1.0f, beta, &scratch, part, even || t + 1 == taps ? event : NULL));
        scratch.partial.offset += padded * plan->panel;
    }
    return CLPRUNE_SUCCESS;
}

clprune_status clprune__conv_finish_source(clprune_context *context, const clprune__conv *coarse,
    const clprune__conv_source *from, const clprune__bspmm_plan *plan, float beta,
    clprune__bspmm_scratch scratch, clprune_mat dw, cl_event *event)
{
    const clprune__conv *conv = from->of;
    const size_t side = from->side;
    if (conv == NULL)
        return clprune__bspmm_finish(context, plan, 1.0f, beta, &scratch, dw, event);
    const size_t taps = conv->kernel.height * conv->kernel.width;
    const size_t first = scratch.partial.offset;
    for (size_t t = 0; t < taps; t++) {
        const size_t y = clprune__conv_shared_tap(
            t / conv->kernel.width, conv->dilation.height, conv->padding.height, side);
        const size_t x = clprune__conv_shared_tap(
            t % conv->kernel.width, conv->dilation.width, conv->padding.width, side);
        clprune_mat part = dw;
        part.offset += t * conv->in;
        part.cols = conv->in;
        scratch.partial.offset = first + (y * coarse->kernel.width + x) * conv->in * plan->panel;
        TRY(clprune__bspmm_finish(
            context, plan, 1.0f, beta, &scratch, part, t + 1 == taps ? event : NULL));
    }
    return CLPRUNE_SUCCESS;
}
