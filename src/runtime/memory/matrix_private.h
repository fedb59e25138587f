/* Functions of clprune/matrix.h within a call: the caller has entered the context. */
#ifndef CLPRUNE_RUNTIME_MATRIX_PRIVATE_H
#define CLPRUNE_RUNTIME_MATRIX_PRIVATE_H

#include "clprune/matrix.h"

/* The mats have no buffers yet. */
clprune_status clprune__mats_create(clprune_context *context, clprune_memory_category category,
    size_t count, const char *const *names, clprune_mat *mats);

/* The rows of a matrix of bf16 or codes that are coded at a time: 256 KiB of floats, at least one. */
size_t clprune__rows_coded(clprune_mat mat);

clprune_status clprune__mat_write(clprune_context *context, clprune_mat mat, const float *host);
clprune_status clprune__mat_read(clprune_context *context, clprune_mat mat, float *host);
clprune_status clprune__mat_copy(
    clprune_context *context, clprune_mat from, clprune_mat to, cl_event *event);
clprune_status clprune__mat_fill(
    clprune_context *context, float value, clprune_mat mat, cl_event *event);

#endif
