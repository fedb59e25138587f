/* ranks.h: the group of a run's processes, as the trainer holds it: of one process unless a program
 * opens more. */
#ifndef TRAINER_RANKS_H
#define TRAINER_RANKS_H

#include "trainer/reduce/reduce.h"

typedef struct rank_group {
    const reduce_functions *call;
    reduce_group *group; /* NULL: nothing is reduced, as in a plan */
    reduce_place at;
} rank_group;

#define RANKS_ALONE                                                                                \
    {                                                                                              \
        &reduce_alone, NULL,                                                                       \
        {                                                                                          \
            .ranks = 1, .local_ranks = 1                                                           \
        }                                                                                          \
    }

/* Whether others take part. */
static inline bool ranks_many(const rank_group *r)
{
    return r->at.ranks > 1 && r->group != NULL;
}

/* The first of `parts` things that a rank has; the next rank's first is its end. */
static inline size_t ranks_first(const rank_group *r, size_t parts, int rank)
{
    return parts * (size_t)rank / (size_t)r->at.ranks;
}

#endif
