/* Layers and values as they are added. */
#include "net/build/append.h"
#include "net/net_private.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/checked.h"
#include "runtime/context/check.h"

void clprune__net_wrong(clprune_net *net, clprune_status status, const char *format, ...)
{
    va_list arguments;
    if (net == NULL || net->status != CLPRUNE_SUCCESS || net->settled)
        return;
    net->status = status;
    va_start(arguments, format);
    (void)vsnprintf(net->error, CLPRUNE__NET_TEXT, format, arguments);
    va_end(arguments);
}

const clprune__net_value *clprune__net_read(
    clprune_net *net, const char *name, clprune_net_value value)
{
    if (net == NULL || net->status != CLPRUNE_SUCCESS || net->settled)
        return NULL;
    if (value.net != net->serial || value.id == 0 || value.id > net->graph.count) {
        clprune__net_wrong(net, CLPRUNE_INVALID_ARGUMENT,
            "layer %s: its input is no value of this net", name != NULL ? name : "(NULL)");
        return NULL;
    }
    return &net->graph.values[value.id - 1];
}

clprune_net_value clprune__net_last(const clprune_net *net)
{
    if (net == NULL || net->status != CLPRUNE_SUCCESS || net->settled)
        return (clprune_net_value){0};
    return (clprune_net_value){net->serial, (uint32_t)net->graph.count};
}

/* Room for one more element; a power of two elements are allocated. */
static bool grow(void **array, size_t count, size_t size)
{
    if (count > 0 && (count & (count - 1)) != 0)
        return true;
    void *larger = realloc(*array, (count > 0 ? 2 * count : 1) * size);
    if (larger != NULL)
        *array = larger;
    return larger != NULL;
}

static char *join(const char *part, const char *name)
{
    const size_t size = (part != NULL ? strlen(part) + 1 : 0) + strlen(name) + 1;
    char *joined = malloc(size);
    if (joined != NULL)
        (void)snprintf(
            joined, size, "%s%s%s", part != NULL ? part : "", part != NULL ? "." : "", name);
    return joined;
}

static bool is_taken(const clprune_net *net, const char *name)
{
    for (size_t i = 0; i < net->graph.count; ++i)
        if (strcmp(net->graph.layers[i].name, name) == 0)
            return true;
    return net->graph.head_name != NULL && strcmp(net->graph.head_name, name) == 0;
}

/* Whether a kind of layer reads what its input gives: the data of a step needs a layer for it. */
static bool check_reads(
    clprune_net *net, const clprune__net_kind *kind, const char *name, clprune__net_content content)
{
    if (content == kind->reads)
        return true;
    if (content == CLPRUNE__NET_BYTES)
        clprune__net_wrong(net, CLPRUNE_INVALID_ARGUMENT,
            "layer %s (%s) reads the images; a convolution or patches can", name, kind->name);
    else if (content == CLPRUNE__NET_TOKENS)
        clprune__net_wrong(net, CLPRUNE_INVALID_ARGUMENT,
            "layer %s (%s) reads the tokens; an embedding can", name, kind->name);
    else
        clprune__net_wrong(net, CLPRUNE_INVALID_ARGUMENT,
            "layer %s: its input is not the %s of the net", name,
            kind->reads == CLPRUNE__NET_BYTES ? "images" : "tokens");
    return false;
}

clprune__net_layer *clprune__net_add(clprune_net *net, const clprune__net_kind *kind,
    const char *name, const clprune_net_value *in, size_t ins, clprune__net_shape shape)
{
    if (net == NULL || net->status != CLPRUNE_SUCCESS || net->settled)
        return NULL;
    if (name == NULL || name[0] == '\0') {
        clprune__net_wrong(
            net, CLPRUNE_INVALID_ARGUMENT, "a layer of kind %s has no name", kind->name);
        return NULL;
    }
    for (size_t i = 0; i < ins; ++i)
        if (!check_reads(net, kind, name, net->graph.layers[in[i].id - 1].kind->gives))
            return NULL;
    if (shape.cols > 0 &&
        shape.rows > SIZE_MAX / sizeof(float) / net->graph.desc.batch / shape.cols) {
        clprune__net_wrong(net, CLPRUNE_SIZE_OVERFLOW,
            "layer %s: %zu samples of %zu x %zu are too large", name, net->graph.desc.batch,
            shape.rows, shape.cols);
        return NULL;
    }
    char *full = join(net->draft.part, name);
    clprune__net_graph *graph = &net->graph;
    const bool grown = grow((void **)&net->draft.layers, graph->count, sizeof *graph->layers) &&
                       grow((void **)&net->draft.values, graph->count, sizeof *graph->values);
    graph->layers = net->draft.layers;
    graph->values = net->draft.values;
    if (full == NULL || !grown) {
        clprune__net_wrong(net, CLPRUNE_OUT_OF_HOST_MEMORY, "no memory for layer %s", name);
        free(full);
        return NULL;
    }
    if (is_taken(net, full)) {
        clprune__net_wrong(net, CLPRUNE_INVALID_ARGUMENT, "two layers are called %s", full);
        free(full);
        return NULL;
    }
    clprune__net_layer *layer = &net->draft.layers[graph->count];
    *layer = (clprune__net_layer){.kind = kind, .name = full, .ins = ins};
    net->draft.values[graph->count] = (clprune__net_value){.shape = shape};
    for (size_t i = 0; i < ins; ++i)
        layer->in[i] = in[i].id - 1;
    graph->count++;
    return layer;
}

