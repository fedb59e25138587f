/* Values beside or below each other, parts of values, and permuted axes: copies, also backward,
 * which needs no value. */
#include "clprune/add.h"
#include "clprune/linear.h"
#include "core/checked.h"
#include "net/build/append.h"
#include "net/kinds/kinds.h"
#include "net/run/call.h"
#include "runtime/context/check.h"

/* Rows of samples are joined as features of matrices that have one row for each sample. */
static clprune_mat lines_of(const clprune__net_call *call, clprune_axis axis, clprune_mat mat)
{
    if (axis == CLPRUNE_AXIS_ROWS) {
        mat.cols = mat.ld = mat.rows / call->count * mat.cols;
        mat.rows = call->count;
    }
    return mat;
}

static clprune_mat columns(clprune_mat mat, size_t first, size_t count)
{
    mat.offset += first;
    mat.cols = count;
    return mat;
}

/* dx = dy, on top of what is there with a beta of 1. */
static clprune_status take(
    const clprune__net_call *call, float beta, clprune_mat dy, clprune_mat dx)
{
    clprune_context *context = call->net->context;
    return beta == 0 ? clprune_mat_copy(context, dy, dx, NULL)
                     : clprune_add(context, 1, dy, beta, dx, dx, NULL);
}

/* ---- concatenation -----------------------------------------------------------------------------
 */

static clprune_status concat_forward(const clprune__net_call *call)
{
    const clprune_axis axis = call->layer->set.part.axis;
    const clprune_mat y = lines_of(call, axis, clprune__net_y(call));
    for (size_t k = 0, first = 0; k < 2; ++k) {
        const clprune_mat x = lines_of(call, axis, clprune__net_x(call, k));
        TRY(clprune_mat_copy(call->net->context, x, columns(y, first, x.cols), NULL));
        first += x.cols;
    }
    return CLPRUNE_SUCCESS;
}

static bool of_features(const clprune__net_graph *graph, const clprune__net_layer *layer)
{
    (void)graph;
    return layer->set.part.axis == CLPRUNE_AXIS_FEATURES;
}

static const clprune__net_kind concat_kind = {
    .name = "concat", .by_row = of_features, .forward = concat_forward};

/* y = [a | b] */
static clprune_status concat_backward(const clprune__net_call *call)
{
    const clprune__net_layer *layer = clprune__net_link(call, 0);
    const clprune_axis axis = layer->set.part.axis;
    const clprune_mat dy = lines_of(call, axis, clprune__net_dy(call));
    for (size_t k = 0, first = 0; k < 2; ++k) {
        const clprune__net_shape *shape = clprune__net_in_shape(&call->net->graph, layer, k);
        const size_t cols = axis == CLPRUNE_AXIS_ROWS ? shape->rows * shape->cols : shape->cols;
        const clprune_mat dx = clprune__net_dx(call, k);
        if (!clprune__is_absent(dx))
            TRY(take(call, clprune__net_dx_beta(call, k), columns(dy, first, cols),
                lines_of(call, axis, dx)));
        first += cols;
    }
    return CLPRUNE_SUCCESS;
}

/* Whether an axis is one; else an error of layer `name`. */
static bool is_axis(clprune_net *net, const char *name, clprune_axis axis)
{
    if (axis == CLPRUNE_AXIS_FEATURES || axis == CLPRUNE_AXIS_ROWS)
        return true;
    clprune__net_wrong(net, CLPRUNE_INVALID_ARGUMENT,
        "layer %s: its axis is %d, expected AXIS_FEATURES or AXIS_ROWS", name, (int)axis);
    return false;
}

