/* The work-groups of kernels with gemm_tile.clh, which has the same numbers. A tile of the first
 * operand is 8 * ROWS wide. */
#ifndef CLPRUNE_OPS_GEMM_TILE_H
#define CLPRUNE_OPS_GEMM_TILE_H

#include "ops/device/ops_state.h"
#include "runtime/context/context_private.h"
#include "runtime/launch/launch.h"

enum {
    CLPRUNE__TILE = 64,      /* columns of a group's results */
    CLPRUNE__TILE_LOCAL = 64 /* its work-items */
};

/* Rows of a group's results. */
static inline size_t clprune__tile_rows(const clprune_context *context)
{
    return 8 * context->ops->tuning.gemm_tiled.rows;
}

static inline void clprune__tile_define(const clprune_context *context, clprune__defines *defines)
{
    clprune__define(defines, "ROWS", context->ops->tuning.gemm_tiled.rows);
}

#endif
