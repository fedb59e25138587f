/* Rewrites of the graph, between the caller's last layer and the plan. */
#ifndef CLPRUNE_NET_MERGE_H
#define CLPRUNE_NET_MERGE_H

#include "net/net_private.h"

/* Once per net: ReLU goes into the batch norm before it, with the addition between them; a mean
 * behind an affine goes before it. Then counts who reads a value, and which values are trained. */
void clprune__net_merge(clprune_net *net);

#endif
