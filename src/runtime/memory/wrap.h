/* Host memory that is wrapped as matrices of a context. */
#ifndef CLPRUNE_RUNTIME_WRAP_H
#define CLPRUNE_RUNTIME_WRAP_H

#include "clprune/wrap.h"

typedef struct clprune__wrap clprune__wrap;

/* The host memory of a staged matrix will keep its contents when the matrix is unwrapped, because
 * the command that was to write it failed. */
void clprune__wrap_keep_host(clprune_context *context, clprune_mat mat);

/* Releases what is still wrapped, without copies. The queue is finished. */
void clprune__wraps_close(clprune_context *context);

#endif
