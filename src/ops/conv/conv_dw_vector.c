/* Weight gradients of convolutions on CPUs, from dense images and from pooled cells. */
#include "core/checked.h"
#include "ops/conv/conv_private.h"
#include "ops/device/bf16.h"
#include "ops/device/ops_state.h"
#include "ops/products/gemm_private.h"
#include "ops/sparse/bspmm_private.h"
#include "runtime/context/context_private.h"
#include "runtime/context/fail.h"
#include "runtime/memory/matrix_private.h"
#include "runtime/memory/scratch.h"

static const clprune__kernel_def conv_dw_vector_kernel = {
    "conv/conv_dw_vector.cl", "conv_dw_vector"};
static const clprune__kernel_def conv_dw_pooled_vector_kernel = {
    "conv/conv_dw_pooled_vector.cl", "conv_dw_pooled_vector"};

static const clprune__kernel_def conv_dw_bf16_vector_kernel = {
    "conv/conv_dw_bf16_vector.cl", "conv_dw_bf16_vector"};
static const clprune__kernel_def conv_dw_bf16_vector_quantised_kernel = {
    "conv/conv_dw_bf16_vector.cl", "conv_dw_bf16_vector_quantised"};

/* How conv_dw_vector.cl divides the result pixels, and conv_dw_pooled_vector.cl the cells, into
 * segments. */
typedef struct dw_plan {
    clprune__bspmm_plan sums;
    size_t height, width; /* of a segment: rows and columns */
    size_t images;        /* of a segment; above 1 only if they are whole */
    bool paired;          /* images count pairs of them */
} dw_plan;

/* Words of a strip of conv_dw_bf16_vector.cl: at most, and at least for each pair. */
enum { STRIP = 1 << 16 };
static size_t strip_least(const clprune_context *context, const clprune__bspmm_plan *sums)
{
    return context->ops->pairs != CLPRUNE__PAIRS_NONE ? clprune__round_up(sums->tile, 16) : 0;
}

/* Whether the pixels that are a pair are those of two images, not of an image's halves: not if the
 * groups have fewer images to do with each alone. */
static bool pairs_images(size_t batch, size_t panels, size_t groups)
{
    const size_t pairs = clprune__ceil_div(batch, 2);
    return 2 * clprune__ceil_div(pairs * panels, groups) <=
           clprune__ceil_div(batch * panels, groups);
}

/* rows x cols: result pixels of an image, or cells, whose rows are not divided. pairs: of pixels.
 */
