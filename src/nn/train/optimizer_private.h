/* The body of clprune_optimizer: made by optimizer.c, read by optimizer_step.c and the kinds. */
#ifndef CLPRUNE_NN_OPTIMIZER_PRIVATE_H
#define CLPRUNE_NN_OPTIMIZER_PRIVATE_H

#include "clprune/optimizer.h"
#include "runtime/launch/launch.h"

#define CLPRUNE__OPTIMIZER_SLOTS 2 /* of state, at most */

typedef struct clprune__tensor {
    clprune_param param;
    size_t count;                                /* elements */
    size_t bundle;                               /* index in optimizer.bundles */
    size_t row;                                  /* of the table, unless it is empty */
    bool coded;                                  /* the state is codes */
    clprune_mat state[CLPRUNE__OPTIMIZER_SLOTS]; /* as the parameter, or a row of words: codes, then
                                                    scales */
} clprune__tensor;

/* The tensors with values in the same buffer and gradients in the same buffer; one launch takes
 * them all. Each slot of their state is one buffer, with the same offsets in all slots. */
typedef struct clprune__bundle {
    cl_mem value, grad, state[CLPRUNE__OPTIMIZER_SLOTS];
    size_t tensors;         /* in the bundle */
    size_t first_row, rows; /* of the table; empty tensors have none */
    size_t groups;          /* of a launch */
    size_t elements;        /* of all tensors */
} clprune__bundle;

/* How the kernels divide tensors. */
typedef struct clprune__flat_plan {
    size_t chunk, local, slices;
    clprune__defines defines;
} clprune__flat_plan;

/* A kind of optimizer: a row in a file of its own. */
typedef struct clprune__optimizer_row {
    clprune_optimizer_info usual; /* of 32 bits; its desc has what zeros stand for */
    bool takes_codes;             /* of 8 bits, too */
    /* Enqueues a step of the tensors of bundle b; without usual.in_parts, of all tensors. */
    clprune_status (*step)(const clprune_optimizer *optimizer, const clprune__bundle *b, float lr);
} clprune__optimizer_row;

/* All kinds, in the order of clprune_optimizer_kind; NAME.c has the row of each. */
#define CLPRUNE__OPTIMIZERS(OPTIMIZER)                                                             \
    OPTIMIZER(sgd)                                                                                 \
    OPTIMIZER(adamw)                                                                               \
    OPTIMIZER(lamb)                                                                                \
    OPTIMIZER(lion)

#define CLPRUNE__DECLARE_OPTIMIZER(name)                                                           \
    extern const clprune__optimizer_row clprune__optimizer_##name;
CLPRUNE__OPTIMIZERS(CLPRUNE__DECLARE_OPTIMIZER)

/* The row of a kind; NULL if there is none. */
const clprune__optimizer_row *clprune__optimizer_row_of(clprune_optimizer_kind kind);
/* The name of a kind with so many bits of state, as clprune_optimizer_info has it. */
const char *clprune__optimizer_name(const clprune__optimizer_row *row, unsigned state_bits);

struct clprune_optimizer {
    clprune_context *context;
    const clprune__optimizer_row *row;
    clprune_optimizer_desc desc;
    clprune__flat_plan plan;
    clprune__tensor *tensors;
    clprune__bundle *bundles;
    cl_mem table; /* (rows), bundle after bundle; NULL without rows */
    size_t count, bundle_count, slots, rows;
    size_t groups; /* of all launches: partial sums, tensor after tensor */
    uint64_t steps;
};

/* Begins a launch over the tensors of bundle b; the first arguments are its rows of the table. */
clprune_status clprune__optimizer_begin(const clprune_optimizer *optimizer,
    const clprune__kernel_def *def, const clprune__bundle *b, clprune__launch *launch);
/* Buffers of a bundle as arguments; the table has their offsets. */
void clprune__optimizer_buffers(const clprune_optimizer *optimizer, const clprune__bundle *b,
    clprune__launch *launch, size_t count, const cl_mem *buffers);
/* The steps before this one as an argument, for the draws of codes; 0 in the first step only. */
void clprune__optimizer_draws(const clprune_optimizer *optimizer, clprune__launch *launch);
clprune_status clprune__optimizer_end(
    const clprune_optimizer *optimizer, const clprune__bundle *b, clprune__launch *launch);

/* b1, 1 - b1, b2, 1 - b2 as arguments. */
void clprune__optimizer_betas(const clprune_optimizer *optimizer, clprune__launch *launch);
/* 1 / (1 - b^t) of both betas in step t, rounded to fp32. */
void clprune__optimizer_corrections(
    const clprune_optimizer *optimizer, float *m_scale, float *v_scale);

#endif
