/* Looks for numbers that are not finite in what the steps of a pass read and write. */
#include <math.h>
#include <stdlib.h>

#include "net/build/append.h"
#include "net/net_private.h"
#include "net/plan/cover.h"
#include "net/run/body.h"
#include "net/run/call.h"
#include "runtime/context/check.h"

/* A matrix of a step, and what the message calls it. */
typedef struct tensor {
    const char *pass, *layer, *what, *of;
    clprune_mat mat;
    size_t first, rows; /* sample of its first row, rows of a sample; 0: a parameter */
} tensor;

static clprune_status check(const clprune_net *net, const tensor *t)
{
    clprune_context *context = net->context;
    clprune_status status = CLPRUNE_SUCCESS;
    const size_t cols = t->mat.cols, count = t->mat.rows * cols;
    size_t bad = 0, at = 0;
    if (count == 0)
        return CLPRUNE_SUCCESS;
    float *values = malloc(count * sizeof *values);
    REQUIRE(values != NULL, CLPRUNE_OUT_OF_HOST_MEMORY, "no memory for %zu values", count);
    TRY_DONE(clprune_mat_read(context, t->mat, values));
    for (size_t i = count; i-- > 0;)
        if (!isfinite(values[i])) {
            ++bad;
            at = i;
        }
    const size_t row = at / cols, rows = t->rows > 0 ? t->rows : t->mat.rows;
    REQUIRE_DONE(bad == 0, CLPRUNE_NOT_FINITE,
        "%s of layer %s: %s%s has %zu of %zu numbers that are not finite; the first is %g in "
        "sample %zu, row %zu, column %zu",
        t->pass, t->layer, t->what, t->of, bad, count, (double)values[at], t->first + row / rows,
        row % rows, at % cols);
done:
    free(values);
    return status;
}

static clprune_status check_value(
    const clprune__net_call *call, const tensor *t, clprune__net_place place, size_t value)
{
    tensor all = *t;
    all.mat = clprune__net_at(call, place, value);
    all.first = call->first;
    all.rows = call->net->graph.values[value].shape.rows;
    return check(call->net, &all);
}

/* The value of a parameter, or its gradient if it is trained. */
static clprune_status check_param(
    const clprune_net *net, const char *pass, const char *layer, size_t param, bool grad)
{
    const clprune_param *of = &net->body.tensors[param];
    if (grad && net->graph.params[param].frozen)
        return CLPRUNE_SUCCESS;
    return check(net, &(tensor){pass, layer, grad ? "the gradient of " : "parameter ", of->name,
                          grad ? of->grad : of->value, 0, 0});
}

static clprune_status check_layer(
    const clprune_net *net, const clprune__net_layer *layer, bool grads)
{
    for (size_t k = 0; k < layer->params; ++k)
        TRY(check_param(
            net, grads ? "backward pass" : "forward pass", layer->name, layer->param[k], grads));
    return CLPRUNE_SUCCESS;
}

static clprune_status check_tile(const clprune_net *net, const clprune__net_tile *tile, bool grads)
{
    for (size_t i = 0; i < tile->count; ++i)
        TRY(check_layer(net, &net->graph.layers[tile->layers[i]], grads));
    return CLPRUNE_SUCCESS;
}

clprune_status clprune__net_check_params(const clprune__net_call *call)
{
    const clprune_net *net = call->net;
    if (call->step->act != CLPRUNE__NET_FORWARD)
        return CLPRUNE_SUCCESS;
    const clprune__net_tile *fused = clprune__net_fused(&net->plan, call->step->id);
    return fused != NULL ? check_tile(net, fused, false) /* the last layer runs them all */
                         : check_layer(net, &net->graph.layers[call->step->id], false);
}

static clprune_status check_backward(const clprune__net_call *call)
{
    const clprune_net *net = call->net;
    const clprune__net_tile *tile = &net->plan.tiles[call->step->id];
    tensor t = {.pass = "backward pass",
        .layer = net->graph.layers[tile->layers[0]].name,
        .what = "the gradient of its input "};
    for (size_t k = 0; k < tile->ends_count; ++k) {
        const bool into = tile->way->ends[k].flow == CLPRUNE__NET_INTO;
        t.of = net->graph.layers[tile->ends[k]].name;
        if (net->graph.values[tile->ends[k]].trained)
            TRY(check_value(call, &t, into ? call->step->out : call->step->dx[k], tile->ends[k]));
    }
    return tile->way->end == NULL ? check_tile(net, tile, true) : CLPRUNE_SUCCESS;
}

clprune_status clprune__net_check_written(const clprune__net_call *call)
{
    const clprune_net *net = call->net;
    const clprune__net_step *step = call->step;
    tensor t = {.what = "its output"};
    t.of = "";
    switch (step->act) {
    case CLPRUNE__NET_FORWARD:
        t.pass = step->again ? "second forward pass" : "forward pass";
        break;
    case CLPRUNE__NET_RESTORE:
        t.pass = "backward pass";
        t.what = "its output, read from what was kept,";
        break;
    case CLPRUNE__NET_BACKWARD:
        return check_backward(call);
    case CLPRUNE__NET_END:
        return check_tile(net, &net->plan.tiles[step->id], true);
    default:
        return CLPRUNE_SUCCESS;
    }
    t.layer = net->graph.layers[step->id].name;
    return check_value(call, &t, step->out, step->id);
}

clprune_status clprune__net_check_loss(clprune_net *net, size_t batch)
{
    const size_t out = net->graph.output;
    const size_t params[] = {net->graph.head, net->graph.head_bias}; /* values before gradients */
    for (size_t i = 0; i < 4; ++i)
        if (params[i % 2] > 0)
            TRY(check_param(net, "loss", net->graph.layers[out].name, params[i % 2] - 1, i >= 2));
    return check(
        net, &(tensor){"loss", net->graph.layers[out].name, "the gradient of its output", "",
                 clprune__net_output(net, batch), 0, net->graph.values[out].shape.rows});
}
