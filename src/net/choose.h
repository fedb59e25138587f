/* The planner: what is kept of each value. */
#ifndef CLPRUNE_NET_CHOOSE_H
#define CLPRUNE_NET_CHOOSE_H

#include "net/net_private.h"

/* Bytes of a value in its form, for the whole batch. */
size_t clprune__net_bytes(const clprune_net *net, size_t value);

/* Chooses ways, kept values and regions. keep has defaults filled in. Errors: INVALID_ARGUMENT (a
 * rule), OUT_OF_HOST_MEMORY. */
clprune_status clprune__net_choose(clprune_net *net, const clprune_net_keep *keep);

#endif
