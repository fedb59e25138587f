/* Pruning: scores the blocks of each sample, selects `keep` of them, packs these as BSR.
 *
 * Every sample keeps exactly desc.keep blocks. Blocks are ordered by norm; of equal norms the lower
 * block index comes first. NaN ranks above all norms, so it is kept and a diverging run stays
 * visible (RANDOM reads no norms and may drop it). Norms do not overflow: a block of b elements of
 * 1e30 scores 1e30 * sqrt(b), and a norm above FLT_MAX of finite elements counts as FLT_MAX. */
#ifndef CLPRUNE_PRUNE_H
#define CLPRUNE_PRUNE_H

#include <stdint.h>

#include "clprune/bsr.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The norm that scores a block; the padding of an overhanging block counts as zero. */
typedef enum clprune_norm {
    CLPRUNE_NORM_L2 = 0,
    CLPRUNE_NORM_L1 = 1,
    CLPRUNE_NORM_MAX = 2
} clprune_norm;

/* The criterion that selects the kept blocks of a sample.
 *
 * LARGEST: the blocks of largest norm, unchanged. Minimises the error of x, but is biased against
 * small blocks.
 *
 * SAMPLED: drawn with probabilities that grow with the norm, and weighted. Unbiased: the
 * expectation of the packed x is x, so products with it are unbiased too; with keep = 0 they are
 * zero. This is priority sampling (Duffield, Lund, Thorup 2007): a block of norm w gets the
 * priority w / u, with u uniform in (0, 1], and the `keep` highest priorities are kept. With T the
 * highest dropped priority, a kept block is scaled by max(1, T / w); so blocks with w >= T are
 * always kept, unchanged.
 *
 * RANDOM: drawn uniformly, independent of the norm, and scaled by blocks / keep. Also unbiased, but
 * noisier than SAMPLED; a baseline for other criteria.
 *
 * A weighted element beyond FLT_MAX becomes FLT_MAX with its sign, so that finite elements stay
 * finite (those of a centred tensor if its means are finite, see keep.h); only such elements are
 * biased. With INT8 and INT4 the limit is 1.9375 * 2^127.
 *
 * u depends only on the seed, the sample's number (which counts from bsr->first) and the block: the
 * same seed draws the same blocks on every device. */
typedef enum clprune_criterion {
    CLPRUNE_CRITERION_LARGEST = 0,
    CLPRUNE_CRITERION_SAMPLED = 1,
    CLPRUNE_CRITERION_RANDOM = 2
} clprune_criterion;

/* Packs bsr->desc.keep blocks of each sample of x, selected by `criterion`, to bsr. Runs on the
 * device; the host does not wait. x: (batch * rows) x cols, unchanged, must not overlap bsr. seed:
 * for SAMPLED and RANDOM; ignored by LARGEST. Scratch comes from the context. */
CLPRUNE_API clprune_status clprune_prune(clprune_context *context, clprune_norm norm,
    clprune_criterion criterion, uint64_t seed, clprune_mat x, const clprune_bsr *bsr,
    cl_event *event);

#ifdef __cplusplus
}
#endif
#endif
