/* Work for a thread: a few kernels with a known result. It does not use cmocka, which may end a
 * case from the main thread only: the job holds the status and the text. */
#ifndef CLPRUNE_THREAD_JOB_H
#define CLPRUNE_THREAD_JOB_H

#include <stdbool.h>

#include "clprune/clprune.h"

/* The shapes of all jobs: samples, rows of one, sides of the weights. */
enum { JOB_BATCH = 4, JOB_ROWS = 10, JOB_TOKENS = JOB_BATCH * JOB_ROWS, JOB_IN = 64, JOB_OUT = 16 };
enum { JOB_X = JOB_TOKENS * JOB_IN, JOB_W = JOB_OUT * JOB_IN, JOB_Y = JOB_TOKENS * JOB_OUT };

/* Zero-initialise, then set the first fields. */
typedef struct thread_job {
    clprune_context *context;
    unsigned seed;
    clprune_linear *layer; /* for thread_exact: shared by threads; NULL: it makes its own */
    float w[JOB_W];        /* the result of thread_train */
    const char *wrong;     /* which result of thread_exact is not the host's, or NULL */
    clprune_status status;
    char told[256]; /* the last error of the thread */
} thread_job;

/* Trains a layer with a pruned input for some steps. Takes a thread_job *, returns NULL. */
void *thread_train(void *job);

/* A layer for thread_exact. */
clprune_status thread_layer(clprune_context *context, clprune_linear **layer);

/* A dense product, a pruned matrix, and a step of a layer, on small whole numbers drawn from the
 * job's seed. Every sum is exact in any order, so results equal the host's integers to the bit.
 * Takes a thread_job *, returns NULL. */
void *thread_exact(void *job);

#endif
