/* The precision of products: context->ops->precision, and how it is reached. */
#ifndef CLPRUNE_OPS_PRECISION_H
#define CLPRUNE_OPS_PRECISION_H

#include "clprune/context.h"
#include "ops/device/switches.h"

/* Sets context->ops->precision and pairs from the option and $CLPRUNE_PRECISION. mma_emulated must
 * be set, and launches must work. bf16: of vector kernels. The device's instructions are probed by
 * small products. Without AVX512-BF16, vector kernels convert; without tensor cores, other kernels
 * stay in fp32, with one warning. TF32 is fp32 in vector kernels. A dry context runs nothing.
 * Errors: INVALID_ARGUMENT (the option, the environment variable). */
clprune_status clprune__precision_open(
    clprune_context *context, clprune_precision option, clprune__bf16_switch bf16);

#endif
