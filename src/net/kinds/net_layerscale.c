/* Residual paths: x + ls * t (LayerScale), and a + b. */
#include "clprune/add.h"
#include "clprune/affine.h"
#include "clprune/layerscale.h"

#include "net/build/append.h"
#include "net/kinds/kinds.h"
#include "net/run/call.h"
#include "nn/store/saved_private.h"
#include "runtime/context/check.h"

/* Whether the second input is read from its store, as codes. */
static bool reads_codes(const clprune__net_call *call)
{
    return call->step->in[1].at == CLPRUNE__NET_STORE &&
           call->net->plan.values[call->layer->in[1]].keep.form == CLPRUNE_FORM_QUANTISED;
}

/* y = x + ls * t, or without ls x + t, with the codes of t. */
static clprune_status add_codes(const clprune__net_call *call, clprune_mat ls)
{
    clprune_saved *store;
    size_t first;
    TRY(clprune__net_view(call, call->step->in[1], call->layer->in[1], &store, &first));
    return clprune__saved_add(
        store, first, call->count, clprune__net_x(call, 0), ls, clprune__net_y(call), NULL);
}

static clprune_status layerscale_forward(const clprune__net_call *call)
{
    const clprune_mat ls = clprune__net_param_value(call->net, call->layer, 0);
    if (reads_codes(call))
        return add_codes(call, ls);
    return clprune_layerscale_forward(call->net->context, clprune__net_x(call, 0),
        clprune__net_x(call, 1), ls, clprune__net_y(call), NULL);
}

const clprune__net_kind clprune__net_layerscale_kind = {.name = "layerscale",
    .by_row = clprune__net_by_row,
    .grads = {.frozen = true},
    .over = true,
    .stream = true,
    .codes = 1u << 1,
    .takes_bf16 = clprune__net_adds_bf16,
    .forward = layerscale_forward};

/* y = x + ls * t; with bias_sums also the sums of dt for the linear layer that made t */
static clprune_status layerscale_backward(const clprune__net_call *call)
{
    const clprune__net_layer *layer = clprune__net_link(call, 0);
    clprune_layerscale_grads grads = {.dls = clprune__net_grad(call, layer, 0)};
    if (call->tile->bias_sums) {
        const clprune__net_layer *linear = clprune__net_before(&call->net->graph, layer, 1);
        const clprune_mat db = clprune__net_grad(call, linear, 1);
        if (linear->kind == &clprune__net_linear_kind)
            grads.db = db;
        else
            grads.db_tokens = db;
    }
    return clprune_layerscale_backward(call->net->context, clprune__net_beta(call),
        clprune__net_operand(call, 0), clprune__net_param_value(call->net, layer, 0),
        clprune__net_dy(call), clprune__net_dx(call, 1), &grads, NULL);
}

/* The same where ls is frozen: dt alone, which needs no t. */
static clprune_status layerscale_frozen(const clprune__net_call *call)
{
    const clprune_mat dt = clprune__net_dx(call, 1);
    if (dt.rows == 0)
        return CLPRUNE_SUCCESS;
    return clprune_affine_weights(call->net->context,
        clprune__net_param_value(call->net, clprune__net_link(call, 0), 0), clprune__net_dy(call),
        dt, NULL);
}

const clprune__net_way clprune__net_layerscale_ways[] = {
    {.name = "layerscale, frozen",
        .chain = {&clprune__net_layerscale_kind},
        .frozen = true,
        .ends = {{CLPRUNE__NET_PASS, false}, {CLPRUNE__NET_APART, false}},
        .backward = layerscale_frozen},
    {.name = "layerscale",
        .chain = {&clprune__net_layerscale_kind},
        .needs = {{0, 1, CLPRUNE__NET_NARROW, false}},
        .needs_count = 1,
        .ends = {{CLPRUNE__NET_PASS, false}, {CLPRUNE__NET_APART, false}},
        .sums = 2,
        .sums_for = {&clprune__net_linear_kind, &clprune__net_linear_rows_kind},
        .backward = layerscale_backward},
    {.name = NULL},
};

/* Whether two inputs of a layer have one shape. */
static bool check_same(
    clprune_net *net, const char *name, const clprune__net_shape *a, const clprune__net_shape *b)
{
    const bool same = a->rows == b->rows && a->cols == b->cols;
    if (!same)
        clprune__net_wrong(net, CLPRUNE_INVALID_SIZE,
            "layer %s: its inputs are %zu x %zu and %zu x %zu, expected the same shape", name,
            a->rows, a->cols, b->rows, b->cols);
    return same;
}

clprune_net_value clprune_net_layerscale(
    clprune_net *net, const char *name, clprune_net_value x, clprune_net_value t)
{
    ENTER_QUIETLY(net != NULL ? net->context : NULL);
    const clprune__net_value *a = clprune__net_read(net, name, x);
    const clprune__net_value *b = clprune__net_read(net, name, t);
    if (a == NULL || b == NULL || !check_same(net, name, &a->shape, &b->shape))
        return (clprune_net_value){0};
    const size_t d = a->shape.cols;
    (void)clprune__net_add(
        net, &clprune__net_layerscale_kind, name, (const clprune_net_value[]){x, t}, 2, a->shape);
    clprune__net_add_param(net, "", (clprune__net_param){.rank = 1, .shape = {d}, .value = 0.1f});
    return clprune__net_last(net);
}

/* ---- a + b -------------------------------------------------------------------------------------
 */

static clprune_status add_forward(const clprune__net_call *call)
{
    if (reads_codes(call))
        return add_codes(call, CLPRUNE_NO_MAT);
    return clprune_add(call->net->context, 1.0f, clprune__net_x(call, 0), 1.0f,
        clprune__net_x(call, 1), clprune__net_y(call), NULL);
}

const clprune__net_kind clprune__net_add_kind = {.name = "add",
    .by_row = clprune__net_by_row,
    .over = true,
    .over_second = true,
    .stream = true,
    .codes = 1u << 1,
    .takes_bf16 = clprune__net_adds_bf16,
    .forward = add_forward};

/* y = a + b: both gradients are dy */
static clprune_status add_backward(const clprune__net_call *call)
{
    (void)call;
    return CLPRUNE_SUCCESS;
}

const clprune__net_way clprune__net_add_ways[] = {
    {.name = "add",
        .chain = {&clprune__net_add_kind},
        .ends = {{CLPRUNE__NET_PASS, false}, {CLPRUNE__NET_PASS, false}},
        .backward = add_backward},
    {.name = NULL},
};

clprune_net_value clprune_net_add(
    clprune_net *net, const char *name, clprune_net_value a, clprune_net_value b)
{
    ENTER_QUIETLY(net != NULL ? net->context : NULL);
    const clprune__net_value *first = clprune__net_read(net, name, a);
    const clprune__net_value *second = clprune__net_read(net, name, b);
    if (first == NULL || second == NULL || !check_same(net, name, &first->shape, &second->shape))
        return (clprune_net_value){0};
    (void)clprune__net_add(
        net, &clprune__net_add_kind, name, (const clprune_net_value[]){a, b}, 2, first->shape);
    return clprune__net_last(net);
}
