/* The first convolution of a network, with batch norm, ReLU and max pool behind it: gradients from
 * products, without the convolution's output (clprune/batch_norm.h, "without the convolution's
 * output"). The forward pass makes conv^T * patches, and ones^T * patches from the mean image with
 * the number of samples in place of ones. */
#include "clprune/token_mean.h"
#include "net/kinds/kinds.h"
#include "net/kinds/net_batch_norm.h"
#include "nn/layers/conv2d_private.h"
#include "runtime/context/check.h"

enum { CONV, NORM, POOL };                /* the chain */
enum { OUTPUT, ONES, MEAN_IMAGE, DZ };    /* temporaries */
enum { CONV_PRODUCT, PATCH_SUMS };        /* states of the convolution */
enum { WEIGHT = 0, GAMMA = 0, BETA = 1 }; /* parameters */

/* Images at a time in the backward pass, so that dz is smaller than the peak of the forward pass.
 */
static size_t part_of(const clprune__net_graph *graph)
{
    return (graph->desc.batch + 1) / 2;
}

/* dw of the convolution for dy, samples `range` of the store; with db the sums of dy. */
static clprune_status product(const clprune_net *net, const clprune__net_layer *conv,
    clprune__range range, const clprune_saved *image, clprune_mat dy, const clprune_grads *grads)
{
    return clprune__conv2d_backward(clprune__net_unit_of(net, conv)->op.conv, range,
        clprune__net_in_shape(&net->graph, conv, 0)->grid, image, dy,
        clprune__net_param_value(net, conv, WEIGHT), grads, NULL);
}

static clprune_status make_products(
    const clprune__net_call *call, const clprune__net_layer *conv, clprune_mat image, clprune_mat y)
{
    const clprune_net *net = call->net;
    const clprune__net_shape *shape = clprune__net_in_shape(&net->graph, conv, 0);
    const size_t elements = shape->rows * shape->cols;
    const clprune_mat ones = clprune__net_temp(call, ONES);
    clprune_saved *store, *mean_store = net->body.spaces[call->step->temp[MEAN_IMAGE].id].view;
    size_t first;
    TRY(clprune__net_view(call, call->step->in[0], conv->in[0], &store, &first));
    TRY(product(net, conv, (clprune__range){first, call->count}, store, y,
        &(clprune_grads){.dw = clprune__net_unit_of(net, conv)->state[CONV_PRODUCT]}));
    /* image and mean as one row per image */
    TRY(clprune_token_mean_forward(net->context, 1, call->count,
        (clprune_mat){image.buffer, image.offset, call->count, elements, elements, image.type},
        clprune_mat_of(clprune__net_temp(call, MEAN_IMAGE).buffer, 1, elements), NULL));
    TRY(clprune_mat_fill(net->context, (float)call->count, ones, NULL));
    TRY(clprune_saved_reshape(mean_store, 1, shape->rows, shape->cols));
    return product(net, conv, (clprune__range){0, 1}, mean_store, ones,
        &(clprune_grads){.dw = clprune__net_unit_of(net, conv)->state[PATCH_SUMS]});
}

static clprune_status stem_forward(const clprune__net_call *call)
{
    const clprune_net *net = call->net;
    const clprune__net_tile *tile = &net->plan.tiles[clprune__net_role_of(net, call->layer)->tile];
    const clprune__net_layer *conv = &net->graph.layers[tile->layers[CONV]];
    const clprune__net_layer *norm = &net->graph.layers[tile->layers[NORM]];
    const clprune_mat y = clprune__net_temp(call, OUTPUT);
    const clprune_mat image = clprune__net_at(call, call->step->in[0], conv->in[0]);
    clprune_batch_norm bn;
    TRY(clprune_conv2d_forward(clprune__net_unit_of(net, conv)->op.conv, call->count,
        clprune__net_in_shape(&net->graph, conv, 0)->grid, image,
        clprune__net_param_value(net, conv, WEIGHT), CLPRUNE_NO_MAT, y, NULL, NULL));
    if (call->training && !call->step->again)
        TRY(make_products(call, conv, image, y));
    TRY(clprune__net_measure(call, norm, y, &bn));
    return clprune_max_pool_norm_forward(net->context, &call->layer->set.pool, &bn, call->count,
        clprune__net_in_shape(&net->graph, norm, 0)->grid, y, clprune__net_y(call),
        clprune__net_positions(call, call->layer), NULL);
}

/* Adds the products of dz, some images at a time, and combines them with those of the forward pass.
 */
