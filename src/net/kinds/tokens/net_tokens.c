/* Tokens: their embedding, positions, a class token, one row of a sample; a gated unit. */
#include "clprune/embedding.h"
#include "clprune/positions.h"
#include "clprune/swiglu.h"

#include "net/build/append.h"
#include "net/kinds/kinds.h"
#include "net/run/call.h"
#include "runtime/context/check.h"

/* ---- embedding ---------------------------------------------------------------------------------
 */

/* The tokens of the call. */
static clprune_ints tokens_of(const clprune__net_call *call, const clprune__net_layer *layer)
{
    const clprune__net_graph *graph = &call->net->graph;
    clprune_ints tokens =
        clprune__net_input_at(call->data, clprune__net_input_of(graph, layer)).tokens;
    tokens.offset += call->first * clprune__net_in_shape(graph, layer, 0)->rows;
    return tokens;
}

static clprune_status embedding_forward(const clprune__net_call *call)
{
    return clprune_embedding_forward(call->net->context, tokens_of(call, call->layer),
        clprune__net_param_value(call->net, call->layer, 0), clprune__net_y(call), NULL);
}

static const clprune__net_kind embedding_kind = {.name = "embedding",
    .reads = CLPRUNE__NET_TOKENS,
    .coded = true,
    .by_row = clprune__net_by_row,
    .grads = {.adds = true},
    .forward = embedding_forward};

/* Whether the token loss has written to a gradient. */
static bool has_begun(const clprune_net *net, clprune_mat grad)
{
    if (net->graph.head == 0)
        return false;
    const clprune_mat head = net->body.tensors[net->graph.head - 1].grad;
    return head.buffer == grad.buffer && head.offset == grad.offset;
}

/* y = weight[tokens] */
static clprune_status embedding_backward(const clprune__net_call *call)
{
    const clprune__net_layer *layer = clprune__net_link(call, 0);
    const clprune_mat dw = clprune__net_grad(call, layer, 0);
    const float beta = has_begun(call->net, dw) ? 1.0f : clprune__net_beta(call);
    return clprune_embedding_backward(
        call->net->context, beta, tokens_of(call, layer), clprune__net_dy(call), dw, NULL);
}

clprune_net_value clprune_net_embedding(
    clprune_net *net, const char *name, clprune_net_value tokens, size_t vocabulary, size_t cols)
{
    ENTER_QUIETLY(net != NULL ? net->context : NULL);
    const clprune__net_value *x = clprune__net_read(net, name, tokens);
    if (x == NULL)
        return (clprune_net_value){0};
    if (vocabulary == 0 || cols == 0)
        clprune__net_wrong(net, CLPRUNE_INVALID_SIZE,
            "layer %s: a vocabulary of %zu x %zu is empty", name, vocabulary, cols);
    else if (vocabulary > SIZE_MAX / sizeof(float) / cols)
        clprune__net_wrong(net, CLPRUNE_SIZE_OVERFLOW,
            "layer %s: a vocabulary of %zu x %zu is too large", name, vocabulary, cols);
    if (clprune__net_add(net, &embedding_kind, name, &tokens, 1,
            (clprune__net_shape){x->shape.rows, cols, {0, 0}}) == NULL)
        return (clprune_net_value){0};
    clprune__net_add_param(net, ".weight",
        (clprune__net_param){
            .rank = 2, .shape = {vocabulary, cols}, .inputs = cols, .decay = true});
    return clprune__net_last(net);
}

/* ---- positions ---------------------------------------------------------------------------------
 */

static clprune_status positions_forward(const clprune__net_call *call)
{
    clprune_context *context = call->net->context;
    REQUIRE(call->data->starts.buffer == NULL, CLPRUNE_INVALID_ARGUMENT,
        "layer %s has learned positions, which take no data.starts", call->layer->name);
    size_t rows = call->layer->set.sizes[0], first = call->layer->set.sizes[1];
    const clprune_mat p = clprune__net_param_value(call->net, call->layer, 0);
    const clprune_mat x = clprune__net_x(call, 0);
    if (rows > 1 && call->net->graph.whole > 0) {
        rows = x.rows / call->count;
        first += call->data->first;
    }
    return clprune_positions_forward(
        context, x.rows / rows, x, clprune_mat_rows(p, first, rows), clprune__net_y(call), NULL);
}