static dw_plan plan_dw(
    const clprune_context *context, const clprune__conv *conv, size_t rows, size_t cols, bool pairs)
{
    const clprune__tuning *tuning = &context->ops->tuning;
    /* A strip is packed again for each panel: with pairs the panels are the widest. */
    const size_t narrow = clprune__min(tuning->bspmm_tn.long_list_columns, pairs ? 4 : SIZE_MAX);
    clprune__bspmm_plan sums = {.inner = conv->kernel.height * conv->kernel.width * conv->in};
    /* Tiles of few channels and a wide panel; with few outputs, tiles of more channels, so that
     * there are enough sums. */
    const size_t wide = clprune__min(4, clprune__ceil_div(conv->out, 16));
    sums.tile = clprune__largest_divisor(conv->in, 4 * narrow / wide);
    if (sums.tile < narrow)
        sums.tile = clprune__largest_divisor(conv->in, tuning->bspmm_tn.tile_columns);
    sums.vectors = clprune__choose_vectors(
        conv->out, sums.tile, tuning->bspmm_tn.accumulators, tuning->bspmm_tn.groups, 1);
    sums.panel = 16 * sums.vectors;
    sums.panels = clprune__ceil_div(conv->out, sums.panel);
    /* Segments of as many pixels as the nearest cache holds, at least a row: equal parts of an
     * image, or whole images. Twice as many if a panel of results does not stay in the caches
     * between segments. */
    const bool far = sums.inner > tuning->bspmm_tn.results_bytes / (sums.panel * sizeof(float));
    const size_t near = (far ? 2 : 1) * tuning->bspmm_tn.panel_bytes / (sums.panel * sizeof(float));
    const size_t fits =
        clprune__min(clprune__panel_rows(context, 1024, sums.panel + strip_least(context, &sums)),
            clprune__max(near, clprune__max(cols, 1)));
    sums.segment_most = fits; /* pixels */
    dw_plan plan = {.width = cols, .images = 1};
    plan.paired = pairs && pairs_images(conv->batch, sums.panels, tuning->bspmm_tn.groups);
    const size_t batch = plan.paired ? clprune__ceil_div(conv->batch, 2) : conv->batch;
    if (pairs && !plan.paired)
        rows = clprune__ceil_div(rows, 2);
    plan.height = rows;
    if (cols > fits) {
        plan.height = 1;
        plan.width = clprune__ceil_div(cols, clprune__ceil_div(cols, fits));
    } else if (rows * cols > fits) {
        const size_t most = fits / cols;
        plan.height = clprune__ceil_div(rows, clprune__ceil_div(rows, most));
    } else {
        plan.images = clprune__min(batch, fits / (rows * cols));
    }
    /* A group takes one panel, so that its results stay near. */
    sums.panel_run = 1;
    sums.splits = clprune__vector_splits(
        tuning->bspmm_tn.groups, sums.panels, clprune__ceil_div(batch, plan.images));
    plan.images = clprune__min(plan.images, clprune__ceil_div(batch, sums.splits));
    sums.direct = clprune__conv_direct(context, conv, &sums, conv->in);
    plan.sums = sums;
    return plan;
}

/* The window of taps and channels that a strip serves: all taps, those of a row of the kernel, or
 * one; of cells always one. */
typedef struct strip_plan {
    size_t words, tap_rows, tap_cols, depth;
} strip_plan;

/* Rows, or columns, of a strip for `size` results: with one tap only those that it reads. */
static size_t strip_extent(size_t size, size_t stride, size_t taps, size_t dilation)
{
    return taps > 1 ? (size - 1) * stride + (taps - 1) * dilation + 1 : size;
}

static strip_plan plan_strip(
    const clprune_context *context, const clprune__conv *conv, const dw_plan *plan, bool pooled)
{
    const clprune__bspmm_plan *sums = &plan->sums;
    const size_t others =
        sums->segment_most * sums->panel + (sums->direct ? 16 * sums->panel + 256 : 0);
    const size_t least = clprune__round_up(sums->tile, 16);
    strip_plan made = {.words = STRIP};
    while (made.words > sums->segment_most * least &&
           clprune__panel_rows(context, made.words + others, 1) < made.words + others)
        made.words /= 2;
    made.words = clprune__max(made.words, sums->segment_most * least);
    const strip_plan windows[] = {{0, conv->kernel.height, conv->kernel.width, 0},
        {0, 1, conv->kernel.width, 0}, {0, 1, 1, 0}};
    for (size_t i = 0; i < 3; i++) {
        const strip_plan *w = &windows[i];
        const size_t rows = strip_extent(
                         plan->height, conv->stride.height, w->tap_rows, conv->dilation.height),
                     cols = strip_extent(
                         plan->width, conv->stride.width, w->tap_cols, conv->dilation.width);
        const size_t pairs = pooled
                                 ? clprune__ceil_div(plan->images * plan->height * plan->width, 2)
                                 : plan->images * rows * cols;
        const size_t most = made.words / pairs;
        const size_t pitch = clprune__min(most / 16 * 16, clprune__round_up(conv->in, 16));
        if (pitch < least && i < 2)
            continue;
        made.tap_rows = w->tap_rows;
        made.tap_cols = w->tap_cols;
        made.depth = clprune__min(conv->in, pitch / sums->tile * sums->tile);
        break;
    }
    return made;
}

