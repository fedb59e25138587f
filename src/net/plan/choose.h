/* The planner: what is kept of each value. */
#ifndef CLPRUNE_NET_CHOOSE_H
#define CLPRUNE_NET_CHOOSE_H

#include "net/plan/plan.h"

/* Chooses ways, kept values and regions. keep has defaults filled in. Errors: INVALID_ARGUMENT (a
 * rule), OUT_OF_HOST_MEMORY. */
clprune_status clprune__net_choose(clprune__net_plan *plan, const clprune_net_keep *keep);

#endif
