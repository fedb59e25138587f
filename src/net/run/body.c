#include "net/run/body.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "net/build/append.h"
#include "net/net_private.h"
#include "net/plan/cover.h"
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
    const clprune_net *of = net->graph.desc.weights_of;
    for (size_t i = 0; i < of->body.states_count; ++i)
        if (strcmp(of->body.states[i].name, state->name) == 0 &&
            of->body.states[i].mat.cols == cols) {
            state->mat = of->body.states[i].mat;
            return CLPRUNE_SUCCESS;
        }
    return clprune__fail(context, CLPRUNE_INVALID_ARGUMENT, __FILE__, __LINE__,
        "the net of desc.weights_of has no state %s of %zu", state->name, cols);
}

/* What the layer keeps of earlier passes, or the one of the same name in the net that shares it. */
static clprune_status create_history(
    clprune_net *net, const clprune__net_layer *layer, clprune_mat *history)
{
    clprune_context *context = net->context;
    const clprune_net *of = clprune__net_keeper(net);
    const size_t rows = net->graph.desc.batch * net->graph.whole,
                 cols = layer->kind->history(layer);
    if (of == net)
        return create_mat(net, CLPRUNE_MEMORY_INPUT, layer->name, ".history", rows, cols, history);
    for (size_t i = 0; i < of->graph.count && of->graph.whole == net->graph.whole; ++i)
        if (of->body.units[i].history.rows > 0 &&
            strcmp(of->graph.layers[i].name, layer->name) == 0)
            *history = of->body.units[i].history;
    REQUIRE(history->rows == rows && history->cols == cols, CLPRUNE_INVALID_SIZE,
        "layer %s keeps %zu x %zu of earlier rows, but %zu x %zu in the net of desc.weights_of",
        layer->name, rows, cols, history->rows, history->cols);
    return CLPRUNE_SUCCESS;
}

/* A mean of 0, or a variance of 1. */
static clprune_status reset_state(clprune_net *net, size_t index)
{
    clprune_context *context = net->context;
    const clprune_mat mat = net->body.states[index].mat;
    float *values = calloc(mat.cols, sizeof *values);
    REQUIRE(values != NULL, CLPRUNE_OUT_OF_HOST_MEMORY, "no memory for %s",
        net->body.states[index].name);
    for (size_t k = 0; k < mat.cols && index % 2 == 1; ++k)
        values[k] = 1.0f;
    const clprune_status status = clprune_mat_write(context, mat, values);
    free(values);
    return status;
}

clprune_status clprune__net_reset_states(clprune_net *net)
{
    for (size_t i = 0; i < net->body.states_count; ++i)
        TRY(reset_state(net, i));
    return CLPRUNE_SUCCESS;
}

/* Statistics of a batch norm; the running ones are states of the net. */
static clprune_status create_states(
    clprune_net *net, const clprune__net_layer *layer, clprune__net_unit *unit, size_t cols)
{
    static const char *const names[] = {".running_mean", ".running_var", ".mean", ".inv"};
    clprune_context *context = net->context;
    for (size_t i = 2; i < 4; ++i)
        TRY(create_mat(
            net, CLPRUNE_MEMORY_WORKSPACE, layer->norm, names[i], 1, cols, &unit->state[i]));
    for (size_t i = 0; i < 2; ++i) {
        const size_t size = strlen(layer->norm) + strlen(names[i]) + 1;
        char *name = malloc(size);
        REQUIRE(name != NULL, CLPRUNE_OUT_OF_HOST_MEMORY, "no memory for a name");
        (void)snprintf(name, size, "%s%s", layer->norm, names[i]);
        clprune_net_state *state = &net->body.states[net->body.states_count++];
        state->name = name;
        if (net->graph.desc.weights_of != NULL)
            TRY(share_state(net, state, cols));
        else
            TRY(clprune__net_take_lent(net, name, 1, cols, &state->mat));
        unit->lent[i] = state->mat.buffer != NULL && net->graph.desc.weights_of == NULL;
        const bool own = state->mat.buffer == NULL;
        if (own)
            TRY(clprune_mat_create(context, CLPRUNE_MEMORY_PARAMETERS, name, 1, cols, &state->mat));
        unit->state[i] = state->mat;
        if (own)
            TRY(reset_state(net, net->body.states_count - 1));
    }
    return CLPRUNE_SUCCESS;
}

