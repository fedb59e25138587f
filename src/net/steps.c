/* The passes, step by step. Tensors get virtual slots, each made once; slots.c gives them memory.
 */
#include "net/steps.h"

#include <stdlib.h>

#include "core/checked.h"
#include "net/cover.h"
#include "net/graph.h"
#include "net/layers/kinds.h"
#include "net/narrow.h"
#include "runtime/context/check.h"

typedef clprune__net_place place;

static const place nowhere = {CLPRUNE__NET_NOWHERE, 0, false, false};

/* A list in the making. */
typedef struct maker {
    clprune_net *net;
    clprune__net_steps *list;
    clprune__net_size *sizes; /* of the virtual slots; 0 is the output' */
    size_t slots, room;
    place *at;    /* forward: where a value is; backward: where it is made again */
    place *grad;  /* where its gradient is */
    size_t *left; /* forward: users that have not run */
    bool *border; /* values that regions pass on to others */
    const clprune__net_region *region;
    clprune_status status;
} maker;

static void push(maker *m, const clprune__net_step *step)
{
    if (m->status == CLPRUNE_SUCCESS)
        m->status = clprune__net_push(m->net, m->list, step);
}

static place new_slot(maker *m, clprune__net_size size, bool whole)
{
    if (m->slots == m->room) {
        const size_t room = 2 * m->room + 16;
        clprune__net_size *larger = realloc(m->sizes, room * sizeof *larger);
        if (larger == NULL) {
            if (m->status == CLPRUNE_SUCCESS)
                m->status = clprune__fail(m->net->context, CLPRUNE_OUT_OF_HOST_MEMORY, __FILE__,
                    __LINE__, "no memory for %zu slots", room);
            return nowhere;
        }
        m->sizes = larger;
        m->room = room;
    }
    m->sizes[m->slots] = size;
    return (place){CLPRUNE__NET_SLOT, m->slots++, whole, false};
}

/* A slot for a value: of all samples if another region reads it, or the region is not cut. */
static place slot_for(maker *m, size_t value, bool whole)
{
    const clprune__net_shape *shape = &m->net->values[value].shape;
    return new_slot(m, (clprune__net_size){shape->rows, shape->cols, false, CLPRUNE__NET_OF_CALL},
        whole || m->region->chunk == m->net->desc.batch);
}

static bool is_dense(const clprune__net_value *value)
{
    return value->kept && value->keep.form == CLPRUNE_FORM_DENSE;
}

static bool same_place(place a, place b)
{
    return a.at == b.at && a.id == b.id;
}

static void take_temps(maker *m, const clprune__net_tile *tile, int life, clprune__net_step *step)
{
    for (size_t k = 0; k < CLPRUNE__NET_TEMPS && tile->way->temp != NULL; ++k) {
        const clprune__net_size size = tile->way->temp(m->net, tile->layers, k);
        if (size.cols == 0 || (int)size.life != life)
            continue;
        step->temp_size[k] = size;
        step->temp[k] = new_slot(m, size, size.in_all || m->region->chunk == m->net->desc.batch);
    }
}

/* ---- forward -----------------------------------------------------------------------------------
 */

/* Whether a layer may write over its input: a slot that nothing reads afterwards. */
static bool writes_over(const maker *m, const clprune__net_layer *layer, size_t out, place in)
{
    const clprune__net_value *values = m->net->values;
    return layer->kind->over && in.at == CLPRUNE__NET_SLOT && in.id != 0 &&
           m->left[layer->in[0]] == 1 &&
           (in.whole || !(m->border[out] || m->region->chunk == m->net->desc.batch)) &&
           values[layer->in[0]].shape.rows * values[layer->in[0]].shape.cols ==
               values[out].shape.rows * values[out].shape.cols;
}

/* A slot that a forward pass fills. */
static place slot_of_output(maker *m, size_t v, bool whole)
{
    const clprune__net_shape *shape = &m->net->values[v].shape;
    if (!clprune__net_is_for_products(m->net, v))
        return slot_for(m, v, whole);
    place slot =
        new_slot(m, (clprune__net_size){shape->rows, shape->cols / 2, false, CLPRUNE__NET_OF_CALL},
            whole || m->region->chunk == m->net->desc.batch);
    slot.bf16 = true;
    return slot;
}

