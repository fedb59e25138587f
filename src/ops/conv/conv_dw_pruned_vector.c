/* Weight gradients of convolutions from kept blocks on CPUs. */
#include "core/checked.h"
#include "ops/conv/conv_private.h"
#include "ops/device/bf16.h"
#include "ops/device/ops_state.h"
#include "ops/products/gemm_private.h"
#include "ops/sparse/bsr_private.h"
#include "runtime/context/context_private.h"
#include "runtime/context/fail.h"
#include "runtime/memory/scratch.h"

static const clprune__kernel_def conv_lists_kernel = {"conv/conv_lists.cl", "conv_lists"};
static const clprune__kernel_def conv_dw_pruned_kernel = {
    "conv/conv_dw_pruned_vector.cl", "conv_dw_pruned_vector"};

/* Columns of a tile, bytes of a panel of dy, images of a panel at most. On Zen 5, tiles of 8
 * columns and panels of 1024 pixels took 1.1 to 1.2 times as long. */
enum { TILE_COLUMNS = 4, PANEL_BYTES = 64 << 10, IMAGES = 16 };

/* How conv_dw_pruned_vector.cl divides the images. */
typedef struct pruned_plan {
    clprune__bspmm_plan sums; /* segments are in rows of pixels / stride */
    size_t images;            /* of a segment */
    ptrdiff_t low_y, low_x;   /* the least shift of a tap */
    size_t margin_y, pitch;   /* of the panel */
    size_t classes, padded;   /* classes of pixels; channels, padded to whole blocks */
} pruned_plan;

/* Along an axis, the result of pixel q under a tap is floor(q / stride) + this: tap_shift in the
 * kernel. */
static ptrdiff_t tap_shift(size_t tap, size_t stride, size_t padding, size_t dilation)
{
    const ptrdiff_t s = (ptrdiff_t)stride, reach = (ptrdiff_t)(tap * dilation) - (ptrdiff_t)padding;
    const ptrdiff_t of = (reach % s + s) % s;
    return (of - reach) / s;
}

/* Returns the least of these shifts; *range = the largest less the least. */
static ptrdiff_t shifts(size_t taps, size_t stride, size_t padding, size_t dilation, size_t *range)
{
    ptrdiff_t low = 0, high = 0;
    for (size_t a = 0; a < taps; a++) {
        const ptrdiff_t shift = tap_shift(a, stride, padding, dilation);
        low = a == 0 || shift < low ? shift : low;
        high = a == 0 || shift > high ? shift : high;
    }
    *range = (size_t)(high - low);
    return low;
}

/* False if the panel has no row of pixels beside those of the margin, or if there are more classes
 * than pixels, as their lists would take more memory than the image. */
static bool make_plan(const clprune_context *context, const clprune__conv *conv,
    const clprune_bsr *xs, pruned_plan *made)
{
    const clprune__tuning *tuning = &context->ops->tuning;
    const size_t bc = xs->desc.block.cols;
    const bool bf16 = context->ops->pairs != CLPRUNE__PAIRS_NONE;
    const size_t taps = conv->kernel.height * conv->kernel.width;
    const size_t steps = clprune__ceil_div(conv->image.height, conv->stride.height);
    pruned_plan plan = {.classes = conv->stride.height * conv->stride.width,
        .padded = clprune__round_up(conv->in, bc)};
    clprune__bspmm_plan *sums = &plan.sums;
    size_t margin_x;
    plan.low_y = shifts(conv->kernel.height, conv->stride.height, conv->padding.height,
        conv->dilation.height, &plan.margin_y);
    plan.low_x = shifts(conv->kernel.width, conv->stride.width, conv->padding.width,
        conv->dilation.width, &margin_x);
    plan.pitch = clprune__ceil_div(conv->image.width, conv->stride.width) + margin_x;
    sums->ahead = tuning->bspmm_tn.ahead;
    sums->inner = taps * plan.padded;
    sums->tile = clprune__largest_divisor(bc, TILE_COLUMNS);
    sums->vectors = clprune__choose_vectors(conv->out, sums->tile, tuning->bspmm_tn.accumulators,
        tuning->bspmm_tn.groups, bf16 ? 2 : 1);
    sums->panel = 16 * sums->vectors;
    sums->panels = clprune__ceil_div(conv->out, sums->panel);
    sums->panel_run = 1;
    const size_t row = sums->panel / (bf16 ? 2 : 1); /* words; of bf16 one row more */
    sums->segment_most =
        clprune__panel_rows(context, PANEL_BYTES / (row * sizeof(float)), row) - bf16;
    const size_t rows = sums->segment_most / plan.pitch; /* of the panel */
    if (rows <= plan.margin_y || plan.classes / conv->image.height > conv->image.width)
        return false;
    sums->segment = clprune__min(steps, rows - plan.margin_y);
    sums->segments = clprune__ceil_div(steps, sums->segment);
    sums->segment = clprune__ceil_div(steps, sums->segments);
    plan.images = sums->segments > 1 ? 1 : clprune__min(IMAGES, rows / (steps + plan.margin_y));
    sums->splits = clprune__vector_splits(
        tuning->bspmm_tn.groups, sums->panels, clprune__ceil_div(conv->batch, plan.images));
    plan.images = clprune__min(plan.images, clprune__ceil_div(conv->batch, sums->splits));
    sums->direct = clprune__conv_direct(context, conv, sums, plan.padded);
    *made = plan;
    return true;
}