clprune_net_value clprune_net_concat(
    clprune_net *net, const char *name, clprune_net_value a, clprune_net_value b, clprune_axis axis)
{
    ENTER_QUIETLY(net != NULL ? net->context : NULL);
    const clprune__net_value *first = clprune__net_read(net, name, a);
    const clprune__net_value *second = clprune__net_read(net, name, b);
    if (first == NULL || second == NULL || !is_axis(net, name, axis))
        return (clprune_net_value){0};
    clprune__net_shape shape = first->shape;
    const clprune__net_shape more = second->shape;
    const bool rows = axis == CLPRUNE_AXIS_ROWS;
    if (rows ? shape.cols != more.cols : shape.rows != more.rows)
        clprune__net_wrong(net, CLPRUNE_INVALID_SIZE,
            "layer %s: its inputs are %zu x %zu and %zu x %zu, expected equal %s", name, shape.rows,
            shape.cols, more.rows, more.cols, rows ? "columns" : "rows");
    else if (!rows && shape.grid.height > 0 && more.grid.height > 0 &&
             shape.grid.height != more.grid.height)
        clprune__net_wrong(net, CLPRUNE_INVALID_SIZE,
            "layer %s: its inputs are images of %zu x %zu and %zu x %zu", name, shape.grid.height,
            shape.grid.width, more.grid.height, more.grid.width);
    if (rows) {
        shape.rows += more.rows;
        shape.grid = (clprune_extent){0, 0};
    } else {
        shape.cols += more.cols;
    }
    clprune__net_layer *layer =
        clprune__net_add(net, &concat_kind, name, (const clprune_net_value[]){a, b}, 2, shape);
    if (layer != NULL)
        layer->set.part.axis = axis;
    return clprune__net_last(net);
}

/* ---- slices ------------------------------------------------------------------------------------
 */

/* The part of x, or of dx, that a layer's y has. */
static clprune_mat slice_of(
    const clprune__net_call *call, const clprune__net_layer *layer, clprune_mat x, clprune_mat y)
{
    const clprune_axis axis = layer->set.part.axis;
    const size_t step = axis == CLPRUNE_AXIS_ROWS ? x.cols : 1;
    return columns(
        lines_of(call, axis, x), layer->set.part.first * step, lines_of(call, axis, y).cols);
}

static clprune_status slice_forward(const clprune__net_call *call)
{
    const clprune_mat y = clprune__net_y(call);
    return clprune_mat_copy(call->net->context,
        slice_of(call, call->layer, clprune__net_x(call, 0), y),
        lines_of(call, call->layer->set.part.axis, y), NULL);
}

static const clprune__net_kind slice_kind = {
    .name = "slice", .by_row = of_features, .forward = slice_forward};

/* y = x[first, first + count) */
static clprune_status slice_backward(const clprune__net_call *call)
{
    const clprune__net_layer *layer = clprune__net_link(call, 0);
    const clprune_mat dy = clprune__net_dy(call), dx = clprune__net_dx(call, 0);
    const float beta = clprune__net_dx_beta(call, 0);
    if (clprune__is_absent(dx))
        return CLPRUNE_SUCCESS;
    if (beta == 0)
        TRY(clprune_mat_fill(call->net->context, 0, dx, NULL));
    return take(
        call, beta, lines_of(call, layer->set.part.axis, dy), slice_of(call, layer, dx, dy));
}

clprune_net_value clprune_net_slice(clprune_net *net, const char *name, clprune_net_value x,
    clprune_axis axis, size_t first, size_t count)
{
    ENTER_QUIETLY(net != NULL ? net->context : NULL);
    const clprune__net_value *in = clprune__net_read(net, name, x);
    if (in == NULL || !is_axis(net, name, axis))
        return (clprune_net_value){0};
    clprune__net_shape shape = in->shape;
    const bool rows = axis == CLPRUNE_AXIS_ROWS;
    const size_t all = rows ? shape.rows : shape.cols;
    if (count == 0 || count > all || first > all - count)
        clprune__net_wrong(net, CLPRUNE_INVALID_SIZE,
            "layer %s: %zu %s from %zu, expected at least 1 of 0 to %zu", name, count,
            rows ? "rows" : "columns", first, all);
    if (rows) {
        shape.rows = count;
        shape.grid = (clprune_extent){0, 0};
    } else {
        shape.cols = count;
    }
    clprune__net_layer *layer = clprune__net_add(net, &slice_kind, name, &x, 1, shape);
    if (layer != NULL) {
        layer->set.part.axis = axis;
        layer->set.part.first = first;
    }
    return clprune__net_last(net);
}

