/* PRUNED: the kept blocks of each sample, as BSR. With a centre, the means come first and the
 * blocks are of x - mean. */
#include "core/checked.h"
#include "nn/images/token_mean_private.h"
#include "nn/store/chunks.h"
#include "nn/store/form.h"
#include "ops/prune/prune_private.h"
#include "ops/sparse/bspmm_private.h"
#include "runtime/context/check.h"
#include "runtime/memory/scratch.h"

static clprune_status settle(clprune_context *context, clprune_keep *keep)
{
    REQUIRE(keep->sparsity >= 0.0f && keep->sparsity <= 1.0f, CLPRUNE_INVALID_ARGUMENT,
        "sparsity is %g, expected 0 to 1", (double)keep->sparsity);
    REQUIRE((keep->block.rows == 0) == (keep->block.cols == 0), CLPRUNE_INVALID_ARGUMENT,
        "the block is %zu x %zu, expected two sides of at least 1, or 0 x 0 for the default",
        keep->block.rows, keep->block.cols);
    REQUIRE((unsigned)keep->norm <= CLPRUNE_NORM_MAX, CLPRUNE_INVALID_ARGUMENT,
        "norm is %d, expected a clprune_norm", (int)keep->norm);
    REQUIRE(clprune__criterion_of(keep->criterion) != NULL, CLPRUNE_INVALID_ARGUMENT,
        "criterion is %d, expected a clprune_criterion (clprune/prune.h)", (int)keep->criterion);
    REQUIRE((unsigned)keep->value_type <= CLPRUNE_VALUES_INT4, CLPRUNE_INVALID_ARGUMENT,
        "value_type is %d, expected a clprune_value_type", (int)keep->value_type);
    REQUIRE(clprune__is_index_type(keep->index_type), CLPRUNE_INVALID_ARGUMENT,
        "index_type is %d, expected a clprune_index_type", (int)keep->index_type);
    if (keep->block.rows == 0)
        keep->block = (clprune_block){1, 16};
    REQUIRE((unsigned)keep->centre <= CLPRUNE_CENTRE_CELLS, CLPRUNE_INVALID_ARGUMENT,
        "centre is %d, expected a clprune_centre (clprune/keep.h)", (int)keep->centre);
    if (keep->centre == CLPRUNE_CENTRE_CELLS)
        TRY(clprune__check_cells(context, keep));
    else
        keep->cell = keep->grid_height = keep->grid_width = 0;
    return CLPRUNE_SUCCESS;
}

/* Blocks of a sample. A product that wraps is refused by clprune__check_bsr_desc. */
static size_t blocks_of(const clprune__kept *kept)
{
    const clprune_block block = kept->keep.block;
    return clprune__ceil_div(kept->rows, block.rows) * clprune__ceil_div(kept->cols, block.cols);
}

static bool is_centred(const clprune__kept *kept)
{
    return kept->keep.centre != CLPRUNE_CENTRE_NONE;
}

/* Bytes of the means, which lie before the blocks, padded to CLPRUNE_SAVED_ALIGN; 0 without a
 * centre. */
static clprune_status mean_bytes(clprune_context *context, const clprune__kept *kept, size_t *bytes)
{
    *bytes = 0;
    if (!is_centred(kept))
        return CLPRUNE_SUCCESS;
    TRY(clprune__kept_cells_bytes(context, kept, bytes));
    REQUIRE(clprune__add(*bytes, CLPRUNE_SAVED_ALIGN - 1, bytes), CLPRUNE_SIZE_OVERFLOW,
        "the means of %zu samples overflow size_t", kept->batch);
    *bytes -= *bytes % CLPRUNE_SAVED_ALIGN;
    return CLPRUNE_SUCCESS;
}

/* Places a part of `size` bytes at *end and moves *end behind it, to a multiple of 4; false on
 * overflow. */
static bool place(size_t size, size_t *at, size_t *end)
{
    *at = *end;
    return clprune__add(*end, size, end) && clprune__add(*end, (4 - *end % 4) % 4, end);
}

