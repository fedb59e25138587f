/* The samples of a store that were stored: ascending ranges with gaps between them. */
#ifndef CLPRUNE_NN_STORED_H
#define CLPRUNE_NN_STORED_H

#include <stdbool.h>
#include <stddef.h>

/* Samples of a store. */
typedef struct clprune__range {
    size_t first, count;
} clprune__range;

/* Zeros: none. */
typedef struct clprune__stored {
    clprune__range *ranges;
    size_t count, room;
} clprune__stored;

/* Makes room for one _remove and one _add after it; false: no memory. */
bool clprune__stored_reserve(clprune__stored *stored);

void clprune__stored_add(clprune__stored *stored, clprune__range range);
void clprune__stored_remove(clprune__stored *stored, clprune__range range);

/* The number of samples from the first of `range` on that were stored without a gap, at most
 * range.count. */
size_t clprune__stored_run(const clprune__stored *stored, clprune__range range);

/* Empties and releases it. */
void clprune__stored_clear(clprune__stored *stored);

#endif
