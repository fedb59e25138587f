/* Reference of dropout's mask. */
#ifndef CLPRUNE_DROPOUT_REF_H
#define CLPRUNE_DROPOUT_REF_H

#include <stdbool.h>
#include <stdint.h>

/* Whether an element is kept. */
bool dropout_ref_keeps(double rate, uint64_t seed, uint64_t row, uint64_t column);

#endif