/* Whether the layer stores its input: the first layer that reads it, all samples at once. */
static bool stores_input(const maker *m, const clprune__net_layer *layer)
{
    const clprune__net_value *x = &m->net->values[layer->in[0]];
    return layer->kind->stores && x->kept && !is_dense(x) && m->left[layer->in[0]] == x->users &&
           m->region->chunk == m->net->desc.batch &&
           !clprune__net_goes_to_store(m->net, layer->in[0]);
}

/* Whether the first reader of a value stores it; a fused pass does not. */
static bool is_stored_later(const clprune_net *net, size_t value)
{
    for (size_t r = 0; r < net->regions_count; ++r)
        for (size_t i = net->regions[r].first; i <= net->regions[r].last; ++i)
            for (size_t k = 0; k < net->layers[i].ins && i > value; ++k)
                if (!net->layers[i].gone && net->layers[i].in[k] == value)
                    return net->layers[i].kind->stores && k == 0 &&
                           clprune__net_fused(net, i) == NULL &&
                           net->regions[r].chunk == net->desc.batch;
    return false;
}

static void forward_layer(maker *m, size_t i, bool training)
{
    const clprune_net *net = m->net;
    const clprune__net_layer *layer = &net->layers[i];
    const clprune__net_value *value = &net->values[i];
    const clprune__net_tile *fused = clprune__net_fused(net, i);
    clprune__net_step step = {.act = CLPRUNE__NET_FORWARD, .id = i};
    if (fused != NULL && layer->tile_last != i)
        return;
    const size_t *in = fused != NULL ? fused->ends : layer->in;
    const size_t ins = fused != NULL ? fused->ends_count : layer->ins;
    for (size_t k = 0; k < ins; ++k)
        step.in[k] = m->at[in[k]];
    if (i == net->output)
        step.out = (place){CLPRUNE__NET_SLOT, 0, true, false};
    else if (training && (is_dense(value) || clprune__net_goes_to_store(net, i)))
        step.out = (place){CLPRUNE__NET_STORE, i, true, false};
    else if (fused == NULL && writes_over(m, layer, i, step.in[0]) &&
             !clprune__net_is_for_products(net, i))
        step.out = step.in[0];
    else
        step.out = slot_of_output(m, i, m->border[i]);
    if (fused != NULL)
        take_temps(m, fused, CLPRUNE__NET_OF_FORWARD, &step);
    if (fused != NULL && training)
        take_temps(m, fused, CLPRUNE__NET_OF_TRAINING, &step);
    step.stores = training && fused == NULL && ins > 0 && stores_input(m, layer);
    push(m, &step);
    m->at[i] = step.out;
    /* the loss overwrites the output */
    const bool in_store =
        (is_dense(value) && i != net->output) || clprune__net_goes_to_store(net, i);
    if (training && value->kept && !in_store && !is_stored_later(net, i))
        push(m, &(clprune__net_step){.act = CLPRUNE__NET_KEEP, .id = i, .out = step.out});
    for (size_t k = 0; k < ins; ++k)
        m->left[in[k]]--;
}

static void make_forward(maker *m, bool training)
{
    const clprune_net *net = m->net;
    for (size_t i = 0; i < net->count; ++i)
        m->left[i] = net->values[i].users;
    for (size_t r = 0; r < net->regions_count; ++r) {
        m->region = &net->regions[r];
        push(m, &(clprune__net_step){.act = CLPRUNE__NET_LOOP, .id = r});
        for (size_t i = m->region->first; i <= m->region->last; ++i)
            if (!net->layers[i].gone && net->layers[i].kind->forward != NULL)
                forward_layer(m, i, training);
        push(m, &(clprune__net_step){.act = CLPRUNE__NET_END_LOOP, .id = r});
    }
}

/* ---- backward ----------------------------------------------------------------------------------
 */

/* How a layer that runs again reads its input k. */
static clprune__net_how how_of(const clprune_net *net, size_t v, size_t k)
{
    const clprune__net_layer *layer = &net->layers[v];
    if (layer->kind->codes >> k & 1)
        return CLPRUNE__NET_CODES;
    return layer->kind->takes_bf16 != NULL && layer->kind->takes_bf16(net, layer, k)
               ? CLPRUNE__NET_NARROW
               : CLPRUNE__NET_DENSE;
}

