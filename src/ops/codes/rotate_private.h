/* The rotation of rows that makes codes withstand outlier columns: x R, R block-diagonal and
 * orthogonal: signs and a normalised Hadamard matrix (cl/prelude/rotate.clh). It spreads a large
 * value over its block, whose values then share a scale without loss. */
#ifndef CLPRUNE_OPS_ROTATE_PRIVATE_H
#define CLPRUNE_OPS_ROTATE_PRIVATE_H

#include "clprune/matrix.h"
#include "runtime/launch/launch.h"
#include "runtime/launch/rowwise.h"

/* Appends the defines of rotate.clh. The columns of a block of R are the largest power of two that
 * divides `group`, so that blocks lie in groups. From the first column on, blocks have so many
 * columns; fewer that are left have blocks of half the width and so on down to 16, and the last
 * cols % 16 columns stay as they are. */
void clprune__rotate_defines(size_t group, clprune__defines *defines);

/* x = x R or, with `back`, x R^T, in place, with blocks for groups of `group` columns. A row's
 * error is a few roundings of its blocks' norms.
 */
clprune_status clprune__rotate(
    clprune_context *context, size_t group, bool back, clprune_mat x, cl_event *event);

#endif
