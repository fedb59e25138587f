/* Elements in another order: the axes of an array permuted, as for windows of images, pixel shuffle
 * (arXiv 1609.05158), channel shuffle (arXiv 1707.01083), or transposed samples.
 *
 *     y[i[order[0]]][i[order[1]]]... = x[i[0]][i[1]]...    for each sample
 */
#ifndef CLPRUNE_PERMUTE_H
#define CLPRUNE_PERMUTE_H

#include "clprune/matrix.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { CLPRUNE_PERMUTE_RANK = 8 }; /* axes, at most */

/* A sample of x as an array; the last axis is the one along which elements are neighbours. */
typedef struct clprune_permute_desc {
    size_t rank; /* 1 to CLPRUNE_PERMUTE_RANK */
    size_t extents[CLPRUNE_PERMUTE_RANK];
    size_t order[CLPRUNE_PERMUTE_RANK]; /* axis k of y is axis order[k] of x */
} clprune_permute_desc;

/* x, y: a sample in each row, as many columns as the product of the extents; no overlap. The
 * gradient is dx = dy permuted back. Errors: INVALID_ARGUMENT (desc), INVALID_SIZE. */
CLPRUNE_API clprune_status clprune_permute(clprune_context *context,
    const clprune_permute_desc *desc, clprune_mat x, clprune_mat y, cl_event *event);

/* The desc of the permutation back, from y to x. A desc that clprune_permute refuses stays one. */
CLPRUNE_API clprune_permute_desc clprune_permute_back(const clprune_permute_desc *desc);

#ifdef __cplusplus
}
#endif
#endif