/* A value for the backward pass: read from its store, restored, or made again. */
static place obtain(maker *m, size_t v, clprune__net_how how)
{
    const clprune_net *net = m->net;
    const clprune__net_value *value = &net->values[v];
    const bool codes = (how == CLPRUNE__NET_CODES && value->keep.form == CLPRUNE_FORM_QUANTISED &&
                           !value->keep.rotate) ||
                       (how == CLPRUNE__NET_NARROW && clprune__net_is_bf16(value));
    if (is_dense(value) || (value->kept && (how == CLPRUNE__NET_PRODUCT || codes)))
        return (place){CLPRUNE__NET_STORE, v, true, false};
    if (m->at[v].at != CLPRUNE__NET_NOWHERE)
        return m->at[v];
    if (value->kept) {
        const place out = slot_for(m, v, false);
        push(m, &(clprune__net_step){.act = CLPRUNE__NET_RESTORE, .id = v, .out = out});
        return m->at[v] = out;
    }
    const clprune__net_tile *fused = clprune__net_fused(net, v);
    const size_t *in = fused != NULL ? fused->ends : net->layers[v].in;
    const size_t ins = fused != NULL ? fused->ends_count : net->layers[v].ins;
    clprune__net_step step = {.act = CLPRUNE__NET_FORWARD, .id = v, .again = true};
    /* what is made again first: until it is done, restored inputs would take memory */
    for (int kept = 0; kept < 2; ++kept)
        for (size_t k = 0; k < ins; ++k)
            if (net->values[in[k]].kept == kept && !clprune__net_is_data(&net->layers[in[k]]))
                step.in[k] =
                    obtain(m, in[k], fused == NULL ? how_of(net, v, k) : CLPRUNE__NET_DENSE);
    if (fused != NULL)
        take_temps(m, fused, CLPRUNE__NET_OF_FORWARD, &step);
    step.out = slot_of_output(m, v, false);
    push(m, &step);
    return m->at[v] = step.out;
}

/* How many values have their gradient at a place. */
static size_t owners(const maker *m, place p)
{
    size_t count = 0;
    for (size_t i = 0; i < m->net->count; ++i)
        count += p.at == CLPRUNE__NET_SLOT && same_place(m->grad[i], p);
    return count;
}

/* A copy of a gradient of value v, at a slot of its own. */
static place copy_of(maker *m, size_t v, place from, bool whole)
{
    const place to = slot_for(m, v, whole);
    push(m, &(clprune__net_step){.act = CLPRUNE__NET_COPY, .id = v, .in = {from}, .out = to});
    return to;
}

/* Gives v's gradient a slot that no other value shares, nor what is still read. */
static void own_grad(maker *m, size_t v, place read)
{
    if (owners(m, m->grad[v]) > 1 || same_place(m->grad[v], read))
        m->grad[v] = copy_of(m, v, m->grad[v], m->border[v]);
}

/* Adds what is at a place to v's gradient, or makes it v's gradient. */
static void add_grad(maker *m, size_t v, place from)
{
    const bool whole = m->border[v] || m->region->chunk == m->net->desc.batch;
    if (m->grad[v].at == CLPRUNE__NET_NOWHERE) {
        m->grad[v] = from.whole || !whole ? from : copy_of(m, v, from, whole);
        return;
    }
    own_grad(m, v, from);
    push(
        m, &(clprune__net_step){.act = CLPRUNE__NET_SUM, .id = v, .in = {from}, .out = m->grad[v]});
}

/* Where a tile writes the gradient of end k, APART or OVER. *late: it must be added afterwards. */
static place target_of(maker *m, const clprune__net_tile *tile, size_t k, place dy, bool dy_is_free,
    bool *adds, bool *late)
{
    const size_t v = tile->ends[k], out = tile->layers[tile->count - 1];
    const clprune__net_value *values = m->net->values;
    const bool whole = m->border[v] || m->region->chunk == m->net->desc.batch;
    *adds = *late = false;
    if (m->grad[v].at != CLPRUNE__NET_NOWHERE) {
        if (tile->way->ends[k].adds) {
            own_grad(m, v, dy);
            *adds = true;
            return m->grad[v];
        }
        *late = true;
        return slot_for(m, v, false);
    }
    const bool fits = values[v].shape.rows * values[v].shape.cols ==
                          values[out].shape.rows * values[out].shape.cols &&
                      (dy.whole || !whole);
    if (tile->way->ends[k].flow == CLPRUNE__NET_OVER && dy_is_free && fits && dy.id != 0)
        return m->grad[v] = dy;
    return m->grad[v] = slot_for(m, v, m->border[v]);
}