/* ---- permuted axes -----------------------------------------------------------------------------
 */

static clprune_status permute_forward(const clprune__net_call *call)
{
    return clprune_permute(call->net->context, &call->layer->set.permute,
        lines_of(call, CLPRUNE_AXIS_ROWS, clprune__net_x(call, 0)),
        lines_of(call, CLPRUNE_AXIS_ROWS, clprune__net_y(call)), NULL);
}

static const clprune__net_kind permute_kind = {.name = "permute", .forward = permute_forward};

/* y = x with its axes in another order */
static clprune_status permute_backward(const clprune__net_call *call)
{
    const clprune_permute_desc back =
        clprune_permute_back(&clprune__net_link(call, 0)->set.permute);
    return clprune_permute(call->net->context, &back,
        lines_of(call, CLPRUNE_AXIS_ROWS, clprune__net_dy(call)),
        lines_of(call, CLPRUNE_AXIS_ROWS, clprune__net_dx(call, 0)), NULL);
}

/* Whether desc is an order of as many elements; *same: it leaves them as they are. */
static bool is_order(const clprune_permute_desc *desc, size_t elements, bool *same)
{
    size_t all = 1, seen = 0;
    *same = true;
    if (desc == NULL || desc->rank == 0 || desc->rank > CLPRUNE_PERMUTE_RANK)
        return false;
    for (size_t k = 0; k < desc->rank; ++k) {
        if (desc->order[k] >= desc->rank || !clprune__mul(all, desc->extents[k], &all))
            return false;
        seen |= (size_t)1 << desc->order[k];
        *same = *same && desc->order[k] == k;
    }
    return all == elements && seen == ((size_t)1 << desc->rank) - 1;
}

clprune_net_value clprune_net_permute(clprune_net *net, const char *name, clprune_net_value x,
    const clprune_permute_desc *desc, size_t cols, clprune_extent grid)
{
    ENTER_QUIETLY(net != NULL ? net->context : NULL);
    const clprune__net_value *in = clprune__net_read(net, name, x);
    if (in == NULL)
        return (clprune_net_value){0};
    const size_t elements = in->shape.rows * in->shape.cols;
    bool same;
    if (!is_order(desc, elements, &same) || cols == 0 || elements % cols != 0 ||
        (grid.height != 0 && elements / cols / grid.height != grid.width)) {
        clprune__net_wrong(net, CLPRUNE_INVALID_SIZE,
            "layer %s: its axes are no order of %zu x %zu elements, or these are no rows of %zu, "
            "or "
            "no image of %zu x %zu",
            name, in->shape.rows, in->shape.cols, cols, grid.height, grid.width);
        return (clprune_net_value){0};
    }
    clprune__net_layer *layer =
        clprune__net_add(net, same ? &clprune__net_flatten_kind : &permute_kind, name, &x, 1,
            (clprune__net_shape){elements / cols, cols, grid});
    if (layer != NULL && !same)
        layer->set.permute = *desc;
    return clprune__net_last(net);
}

const clprune__net_way clprune__net_concat_ways[] = {
    {.name = "concat",
        .chain = {&concat_kind},
        .ends = {{CLPRUNE__NET_APART, true}, {CLPRUNE__NET_APART, true}},
        .backward = concat_backward},
    {.name = "slice",
        .chain = {&slice_kind},
        .ends = {{CLPRUNE__NET_APART, true}},
        .backward = slice_backward},
    {.name = "permute", .chain = {&permute_kind}, .backward = permute_backward},
    {.name = NULL},
};
