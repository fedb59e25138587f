/*
 * tally.h: losses and hits of many batches, and norms of gradients, summed without waiting for
 * each.
 *
 * Every batch writes into its own rows of one device buffer, a slot. When all slots are in use,
 * their rows are read back together. The host adds them in the order of the samples, so the sums do
 * not depend on when they are read, nor on which rank has a batch.
 */
#ifndef TRAINER_TALLY_H
#define TRAINER_TALLY_H

#include <clprune/clprune.h>

#include "trainer/base/fault.h"
#include "trainer/reduce/ranks.h"

enum { TALLY_SLOTS = 16 }; /* at least */

typedef struct tally_sums {
    double loss;            /* sum over samples */
    uint64_t hits, samples; /* hits: of labels */
    double last;            /* mean loss of the latest batch */
    double norm;            /* sum over `norms` steps of the gradient's norm, where it is finite */
    uint64_t norms;
    bool finite; /* every loss was a finite number */
} tally_sums;

typedef struct tally {
    clprune_context *context; /* not owned */
    const rank_group *ranks;  /* not owned */
    size_t parts;             /* batches of a group, on all ranks */
    size_t batch, labels;     /* labels: of a sample */
    size_t slots, used;
    clprune_mat loss, hit; /* (slots * batch) x 1 */
    float *host;           /* (2, slots * batch) */
    size_t *count;         /* (slots) */
    double *factor;        /* (slots) */
    clprune_mat norm;      /* slots x 1; no buffer: without norms */
    size_t norms;          /* of it in use */
    size_t read, bad;      /* batches since tally_reset; 1 + the first whose loss is not finite */
    tally_sums sums;
} tally;

/* slots: as many, if that is more than TALLY_SLOTS. */
bool tally_open(clprune_context *context, size_t batch, size_t labels, size_t slots,
    const rank_group *ranks, tally *t, fault *f);
void tally_close(tally *t); /* accepts {0} */

/* Makes room for norms of gradients, too. On failure the caller closes *t. */
bool tally_open_norms(tally *t, fault *f);

/* Starts again from these sums and drops batches that were not read. Batches come in groups of
 * `parts`, of which each rank has those from ranks_first on. */
void tally_reset(tally *t, tally_sums sums, size_t parts);
extern const tally_sums tally_zero;

/* 1 + the group of the first loss that is not finite since tally_reset; 0: none. */
size_t tally_bad_group(const tally *t);

/* Rows for the next batch of `count` samples, with other ranks possibly 0. Reads back first if all
 * slots are in use. */
bool tally_next(tally *t, size_t count, clprune_mat *loss, clprune_mat *hit, fault *f);

/* Losses and hits of the batch that took rows last count so many times, as of a part of a step that
 * has more labels than others. */
void tally_weigh(tally *t, double factor);

/* A place, 1 x 1, for the gradient's norm of a step; CLPRUNE_NO_MAT without room for norms. All
 * ranks have the same norms. */
bool tally_next_norm(tally *t, clprune_mat *norm, fault *f);

/* Adds a norm that the host knows. */
void tally_add_norm(tally *t, double norm);

/* Drops the latest `count` batches, of those that were not read. */
void tally_drop(tally *t, size_t count);

/* Waits for the device, and for the other ranks, and brings t->sums up to date: everywhere. Without
 * batches since the last time it does nothing. */
bool tally_read(tally *t, fault *f);

/* Waits for the device if there are norms that were not read. */
bool tally_read_norms(tally *t, fault *f);

#endif
