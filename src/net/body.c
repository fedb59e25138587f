#include "net/body.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "net/graph.h"
#include "net/layers/kinds.h"
#include "net/plan/steps.h"
#include "runtime/context/check.h"
#include "runtime/context/context_private.h"
#include "runtime/memory/ledger.h"

/* ---- layers and values -------------------------------------------------------------------------
 */

static clprune_status create_mat(clprune_net *net, clprune_memory_category category,
    const char *layer, const char *suffix, size_t rows, size_t cols, clprune_mat *mat)
{
    char name[256];
    (void)snprintf(name, sizeof name, "%s%s", layer, suffix);
    return clprune_mat_create(net->context, category, name, rows, cols, mat);
}

/* The state of the same name of desc.weights_of. */
static clprune_status share_state(clprune_net *net, clprune_net_state *state, size_t cols)
{
    clprune_context *context = net->context;
    const clprune_net *of = net->desc.weights_of;
    for (size_t i = 0; i < of->states_count; ++i)
        if (strcmp(of->states[i].name, state->name) == 0 && of->states[i].mat.cols == cols) {
            state->mat = of->states[i].mat;
            return CLPRUNE_SUCCESS;
        }
    return clprune__fail(context, CLPRUNE_INVALID_ARGUMENT, __FILE__, __LINE__,
        "the net of desc.weights_of has no state %s of %zu", state->name, cols);
}

/* Statistics of a batch norm; the running ones are states of the net. */
static clprune_status create_states(clprune_net *net, clprune__net_layer *layer, size_t cols)
{
    static const char *const names[] = {".running_mean", ".running_var", ".mean", ".inv"};
    clprune_context *context = net->context;
    for (size_t i = 2; i < 4; ++i)
        TRY(create_mat(
            net, CLPRUNE_MEMORY_WORKSPACE, layer->norm, names[i], 1, cols, &layer->state[i]));
    for (size_t i = 0; i < 2; ++i) {
        const size_t size = strlen(layer->norm) + strlen(names[i]) + 1;
        char *name = malloc(size);
        REQUIRE(name != NULL, CLPRUNE_OUT_OF_HOST_MEMORY, "no memory for a name");
        (void)snprintf(name, size, "%s%s", layer->norm, names[i]);
        clprune_net_state *state = &net->states[net->states_count++];
        state->name = name;
        if (net->desc.weights_of != NULL)
            TRY(share_state(net, state, cols));
        else
            TRY(clprune_mat_create(context, CLPRUNE_MEMORY_PARAMETERS, name, 1, cols, &state->mat));
        layer->state[i] = state->mat;
    }
    return CLPRUNE_SUCCESS;
}

static clprune_status create_layer(clprune_net *net, size_t i)
{
    clprune__net_layer *layer = &net->layers[i];
    clprune__net_value *value = &net->values[i];
    const clprune__net_shape *shape = &value->shape;
    const clprune__net_tile *tile = layer->tile != SIZE_MAX ? &net->tiles[layer->tile] : NULL;
    const size_t batch = net->desc.batch;
    char name[256];
    if (layer->gone)
        return CLPRUNE_SUCCESS;
    if (layer->kind->create != NULL)
        TRY(layer->kind->create(net->context, layer));
    if (layer->kind == &clprune__net_batch_norm_kind)
        TRY(create_states(net, layer, shape->cols));
    if (layer->kind == &clprune__net_max_pool_kind && !net->desc.infers) {
        clprune_max_pool_sizes sizes;
        const size_t again = layer->made_again;
        TRY(clprune_max_pool_size_query(
            (again > 0 ? again : batch) * shape->rows, shape->cols, &sizes));
        TRY(create_mat(net, again > 0 ? CLPRUNE_MEMORY_WORKSPACE : CLPRUNE_MEMORY_ACTIVATIONS,
            layer->name, ".positions", sizes.rows, sizes.cols, &layer->positions));
    }
    if (tile != NULL && tile->way->create != NULL && layer->tile_last == i)
        TRY(tile->way->create(net, tile->layers));
    if (tile != NULL && tile->way->keeps_mask && tile->layers[0] == i && !net->desc.infers) {
        const clprune_keep keep = clprune__net_mask_keep(net, i);
        (void)snprintf(name, sizeof name, "%s.%s", layer->name,
            keep.form == CLPRUNE_FORM_GELU_CODE ? "codes" : "signs");
        TRY(clprune_saved_create(
            net->context, name, &keep, batch, shape->rows, shape->cols, &layer->mask));
    }
    if (value->kept)
        TRY(clprune_saved_create(net->context, layer->name, &value->keep, batch, shape->rows,
            shape->cols, &value->store));
    return CLPRUNE_SUCCESS;
}

