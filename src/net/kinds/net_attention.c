/* Attention over q, k and v, which lie side by side in one value. */
#include "core/checked.h"
#include "net/build/append.h"
#include "net/kinds/kinds.h"
#include "net/run/call.h"
#include "runtime/context/check.h"

/* q, k and v of a matrix like the layer's input. */
typedef struct parts {
    clprune_mat q, k, v;
} parts;

static parts parts_of(const clprune__net_layer *layer, clprune_mat qkv)
{
    const clprune_attention_desc *desc = &layer->set.attention;
    const size_t cols = desc->heads * desc->cols, kv_cols = desc->kv_heads * desc->cols;
    parts p = {qkv, qkv, qkv};
    p.q.cols = cols;
    p.k.cols = p.v.cols = kv_cols;
    p.k.offset += cols;
    p.v.offset += cols + kv_cols;
    return p;
}

/* Of the call's samples. Inference drops nothing. */
static clprune_attention_desc desc_of(
    const clprune__net_call *call, const clprune__net_layer *layer)
{
    clprune_attention_desc desc = layer->set.attention;
    desc.first = call->first;
    desc.lengths = call->data->lengths;
    desc.seed = clprune__net_layer_seed(call->net, layer);
    if (!call->training)
        desc.rate = 0;
    return desc;
}

/* The keys and values of a row, side by side. */
static size_t attention_history(const clprune__net_layer *layer)
{
    return 2 * layer->set.attention.kv_heads * layer->set.attention.cols;
}

/* Copies keys and values of the call's rows behind those of earlier passes, all of which take their
 * place in *x. */
static clprune_status remember(const clprune__net_call *call, parts *x)
{
    const clprune_attention_desc *desc = &call->layer->set.attention;
    const clprune_mat all = clprune__net_history(call);
    const size_t rows = desc->rows, calls = rows > 1 ? call->count : 1;
    for (size_t n = 0; n < calls; ++n) { /* one row of each sample, or the rows of one */
        clprune_mat from = clprune_mat_rows(x->k, n * rows, rows * call->count / calls), to = all;
        from.cols = to.cols = all.cols;
        to.rows = from.rows;
        to.offset += (n * desc->keys + call->data->first) * all.ld;
        if (rows == 1)
            to.ld = desc->keys * all.ld;
        TRY(clprune_mat_copy(call->net->context, from, to, NULL));
    }
    x->k = x->v = all;
    x->k.cols = x->v.cols = all.cols / 2;
    x->v.offset += x->v.cols;
    return CLPRUNE_SUCCESS;
}

static clprune_status attention_forward(const clprune__net_call *call)
{
    const clprune__net_layer *layer = call->layer;
    parts x = parts_of(layer, clprune__net_x(call, 0));
    clprune_attention_desc desc = desc_of(call, layer);
    if (call->net->graph.whole > 0) {
        desc.past = call->data->first;
        TRY(remember(call, &x));
    }
    return clprune_attention_forward(
        call->net->context, &desc, call->count, x.q, x.k, x.v, clprune__net_y(call), NULL);
}

/* Scores, and sums of values; of rows at once the mean of all passes. */
static double attention_work(const clprune__net_graph *graph, const clprune__net_layer *layer)
{
    const clprune_attention_desc *desc = &layer->set.attention;
    const double queries = (double)desc->queries, rows = (double)desc->rows;
    const double seen = graph->whole > 0 ? (double)graph->whole : queries;
    return queries * (desc->causal ? seen + 1 : 2 * rows) * (double)(desc->heads * desc->cols);
}

static bool attention_by_row(const clprune__net_graph *graph, const clprune__net_layer *layer)
{
    (void)graph;
    return layer->set.attention.causal;
}

const clprune__net_kind clprune__net_attention_kind = {.name = "attention",
    .by_row = attention_by_row,
    .history = attention_history,
    .forward = attention_forward,
    .work = attention_work};

