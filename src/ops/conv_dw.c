/* Weight gradients of convolutions on CPUs, from dense images and from pooled cells. */
#include "core/checked.h"
#include "ops/bspmm_private.h"
#include "ops/conv_private.h"
#include "ops/gemm_private.h"
#include "ops/ops_state.h"
#include "runtime/check.h"
#include "runtime/context_private.h"
#include "runtime/scratch.h"

static const clprune__kernel_def conv_dw_vector_kernel = {
    "conv_dw_vector.cl", "conv_dw_vector", "panel.clh"};

/* How conv_dw_vector.cl cuts the results. */
typedef struct dw_plan {
    clprune__bspmm_plan sums;
    size_t height, width,
        images;          /* of a segment: rows, columns, and images where it has them whole */
    size_t segment_most; /* pixels that the kernel is built for */
} dw_plan;

/* rows x cols: result pixels of an image, or cells, which are not cut across. */
static dw_plan plan_dw(
    const clprune_context *context, const clprune__conv *conv, size_t rows, size_t cols)
{
    const clprune__tuning *tuning = &context->ops->tuning;
    const size_t units = context->facts.compute_units;
    clprune__bspmm_plan sums = {.inner = conv->kernel.height * conv->kernel.width * conv->in,
        .tile = clprune__largest_divisor(conv->in, tuning->bspmm_tn.tile_columns)};
    sums.vectors = clprune__choose_vectors(conv->out, sums.tile, tuning->bspmm_tn.accumulators);
    sums.panel = 16 * sums.vectors;
    sums.panels = clprune__ceil_div(conv->out, sums.panel);
    /* Segments of as many pixels as a near cache holds, in equal parts of an image or whole ones.
     */
    const size_t fits = clprune__panel_rows(context, 1024, sums.panel);
    dw_plan plan = {.width = cols, .height = rows, .images = 1, .segment_most = fits};
    if (cols > fits) {
        plan.height = 1;
        plan.width = clprune__ceil_div(cols, clprune__ceil_div(cols, fits));
    } else if (rows * cols > fits) {
        const size_t most = fits / cols;
        plan.height = clprune__ceil_div(rows, clprune__ceil_div(rows, most));
    } else {
        plan.images = clprune__min(conv->batch, fits / (rows * cols));
    }
    /* A panel of results that stays near is worked on alone. */
    sums.panel_run = 1;
    const size_t wanted = units * tuning->bspmm_tn.groups_per_unit;
    sums.splits = sums.panels % units == 0
                      ? 1
                      : clprune__max(1, clprune__min(clprune__ceil_div(conv->batch, plan.images),
                                            clprune__ceil_div(wanted, sums.panels)));
    plan.images = clprune__min(plan.images, clprune__ceil_div(conv->batch, sums.splits));
    plan.sums = sums;
    return plan;
}

clprune_status clprune__conv_take_partial(
    clprune_context *context, const clprune__bspmm_plan *plan, clprune__bspmm_scratch *scratch)
{
    clprune_status status = CLPRUNE_SUCCESS;
    size_t bytes;
    REQUIRE(clprune__mul3(plan->splits, plan->panels, plan->inner, &bytes) &&
                clprune__mul3(bytes, plan->panel, sizeof(float), &bytes),
        CLPRUNE_SIZE_OVERFLOW, "the scratch of a product with %zu splits overflows size_t",
        plan->splits);
    TRY(clprune__scratch_take(context, bytes, &scratch->partial, &scratch->partial_offset));
    scratch->partial_offset /= sizeof(float);
done:
    return status;
}

/* dw from x, dense images or, with a cell, pooled ones. */
static clprune_status multiply(clprune_context *context, const clprune__conv *conv, size_t cell,
    float beta, clprune_mat x, clprune_mat dy, clprune_mat dw, cl_event *event)
{
    clprune_status status = CLPRUNE_SUCCESS;
    const bool pooled = cell > 0;
    const clprune_extent grid = pooled
                                    ? (clprune_extent){clprune__ceil_div(conv->image.height, cell),
                                          clprune__ceil_div(conv->image.width, cell)}
                                    : conv->output;
    const dw_plan plan = plan_dw(context, conv, grid.height, grid.width);
    const clprune__bspmm_plan *sums = &plan.sums;
    const size_t local[2] = {1, 1};
    const size_t global[2] = {clprune__ceil_div(sums->panels, sums->panel_run), sums->splits};
    const clprune__scratch_mark mark = clprune__scratch_begin(context);
    clprune__bspmm_scratch scratch = {.partial = NULL};
    TRY(clprune__conv_take_partial(context, sums, &scratch));
    clprune__defines defines = {0};
    clprune__define(&defines, "V", sums->vectors);
    clprune__define(&defines, "CB", sums->tile);
    clprune__define(&defines, "SEG", plan.segment_most);
    clprune__define(&defines, "POOLED", pooled);
    clprune__launch launch;
    TRY(clprune__launch_begin(context, &conv_dw_vector_kernel, &defines, &launch));
    clprune__arg_ulong(&launch, conv->batch);
    clprune__arg_uint(&launch, (uint32_t)conv->in);
    clprune__arg_uint(&launch, (uint32_t)conv->out);
    clprune__arg_conv(&launch, conv);
    clprune__arg_uint(&launch, (uint32_t)plan.height);
    clprune__arg_uint(&launch, (uint32_t)plan.width);
    clprune__arg_ulong(&launch, plan.images);
    clprune__arg_uint(&launch, (uint32_t)cell);
    clprune__arg_ulong(&launch, sums->panels);
    clprune__arg_ulong(&launch, sums->panel_run);
    clprune__arg_mat(&launch, x);
    clprune__arg_mat(&launch, dy);
    clprune__arg_ulong(&launch, scratch.partial_offset);
    clprune__arg_mem(&launch, scratch.partial);
    TRY(clprune__launch_enqueue(&launch, 2, global, local, NULL));
    TRY(clprune__bspmm_finish(context, sums, 1.0f, beta, &scratch, dw, event));
done:
    clprune__scratch_end(context, mark);
    return status;
}

clprune_status clprune__conv_dw_vector(clprune_context *context, const clprune__conv *conv,
    float beta, clprune_mat x, clprune_mat dy, clprune_mat dw, cl_event *event)
{
    return multiply(context, conv, 0, beta, x, dy, dw, event);
}

bool clprune__conv_pools(const clprune_context *context, const clprune__conv *conv, size_t cell)
{
    if (!clprune__conv_uses_vectors(context))
        return true;
    const size_t cols = clprune__ceil_div(conv->image.width, cell);
    const dw_plan plan = plan_dw(context, conv, clprune__ceil_div(conv->image.height, cell), cols);
    return plan.width == cols; /* a row of cells fits local memory */
}

clprune_status clprune__conv_dw_pooled(clprune_context *context, const clprune__conv *conv,
    size_t cell, float beta, clprune_mat p, clprune_mat dy, clprune_mat dw, cl_event *event)
{
    if (!clprune__conv_uses_vectors(context))
        return clprune__conv_dw_pooled_tiled(context, conv, cell, beta, p, dy, dw, event);
    return multiply(context, conv, cell, beta, p, dy, dw, event);
}