/* Takes the scratch of the lists. */
static clprune_status take_lists(clprune_context *context, const pruned_plan *plan,
    const clprune_bsr *xs, const clprune_bsr_sizes *sizes, clprune__bspmm_scratch *scratch)
{
    size_t starts, entries;
    REQUIRE(clprune__mul3(xs->desc.batch, plan->sums.segments, plan->classes, &starts) &&
                clprune__mul(starts, sizes->block_cols + 1, &starts) &&
                clprune__mul(xs->desc.batch, xs->desc.keep, &entries) &&
                clprune__add(entries, plan->sums.ahead, &entries),
        CLPRUNE_SIZE_OVERFLOW, "the lists of %zu images overflow size_t", xs->desc.batch);
    TRY(clprune__scratch_array(context, starts, sizeof(cl_uint), &scratch->starts));
    return clprune__scratch_array(context, entries, sizeof(cl_uint2), &scratch->entries);
}

static clprune_status list_blocks(clprune_context *context, const clprune__conv *conv,
    const pruned_plan *plan, const clprune_bsr *xs, const clprune_bsr_sizes *sizes,
    const clprune__bspmm_scratch *scratch)
{
    const size_t local = 1, global = conv->batch * plan->sums.segments;
    const clprune__defines defines = {0};
    clprune__launch launch;
    TRY(clprune__launch_begin(context, &conv_lists_kernel, &defines, &launch));
    clprune__arg_uint(&launch, (uint32_t)conv->image.height);
    clprune__arg_uint(&launch, (uint32_t)conv->image.width);
    clprune__arg_uint(&launch, (uint32_t)conv->stride.height);
    clprune__arg_uint(&launch, (uint32_t)conv->stride.width);
    clprune__arg_uint(&launch, (uint32_t)plan->pitch);
    clprune__arg_ulong(&launch, sizes->block_cols);
    clprune__arg_uint(&launch, (uint32_t)plan->sums.segment);
    ARG_ULONGS(&launch, plan->sums.segments, xs->desc.keep);
    clprune__arg_index(&launch, &scratch->index);
    clprune__arg_region(&launch, scratch->starts);
    clprune__arg_region(&launch, scratch->entries);
    return clprune__launch_enqueue(&launch, 1, &global, &local, NULL);
}

