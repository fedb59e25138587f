#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/checked.h"
#include "ops/sparse/bsr_private.h"
#include "runtime/context/check.h"
#include "runtime/context/context_private.h"
#include "runtime/launch/backend.h"
#include "runtime/memory/transfer.h"

/* The rules of one sample's crow and col; texts name the sample and the entry. */
static clprune_status validate_lists(clprune_context *context, size_t n, const int32_t *crow,
    const int32_t *col, const clprune_bsr_sizes *sizes, size_t keep)
{
    REQUIRE(crow[0] == 0, CLPRUNE_INVALID_BSR, "crow[%zu][0] is %d, expected 0", n, (int)crow[0]);
    for (size_t i = 0; i < sizes->block_rows; i++)
        REQUIRE(crow[i] <= crow[i + 1] && crow[i + 1] >= 0 && (size_t)crow[i + 1] <= keep,
            CLPRUNE_INVALID_BSR,
            "crow[%zu][%zu] is %d after %d, expected an ascending value up to keep = %zu", n, i + 1,
            (int)crow[i + 1], (int)crow[i], keep);
    REQUIRE((size_t)crow[sizes->block_rows] == keep, CLPRUNE_INVALID_BSR,
        "crow[%zu][%zu] is %d, expected keep = %zu", n, sizes->block_rows,
        (int)crow[sizes->block_rows], keep);
    for (size_t i = 0; i < sizes->block_rows; i++)
        for (int32_t k = crow[i]; k < crow[i + 1]; k++) {
            REQUIRE(col[k] >= 0 && (size_t)col[k] < sizes->block_cols, CLPRUNE_INVALID_BSR,
                "col[%zu][%d] is %d, expected 0 to below the %zu block columns", n, (int)k,
                (int)col[k], sizes->block_cols);
            REQUIRE(k == crow[i] || col[k - 1] < col[k], CLPRUNE_INVALID_BSR,
                "col[%zu][%d] is %d after %d: not ascending in block row %zu", n, (int)k,
                (int)col[k], (int)col[k - 1], i);
        }
    return CLPRUNE_SUCCESS;
}

/* The rules of one sample's bitmap. */
static clprune_status validate_bitmap(clprune_context *context, size_t n, const uint8_t *bitmap,
    const clprune_bsr_sizes *sizes, size_t keep)
{
    size_t marked = 0;
    for (size_t i = 0; i < 8 * clprune__bitmap_bytes(sizes->blocks); i++) {
        const bool set = (bitmap[i / 8] >> i % 8 & 1) != 0;
        REQUIRE(!set || i < sizes->blocks, CLPRUNE_INVALID_BSR,
            "bitmap[%zu] has bit %zu set, but a sample has %zu blocks", n, i, sizes->blocks);
        marked += set;
    }
    REQUIRE(marked == keep, CLPRUNE_INVALID_BSR, "bitmap[%zu] marks %zu blocks, expected %zu", n,
        marked, keep);
    return CLPRUNE_SUCCESS;
}

/* `bytes` of a buffer from `offset` on, as a new array. */
static clprune_status read_back(
    clprune_context *context, cl_mem buffer, size_t offset, size_t bytes, void **host)
{
    clprune_status status = CLPRUNE_SUCCESS;
    void *read = malloc(clprune__max(bytes, 1));
    REQUIRE_DONE(read != NULL, CLPRUNE_OUT_OF_HOST_MEMORY, "no memory to read %zu bytes", bytes);
    TRY_DONE(clprune__transfer_read(context, buffer, offset, bytes, read));
    *host = read;
    read = NULL;
done:
    free(read);
    return status;
}

/* The rules of crow and col of all samples. */
static clprune_status validate_crow_and_col(
    clprune_context *context, const clprune_bsr *bsr, const clprune_bsr_sizes *sizes)
{
    clprune_status status = CLPRUNE_SUCCESS;
    const size_t keep = bsr->desc.keep, rows = sizes->block_rows + 1;
    int32_t *crow = NULL, *col = NULL;
    void *read = NULL;
    TRY_DONE(read_back(context, bsr->crow, bsr->offset.crow + bsr->first * rows * sizeof *crow,
        sizes->crow_bytes, &read));
    crow = read;
    TRY_DONE(read_back(context, bsr->col, bsr->offset.col + bsr->first * keep * sizeof *col,
        sizes->col_bytes, &read));
    col = read;
    for (size_t n = 0; n < bsr->desc.batch; n++)
        TRY_DONE(validate_lists(context, n, crow + n * rows, col + n * keep, sizes, keep));
done:
    free(crow);
    free(col);
    return status;
}

static clprune_status validate_bitmaps(
    clprune_context *context, const clprune_bsr *bsr, const clprune_bsr_sizes *sizes)
{
    clprune_status status = CLPRUNE_SUCCESS;
    const size_t bytes = clprune__bitmap_bytes(sizes->blocks);
    uint8_t *bitmap = NULL;
    void *read = NULL;
    TRY_DONE(read_back(
        context, bsr->bitmap, bsr->offset.bitmap + bsr->first * bytes, sizes->bitmap_bytes, &read));
    bitmap = read;
    for (size_t n = 0; n < bsr->desc.batch; n++)
        TRY_DONE(validate_bitmap(context, n, bitmap + n * bytes, sizes, bsr->desc.keep));
done:
    free(bitmap);
    return status;
}

static clprune_status validate_scales(
    clprune_context *context, const clprune_bsr *bsr, const clprune_bsr_sizes *sizes)
{
    clprune_status status = CLPRUNE_SUCCESS;
    const size_t keep = bsr->desc.keep;
    uint16_t *scales = NULL;
    void *read = NULL;
    TRY_DONE(read_back(context, bsr->scales,
        bsr->offset.scales + bsr->first * keep * sizeof *scales, sizes->scales_bytes, &read));
    scales = read;
    for (size_t i = 0; i < sizes->scales_bytes / sizeof *scales; i++) {
        const uint32_t bits = (uint32_t)scales[i] << 16;
        float scale;
        memcpy(&scale, &bits, sizeof scale);
        REQUIRE_DONE(scale >= 0.0f && isfinite(scale), CLPRUNE_INVALID_BSR,
            "scales[%zu][%zu] is %g", i / keep, i % keep, (double)scale);
        REQUIRE_DONE(fpclassify(scale) != FP_SUBNORMAL, CLPRUNE_INVALID_BSR,
            "scales[%zu][%zu] is %g, expected zero or a normal number", i / keep, i % keep,
            (double)scale);
    }
done:
    free(scales);
    return status;
}

clprune_status clprune_bsr_validate(clprune_context *context, const clprune_bsr *bsr)
{
    ENTER(context);
    clprune_bsr_sizes sizes;
    TRY(clprune__check_bsr(context, bsr, &sizes));
    REQUIRE(context->backend->runs, CLPRUNE_UNSUPPORTED, "a dry context has nothing to read back");
    TRY(sizes.index_type == CLPRUNE_INDEX_BITMAP ? validate_bitmaps(context, bsr, &sizes)
                                                 : validate_crow_and_col(context, bsr, &sizes));
    return validate_scales(context, bsr, &sizes);
}
