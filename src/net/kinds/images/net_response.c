/* Responses of features, one row a sample. The sums of squares are made again: x is all that the
 * backward pass needs. */
#include "clprune/response.h"

#include "net/build/append.h"
#include "net/kinds/kinds.h"
#include "net/run/call.h"
#include "runtime/context/check.h"

static clprune_status response_forward(const clprune__net_call *call)
{
    return clprune_response_forward(call->net->context, call->count, call->layer->eps,
        clprune__net_x(call, 0), clprune__net_y(call), NULL);
}

static const clprune__net_kind response_kind = {.name = "response", .forward = response_forward};

/* y = g / (mean g + eps), g = sqrt(sum x^2) */
static clprune_status response_backward(const clprune__net_call *call)
{
    return clprune_response_backward(call->net->context, call->count,
        clprune__net_link(call, 0)->eps, clprune__net_dx_beta(call, 0),
        clprune__net_operand(call, 0), clprune__net_dy(call), clprune__net_dx(call, 0), NULL);
}

const clprune__net_way clprune__net_response_ways[] = {
    {.name = "response",
        .chain = {&response_kind},
        .needs = {{0, 0, CLPRUNE__NET_DENSE, false}},
        .needs_count = 1,
        .ends = {{CLPRUNE__NET_APART, true}},
        .backward = response_backward},
    {.name = NULL},
};

clprune_net_value clprune_net_response(clprune_net *net, const char *name, clprune_net_value x)
{
    ENTER_QUIETLY(net != NULL ? net->context : NULL);
    const clprune__net_value *in = clprune__net_read(net, name, x);
    if (in == NULL)
        return (clprune_net_value){0};
    clprune__net_layer *layer = clprune__net_add(
        net, &response_kind, name, &x, 1, (clprune__net_shape){1, in->shape.cols, {0, 0}});
    if (layer != NULL)
        layer->eps = net->draft.eps;
    return clprune__net_last(net);
}
