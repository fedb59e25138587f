/* The body of clprune_optimizer: made by optimizer.c, read by optimizer_step.c. */
#ifndef CLPRUNE_NN_OPTIMIZER_PRIVATE_H
#define CLPRUNE_NN_OPTIMIZER_PRIVATE_H

#include "clprune/optimizer.h"
#include "runtime/defines.h"

#define CLPRUNE__OPTIMIZER_SLOTS 2 /* of state, at most */

typedef struct clprune__tensor {
    clprune_param param;
    size_t count;                                /* elements */
    size_t bundle;                               /* the one it is in */
    clprune_mat state[CLPRUNE__OPTIMIZER_SLOTS]; /* as the parameter; SGD: v, others: m, v */
} clprune__tensor;

/* The tensors whose values lie in one buffer, and whose gradients in one: one launch. Their state
 * is one buffer for each slot, with the same offsets. */
typedef struct clprune__bundle {
    cl_mem value, grad, state[CLPRUNE__OPTIMIZER_SLOTS];
    size_t tensors;         /* in the bundle */
    size_t first_row, rows; /* of the table: those that have elements */
    size_t groups;          /* of a launch */
} clprune__bundle;

/* How the kernels divide tensors. */
typedef struct clprune__flat_plan {
    size_t chunk, local, slices;
    clprune__defines defines;
} clprune__flat_plan;

struct clprune_optimizer {
    clprune_context *context;
    clprune_optimizer_desc desc;
    clprune__flat_plan plan;
    clprune__tensor *tensors;
    clprune__bundle *bundles;
    cl_mem table; /* (rows), bundle after bundle; NULL without rows */
    size_t count, bundle_count, slots, rows;
    size_t groups; /* of all launches: partial sums, tensor after tensor */
    uint64_t steps;
};

#endif
