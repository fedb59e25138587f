/* The tiles of kernels with gemm_tile.clh, which has the same numbers. */
#ifndef CLPRUNE_OPS_GEMM_TILE_H
#define CLPRUNE_OPS_GEMM_TILE_H

#include <stdbool.h>

#include "clprune/context.h"
#include "runtime/launch/defines.h"

typedef struct clprune__gemm_tile {
    size_t rows, cols; /* results of a group */
    size_t local;      /* its work-items */
    size_t depth;      /* of the inner size, a step */
    bool mma;          /* on tensor cores */
    size_t resident;   /* then: groups that a unit holds at once */
} clprune__gemm_tile;

/* The tile of a context: on tensor cores where its precision is below fp32 and its device allows
 * their groups, else in fp32. */
clprune__gemm_tile clprune__gemm_tile_of(const clprune_context *context);

/* Appends the defines that choose the tile in a kernel. */
void clprune__gemm_tile_defines(const clprune_context *context, clprune__defines *defines);

/* Whether the device allows the work-groups of the tile. */
bool clprune__gemm_tiled_fits(const clprune_context *context);

#endif
