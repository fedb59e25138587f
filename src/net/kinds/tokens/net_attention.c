/* Attention over q, k and v, which lie side by side in one value: of all rows, or of windows. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/checked.h"
#include "net/build/append.h"
#include "net/kinds/kinds.h"
#include "net/run/call.h"
#include "nn/tokens/attention_bias_private.h"
#include "runtime/context/check.h"
#include "runtime/memory/scratch.h"

/* q, k and v of a matrix like the layer's input. */
typedef struct parts {
    clprune_mat q, k, v;
} parts;

static parts parts_of(const clprune__net_layer *layer, clprune_mat qkv)
{
    const clprune_attention_desc *desc = &layer->set.attention.desc;
    const size_t cols = desc->heads * desc->cols, kv_cols = desc->kv_heads * desc->cols;
    parts p = {qkv, qkv, qkv};
    p.q.cols = cols;
    p.k.cols = p.v.cols = kv_cols;
    p.k.offset += cols;
    p.v.offset += cols + kv_cols;
    return p;
}

enum { VALUES = 0 }; /* parameter */

static clprune__attention_lists lists_of(
    const clprune__net_call *call, const clprune__net_layer *layer)
{
    return (clprune__attention_lists){
        .lists = clprune__net_unit_of(call->net, layer)->state[CLPRUNE__NET_TABLE],
        .masks = layer->set.attention.masks,
        .masked = layer->set.attention.masks < layer->set.attention.words};
}

static clprune_status scratch_bias(
    const clprune__net_call *call, const clprune__net_layer *layer, clprune_mat *bias)
{
    const clprune__net_attention *set = &layer->set.attention;
    return clprune__scratch_mat(
        call->net->context, set->biases * set->desc.heads * set->desc.rows, set->desc.rows, bias);
}

/* Of the call's samples, with the bias in scratch. Inference drops nothing. */
static clprune_status take_desc(
    const clprune__net_call *call, const clprune__net_layer *layer, clprune_attention_desc *desc)
{
    clprune_context *context = call->net->context;
    const clprune__net_attention *set = &layer->set.attention;
    REQUIRE(set->windows == 1 || call->data->lengths.buffer == NULL, CLPRUNE_INVALID_ARGUMENT,
        "layer %s has windows, which take no data.lengths", layer->name);
    REQUIRE((set->windows == 1 && set->biases == 0 && call->net->graph.whole == 0) ||
                call->data->starts.buffer == NULL,
        CLPRUNE_INVALID_ARGUMENT,
        "layer %s has windows, a bias or rows_at_once, which take no data.starts", layer->name);
    *desc = set->desc;
    desc->first = call->first * set->windows;
    desc->lengths = call->data->lengths;
    desc->starts = call->data->starts;
    desc->seed = clprune__net_layer_seed(call->net, layer);
    if (!call->training)
        desc->rate = 0;
    if (set->biases == 0)
        return CLPRUNE_SUCCESS;
    const clprune__attention_lists lists = lists_of(call, layer);
    const clprune_mat values =
        layer->params > 0 ? clprune__net_param_value(call->net, layer, VALUES) : CLPRUNE_NO_MAT;
    TRY(scratch_bias(call, layer, &desc->bias));
    return clprune__attention_bias(call->net->context, &lists, set->desc.heads, values, desc->bias);
}

static clprune_status attention_create(
    const clprune__net_graph *graph, const clprune__net_layer *layer, clprune__net_unit *unit)
{
    return clprune__net_create_table(graph, layer, layer->set.attention.words, unit);
}

/* The keys and values of a row, side by side. */
static size_t attention_history(const clprune__net_layer *layer)
{
    const clprune_attention_desc *desc = &layer->set.attention.desc;
    return 2 * desc->kv_heads * desc->cols;
}

/* Copies keys and values of the call's rows behind those of earlier passes, all of which take their
 * place in *x. */
