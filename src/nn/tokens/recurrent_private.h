/* What the cells of recurrent layers differ in. */
#ifndef CLPRUNE_NN_RECURRENT_PRIVATE_H
#define CLPRUNE_NN_RECURRENT_PRIVATE_H

#include <stdbool.h>

#include "clprune/recurrent.h"

/* How many gates z has, and states y. False if there is no such cell: those of an LSTM. */
bool clprune__cell_sizes(clprune_cell which, size_t *gates, size_t *states);

#endif
