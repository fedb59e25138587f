/* Tensor cores: context->ops->precision says whether and how they are used. */
#ifndef CLPRUNE_OPS_MMA_H
#define CLPRUNE_OPS_MMA_H

#include <stdbool.h>

#include "clprune/context.h"
#include "runtime/launch/defines.h"

/* Writes the reason why the device has no tensor cores, or an empty text. A dry context runs
 * nothing: NVIDIA devices are assumed to have them. */
clprune_status clprune__mma_missing(clprune_context *context, char *reason, size_t size);

/* Runs a product on tensor cores, mma_probe.cl; fails if a result is wrong. Of the operands, a or b
 * is rounded; it lies across the keys in local memory, the other one along them. */
clprune_status clprune__mma_probe(clprune_context *context, bool round_a);

/* Whether products run on tensor cores. Of dense ones, and of attention, only those of tiled
 * kernels. */
bool clprune__uses_mma(const clprune_context *context);

/* The precision of a product's operands on tensor cores, or elsewhere. */
clprune_precision clprune__precision_on(const clprune_context *context, bool mma);

/* Appends the defines of mma.clh. */
void clprune__mma_defines(
    const clprune_context *context, size_t m_tiles, size_t n_tiles, clprune__defines *defines);

/* The k of one matrix instruction: 8 (TF32) or 16 (bf16). */
size_t clprune__mma_depth(const clprune_context *context);

#endif
