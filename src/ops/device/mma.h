/* Tensor cores for block-sparse products: context->ops->precision says whether and how they are
 * used. */
#ifndef CLPRUNE_OPS_MMA_H
#define CLPRUNE_OPS_MMA_H

#include "clprune/context.h"
#include "runtime/launch/defines.h"

/* Sets context->ops->precision from the option and $CLPRUNE_PRECISION. mma_emulated must be set,
 * and launches must work. A narrow precision is probed with mma_probe.cl; if the results are wrong,
 * the precision is fp32, with one warning. A dry context runs nothing: NVIDIA devices are assumed
 * to work. Errors: INVALID_ARGUMENT (the option, the environment variable). */
clprune_status clprune__mma_open(clprune_context *context, clprune_precision option);

/* Appends the defines of mma.clh. */
void clprune__mma_defines(
    const clprune_context *context, size_t m_tiles, size_t n_tiles, clprune__defines *defines);

/* The k of one matrix instruction: 8 (TF32) or 16 (bf16). */
size_t clprune__mma_depth(const clprune_context *context);

/* Bytes of local memory that mma.clh takes for a warp. */
size_t clprune__mma_local(const clprune_context *context, size_t m_tiles, size_t n_tiles);

#endif
