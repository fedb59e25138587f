/* Random activations for clprune-bench and clprune-tune. */
#ifndef CLPRUNE_RANDOM_ACTIVATIONS_H
#define CLPRUNE_RANDOM_ACTIVATIONS_H

#include <stddef.h>

/* values[0 .. count): like those of a GELU, most are small and some large. Each call goes on where
 * the last one stopped, the first one of a program begins at the same place. */
void random_activations(float *values, size_t count);

#endif
