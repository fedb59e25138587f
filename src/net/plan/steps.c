/* The passes, step by step. Tensors get virtual slots, each made once; slots.c gives them memory.
 */
#include "net/plan/steps.h"

#include <stdlib.h>

#include "net/plan/cover.h"
#include "net/plan/narrow.h"
#include "net/plan/regions.h"
#include "runtime/context/check.h"
#include "runtime/memory/plan_private.h"

typedef clprune__net_place place;

static const place nowhere = {CLPRUNE__NET_NOWHERE, 0, false, false};

/* A list in the making. */
typedef struct maker {
    clprune__net_plan *plan;
    clprune__net_steps *list;
    clprune__net_size *sizes; /* of the virtual slots; 0 is the output' */
    size_t slots, room;
    place *at;      /* forward: where a value is; backward: where it is made again ... */
    size_t *made;   /* ... and for which region, + 1 */
    place *grad;    /* where its gradient is; set by set_grad */
    size_t *owners; /* (slots) how many values have their gradient there */
    size_t *left;   /* forward: users that have not run */
    bool *border;   /* values that regions pass on to others */
    const clprune__net_region *region;
    clprune_status status;
} maker;

static clprune_status no_memory(const clprune__net_plan *plan)
{
    return clprune__fail(plan->graph->context, CLPRUNE_OUT_OF_HOST_MEMORY, __FILE__, __LINE__,
        "no memory for the steps of the net");
}

static void push(maker *m, const clprune__net_step *step)
{
    if (m->status == CLPRUNE_SUCCESS)
        m->status = clprune__net_push(m->plan, m->list, step);
}

static place new_slot(maker *m, clprune__net_size size, bool whole)
{
    if (m->slots == m->room) {
        const size_t room = 2 * m->room + 16;
        clprune__net_size *larger = realloc(m->sizes, room * sizeof *larger);
        size_t *more = realloc(m->owners, room * sizeof *more);
        m->sizes = larger != NULL ? larger : m->sizes;
        m->owners = more != NULL ? more : m->owners;
        if (larger == NULL || more == NULL) {
            if (m->status == CLPRUNE_SUCCESS)
                m->status = no_memory(m->plan);
            return nowhere;
        }
        m->room = room;
    }
    m->sizes[m->slots] = size;
    m->owners[m->slots] = 0;
    return (place){CLPRUNE__NET_SLOT, m->slots++, whole, false};
}

/* A slot for a value: of all samples if another region reads it, or the region is not cut. */
static place slot_of(maker *m, size_t value, bool whole, bool bf16)
{
    const clprune__net_shape *shape = &m->plan->graph->values[value].shape;
    const size_t cols = bf16 ? shape->cols / 2 : shape->cols;
    place slot = new_slot(m, (clprune__net_size){shape->rows, cols, false, CLPRUNE__NET_OF_CALL},
        whole || m->region->chunk == m->plan->graph->desc.batch);
    slot.bf16 = bf16;
    return slot;
}

static place slot_for(maker *m, size_t value, bool whole)
{
    return slot_of(m, value, whole, false);
}

static bool is_dense(const clprune__net_choice *choice)
{
    return choice->kept && choice->keep.form == CLPRUNE_FORM_DENSE;
}

static bool same_place(place a, place b)
{
    return a.at == b.at && a.id == b.id;
}

static void take_temps(maker *m, const clprune__net_tile *tile, int life, clprune__net_step *step)
{
    for (size_t k = 0; k < CLPRUNE__NET_TEMPS && tile->way->temp != NULL; ++k) {
        const clprune__net_size size = tile->way->temp(m->plan, tile->layers, k);
        if (size.cols == 0 || (int)size.life != life)
            continue;
        step->temp_size[k] = size;
        step->temp[k] =
            new_slot(m, size, size.in_all || m->region->chunk == m->plan->graph->desc.batch);
    }
}

/* ---- forward -----------------------------------------------------------------------------------
 */

/* Whether a layer may write over its input k: a slot that nothing reads afterwards. */
static bool writes_over(
    const maker *m, const clprune__net_layer *layer, size_t k, size_t out, place in)
{
    const clprune__net_value *values = m->plan->graph->values;
    return (k == 0 ? layer->kind->over : layer->kind->over_second && !in.bf16) &&
           in.at == CLPRUNE__NET_SLOT && in.id != 0 && m->left[layer->in[k]] == 1 &&
           (in.whole || !(m->border[out] || m->region->chunk == m->plan->graph->desc.batch)) &&
           values[layer->in[k]].shape.rows * values[layer->in[k]].shape.cols ==
               values[out].shape.rows * values[out].shape.cols;
}

