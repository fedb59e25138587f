/* How the kernels of the layers divide a matrix where work-items share a row, and how wide their
 * vectors are. */
#ifndef CLPRUNE_NN_TEAM_PLAN_H
#define CLPRUNE_NN_TEAM_PLAN_H

#include "clprune/context.h"
#include "runtime/defines.h"

/* Floats of a vector: VW of the row-wise kernels. */
size_t clprune__vector_width(const clprune_context *context);

/* A team of TEAM work-items takes a row; a group's teams take ROWS rows in turn. On CPUs a team is
 * one work-item. */
typedef struct clprune__team_plan {
    size_t global, local;
    clprune__defines defines; /* LOCAL, ROWS, TEAM, VW */
} clprune__team_plan;

clprune__team_plan clprune__plan_teams(const clprune_context *context, size_t rows, size_t cols);

#endif
