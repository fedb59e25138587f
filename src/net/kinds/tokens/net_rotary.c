/* Rotary positions of queries and keys: by a theta, by frequencies, or by an angle for each row. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/checked.h"
#include "net/build/append.h"
#include "net/kinds/kinds.h"
#include "net/run/call.h"
#include "nn/tokens/rotary_private.h"
#include "runtime/context/check.h"
#include "runtime/memory/scratch.h"

static clprune_status rotary_create(
    const clprune__net_graph *graph, const clprune__net_layer *layer, clprune__net_unit *unit)
{
    return clprune__net_create_table(graph, layer, layer->set.rotary.words, unit);
}

/* Cosines and sines of `rows` rows of each sample; in scratch where the layer has frequencies. */
static clprune_status make_table(
    const clprune__net_call *call, const clprune__net_layer *layer, size_t rows, clprune_mat *table)
{
    const clprune__net_rotary *set = &layer->set.rotary;
    const clprune_mat words = clprune__net_unit_of(call->net, layer)->state[CLPRUNE__NET_TABLE];
    if (set->by_row) {
        *table =
            clprune_mat_rows(clprune_mat_of(words.buffer, set->words / set->turned, set->turned),
                call->data->first, rows);
        return CLPRUNE_SUCCESS;
    }
    TRY(clprune__scratch_mat(call->net->context, rows, set->turned, table));
    return clprune__rotary_table(call->net->context, call->data->first, set->factor, words, *table);
}

static clprune_status turn_by(const clprune__net_call *call, const clprune__net_layer *layer,
    bool back, clprune_mat x, clprune_mat y)
{
    SCRATCH_SCOPE(call->net->context);
    const clprune__net_rotary *set = &layer->set.rotary;
    clprune_mat table;
    TRY(make_table(call, layer, x.rows / call->count, &table));
    return clprune_rotary_by(call->net->context, call->count, set->heads, set->head_cols,
        set->adjacent, back, table, x, y, NULL);
}

static clprune_status rotary_forward(const clprune__net_call *call)
{
    const clprune__net_rotary *set = &call->layer->set.rotary;
    const clprune_mat x = clprune__net_x(call, 0), y = clprune__net_y(call);
    if (set->words > 0)
        return turn_by(call, call->layer, false, x, y);
    return clprune__rotary_forward_from(call->net->context, call->data->first, call->count,
        set->heads, set->head_cols, set->turned, set->theta, set->adjacent, x, y, NULL);
}

static const clprune__net_kind rotary_kind = {.name = "rotary",
    .over = true,
    .by_row = clprune__net_by_row,
    .create = rotary_create,
    .forward = rotary_forward};

/* y = x, turned */
static clprune_status rotary_backward(const clprune__net_call *call)
{
    const clprune__net_layer *layer = clprune__net_link(call, 0);
    const clprune__net_rotary *set = &layer->set.rotary;
    const clprune_mat dy = clprune__net_dy(call), dx = clprune__net_dx(call, 0);
    if (set->words > 0)
        return turn_by(call, layer, true, dy, dx);
    return clprune_rotary_backward(call->net->context, call->count, set->heads, set->head_cols,
        set->turned, set->theta, set->adjacent, dy, dx, NULL);
}

const clprune__net_way clprune__net_rotary_ways[] = {
    {.name = "rotary",
        .chain = {&rotary_kind},
        .ends = {{CLPRUNE__NET_OVER, false}},
        .backward = rotary_backward},
    {.name = NULL},
};

/* Adds the layer without angles; NULL after an error. turned 0: all columns. */
static clprune__net_layer *add_rotary(clprune_net *net, const char *name, clprune_net_value qkv,
    size_t heads, size_t kv_heads, size_t turned, bool adjacent)
{
    const clprune__net_value *in = clprune__net_read(net, name, qkv);
    if (in == NULL)
        return NULL;
    const clprune__net_shape shape = in->shape;
    size_t all = 1;
    const bool some = heads > 0 && kv_heads > 0 && clprune__mul(kv_heads, 2, &all) &&
                      clprune__add(all, heads, &all);
    const size_t head_cols = some ? shape.cols / all : 0;
    turned = turned > 0 ? turned : head_cols;
    if (!some || shape.cols % all != 0 || turned % 2 != 0 || turned > head_cols)
        clprune__net_wrong(net, CLPRUNE_INVALID_SIZE,
            "layer %s: its input has %zu columns, expected those of %zu heads and twice %zu, of "
            "which an even number each is turned, not %zu",
            name, shape.cols, heads, kv_heads, turned);
    clprune__net_layer *layer = clprune__net_add(net, &rotary_kind, name, &qkv, 1, shape);
    if (layer != NULL)
        layer->set.rotary = (clprune__net_rotary){.heads = heads + kv_heads,
            .head_cols = head_cols,
            .turned = turned,
            .adjacent = adjacent};
    return layer;
}

