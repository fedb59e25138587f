/* Products of convolutions: which kernels make them. */
#include "ops/conv/conv_private.h"

#include "core/checked.h"
#include "ops/device/bf16.h"
#include "ops/device/ops_state.h"
#include "ops/products/gemm_private.h"
#include "runtime/context/check.h"
#include "runtime/context/context_private.h"
#include "runtime/context/fail.h"
#include "runtime/memory/scratch.h"

/* Whether the engine of a product reads a `from` of bf16, or (not as_it_is) should read it rounded.
 */
static bool reads_bf16(
    const clprune_context *context, const clprune__conv_gather *job, bool as_it_is)
{
    return clprune__conv_uses_vectors(context) ? clprune__conv_takes_pairs(context, job)
                                               : clprune__conv_gathers_bf16(context, job, as_it_is);
}

/* Rounds an operand for it, in scratch. */
static clprune_status to_bf16(clprune_context *context, clprune_mat *from)
{
    return clprune__conv_uses_vectors(context) ? clprune__conv_round_source(context, from)
                                               : clprune__gemm_to_bf16(context, from);
}

static clprune_status gather(
    clprune_context *context, const clprune__conv_gather *job, cl_event *event)
{
    if (!clprune__conv_uses_vectors(context))
        return clprune__conv_gather_tiled(context, job, event);
    return clprune__conv_strips(context, job) ? clprune__conv_gather_strip(context, job, event)
                                              : clprune__conv_gather_vector(context, job, event);
}

/* Each group is a convolution of its own, of columns of x to columns of y, with rows of w. */
static clprune__conv one_group(const clprune__conv *conv, size_t groups)
{
    clprune__conv one = *conv;
    one.in /= groups;
    one.out /= groups;
    one.groups = 1;
    return one;
}

static clprune_mat columns(clprune_mat mat, size_t g, size_t count)
{
    if (clprune__is_absent(mat))
        return mat;
    mat.offset += g * count;
    mat.cols = count;
    return mat;
}

static clprune_mat rows(clprune_mat mat, size_t g, size_t count)
{
    return clprune_mat_rows(mat, g * count, count);
}

bool clprune__conv_forward_reads_bf16(const clprune_context *context, const clprune__conv *conv)
{
    const clprune__conv_gather job = clprune__conv_forward_job(conv);
    if (clprune__conv_is_depthwise(conv))
        return context->ops->pairs != CLPRUNE__PAIRS_NONE && clprune__conv_uses_vectors(context);
    return conv->groups <= 1 && conv->in % 2 == 0 &&
           (conv->batch == 0 || reads_bf16(context, &job, true));
}

static clprune_status forward_one(clprune_context *context, const clprune__conv *conv,
    clprune_mat x, clprune_mat w, clprune_mat b, clprune_mat y, cl_event *event)
{
    SCRATCH_SCOPE(context);
    clprune__conv_gather job = clprune__conv_forward_job(conv);
    job.from = x;
    job.w = w;
    job.bias = b;
    job.to = y;
    if (x.type == CLPRUNE_VALUES_BF16) {
        REQUIRE(x.ld % 2 == 0 && x.offset % 2 == 0, CLPRUNE_INVALID_ARGUMENT,
            "x of bf16 has ld %zu and offset %zu, expected even ones", x.ld, x.offset);
        if (clprune__conv_uses_vectors(context))
            job.from = clprune__words_of(x);
        job.rounded = true;
    } else if (reads_bf16(context, &job, false)) {
        TRY(to_bf16(context, &job.from));
        job.rounded = true;
    }
    return gather(context, &job, event);
}

clprune_status clprune__conv_forward(clprune_context *context, const clprune__conv *conv,
    clprune_mat x, clprune_mat w, clprune_mat b, clprune_mat y, cl_event *event)
{
    if (clprune__conv_is_depthwise(conv))
        return clprune__conv_depthwise_forward(context, conv, x, w, b, y, event);
    const size_t groups = clprune__max(conv->groups, 1);
    const clprune__conv one = one_group(conv, groups);
    for (size_t g = 0; g < groups; g++)
        TRY(forward_one(context, &one, columns(x, g, one.in), rows(w, g, one.out),
            columns(b, g, one.out), columns(y, g, one.out), g + 1 == groups ? event : NULL));
    return CLPRUNE_SUCCESS;
}

bool clprune__conv_backward_reads_bf16(
    const clprune_context *context, const clprune__conv *conv, bool as_it_is)
{
    const clprune__conv_source dense = {.cell = 1};
    const clprune__conv_gather job = clprune__conv_dx_job(conv, 0, 0);
    return conv->groups <= 1 && !clprune__conv_uses_vectors(context) &&
           reads_bf16(context, &job, true) &&
           clprune__conv_dw_takes_bf16(context, conv, &dense, as_it_is);
}