clprune_status clprune__pruned_bsr(clprune_context *context, const clprune__kept *kept,
    clprune_bsr *bsr, clprune_saved_sizes *sizes)
{
    const clprune_keep *keep = &kept->keep;
    clprune_bsr_sizes parts;
    clprune_bsr made = {.desc = {kept->batch, kept->rows, kept->cols, keep->block,
                            clprune_keep_count(blocks_of(kept), keep->sparsity), keep->value_type,
                            keep->index_type}};
    TRY(clprune__check_bsr_desc(context, &made.desc, &parts));
    made.desc.index_type = parts.index_type;
    made.values = made.crow = made.col = made.scales = made.bitmap = kept->buffer;
    size_t mean, end;
    TRY(mean_bytes(context, kept, &mean));
    REQUIRE(clprune__add(kept->offset, mean, &end) &&
                place(parts.values_bytes, &made.offset.values, &end) &&
                place(parts.scales_bytes, &made.offset.scales, &end) &&
                place(parts.crow_bytes, &made.offset.crow, &end) &&
                place(parts.col_bytes, &made.offset.col, &end) &&
                place(parts.bitmap_bytes, &made.offset.bitmap, &end),
        CLPRUNE_SIZE_OVERFLOW, "%zu samples of %zu x %zu overflow size_t", kept->batch, kept->rows,
        kept->cols);
    sizes->values_bytes = mean + parts.values_bytes + parts.scales_bytes;
    sizes->index_bytes = parts.crow_bytes + parts.col_bytes + parts.bitmap_bytes;
    sizes->bytes = end - kept->offset;
    *bsr = made;
    return CLPRUNE_SUCCESS;
}

static clprune_status sizes(
    clprune_context *context, const clprune__kept *kept, clprune_saved_sizes *found)
{
    clprune_bsr bsr;
    return clprune__pruned_bsr(context, kept, &bsr, found);
}

/* The BSR matrix of some samples. */
static clprune_status samples(
    clprune_context *context, const clprune__kept *kept, clprune__range range, clprune_bsr *bsr)
{
    clprune_saved_sizes unused;
    TRY(clprune__pruned_bsr(context, kept, bsr, &unused));
    *bsr = clprune_bsr_samples(bsr, range.first, range.count);
    return CLPRUNE_SUCCESS;
}

/* Stores the means of the cells, then the blocks of x - mean, some samples at a time. */
static clprune_status store_around_cells(clprune_context *context, const clprune__kept *kept,
    clprune__range range, clprune_mat x, cl_event *event)
{
    SCRATCH_SCOPE(context);
    const clprune__pool_grid grid = clprune__kept_grid(kept);
    const clprune_mat means = clprune__kept_cells(kept, range);
    clprune__chunks chunks;
    TRY(clprune__pool(context, &grid, range.count, x, means, NULL));
    TRY(clprune__chunks_begin(context, kept->rows, kept->cols, range, &chunks));
    while (clprune__chunks_next(&chunks)) {
        clprune_bsr bsr;
        TRY(samples(context, kept, chunks.range, &bsr));
        TRY(clprune__pool_shift(context, &grid, chunks.range.count, -1.0f,
            clprune__kept_cells(kept, chunks.range), clprune__chunk_of(&chunks, x, kept->rows),
            chunks.room, NULL));
        TRY(clprune__prune(context, kept->keep.norm, kept->keep.criterion, kept->seed,
            (clprune__region){0}, chunks.room, NULL, &bsr, chunks.last ? event : NULL));
    }
    return CLPRUNE_SUCCESS;
}

static clprune_status store(clprune_context *context, const clprune__kept *kept,
    clprune__range range, clprune__region scores, clprune_mat x, cl_event *event)
{
    const bool centred = kept->keep.centre == CLPRUNE_CENTRE_SAMPLE;
    clprune_bsr bsr;
    if (kept->keep.centre == CLPRUNE_CENTRE_CELLS) {
        TRY(store_around_cells(context, kept, range, x, event));
        return CLPRUNE_SUCCESS;
    }
    const clprune_mat means = centred ? clprune__kept_cells(kept, range) : CLPRUNE_NO_MAT;
    if (centred && kept->rows > 0)
        TRY(clprune__token_sum(
            context, range.count, kept->rows, 1 / (float)kept->rows, x, means, NULL));
    TRY(samples(context, kept, range, &bsr));
    return clprune__prune(context, kept->keep.norm, kept->keep.criterion, kept->seed, scores, x,
        centred ? &means : NULL, &bsr, event);
}