/* A slot that a forward pass fills. */
static place slot_of_output(maker *m, size_t v, bool whole)
{
    return slot_of(m, v, whole, clprune__net_is_for_products(m->plan, v));
}

/* Whether the layer stores its input: the first layer that reads it, all samples at once. */
static bool stores_input(const maker *m, const clprune__net_layer *layer)
{
    const clprune__net_choice *x = &m->plan->values[layer->in[0]];
    return layer->kind->stores && x->kept && !is_dense(x) &&
           m->left[layer->in[0]] == m->plan->graph->values[layer->in[0]].users &&
           m->region->chunk == m->plan->graph->desc.batch &&
           !clprune__net_goes_to_store(m->plan, layer->in[0]);
}

/* Whether the first reader of a value stores it; a fused pass does not. */
static bool is_stored_later(const clprune__net_plan *plan, size_t value)
{
    for (size_t i = value + 1; i <= plan->graph->values[value].last_user; ++i)
        for (size_t k = 0; k < plan->graph->layers[i].ins; ++k)
            if (!plan->graph->layers[i].gone && plan->graph->layers[i].in[k] == value)
                return plan->graph->layers[i].kind->stores && k == 0 &&
                       clprune__net_fused(plan, i) == NULL &&
                       clprune__net_region_of(plan, i)->chunk == plan->graph->desc.batch;
    return false;
}

static void forward_layer(maker *m, size_t i, bool training)
{
    const clprune__net_plan *plan = m->plan;
    const clprune__net_layer *layer = &plan->graph->layers[i];
    const clprune__net_choice *value = &plan->values[i];
    const clprune__net_tile *fused = clprune__net_fused(plan, i);
    clprune__net_step step = {.act = CLPRUNE__NET_FORWARD, .id = i};
    const size_t *in;
    if (fused != NULL && plan->layers[i].tile_last != i)
        return;
    const size_t ins = clprune__net_inputs(plan, i, &in);
    size_t over = 0;
    for (size_t k = 0; k < ins; ++k)
        step.in[k] = m->at[in[k]];
    while (over < layer->ins && !writes_over(m, layer, over, i, step.in[over]))
        over++;
    if (i == plan->graph->output)
        step.out = (place){CLPRUNE__NET_SLOT, 0, true, false};
    else if (training && (is_dense(value) || clprune__net_goes_to_store(plan, i)))
        step.out = (place){CLPRUNE__NET_STORE, i, true, false};
    else if (fused == NULL && over < layer->ins && !clprune__net_is_for_products(plan, i))
        step.out = step.in[over];
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
        (is_dense(value) && i != plan->graph->output) || clprune__net_goes_to_store(plan, i);
    if (training && value->kept && !in_store && !is_stored_later(plan, i))
        push(m, &(clprune__net_step){.act = CLPRUNE__NET_KEEP, .id = i, .out = step.out});
    for (size_t k = 0; k < ins; ++k)
        m->left[in[k]]--;
}

static void make_forward(maker *m, bool training)
{
    const clprune__net_plan *plan = m->plan;
    for (size_t i = 0; i < plan->graph->count; ++i)
        m->left[i] = plan->graph->values[i].users;
    for (size_t r = 0; r < plan->regions_count; ++r) {
        m->region = &plan->regions[r];
        push(m, &(clprune__net_step){.act = CLPRUNE__NET_LOOP, .id = r});
        for (size_t i = m->region->first; i <= m->region->last; ++i)
            if (!plan->graph->layers[i].gone && plan->graph->layers[i].kind->forward != NULL)
                forward_layer(m, i, training);
        push(m, &(clprune__net_step){.act = CLPRUNE__NET_END_LOOP, .id = r});
    }
}

/* ---- backward ----------------------------------------------------------------------------------
 */

/* How a layer that runs again reads its input k. */
static clprune__net_how how_of(const clprune__net_plan *plan, size_t v, size_t k)
{
    const clprune__net_layer *layer = &plan->graph->layers[v];
    if (layer->kind->codes >> k & 1)
        return CLPRUNE__NET_CODES;
    return layer->kind->takes_bf16 != NULL && layer->kind->takes_bf16(plan->graph, layer, k)
               ? CLPRUNE__NET_NARROW
               : CLPRUNE__NET_DENSE;
}

static size_t region_number(const maker *m)
{
    return (size_t)(m->region - m->plan->regions);
}

