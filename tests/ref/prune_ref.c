#include "ref/prune_ref.h"

#include <math.h>
#include <stdlib.h>

#include "ref/bsr_ref.h"
#include "ref/quantise_ref.h"
#include "support/test_owned.h"

static double block_norm(
    prune_ref_norm norm, size_t height, size_t width, size_t ld, const float *block)
{
    double squares = 0, sum = 0, largest = 0;
    for (size_t r = 0; r < height; r++)
        for (size_t c = 0; c < width; c++) {
            const double x = fabs((double)block[r * ld + c]);
            if (isnan(x))
                return NAN;
            squares += x * x; /* 3e38 squared is far below the largest double */
            sum += x;
            largest = x > largest ? x : largest;
        }
    return norm == PRUNE_REF_L2 ? sqrt(squares) : norm == PRUNE_REF_L1 ? sum : largest;
}

double *prune_ref_scores(prune_ref_norm norm, size_t batch, size_t rows, size_t cols, size_t br,
    size_t bc, const float *x)
{
    const size_t block_rows = (rows + br - 1) / br, block_cols = (cols + bc - 1) / bc;
    double *scores = test_doubles(batch * block_rows * block_cols);
    for (size_t n = 0; n < batch; n++)
        for (size_t i = 0; i < block_rows; i++)
            for (size_t j = 0; j < block_cols; j++) {
                const size_t height = i * br + br <= rows ? br : rows - i * br;
                const size_t width = j * bc + bc <= cols ? bc : cols - j * bc;
                scores[(n * block_rows + i) * block_cols + j] =
                    block_norm(norm, height, width, cols, x + (n * rows + i * br) * cols + j * bc);
            }
    return scores;
}

typedef struct candidate {
    float score;
    size_t index;
} candidate;

static int better_first(const void *p, const void *q)
{
    const candidate *a = p, *b = q;
    const int nan_a = isnan(a->score) != 0, nan_b = isnan(b->score) != 0;
    if (nan_a != nan_b)
        return nan_b - nan_a;
    if (!nan_a && a->score != b->score)
        return a->score > b->score ? -1 : 1;
    return a->index < b->index ? -1 : 1;
}

void prune_ref_select(size_t blocks, size_t keep, const float *scores, unsigned char *mask)
{
    candidate *order = test_alloc(blocks * sizeof *order);
    for (size_t i = 0; i < blocks; i++) {
        order[i] = (candidate){scores[i], i};
        mask[i] = 0;
    }
    qsort(order, blocks, sizeof *order, better_first);
    for (size_t i = 0; i < keep; i++)
        mask[order[i].index] = 1;
}

void prune_ref_draw(
    uint64_t seed, uint32_t sample, size_t blocks, const float *scores, float *priorities)
{
    for (size_t i = 0; i < blocks; i++)
        priorities[i] =
            scores[i] / (float)(quantise_ref_uniform(seed, sample, (uint32_t)i) + 0x1p-24);
}

float prune_ref_sample(size_t blocks, size_t keep, const float *scores, const float *priorities,
    unsigned char *mask, float *weights)
{
    float threshold = 0;
    prune_ref_select(blocks, keep, priorities, mask);
    for (size_t i = 0; i < blocks; i++)
        if (!mask[i] && priorities[i] > threshold)
            threshold = priorities[i];
    for (size_t i = 0; i < blocks; i++)
        weights[i] = !mask[i]                                 ? 0
                     : scores[i] > 0 && threshold > scores[i] ? threshold / scores[i]
                                                              : 1;
    return threshold;
}

float *prune_ref_kept(prune_ref_norm norm, uint64_t tenths, size_t batch, size_t rows, size_t cols,
    size_t br, size_t bc, const float *x)
{
    const bsr_ref ref = bsr_ref_make(batch, rows, cols, br, bc, 0);
    const size_t keep = bsr_ref_keep_count(ref.blocks, tenths, 10);
    const double *scores = prune_ref_scores(norm, batch, rows, cols, br, bc, x);
    float *rounded = test_floats(batch * ref.blocks);
    unsigned char *mask = test_alloc(batch * ref.blocks);
    for (size_t i = 0; i < batch * ref.blocks; i++)
        rounded[i] = (float)scores[i];
    for (size_t n = 0; n < batch; n++)
        prune_ref_select(ref.blocks, keep, rounded + n * ref.blocks, mask + n * ref.blocks);
    return bsr_ref_masked(&ref, x, mask);
}
