/* Tuned parameters are data: rows by vendor and device, chosen once per context. */
#ifndef CLPRUNE_RUNTIME_TUNING_H
#define CLPRUNE_RUNTIME_TUNING_H

#include "clprune/context.h"

/* The parameters of one CLBlast kernel, for CLBlastOverrideParameters. */
typedef struct clprune__blast_tuning {
    const char *kernel;
    size_t count;
    const char *const *names;
    const size_t *values;
} clprune__blast_tuning;

/* The rows for this device; *count 0 where CLBlast's own defaults serve. */
const clprune__blast_tuning *clprune__blast_tuning_for(
    const clprune_context *context, size_t *count);

#endif
