/* Linear layers with their adapters: y + s B^T with s = (alpha / rank) * x A^T, x dropped out or
 * not, as layers of their own. What they keep is that x for the gradient of A, and s, which is
 * narrow, for that of B. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/checked.h"
#include "core/system.h"
#include "net/build/append.h"
#include "net/kinds/kinds.h"
#include "net/kinds/net_linear.h"
#include "net/net_private.h"
#include "net/run/call.h"
#include "runtime/context/check.h"

/* The columns of the output that an adapter adds to. */
static clprune_mat window(const clprune__net_layer *layer, clprune_mat y)
{
    y.offset += layer->set.sizes[0];
    y.cols = layer->set.sizes[1];
    return y;
}

/* Adds s B^T to y, in place if nothing else reads that. */
static clprune_status adapter_forward(const clprune__net_call *call)
{
    clprune_context *context = call->net->context;
    const clprune_mat from = clprune__net_x(call, 0), to = clprune__net_y(call);
    if (from.buffer != to.buffer || from.offset != to.offset)
        TRY(clprune_mat_copy(context, from, to, NULL));
    return clprune_gemm(context, false, true, 1.0f, 1.0f, clprune__net_x(call, 1),
        clprune__net_param_value(call->net, call->layer, 0), window(call->layer, to), NULL);
}

static double adapter_work(const clprune__net_graph *graph, const clprune__net_layer *layer)
{
    const clprune__net_shape *y = clprune__net_in_shape(graph, layer, 0);
    return (double)y->rows * (double)layer->set.sizes[1] *
           (double)clprune__net_in_shape(graph, layer, 1)->cols;
}

const clprune__net_kind clprune__net_adapter_kind = {.name = "adapter",
    .over = true,
    .by_row = clprune__net_by_row,
    .forward = adapter_forward,
    .work = adapter_work};

/* out = y + s B^T: dB = dout^T s, ds = dout B, dy is dout */
static clprune_status adapter_backward(const clprune__net_call *call)
{
    const clprune__net_layer *layer = clprune__net_link(call, 0);
    const clprune_mat dout = window(layer, clprune__net_dy(call)), ds = clprune__net_dx(call, 1);
    TRY(clprune__net_product(
        call, 0, false, clprune__net_beta(call), dout, clprune__net_grad(call, layer, 0)));
    if (ds.rows == 0)
        return CLPRUNE_SUCCESS;
    return clprune_gemm(call->net->context, false, false, 1.0f, clprune__net_dx_beta(call, 1), dout,
        clprune__net_param_value(call->net, layer, 0), ds, NULL);
}

const clprune__net_way clprune__net_lora_ways[] = {
    {.name = "adapter",
        .chain = {&clprune__net_adapter_kind},
        .needs = {{0, 1, CLPRUNE__NET_PRODUCT, true}},
        .needs_count = 1,
        .ends = {{CLPRUNE__NET_PASS, false}, {CLPRUNE__NET_APART, true}},
        .backward = adapter_backward},
    {.name = NULL},
};

void clprune__net_end_lora(clprune_net *net)
{
    if (net->draft.lora.pattern != NULL && !net->draft.lora.used)
        clprune__net_wrong(net, CLPRUNE_INVALID_ARGUMENT,
            "clprune_net_lora: no linear layer matches %s", net->draft.lora.pattern);
}

void clprune_net_lora(clprune_net *net, const char *pattern, size_t rank, float alpha)
{
    ENTER_QUIETLY(net != NULL ? net->context : NULL);
    if (net == NULL)
        return;
    clprune__net_end_lora(net);
    free(net->draft.lora.pattern);
    net->draft.lora = (clprune__net_lora){.rank = rank};
    if (pattern == NULL)
        return;
    if (rank == 0 || !isfinite(alpha)) {
        clprune__net_wrong(net, CLPRUNE_INVALID_ARGUMENT,
            "clprune_net_lora: rank is %zu and alpha %g, expected at least 1 and a finite number",
            rank, (double)alpha);
        return;
    }
    net->draft.lora.factor = alpha / (float)rank;
    net->draft.lora.pattern = strdup(pattern);
    if (net->draft.lora.pattern == NULL)
        clprune__net_wrong(net, CLPRUNE_OUT_OF_HOST_MEMORY, "no memory for %s", pattern);
}

void clprune_net_lora_dropout(clprune_net *net, float rate)
{
    ENTER_QUIETLY(net != NULL ? net->context : NULL);
    if (net == NULL)
        return;
    if (!(rate >= 0 && rate < 1))
        clprune__net_wrong(net, CLPRUNE_INVALID_ARGUMENT,
            "clprune_net_lora_dropout: the rate is %g, expected 0 to below 1", (double)rate);
    net->draft.lora_dropout = rate;
}

enum { TEXT = 256 };