static clprune_status remember(const clprune__net_call *call, parts *x)
{
    const clprune_attention_desc *desc = &call->layer->set.attention.desc;
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
    SCRATCH_SCOPE(call->net->context);
    const clprune__net_layer *layer = call->layer;
    parts x = parts_of(layer, clprune__net_x(call, 0));
    clprune_attention_desc desc;
    TRY(take_desc(call, layer, &desc));
    if (call->net->graph.whole > 0) {
        desc.past = call->data->first;
        TRY(remember(call, &x));
    }
    return clprune_attention_forward(call->net->context, &desc,
        call->count * layer->set.attention.windows, x.q, x.k, x.v, clprune__net_y(call), NULL);
}

/* Scores, and sums of values; of rows at once the mean of all passes. */
static double attention_work(const clprune__net_graph *graph, const clprune__net_layer *layer)
{
    const clprune_attention_desc *desc = &layer->set.attention.desc;
    const double queries = (double)desc->queries, rows = (double)desc->rows;
    const double seen = graph->whole > 0 ? (double)graph->whole : queries;
    return (double)layer->set.attention.windows * queries * (desc->causal ? seen + 1 : 2 * rows) *
           (double)(desc->heads * desc->cols);
}

static bool attention_by_row(const clprune__net_graph *graph, const clprune__net_layer *layer)
{
    const clprune__net_attention *set = &layer->set.attention;
    (void)graph;
    return set->desc.causal && set->windows == 1 && set->biases == 0;
}

static const clprune__net_kind attention_kind = {.name = "attention",
    .by_row = attention_by_row,
    .history = attention_history,
    .create = attention_create,
    .forward = attention_forward,
    .work = attention_work};

/* y = softmax(q k^T / sqrt(e) + bias) v, bias from a table */
static clprune_status attention_backward(const clprune__net_call *call)
{
    clprune_context *context = call->net->context;
    SCRATCH_SCOPE(context);
    const clprune__net_layer *layer = clprune__net_link(call, 0);
    const clprune_mat dqkv = clprune__net_dx(call, 0), dy = clprune__net_dy(call);
    const parts x = parts_of(layer, clprune__net_operand(call, 0)), dx = parts_of(layer, dqkv);
    const size_t batch = call->count * layer->set.attention.windows;
    const clprune_mat dvalues =
        layer->params > 0 ? clprune__net_grad(call, layer, VALUES) : CLPRUNE_NO_MAT;
    clprune_attention_desc desc;
    TRY(take_desc(call, layer, &desc));
    if (!clprune__is_absent(dvalues)) {
        const clprune__attention_lists lists = lists_of(call, layer);
        clprune_mat dbias;
        TRY(scratch_bias(call, layer, &dbias));
        TRY(clprune_attention_backward_bias(context, &desc, batch, x.q, x.k, x.v, dy, dbias, NULL));
        TRY(clprune__attention_bias_backward(
            context, &lists, clprune__net_beta(call), dbias, dvalues));
    }
    if (clprune__is_absent(dqkv))
        return CLPRUNE_SUCCESS;
    return clprune_attention_backward(
        context, &desc, batch, x.q, x.k, x.v, dy, dx.q, dx.k, dx.v, NULL);
}

const clprune__net_way clprune__net_attention_ways[] = {
    {.name = "attention",
        .chain = {&attention_kind},
        .needs = {{0, 0, CLPRUNE__NET_DENSE, false, 8}}, /* errors of scores grow by exp */
        .needs_count = 1,
        .ends = {{CLPRUNE__NET_APART, false}},
        .backward = attention_backward},
    {.name = NULL},
};

