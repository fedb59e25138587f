/* Products of bf16 by Intel's AMX on CPUs: amx.clh. */
#ifndef CLPRUNE_OPS_AMX_H
#define CLPRUNE_OPS_AMX_H

#include <stdbool.h>

#include "clprune/context.h"

/* Asks Linux to let this process use the registers of AMX, on all of its threads and those to come,
 * and runs a product; fails if the system refuses, the device does not have AMX or a result is
 * wrong. Kernels of a CPU run in this process. Of the operands, a or b is rounded. */
clprune_status clprune__amx_probe(clprune_context *context, bool round_a);

#endif