/* One row for all, or one for each: rows that begin again may not lie side by side in a pass. */
static bool positions_by_row(const clprune__net_graph *graph, const clprune__net_layer *layer)
{
    return layer->set.sizes[0] == 1 || layer->set.sizes[0] == graph->whole;
}

static const clprune__net_kind positions_kind = {
    .name = "positions", .over = true, .by_row = positions_by_row, .forward = positions_forward};

/* y = x + p, again and again: dx is dy */
static clprune_status positions_backward(const clprune__net_call *call)
{
    clprune_context *context = call->net->context;
    const size_t *sizes = clprune__net_link(call, 0)->set.sizes, rows = sizes[0], first = sizes[1];
    const clprune_mat dp = clprune__net_grad(call, clprune__net_link(call, 0), 0);
    const clprune_mat dy = clprune__net_dy(call);
    if (dp.rows == 0)
        return CLPRUNE_SUCCESS;
    if (dp.rows > rows && clprune__net_beta(call) == 0) {
        const size_t behind = first + rows;
        TRY(clprune_mat_fill(context, 0.0f, clprune_mat_rows(dp, 0, first), NULL));
        TRY(clprune_mat_fill(context, 0.0f, clprune_mat_rows(dp, behind, dp.rows - behind), NULL));
    }
    return clprune_positions_backward(context, dy.rows / rows, clprune__net_beta(call), dy,
        clprune_mat_rows(dp, first, rows), NULL);
}

static clprune_net_value add_positions(clprune_net *net, const char *name, clprune_net_value x,
    size_t first, size_t rows, size_t table)
{
    const clprune__net_value *in = clprune__net_read(net, name, x);
    if (in == NULL)
        return (clprune_net_value){0};
    const clprune__net_shape shape = in->shape;
    const size_t all = net->graph.whole > 0 ? net->graph.whole : shape.rows;
    if (rows == 0 || all % rows != 0 || table < rows || first > table - rows)
        clprune__net_wrong(net, CLPRUNE_INVALID_SIZE,
            "layer %s: %zu rows from %zu of a table of %zu, expected a divisor of the %zu rows of "
            "a "
            "sample, and at most the table's",
            name, rows, first, table, all);
    else if (table > SIZE_MAX / sizeof(float) / shape.cols)
        clprune__net_wrong(net, CLPRUNE_SIZE_OVERFLOW,
            "layer %s: a table of %zu x %zu is too large", name, table, shape.cols);
    clprune__net_layer *layer = clprune__net_add(net, &positions_kind, name, &x, 1, shape);
    if (layer == NULL)
        return (clprune_net_value){0};
    layer->set.sizes[0] = rows;
    layer->set.sizes[1] = first;
    clprune__net_add_param(net, "",
        (clprune__net_param){.rank = 2, .shape = {table, shape.cols}, .inputs = shape.cols});
    return clprune__net_last(net);
}

clprune_net_value clprune_net_positions(clprune_net *net, const char *name, clprune_net_value x)
{
    ENTER_QUIETLY(net != NULL ? net->context : NULL);
    const clprune__net_value *in = clprune__net_read(net, name, x);
    if (in == NULL)
        return (clprune_net_value){0};
    const size_t rows = net->graph.whole > 0 ? net->graph.whole : in->shape.rows;
    return add_positions(net, name, x, 0, rows, rows);
}

clprune_net_value clprune_net_positions_of(clprune_net *net, const char *name, clprune_net_value x,
    size_t first, size_t rows, size_t table)
{
    ENTER_QUIETLY(net != NULL ? net->context : NULL);
    return add_positions(net, name, x, first, rows, table);
}