/* A value for the backward pass: read from its store, restored, or made again. */
static place obtain(maker *m, size_t v, clprune__net_how how)
{
    const clprune__net_plan *plan = m->plan;
    const clprune__net_choice *value = &plan->values[v];
    const bool codes = (how == CLPRUNE__NET_CODES && value->keep.form == CLPRUNE_FORM_QUANTISED &&
                           !value->keep.rotate) ||
                       (how == CLPRUNE__NET_NARROW && clprune__net_is_bf16(plan, v));
    if (is_dense(value) || (value->kept && (how == CLPRUNE__NET_PRODUCT || codes)))
        return (place){CLPRUNE__NET_STORE, v, true, false};
    if (m->made[v] == region_number(m) + 1)
        return m->at[v];
    m->made[v] = region_number(m) + 1;
    if (value->kept) {
        const place out = slot_for(m, v, false);
        push(m, &(clprune__net_step){.act = CLPRUNE__NET_RESTORE, .id = v, .out = out});
        return m->at[v] = out;
    }
    const clprune__net_tile *fused = clprune__net_fused(plan, v);
    const size_t *in, ins = clprune__net_inputs(plan, v, &in);
    clprune__net_step step = {.act = CLPRUNE__NET_FORWARD, .id = v, .again = true};
    /* what is made again first: until it is done, restored inputs would take memory */
    for (int kept = 0; kept < 2; ++kept)
        for (size_t k = 0; k < ins; ++k)
            if (plan->values[in[k]].kept == kept &&
                !clprune__net_is_data(&plan->graph->layers[in[k]]))
                step.in[k] =
                    obtain(m, in[k], fused == NULL ? how_of(plan, v, k) : CLPRUNE__NET_DENSE);
    if (fused != NULL)
        take_temps(m, fused, CLPRUNE__NET_OF_FORWARD, &step);
    step.out = slot_of_output(m, v, false);
    push(m, &step);
    return m->at[v] = step.out;
}

/* How many values have their gradient at a place. */
static size_t owners(const maker *m, place p)
{
    return p.at == CLPRUNE__NET_SLOT ? m->owners[p.id] : 0;
}

static place set_grad(maker *m, size_t v, place p)
{
    if (m->grad[v].at == CLPRUNE__NET_SLOT)
        m->owners[m->grad[v].id]--;
    if (p.at == CLPRUNE__NET_SLOT)
        m->owners[p.id]++;
    return m->grad[v] = p;
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
        (void)set_grad(m, v, copy_of(m, v, m->grad[v], m->border[v]));
}

/* Adds what is at a place to v's gradient, or makes it v's gradient. */
static void add_grad(maker *m, size_t v, place from)
{
    const bool whole = m->border[v] || m->region->chunk == m->plan->graph->desc.batch;
    if (m->grad[v].at == CLPRUNE__NET_NOWHERE) {
        (void)set_grad(m, v, from.whole || !whole ? from : copy_of(m, v, from, whole));
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
    const clprune__net_value *values = m->plan->graph->values;
    const bool whole = m->border[v] || m->region->chunk == m->plan->graph->desc.batch;
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
    if (clprune__net_is_narrow_grad(m->plan, tile, k))
        return set_grad(m, v, slot_of(m, v, m->border[v], true));
    const bool fits = values[v].shape.rows * values[v].shape.cols ==
                          values[out].shape.rows * values[out].shape.cols &&
                      (dy.whole || !whole);
    if (tile->way->ends[k].flow == CLPRUNE__NET_OVER && dy_is_free && fits && dy.id != 0)
        return set_grad(m, v, dy);
    return set_grad(m, v, slot_for(m, v, m->border[v]));
}

/* Whether the way runs without the gradient of end k: a product of its own, which may also add. */
static bool can_omit(const clprune__net_tile *tile, size_t k)
{
    return tile->way->ends[k].flow == CLPRUNE__NET_APART && tile->way->ends[k].adds;
}

/* step: has the temporaries that live through the region. */
static void backward_tile(maker *m, const clprune__net_tile *tile, clprune__net_step *step)
{
    const clprune__net_plan *plan = m->plan;
    const size_t out = tile->layers[tile->count - 1];
    bool late[CLPRUNE__NET_ENDS] = {false}, pass = false;
    place dy = m->grad[out];
    for (size_t k = 0; k < tile->way->needs_count; ++k)
        if (clprune__net_is_needed(plan->graph, tile, k))
            step->in[k] =
                obtain(m, clprune__net_needed(plan->graph, tile, k), tile->way->needs[k].how);
    (void)set_grad(m, out, nowhere);
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
        if (plan->graph->values[tile->ends[k]].trained)
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
        if (!plan->graph->values[tile->ends[k]].trained)
            continue;
        if (flow == CLPRUNE__NET_INTO || flow == CLPRUNE__NET_PASS)
            add_grad(m, tile->ends[k], dy);
        else if (late[k])
            add_grad(m, tile->ends[k], step->dx[k]);
    }
}

