/* Batch norm, with the residual and ReLU that follow it in the same pass. */
#include "net/kinds/net_batch_norm.h"
#include "net/build/append.h"

#include "net/kinds/kinds.h"
#include "nn/norm/batch_norm_private.h"
#include "nn/store/saved_private.h"
#include "runtime/context/check.h"

enum { GAMMA, BETA };
enum { RUNNING_MEAN, RUNNING_VAR, MEAN, INV };

clprune_batch_norm clprune__net_norm(const clprune_net *net, const clprune__net_layer *layer)
{
    return (clprune_batch_norm){clprune__net_param_value(net, layer, GAMMA),
        clprune__net_param_value(net, layer, BETA), clprune__net_unit_of(net, layer)->state[MEAN],
        clprune__net_unit_of(net, layer)->state[INV]};
}

static clprune_status check_rows(
    const clprune_net *net, const clprune__net_layer *layer, size_t rows)
{
    clprune_context *context = net->context;
    REQUIRE(rows > 1, CLPRUNE_INVALID_ARGUMENT,
        "the batch norm of %s needs at least 2 values a channel in training, and has %zu; take "
        "larger batches or images",
        net->body.tensors[layer->param[GAMMA]].name, rows);
    return CLPRUNE_SUCCESS;
}

clprune_status clprune__net_check_norms(const clprune_net *net, size_t batch)
{
    for (size_t i = 0; i < net->graph.count && net->at.statistics.moments == NULL; ++i)
        if (!net->graph.layers[i].gone &&
            net->graph.layers[i].kind == &clprune__net_batch_norm_kind)
            TRY(check_rows(net, &net->graph.layers[i], batch * net->graph.values[i].shape.rows));
    return CLPRUNE_SUCCESS;
}

bool clprune__net_measures(const clprune__net_call *call)
{
    return call->training && !call->step->again;
}

/* The statistics that x is normalised with: its own in training, else the running ones. */
static clprune_status measure(const clprune__net_call *call, const clprune__net_layer *layer,
    clprune_mat x, clprune_batch_norm *bn)
{
    *bn = clprune__net_norm(call->net, layer);
    if (clprune__net_measures(call))
        TRY(clprune_batch_norm_moments(call->net->context, 0, x, bn->mean, bn->inv, NULL));
    return clprune__net_end_measure(call, layer, x.rows, bn);
}

clprune_status clprune__net_end_measure(const clprune__net_call *call,
    const clprune__net_layer *layer, size_t rows, clprune_batch_norm *bn)
{
    const clprune_net *net = call->net;
    clprune_context *context = net->context;
    clprune__net_unit *unit = clprune__net_unit_of(net, layer);
    if (call->step->again)
        return CLPRUNE_SUCCESS;
    if (!call->training) {
        bn->mean = unit->state[RUNNING_MEAN];
        return clprune_batch_norm_inverse(
            context, layer->eps, unit->state[RUNNING_VAR], bn->inv, NULL);
    }
    const clprune_batch_norm_running running = {
        layer->momentum, unit->state[RUNNING_MEAN], unit->state[RUNNING_VAR]};
    const clprune_net_statistics *shared = &net->at.statistics;
    unit->rows = rows;
    if (shared->moments != NULL)
        TRY(shared->moments(shared->user, bn->mean, bn->inv, &unit->rows));
    TRY(check_rows(net, layer, unit->rows));
    return clprune_batch_norm_statistics(
        context, unit->rows, layer->eps, bn->mean, bn->inv, bn->inv, &running, NULL);
}

/* The sums of a backward pass, over all nets. */
static clprune_status share_sums(const clprune__net_call *call, clprune_mat sums)
{
    const clprune_net_statistics *shared = &call->net->at.statistics;
    return shared->sums != NULL ? shared->sums(shared->user, sums) : CLPRUNE_SUCCESS;
}