/* Whether the way runs without the gradient of end k: a product of its own, which may also add. */
static bool can_omit(const clprune__net_tile *tile, size_t k)
{
    return tile->way->ends[k].flow == CLPRUNE__NET_APART && tile->way->ends[k].adds;
}

/* step: has the temporaries that live through the region. */
static void backward_tile(maker *m, const clprune__net_tile *tile, clprune__net_step *step)
{
    const clprune_net *net = m->net;
    const size_t out = tile->layers[tile->count - 1];
    bool late[CLPRUNE__NET_ENDS] = {false}, pass = false;
    place dy = m->grad[out];
    for (size_t k = 0; k < tile->way->needs_count; ++k)
        if (clprune__net_is_needed(net, tile, k))
            step->in[k] = obtain(m, clprune__net_needed(net, tile, k), tile->way->needs[k].how);
    m->grad[out] = nowhere;
    for (size_t k = 0; k < tile->ends_count; ++k) {
        const clprune__net_flow flow = tile->way->ends[k].flow;
        if (flow == CLPRUNE__NET_INTO && (owners(m, dy) > 0 || dy.id == 0))
            dy = copy_of(m, out, dy, m->border[out]);
        pass = pass || flow == CLPRUNE__NET_INTO || flow == CLPRUNE__NET_PASS;
    }
    const bool dy_is_free = !pass && owners(m, dy) == 0;
    for (size_t k = 0; k < tile->ends_count; ++k) {
        const clprune__net_flow flow = tile->way->ends[k].flow;
        if (flow != CLPRUNE__NET_APART && flow != CLPRUNE__NET_OVER)
            continue;
        if (net->values[tile->ends[k]].trained)
            step->dx[k] = target_of(m, tile, k, dy, dy_is_free, &step->adds[k], &late[k]);
        else if (!can_omit(tile, k))
            step->dx[k] = slot_for(m, tile->ends[k], false);
    }
    take_temps(m, tile, CLPRUNE__NET_OF_CALL, step);
    step->act = CLPRUNE__NET_BACKWARD;
    step->out = dy;
    push(m, step);
    for (size_t k = 0; k < tile->ends_count; ++k) {
        const clprune__net_flow flow = tile->way->ends[k].flow;
        if (!net->values[tile->ends[k]].trained)
            continue;
        if (flow == CLPRUNE__NET_INTO || flow == CLPRUNE__NET_PASS)
            add_grad(m, tile->ends[k], dy);
        else if (late[k])
            add_grad(m, tile->ends[k], step->dx[k]);
    }
}

static void backward_region(maker *m, size_t r, clprune__net_step *steps)
{
    const clprune_net *net = m->net;
    m->region = &net->regions[r];
    for (size_t i = 0; i < net->count; ++i)
        m->at[i] = nowhere;
    for (size_t t = net->tiles_count; t-- > 0;) {
        const clprune__net_tile *tile = &net->tiles[t];
        const size_t out = tile->layers[tile->count - 1];
        steps[t] = (clprune__net_step){.act = CLPRUNE__NET_BEGIN, .id = t};
        if (out < m->region->first || out > m->region->last || !net->values[out].trained)
            continue;
        take_temps(m, tile, CLPRUNE__NET_OF_REGION, &steps[t]);
        if (tile->way->begin != NULL)
            push(m, &steps[t]);
    }
    push(m, &(clprune__net_step){.act = CLPRUNE__NET_LOOP, .id = r});
    for (size_t t = net->tiles_count; t-- > 0;) {
        const size_t out = net->tiles[t].layers[net->tiles[t].count - 1];
        if (out >= m->region->first && out <= m->region->last && net->values[out].trained)
            backward_tile(m, &net->tiles[t], &steps[t]);
    }
    push(m, &(clprune__net_step){.act = CLPRUNE__NET_END_LOOP, .id = r});
    for (size_t t = net->tiles_count; t-- > 0;) {
        const size_t out = net->tiles[t].layers[net->tiles[t].count - 1];
        if (out < m->region->first || out > m->region->last || net->tiles[t].way->end == NULL ||
            !net->values[out].trained)
            continue;
        clprune__net_step end = {.act = CLPRUNE__NET_END, .id = t};
        for (size_t k = 0; k < CLPRUNE__NET_TEMPS; ++k)
            if (steps[t].temp_size[k].life == CLPRUNE__NET_OF_REGION) {
                end.temp[k] = steps[t].temp[k];
                end.temp_size[k] = steps[t].temp_size[k];
            }
        push(m, &end);
    }
    push(m, &(clprune__net_step){.act = CLPRUNE__NET_DONE, .id = r});
}

