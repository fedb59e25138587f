/* The block-sparse products: sizes of tiles and splits, and the parameters that kernels share. */
#include <limits.h>

#include "core/checked.h"
#include "ops/sparse/bspmm_private.h"

size_t clprune__largest_divisor(size_t n, size_t limit)
{
    for (size_t d = clprune__min(n, limit); d > 1; d--)
        if (n % d == 0)
            return d;
    return 1;
}

/* The widest tile that the kernels are written for. */
#define MAX_VECTORS 8

size_t clprune__choose_vectors(
    size_t outputs, size_t tile, size_t accumulators, size_t wanted, size_t multiple)
{
    size_t best = multiple;
    double best_rate = 0.0;
    for (size_t v = multiple; v <= MAX_VECTORS && v * tile <= accumulators; v += multiple) {
        const size_t panels = clprune__ceil_div(outputs, 16 * v);
        const size_t paid =
            panels < wanted ? panels : clprune__round_up(panels, CLPRUNE__EVEN_GROUPS);
        const double work = (double)(v * tile);
        const double rate =
            (double)outputs / (double)(paid * 16 * v) * work / (work + (double)v + 2.0);
        if (rate > best_rate * 1.001) {
            best_rate = rate;
            best = v;
        }
    }
    return best;
}

/* Partial results cost memory, and time to add up: if the groups are a multiple of
 * CLPRUNE__EVEN_GROUPS, half of those wanted are enough. */
size_t clprune__vector_splits(size_t wanted, size_t groups, size_t most)
{
    if (groups % CLPRUNE__EVEN_GROUPS == 0 && 2 * groups >= wanted)
        return 1;
    return clprune__max(1, clprune__min(most, clprune__ceil_div(wanted, clprune__max(groups, 1))));
}

/* Rows of a joined sample, at least; joined samples, at most. */
enum { JOINED_ROWS = 256, JOINED_SAMPLES = 16 };

void clprune__join_samples(clprune_bsr *xs, clprune_bsr_sizes *sizes)
{
    clprune_bsr_desc *desc = &xs->desc;
    if (sizes->block_rows != 1 || desc->rows != desc->block.rows || desc->batch == 0)
        return;
    const size_t worth = clprune__max(1, desc->batch * desc->rows / JOINED_ROWS);
    const size_t samples =
        clprune__largest_divisor(desc->batch, clprune__min(worth, JOINED_SAMPLES));
    const size_t run = desc->batch / samples;
    if (run > INT_MAX / desc->keep || /* crow, col and the entries of a list are 32 bits */
        run > UINT32_MAX / (desc->keep * desc->rows))
        return;
    desc->batch = samples;
    desc->rows *= run;
    desc->keep *= run;
    sizes->block_rows = run;
    sizes->blocks = run * sizes->block_cols;
}

void clprune__arg_tn_sizes(clprune__launch *launch, const clprune__bspmm_plan *plan,
    const clprune__bspmm_operands *operands)
{
    const clprune_bsr_desc *desc = &operands->xs->desc;
    ARG_ULONGS(launch, desc->batch, desc->rows, operands->outputs, operands->sizes->block_cols,
        plan->segment, plan->segments, desc->keep);
}

void clprune__arg_tn_operands(clprune__launch *launch, const clprune__bspmm_operands *operands)
{
    clprune__arg_mat(launch, operands->dy);
    clprune__arg_region(launch, operands->scratch->values);
    clprune__arg_region(launch, operands->scratch->starts);
    clprune__arg_region(launch, operands->scratch->entries);
    clprune__arg_region(launch, operands->scratch->partial);
    clprune__launch_multiplies(launch, CLPRUNE_PRECISION_FP32,
        clprune__bspmm_multiplications(operands->xs, operands->outputs));
}

double clprune__bspmm_multiplications(const clprune_bsr *xs, size_t outputs)
{
    const clprune_bsr_desc *desc = &xs->desc;
    return (double)desc->batch * (double)(desc->keep * desc->block.rows * desc->block.cols) *
           (double)outputs;
}

void clprune__arg_nt(clprune__launch *launch, const clprune__bspmm_plan *plan,
    const clprune__bspmm_operands *operands)
{
    const clprune_bsr_desc *desc = &operands->xs->desc;
    ARG_ULONGS(launch, desc->batch, desc->rows, desc->cols, operands->outputs,
        operands->sizes->block_cols, plan->segments, desc->keep);
    clprune__arg_tn_operands(launch, operands);
}