/* A value at a place: *x; or its codes, in *room, to which *codes points: else that is NULL. */
static clprune_status find_x(const clprune__net_call *call, clprune__net_place place, size_t value,
    clprune_mat *x, clprune__quantised *room, const clprune__quantised **codes)
{
    clprune_saved *store;
    size_t first;
    *x = clprune__net_at(call, place, value);
    *codes = NULL;
    if (!clprune__is_absent(*x) && x->type == CLPRUNE_VALUES_FP32)
        return CLPRUNE_SUCCESS;
    *x = CLPRUNE_NO_MAT;
    *codes = room;
    TRY(clprune__net_view(call, place, value, &store, &first));
    return clprune__saved_quantised(store, first, call->count, room);
}

/* y = bn(x) (+ residual), with ReLU max(., 0). Made again with kept signs, y is linear in x: from
 * an unbiased x it is unbiased. */
static clprune_status norm_forward(const clprune__net_call *call)
{
    const clprune__net_layer *layer = call->layer;
    const clprune_mat y = clprune__net_y(call);
    const clprune_mat residual = layer->ins > 1 ? clprune__net_x(call, 1) : CLPRUNE_NO_MAT;
    const clprune_mat mask = call->training
                                 ? clprune_saved_mask(clprune__net_unit_of(call->net, layer)->mask,
                                       call->first, call->count)
                                 : CLPRUNE_NO_MAT;
    clprune_mat x;
    clprune__quantised room;
    const clprune__quantised *codes;
    clprune_batch_norm bn;
    TRY(find_x(call, call->step->in[0], layer->in[0], &x, &room, &codes));
    TRY(measure(call, layer, x, &bn));
    if (codes != NULL)
        return clprune__batch_norm_forward_quantised(
            call->net->context, &bn, layer->set.relu, codes, residual, mask, y, NULL);
    if (call->step->again && mask.rows > 0)
        return clprune_batch_norm_forward_gated(
            call->net->context, &bn, x, residual, mask, y, NULL);
    return clprune_batch_norm_forward(
        call->net->context, &bn, layer->set.relu, x, residual, y, mask, NULL);
}

static clprune__net_signs norm_signs(const clprune__net_layer *layer)
{
    if (!layer->set.relu)
        return CLPRUNE__NET_NO_SIGNS;
    return layer->ins > 1 ? CLPRUNE__NET_SIGNS_OF_SUM : CLPRUNE__NET_SIGNS_OF_NORM;
}

const clprune__net_kind clprune__net_batch_norm_kind = {.name = "batch_norm",
    .by_row = clprune__net_by_row,
    .whole = true,
    .grads = {.joint = true},
    .signs = norm_signs,
    .over = true,
    .over_second = true,
    .codes = 1u << 0,
    .gives_bf16 = clprune__net_gives_bf16,
    .takes_bf16 = clprune__net_adds_bf16,
    .forward = norm_forward};

/* With a residual, dz = dy where ReLU passed takes the place of dy and is the residual's gradient;
 * dx follows from dz. Without one, both passes find the signs themselves and dx may take dy's
 * place. */
static clprune_status norm_backward(const clprune__net_call *call)
{
    clprune_context *context = call->net->context;
    const clprune__net_layer *layer = clprune__net_link(call, 0);
    const clprune_batch_norm bn = clprune__net_norm(call->net, layer);
    const clprune_mat none = CLPRUNE_NO_MAT;
    const clprune_mat dy = clprune__net_dy(call), sums = clprune__net_temp(call, 0);
    const bool relu = layer->set.relu, apart = relu && layer->ins > 1;
    clprune_mat x;
    clprune__quantised room;
    const clprune__quantised *codes;
    TRY(find_x(call, call->step->in[0], layer->in[0], &x, &room, &codes));
    const clprune_batch_norm_in in = {&bn, relu, x, dy,
        relu ? clprune_saved_mask(
                   clprune__net_unit_of(call->net, layer)->mask, call->first, call->count)
             : none,
        apart && clprune__net_unit_of(call->net, layer)->mask == NULL
            ? clprune__net_operand(call, 1)
            : none};
    const clprune_batch_norm_in past_relu = {.bn = &bn, .x = x, .dy = dy};
    TRY(clprune__batch_norm_backward_sums(context, 0.0f, 0.0f, &in, codes, apart ? dy : none, sums,
        clprune__net_grad(call, layer, GAMMA), clprune__net_grad(call, layer, BETA), NULL));
    TRY(share_sums(call, sums));
    return clprune__batch_norm_backward_input(context, clprune__net_unit_of(call->net, layer)->rows,
        apart ? &past_relu : &in, codes, sums, clprune__net_dx(call, 0), NULL);
}

