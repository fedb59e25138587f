/* What the layers ask of a saved activation beyond its public functions. */
#ifndef CLPRUNE_NN_SAVED_PRIVATE_H
#define CLPRUNE_NN_SAVED_PRIVATE_H

#include "clprune/saved.h"

/* The description it was created with. */
clprune_saved_desc clprune__saved_desc(const clprune_saved *saved);

#endif