/* Whether what is added to scores of `rows` rows is as it says; else an error of layer `name`. */
static bool check_bias(
    clprune_net *net, const char *name, const clprune_net_bias *bias, size_t rows, size_t windows)
{
    const bool table = bias->table != NULL, mask = bias->masks > 0;
    if ((!table && !mask) || (table && (bias->entries == 0 || bias->index == NULL)) ||
        (mask && bias->mask == NULL) || bias->entries > INT32_MAX / 2 || rows > INT16_MAX) {
        clprune__net_wrong(net, CLPRUNE_INVALID_ARGUMENT,
            "layer %s: its bias has no table of %zu entries with an index, and no mask, or more "
            "than %d rows",
            name, bias->entries, INT16_MAX);
        return false;
    }
    if (mask && windows % bias->masks != 0) {
        clprune__net_wrong(net, CLPRUNE_INVALID_SIZE,
            "layer %s: %zu masks do not divide the %zu windows of a sample", name, bias->masks,
            windows);
        return false;
    }
    for (size_t i = 0; table && i < rows * rows; ++i)
        if (bias->index[i] >= bias->entries) {
            clprune__net_wrong(net, CLPRUNE_INVALID_ARGUMENT,
                "layer %s: query %zu and key %zu have entry %u of %zu", name, i / rows, i % rows,
                (unsigned)bias->index[i], bias->entries);
            return false;
        }
    for (size_t i = 0; i < bias->masks * rows * rows; ++i)
        if (!isfinite(bias->mask[i])) {
            clprune__net_wrong(net, CLPRUNE_INVALID_ARGUMENT,
                "layer %s: element %zu of its mask is %g, expected a finite number", name, i,
                (double)bias->mask[i]);
            return false;
        }
    return true;
}

/* The words of attention_bias.cl: the index, places by entry, masks. */
static bool add_lists(clprune_net *net, clprune__net_layer *layer, const clprune_net_bias *bias)
{
    clprune__net_attention *set = &layer->set.attention;
    const size_t rows = set->desc.rows, all = rows * rows;
    const size_t entries = bias->table != NULL ? bias->entries : 0;
    size_t *next = calloc(entries + 1, sizeof *next);
    set->biases = bias->masks > 0 ? bias->masks : 1;
    set->masks = 2 * all + entries + 1;
    set->words = set->masks + bias->masks * all;
    layer->table = calloc(set->words, sizeof *layer->table);
    if (layer->table == NULL || next == NULL) {
        clprune__net_wrong(net, CLPRUNE_OUT_OF_HOST_MEMORY, "no memory for layer %s", layer->name);
        free(next);
        return false;
    }
    float *firsts = layer->table + all, *places = firsts + entries + 1;
    for (size_t i = 0; entries > 0 && i < all; ++i) {
        clprune__net_put_int(&layer->table[i], bias->index[i]);
        ++next[bias->index[i] + 1];
    }
    for (size_t e = 0; e < entries; ++e) {
        next[e + 1] += next[e];
        clprune__net_put_int(&firsts[e + 1], next[e + 1]);
    }
    for (size_t i = 0; entries > 0 && i < all; ++i)
        clprune__net_put_int(&places[next[bias->index[i]]++], i);
    if (bias->masks > 0)
        memcpy(layer->table + set->masks, bias->mask, bias->masks * all * sizeof *bias->mask);
    free(next);
    return true;
}

/* Takes the bias of the last layer. */
static void add_bias(clprune_net *net, clprune__net_layer *layer, const clprune_net_bias *bias)
{
    char suffix[128];
    const size_t heads = layer->set.attention.desc.heads;
    if (!add_lists(net, layer, bias) || bias->table == NULL)
        return;
    if (snprintf(suffix, sizeof suffix, ".%s", bias->table) >= (int)sizeof suffix)
        clprune__net_wrong(net, CLPRUNE_INVALID_ARGUMENT,
            "layer %s: the name of its table is too long", layer->name);
    clprune__net_add_param(
        net, suffix, (clprune__net_param){.rank = 2, .shape = {bias->entries, heads}});
}

