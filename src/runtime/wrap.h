/* Host memory that is wrapped as matrices of a context. */
#ifndef CLPRUNE_RUNTIME_WRAP_H
#define CLPRUNE_RUNTIME_WRAP_H

#include "clprune/wrap.h"

typedef struct clprune__wrap clprune__wrap;

/* Releases what is still wrapped, without copies. The queue is finished. */
void clprune__wraps_close(clprune_context *context);

#endif