static clprune_status restore(clprune_context *context, const clprune__kept *kept,
    clprune__range range, clprune_mat x, cl_event *event)
{
    clprune_bsr bsr;
    TRY(samples(context, kept, range, &bsr));
    TRY(clprune__bsr_unpack(context, &bsr, x, is_centred(kept) ? NULL : event));
    if (is_centred(kept)) {
        const clprune__pool_grid grid = clprune__kept_grid(kept);
        TRY(clprune__pool_shift(
            context, &grid, range.count, 1.0f, clprune__kept_cells(kept, range), x, x, event));
    }
    return CLPRUNE_SUCCESS;
}

/* x = mean + blocks, so the product is the sum of the products of both. */
static clprune_status product(clprune_context *context, const clprune__kept *kept,
    clprune__range range, bool nt, float beta, clprune_mat dy, clprune_mat dw, cl_event *event)
{
    clprune_bsr bsr;
    TRY(samples(context, kept, range, &bsr));
    if (is_centred(kept)) {
        const clprune__pool_grid grid = clprune__kept_grid(kept);
        TRY((nt ? clprune__pool_nt : clprune__pool_tn)(
            context, &grid, range.count, beta, dy, clprune__kept_cells(kept, range), dw, NULL));
        beta = 1.0f;
    }
    return (nt ? clprune__bspmm_nt : clprune__bspmm_tn)(context, 1.0f, beta, dy, &bsr, dw, event);
}

static clprune_status product_conv(clprune_context *context, const clprune__kept *kept,
    clprune__range range, const clprune__conv *conv, float beta, clprune_mat dy, clprune_mat dw,
    cl_event *event)
{
    clprune_bsr bsr;
    TRY(samples(context, kept, range, &bsr));
    const bool centred = is_centred(kept), cells = kept->keep.centre == CLPRUNE_CENTRE_CELLS;
    const bool takes_means =
        cells ? clprune__kept_conv_pools(context, kept, conv) : clprune__conv_sums_taps(conv);
    if (!clprune__conv_prunes(context, conv, &bsr) || (centred && !takes_means)) {
        TRY(clprune__restored_product_conv(context, kept, range, conv, beta, dy, dw, event));
        return CLPRUNE_SUCCESS;
    }
    const clprune_mat means = centred ? clprune__kept_cells(kept, range) : CLPRUNE_NO_MAT;
    if (cells) {
        TRY(clprune__conv_dw_pooled(
            context, conv, clprune__kept_grid(kept).cell, beta, means, dy, dw, NULL));
        beta = 1.0f;
    }
    return clprune__conv_dw_pruned(
        context, conv, beta, &bsr, centred && !cells ? &means : NULL, dy, dw, event);
}

/* Scores of blocks of one row, which a product reads as a whole. None if all or no blocks are kept,
 * if the criterion reads no norms, or if the store is centred: then the blocks are not those of
 * x. */
static clprune_status scores(
    clprune_context *context, const clprune__kept *kept, size_t batch, clprune__gemm_scores *wanted)
{
    const clprune_block block = kept->keep.block;
    const size_t blocks = blocks_of(kept);
    const size_t keep = clprune_keep_count(blocks, kept->keep.sparsity);
    *wanted = (clprune__gemm_scores){.width = block.cols, .norm = kept->keep.norm};
    if (is_centred(kept) || !clprune__criterion_of(kept->keep.criterion)->norms ||
        block.rows != 1 || keep == 0 || keep == blocks)
        return CLPRUNE_SUCCESS;
    clprune_mat floats;
    TRY(clprune__scratch_mat(context, batch, blocks, &floats));
    wanted->to = (clprune__region){floats.buffer, floats.offset, sizeof(float)};
    return CLPRUNE_SUCCESS;
}

const clprune__form clprune__form_pruned = {.name = "pruned",
    .settle = settle,
    .sizes = sizes,
    .store = store,
    .restore = restore,
    .product = product,
    .product_conv = product_conv,
    .scores = scores};