/* ---- with the max pool behind ReLU, one pass: the positions of the pool have ReLU's signs ------
 */

static clprune_status pooled_forward(const clprune__net_call *call)
{
    const clprune_net *net = call->net;
    const clprune__net_tile *tile = &net->plan.tiles[clprune__net_role_of(net, call->layer)->tile];
    const clprune__net_layer *norm = &net->graph.layers[tile->layers[0]];
    clprune__net_call of_norm = *call;
    clprune_batch_norm bn;
    of_norm.layer = norm;
    const clprune_mat x = clprune__net_x(&of_norm, 0);
    TRY(measure(call, norm, x, &bn));
    return clprune_max_pool_norm_forward(net->context, &call->layer->set.pool, &bn, call->count,
        clprune__net_in_shape(&net->graph, norm, 0)->grid, x, clprune__net_y(call),
        clprune__net_positions(call, call->layer), NULL);
}

static clprune_status pooled_backward(const clprune__net_call *call)
{
    clprune_context *context = call->net->context;
    const clprune__net_layer *norm = clprune__net_link(call, 0);
    const clprune__net_layer *pool = clprune__net_link(call, 1);
    const clprune_batch_norm bn = clprune__net_norm(call->net, norm);
    const clprune_mat sums = clprune__net_temp(call, 0);
    const clprune_mat dy = clprune__net_dy(call), dx = clprune__net_dx(call, 0);
    clprune_mat x;
    clprune__quantised room;
    const clprune__quantised *codes;
    TRY(find_x(call, call->step->in[0], norm->in[0], &x, &room, &codes));
    const clprune_batch_norm_in in = {.bn = &bn, .x = x, .dy = dx};
    TRY(clprune_max_pool_backward(context, &pool->set.pool, call->count,
        clprune__net_in_shape(&call->net->graph, norm, 0)->grid, dy,
        clprune__net_positions(call, pool), dx, NULL));
    TRY(clprune__batch_norm_backward_sums(context, 0.0f, 0.0f, &in, codes, CLPRUNE_NO_MAT, sums,
        clprune__net_grad(call, norm, GAMMA), clprune__net_grad(call, norm, BETA), NULL));
    TRY(share_sums(call, sums));
    return clprune__batch_norm_backward_input(
        context, clprune__net_unit_of(call->net, norm)->rows, &in, codes, sums, dx, NULL);
}

static clprune__net_size sums_temp(
    const clprune__net_plan *plan, const size_t *layers, size_t index)
{
    return index == 0 ? (clprune__net_size){2, plan->graph->values[layers[0]].shape.cols, true,
                            CLPRUNE__NET_OF_CALL}
                      : (clprune__net_size){.rows = 0};
}

static bool plain(const clprune__net_graph *graph, const size_t *layers)
{
    return !graph->layers[layers[0]].set.relu;
}
static bool relu_alone(const clprune__net_graph *graph, const size_t *layers)
{
    return graph->layers[layers[0]].set.relu && graph->layers[layers[0]].ins == 1;
}
static bool relu_of_sum(const clprune__net_graph *graph, const size_t *layers)
{
    return graph->layers[layers[0]].set.relu && graph->layers[layers[0]].ins == 2;
}
/* Positions of 4 bits, one of them for "ReLU passed nothing". */
static bool pool_fits(const clprune__net_graph *graph, const size_t *layers)
{
    const clprune_extent kernel = graph->layers[layers[1]].set.pool.kernel;
    return relu_alone(graph, layers) && kernel.height * kernel.width < 16;
}