static clprune_status stem_backward(const clprune__net_call *call)
{
    const clprune_net *net = call->net;
    const clprune__net_layer *conv = clprune__net_link(call, CONV);
    const clprune__net_layer *norm = clprune__net_link(call, NORM);
    const clprune__net_layer *pool = clprune__net_link(call, POOL);
    const clprune_batch_norm bn = clprune__net_norm(net, norm);
    const clprune__net_shape *shape = clprune__net_in_shape(&net->graph, norm, 0);
    const clprune_extent grid = clprune__net_in_shape(&net->graph, pool, 0)->grid;
    const clprune_mat dy = clprune__net_dy(call), positions = clprune__net_positions(call, pool);
    const clprune_mat dw = clprune__net_grad(call, conv, WEIGHT);
    const clprune_mat dbeta = clprune__net_grad(call, norm, BETA);
    const size_t each = dy.rows / call->count, part = part_of(&net->graph);
    clprune_saved *image;
    size_t at;
    TRY(clprune__net_source(call, 0, &image, &at));
    for (size_t first = 0; first < call->count; first += part) {
        const size_t count = part < call->count - first ? part : call->count - first;
        const clprune_mat dz =
            clprune_mat_rows(clprune__net_temp(call, DZ), 0, count * shape->rows);
        TRY(clprune_max_pool_backward(net->context, &pool->set.pool, count, grid,
            clprune_mat_rows(dy, first * each, count * each),
            clprune_mat_rows(positions, first * each, count * each), dz, NULL));
        TRY(product(net, conv, (clprune__range){at + first, count}, image, dz,
            &(clprune_grads){.dw = dw, .db = dbeta, .beta = first == 0 ? 0.0f : 1.0f}));
    }
    return clprune_batch_norm_backward_product(net->context, call->count * shape->rows, 0.0f, &bn,
        &(clprune_batch_norm_products){.w = clprune__net_param_value(net, conv, WEIGHT),
            .patch_sum = clprune_mat_rows(clprune__net_unit_of(net, conv)->state[PATCH_SUMS], 0, 1),
            .x_product = clprune__net_unit_of(net, conv)->state[CONV_PRODUCT],
            .dz_sum = dbeta},
        dw, clprune__net_grad(call, norm, GAMMA), NULL);
}

static clprune__net_size stem_temp(
    const clprune__net_plan *plan, const size_t *layers, size_t index)
{
    const clprune__net_shape *image =
        clprune__net_in_shape(plan->graph, &plan->graph->layers[layers[CONV]], 0);
    const clprune__net_shape *y = &plan->graph->values[layers[CONV]].shape;
    switch (index) {
    case OUTPUT:
        return (clprune__net_size){y->rows, y->cols, false, CLPRUNE__NET_OF_FORWARD};
    case ONES:
        return (clprune__net_size){y->rows, y->cols, true, CLPRUNE__NET_OF_TRAINING};
    case MEAN_IMAGE:
        return (clprune__net_size){image->rows, image->cols, true, CLPRUNE__NET_OF_TRAINING};
    default:
        return (clprune__net_size){
            part_of(plan->graph) * y->rows, y->cols, true, CLPRUNE__NET_OF_CALL};
    }
}

static clprune_status stem_create(clprune_net *net, const size_t *layers)
{
    const clprune__net_layer *conv = &net->graph.layers[layers[CONV]];
    const clprune_mat w = clprune__net_param_value(net, conv, WEIGHT);
    for (size_t i = 0; i < 2; ++i)
        TRY(clprune_mat_create(net->context, CLPRUNE_MEMORY_WORKSPACE,
            i == CONV_PRODUCT ? "stem.conv_product" : "stem.patch_sums", w.rows, w.cols,
            &clprune__net_unit_of(net, conv)->state[i]));
    return CLPRUNE_SUCCESS;
}

/* The input needs no gradient; ReLU alone before the pool, whose positions have room for its signs.
 */
static bool stem_fits(const clprune__net_graph *graph, const size_t *layers)
{
    const clprune__net_layer *conv = &graph->layers[layers[CONV]];
    const clprune__net_layer *norm = &graph->layers[layers[NORM]];
    const clprune_extent kernel = graph->layers[layers[POOL]].set.pool.kernel;
    return !graph->desc.shares_statistics && !graph->values[conv->in[0]].trained &&
           conv->params == 1 && conv->set.conv.groups <= 1 && norm->set.relu && norm->ins == 1 &&
           kernel.height * kernel.width < 16;
}

const clprune__net_way clprune__net_stem_ways[] = {
    {.name = "convolution, batch norm, relu, max pool",
        .chain = {&clprune__net_conv_kind, &clprune__net_batch_norm_kind,
            &clprune__net_max_pool_kind},
        .level = 2,
        .fits = stem_fits,
        .fused = true,
        .needs = {{CONV, 0, CLPRUNE__NET_PRODUCT, false}},
        .needs_count = 1,
        .ends = {{CLPRUNE__NET_APART, true}},
        .temp = stem_temp,
        .create = stem_create,
        .forward = stem_forward,
        .backward = stem_backward},
    {.name = NULL},
};
