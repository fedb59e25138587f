/* A net: its graph, its plan, its memory, and how far its passes have come. */
#ifndef CLPRUNE_NET_PRIVATE_H
#define CLPRUNE_NET_PRIVATE_H

#include "net/build/draft.h"
#include "net/plan/plan.h"
#include "net/run/state.h"

enum { CLPRUNE__NET_TEXT = 512 /* bytes of an error */ };

/* Memory of the caller that is to be a parameter or state: clprune_net_use_value before the net is
 * settled. */
typedef struct clprune__net_lent {
    char *name;
    clprune_mat value;
    bool used;
} clprune__net_lent;

struct clprune_net {
    clprune_context *context;
    uint32_t serial;
    clprune_status status; /* the first error */
    char *error;
    bool settled;
    size_t sharers; /* nets whose desc.weights_of this is */
    bool gone;      /* destroyed, but for what sharers need */
    clprune__net_draft draft;
    clprune__net_lent *lent; /* (lent_count) */
    size_t lent_count;
    clprune__net_graph graph;
    clprune__net_plan plan;
    clprune__net_body body;
    clprune__net_progress at;
};

/* Whether clprune_net_settle has succeeded: `settled` is set before, against a second call. */
static inline bool clprune__net_is_settled(const clprune_net *net)
{
    return net->settled && net->status == CLPRUNE_SUCCESS;
}

/* The net whose passes and history this one goes on with: itself, or one that it shares them with.
 */
static inline clprune_net *clprune__net_keeper(clprune_net *net)
{
    while (net->graph.whole > 0 && net->graph.desc.weights_of != NULL &&
           net->graph.desc.weights_of->graph.whole > 0)
        net = net->graph.desc.weights_of;
    return net;
}

/* splitmix64 */
static inline uint64_t clprune__net_random(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

#endif
