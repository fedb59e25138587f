/* Pruning: score the blocks of each sample, keep `keep` of them, pack them as BSR.
 *
 * Selection is exact: every sample keeps exactly desc.keep blocks. The order of blocks is total:
 * NaN counts as largest (kept, so that a diverging run stays visible), then the norm, then the
 * lower block index first. Norms are safe from overflow: a block of 1e30 scores 1e30 * sqrt(b). */
#ifndef CLPRUNE_PRUNE_H
#define CLPRUNE_PRUNE_H

#include <stdint.h>

#include "clprune/bsr.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The norm that scores a block; padding of an overhanging block counts as zero. */
typedef enum clprune_norm {
    CLPRUNE_NORM_L2 = 0,
    CLPRUNE_NORM_L1 = 1,
    CLPRUNE_NORM_MAX = 2
} clprune_norm;

/* Which blocks of a sample are kept.
 *
 *     LARGEST  those of the largest norm, unchanged. Minimises the error of x, but is biased
 * against small blocks. SAMPLED  drawn with probabilities that grow with the norm, and weighted:
 * the packed x, and any product with it, equals the dense one in expectation. Priority sampling
 * (Duffield, Lund, Thorup 2007): block i of norm w gets the priority w / u, u uniform in (0, 1];
 *              the `keep` highest priorities are kept. With T the highest dropped priority, a kept
 *              block is scaled by max(1, T / w), so a block of w >= T is kept for certain,
 *              unchanged.
 *     RANDOM   drawn uniformly, whatever their norm, and scaled by blocks / keep: unbiased, too, but
 *              noisier than SAMPLED; the baseline that other criteria must beat.
 *
 * u depends on seed, sample (bsr->first on) and block alone: the same seed draws the same blocks on
 * every device. */
typedef enum clprune_criterion {
    CLPRUNE_CRITERION_LARGEST = 0,
    CLPRUNE_CRITERION_SAMPLED = 1,
    CLPRUNE_CRITERION_RANDOM = 2
} clprune_criterion;

/* bsr = bsr->desc.keep blocks of each sample of x, chosen by `criterion`, on the device and without
 * a round trip. x: (batch * rows) x cols, not changed. seed: of criteria that draw. Scratch is the
 * context's. */
CLPRUNE_API clprune_status clprune_prune(clprune_context *context, clprune_norm norm,
    clprune_criterion criterion, uint64_t seed, clprune_mat x, const clprune_bsr *bsr,
    cl_event *event);

/* The steps of clprune_prune, for those who score or select in their own way. */

/* scores[n * blocks + i] = norm of block i of sample n; fp32, batch * blocks elements. */
CLPRUNE_API clprune_status clprune_prune_score(clprune_context *context, clprune_norm norm,
    const clprune_bsr_desc *desc, clprune_mat x, cl_mem scores, cl_event *event);

/* mask[n * blocks + i] = 1 for the `keep` best of the `blocks` scores of each of `batch` samples,
 * else 0. scores: fp32; their sign is part of the order: -1 ranks below 0 below 1 below Inf below
 * NaN of either sign. */
CLPRUNE_API clprune_status clprune_prune_select(clprune_context *context, size_t batch,
    size_t blocks, size_t keep, cl_mem scores, cl_mem mask, cl_event *event);

#ifdef __cplusplus
}
#endif
#endif
