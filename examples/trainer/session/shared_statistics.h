/* shared_statistics.h: batch norms over the samples of all ranks. */
#ifndef TRAINER_SHARED_STATISTICS_H
#define TRAINER_SHARED_STATISTICS_H

#include "trainer/model/net_model.h"
#include "trainer/reduce/ranks.h"

typedef struct shared_statistics {
    bool on;
    bool empty;               /* this rank's pass has no samples: what it computes does not count */
    clprune_context *context; /* not owned */
    const rank_group *ranks;  /* not owned */
    float *host;              /* (ranks + 1, room) */
    size_t room;
    fault fault; /* of a call */
} shared_statistics;

/* From now on the model's batch norms share; *s must not move. */
void shared_statistics_open(
    clprune_context *context, const rank_group *ranks, net_model *model, shared_statistics *s);
void shared_statistics_close(shared_statistics *s); /* accepts {0}; the model no longer runs */

#endif
