/* Inputs of a net: rows of floats, tokens, or images of bytes, which convolutions read channels
 * last and patch embeddings patch by patch. */
#include "net/build/append.h"
#include "net/kinds/kinds.h"
#include "net/run/call.h"
#include "nn/images/image_private.h"
#include "runtime/context/check.h"

static const clprune__net_kind images_kind = {.name = "input", .gives = CLPRUNE__NET_BYTES};

static clprune_net_value add_input(
    clprune_net *net, const clprune__net_kind *kind, const char *name, clprune__net_shape shape)
{
    if (net == NULL)
        return (clprune_net_value){0};
    clprune__net_graph *graph = &net->graph;
    const size_t number = graph->inputs_count, rows = graph->desc.rows_at_once;
    if (number == CLPRUNE__NET_MOST_INPUTS)
        clprune__net_wrong(
            net, CLPRUNE_INVALID_ARGUMENT, "a net has at most %d inputs", CLPRUNE__NET_MOST_INPUTS);
    if (number == 0 && graph->count > 0)
        clprune__net_wrong(
            net, CLPRUNE_INVALID_ARGUMENT, "the first input of a net comes before its layers");
    if (shape.rows == 0 || shape.cols == 0)
        clprune__net_wrong(net, CLPRUNE_INVALID_SIZE, "the input has a size of 0");
    if (rows > 0 && number > 0)
        clprune__net_wrong(net, CLPRUNE_INVALID_ARGUMENT,
            "desc.rows_at_once is %zu, expected 0 in a net of several inputs", rows);
    if (rows > shape.rows)
        clprune__net_wrong(net, CLPRUNE_INVALID_SIZE,
            "desc.rows_at_once is %zu, expected at most the %zu rows of a sample", rows,
            shape.rows);
    if (rows > 0) {
        graph->whole = shape.rows;
        shape.rows = rows;
    }
    clprune__net_layer *layer = clprune__net_add_input(net, kind, name, NULL, 0, number, shape);
    if (layer != NULL) {
        layer->set.input = number;
        graph->inputs[graph->inputs_count++] = graph->count - 1;
    }
    return clprune__net_last(net);
}

clprune_net_value clprune_net_images(clprune_net *net, size_t channels, size_t height, size_t width)
{
    ENTER_QUIETLY(net != NULL ? net->context : NULL);
    if (width > 0 && height > SIZE_MAX / width)
        clprune__net_wrong(
            net, CLPRUNE_SIZE_OVERFLOW, "images of %zu x %zu are too large", height, width);
    return add_input(net, &images_kind, "images",
        (clprune__net_shape){height * width, channels, {height, width}});
}

/* ---- rows of floats: copied, so that they are kept and made again like any value ---------------
 */

static clprune_status rows_forward(const clprune__net_call *call)
{
    clprune_context *context = call->net->context;
    const clprune_mat x = clprune__net_input_at(call->data, call->layer->set.input).rows,
                      y = clprune__net_y(call);
    const size_t each = x.cols == y.cols ? y.rows / call->count : 1; /* 1: planes */
    const clprune_mat part = clprune_mat_rows(x, call->first * each, call->count * each);
    return x.cols == y.cols ? clprune_mat_copy(context, part, y, NULL)
                            : clprune__image_channels_last(context, part, y, NULL);
}

/* y = rows */
static clprune_status rows_backward(const clprune__net_call *call)
{
    clprune_context *context = call->net->context;
    const clprune__net_layer *layer = clprune__net_link(call, 0);
    clprune_mat dy = clprune__net_dy(call);
    const clprune_mat dx = clprune__net_input_at(call->data, layer->set.input).rows_grad;
    if (clprune__is_absent(dx))
        return CLPRUNE_SUCCESS;
    const bool planes = dx.cols != dy.cols;
    const size_t each = planes ? 1 : dy.rows / call->count;
    const clprune_mat part = clprune_mat_rows(dx, call->first * each, call->count * each);
    if (!planes)
        return clprune_mat_copy(context, dy, part, NULL);
    const clprune_permute_desc desc = {2, {dy.rows / call->count, dy.cols}, {1, 0}};
    dy.rows = call->count;
    dy.cols = dy.ld = dx.cols;
    return clprune_permute(context, &desc, dy, part, NULL);
}

static bool without_grid(const clprune__net_graph *graph, const clprune__net_layer *layer)
{
    return graph->values[clprune__net_out(graph, layer)].shape.grid.height == 0;
}

static const clprune__net_kind rows_kind = {
    .name = "rows", .by_row = without_grid, .forward = rows_forward};

clprune_net_value clprune_net_rows(clprune_net *net, size_t rows, size_t cols)
{
    ENTER_QUIETLY(net != NULL ? net->context : NULL);
    return add_input(net, &rows_kind, "rows", (clprune__net_shape){rows, cols, {0, 0}});
}

clprune_net_value clprune_net_pixels(clprune_net *net, size_t channels, size_t height, size_t width)
{
    ENTER_QUIETLY(net != NULL ? net->context : NULL);
    if (width > 0 && height > SIZE_MAX / width)
        clprune__net_wrong(
            net, CLPRUNE_SIZE_OVERFLOW, "pixels of %zu x %zu are too large", height, width);
    return add_input(
        net, &rows_kind, "pixels", (clprune__net_shape){height * width, channels, {height, width}});
}