/* ---- class token, row: copies of rows of samples -----------------------------------------------
 */

/* `rows` rows of each of `count` samples, from row `first` on: a sample's in one row. */
static clprune_mat rows_of_samples(clprune_mat x, size_t count, size_t first, size_t rows)
{
    return (clprune_mat){
        x.buffer, x.offset + first * x.cols, count, rows * x.cols, x.rows / count * x.cols, x.type};
}

static clprune_status class_forward(const clprune__net_call *call)
{
    clprune_context *context = call->net->context;
    const clprune_mat x = clprune__net_x(call, 0), y = clprune__net_y(call);
    const size_t rows = x.rows / call->count;
    TRY(clprune_positions_forward(context, call->count, CLPRUNE_NO_MAT,
        clprune__net_param_value(call->net, call->layer, 0), rows_of_samples(y, call->count, 0, 1),
        NULL));
    return clprune_mat_copy(context, rows_of_samples(x, call->count, 0, rows),
        rows_of_samples(y, call->count, 1, rows), NULL);
}

static const clprune__net_kind class_kind = {.name = "class token", .forward = class_forward};

/* y = the parameter, then x */
static clprune_status class_backward(const clprune__net_call *call)
{
    clprune_context *context = call->net->context;
    const clprune_mat dy = clprune__net_dy(call), dx = clprune__net_dx(call, 0);
    const clprune_mat dp = clprune__net_grad(call, clprune__net_link(call, 0), 0);
    const size_t rows = dy.rows / call->count - 1;
    if (dp.rows > 0)
        TRY(clprune_positions_backward(context, call->count, clprune__net_beta(call),
            rows_of_samples(dy, call->count, 0, 1), dp, NULL));
    if (dx.rows == 0)
        return CLPRUNE_SUCCESS;
    return clprune_mat_copy(context, rows_of_samples(dy, call->count, 1, rows),
        rows_of_samples(dx, call->count, 0, rows), NULL);
}

clprune_net_value clprune_net_class_token(clprune_net *net, const char *name, clprune_net_value x)
{
    ENTER_QUIETLY(net != NULL ? net->context : NULL);
    const clprune__net_value *in = clprune__net_read(net, name, x);
    if (in == NULL)
        return (clprune_net_value){0};
    const size_t cols = in->shape.cols;
    if (clprune__net_add(net, &class_kind, name, &x, 1,
            (clprune__net_shape){in->shape.rows + 1, cols, {0, 0}}) == NULL)
        return (clprune_net_value){0};
    clprune__net_add_param(
        net, "", (clprune__net_param){.rank = 2, .shape = {1, cols}, .inputs = cols});
    return clprune__net_last(net);
}

static clprune_status row_forward(const clprune__net_call *call)
{
    return clprune_mat_copy(call->net->context,
        rows_of_samples(clprune__net_x(call, 0), call->count, call->layer->set.sizes[0], 1),
        clprune__net_y(call), NULL);
}

static const clprune__net_kind row_kind = {.name = "row", .forward = row_forward};

/* y = a row of x */
static clprune_status row_backward(const clprune__net_call *call)
{
    clprune_context *context = call->net->context;
    const size_t row = clprune__net_link(call, 0)->set.sizes[0];
    const clprune_mat dx = clprune__net_dx(call, 0);
    TRY(clprune_mat_fill(context, 0.0f, dx, NULL));
    return clprune_mat_copy(
        context, clprune__net_dy(call), rows_of_samples(dx, call->count, row, 1), NULL);
}

clprune_net_value clprune_net_row(
    clprune_net *net, const char *name, clprune_net_value x, size_t row)
{
    ENTER_QUIETLY(net != NULL ? net->context : NULL);
    const clprune__net_value *in = clprune__net_read(net, name, x);
    if (in == NULL)
        return (clprune_net_value){0};
    if (row >= in->shape.rows)
        clprune__net_wrong(net, CLPRUNE_INVALID_SIZE,
            "layer %s: its row is %zu, expected less than %zu", name, row, in->shape.rows);
    clprune__net_layer *layer = clprune__net_add(
        net, &row_kind, name, &x, 1, (clprune__net_shape){1, in->shape.cols, {0, 0}});
    if (layer != NULL)
        layer->set.sizes[0] = row;
    return clprune__net_last(net);
}