static clprune_status create_layer(clprune_net *net, size_t i)
{
    const clprune__net_layer *layer = &net->graph.layers[i];
    const clprune__net_shape *shape = &net->graph.values[i].shape;
    const clprune__net_choice *value = &net->plan.values[i];
    const clprune__net_tile *tile = clprune__net_tile_of(&net->plan, i);
    clprune__net_unit *unit = &net->body.units[i];
    const size_t batch = net->graph.desc.batch;
    char name[256];
    if (layer->gone)
        return CLPRUNE_SUCCESS;
    if (layer->kind->create != NULL)
        TRY(layer->kind->create(&net->graph, layer, unit));
    if (layer->norm != NULL)
        TRY(create_states(net, layer, unit, shape->cols));
    if (layer->kind->history != NULL && net->graph.whole > 0)
        TRY(create_history(net, layer, &unit->history));
    if (layer->kind->positions != NULL && !net->graph.desc.infers) {
        clprune_max_pool_sizes sizes;
        const size_t again = net->plan.layers[i].made_again;
        TRY(clprune__net_positions_query(&net->plan, i, &sizes));
        TRY(create_mat(net, again > 0 ? CLPRUNE_MEMORY_WORKSPACE : CLPRUNE_MEMORY_ACTIVATIONS,
            layer->name, ".positions", sizes.rows, sizes.cols, &unit->positions));
    }
    if (tile != NULL && tile->way->create != NULL && net->plan.layers[i].tile_last == i)
        TRY(tile->way->create(net, tile->layers));
    if (tile != NULL && tile->way->keeps_mask && tile->layers[0] == i && !net->graph.desc.infers) {
        const clprune_keep keep = clprune__net_mask_keep(&net->plan, i);
        (void)snprintf(name, sizeof name, "%s.%s", layer->name,
            keep.form == CLPRUNE_FORM_GELU_CODE ? "codes" : "signs");
        TRY(clprune_saved_create(
            net->context, name, &keep, batch, shape->rows, shape->cols, &unit->mask));
    }
    if (value->kept)
        TRY(clprune_saved_create(net->context, layer->name, &value->keep, batch, shape->rows,
            shape->cols, &net->body.stores[i]));
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
    net->body.states = calloc(2 * net->graph.count, sizeof *net->body.states);
    net->body.units = calloc(net->graph.count, sizeof *net->body.units);
    net->body.stores = calloc(net->graph.count, sizeof *net->body.stores);
    net->body.spaces = calloc(net->plan.slots_count, sizeof *net->body.spaces);
    REQUIRE(net->body.states != NULL && net->body.units != NULL && net->body.stores != NULL &&
                net->body.spaces != NULL,
        CLPRUNE_OUT_OF_HOST_MEMORY, "no memory for the net");
    for (size_t i = 0; i < net->graph.count; ++i)
        TRY(create_layer(net, i));
    if (net->graph.loss == CLPRUNE__NET_CROSS_ENTROPY) {
        const clprune__net_shape *shape = &net->graph.values[net->graph.output].shape;
        TRY(clprune_mat_create(context, CLPRUNE_MEMORY_ACTIVATIONS, "log_softmax",
            net->graph.desc.batch * shape->rows, shape->cols, &net->body.log_p));
        TRY(clprune_mat_create(
            context, CLPRUNE_MEMORY_WORKSPACE, "weight of a row", 1, 1, &net->body.row_weight));
    }
    for (size_t i = 0; i < net->plan.slots_count; ++i) {
        const clprune__net_slot *slot = &net->plan.slots[i];
        clprune__net_space *space = &net->body.spaces[i];
        clprune_saved_sizes sizes;
        TRY(clprune_saved_size_query(&dense, 1, 1, slot->elements, &sizes));
        TRY(clprune__buffer_create(
            context, CLPRUNE_MEMORY_WORKSPACE, slot->name, sizes.bytes, &space->buffer));
        TRY(clprune_saved_create_in(
            context, &dense, 1, 1, slot->elements, space->buffer, 0, sizes.bytes, &space->view));
        if (clprune_linear_takes_bf16(context))
            TRY(clprune_saved_create_in(
                context, &bf16, 1, 1, slot->elements, space->buffer, 0, sizes.bytes, &space->bf16));
    }
    TRY(clprune__net_ranges_create(net));
    net->body.kept_bytes = activations->live - before;
    return clprune__net_check_lent(net);
}

void clprune__net_body_destroy(clprune_net *net)
{
    clprune_context *context = net->context;
    clprune__net_ranges_destroy(net);
    for (size_t i = 0; i < net->plan.slots_count && net->body.spaces != NULL; ++i) {
        clprune_saved_destroy(net->body.spaces[i].view);
        clprune_saved_destroy(net->body.spaces[i].bf16);
        clprune_buffer_release(context, net->body.spaces[i].buffer);
    }
    clprune_buffer_release(context, net->body.log_p.buffer);
    clprune_buffer_release(context, net->body.row_weight.buffer);
    for (size_t i = 0; i < net->graph.count && net->body.units != NULL; ++i) {
        const clprune__net_layer *layer = &net->graph.layers[i];
        clprune__net_unit *unit = &net->body.units[i];
        clprune_saved_destroy(net->body.stores != NULL ? net->body.stores[i] : NULL);
        clprune_saved_destroy(unit->mask);
        clprune_buffer_release(context, unit->positions.buffer);
        if (clprune__net_keeper(net) == net)
            clprune_buffer_release(context, unit->history.buffer);
        for (size_t k = net->graph.desc.weights_of != NULL ? 2 : 0; k < 4; ++k)
            if (k >= 2 || !unit->lent[k])
                clprune_buffer_release(context, unit->state[k].buffer);
        if (layer->kind->destroy != NULL && !layer->gone)
            layer->kind->destroy(unit);
    }
    clprune__net_params_destroy(net);
    for (size_t i = 0; i < net->body.states_count; ++i)
        free((char *)net->body.states[i].name);
    free(net->body.states);
    free(net->body.units);
    free(net->body.stores);
    free(net->body.spaces);
}
