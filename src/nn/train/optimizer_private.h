/* The body of clprune_optimizer: made by optimizer.c, read by optimizer_step.c. */
#ifndef CLPRUNE_NN_OPTIMIZER_PRIVATE_H
#define CLPRUNE_NN_OPTIMIZER_PRIVATE_H

#include "clprune/optimizer.h"
#include "runtime/launch/defines.h"

#define CLPRUNE__OPTIMIZER_SLOTS 2 /* of state, at most */

typedef struct clprune__tensor {
    clprune_param param;
    size_t count;                                /* elements */
    size_t bundle;                               /* index in optimizer.bundles */
    bool coded;                                  /* the state is codes */
    clprune_mat state[CLPRUNE__OPTIMIZER_SLOTS]; /* SGD: v, others: m, v; as the parameter, or a row
                                                    of words: codes, then scales */
} clprune__tensor;

/* The tensors with values in the same buffer and gradients in the same buffer; one launch takes
 * them all. Each slot of their state is one buffer, with the same offsets in all slots. */
typedef struct clprune__bundle {
    cl_mem value, grad, state[CLPRUNE__OPTIMIZER_SLOTS];
    size_t tensors;         /* in the bundle */
    size_t first_row, rows; /* of the table; empty tensors have none */
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
