/* Layers that work element by element and need nothing for their backward pass: dropout, also of
 * whole samples, scale, flatten. */
#include "clprune/add.h"
#include "clprune/dropout.h"

#include <math.h>

#include "net/build/append.h"
#include "net/kinds/kinds.h"
#include "net/run/call.h"
#include "runtime/context/check.h"

static clprune_net_value add_layer(clprune_net *net, const clprune__net_kind *kind,
    const char *name, clprune_net_value x, float factor)
{
    const clprune__net_value *in = clprune__net_read(net, name, x);
    if (in == NULL)
        return (clprune_net_value){0};
    clprune__net_layer *layer = clprune__net_add(net, kind, name, &x, 1, in->shape);
    if (layer != NULL)
        layer->set.factor = factor;
    return clprune__net_last(net);
}

/* ---- dropout -----------------------------------------------------------------------------------
 */

/* The mask of a layer's sample n is the same in both passes. */
static clprune_status drop(
    const clprune__net_call *call, const clprune__net_layer *layer, clprune_mat x, clprune_mat y)
{
    const size_t rows = clprune__net_in_shape(&call->net->graph, layer, 0)->rows;
    const uint64_t seed = clprune__net_layer_seed(call->net, layer);
    return clprune_dropout(call->net->context, call->training ? layer->set.factor : 0.0f, seed,
        call->first * rows, x, y, NULL);
}

static clprune_status dropout_forward(const clprune__net_call *call)
{
    return drop(call, call->layer, clprune__net_x(call, 0), clprune__net_y(call));
}

static const clprune__net_kind dropout_kind = {
    .name = "dropout", .over = true, .by_row = clprune__net_by_row, .forward = dropout_forward};

/* y = x * m / (1 - rate) */
static clprune_status dropout_backward(const clprune__net_call *call)
{
    return drop(call, clprune__net_link(call, 0), clprune__net_dy(call), clprune__net_dx(call, 0));
}

/* The same of whole samples. */
static clprune_status drop_path(
    const clprune__net_call *call, const clprune__net_layer *layer, clprune_mat x, clprune_mat y)
{
    return clprune_drop_path(call->net->context, call->training ? layer->set.factor : 0.0f,
        clprune__net_layer_seed(call->net, layer), call->count, call->first, x, y, NULL);
}

static clprune_status drop_path_forward(const clprune__net_call *call)
{
    return drop_path(call, call->layer, clprune__net_x(call, 0), clprune__net_y(call));
}

static const clprune__net_kind drop_path_kind = {
    .name = "drop path", .over = true, .by_row = clprune__net_by_row, .forward = drop_path_forward};

static clprune_status drop_path_backward(const clprune__net_call *call)
{
    return drop_path(
        call, clprune__net_link(call, 0), clprune__net_dy(call), clprune__net_dx(call, 0));
}

static clprune_net_value add_drop(clprune_net *net, const clprune__net_kind *kind, const char *name,
    clprune_net_value x, float rate)
{
    if (net != NULL && !(rate >= 0 && rate < 1))
        clprune__net_wrong(net, CLPRUNE_INVALID_ARGUMENT,
            "layer %s: its rate is %g, expected 0 to below 1", name != NULL ? name : "(NULL)",
            (double)rate);
    return add_layer(net, kind, name, x, rate);
}

clprune_net_value clprune_net_dropout(
    clprune_net *net, const char *name, clprune_net_value x, float rate)
{
    ENTER_QUIETLY(net != NULL ? net->context : NULL);
    return add_drop(net, &dropout_kind, name, x, rate);
}

clprune_net_value clprune_net_drop_path(
    clprune_net *net, const char *name, clprune_net_value x, float rate)
{
    ENTER_QUIETLY(net != NULL ? net->context : NULL);
    return add_drop(net, &drop_path_kind, name, x, rate);
}

/* ---- scale -------------------------------------------------------------------------------------
 */

static clprune_status scale_forward(const clprune__net_call *call)
{
    return clprune_add(call->net->context, call->layer->set.factor, clprune__net_x(call, 0), 0.0f,
        CLPRUNE_NO_MAT, clprune__net_y(call), NULL);
}

static const clprune__net_kind scale_kind = {
    .name = "scale", .over = true, .by_row = clprune__net_by_row, .forward = scale_forward};

/* y = factor * x */
static clprune_status scale_backward(const clprune__net_call *call)
{
    return clprune_add(call->net->context, clprune__net_link(call, 0)->set.factor,
        clprune__net_dy(call), 0.0f, CLPRUNE_NO_MAT, clprune__net_dx(call, 0), NULL);
}

clprune_net_value clprune_net_scale(
    clprune_net *net, const char *name, clprune_net_value x, float factor)
{
    ENTER_QUIETLY(net != NULL ? net->context : NULL);
    if (net != NULL && !isfinite(factor))
        clprune__net_wrong(net, CLPRUNE_INVALID_ARGUMENT,
            "layer %s: its factor is %g, expected a finite number", name != NULL ? name : "(NULL)",
            (double)factor);
    return add_layer(net, &scale_kind, name, x, factor);
}

/* ---- flatten: the same elements in one row, without a copy where y takes x's place -------------
 */

static clprune_status copy_rows(const clprune__net_call *call, clprune_mat x, clprune_mat y)
{
    if (x.buffer == y.buffer && x.offset == y.offset)
        return CLPRUNE_SUCCESS;
    x.rows = y.rows;
    x.cols = x.ld = y.cols;
    return clprune_mat_copy(call->net->context, x, y, NULL);
}

static clprune_status flatten_forward(const clprune__net_call *call)
{
    return copy_rows(call, clprune__net_x(call, 0), clprune__net_y(call));
}

const clprune__net_kind clprune__net_flatten_kind = {
    .name = "flatten", .over = true, .forward = flatten_forward};

static clprune_status flatten_backward(const clprune__net_call *call)
{
    return copy_rows(call, clprune__net_dy(call), clprune__net_dx(call, 0));
}

clprune_net_value clprune_net_flatten(clprune_net *net, const char *name, clprune_net_value x)
{
    ENTER_QUIETLY(net != NULL ? net->context : NULL);
    const clprune__net_value *in = clprune__net_read(net, name, x);
    if (in != NULL)
        (void)clprune__net_add(net, &clprune__net_flatten_kind, name, &x, 1,
            (clprune__net_shape){1, in->shape.rows * in->shape.cols, {0, 0}});
    return clprune__net_last(net);
}

const clprune__net_way clprune__net_element_ways[] = {
    {.name = "dropout",
        .chain = {&dropout_kind},
        .ends = {{CLPRUNE__NET_OVER, false}},
        .backward = dropout_backward},
    {.name = "drop path",
        .chain = {&drop_path_kind},
        .ends = {{CLPRUNE__NET_OVER, false}},
        .backward = drop_path_backward},
    {.name = "scale",
        .chain = {&scale_kind},
        .ends = {{CLPRUNE__NET_OVER, false}},
        .backward = scale_backward},
    {.name = "flatten",
        .chain = {&clprune__net_flatten_kind},
        .ends = {{CLPRUNE__NET_OVER, false}},
        .backward = flatten_backward},
    {.name = NULL},
};
