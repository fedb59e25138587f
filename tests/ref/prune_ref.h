/* Reference of scoring and selection. */
#ifndef CLPRUNE_PRUNE_REF_H
#define CLPRUNE_PRUNE_REF_H

#include <stddef.h>
#include <stdint.h>

typedef enum prune_ref_norm { PRUNE_REF_L2, PRUNE_REF_L1, PRUNE_REF_MAX } prune_ref_norm;

/* The norm of each block of a (batch * rows) x cols matrix, in double; a new array of batch *
 * blocks. A NaN in a block makes it NaN. */
double *prune_ref_scores(prune_ref_norm norm, size_t batch, size_t rows, size_t cols, size_t br,
    size_t bc, const float *x);

/* Marks the `keep` best of the `blocks` scores of one sample, by sorting: NaN first, then the
 * larger score (-0 equals 0), then the lower index. */
void prune_ref_select(size_t blocks, size_t keep, const float *scores, unsigned char *mask);

/* priorities[i] = scores[i] / u for the blocks of one sample, u in (0, 1]: quantise_ref_uniform of
 * block i, plus 2^-24. */
void prune_ref_draw(
    uint64_t seed, uint32_t sample, size_t blocks, const float *scores, float *priorities);

/* Marks the `keep` highest priorities; weights[i] = max(1, T / scores[i]) for the marked blocks,
 * else 0, with T the highest priority that is not marked (0 where all are), which is returned. */
float prune_ref_sample(size_t blocks, size_t keep, const float *scores, const float *priorities,
    unsigned char *mask, float *weights);

/* x without the blocks that pruning drops at a sparsity in tenths: the smallest; a new array. */
float *prune_ref_kept(prune_ref_norm norm, uint64_t tenths, size_t batch, size_t rows, size_t cols,
    size_t br, size_t bc, const float *x);

#endif
