/* The first convolution of a network, with batch norm, ReLU and max pool behind it: gradients from
 * products, without the convolution's output (clprune/batch_norm.h, "without the convolution's
 * output"). The forward pass makes conv^T * patches, and ones^T * patches from the mean image with
 * the number of samples in place of ones. */
#include "clprune/token_mean.h"
#include "core/checked.h"
#include "net/kinds/kinds.h"
#include "net/kinds/net_batch_norm.h"
#include "nn/layers/layers_private.h"
#include "runtime/context/check.h"

enum { CONV, NORM, POOL };                /* the chain */
enum { OUTPUT, ONES, MEAN_IMAGE, DZ };    /* temporaries */
enum { CONV_PRODUCT, PATCH_SUMS };        /* states of the convolution */
enum { WEIGHT = 0, GAMMA = 0, BETA = 1 }; /* parameters */

/* Images at a time: the convolution's output of all would be the peak of the step. */
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

/* Of some of the call's images: the convolution's output in its temporary. */
static clprune_status convolve(const clprune__net_call *call, const clprune__net_layer *conv,
    clprune__range part, clprune_mat *y)
{
    const clprune_net *net = call->net;
    const clprune__net_shape *shape = clprune__net_in_shape(&net->graph, conv, 0);
    const size_t rows = net->graph.values[clprune__net_out(&net->graph, conv)].shape.rows;
    const clprune_mat image = clprune__net_at(call, call->step->in[0], conv->in[0]);
    *y = clprune_mat_rows(clprune__net_temp(call, OUTPUT), 0, part.count * rows);
    return clprune_conv2d_forward(clprune__net_unit_of(net, conv)->op.conv, part.count, shape->grid,
        clprune_mat_rows(image, part.first * shape->rows, part.count * shape->rows),
        clprune__net_param_value(net, conv, WEIGHT), CLPRUNE_NO_MAT, *y, NULL, NULL);
}

/* Adds y of some images to conv^T * patches and the moments. */
static clprune_status measure(const clprune__net_call *call, const clprune__net_layer *conv,
    const clprune_batch_norm *bn, clprune__range part, clprune_mat y)
{
    const clprune_net *net = call->net;
    clprune_saved *store;
    size_t first;
    TRY(clprune__net_view(call, call->step->in[0], conv->in[0], &store, &first));
    TRY(product(net, conv, (clprune__range){first + part.first, part.count}, store, y,
        &(clprune_grads){.dw = clprune__net_unit_of(net, conv)->state[CONV_PRODUCT],
            .beta = part.first == 0 ? 0.0f : 1.0f}));
    return clprune_batch_norm_moments(
        net->context, part.first * (y.rows / part.count), y, bn->mean, bn->inv, NULL);
}

static clprune_status sum_patches(const clprune__net_call *call, const clprune__net_layer *conv)
{
    const clprune_net *net = call->net;
    const clprune__net_shape *shape = clprune__net_in_shape(&net->graph, conv, 0);
    const size_t elements = shape->rows * shape->cols;
    const clprune_mat ones = clprune__net_temp(call, ONES);
    const clprune_mat image = clprune__net_at(call, call->step->in[0], conv->in[0]);
    clprune_saved *mean_store = net->body.spaces[call->step->temp[MEAN_IMAGE].id].view;
    /* image and mean as one row per image */
    TRY(clprune_token_mean_forward(net->context, 1, call->count,
        (clprune_mat){image.buffer, image.offset, call->count, elements, elements, image.type},
        clprune_mat_of(clprune__net_temp(call, MEAN_IMAGE).buffer, 1, elements), NULL));
    TRY(clprune_mat_fill(net->context, (float)call->count, ones, NULL));
    TRY(clprune_saved_reshape(mean_store, 1, shape->rows, shape->cols));
    return product(net, conv, (clprune__range){0, 1}, mean_store, ones,
        &(clprune_grads){.dw = clprune__net_unit_of(net, conv)->state[PATCH_SUMS]});
}

/* In training parts run twice, but for the last: for the moments, and once these are known. */
static clprune_status stem_forward(const clprune__net_call *call)
{
    const clprune_net *net = call->net;
    const clprune__net_tile *tile = &net->plan.tiles[clprune__net_role_of(net, call->layer)->tile];
    const clprune__net_layer *conv = &net->graph.layers[tile->layers[CONV]];
    const clprune__net_layer *norm = &net->graph.layers[tile->layers[NORM]];
    const clprune_extent grid = clprune__net_in_shape(&net->graph, norm, 0)->grid;
    const clprune_mat out = clprune__net_y(call),
                      positions = clprune__net_positions(call, call->layer);
    const size_t each = out.rows / call->count, most = part_of(&net->graph);
    clprune_batch_norm bn = clprune__net_norm(net, norm);
    clprune__range part = {0, 0};
    clprune_mat y = CLPRUNE_NO_MAT;
    while (clprune__net_measures(call) && part.first + part.count < call->count) {
        part.first += part.count;
        part.count = clprune__min(most, call->count - part.first);
        TRY(convolve(call, conv, part, &y));
        TRY(measure(call, conv, &bn, part, y));
    }
    if (clprune__net_measures(call))
        TRY(sum_patches(call, conv));
    TRY(clprune__net_end_measure(call, norm, call->count * grid.height * grid.width, &bn));
    for (size_t left = call->count; left > 0; left = part.first) {
        if (y.rows == 0 || left < call->count) {
            part.first = (left - 1) / most * most;
            part.count = left - part.first;
            TRY(convolve(call, conv, part, &y));
        }
        TRY(clprune_max_pool_norm_forward(net->context, &call->layer->set.pool, &bn, part.count,
            grid, y, clprune_mat_rows(out, part.first * each, part.count * each),
            clprune__is_absent(positions)
                ? positions
                : clprune_mat_rows(positions, part.first * each, part.count * each),
            NULL));
    }
    return CLPRUNE_SUCCESS;
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
        return (clprune__net_size){
            part_of(plan->graph) * y->rows, y->cols, true, CLPRUNE__NET_OF_FORWARD};
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
