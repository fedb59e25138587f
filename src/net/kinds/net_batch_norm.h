/* What the ways with a batch norm share. */
#ifndef CLPRUNE_NET_BATCH_NORM_H
#define CLPRUNE_NET_BATCH_NORM_H

#include "net/run/call.h"

/* Parameters and statistics of a layer. */
clprune_batch_norm clprune__net_norm(const clprune_net *net, const clprune__net_layer *layer);

/* Whether a pass normalises with the statistics of its own rows, else with the running ones. Then,
 * after clprune__net_norm and, if so, clprune_batch_norm_moments of all `rows` rows to bn->mean and
 * bn->inv, the end of it. */
bool clprune__net_measures(const clprune__net_call *call);
clprune_status clprune__net_end_measure(const clprune__net_call *call,
    const clprune__net_layer *layer, size_t rows, clprune_batch_norm *bn);

/* Fails where a batch norm would have a single value a channel in training, unless nets share their
 * statistics; before the pass, which changes running ones. */
clprune_status clprune__net_check_norms(const clprune_net *net, size_t batch);

#endif
