/* Images of other sizes, each axis by a sparse matrix: interpolation, means of windows, padding,
 * crops, mirrored and rolled images. The gradient is by the transposed matrices. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/checked.h"
#include "net/build/append.h"
#include "net/kinds/kinds.h"
#include "net/run/call.h"
#include "nn/images/resample_private.h"
#include "runtime/context/check.h"

enum { TALL, WIDE, BACK_TALL, BACK_WIDE }; /* matrices of the table */

static clprune_status resample_create(
    const clprune__net_graph *graph, const clprune__net_layer *layer, clprune__net_unit *unit)
{
    return clprune__net_create_table(graph, layer, layer->set.table.words, unit);
}

static clprune_extent grid_of(const clprune__net_call *call, size_t value)
{
    return call->net->graph.values[value].shape.grid;
}

static clprune_status resample_forward(const clprune__net_call *call)
{
    const clprune__net_layer *layer = call->layer;
    const size_t *at = layer->set.table.at;
    return clprune__resample(call->net->context, call->count, grid_of(call, layer->in[0]),
        grid_of(call, clprune__net_out(&call->net->graph, layer)), at[TALL], at[WIDE],
        clprune__net_unit_of(call->net, layer)->state[CLPRUNE__NET_TABLE], clprune__net_x(call, 0),
        clprune__net_y(call), NULL);
}

static const clprune__net_kind resample_kind = {
    .name = "resample", .create = resample_create, .forward = resample_forward};

/* y = tall * x * wide^T */
static clprune_status resample_backward(const clprune__net_call *call)
{
    const clprune__net_layer *layer = clprune__net_link(call, 0);
    const size_t *at = layer->set.table.at;
    return clprune__resample(call->net->context, call->count,
        grid_of(call, clprune__net_out(&call->net->graph, layer)), grid_of(call, layer->in[0]),
        at[BACK_TALL], at[BACK_WIDE],
        clprune__net_unit_of(call->net, layer)->state[CLPRUNE__NET_TABLE], clprune__net_dy(call),
        clprune__net_dx(call, 0), NULL);
}

const clprune__net_way clprune__net_resample_ways[] = {
    {.name = "resample", .chain = {&resample_kind}, .backward = resample_backward},
    {.name = NULL},
};

/* Fails unless an axis is a matrix of `in` columns. */
static bool check_axis(
    clprune_net *net, const char *name, const char *which, const clprune_net_axis *axis, size_t in)
{
    if (axis == NULL || axis->out == 0 || axis->out >= INT32_MAX || axis->first == NULL ||
        axis->first[0] != 0) {
        clprune__net_wrong(net, CLPRUNE_INVALID_ARGUMENT,
            "layer %s: its %s has no rows, or its first entry is not 0", name, which);
        return false;
    }
    for (size_t i = 0; i < axis->out; ++i)
        if (axis->first[i + 1] < axis->first[i] || axis->first[i + 1] >= INT32_MAX / 2) {
            clprune__net_wrong(net, CLPRUNE_INVALID_ARGUMENT,
                "layer %s: entries of row %zu of its %s are %u to %u", name, i, which,
                (unsigned)axis->first[i], (unsigned)axis->first[i + 1]);
            return false;
        }
    const size_t entries = axis->first[axis->out];
    if (entries > 0 && (axis->from == NULL || axis->weight == NULL)) {
        clprune__net_wrong(
            net, CLPRUNE_INVALID_ARGUMENT, "layer %s: its %s has no entries", name, which);
        return false;
    }
    for (size_t i = 0; i < entries; ++i)
        if (axis->from[i] >= in || !isfinite(axis->weight[i])) {
            clprune__net_wrong(net, CLPRUNE_INVALID_ARGUMENT,
                "layer %s: entry %zu of its %s is %g of pixel %u, expected a finite number of 0 to "
                "%zu",
                name, i, which, (double)axis->weight[i], (unsigned)axis->from[i], in - 1);
            return false;
        }
    return true;
}

