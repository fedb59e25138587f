/* The loss of a net. */
#ifndef CLPRUNE_NET_LOSS_H
#define CLPRUNE_NET_LOSS_H

#include "net/net_private.h"

/* As clprune_net_loss; then the gradient of the output, in its place. */
clprune_status clprune__net_loss_forward(
    clprune_net *net, const clprune_net_data *data, clprune_mat loss, clprune_mat hit);
clprune_status clprune__net_loss_backward(clprune_net *net, const clprune_net_data *data);

/* As clprune_net_logits, in a net that has come so far. */
clprune_status clprune__net_loss_logits(
    clprune_net *net, size_t batch, size_t row, clprune_mat logits, cl_event *event);

#endif
