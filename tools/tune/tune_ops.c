/* tune_ops.c: what the operations search. */
#include "tune.h"

#include <string.h>

const char *const *tune_sections(const tune *t, const tune_op *op)
{
    if (t->precision != CLPRUNE_PRECISION_FP32 && op->mma[0] != NULL)
        return op->mma;
    return clprune_context_kernels(t->base) == CLPRUNE_KERNELS_TILED ? op->tiled : op->vector;
}

bool tune_searches(const tune *t, const tune_op *op, size_t parameter)
{
    for (const char *const *s = tune_sections(t, op); *s != NULL; s++)
        if (strcmp(*s, t->parameters[parameter].section) == 0)
            return true;
    return false;
}