clprune_status clprune__net_reset_states(clprune_net *net)
{
    clprune_context *context = net->context;
    for (size_t i = 0; i < net->states_count; ++i) { /* a mean, then a variance */
        const clprune_mat mat = net->states[i].mat;
        float *values = calloc(mat.cols, sizeof *values);
        REQUIRE(
            values != NULL, CLPRUNE_OUT_OF_HOST_MEMORY, "no memory for %s", net->states[i].name);
        for (size_t k = 0; k < mat.cols && i % 2 == 1; ++k)
            values[k] = 1.0f;
        const clprune_status status = clprune_mat_write(context, mat, values);
        free(values);
        TRY(status);
    }
    return CLPRUNE_SUCCESS;
}

clprune_status clprune__net_body_create(clprune_net *net)
{
    const clprune_keep dense = {.form = CLPRUNE_FORM_DENSE},
                       bf16 = {.form = CLPRUNE_FORM_QUANTISED, .bits = 16};
    clprune_context *context = net->context;
    const clprune_memory_usage *activations = &context->ledger->usage[CLPRUNE_MEMORY_ACTIVATIONS];
    const uint64_t before = activations->live;
    TRY(clprune__net_params_create(net));
    net->states = calloc(2 * net->count, sizeof *net->states);
    REQUIRE(net->states != NULL, CLPRUNE_OUT_OF_HOST_MEMORY, "no memory for the net");
    for (size_t i = 0; i < net->count; ++i)
        TRY(create_layer(net, i));
    if (net->loss == CLPRUNE__NET_CROSS_ENTROPY) {
        const clprune__net_shape *shape = &net->values[net->output].shape;
        TRY(clprune_mat_create(context, CLPRUNE_MEMORY_ACTIVATIONS, "log_softmax",
            net->desc.batch * shape->rows, shape->cols, &net->log_p));
        TRY(clprune_mat_create(
            context, CLPRUNE_MEMORY_WORKSPACE, "weight of a row", 1, 1, &net->row_weight));
    }
    for (size_t i = 0; i < net->slots_count; ++i) {
        clprune__net_slot *slot = &net->slots[i];
        clprune_saved_sizes sizes;
        TRY(clprune_saved_size_query(&dense, 1, 1, slot->elements, &sizes));
        TRY(clprune__buffer_create(
            context, CLPRUNE_MEMORY_WORKSPACE, slot->name, sizes.bytes, &slot->buffer));
        TRY(clprune_saved_create_in(
            context, &dense, 1, 1, slot->elements, slot->buffer, 0, sizes.bytes, &slot->view));
        if (clprune_linear_takes_bf16(context))
            TRY(clprune_saved_create_in(
                context, &bf16, 1, 1, slot->elements, slot->buffer, 0, sizes.bytes, &slot->bf16));
    }
    TRY(clprune__net_ranges_create(net));
    net->kept_bytes = activations->live - before;
    return net->desc.weights_of != NULL ? CLPRUNE_SUCCESS : clprune__net_reset_states(net);
}

void clprune__net_body_destroy(clprune_net *net)
{
    clprune_context *context = net->context;
    clprune__net_ranges_destroy(net);
    for (size_t i = 0; i < net->slots_count; ++i) {
        clprune_saved_destroy(net->slots[i].view);
        clprune_saved_destroy(net->slots[i].bf16);
        clprune_buffer_release(context, net->slots[i].buffer);
    }
    clprune_buffer_release(context, net->log_p.buffer);
    clprune_buffer_release(context, net->row_weight.buffer);
    for (size_t i = 0; i < net->count; ++i) {
        clprune__net_layer *layer = &net->layers[i];
        clprune_saved_destroy(net->values[i].store);
        clprune_saved_destroy(layer->mask);
        clprune_buffer_release(context, layer->positions.buffer);
        for (size_t k = net->desc.weights_of != NULL ? 2 : 0; k < 4; ++k)
            clprune_buffer_release(context, layer->state[k].buffer);
        if (layer->kind->destroy != NULL && !layer->gone)
            layer->kind->destroy(layer);
    }
    clprune__net_params_destroy(net);
    for (size_t i = 0; i < net->states_count; ++i)
        free((char *)net->states[i].name);
    free(net->states);
}