/* ---- gated unit --------------------------------------------------------------------------------
 */

static clprune_status swiglu_forward(const clprune__net_call *call)
{
    return clprune_glu_forward(call->net->context, call->layer->set.activation,
        clprune__net_x(call, 0), clprune__net_y(call), NULL);
}

static const clprune__net_kind swiglu_kind = {.name = "swiglu",
    .by_row = clprune__net_by_row,
    .gives_bf16 = clprune__net_gives_bf16,
    .forward = swiglu_forward};
static const clprune__net_kind glu_kind = {.name = "glu",
    .as = &swiglu_kind,
    .by_row = clprune__net_by_row,
    .gives_bf16 = clprune__net_gives_bf16,
    .forward = swiglu_forward};

/* y = f(a) * b, x = [a | b] */
static clprune_status swiglu_backward(const clprune__net_call *call)
{
    return clprune_glu_backward(call->net->context, clprune__net_link(call, 0)->set.activation,
        clprune__net_operand(call, 0), clprune__net_dy(call), clprune__net_dx(call, 0), NULL);
}

static clprune_net_value add_gate(clprune_net *net, const clprune__net_kind *kind, const char *name,
    clprune_net_value x, clprune_activation activation)
{
    const clprune__net_value *in = clprune__net_read(net, name, x);
    if (in == NULL)
        return (clprune_net_value){0};
    const clprune__net_shape shape = in->shape;
    if (shape.cols % 2 != 0)
        clprune__net_wrong(net, CLPRUNE_INVALID_SIZE,
            "layer %s: its input has %zu columns, expected an even number", name, shape.cols);
    if (activation <= CLPRUNE_ACTIVATION_RELU || activation > CLPRUNE_ACTIVATION_SIGMOID ||
        activation == CLPRUNE_ACTIVATION_RELU6)
        clprune__net_wrong(net, CLPRUNE_INVALID_ARGUMENT,
            "layer %s: its activation is %d, expected that of a gated unit", name, (int)activation);
    clprune__net_layer *layer = clprune__net_add(
        net, kind, name, &x, 1, (clprune__net_shape){shape.rows, shape.cols / 2, shape.grid});
    if (layer != NULL)
        layer->set.activation = activation;
    return clprune__net_last(net);
}

clprune_net_value clprune_net_swiglu(clprune_net *net, const char *name, clprune_net_value x)
{
    ENTER_QUIETLY(net != NULL ? net->context : NULL);
    return add_gate(net, &swiglu_kind, name, x, CLPRUNE_ACTIVATION_SILU);
}

clprune_net_value clprune_net_glu(
    clprune_net *net, const char *name, clprune_net_value x, clprune_activation activation)
{
    ENTER_QUIETLY(net != NULL ? net->context : NULL);
    return add_gate(net, &glu_kind, name, x, activation);
}

const clprune__net_way clprune__net_token_ways[] = {
    {.name = "embedding",
        .chain = {&embedding_kind},
        .ends = {{.flow = CLPRUNE__NET_NONE}},
        .backward = embedding_backward},
    {.name = "positions",
        .chain = {&positions_kind},
        .ends = {{CLPRUNE__NET_PASS, false}},
        .backward = positions_backward},
    {.name = "class token", .chain = {&class_kind}, .backward = class_backward},
    {.name = "row", .chain = {&row_kind}, .backward = row_backward},
    {.name = "swiglu",
        .chain = {&swiglu_kind},
        .needs = {{0, 0, CLPRUNE__NET_DENSE, false}},
        .needs_count = 1,
        .narrow_dx = true,
        .backward = swiglu_backward},
    {.name = NULL},
};