static void make_backward(maker *m)
{
    const clprune_net *net = m->net;
    clprune__net_step *steps = calloc(net->tiles_count + 1, sizeof *steps);
    if (steps == NULL) {
        m->status = CLPRUNE_OUT_OF_HOST_MEMORY;
        return;
    }
    for (size_t i = 0; i < net->count; ++i)
        m->grad[i] = nowhere;
    m->grad[net->output] = (place){CLPRUNE__NET_SLOT, 0, true, false};
    for (size_t r = net->regions_count; r-- > 0;)
        backward_region(m, r, steps);
    free(steps);
}

/* ---- regions -----------------------------------------------------------------------------------
 */

/* The values that a region passes on. */
static void find_borders(const clprune_net *net, bool *border)
{
    for (size_t r = 0; r < net->regions_count; ++r)
        for (size_t i = net->regions[r].first; i <= net->regions[r].last; ++i)
            for (size_t k = 0; k < net->layers[i].ins && !net->layers[i].gone; ++k)
                if (net->layers[i].in[k] < net->regions[r].first)
                    border[net->layers[i].in[k]] = true;
    border[net->output] = true;
}

bool clprune__net_cuts_tile(const clprune_net *net, size_t joint)
{
    for (size_t t = 0; t < net->tiles_count; ++t)
        if (net->tiles[t].layers[0] <= joint &&
            net->tiles[t].layers[net->tiles[t].count - 1] > joint)
            return true;
    return false;
}

/* The elements of a layer's largest parameter in a product. */
static size_t weight_of(const clprune_net *net, size_t layer)
{
    size_t most = 0;
    for (size_t k = 0; k < net->layers[layer].params && net->layers[layer].kind->work != NULL;
         ++k) {
        const size_t elements =
            clprune__net_param_elements(&net->params[net->layers[layer].param[k]]);
        most = elements > most ? elements : most;
    }
    return most;
}

/* Samples whose largest tensor fits the largest of 8 MiB, the border of the region (with joints
 * inside not), and its largest weights: in smaller chunks, starting kernels, or reading the weights
 * again, would take longer than the work on the samples. Up to a quarter more without joints
 * inside, if that saves a chunk; then chunks of equal size. All samples if a layer needs them, or
 * no tensor in the region needs a slot. */
static size_t chunk_of(
    const clprune_net *net, const clprune__net_region *region, const bool *border, bool joints)
{
    const size_t batch = net->desc.batch;
    size_t least = (size_t)1 << 21, largest = 0, weights = 0;
    for (size_t i = region->first; i <= region->last; ++i) {
        const clprune__net_value *value = &net->values[i];
        const size_t elements = value->shape.rows * value->shape.cols;
        if (net->layers[i].gone || net->layers[i].kind->forward == NULL)
            continue;
        if (net->layers[i].kind->whole)
            return batch;
        const size_t weight = weight_of(net, i);
        weights = weight > weights ? weight : weights;
        if (border[i])
            least = joints || least > batch * elements ? least : batch * elements;
        else if (!is_dense(value) && elements > largest)
            largest = elements;
    }
    if (largest == 0)
        return batch;
    least = weights > least ? weights : least;
    const size_t chunk = least / largest > 0 ? least / largest : 1;
    const size_t most = joints ? chunk : chunk + chunk / 4;
    return clprune__ceil_div(batch, clprune__ceil_div(batch, most));
}