#define NORM                                                                                       \
    .chain = {&clprune__net_batch_norm_kind}, .narrow_dx = true, .temp = sums_temp,                \
    .backward = norm_backward
const clprune__net_way clprune__net_batch_norm_ways[] = {
    {NORM, .name = "batch norm", .fits = plain, .needs = {{0, 0, CLPRUNE__NET_CODES, false}},
        .needs_count = 1, .ends = {{CLPRUNE__NET_OVER, false}}},
    {NORM, .name = "batch norm, relu, as autograd", .fits = relu_alone,
        .needs = {{0, 0, CLPRUNE__NET_SIGN, false}, {0, -1, CLPRUNE__NET_SIGN, false}},
        .needs_count = 2, .ends = {{CLPRUNE__NET_OVER, false}}},
    {NORM, .name = "batch norm, relu", .fits = relu_alone, .level = 1,
        .needs = {{0, 0, CLPRUNE__NET_SIGN, false}}, .needs_count = 1,
        .ends = {{CLPRUNE__NET_OVER, false}}},
    {NORM, .name = "batch norm, relu, signs", .fits = relu_alone, .keeps_mask = true, .level = 1,
        .needs = {{0, 0, CLPRUNE__NET_CODES, false}}, .needs_count = 1,
        .ends = {{CLPRUNE__NET_OVER, false}}},
    {NORM, .name = "batch norm, add, relu, as autograd", .fits = relu_of_sum,
        .needs = {{0, 0, CLPRUNE__NET_SIGN, false}, {0, 1, CLPRUNE__NET_SIGN, false},
            {0, -1, CLPRUNE__NET_SIGN, false}},
        .needs_count = 3, .ends = {{CLPRUNE__NET_APART, false}, {CLPRUNE__NET_INTO, false}}},
    {NORM, .name = "batch norm, add, relu", .fits = relu_of_sum, .level = 1,
        .needs = {{0, 0, CLPRUNE__NET_SIGN, false}, {0, 1, CLPRUNE__NET_SIGN, false}},
        .needs_count = 2, .ends = {{CLPRUNE__NET_APART, false}, {CLPRUNE__NET_INTO, false}}},
    {NORM, .name = "batch norm, add, relu, signs", .fits = relu_of_sum, .keeps_mask = true,
        .level = 1, .needs = {{0, 0, CLPRUNE__NET_CODES, false}}, .needs_count = 1,
        .ends = {{CLPRUNE__NET_APART, false}, {CLPRUNE__NET_INTO, false}}},
    {.name = "batch norm, relu, max pool",
        .chain = {&clprune__net_batch_norm_kind, &clprune__net_max_pool_kind},
        .level = 1,
        .fits = pool_fits,
        .fused = true,
        .needs = {{0, 0, CLPRUNE__NET_CODES, false}},
        .needs_count = 1,
        .ends = {{CLPRUNE__NET_APART, false}},
        .temp = sums_temp,
        .forward = pooled_forward,
        .backward = pooled_backward},
    {.name = NULL},
};

clprune_net_value clprune_net_batch_norm(clprune_net *net, const char *name, clprune_net_value x)
{
    ENTER_QUIETLY(net != NULL ? net->context : NULL);
    const clprune__net_value *in = clprune__net_read(net, name, x);
    if (in == NULL)
        return (clprune_net_value){0};
    const size_t c = in->shape.cols;
    clprune__net_layer *layer =
        clprune__net_add(net, &clprune__net_batch_norm_kind, name, &x, 1, in->shape);
    if (layer == NULL)
        return (clprune_net_value){0};
    layer->norm = layer->name;
    layer->eps = net->draft.eps;
    layer->momentum = net->draft.momentum;
    clprune__net_add_param(
        net, ".weight", (clprune__net_param){.rank = 1, .shape = {c}, .value = 1});
    clprune__net_add_param(net, ".bias", (clprune__net_param){.rank = 1, .shape = {c}});
    return clprune__net_last(net);
}
