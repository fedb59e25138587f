/* alpha * x + beta per feature, and LayerScale: x + ls * t. */
#include "clprune/affine.h"

#include "clprune/layerscale.h"
#include "net/build/append.h"
#include "net/kinds/kinds.h"
#include "net/run/call.h"
#include "runtime/context/check.h"

enum { ALPHA, BETA };

static clprune_status affine_forward(const clprune__net_call *call)
{
    return clprune_affine_forward(call->net->context, clprune__net_x(call, 0),
        clprune__net_param_value(call->net, call->layer, ALPHA),
        clprune__net_param_value(call->net, call->layer, BETA), clprune__net_y(call), NULL);
}

const clprune__net_kind clprune__net_affine_kind = {.name = "affine",
    .by_row = clprune__net_by_row,
    .grads = {.frozen = true},
    .over = true,
    .gives_bf16 = clprune__net_gives_bf16,
    .takes_bf16 = clprune__net_takes_bf16,
    .forward = affine_forward};

/* y = alpha * x + beta */
static clprune_status affine_backward(const clprune__net_call *call)
{
    const clprune__net_layer *layer = clprune__net_link(call, 0);
    return clprune_affine_backward(call->net->context, clprune__net_beta(call),
        clprune__net_dx_beta(call, 0), clprune__net_operand(call, 0),
        clprune__net_param_value(call->net, layer, ALPHA), clprune__net_dy(call),
        clprune__net_dx(call, 0),
        &(clprune_affine){
            clprune__net_grad(call, layer, ALPHA), clprune__net_grad(call, layer, BETA)},
        NULL);
}

/* The same where alpha and beta are frozen: dx alone, which needs no x. */
static clprune_status affine_frozen(const clprune__net_call *call)
{
    return clprune_affine_weights(call->net->context,
        clprune__net_param_value(call->net, clprune__net_link(call, 0), ALPHA),
        clprune__net_dy(call), clprune__net_dx(call, 0), NULL);
}

const clprune__net_way clprune__net_affine_ways[] = {
    {.name = "affine, frozen",
        .chain = {&clprune__net_affine_kind},
        .frozen = true,
        .ends = {{CLPRUNE__NET_OVER, false}},
        .backward = affine_frozen},
    {.name = "affine",
        .chain = {&clprune__net_affine_kind},
        .needs = {{0, 0, CLPRUNE__NET_NARROW, false}},
        .needs_count = 1,
        .ends = {{CLPRUNE__NET_OVER, true}},
        .backward = affine_backward},
    {.name = NULL},
};

clprune_net_value clprune_net_affine(clprune_net *net, const char *name, clprune_net_value x)
{
    ENTER_QUIETLY(net != NULL ? net->context : NULL);
    const clprune__net_value *in = clprune__net_read(net, name, x);
    if (in == NULL)
        return (clprune_net_value){0};
    const size_t d = in->shape.cols;
    (void)clprune__net_add(net, &clprune__net_affine_kind, name, &x, 1, in->shape);
    clprune__net_add_param(
        net, ".alpha", (clprune__net_param){.rank = 3, .shape = {1, 1, d}, .value = 1});
    clprune__net_add_param(net, ".beta", (clprune__net_param){.rank = 3, .shape = {1, 1, d}});
    return clprune__net_last(net);
}
