/* Softmax of each row over its features. */
#include "clprune/softmax.h"

#include "net/build/append.h"
#include "net/kinds/kinds.h"
#include "net/run/call.h"
#include "runtime/context/check.h"

static clprune_status softmax_forward(const clprune__net_call *call)
{
    return clprune_softmax_forward(
        call->net->context, clprune__net_x(call, 0), clprune__net_y(call), NULL);
}

static const clprune__net_kind softmax_kind = {
    .name = "softmax", .over = true, .by_row = clprune__net_by_row, .forward = softmax_forward};

/* y = exp(x) / sum of exp(x) */
static clprune_status softmax_backward(const clprune__net_call *call)
{
    return clprune_softmax_backward(call->net->context, clprune__net_dx_beta(call, 0),
        clprune__net_operand(call, 0), clprune__net_dy(call), clprune__net_dx(call, 0), NULL);
}

const clprune__net_way clprune__net_softmax_ways[] = {
    {.name = "softmax",
        .chain = {&softmax_kind},
        .needs = {{0, -1, CLPRUNE__NET_DENSE, false, 8}}, /* y is there twice */
        .needs_count = 1,
        .ends = {{CLPRUNE__NET_OVER, true}},
        .backward = softmax_backward},
    {.name = NULL},
};

clprune_net_value clprune_net_softmax(clprune_net *net, const char *name, clprune_net_value x)
{
    ENTER_QUIETLY(net != NULL ? net->context : NULL);
    const clprune__net_value *in = clprune__net_read(net, name, x);
    if (in == NULL)
        return (clprune_net_value){0};
    (void)clprune__net_add(net, &softmax_kind, name, &x, 1, in->shape);
    return clprune__net_last(net);
}