clprune_net_value clprune_net_rotary(clprune_net *net, const char *name, clprune_net_value qkv,
    size_t heads, size_t kv_heads, size_t turned, float theta, bool adjacent)
{
    ENTER_QUIETLY(net != NULL ? net->context : NULL);
    if (net != NULL && !(theta > 1 && isfinite(theta)))
        clprune__net_wrong(net, CLPRUNE_INVALID_ARGUMENT,
            "layer %s: its theta is %g, expected a finite number above 1",
            name != NULL ? name : "(NULL)", (double)theta);
    clprune__net_layer *layer = add_rotary(net, name, qkv, heads, kv_heads, turned, adjacent);
    if (layer == NULL)
        return (clprune_net_value){0};
    layer->set.rotary.theta = theta;
    return clprune__net_last(net);
}

/* Notes what is wrong with angles of `count` numbers. */
static void check_angles(
    clprune_net *net, const char *name, const clprune_net_angles *angles, size_t count)
{
    for (size_t i = 0; i < sizeof angles->reserved / sizeof *angles->reserved; ++i)
        if (angles->reserved[i] != 0)
            clprune__net_wrong(net, CLPRUNE_INVALID_ARGUMENT,
                "layer %s: a reserved field is not 0; zero-initialise clprune_net_angles", name);
    if (!(angles->factor >= 0 && isfinite(angles->factor)))
        clprune__net_wrong(net, CLPRUNE_INVALID_ARGUMENT,
            "layer %s: its factor is %g, expected 0 or a finite number above", name,
            (double)angles->factor);
    for (size_t i = 0; i < count; ++i) {
        const double angle = angles->angles != NULL ? angles->angles[i] : angles->frequencies[i];
        if (!isfinite(angle)) {
            clprune__net_wrong(net, CLPRUNE_INVALID_ARGUMENT,
                "layer %s: angle %zu is %g, expected a finite number", name, i, angle);
            return;
        }
    }
}

/* The words of the layer's table: of each row cosines, then sines; or of each pair its frequency.
 */
static void fill_table(clprune__net_layer *layer, const clprune_net_angles *angles)
{
    clprune__net_rotary *set = &layer->set.rotary;
    const size_t pairs = angles->pairs;
    for (size_t i = 0; set->by_row && i < set->words / 2; ++i) {
        float *row = layer->table + i / pairs * 2 * pairs + i % pairs;
        row[0] = (float)(set->factor * cos(angles->angles[i]));
        row[pairs] = (float)(set->factor * sin(angles->angles[i]));
    }
    for (size_t i = 0; !set->by_row && i < pairs; ++i) {
        uint32_t words[2];
        clprune__rotary_turns(angles->frequencies[i], words);
        memcpy(layer->table + 2 * i, words, sizeof words);
    }
}

clprune_net_value clprune_net_rotary_by(clprune_net *net, const char *name, clprune_net_value qkv,
    size_t heads, size_t kv_heads, const clprune_net_angles *angles)
{
    ENTER_QUIETLY(net != NULL ? net->context : NULL);
    if (net == NULL)
        return (clprune_net_value){0};
    if (angles == NULL || angles->pairs == 0 || angles->pairs > SIZE_MAX / 2 ||
        (angles->frequencies != NULL) == (angles->angles != NULL)) {
        clprune__net_wrong(net, CLPRUNE_INVALID_ARGUMENT,
            "layer %s: it has no pairs, or not one of frequencies and angles",
            name != NULL ? name : "(NULL)");
        return (clprune_net_value){0};
    }
    clprune__net_layer *layer =
        add_rotary(net, name, qkv, heads, kv_heads, 2 * angles->pairs, angles->adjacent);
    if (layer == NULL)
        return (clprune_net_value){0};
    clprune__net_rotary *set = &layer->set.rotary;
    const size_t own = net->graph.values[clprune__net_out(&net->graph, layer)].shape.rows;
    const size_t rows = net->graph.whole > 0 ? net->graph.whole : own;
    size_t words;
    set->by_row = angles->angles != NULL;
    set->factor = angles->factor > 0 ? angles->factor : 1;
    if (!clprune__mul(set->by_row ? rows : 1, set->turned, &words) ||
        words > SIZE_MAX / sizeof(float)) {
        clprune__net_wrong(net, CLPRUNE_SIZE_OVERFLOW,
            "layer %s: %zu rows of %zu angles are too many", name, rows, angles->pairs);
        return (clprune_net_value){0};
    }
    check_angles(net, name, angles, words / 2);
    set->words = words;
    layer->table = calloc(words, sizeof *layer->table);
    if (layer->table == NULL) {
        clprune__net_wrong(net, CLPRUNE_OUT_OF_HOST_MEMORY, "no memory for layer %s", name);
        return (clprune_net_value){0};
    }
    fill_table(layer, angles);
    return clprune__net_last(net);
}
