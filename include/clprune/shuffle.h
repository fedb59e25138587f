/* Shuffled features: those of `groups` parts in turn, as ShuffleNet mixes the groups of its
 * convolutions (arXiv 1707.01083).
 *
 *     y[r][k * groups + g] = x[r][g * (d / groups) + k]
 */
#ifndef CLPRUNE_SHUFFLE_H
#define CLPRUNE_SHUFFLE_H

#include "clprune/matrix.h"

#ifdef __cplusplus
extern "C" {
#endif

/* x, y: M x d, no overlap; groups: a divisor of d. The gradient is dx = the same of dy with
 * d / groups in place of groups. Errors: INVALID_ARGUMENT (also: no divisor), INVALID_SIZE. */
CLPRUNE_API clprune_status clprune_shuffle(
    clprune_context *context, size_t groups, clprune_mat x, clprune_mat y, cl_event *event);

#ifdef __cplusplus
}
#endif
#endif