static size_t get_int(const float *word)
{
    int32_t bits;
    memcpy(&bits, word, sizeof bits);
    return (size_t)bits;
}

/* Words of a matrix of `rows` rows. */
static size_t words_of(size_t rows, const clprune_net_axis *axis)
{
    return rows + 1 + 2 * (size_t)axis->first[axis->out];
}

static void put_axis(float *words, const clprune_net_axis *axis)
{
    const size_t entries = axis->first[axis->out];
    float *from = words + axis->out + 1, *weight = from + entries;
    for (size_t i = 0; i <= axis->out; ++i)
        clprune__net_put_int(&words[i], axis->first[i]);
    for (size_t i = 0; i < entries; ++i) {
        clprune__net_put_int(&from[i], axis->from[i]);
        weight[i] = axis->weight[i];
    }
}

/* The transposed matrix, of `in` rows. */
static void put_transposed(float *words, const clprune_net_axis *axis, size_t in)
{
    const size_t entries = axis->first[axis->out];
    float *from = words + in + 1, *weight = from + entries;
    for (size_t i = 0, sum = 0; i <= in; ++i) { /* the first entry of each, which moves below */
        clprune__net_put_int(&words[i], sum);
        for (size_t k = 0; k < entries; ++k)
            sum += axis->from[k] == i;
    }
    for (size_t row = 0; row < axis->out; ++row)
        for (size_t k = axis->first[row]; k < axis->first[row + 1]; ++k) {
            float *next = &words[axis->from[k]];
            const size_t at = get_int(next);
            clprune__net_put_int(&from[at], row);
            weight[at] = axis->weight[k];
            clprune__net_put_int(next, at + 1);
        }
    for (size_t i = in; i > 0; --i) /* ends become beginnings */
        words[i] = words[i - 1];
    clprune__net_put_int(&words[0], 0);
}

clprune_net_value clprune_net_resample(clprune_net *net, const char *name, clprune_net_value x,
    const clprune_net_axis *height, const clprune_net_axis *width)
{
    ENTER_QUIETLY(net != NULL ? net->context : NULL);
    const clprune__net_value *value = clprune__net_read(net, name, x);
    if (value == NULL)
        return (clprune_net_value){0};
    const clprune_extent in = value->shape.grid;
    if (in.height == 0) {
        clprune__net_wrong(net, CLPRUNE_INVALID_SIZE, "layer %s: its input is not an image", name);
        return (clprune_net_value){0};
    }
    if (!check_axis(net, name, "height", height, in.height) ||
        !check_axis(net, name, "width", width, in.width))
        return (clprune_net_value){0};
    const clprune_extent grid = {height->out, width->out};
    clprune__net_layer *layer = clprune__net_add(net, &resample_kind, name, &x, 1,
        (clprune__net_shape){grid.height * grid.width, value->shape.cols, grid});
    if (layer == NULL)
        return (clprune_net_value){0};
    size_t *at = layer->set.table.at;
    at[TALL] = 0;
    at[WIDE] = at[TALL] + words_of(grid.height, height);
    at[BACK_TALL] = at[WIDE] + words_of(grid.width, width);
    at[BACK_WIDE] = at[BACK_TALL] + words_of(in.height, height);
    layer->set.table.words = at[BACK_WIDE] + words_of(in.width, width);
    layer->table = calloc(layer->set.table.words, sizeof *layer->table);
    if (layer->table == NULL) {
        clprune__net_wrong(net, CLPRUNE_OUT_OF_HOST_MEMORY, "no memory for layer %s", name);
        return (clprune_net_value){0};
    }
    put_axis(layer->table + at[TALL], height);
    put_axis(layer->table + at[WIDE], width);
    put_transposed(layer->table + at[BACK_TALL], height, in.height);
    put_transposed(layer->table + at[BACK_WIDE], width, in.width);
    return clprune__net_last(net);
}
