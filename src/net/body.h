/* The device memory of a settled net: parameters, states, stores, slots. */
#ifndef CLPRUNE_NET_BODY_H
#define CLPRUNE_NET_BODY_H

#include "net/net_private.h"

/* Takes all memory in net->context. Errors: OUT_OF_DEVICE_MEMORY, OUT_OF_HOST_MEMORY. */
clprune_status clprune__net_body_create(clprune_net *net);
void clprune__net_body_destroy(clprune_net *net);

/* Running means 0, variances 1; from the host, without a kernel. */
clprune_status clprune__net_reset_states(clprune_net *net);

/* Runs a list of steps. */
clprune_status clprune__net_run(
    clprune_net *net, const clprune__net_steps *list, const clprune_net_data *data, bool training);

#endif
