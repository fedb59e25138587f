/* What the ways with a batch norm share. */
#ifndef CLPRUNE_NET_BATCH_NORM_H
#define CLPRUNE_NET_BATCH_NORM_H

#include "net/run/call.h"

/* Parameters and statistics of a layer. */
clprune_batch_norm clprune__net_norm(const clprune_net *net, const clprune__net_layer *layer);

/* The statistics that x is normalised with: its own in training, else the running ones. */
clprune_status clprune__net_measure(const clprune__net_call *call, const clprune__net_layer *layer,
    clprune_mat x, clprune_batch_norm *bn);

/* Fails where a batch norm would have a single value a channel in training, unless nets share their
 * statistics; before the pass, which changes running ones. */
clprune_status clprune__net_check_norms(const clprune_net *net, size_t batch);

#endif
