/* Linear layers without adapters. */
#ifndef CLPRUNE_NET_LINEAR_H
#define CLPRUNE_NET_LINEAR_H

#include "net/net_private.h"

/* A linear layer over features, with or without bias. */
clprune_net_value clprune__net_add_linear(
    clprune_net *net, const char *name, clprune_net_value x, size_t out, bool bias);

/* narrow_dy of ways that multiply with dy alone. */
bool clprune__net_linear_narrow_dy(
    const clprune__net_graph *graph, const clprune__net_layer *layer, const clprune_keep *x);

#endif