void clprune_net_want_grad(clprune_net *net, clprune_net_value input)
{
    ENTER_QUIETLY(net != NULL ? net->context : NULL);
    if (clprune__net_read(net, "clprune_net_want_grad", input) == NULL)
        return;
    clprune__net_layer *layer = &net->draft.layers[input.id - 1];
    if (layer->kind == &rows_kind)
        layer->wanted = true;
    else
        clprune__net_wrong(net, CLPRUNE_INVALID_ARGUMENT,
            "clprune_net_want_grad: %s is no input of rows or pixels", layer->name);
}

/* ---- tokens ------------------------------------------------------------------------------------
 */

static const clprune__net_kind tokens_kind = {
    .name = "tokens", .gives = CLPRUNE__NET_TOKENS, .by_row = clprune__net_by_row};

clprune_net_value clprune_net_tokens(clprune_net *net, size_t rows)
{
    ENTER_QUIETLY(net != NULL ? net->context : NULL);
    return add_input(net, &tokens_kind, "tokens", (clprune__net_shape){rows, 1, {0, 0}});
}

/* ---- pixels, channels last ---------------------------------------------------------------------
 */

static clprune_image_bytes images_from(
    const clprune__net_call *call, const clprune__net_layer *layer)
{
    const clprune__net_graph *graph = &call->net->graph;
    const clprune__net_shape *shape = clprune__net_in_shape(graph, layer, 0);
    clprune_image_bytes images =
        clprune__net_input_at(call->data, clprune__net_input_of(graph, layer)).images;
    images.offset += call->first * shape->rows * shape->cols;
    return images;
}

static clprune_status pixels_forward(const clprune__net_call *call)
{
    const clprune__net_shape *shape = clprune__net_in_shape(&call->net->graph, call->layer, 0);
    return clprune_image_bytes_channels_last(call->net->context, call->count, shape->cols,
        shape->grid, images_from(call, call->layer), clprune__net_y(call), NULL);
}

const clprune__net_kind clprune__net_pixels_kind = {.name = "pixels",
    .reads = CLPRUNE__NET_BYTES,
    .grads = {.none = true},
    .forward = pixels_forward};

/* ---- patches -----------------------------------------------------------------------------------
 */

static clprune_status patches_forward(const clprune__net_call *call)
{
    const clprune__net_layer *layer = call->layer;
    return clprune_patch_embed_forward_bytes(call->net->context, &layer->set.patches, call->count,
        images_from(call, layer), clprune__net_param_value(call->net, layer, 0),
        clprune__net_param_value(call->net, layer, 1), clprune__net_y(call), NULL);
}

/* y = cut(images) w^T + b */
static clprune_status patches_backward(const clprune__net_call *call)
{
    const clprune__net_layer *layer = clprune__net_link(call, 0);
    return clprune_patch_embed_backward_bytes(call->net->context, &layer->set.patches, call->count,
        images_from(call, layer), clprune__net_dy(call),
        &(clprune_grads){.dw = clprune__net_grad(call, layer, 0),
            .db = clprune__net_grad(call, layer, 1),
            .beta = clprune__net_beta(call)},
        NULL);
}

static double patches_work(const clprune__net_graph *graph, const clprune__net_layer *layer)
{
    const clprune_patch_embed_desc *desc = &layer->set.patches;
    return (double)graph->values[clprune__net_out(graph, layer)].shape.rows * (double)desc->out *
           (double)(desc->channels * desc->patch * desc->patch);
}

static const clprune__net_kind patches_kind = {.name = "patch_embed",
    .reads = CLPRUNE__NET_BYTES,
    .forward = patches_forward,
    .work = patches_work};

const clprune__net_way clprune__net_input_ways[] = {
    {.name = "input", .chain = {&rows_kind}, .backward = rows_backward},
    {.name = "patches",
        .chain = {&patches_kind},
        .backward = patches_backward,
        .ends = {{.flow = CLPRUNE__NET_NONE}}},
    {.name = NULL},
};

clprune_net_value clprune_net_patch_embed(
    clprune_net *net, const char *name, clprune_net_value images, size_t patch, size_t out)
{
    ENTER_QUIETLY(net != NULL ? net->context : NULL);
    const clprune__net_value *x = clprune__net_read(net, name, images);
    if (x == NULL)
        return (clprune_net_value){0};
    const clprune__net_shape in = x->shape;
    if (out == 0 || patch == 0 || in.grid.height % patch != 0 || in.grid.width % patch != 0)
        clprune__net_wrong(net, CLPRUNE_INVALID_SIZE,
            "layer %s: %zu features of patches of %zu x %zu pixels do not fit images of %zu x %zu",
            name, out, patch, patch, in.grid.height, in.grid.width);
    const clprune_extent grid = {
        patch ? in.grid.height / patch : 0, patch ? in.grid.width / patch : 0};
    clprune__net_layer *layer = clprune__net_add(net, &patches_kind, name, &images, 1,
        (clprune__net_shape){grid.height * grid.width, out, grid});
    if (layer == NULL)
        return (clprune_net_value){0};
    layer->set.patches =
        (clprune_patch_embed_desc){in.cols, in.grid.height, in.grid.width, patch, out, {0}};
    const size_t inputs = in.cols * patch * patch;
    clprune__net_add_param(net, ".weight",
        (clprune__net_param){
            .rank = 4, .shape = {out, in.cols, patch, patch}, .inputs = inputs, .decay = true});
    clprune__net_add_param(
        net, ".bias", (clprune__net_param){.rank = 1, .shape = {out}, .inputs = inputs});
    return clprune__net_last(net);
}
