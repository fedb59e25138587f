/* Losses: softmax cross-entropy, and the mean squared error. */
#include "net/layers/net_loss.h"

#include "clprune/cross_entropy.h"
#include "clprune/mean_squared_error.h"
#include "net/graph.h"
#include "runtime/context/check.h"

static void set_loss(
    clprune_net *net, clprune__net_loss loss, const char *name, clprune_net_value value)
{
    const clprune__net_value *y = clprune__net_read(net, name, value);
    if (y == NULL)
        return;
    if (net->loss != CLPRUNE__NET_NO_LOSS)
        clprune__net_wrong(net, CLPRUNE_INVALID_ARGUMENT, "the net has two losses, expected one");
    if (loss == CLPRUNE__NET_CROSS_ENTROPY && y->shape.rows != 1)
        clprune__net_wrong(net, CLPRUNE_INVALID_SIZE,
            "%s: the logits have %zu rows a sample, expected 1; clprune_net_mean makes one", name,
            y->shape.rows);
    if (net->layers[value.id - 1].ins == 0)
        clprune__net_wrong(net, CLPRUNE_INVALID_ARGUMENT, "%s: its value is the input", name);
    net->loss = loss;
    net->output = value.id - 1;
}

void clprune_net_cross_entropy(clprune_net *net, clprune_net_value logits)
{
    ENTER_QUIETLY(net != NULL ? net->context : NULL);
    set_loss(net, CLPRUNE__NET_CROSS_ENTROPY, "cross_entropy", logits);
}

void clprune_net_mean_squared_error(clprune_net *net, clprune_net_value y)
{
    ENTER_QUIETLY(net != NULL ? net->context : NULL);
    set_loss(net, CLPRUNE__NET_SQUARED_ERROR, "mean_squared_error", y);
}

clprune_status clprune__net_loss_forward(
    clprune_net *net, const clprune_net_data *data, clprune_mat loss, clprune_mat hit)
{
    clprune_context *context = net->context;
    const clprune_mat y = clprune__net_output(net, data->batch);
    if (net->loss == CLPRUNE__NET_CROSS_ENTROPY)
        return clprune_cross_entropy_forward(context, data->smoothing, y, data->labels,
            clprune_mat_rows(net->log_p, 0, data->batch), loss, hit, NULL);
    return clprune_mean_squared_error_forward(context, data->batch, y, data->targets, loss, NULL);
}

/* loss = mean over the samples of -sum_k q_k log_softmax(logits)_k, or of the mean of
 * (y - target)^2 */
clprune_status clprune__net_loss_backward(clprune_net *net, const clprune_net_data *data)
{
    clprune_context *context = net->context;
    const clprune_mat y = clprune__net_output(net, data->batch);
    const float scale = data->scale > 0 ? data->scale : 1.0f / (float)data->batch;
    if (net->loss == CLPRUNE__NET_CROSS_ENTROPY)
        return clprune_cross_entropy_backward(context, data->smoothing, scale,
            clprune_mat_rows(net->log_p, 0, data->batch), data->labels, y, NULL);
    return clprune_mean_squared_error_backward(
        context, data->batch, scale, y, data->targets, y, NULL);
}
