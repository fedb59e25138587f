#include "ops/products/gemm_tile.h"

#include "ops/device/mma.h"
#include "ops/device/ops_state.h"
#include "runtime/context/context_private.h"

/* gemm_tile_fma.clh, and gemm_tile_mma.clh in TF32 and bf16. On an H200 (25088 x 384 to 1536, bf16)
 * depths of 16 and 32 take the same time where groups fill the device, and 32 half of it where each
 * unit has one. */
static const clprune__gemm_tile fma_tile = {64, 64, 64, 8},
                                tf32_tile = {128, 128, 256, 16, .mma = true, .resident = 2},
                                bf16_tile = {128, 128, 256, 32, .mma = true, .resident = 1};

enum { WARP_M_TILES = 4, WARP_N_TILES = 4, ROW_WORDS = 16, PAD = 4 };

/* Bytes of local memory: both operands, double-buffered. */
static size_t local_bytes(const clprune__gemm_tile *tile)
{
    return 2 * (tile->rows + tile->cols) * (ROW_WORDS + PAD) * sizeof(uint32_t);
}

/* A work-item has 8 columns and, by the tuning, 4 or 8 rows. */
static clprune__gemm_tile fma_of(const clprune_context *context)
{
    clprune__gemm_tile tile = fma_tile;
    tile.rows = 8 * context->ops->tuning.gemm_tiled.rows;
    return tile;
}

clprune__gemm_tile clprune__gemm_tile_of(const clprune_context *context)
{
    const bool bf16 = context->ops->precision == CLPRUNE_PRECISION_BF16;
    const clprune__gemm_tile *tile = bf16 ? &bf16_tile : &tf32_tile;
    if (context->kernels == CLPRUNE_KERNELS_VECTOR || !clprune__uses_mma(context) ||
        context->facts.max_work_group < tile->local ||
        context->facts.local_memory < local_bytes(tile))
        return fma_of(context);
    return *tile;
}

void clprune__gemm_tile_defines(const clprune_context *context, clprune__defines *defines)
{
    const clprune__gemm_tile tile = clprune__gemm_tile_of(context);
    if (!tile.mma) {
        clprune__define(defines, "ROWS", context->ops->tuning.gemm_tiled.rows);
        return;
    }
    clprune__define(defines, "DEPTH", tile.depth);
    clprune__mma_defines(context, WARP_M_TILES, WARP_N_TILES, defines);
}

bool clprune__gemm_tiled_fits(const clprune_context *context)
{
    return context->facts.max_work_group >= clprune__gemm_tile_of(context).local;
}
