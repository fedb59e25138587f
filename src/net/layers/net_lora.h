/* Adapters of linear layers. */
#ifndef CLPRUNE_NET_LORA_H
#define CLPRUNE_NET_LORA_H

#include "net/net_private.h"

/* The output of linear layer `name`, y from x, with an adapter if clprune_net_lora asked for one.
 */
clprune_net_value clprune__net_adapt(
    clprune_net *net, const char *name, clprune_net_value x, clprune_net_value y);

#endif
