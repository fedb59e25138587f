/* Tokens: their embedding, and positions. */
#include "clprune/embedding.h"
#include "clprune/positions.h"

#include "net/call.h"
#include "net/layers/kinds.h"
#include "runtime/context/check.h"

/* ---- embedding ---------------------------------------------------------------------------------
 */

/* The first token of the call. */
static size_t first_of(const clprune__net_call *call)
{
    return call->first * call->net->values[0].shape.rows;
}

static clprune_status embedding_forward(const clprune__net_call *call)
{
    return clprune_embedding_forward(call->net->context, first_of(call), call->data->tokens,
        clprune__net_param_value(call->net, call->layer, 0), clprune__net_y(call), NULL);
}

const clprune__net_kind clprune__net_embedding_kind = {
    .name = "embedding", .reads = CLPRUNE__NET_TOKENS, .forward = embedding_forward};

/* Whether the token loss has written to a gradient. */
static bool has_begun(const clprune_net *net, clprune_mat grad)
{
    if (net->head == 0)
        return false;
    const clprune_mat head = net->tensors[net->head - 1].grad;
    return head.buffer == grad.buffer && head.offset == grad.offset;
}

/* y = weight[tokens] */
static clprune_status embedding_backward(const clprune__net_call *call)
{
    const clprune_mat dw = clprune__net_grad(call, clprune__net_link(call, 0), 0);
    const float beta = has_begun(call->net, dw) ? 1.0f : clprune__net_beta(call);
    return clprune_embedding_backward(call->net->context, beta, first_of(call), call->data->tokens,
        clprune__net_dy(call), dw, NULL);
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
    if (clprune__net_add(net, &clprune__net_embedding_kind, name, &tokens, 1,
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
    return clprune_positions_forward(call->net->context, call->count, clprune__net_x(call, 0),
        clprune__net_param_value(call->net, call->layer, 0), clprune__net_y(call), NULL);
}

static const clprune__net_kind positions_kind = {
    .name = "positions", .over = true, .forward = positions_forward};

/* y = x + p: dx is dy */
static clprune_status positions_backward(const clprune__net_call *call)
{
    const clprune_mat dp = clprune__net_grad(call, clprune__net_link(call, 0), 0);
    if (dp.rows == 0)
        return CLPRUNE_SUCCESS;
    return clprune_positions_backward(
        call->net->context, call->count, clprune__net_beta(call), clprune__net_dy(call), dp, NULL);
}

clprune_net_value clprune_net_positions(clprune_net *net, const char *name, clprune_net_value x)
{
    ENTER_QUIETLY(net != NULL ? net->context : NULL);
    const clprune__net_value *in = clprune__net_read(net, name, x);
    if (in == NULL)
        return (clprune_net_value){0};
    const clprune__net_shape shape = in->shape;
    (void)clprune__net_add(net, &positions_kind, name, &x, 1, shape);
    clprune__net_add_param(net, "",
        (clprune__net_param){.rank = 2, .shape = {shape.rows, shape.cols}, .inputs = shape.cols});
    return clprune__net_last(net);
}

const clprune__net_way clprune__net_token_ways[] = {
    {.name = "embedding",
        .chain = {&clprune__net_embedding_kind},
        .ends = {{.flow = CLPRUNE__NET_NONE}},
        .backward = embedding_backward},
    {.name = "positions",
        .chain = {&positions_kind},
        .ends = {{CLPRUNE__NET_PASS, false}},
        .backward = positions_backward},
    {.name = NULL},
};
