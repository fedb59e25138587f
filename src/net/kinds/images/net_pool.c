/* Max pool, upsampling, and the mean of each sample's rows. */
#include "clprune/token_mean.h"
#include "clprune/upsample.h"

#include "core/checked.h"
#include "net/build/append.h"
#include "net/kinds/kinds.h"
#include "net/run/call.h"
#include "runtime/context/check.h"

static clprune_status max_pool_forward(const clprune__net_call *call)
{
    const clprune__net_layer *layer = call->layer;
    return clprune_max_pool_forward(call->net->context, &layer->set.pool, call->count,
        clprune__net_in_shape(&call->net->graph, layer, 0)->grid, clprune__net_x(call, 0),
        clprune__net_y(call), clprune__net_positions(call, layer), NULL);
}

static clprune_status max_pool_positions(
    size_t samples, const clprune__net_shape *shape, clprune_max_pool_sizes *sizes)
{
    return clprune_max_pool_size_query(samples * shape->rows, shape->cols, sizes);
}

const clprune__net_kind clprune__net_max_pool_kind = {
    .name = "max_pool", .positions = max_pool_positions, .forward = max_pool_forward};

static clprune_status max_pool_backward(const clprune__net_call *call)
{
    const clprune__net_layer *layer = clprune__net_link(call, 0);
    return clprune_max_pool_backward(call->net->context, &layer->set.pool, call->count,
        clprune__net_in_shape(&call->net->graph, layer, 0)->grid, clprune__net_dy(call),
        clprune__net_positions(call, layer), clprune__net_dx(call, 0), NULL);
}

clprune_net_value clprune_net_max_pool(
    clprune_net *net, const char *name, clprune_net_value x, const clprune_max_pool_desc *desc)
{
    ENTER_QUIETLY(net != NULL ? net->context : NULL);
    const clprune__net_value *in = clprune__net_read(net, name, x);
    if (in == NULL)
        return (clprune_net_value){0};
    const clprune__net_shape shape = in->shape;
    const clprune_extent grid = desc != NULL && shape.grid.height > 0
                                    ? clprune_max_pool_output(desc, shape.grid)
                                    : (clprune_extent){0, 0};
    if (grid.height == 0)
        clprune__net_wrong(net, CLPRUNE_INVALID_SIZE, "layer %s: %s", name,
            desc == NULL             ? "desc is NULL"
            : shape.grid.height == 0 ? "its input is not an image"
                                     : clprune_last_error(NULL));
    else if (desc->kernel.height * desc->kernel.width > 16)
        clprune__net_wrong(net, CLPRUNE_INVALID_ARGUMENT,
            "layer %s: a kernel of %zu x %zu has more than 16 taps", name, desc->kernel.height,
            desc->kernel.width);
    clprune__net_layer *layer = clprune__net_add(net, &clprune__net_max_pool_kind, name, &x, 1,
        (clprune__net_shape){grid.height * grid.width, shape.cols, grid});
    if (layer != NULL)
        layer->set.pool = *desc;
    return clprune__net_last(net);
}

static clprune_extent factor_of(const clprune__net_layer *layer)
{
    return (clprune_extent){layer->set.sizes[0], layer->set.sizes[0]};
}

static clprune_status upsample_forward(const clprune__net_call *call)
{
    return clprune_upsample_forward(call->net->context, factor_of(call->layer), call->count,
        clprune__net_in_shape(&call->net->graph, call->layer, 0)->grid, clprune__net_x(call, 0),
        clprune__net_y(call), NULL);
}

static const clprune__net_kind upsample_kind = {.name = "upsample", .forward = upsample_forward};

static clprune_status upsample_backward(const clprune__net_call *call)
{
    const clprune__net_layer *layer = clprune__net_link(call, 0);
    return clprune_upsample_backward(call->net->context, factor_of(layer), call->count,
        clprune__net_in_shape(&call->net->graph, layer, 0)->grid, clprune__net_dy(call),
        clprune__net_dx(call, 0), NULL);
}

clprune_net_value clprune_net_upsample(
    clprune_net *net, const char *name, clprune_net_value x, size_t factor)
{
    ENTER_QUIETLY(net != NULL ? net->context : NULL);
    const clprune__net_value *in = clprune__net_read(net, name, x);
    if (in == NULL)
        return (clprune_net_value){0};
    const clprune__net_shape shape = in->shape;
    clprune_extent grid = shape.grid;
    size_t rows;
    if (grid.height == 0)
        clprune__net_wrong(net, CLPRUNE_INVALID_SIZE, "layer %s: its input is not an image", name);
    else if (factor == 0)
        clprune__net_wrong(net, CLPRUNE_INVALID_ARGUMENT, "layer %s: its factor is 0", name);
    else if (!clprune__mul3(shape.rows, factor, factor, &rows))
        clprune__net_wrong(
            net, CLPRUNE_SIZE_OVERFLOW, "layer %s: a factor of %zu is too large", name, factor);
    grid.height *= factor;
    grid.width *= factor;
    clprune__net_layer *layer = clprune__net_add(net, &upsample_kind, name, &x, 1,
        (clprune__net_shape){grid.height * grid.width, shape.cols, grid});
    if (layer != NULL)
        layer->set.sizes[0] = factor;
    return clprune__net_last(net);
}

static clprune_status mean_forward(const clprune__net_call *call)
{
    return clprune_token_mean_forward(call->net->context, call->count,
        clprune__net_in_shape(&call->net->graph, call->layer, 0)->rows, clprune__net_x(call, 0),
        clprune__net_y(call), NULL);
}

const clprune__net_kind clprune__net_mean_kind = {.name = "mean", .forward = mean_forward};

static clprune_status mean_backward(const clprune__net_call *call)
{
    return clprune_token_mean_backward(call->net->context, call->count,
        clprune__net_in_shape(&call->net->graph, clprune__net_link(call, 0), 0)->rows,
        clprune__net_dy(call), clprune__net_dx(call, 0), NULL);
}

const clprune__net_way clprune__net_pool_ways[] = {
    {.name = "max pool", .chain = {&clprune__net_max_pool_kind}, .backward = max_pool_backward},
    {.name = "upsample", .chain = {&upsample_kind}, .backward = upsample_backward},
    {.name = "mean", .chain = {&clprune__net_mean_kind}, .backward = mean_backward},
    {.name = NULL},
};

clprune_net_value clprune_net_mean(clprune_net *net, const char *name, clprune_net_value x)
{
    ENTER_QUIETLY(net != NULL ? net->context : NULL);
    const clprune__net_value *in = clprune__net_read(net, name, x);
    if (in != NULL)
        (void)clprune__net_add(net, &clprune__net_mean_kind, name, &x, 1,
            (clprune__net_shape){1, in->shape.cols, {0, 0}});
    return clprune__net_last(net);
}
