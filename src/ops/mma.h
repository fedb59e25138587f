/* Whether block-sparse products may take the tensor cores of the device: context->ops->precision.
 */
#ifndef CLPRUNE_OPS_MMA_H
#define CLPRUNE_OPS_MMA_H

#include "clprune/context.h"
#include "runtime/defines.h"

/* Sets context->ops->precision from the option and $CLPRUNE_PRECISION; mma_emulated is set,
 * launches can run. A narrow precision is probed: mma_probe.cl runs, and if its results are wrong,
 * fp32 it is, with one warning. A dry context runs nothing: a device of NVIDIA is assumed to work.
 * Errors: INVALID_ARGUMENT (the option, the environment variable). */
clprune_status clprune__mma_open(clprune_context *context, clprune_precision option);

/* Appends the defines of mma.clh. */
void clprune__mma_defines(
    const clprune_context *context, size_t m_tiles, size_t n_tiles, clprune__defines *defines);

/* Values of k of one product. */
size_t clprune__mma_depth(const clprune_context *context);

/* Bytes of local memory that mma.clh takes for a warp. */
size_t clprune__mma_local(const clprune_context *context, size_t m_tiles, size_t n_tiles);

#endif
