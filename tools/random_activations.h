/* Random activations for clprune-bench and clprune-tune. */
#ifndef CLPRUNE_RANDOM_ACTIVATIONS_H
#define CLPRUNE_RANDOM_ACTIVATIONS_H

#include <stddef.h>

/* Fills values[0 .. count) like activations after a GELU: most are small, some large. Calls
 * continue one sequence, which is the same in each program. */
void random_activations(float *values, size_t count);

#endif