clprune__net_layer *clprune__net_add_input(clprune_net *net, const clprune__net_kind *kind,
    const char *name, const clprune_net_value *in, size_t ins, size_t number,
    clprune__net_shape shape)
{
    char full[32], *part = net->draft.part;
    (void)snprintf(full, sizeof full, number > 0 ? "%s.%zu" : "%s", name, number);
    net->draft.part = NULL;
    clprune__net_layer *layer = clprune__net_add(net, kind, full, in, ins, shape);
    net->draft.part = part;
    return layer;
}

/* Adds a parameter called `name` + suffix. Returns its number, or SIZE_MAX after an error. */
static size_t add_param(
    clprune_net *net, const char *name, const char *suffix, clprune__net_param param)
{
    const size_t size = strlen(name) + strlen(suffix) + 1;
    size_t bytes = sizeof(float);
    for (size_t i = 0; i < param.rank; ++i)
        if (!clprune__mul(bytes, param.shape[i], &bytes)) {
            clprune__net_wrong(net, CLPRUNE_SIZE_OVERFLOW,
                "the bytes of parameter %s%s overflow size_t", name, suffix);
            return SIZE_MAX;
        }
    param.name = malloc(size);
    const bool grown =
        grow((void **)&net->draft.params, net->graph.params_count, sizeof *net->graph.params);
    net->graph.params = net->draft.params;
    if (param.name == NULL || !grown) {
        clprune__net_wrong(
            net, CLPRUNE_OUT_OF_HOST_MEMORY, "no memory for a parameter of %s", name);
        free(param.name);
        return SIZE_MAX;
    }
    (void)snprintf(param.name, size, "%s%s", name, suffix);
    for (size_t i = 0; i < net->graph.params_count; ++i)
        if (strcmp(net->graph.params[i].name, param.name) == 0) {
            clprune__net_wrong(
                net, CLPRUNE_INVALID_ARGUMENT, "two parameters are called %s", param.name);
            free(param.name);
            return SIZE_MAX;
        }
    net->draft.params[net->graph.params_count] = param;
    return net->graph.params_count++;
}

void clprune__net_add_param(clprune_net *net, const char *suffix, clprune__net_param param)
{
    if (net->status != CLPRUNE_SUCCESS)
        return;
    clprune__net_layer *layer = &net->draft.layers[net->graph.count - 1];
    param.layer = net->graph.count - 1;
    const size_t added = add_param(net, layer->name, suffix, param);
    if (added != SIZE_MAX)
        layer->param[layer->params++] = added;
}

size_t clprune__net_add_head(
    clprune_net *net, const char *name, size_t layer, clprune__net_param param)
{
    if (net->status != CLPRUNE_SUCCESS)
        return SIZE_MAX;
    if (name == NULL || name[0] == '\0') {
        clprune__net_wrong(net, CLPRUNE_INVALID_ARGUMENT, "a token loss has no name");
        return SIZE_MAX;
    }
    char *full = join(net->draft.part, name);
    if (full == NULL) {
        clprune__net_wrong(net, CLPRUNE_OUT_OF_HOST_MEMORY, "no memory for token loss %s", name);
        return SIZE_MAX;
    }
    if (is_taken(net, full)) {
        clprune__net_wrong(net, CLPRUNE_INVALID_ARGUMENT, "two layers are called %s", full);
        free(full);
        return SIZE_MAX;
    }
    net->graph.head_name = full;
    param.layer = layer;
    return add_param(net, full, ".weight", param);
}

size_t clprune__net_add_to_head(clprune_net *net, const char *suffix, clprune__net_param param)
{
    param.layer = net->graph.output;
    return add_param(net, net->graph.head_name, suffix, param);
}
