/* Merges layers and chooses a way for each. */
#ifndef CLPRUNE_NET_COVER_H
#define CLPRUNE_NET_COVER_H

#include "net/plan/plan.h"

/* What the ways of a preset may be. */
typedef struct clprune__net_policy {
    unsigned level; /* clprune__net_way.level, at most */
    enum { CLPRUNE__NET_SIGNS_AGAIN, CLPRUNE__NET_SIGNS_OF_SUMS, CLPRUNE__NET_SIGNS_KEPT } signs;
    /* which ReLUs keep a bit per element: none, those of sums, all */
} clprune__net_policy;

/* plan->tiles. Errors: OUT_OF_HOST_MEMORY. */
clprune_status clprune__net_cover(clprune__net_plan *plan, const clprune__net_policy *policy);

#endif
