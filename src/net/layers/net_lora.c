/* Linear layers with their adapters: y + s B^T with s = (alpha / rank) * x A^T, as layers of their
 * own. What they keep is x for the gradient of A, and s, which is narrow, for that of B. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/system.h"
#include "net/call.h"
#include "net/graph.h"
#include "net/layers/kinds.h"
#include "net/layers/net_linear.h"
#include "runtime/context/check.h"

/* Adds s B^T to y, in place if nothing else reads that. */
static clprune_status adapter_forward(const clprune__net_call *call)
{
    clprune_context *context = call->net->context;
    const clprune_mat from = clprune__net_x(call, 0), to = clprune__net_y(call);
    if (from.buffer != to.buffer || from.offset != to.offset)
        TRY(clprune_mat_copy(context, from, to, NULL));
    return clprune_gemm(context, false, true, 1.0f, 1.0f, clprune__net_x(call, 1),
        clprune__net_param_value(call->net, call->layer, 0), to, NULL);
}

static double adapter_work(const clprune_net *net, const clprune__net_layer *layer)
{
    const clprune__net_shape *y = clprune__net_in_shape(net, layer, 0);
    return (double)y->rows * (double)y->cols * (double)clprune__net_in_shape(net, layer, 1)->cols;
}

const clprune__net_kind clprune__net_adapter_kind = {
    .name = "adapter", .over = true, .forward = adapter_forward, .work = adapter_work};

/* out = y + s B^T: dB = dout^T s, ds = dout B, dy is dout */
static clprune_status adapter_backward(const clprune__net_call *call)
{
    const clprune__net_layer *layer = clprune__net_link(call, 0);
    const clprune_mat dout = clprune__net_dy(call), ds = clprune__net_dx(call, 1);
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
    if (net->lora.pattern != NULL && !net->lora.used)
        clprune__net_wrong(net, CLPRUNE_INVALID_ARGUMENT,
            "clprune_net_lora: no linear layer matches %s", net->lora.pattern);
}

void clprune_net_lora(clprune_net *net, const char *pattern, size_t rank, float alpha)
{
    ENTER_QUIETLY(net != NULL ? net->context : NULL);
    if (net == NULL)
        return;
    clprune__net_end_lora(net);
    free(net->lora.pattern);
    net->lora = (clprune__net_lora){.rank = rank};
    if (pattern == NULL)
        return;
    if (rank == 0 || !isfinite(alpha)) {
        clprune__net_wrong(net, CLPRUNE_INVALID_ARGUMENT,
            "clprune_net_lora: rank is %zu and alpha %g, expected at least 1 and a finite number",
            rank, (double)alpha);
        return;
    }
    net->lora.factor = alpha / (float)rank;
    net->lora.pattern = strdup(pattern);
    if (net->lora.pattern == NULL)
        clprune__net_wrong(net, CLPRUNE_OUT_OF_HOST_MEMORY, "no memory for %s", pattern);
}

/* The output of linear layer `name`, y from x, with an adapter if clprune_net_lora asked for one.
 */
static clprune_net_value adapt(
    clprune_net *net, const char *name, clprune_net_value x, clprune_net_value y)
{
    enum { TEXT = 256 };
    char text[3][TEXT];
    static const char *const suffixes[3] = {"A", "scale", "B"};
    if (net == NULL || y.id == 0 || net->lora.pattern == NULL ||
        !clprune__system_matches(net->lora.pattern, net->layers[y.id - 1].name))
        return y;
    net->lora.used = true;
    const clprune__net_shape shape = net->values[y.id - 1].shape;
    for (size_t i = 0; i < 3; ++i)
        if (snprintf(text[i], TEXT, "%s.lora_%s", name, suffixes[i]) >= TEXT) {
            clprune__net_wrong(
                net, CLPRUNE_INVALID_ARGUMENT, "layer %s: its name is too long to adapt", name);
            return y;
        }
    clprune_net_value a = clprune__net_add_linear(net, text[0], x, net->lora.rank, false);
    if (a.id != 0)
        net->layers[a.id - 1].adapter = true;
    a = clprune_net_scale(net, text[1], a, net->lora.factor);
    if (a.id == 0 || clprune__net_add(net, &clprune__net_adapter_kind, text[2],
                         (const clprune_net_value[]){y, a}, 2, shape) == NULL)
        return (clprune_net_value){0};
    net->layers[net->count - 1].adapter = true;
    clprune__net_add_param(net, ".weight", /* begins as 0, so that the model begins as it was */
        (clprune__net_param){.rank = 2, .shape = {shape.cols, net->lora.rank}, .decay = true});
    return clprune__net_last(net);
}

clprune_net_value clprune_net_linear(
    clprune_net *net, const char *name, clprune_net_value x, size_t out)
{
    ENTER_QUIETLY(net != NULL ? net->context : NULL);
    return adapt(net, name, x, clprune__net_add_linear(net, name, x, out, true));
}

clprune_net_value clprune_net_project(
    clprune_net *net, const char *name, clprune_net_value x, size_t out)
{
    ENTER_QUIETLY(net != NULL ? net->context : NULL);
    return adapt(net, name, x, clprune__net_add_linear(net, name, x, out, false));
}