clprune_status clprune__net_cut(
    clprune_net *net, bool chunks, bool (*inside)(const clprune_net *net, size_t joint))
{
    clprune_context *context = net->context;
    free(net->regions);
    net->regions = calloc(net->count, sizeof *net->regions);
    bool *border = calloc(net->count, sizeof *border);
    net->regions_count = 0;
    if (net->regions == NULL || border == NULL) {
        free(border);
        return clprune__fail(
            context, CLPRUNE_OUT_OF_HOST_MEMORY, __FILE__, __LINE__, "no memory for the regions");
    }
    size_t first = 0;
    for (size_t i = 0; i < net->count; ++i) {
        const bool joint = i + 1 == net->count || (i > 0 && clprune__net_is_joint(net, i) &&
                                                      !clprune__net_cuts_tile(net, i) &&
                                                      !(inside != NULL && inside(net, i)));
        if (!joint)
            continue;
        net->regions[net->regions_count++] = (clprune__net_region){first, i, net->desc.batch};
        first = i + 1;
    }
    find_borders(net, border);
    for (size_t r = 0; chunks && r < net->regions_count; ++r)
        net->regions[r].chunk = chunk_of(net, &net->regions[r], border, inside != NULL);
    free(border);
    return CLPRUNE_SUCCESS;
}

static void close_maker(maker *m)
{
    free(m->at);
    free(m->grad);
    free(m->left);
    free(m->border);
    free(m->sizes);
}

static clprune_status open_maker(clprune_net *net, maker *m)
{
    clprune_context *context = net->context;
    *m = (maker){.net = net,
        .at = calloc(net->count, sizeof *m->at),
        .grad = calloc(net->count, sizeof *m->grad),
        .left = calloc(net->count, sizeof *m->left),
        .border = calloc(net->count, sizeof *m->border)};
    if (m->at == NULL || m->grad == NULL || m->left == NULL || m->border == NULL) {
        close_maker(m);
        return clprune__fail(context, CLPRUNE_OUT_OF_HOST_MEMORY, __FILE__, __LINE__,
            "no memory for the steps of the net");
    }
    find_borders(net, m->border);
    return CLPRUNE_SUCCESS;
}

typedef enum kind_of_pass { TRAINING, INFERENCE, BACKWARD, PASSES } kind_of_pass;

static clprune_status make_list(maker *m, kind_of_pass pass, clprune__net_steps *list)
{
    const clprune__net_shape *output = &m->net->values[m->net->output].shape;
    m->list = list;
    m->slots = 0;
    (void)new_slot(
        m, (clprune__net_size){output->rows, output->cols, false, CLPRUNE__NET_OF_CALL}, true);
    if (pass != BACKWARD)
        make_forward(m, pass == TRAINING);
    else if (m->net->loss != CLPRUNE__NET_NO_LOSS)
        make_backward(m);
    return m->status;
}

clprune_status clprune__net_backward_bytes(clprune_net *net, double *most)
{
    clprune_status status = CLPRUNE_SUCCESS;
    clprune__net_steps list = {0};
    maker m;
    TRY(open_maker(net, &m));
    TRY_DONE(make_list(&m, BACKWARD, &list));
    TRY_DONE(clprune__net_most_bytes(net, &list, m.sizes, m.slots, most));
done:
    free(list.steps);
    close_maker(&m);
    return status;
}

clprune_status clprune__net_make_steps(clprune_net *net)
{
    clprune__net_steps *const lists[PASSES] = {&net->forward, &net->inference, &net->backward};
    clprune_context *context = net->context;
    clprune_status status = CLPRUNE_SUCCESS;
    maker m;
    const clprune__net_shape *output = &net->values[net->output].shape;
    net->slots = calloc(1, sizeof *net->slots);
    REQUIRE(net->slots != NULL, CLPRUNE_OUT_OF_HOST_MEMORY, "no memory for the steps of the net");
    net->slots[0] = (clprune__net_slot){
        .elements = net->desc.batch * output->rows * output->cols, .name = "output"};
    net->slots_count = 1;
    TRY(open_maker(net, &m));
    for (kind_of_pass i = 0; i < PASSES; ++i) {
        TRY_DONE(make_list(&m, i, lists[i]));
        TRY_DONE(clprune__net_place_slots(net, m.list, m.sizes, m.slots));
    }
    const clprune__net_region *region = NULL;
    for (size_t i = 0; i < net->backward.count; ++i) {
        const clprune__net_step *step = &net->backward.steps[i];
        if (step->act == CLPRUNE__NET_LOOP)
            region = &net->regions[step->id];
        if (step->act == CLPRUNE__NET_FORWARD && clprune__net_is_in(region, step->id))
            net->layers[step->id].made_again = region->chunk;
    }
done:
    close_maker(&m);
    return status;
}
