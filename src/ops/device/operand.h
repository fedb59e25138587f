/* The rounding of operands, for the checks of devices. */
#ifndef CLPRUNE_OPS_OPERAND_H
#define CLPRUNE_OPS_OPERAND_H

#include "clprune/context.h"

/* x, rounded as an operand: TF32 to 10 fraction bits, ties away from zero; bf16 to 7, ties to
 * even. Not for subnormal results. */
double clprune__round_operand(clprune_precision precision, double x);

#endif