static clprune_status multiply(clprune_context *context, const clprune__conv *conv,
    const pruned_plan *plan, const clprune_bsr *xs, const clprune_bsr_sizes *sizes,
    const clprune_mat *means, float beta, clprune_mat dy, const clprune__bspmm_scratch *scratch,
    const clprune__bspmm_pairs *pairs, clprune_mat dw, cl_event *event)
{
    const clprune__bspmm_plan *sums = &plan->sums;
    clprune__defines defines = {0};
    clprune__define(&defines, "V", sums->vectors);
    clprune__bspmm_define_amx(context, sums, &xs->desc, &defines);
    clprune__define(&defines, "BC", xs->desc.block.cols);
    clprune__define(&defines, "SEG", sums->segment_most);
    clprune__define(&defines, "AHEAD", sums->ahead);
    clprune__define(&defines, "IMAGES", IMAGES);
    clprune__define(&defines, "CENTRED", means != NULL);
    clprune__define(&defines, "DIRECT", sums->direct);
    clprune__bf16_define(context, &defines);
    clprune__launch launch;
    TRY(clprune__launch_begin(context, &conv_dw_pruned_kernel, &defines, &launch));
    clprune__arg_ulong(&launch, conv->batch);
    clprune__arg_uint(&launch, (uint32_t)conv->out);
    clprune__arg_conv(&launch, conv);
    clprune__arg_ulong(&launch, sizes->block_cols);
    clprune__arg_uint(&launch, (uint32_t)sums->segment);
    ARG_ULONGS(&launch, sums->segments, plan->images);
    clprune__arg_uint(&launch, (uint32_t)plan->low_y);
    clprune__arg_uint(&launch, (uint32_t)plan->low_x);
    clprune__arg_uint(&launch, (uint32_t)plan->margin_y);
    clprune__arg_uint(&launch, (uint32_t)plan->pitch);
    clprune__arg_ulong(&launch, xs->desc.keep);
    if (pairs != NULL)
        clprune__arg_ulong(&launch, pairs->slots);
    ARG_ULONGS(&launch, sums->panels, sums->panel_run);
    clprune__arg_mat(&launch, dy);
    clprune__arg_region(&launch, pairs != NULL ? pairs->words : scratch->values);
    clprune__arg_region(&launch, scratch->starts);
    clprune__arg_region(&launch, pairs != NULL ? pairs->rows : scratch->entries);
    clprune__arg_region(&launch, scratch->partial);
    if (means != NULL) {
        clprune__arg_uint(&launch, (uint32_t)conv->in);
        clprune__arg_mat(&launch, *means);
    }
    return clprune__conv_enqueue_dw(&launch, sums, beta, dw, event);
}

bool clprune__conv_dw_pruned_vector_fits(
    const clprune_context *context, const clprune__conv *conv, const clprune_bsr *xs)
{
    pruned_plan plan;
    return xs->desc.block.rows == 1 && make_plan(context, conv, xs, &plan);
}

clprune_status clprune__conv_dw_pruned_vector(clprune_context *context, const clprune__conv *conv,
    float beta, const clprune_bsr *xs, const clprune_bsr_sizes *sizes, const clprune_mat *means,
    clprune_mat dy, clprune_mat dw, cl_event *event)
{
    pruned_plan plan;
    clprune__bspmm_scratch scratch = {.even_rows = false};
    SCRATCH_SCOPE(context);
    (void)make_plan(context, conv, xs, &plan);
    const bool bf16 = context->ops->pairs != CLPRUNE__PAIRS_NONE;
    clprune__bspmm_pairs pairs;
    if (bf16) {
        scratch.values = clprune__bsr_values_region(xs);
        scratch.scales = clprune__bsr_scales_region(xs);
    } else {
        TRY(clprune__bsr_values(context, xs, &scratch.values));
    }
    TRY(clprune__bsr_read_index(context, xs, sizes, &scratch.index));
    TRY(take_lists(context, &plan, xs, sizes, &scratch));
    TRY(clprune__conv_take_partial(context, &plan.sums, &scratch));
    TRY(list_blocks(context, conv, &plan, xs, sizes, &scratch));
    if (bf16) /* a class of a segment has lists of its own */
        TRY(clprune__bspmm_list_pairs(context, &xs->desc, plan.sums.segments * plan.classes,
            sizes->block_cols, plan.sums.segment_most, &scratch, &pairs));
    TRY(multiply(context, conv, &plan, xs, sizes, means, beta, dy, &scratch, bf16 ? &pairs : NULL,
        dw, event));
    if (!plan.sums.direct)
        TRY(clprune__conv_finish(context, conv, &plan.sums, plan.padded, beta, scratch, dw, event));
    return CLPRUNE_SUCCESS;
}