static clprune_status dx_one(clprune_context *context, const clprune__conv *conv, float beta,
    clprune_mat dy, clprune_mat w, clprune_mat dx, cl_event *event)
{
    /* One launch for each phase (y, x) of the strides: the same taps reach all its pixels. dy is
     * rounded once. */
    SCRATCH_SCOPE(context);
    clprune_mat rounded = CLPRUNE_NO_MAT;
    const size_t phases_y = clprune__min(conv->stride.height, conv->image.height),
                 phases_x = clprune__min(conv->stride.width, conv->image.width);
    for (size_t y = 0; y < phases_y; y++)
        for (size_t x = 0; x < phases_x; x++) {
            const bool last = y + 1 == phases_y && x + 1 == phases_x;
            clprune__conv_gather job = clprune__conv_dx_job(conv, y, x);
            job.beta = beta;
            job.from = dy;
            job.w = w;
            job.to = dx;
            job.rounded = dy.type == CLPRUNE_VALUES_BF16 || reads_bf16(context, &job, false);
            if (job.rounded) {
                if (clprune__is_absent(rounded)) {
                    rounded = dy;
                    TRY(to_bf16(context, &rounded));
                }
                job.from = rounded;
            }
            TRY(gather(context, &job, last ? event : NULL));
        }
    return CLPRUNE_SUCCESS;
}

clprune_status clprune__conv_dx(clprune_context *context, const clprune__conv *conv, float beta,
    clprune_mat dy, clprune_mat w, clprune_mat dx, cl_event *event)
{
    if (clprune__conv_is_depthwise(conv))
        return clprune__conv_depthwise_dx(context, conv, beta, dy, w, dx, event);
    const size_t groups = clprune__max(conv->groups, 1);
    const clprune__conv one = one_group(conv, groups);
    for (size_t g = 0; g < groups; g++)
        TRY(dx_one(context, &one, beta, columns(dy, g, one.out), rows(w, g, one.out),
            columns(dx, g, one.in), g + 1 == groups ? event : NULL));
    return CLPRUNE_SUCCESS;
}

static clprune_status dw_from(clprune_context *context, const clprune__conv *conv,
    const clprune__conv_source *from, float beta, clprune_mat dy, clprune_mat dw, cl_event *event)
{
    return clprune__conv_uses_vectors(context)
               ? clprune__conv_dw_vector(context, conv, from, beta, dy, dw, event)
               : clprune__conv_dw_tiled(context, conv, from, beta, dy, dw, event);
}

clprune_status clprune__conv_dw(clprune_context *context, const clprune__conv *conv, float beta,
    clprune_mat x, clprune_mat dy, clprune_mat dw, cl_event *event)
{
    if (clprune__conv_is_depthwise(conv))
        return clprune__conv_depthwise_dw(context, conv, beta, x, dy, dw, event);
    const size_t groups = clprune__max(conv->groups, 1);
    const clprune__conv one = one_group(conv, groups);
    for (size_t g = 0; g < groups; g++) {
        const clprune__conv_source from = {.x = columns(x, g, one.in), .cell = 1};
        TRY(dw_from(context, &one, &from, beta, columns(dy, g, one.out), rows(dw, g, one.out),
            g + 1 == groups ? event : NULL));
    }
    return CLPRUNE_SUCCESS;
}

bool clprune__conv_pools(const clprune_context *context, const clprune__conv *conv, size_t cell)
{
    clprune__conv coarse;
    const size_t side = clprune__conv_share_taps(conv, cell, &coarse);
    if (!clprune__conv_uses_vectors(context) || side == cell)
        return true;
    return clprune__conv_dw_vector_pools(context, &coarse, cell / side);
}

clprune_status clprune__conv_dw_pooled(clprune_context *context, const clprune__conv *conv,
    size_t cell, float beta, clprune_mat p, clprune_mat dy, clprune_mat dw, cl_event *event)
{
    clprune__conv coarse;
    const size_t side = clprune__conv_share_taps(conv, cell, &coarse);
    const clprune__conv_source from = {
        .x = p, .cell = cell / side, .of = side > 1 ? conv : NULL, .side = side};
    return dw_from(context, &coarse, &from, beta, dy, dw, event);
}

clprune_status clprune__conv_dw_quantised(clprune_context *context, const clprune__conv *conv,
    float beta, const clprune__quantised *q, clprune_mat dy, clprune_mat dw, cl_event *event)
{
    const clprune__conv_source from = {.q = q, .cell = 1};
    return dw_from(context, conv, &from, beta, dy, dw, event);
}

bool clprune__conv_prunes(
    const clprune_context *context, const clprune__conv *conv, const clprune_bsr *xs)
{
    if (context->kernels == CLPRUNE_KERNELS_VECTOR)
        return clprune__conv_dw_pruned_vector_fits(context, conv, xs);
    /* tiled_tn.clh numbers the pixels of an image, and its results, in 31 bits */
    return conv->image.height <= INT32_MAX / conv->image.width &&
           conv->output.height <= INT32_MAX / conv->output.width;
}

clprune_status clprune__conv_dw_pruned(clprune_context *context, const clprune__conv *conv,
    float beta, const clprune_bsr *xs, const clprune_mat *means, clprune_mat dy, clprune_mat dw,
    cl_event *event)
{
    clprune_bsr_sizes sizes;
    TRY(clprune__check_bsr(context, xs, &sizes));
    const bool vector = context->kernels == CLPRUNE_KERNELS_VECTOR, kept = xs->desc.keep > 0;
    if (means != NULL && !(vector && kept)) {
        TRY(clprune__conv_dw_mean(context, conv, beta, *means, dy, dw, kept ? NULL : event));
        beta = 1.0f;
    } else if (!kept) {
        TRY(clprune__scale(context, beta, dw, event));
    }
    if (kept && vector)
        TRY(clprune__conv_dw_pruned_vector(context, conv, beta, xs, &sizes, means, dy, dw, event));
    else if (kept)
        TRY(clprune__conv_dw_pruned_tiled(context, conv, beta, xs, &sizes, dy, dw, event));
    return CLPRUNE_SUCCESS;
}
