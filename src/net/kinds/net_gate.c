/* Gates: each feature of a sample, or of a row, is multiplied by a number of its own. */
#include "clprune/gate.h"

#include "net/build/append.h"
#include "net/kinds/kinds.h"
#include "net/run/call.h"
#include "runtime/context/check.h"

enum { X, G };

/* Rows of gates in a call. */
static size_t gates_of(const clprune__net_call *call, const clprune__net_layer *layer)
{
    return call->count * clprune__net_in_shape(&call->net->graph, layer, G)->rows;
}

static clprune_status gate_forward(const clprune__net_call *call)
{
    return clprune_gate_forward(call->net->context, gates_of(call, call->layer),
        clprune__net_x(call, X), clprune__net_x(call, G), clprune__net_y(call), NULL);
}

static const clprune__net_kind gate_kind = {.name = "gate",
    .over = true,
    .by_row = clprune__net_by_row, /* no one row of a sample is there to be g */
    .forward = gate_forward};

/* y = x * g */
static clprune_status gate_backward(const clprune__net_call *call)
{
    return clprune_gate_backward(call->net->context, gates_of(call, clprune__net_link(call, 0)),
        clprune__net_dx_beta(call, X), clprune__net_operand(call, X), clprune__net_operand(call, G),
        clprune__net_dy(call), clprune__net_dx(call, X), clprune__net_dx(call, G), NULL);
}

const clprune__net_way clprune__net_gate_ways[] = {
    {.name = "gate",
        .chain = {&gate_kind},
        .needs = {{0, X, CLPRUNE__NET_DENSE, false}, {0, G, CLPRUNE__NET_DENSE, false}},
        .needs_count = 2,
        .ends = {{CLPRUNE__NET_OVER, true}, {CLPRUNE__NET_APART, false}},
        .backward = gate_backward},
    {.name = NULL},
};

clprune_net_value clprune_net_gate(
    clprune_net *net, const char *name, clprune_net_value x, clprune_net_value g)
{
    ENTER_QUIETLY(net != NULL ? net->context : NULL);
    const clprune__net_value *a = clprune__net_read(net, name, x);
    const clprune__net_value *b = clprune__net_read(net, name, g);
    if (a == NULL || b == NULL)
        return (clprune_net_value){0};
    const clprune__net_shape shape = a->shape, gates = b->shape;
    if ((gates.rows != 1 && gates.rows != shape.rows) || gates.cols != shape.cols) {
        clprune__net_wrong(net, CLPRUNE_INVALID_SIZE,
            "layer %s: its gates are %zu x %zu, expected 1 x %zu or %zu x %zu", name, gates.rows,
            gates.cols, shape.cols, shape.rows, shape.cols);
        return (clprune_net_value){0};
    }
    (void)clprune__net_add(net, &gate_kind, name, (const clprune_net_value[]){x, g}, 2, shape);
    return clprune__net_last(net);
}