static clprune_status multiply(clprune_context *context, const clprune__conv *conv,
    const clprune__conv_source *from, float beta, clprune_mat dy, clprune_mat dw, cl_event *event)
{
    const bool pooled = from->cell > 1;
    const bool bf16 = context->ops->pairs != CLPRUNE__PAIRS_NONE, pairs = bf16 && !pooled;
    const clprune_extent grid = clprune__conv_grid(conv, from->cell);
    dw_plan plan = plan_dw(context, conv, grid.height, grid.width, pairs);
    plan.sums.direct = plan.sums.direct && from->of == NULL;
    const strip_plan strip = bf16 ? plan_strip(context, conv, &plan, pooled) : (strip_plan){0};
    const clprune__bspmm_plan *sums = &plan.sums;
    SCRATCH_SCOPE(context);
    clprune__bspmm_scratch scratch = {.even_rows = false};
    TRY(clprune__conv_take_partial(context, sums, &scratch));
    if (clprune__conv_dw_takes_amx(context, conv, from))
        return clprune__conv_dw_amx(
            context, conv, from, beta, sums->splits, scratch.partial, dy, dw, event);
    clprune__defines defines = {0};
    clprune__define(&defines, "V", sums->vectors);
    clprune__define(&defines, "CB", sums->tile);
    clprune__define(&defines, "SEG", sums->segment_most);
    clprune__define(&defines, "DIRECT", sums->direct);
    if (bf16) {
        clprune__define(&defines, "STRIP", strip.words);
        clprune__bf16_define(context, &defines);
    }
    if (from->q != NULL)
        clprune__quantised_defines(from->q, &defines);
    clprune__launch launch;
    TRY(clprune__launch_begin(context,
        pooled            ? &conv_dw_pooled_vector_kernel
        : from->q != NULL ? &conv_dw_bf16_vector_quantised_kernel
        : pairs           ? &conv_dw_bf16_vector_kernel
                          : &conv_dw_vector_kernel,
        &defines, &launch));
    clprune__arg_ulong(&launch, conv->batch);
    clprune__arg_uint(&launch, (uint32_t)conv->in);
    clprune__arg_uint(&launch, (uint32_t)conv->out);
    clprune__arg_conv(&launch, conv);
    clprune__arg_uint(&launch, (uint32_t)plan.height);
    clprune__arg_uint(&launch, (uint32_t)(pooled ? from->cell : plan.width));
    ARG_ULONGS(&launch, plan.images, sums->panels, sums->panel_run);
    if (pairs) {
        clprune__arg_uint(&launch, plan.paired);
        clprune__arg_uint(&launch, (uint32_t)strip.tap_rows);
        clprune__arg_uint(&launch, (uint32_t)strip.tap_cols);
    }
    if (bf16)
        clprune__arg_uint(&launch, (uint32_t)strip.depth);
    if (from->q != NULL)
        clprune__arg_quantised(&launch, from->q);
    else
        clprune__arg_mat(&launch, from->x);
    clprune__arg_mat(&launch, dy);
    clprune__arg_region(&launch, scratch.partial);
    TRY(clprune__conv_enqueue_dw(&launch, sums, beta, dw, event));
    if (!sums->direct)
        TRY(clprune__conv_finish_source(context, conv, from, sums, beta, scratch, dw, event));
    return CLPRUNE_SUCCESS;
}

/* Channels up to which the taps of a row are joined; bytes of images copied at a time, and images
 * at least; floats of a copied row for each of the image's row, at most. */
enum { FEW_CHANNELS = 15, JOINED_BYTES = 4 << 20, JOINED_LEAST = 4, JOINED_MOST = 16 };

/* Floats of a copied row: the padding and pixels that are read, rounded up to whole steps. */
static size_t joined_row(const clprune__conv *conv)
{
    const size_t row = (conv->padding.width + conv->image.width) * conv->in,
                 step = conv->stride.width * conv->in;
    const size_t reached = (conv->output.width - 1) * step + conv->kernel.width * conv->in;
    return clprune__round_up(clprune__max(row, reached), step);
}