static size_t out_of(const clprune__net_tile *tile)
{
    return tile->layers[tile->count - 1];
}

/* Of tiles [begin, end). */
static void backward_region(maker *m, size_t r, clprune__net_step *steps, size_t begin, size_t end)
{
    const clprune__net_plan *plan = m->plan;
    m->region = &plan->regions[r];
    for (size_t t = end; t-- > begin;) {
        const clprune__net_tile *tile = &plan->tiles[t];
        steps[t] = (clprune__net_step){.act = CLPRUNE__NET_BEGIN, .id = t};
        if (!plan->graph->values[out_of(tile)].trained)
            continue;
        take_temps(m, tile, CLPRUNE__NET_OF_REGION, &steps[t]);
        if (tile->way->begin != NULL)
            push(m, &steps[t]);
    }
    push(m, &(clprune__net_step){.act = CLPRUNE__NET_LOOP, .id = r});
    for (size_t t = end; t-- > begin;)
        if (plan->graph->values[out_of(&plan->tiles[t])].trained)
            backward_tile(m, &plan->tiles[t], &steps[t]);
    push(m, &(clprune__net_step){.act = CLPRUNE__NET_END_LOOP, .id = r});
    for (size_t t = end; t-- > begin;) {
        clprune__net_step step = {.act = CLPRUNE__NET_END, .id = t};
        if (plan->tiles[t].way->end == NULL ||
            !plan->graph->values[out_of(&plan->tiles[t])].trained)
            continue;
        for (size_t k = 0; k < CLPRUNE__NET_TEMPS; ++k)
            if (steps[t].temp_size[k].life == CLPRUNE__NET_OF_REGION) {
                step.temp[k] = steps[t].temp[k];
                step.temp_size[k] = steps[t].temp_size[k];
            }
        push(m, &step);
    }
    push(m, &(clprune__net_step){.act = CLPRUNE__NET_DONE, .id = r});
}

static void make_backward(maker *m)
{
    const clprune__net_plan *plan = m->plan;
    size_t end = plan->tiles_count;
    clprune__net_step *steps = calloc(end + 1, sizeof *steps);
    if (steps == NULL) {
        m->status = no_memory(plan);
        return;
    }
    (void)set_grad(m, plan->graph->output, (place){CLPRUNE__NET_SLOT, 0, true, false});
    for (size_t r = plan->regions_count; r-- > 0;) {
        size_t begin = end;
        while (begin > 0 && out_of(&plan->tiles[begin - 1]) >= plan->regions[r].first)
            --begin;
        backward_region(m, r, steps, begin, end);
        end = begin;
    }
    free(steps);
}

/* ---- lists -------------------------------------------------------------------------------------
 */

static void close_maker(maker *m)
{
    free(m->at);
    free(m->made);
    free(m->owners);
    free(m->grad);
    free(m->left);
    free(m->border);
    free(m->sizes);
}

static clprune_status open_maker(clprune__net_plan *plan, maker *m)
{
    *m = (maker){.plan = plan,
        .at = calloc(plan->graph->count, sizeof *m->at),
        .made = calloc(plan->graph->count, sizeof *m->made),
        .grad = calloc(plan->graph->count, sizeof *m->grad),
        .left = calloc(plan->graph->count, sizeof *m->left),
        .border = calloc(plan->graph->count, sizeof *m->border)};
    if (m->at == NULL || m->made == NULL || m->grad == NULL || m->left == NULL ||
        m->border == NULL) {
        close_maker(m);
        return no_memory(plan);
    }
    clprune__net_find_borders(plan, m->border);
    return CLPRUNE_SUCCESS;
}

typedef enum kind_of_pass { BACKWARD, TRAINING, INFERENCE, PASSES } kind_of_pass;

static clprune_status make_list(maker *m, kind_of_pass pass, clprune__net_steps *list)
{
    const clprune__net_shape *output = &m->plan->graph->values[m->plan->graph->output].shape;
    m->list = list;
    m->slots = 0;
    (void)new_slot(
        m, (clprune__net_size){output->rows, output->cols, false, CLPRUNE__NET_OF_CALL}, true);
    if (m->status != CLPRUNE_SUCCESS)
        return m->status; /* there is no slot for the output */
    if (pass != BACKWARD)
        make_forward(m, pass == TRAINING);
    else if (!clprune__net_infers(m->plan->graph))
        make_backward(m);
    return m->status;
}

