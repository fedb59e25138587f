/* Linear layers with their adapters: y + (alpha / rank) * (x A^T) B^T, as layers of their own. What
 * they keep is x for the gradient of A, and x A^T, which is narrow, for that of B. */
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "net/graph.h"
#include "net/layers/net_linear.h"
#include "runtime/context/check.h"

void clprune_net_lora(clprune_net *net, const char *pattern, size_t rank, float alpha)
{
    ENTER_QUIETLY(net != NULL ? net->context : NULL);
    if (net == NULL)
        return;
    free(net->lora.pattern);
    net->lora = (clprune__net_lora){.rank = rank, .factor = rank > 0 ? alpha / (float)rank : 0};
    if (pattern == NULL || rank == 0)
        return;
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
    char text[4][TEXT];
    static const char *const suffixes[4] = {"A", "scale", "B", "sum"};
    if (net == NULL || y.id == 0 || net->lora.pattern == NULL ||
        fnmatch(net->lora.pattern, net->layers[y.id - 1].name, 0) != 0)
        return y;
    const size_t out = net->values[y.id - 1].shape.cols;
    for (size_t i = 0; i < 4; ++i)
        if (snprintf(text[i], TEXT, "%s.lora_%s", name, suffixes[i]) >= TEXT) {
            clprune__net_wrong(
                net, CLPRUNE_INVALID_ARGUMENT, "layer %s: its name is too long to adapt", name);
            return y;
        }
    clprune_net_value a = clprune__net_add_linear(net, text[0], x, net->lora.rank, false);
    a = clprune_net_scale(net, text[1], a, net->lora.factor);
    a = clprune__net_add_linear(net, text[2], a, out, false);
    if (a.id != 0) { /* begins as 0, so that the model begins as it was */
        const clprune__net_layer *layer = &net->layers[a.id - 1];
        net->params[layer->param[0]].inputs = 0;
    }
    const clprune_net_value sum = clprune_net_add(net, text[3], y, a);
    if (sum.id != 0) {
        net->layers[sum.id - 1].adapted = true;
        net->layers[a.id - 1].adapter = net->layers[a.id - 3].adapter = true;
    }
    return sum;
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
