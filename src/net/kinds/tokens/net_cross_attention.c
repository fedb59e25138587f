/* Attention of the rows of one value to those of another. */
#include "core/checked.h"
#include "net/build/append.h"
#include "net/kinds/kinds.h"
#include "net/run/call.h"
#include "runtime/context/check.h"
#include "runtime/memory/scratch.h"

/* k and v of a matrix like the second input. */
typedef struct parts {
    clprune_mat k, v;
} parts;

static parts parts_of(clprune_mat kv)
{
    parts p = {kv, kv};
    p.k.cols = p.v.cols = kv.cols / 2;
    p.v.offset += kv.cols / 2;
    return p;
}

/* Of the call's samples. Inference drops nothing. */
static clprune_status take_desc(
    const clprune__net_call *call, const clprune__net_layer *layer, clprune_attention_desc *desc)
{
    clprune_context *context = call->net->context;
    REQUIRE(call->data->lengths.buffer == NULL && call->data->starts.buffer == NULL,
        CLPRUNE_INVALID_ARGUMENT,
        "layer %s is cross-attention, which takes no data.lengths and no starts", layer->name);
    *desc = layer->set.attention.desc;
    desc->first = call->first;
    desc->seed = clprune__net_layer_seed(call->net, layer);
    if (!call->training)
        desc->rate = 0;
    return CLPRUNE_SUCCESS;
}

static clprune_status cross_forward(const clprune__net_call *call)
{
    const parts x = parts_of(clprune__net_x(call, 1));
    clprune_attention_desc desc;
    TRY(take_desc(call, call->layer, &desc));
    return clprune_attention_forward(call->net->context, &desc, call->count,
        clprune__net_x(call, 0), x.k, x.v, clprune__net_y(call), NULL);
}

/* Scores, and sums of values. */
static double cross_work(const clprune__net_graph *graph, const clprune__net_layer *layer)
{
    const clprune_attention_desc *desc = &layer->set.attention.desc;
    (void)graph;
    return 2 * (double)desc->rows * (double)desc->keys * (double)(desc->heads * desc->cols);
}

static const clprune__net_kind cross_kind = {
    .name = "cross-attention", .forward = cross_forward, .work = cross_work};

/* The gradient of input k, or scratch like `x` where it is not wanted. */
static clprune_status take_dx(
    const clprune__net_call *call, size_t k, clprune_mat x, clprune_mat *dx)
{
    *dx = clprune__net_dx(call, k);
    return clprune__is_absent(*dx) ? clprune__scratch_mat(call->net->context, x.rows, x.cols, dx)
                                   : CLPRUNE_SUCCESS;
}

/* y = softmax(q k^T / sqrt(e)) v */
static clprune_status cross_backward(const clprune__net_call *call)
{
    SCRATCH_SCOPE(call->net->context);
    const clprune_mat q = clprune__net_operand(call, 0), kv = clprune__net_operand(call, 1);
    const parts x = parts_of(kv);
    clprune_mat dq, dkv;
    clprune_attention_desc desc;
    TRY(take_desc(call, clprune__net_link(call, 0), &desc));
    TRY(take_dx(call, 0, q, &dq));
    TRY(take_dx(call, 1, kv, &dkv));
    const parts dx = parts_of(dkv);
    return clprune_attention_backward(call->net->context, &desc, call->count, q, x.k, x.v,
        clprune__net_dy(call), dq, dx.k, dx.v, NULL);
}

const clprune__net_way clprune__net_cross_attention_ways[] = {
    {.name = "cross-attention",
        .chain = {&cross_kind},
        .needs = {{0, 0, CLPRUNE__NET_DENSE, false, 8}, {0, 1, CLPRUNE__NET_DENSE, false, 8}},
        .needs_count = 2,
        .ends = {{CLPRUNE__NET_APART, false}, {CLPRUNE__NET_APART, false}},
        .backward = cross_backward},
    {.name = NULL},
};

clprune_net_value clprune_net_cross_attention(clprune_net *net, const char *name,
    clprune_net_value q, clprune_net_value kv, size_t heads, size_t kv_heads, float rate)
{
    ENTER_QUIETLY(net != NULL ? net->context : NULL);
    const clprune__net_value *one = clprune__net_read(net, name, q);
    const clprune__net_value *other = clprune__net_read(net, name, kv);
    if (one == NULL || other == NULL)
        return (clprune_net_value){0};
    clprune_attention_desc desc = {.rows = one->shape.rows,
        .heads = heads,
        .kv_heads = kv_heads > 0 ? kv_heads : heads,
        .keys = other->shape.rows,
        .rate = rate};
    size_t both = 0;
    if (heads > 0 && one->shape.cols % heads == 0)
        desc.cols = one->shape.cols / heads;
    if (desc.cols == 0 || desc.cols > 512 || heads % desc.kv_heads != 0 ||
        !clprune__mul(2 * desc.cols, desc.kv_heads, &both) || both != other->shape.cols)
        clprune__net_wrong(net, CLPRUNE_INVALID_SIZE,
            "layer %s: %zu and %zu columns are not %zu heads of q, of up to 512 columns, and %zu "
            "each of k and v, or these do not divide those",
            name, one->shape.cols, other->shape.cols, heads, desc.kv_heads);
    if (!(rate >= 0 && rate < 1))
        clprune__net_wrong(net, CLPRUNE_INVALID_ARGUMENT,
            "layer %s: its rate is %g, expected 0 to below 1", name, (double)rate);
    clprune__net_layer *layer =
        clprune__net_add(net, &cross_kind, name, (const clprune_net_value[]){q, kv}, 2, one->shape);
    if (layer != NULL)
        layer->set.attention = (clprune__net_attention){.desc = desc, .windows = 1};
    return clprune__net_last(net);
}
