/* The block-sparse products: sizes of tiles and splits, and the parameters that kernels share. */
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
}

void clprune__arg_nt(clprune__launch *launch, const clprune__bspmm_plan *plan,
    const clprune__bspmm_operands *operands)
{
    const clprune_bsr_desc *desc = &operands->xs->desc;
    ARG_ULONGS(launch, desc->batch, desc->rows, desc->cols, operands->outputs,
        operands->sizes->block_cols, plan->segments, desc->keep);
    clprune__arg_tn_operands(launch, operands);
}