/* Joins the taps of a kernel row into one tap of kernel.width * in channels: with few channels,
 * neighbouring taps read neighbouring floats. The pixels of the joined product lie stride.width *
 * in floats apart and overlap. Images are copied with their padding, some at a time. */
static clprune_status join_taps(clprune_context *context, const clprune__conv *conv, float beta,
    clprune_mat x, clprune_mat dy, clprune_mat dw, cl_event *event)
{
    SCRATCH_SCOPE(context);
    const size_t before = conv->padding.width * conv->in, row = conv->image.width * conv->in,
                 step = conv->stride.width * conv->in;
    const size_t length = joined_row(conv);
    const size_t image = conv->image.height * length * sizeof(float);
    const size_t count = clprune__min(
        conv->batch, clprune__max(JOINED_LEAST, JOINED_BYTES / clprune__max(image, 1)));
    clprune__conv joined = *conv;
    joined.in = conv->kernel.width * conv->in;
    joined.image.width = length / step;
    joined.kernel.width = joined.stride.width = joined.dilation.width = 1;
    joined.padding.width = 0;
    clprune_mat padded;
    TRY(clprune__scratch_mat(context, count * conv->image.height, length, &padded));
    TRY(clprune__mat_fill(context, 0.0f, padded, NULL));
    for (size_t n = 0; n < conv->batch; n += joined.batch) {
        joined.batch = clprune__min(count, conv->batch - n);
        const size_t rows = joined.batch * conv->image.height;
        const size_t results = conv->output.height * conv->output.width;
        const bool last = n + joined.batch == conv->batch;
        /* One row per image row. Rows of x have no gaps here: x.ld is conv->in. */
        const clprune_mat from = {
            x.buffer, x.offset + n * conv->image.height * row, rows, row, row};
        clprune_mat inside = clprune_mat_rows(padded, 0, rows);
        inside.offset += before;
        inside.cols = row;
        clprune__conv_source pixels = {.x = padded, .cell = 1};
        pixels.x.ld = step;
        TRY(clprune__mat_copy(context, from, inside, NULL));
        TRY(multiply(context, &joined, &pixels, n == 0 ? beta : 1.0f,
            clprune_mat_rows(dy, n * results, joined.batch * results), dw, last ? event : NULL));
    }
    return CLPRUNE_SUCCESS;
}

/* Whether the taps of rows without gaps are joined. */
static bool joins_taps(const clprune__conv *conv)
{
    return conv->in <= FEW_CHANNELS && conv->kernel.width > 1 && conv->dilation.width == 1 &&
           joined_row(conv) / JOINED_MOST <= conv->image.width * conv->in;
}

bool clprune__conv_reads_codes(
    const clprune_context *context, const clprune__conv *conv, const clprune__quantised *q)
{
    if (!clprune__conv_uses_vectors(context))
        return clprune__conv_dw_tiled_flattens(conv);
    return context->ops->pairs != CLPRUNE__PAIRS_NONE && q->desc.bits == 16 && !joins_taps(conv);
}

clprune_status clprune__conv_dw_vector(clprune_context *context, const clprune__conv *conv,
    const clprune__conv_source *from, float beta, clprune_mat dy, clprune_mat dw, cl_event *event)
{
    const bool joins = from->of == NULL && from->cell == 1 && from->q == NULL &&
                       from->x.ld == conv->in && joins_taps(conv);
    return joins ? join_taps(context, conv, beta, from->x, dy, dw, event)
                 : multiply(context, conv, from, beta, dy, dw, event);
}

bool clprune__conv_dw_vector_pools(
    const clprune_context *context, const clprune__conv *conv, size_t cell)
{
    const clprune_extent grid = clprune__conv_grid(conv, cell);
    return plan_dw(context, conv, grid.height, grid.width, false).width == grid.width;
}
