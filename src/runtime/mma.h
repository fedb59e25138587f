/* Whether block-sparse products may take the matrix units of the device: context->precision, and
 * context->mma_emulated. */
#ifndef CLPRUNE_RUNTIME_MMA_H
#define CLPRUNE_RUNTIME_MMA_H

#include "clprune/context.h"
#include "runtime/defines.h"

/* Settles both from the options, $CLPRUNE_PRECISION and $CLPRUNE_MMA; launches can run. Where a
 * narrow precision is asked for, a probe builds and runs mma_probe.cl, and if that does not give
 * what it must, fp32 it is, with one warning. A dry context runs nothing: it takes a device of
 * NVIDIA's at its word. Errors: INVALID_ARGUMENT (an option, an environment variable). */
clprune_status clprune__mma_open(clprune_context *context, clprune_precision option);

/* Appends the defines of mma.clh. */
void clprune__mma_defines(
    const clprune_context *context, size_t m_tiles, size_t n_tiles, clprune__defines *defines);

/* Values of k of one product. */
size_t clprune__mma_depth(const clprune_context *context);

/* Bytes of local memory that mma.clh takes for a warp. */
size_t clprune__mma_local(const clprune_context *context, size_t m_tiles, size_t n_tiles);

#endif