/* Which max pools make their positions again, with their output. Those that would do it from values
 * rounded to bf16, where a window may have another maximum, keep those of the forward pass. */
static void mark_made_again(clprune__net_plan *plan, const clprune__net_steps *backward)
{
    const clprune__net_region *region = NULL;
    for (size_t i = 0; i < plan->graph->count; ++i) {
        clprune__net_choice *value = &plan->values[i];
        const clprune__net_layer *layer = &plan->graph->layers[i];
        value->rounded =
            value->kept && value->keep.form == CLPRUNE_FORM_QUANTISED && value->keep.bits == 16;
        for (size_t k = 0; k < layer->ins && !value->kept; ++k)
            value->rounded = value->rounded || plan->values[layer->in[k]].rounded;
        plan->layers[i].made_again = 0;
    }
    for (size_t i = 0; i < backward->count; ++i) {
        const clprune__net_step *step = &backward->steps[i];
        if (step->act == CLPRUNE__NET_LOOP)
            region = &plan->regions[step->id];
        if (step->act == CLPRUNE__NET_FORWARD && clprune__net_is_in(region, step->id) &&
            !plan->values[step->id].rounded)
            plan->layers[step->id].made_again = region->chunk;
    }
}

static clprune_status add_output_slot(clprune__net_plan *plan)
{
    clprune_context *context = plan->graph->context;
    const clprune__net_shape *output = &plan->graph->values[plan->graph->output].shape;
    plan->slots = calloc(1, sizeof *plan->slots);
    REQUIRE(plan->slots != NULL, CLPRUNE_OUT_OF_HOST_MEMORY, "no memory for the steps of the net");
    plan->slots[0] = (clprune__net_slot){
        .elements = plan->graph->desc.batch * output->rows * output->cols, .name = "output"};
    plan->slots_count = 1;
    return CLPRUNE_SUCCESS;
}

clprune_status clprune__net_find_room(clprune__net_plan *plan, clprune__net_room *room)
{
    clprune_status status = CLPRUNE_SUCCESS;
    clprune__net_steps list = {0};
    double apart = 0, most[PASSES] = {0};
    maker m;
    *room = (clprune__net_room){0};
    TRY(open_maker(plan, &m));
    TRY_DONE(add_output_slot(plan));
    for (kind_of_pass i = 0; i < PASSES; ++i) {
        list.count = 0;
        TRY_DONE(make_list(&m, i, &list));
        if (i == BACKWARD)
            mark_made_again(plan, &list);
        TRY_DONE(clprune__net_most_bytes(plan, &list, m.sizes, m.slots, i == BACKWARD, &most[i]));
        TRY_DONE(clprune__net_place_slots(plan, &list, m.sizes, m.slots, true));
    }
    for (size_t v = 0; v < plan->graph->count; ++v) {
        room->kept += plan->values[v].kept ? (double)clprune__net_bytes(plan, v) : 0;
        room->kept += clprune__net_beside(plan, v, false);
        apart += clprune__net_beside(plan, v, true);
    }
    for (size_t i = 0; i < plan->slots_count; ++i)
        apart += 4 * (double)plan->slots[i].elements;
    room->backward = most[BACKWARD];
    room->apart = room->kept + apart;
    room->arena = most[BACKWARD] > most[TRAINING] ? most[BACKWARD] : most[TRAINING];
    if (room->arena > room->apart) /* lives of slots in regions are not known exactly */
        room->arena = room->apart;
done:
    free(list.steps);
    free(plan->slots);
    plan->slots = NULL;
    plan->slots_count = 0;
    close_maker(&m);
    return status;
}

clprune_status clprune__net_make_steps(clprune__net_plan *plan)
{
    clprune__net_steps *const lists[PASSES] = {&plan->backward, &plan->forward, &plan->inference};
    clprune_status status = CLPRUNE_SUCCESS;
    maker m;
    TRY(add_output_slot(plan));
    TRY(open_maker(plan, &m));
    for (kind_of_pass i = 0; i < PASSES; ++i) {
        if (plan->graph->desc.infers && i == TRAINING)
            continue;
        TRY_DONE(make_list(&m, i, lists[i]));
        TRY_DONE(clprune__net_place_slots(
            plan, m.list, m.sizes, m.slots, !clprune__memory_is_planned(plan->graph->context)));
    }
    mark_made_again(plan, &plan->backward);
done:
    close_maker(&m);
    return status;
}
