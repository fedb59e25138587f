/* Host memory that is wrapped as matrices of a context. */
#ifndef CLPRUNE_RUNTIME_WRAP_H
#define CLPRUNE_RUNTIME_WRAP_H

#include "clprune/wrap.h"

typedef struct clprune__wrap clprune__wrap;

/* As clprune_mat_wrap, within a call; *mat has no buffer yet. */
clprune_status clprune__mat_wrap(clprune_context *context, float *host, size_t rows, size_t cols,
    size_t ld, clprune_access access, clprune_mat *mat);

/* As clprune_mat_unwrap, within a call; `buffer` is that of a wrapped matrix. */
clprune_status clprune__mat_unwrap(clprune_context *context, cl_mem buffer);

/* The host memory of a staged matrix will keep its contents when the matrix is unwrapped, because
 * the command that was to write it failed. */
void clprune__wrap_keep_host(clprune_context *context, clprune_mat mat);

/* Releases what is still wrapped, without copies. The queue is finished. */
void clprune__wraps_close(clprune_context *context);

#endif