/* y = softmax(q k^T / sqrt(e)) v */
static clprune_status attention_backward(const clprune__net_call *call)
{
    const clprune__net_layer *layer = clprune__net_link(call, 0);
    const parts x = parts_of(layer, clprune__net_operand(call, 0));
    const parts dx = parts_of(layer, clprune__net_dx(call, 0));
    const clprune_attention_desc desc = desc_of(call, layer);
    return clprune_attention_backward(call->net->context, &desc, call->count, x.q, x.k, x.v,
        clprune__net_dy(call), dx.q, dx.k, dx.v, NULL);
}

const clprune__net_way clprune__net_attention_ways[] = {
    {.name = "attention",
        .chain = {&clprune__net_attention_kind},
        .needs = {{0, 0, CLPRUNE__NET_DENSE, false, 8}}, /* errors of scores grow by exp */
        .needs_count = 1,
        .ends = {{CLPRUNE__NET_APART, false}},
        .backward = attention_backward},
    {.name = NULL},
};

clprune_net_value clprune_net_attention(
    clprune_net *net, const char *name, clprune_net_value qkv, const clprune_net_attn *attn)
{
    ENTER_QUIETLY(net != NULL ? net->context : NULL);
    const clprune__net_value *in = clprune__net_read(net, name, qkv);
    if (in == NULL)
        return (clprune_net_value){0};
    clprune__net_shape shape = in->shape;
    clprune_attention_desc desc = {.rows = shape.rows, .queries = net->graph.whole};
    if (attn != NULL)
        desc = (clprune_attention_desc){.rows = shape.rows,
            .heads = attn->heads,
            .kv_heads = attn->kv_heads > 0 ? attn->kv_heads : attn->heads,
            .queries = attn->queries > 0      ? attn->queries
                       : net->graph.whole > 0 ? net->graph.whole
                                              : shape.rows,
            .causal = attn->causal,
            .keys = net->graph.whole,
            .rate = attn->rate};
    size_t all = 0;
    const bool some = desc.heads > 0 && clprune__mul(desc.kv_heads, 2, &all) &&
                      clprune__add(all, desc.heads, &all);
    if (!some || desc.heads % desc.kv_heads != 0 || shape.cols % all != 0) {
        clprune__net_wrong(net, CLPRUNE_INVALID_SIZE,
            "layer %s: %zu columns are not %zu heads of q and %zu each of k and v, or these do not "
            "divide those",
            name, shape.cols, desc.heads, desc.kv_heads);
        return (clprune_net_value){0};
    }
    desc.cols = shape.cols / all;
    for (size_t i = 0; i < sizeof attn->reserved / sizeof *attn->reserved; ++i)
        if (attn->reserved[i] != 0)
            clprune__net_wrong(net, CLPRUNE_INVALID_ARGUMENT,
                "layer %s: a reserved field is not 0; zero-initialise clprune_net_attn", name);
    if (!(desc.rate >= 0 && desc.rate < 1))
        clprune__net_wrong(net, CLPRUNE_INVALID_ARGUMENT,
            "layer %s: its rate is %g, expected 0 to below 1", name, (double)desc.rate);
    if (desc.cols > 512)
        clprune__net_wrong(net, CLPRUNE_INVALID_SIZE,
            "layer %s: heads have %zu columns, expected at most 512", name, desc.cols);
    if (net->graph.whole > 0 && desc.queries == net->graph.whole)
        desc.queries = shape.rows;
    else if (net->graph.whole > 0)
        clprune__net_wrong(net, CLPRUNE_INVALID_ARGUMENT,
            "layer %s: %zu queries, expected all %zu rows with desc.rows_at_once", name,
            desc.queries, net->graph.whole);
    if (desc.queries > shape.rows)
        clprune__net_wrong(net, CLPRUNE_INVALID_SIZE,
            "layer %s: %zu queries, expected at most the %zu rows of a sample", name, desc.queries,
            shape.rows);
    shape = (clprune__net_shape){desc.queries, desc.heads * desc.cols, {0, 0}};
    clprune__net_layer *layer =
        clprune__net_add(net, &clprune__net_attention_kind, name, &qkv, 1, shape);
    if (layer != NULL)
        layer->set.attention = desc;
    return clprune__net_last(net);
}