/* y with an adapter of linear layer `name`, which reads x and has `out` columns from `first` on. */
static clprune_net_value adapt(clprune_net *net, const char *name, clprune_net_value x,
    clprune_net_value y, size_t first, size_t out)
{
    static const char *const suffixes[] = {"A", "scale", "B", "dropout"};
    enum { NAMES = sizeof suffixes / sizeof *suffixes };
    char text[NAMES][TEXT];
    const clprune__net_shape shape = net->graph.values[y.id - 1].shape;
    for (size_t i = 0; i < NAMES; ++i)
        if (snprintf(text[i], TEXT, "%s.lora_%s", name, suffixes[i]) >= TEXT) {
            clprune__net_wrong(
                net, CLPRUNE_INVALID_ARGUMENT, "layer %s: its name is too long to adapt", name);
            return y;
        }
    if (net->draft.lora_dropout > 0)
        x = clprune_net_dropout(net, text[3], x, net->draft.lora_dropout);
    clprune_net_value a = clprune__net_add_linear(net, text[0], x, net->draft.lora.rank, false);
    if (a.id != 0)
        net->draft.layers[a.id - 1].adapter = true;
    a = clprune_net_scale(net, text[1], a, net->draft.lora.factor);
    if (a.id == 0 || clprune__net_add(net, &clprune__net_adapter_kind, text[2],
                         (const clprune_net_value[]){y, a}, 2, shape) == NULL)
        return (clprune_net_value){0};
    clprune__net_layer *layer = &net->draft.layers[net->graph.count - 1];
    layer->adapter = true;
    layer->set.sizes[0] = first;
    layer->set.sizes[1] = out;
    clprune__net_add_param(net, ".weight", /* begins as 0, so that the model begins as it was */
        (clprune__net_param){.rank = 2, .shape = {out, net->draft.lora.rank}, .decay = true});
    return clprune__net_last(net);
}

/* The name of a part: that of its layer with another last word. False: it is too long. */
static bool part_name(const char *layer, const char *part, char text[TEXT])
{
    const char *dot = strrchr(layer, '.');
    const int stem = dot != NULL ? (int)(dot - layer) + 1 : 0;
    return snprintf(text, TEXT, "%.*s%s", stem, layer, part) < TEXT;
}

/* Adds a linear layer, and the adapters that clprune_net_lora asked for: its own, or those of its
 * parts. */
static clprune_net_value add_adapted(clprune_net *net, const char *name, clprune_net_value x,
    size_t out, bool bias, const clprune_net_linear_part *parts, size_t count)
{
    const clprune_net_linear_part self = {.out = out};
    clprune_net_value y = clprune__net_add_linear(net, name, x, out, bias);
    if (net == NULL || y.id == 0 || net->draft.lora.pattern == NULL)
        return y;
    char short_name[TEXT], whole[TEXT];
    const size_t layer = y.id - 1;
    const bool all =
        clprune__system_matches(net->draft.lora.pattern, net->graph.layers[layer].name);
    if (parts == NULL)
        count = 1;
    for (size_t i = 0, first = 0; i < count && y.id != 0; ++i) {
        const clprune_net_linear_part *part = parts != NULL ? &parts[i] : &self;
        const bool named = part->name != NULL;
        if (named && (!part_name(name, part->name, short_name) ||
                         !part_name(net->graph.layers[layer].name, part->name, whole))) {
            clprune__net_wrong(
                net, CLPRUNE_INVALID_ARGUMENT, "layer %s: its name is too long to adapt", name);
            return y;
        }
        if (all || (named && clprune__system_matches(net->draft.lora.pattern, whole))) {
            net->draft.lora.used = true;
            y = adapt(net, named ? short_name : name, x, y, first, part->out);
        }
        first += part->out;
    }
    return y;
}

clprune_net_value clprune_net_linear(
    clprune_net *net, const char *name, clprune_net_value x, size_t out)
{
    ENTER_QUIETLY(net != NULL ? net->context : NULL);
    return add_adapted(net, name, x, out, true, NULL, 0);
}

clprune_net_value clprune_net_project(
    clprune_net *net, const char *name, clprune_net_value x, size_t out)
{
    ENTER_QUIETLY(net != NULL ? net->context : NULL);
    return add_adapted(net, name, x, out, false, NULL, 0);
}

clprune_net_value clprune_net_linears(clprune_net *net, const char *name, clprune_net_value x,
    const clprune_net_linear_part *parts, size_t count, bool bias)
{
    ENTER_QUIETLY(net != NULL ? net->context : NULL);
    size_t out = 0;
    bool good = parts != NULL && count > 0;
    for (size_t i = 0; good && i < count; ++i)
        good = parts[i].name != NULL && parts[i].name[0] != '\0' && parts[i].out > 0 &&
               clprune__add(out, parts[i].out, &out);
    if (!good) {
        clprune__net_wrong(net, CLPRUNE_INVALID_ARGUMENT,
            "layer %s: each of its parts needs a name and outputs, and there must be one",
            name != NULL ? name : "(NULL)");
        return (clprune_net_value){0};
    }
    return add_adapted(net, name, x, out, bias, parts, count);
}
