/* The work-groups of kernels with gemm_tile.clh, which has the same numbers. */
#ifndef CLPRUNE_OPS_GEMM_TILE_H
#define CLPRUNE_OPS_GEMM_TILE_H

enum {
    CLPRUNE__TILE = 64,      /* results of a group, in both directions */
    CLPRUNE__TILE_LOCAL = 64 /* its work-items */
};

#endif