/* Notes what is wrong with the layer over samples of `rows` rows. */
static void check_desc(clprune_net *net, const char *name, const clprune_net_attn *attn,
    const clprune_attention_desc *desc, size_t rows)
{
    const size_t window = desc->rows;
    for (size_t i = 0; i < sizeof attn->reserved / sizeof *attn->reserved; ++i)
        if (attn->reserved[i] != 0 || (attn->bias != NULL && attn->bias->reserved[i] != 0))
            clprune__net_wrong(net, CLPRUNE_INVALID_ARGUMENT,
                "layer %s: a reserved field is not 0; zero-initialise clprune_net_attn and _bias",
                name);
    if (!(desc->rate >= 0 && desc->rate < 1))
        clprune__net_wrong(net, CLPRUNE_INVALID_ARGUMENT,
            "layer %s: its rate is %g, expected 0 to below 1", name, (double)desc->rate);
    if (!(desc->cap >= 0 && isfinite(desc->cap)))
        clprune__net_wrong(net, CLPRUNE_INVALID_ARGUMENT,
            "layer %s: its cap is %g, expected 0 or a finite number above", name,
            (double)desc->cap);
    if (desc->cols > 512)
        clprune__net_wrong(net, CLPRUNE_INVALID_SIZE,
            "layer %s: heads have %zu columns, expected at most 512", name, desc->cols);
    if (window > rows || rows % window != 0 || (window < rows && desc->queries < window))
        clprune__net_wrong(net, CLPRUNE_INVALID_SIZE,
            "layer %s: windows of %zu rows do not divide the %zu of a sample, or not all of them "
            "are queries",
            name, window, rows);
    else if (net->graph.whole > 0 && attn->queries > 0 && attn->queries != net->graph.whole)
        clprune__net_wrong(net, CLPRUNE_INVALID_ARGUMENT,
            "layer %s: %zu queries, expected all %zu rows with desc.rows_at_once", name,
            attn->queries, net->graph.whole);
    else if (desc->queries > rows)
        clprune__net_wrong(net, CLPRUNE_INVALID_SIZE,
            "layer %s: %zu queries, expected at most the %zu rows of a sample", name, desc->queries,
            rows);
}

clprune_net_value clprune_net_attention(
    clprune_net *net, const char *name, clprune_net_value qkv, const clprune_net_attn *attn)
{
    ENTER_QUIETLY(net != NULL ? net->context : NULL);
    const clprune__net_value *in = clprune__net_read(net, name, qkv);
    if (in == NULL)
        return (clprune_net_value){0};
    clprune__net_shape shape = in->shape;
    const size_t window = attn != NULL && attn->window > 0 ? attn->window : shape.rows;
    const clprune_net_bias *bias = attn != NULL ? attn->bias : NULL;
    clprune_attention_desc desc = {.rows = window};
    if (attn != NULL)
        desc = (clprune_attention_desc){.rows = window,
            .heads = attn->heads,
            .kv_heads = attn->kv_heads > 0 ? attn->kv_heads : attn->heads,
            .queries =
                attn->queries > 0 && attn->queries != net->graph.whole ? attn->queries : window,
            .causal = attn->causal,
            .keys = net->graph.whole,
            .rate = attn->rate,
            .cap = attn->cap};
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
    check_desc(net, name, attn, &desc, shape.rows);
    const size_t windows = shape.rows / window;
    if (bias != NULL && !check_bias(net, name, bias, window, windows))
        return (clprune_net_value){0};
    if (windows > 1 || desc.queries < window)
        shape.grid = (clprune_extent){0, 0};
    shape = (clprune__net_shape){windows * desc.queries, desc.heads * desc.cols, shape.grid};
    clprune__net_layer *layer = clprune__net_add(net, &attention_kind, name, &qkv, 1, shape);
    if (layer == NULL)
        return (clprune_net_value){0};
    layer->set.attention = (clprune__net_attention){.desc = desc, .windows = windows};
    if (bias != NULL)
        add_bias(net, layer, bias);
    return clprune__net_last(net);
}
