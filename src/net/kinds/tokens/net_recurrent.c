/* LSTM, GRU and plain cells over a sample's rows, or sequences of them, behind a linear layer of
 * the inputs; from states that are a value, too. */
#include "clprune/recurrent.h"

#include "core/checked.h"
#include "net/build/append.h"
#include "net/kinds/kinds.h"
#include "net/run/call.h"
#include "nn/tokens/recurrent_private.h"
#include "runtime/context/check.h"
#include "runtime/memory/scratch.h"

enum { Z, STATES0 };   /* inputs */
enum { WEIGHT, BIAS }; /* parameters */

static clprune_status recurrent_forward(const clprune__net_call *call)
{
    const clprune__net_layer *layer = call->layer;
    clprune_context *context = call->net->context;
    REQUIRE(call->data->starts.buffer == NULL, CLPRUNE_INVALID_ARGUMENT,
        "layer %s is recurrent, which takes no data.starts", layer->name);
    return clprune_recurrent_forward(context, &layer->set.recurrent, clprune__net_x(call, Z),
        clprune__net_param_value(call->net, layer, WEIGHT),
        clprune__net_param_value(call->net, layer, BIAS),
        layer->ins > STATES0 ? clprune__net_x(call, STATES0) : CLPRUNE_NO_MAT, clprune__net_y(call),
        NULL);
}

/* Of the states before: of first steps only from given states. */
static double recurrent_work(const clprune__net_graph *graph, const clprune__net_layer *layer)
{
    const clprune__net_shape *z = clprune__net_in_shape(graph, layer, Z);
    const double steps = (double)layer->set.recurrent.steps;
    return (double)z->rows * (layer->ins > STATES0 ? 1 : (steps - 1) / steps) *
           (double)clprune__net_param_elements(&graph->params[layer->param[WEIGHT]]);
}

static const clprune__net_kind recurrent_kind = {
    .name = "recurrent", .forward = recurrent_forward, .work = recurrent_work};
static const clprune__net_kind from_kind = {
    .name = "recurrent from states", .forward = recurrent_forward, .work = recurrent_work};

/* y = [h c] or h, of z + w h' + b */
static clprune_status recurrent_backward(const clprune__net_call *call)
{
    clprune_context *context = call->net->context;
    SCRATCH_SCOPE(context);
    const clprune__net_layer *layer = clprune__net_link(call, 0);
    const bool from = layer->ins > STATES0;
    const clprune_mat z = clprune__net_operand(call, 0);
    clprune_mat dz = clprune__net_dx(call, Z);
    if (clprune__is_absent(dz))
        TRY(clprune__scratch_mat(context, z.rows, z.cols, &dz));
    return clprune_recurrent_backward(context, &layer->set.recurrent, clprune__net_beta(call), z,
        clprune__net_param_value(call->net, layer, WEIGHT),
        clprune__net_param_value(call->net, layer, BIAS),
        from ? clprune__net_operand(call, 2) : CLPRUNE_NO_MAT, clprune__net_operand(call, 1),
        clprune__net_dy(call), dz, clprune__net_grad(call, layer, WEIGHT),
        clprune__net_grad(call, layer, BIAS),
        from ? clprune__net_dx(call, STATES0) : CLPRUNE_NO_MAT, NULL);
}

const clprune__net_way clprune__net_recurrent_ways[] = {
    {.name = "recurrent",
        .chain = {&recurrent_kind},
        .needs = {{0, Z, CLPRUNE__NET_DENSE, false}, {0, -1, CLPRUNE__NET_DENSE, false}},
        .needs_count = 2,
        .ends = {{CLPRUNE__NET_APART, false}},
        .backward = recurrent_backward},
    {.name = "recurrent from states",
        .chain = {&from_kind},
        .needs = {{0, Z, CLPRUNE__NET_DENSE, false}, {0, -1, CLPRUNE__NET_DENSE, false},
            {0, STATES0, CLPRUNE__NET_DENSE, false}},
        .needs_count = 3,
        .ends = {{CLPRUNE__NET_APART, false}, {CLPRUNE__NET_APART, false}},
        .backward = recurrent_backward},
    {.name = NULL},
};

/* states0: NULL for zeros. */
static clprune_net_value add(clprune_net *net, const char *name, clprune_net_value z,
    const clprune_net_value *states0, const clprune_recurrent_desc *desc, bool bias)
{
    const bool from = states0 != NULL;
    const clprune__net_value *in = clprune__net_read(net, name, z);
    const clprune__net_value *before = from ? clprune__net_read(net, name, *states0) : NULL;
    if (in == NULL || (from && before == NULL))
        return (clprune_net_value){0};
    clprune__net_shape shape = in->shape;
    clprune_recurrent_desc set = desc != NULL ? *desc : (clprune_recurrent_desc){0};
    size_t gates, states;
    const bool known = clprune__cell_sizes(set.cell, &gates, &states);
    const size_t cols = shape.cols, hidden = cols / gates;
    set.steps = set.steps > 0 ? set.steps : shape.rows;
    if (!known || set.reserved[0] != 0 || set.reserved[1] != 0)
        clprune__net_wrong(net, CLPRUNE_INVALID_ARGUMENT,
            "layer %s: its cell is %d, expected a clprune_cell, or a reserved field is not 0; "
            "zero-initialise clprune_recurrent_desc",
            name, (int)set.cell);
    if (hidden == 0 || cols % gates != 0 || shape.rows % set.steps != 0)
        clprune__net_wrong(net, CLPRUNE_INVALID_SIZE,
            "layer %s: %zu columns are not %zu gates of a state, or %zu steps do not divide the "
            "%zu rows of a sample",
            name, cols, gates, set.steps, shape.rows);
    shape.cols = states * hidden;
    if (from && (before->shape.rows != shape.rows / set.steps || before->shape.cols != shape.cols))
        clprune__net_wrong(net, CLPRUNE_INVALID_SIZE,
            "layer %s: its first states are %zu x %zu, expected %zu x %zu", name,
            before->shape.rows, before->shape.cols, shape.rows / set.steps, shape.cols);
    const clprune_net_value inputs[] = {z, from ? *states0 : z};
    clprune__net_layer *layer = clprune__net_add(
        net, from ? &from_kind : &recurrent_kind, name, inputs, from ? 2 : 1, shape);
    if (layer == NULL)
        return (clprune_net_value){0};
    layer->set.recurrent = set;
    clprune__net_add_param(net, ".weight",
        (clprune__net_param){.rank = 2, .shape = {cols, hidden}, .inputs = hidden, .decay = true});
    if (bias)
        clprune__net_add_param(
            net, ".bias", (clprune__net_param){.rank = 1, .shape = {cols}, .inputs = hidden});
    return clprune__net_last(net);
}

clprune_net_value clprune_net_recurrent(clprune_net *net, const char *name, clprune_net_value z,
    const clprune_recurrent_desc *desc, bool bias)
{
    ENTER_QUIETLY(net != NULL ? net->context : NULL);
    return add(net, name, z, NULL, desc, bias);
}

clprune_net_value clprune_net_recurrent_from(clprune_net *net, const char *name,
    clprune_net_value z, clprune_net_value states0, const clprune_recurrent_desc *desc, bool bias)
{
    ENTER_QUIETLY(net != NULL ? net->context : NULL);
    return add(net, name, z, &states0, desc, bias);
}
