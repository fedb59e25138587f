/* How row-wise kernels (element-wise ones, and those that reduce along rows or columns) divide a
 * matrix: a work-group takes ROWS consecutive rows, its LOCAL work-items take vectors of VW columns
 * in turn. CPUs run one work-item a group with 16-wide vectors, GPUs many with narrow ones. */
#ifndef CLPRUNE_RUNTIME_ROWWISE_H
#define CLPRUNE_RUNTIME_ROWWISE_H

#include "clprune/context.h"
#include "runtime/defines.h"

typedef struct clprune__rowwise {
    size_t global, local;
    size_t groups, group_rows; /* groups = ceil(rows / group_rows); partial sums have this count */
    clprune__defines defines;  /* LOCAL, ROWS, VW */
} clprune__rowwise;

clprune__rowwise clprune__rowwise_plan(const clprune_context *context, size_t rows, size_t cols);

#endif
