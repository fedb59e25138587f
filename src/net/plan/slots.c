/* Slots for the tensors of a list of steps. Without a plan (clprune/plan.h), those that are not
 * live at once share one; a plan finds better places. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "net/plan/cover.h"
#include "net/plan/steps.h"
#include "runtime/context/check.h"

clprune_status clprune__net_push(
    clprune__net_plan *plan, clprune__net_steps *list, const clprune__net_step *step)
{
    clprune_context *context = plan->graph->context;
    if (list->count == list->room) {
        const size_t room = list->room > 0 ? 2 * list->room : 64;
        clprune__net_step *larger = realloc(list->steps, room * sizeof *larger);
        REQUIRE(larger != NULL, CLPRUNE_OUT_OF_HOST_MEMORY, "no memory for %zu steps", room);
        list->steps = larger;
        list->room = room;
    }
    list->steps[list->count++] = *step;
    return CLPRUNE_SUCCESS;
}

/* The life of a virtual slot: its first and last step, the samples that a chunk has there, the slot
 * that it gets, and the next ones with the same first and last step. */
typedef struct life {
    size_t first, last, samples, slot;
    size_t begin, end; /* of the loops of several turns that the first and last step are in */
    size_t next_first, next_last;
    bool used, whole;
} life;

enum { PLACES = 2 * CLPRUNE__NET_ENDS + 1 + CLPRUNE__NET_TEMPS };

/* All places of a step. */
static void list_places(clprune__net_step *step, clprune__net_place *places[PLACES])
{
    size_t count = 0;
    for (size_t k = 0; k < CLPRUNE__NET_ENDS; ++k) {
        places[count++] = &step->in[k];
        places[count++] = &step->dx[k];
    }
    for (size_t k = 0; k < CLPRUNE__NET_TEMPS; ++k)
        places[count++] = &step->temp[k];
    places[count] = &step->out;
}

/* What is whole lives through the loops that use it: each turn reads or writes a part. */
static void find_lives(
    const clprune__net_plan *plan, clprune__net_steps *list, life *lives, size_t count)
{
    clprune__net_place *places[PLACES];
    size_t loop = SIZE_MAX,
           samples = plan->graph->desc.batch; /* SIZE_MAX: in none of several turns */
    for (size_t i = 0; i < list->count; ++i) {
        if (list->steps[i].act == CLPRUNE__NET_LOOP) {
            samples = plan->regions[list->steps[i].id].chunk;
            loop = samples != plan->graph->desc.batch ? i : SIZE_MAX;
        } else if (list->steps[i].act == CLPRUNE__NET_END_LOOP) {
            loop = SIZE_MAX;
        }
        list_places(&list->steps[i], places);
        for (size_t k = 0; k < PLACES; ++k) {
            if (places[k]->at != CLPRUNE__NET_SLOT)
                continue;
            life *l = &lives[places[k]->id];
            if (!l->used) {
                l->first = i;
                l->begin = loop < i ? loop : i;
                l->samples = samples;
            }
            l->used = true;
            l->whole = l->whole || places[k]->whole;
            l->last = i;
        }
    }
    loop = SIZE_MAX;
    for (size_t i = list->count; i-- > 0;) {
        if (list->steps[i].act == CLPRUNE__NET_END_LOOP &&
            plan->regions[list->steps[i].id].chunk != plan->graph->desc.batch)
            loop = i;
        else if (list->steps[i].act == CLPRUNE__NET_LOOP)
            loop = SIZE_MAX;
        list_places(&list->steps[i], places);
        for (size_t k = 0; k < PLACES; ++k)
            if (places[k]->at == CLPRUNE__NET_SLOT && lives[places[k]->id].last == i)
                lives[places[k]->id].end = loop != SIZE_MAX ? loop : i;
    }
    for (size_t k = 0; k < count; ++k) {
        if (!lives[k].used || !lives[k].whole)
            continue;
        lives[k].first = lives[k].begin;
        lives[k].last = lives[k].end;
    }
}

static void rename_slot(clprune__net_steps *list, size_t from, size_t to, size_t old, size_t new)
{
    clprune__net_place *places[PLACES];
    for (size_t i = from; i <= to; ++i) {
        list_places(&list->steps[i], places);
        for (size_t k = 0; k < PLACES; ++k)
            if (places[k]->at == CLPRUNE__NET_SLOT && places[k]->id == old)
                places[k]->id = new;
    }
}

/* What is made again from an input that nothing reads afterwards takes its place, if the layer can
 * write over it. */
static void write_over_inputs(const clprune__net_plan *plan, clprune__net_steps *list,
    const clprune__net_size *sizes, life *lives)
{
    for (size_t i = 0; i < list->count; ++i) {
        const clprune__net_step *step = &list->steps[i];
        if (step->act != CLPRUNE__NET_FORWARD || !step->again ||
            step->temp[0].at != CLPRUNE__NET_NOWHERE)
            continue;
        const clprune__net_kind *kind = plan->graph->layers[step->id].kind;
        for (size_t k = 0; k < CLPRUNE__NET_INPUTS; ++k) {
            const clprune__net_place in = step->in[k], out = step->out;
            const clprune__net_size *from = &sizes[in.id], *to = &sizes[out.id];
            if (!(k == 0 ? kind->over : kind->over_second) || in.at != CLPRUNE__NET_SLOT ||
                in.id == 0 || in.id == out.id || lives[in.id].last != i ||
                lives[out.id].first != i || in.whole != out.whole || from->in_all != to->in_all ||
                from->rows * from->cols != to->rows * to->cols)
                continue;
            rename_slot(list, i, lives[out.id].last, out.id, in.id);
            lives[in.id].last = lives[out.id].last;
            lives[out.id].used = false;
        }
    }
}

static void settle_lives(const clprune__net_plan *plan, clprune__net_steps *list,
    const clprune__net_size *sizes, size_t count, life *lives)
{
    find_lives(plan, list, lives, count);
    write_over_inputs(plan, list, sizes, lives);
}

static size_t slot_elements(
    const clprune__net_plan *plan, const clprune__net_size *size, const life *l)
{
    const size_t each = size->rows * size->cols;
    return size->in_all ? each : each * (l->whole ? plan->graph->desc.batch : l->samples);
}

/* ends[v]: behind the last step that reads the store of value v. */
static void find_reads(const clprune__net_steps *list, size_t *ends)
{
    for (size_t i = 0; i < list->count; ++i) {
        const clprune__net_step *step = &list->steps[i];
        if (step->act == CLPRUNE__NET_RESTORE)
            ends[step->id] = i + 1;
        for (size_t k = 0; k < CLPRUNE__NET_ENDS; ++k)
            if (step->in[k].at == CLPRUNE__NET_STORE)
                ends[step->in[k].id] = i + 1;
    }
}

/* Whether what a backward step needs is read later. */
static void mark_last(clprune__net_steps *list, const life *lives, const size_t *ends)
{
    for (size_t i = 0; i < list->count; ++i)
        for (size_t k = 0; k < CLPRUNE__NET_NEEDS && list->steps[i].act == CLPRUNE__NET_BACKWARD;
             ++k) {
            const clprune__net_place place = list->steps[i].in[k];
            list->steps[i].last[k] = place.at == CLPRUNE__NET_STORE  ? ends[place.id] == i + 1
                                     : place.at == CLPRUNE__NET_SLOT ? lives[place.id].last == i
                                                                     : false;
        }
}

/* A spare temporary needs no slot where the step may write over what it needs. */
static void drop_spares(const clprune__net_plan *plan, clprune__net_steps *list, life *lives)
{
    for (size_t i = 0; i < list->count; ++i) {
        clprune__net_step *step = &list->steps[i];
        const bool dense = step->in[0].at == CLPRUNE__NET_SLOT ||
                           (step->in[0].at == CLPRUNE__NET_STORE &&
                               plan->values[step->in[0].id].keep.form == CLPRUNE_FORM_DENSE);
        for (size_t k = 0; k < CLPRUNE__NET_TEMPS; ++k)
            if (step->temp_size[k].spare && step->temp[k].at == CLPRUNE__NET_SLOT &&
                step->last[0] && dense) {
                lives[step->temp[k].id].used = false;
                step->temp[k].at = CLPRUNE__NET_NOWHERE;
            }
    }
}

size_t clprune__net_bytes(const clprune__net_plan *plan, size_t v)
{
    const clprune__net_shape *shape = &plan->graph->values[v].shape;
    clprune_saved_sizes sizes;
    (void)clprune_saved_size_query(
        &plan->values[v].keep, plan->graph->desc.batch, shape->rows, shape->cols, &sizes);
    return sizes.bytes;
}

/* What a backward step reads for signs alone is dead before the step writes dx. */
static void end_signs_early(
    const clprune__net_plan *plan, const clprune__net_steps *list, life *lives)
{
    for (size_t i = 0; i < list->count; ++i) {
        const clprune__net_step *step = &list->steps[i];
        if (step->act != CLPRUNE__NET_BACKWARD)
            continue;
        const clprune__net_way *way = plan->tiles[step->id].way;
        for (size_t k = 0; k < way->needs_count; ++k) {
            const clprune__net_place in = step->in[k];
            if (way->needs[k].how == CLPRUNE__NET_SIGN && in.at == CLPRUNE__NET_SLOT &&
                lives[in.id].last == i && lives[in.id].first < i)
                lives[in.id].last = i - 1;
        }
    }
}

clprune_keep clprune__net_mask_keep(const clprune__net_plan *plan, size_t v)
{
    const clprune__net_kind *kind = plan->graph->layers[v].kind;
    kind = kind->as != NULL ? kind->as : kind;
    return (clprune_keep){.form = kind->mask != CLPRUNE_FORM_DENSE ? kind->mask : CLPRUNE_FORM_MASK,
        .bits = plan->gelu_bits};
}

static double mask_bytes(const clprune__net_plan *plan, size_t v)
{
    const clprune__net_tile *tile = clprune__net_tile_of(plan, v);
    const clprune__net_shape *shape = &plan->graph->values[v].shape;
    const clprune_keep keep = clprune__net_mask_keep(plan, v);
    clprune_saved_sizes sizes;
    if (tile == NULL || !tile->way->keeps_mask || tile->layers[0] != v)
        return 0;
    (void)clprune_saved_size_query(
        &keep, plan->graph->desc.batch, shape->rows, shape->cols, &sizes);
    return (double)sizes.bytes;
}

clprune_status clprune__net_positions_query(
    const clprune__net_plan *plan, size_t v, clprune_max_pool_sizes *sizes)
{
    const size_t again = plan->layers[v].made_again;
    return plan->graph->layers[v].kind->positions(
        again > 0 ? again : plan->graph->desc.batch, &plan->graph->values[v].shape, sizes);
}

static double position_bytes(const clprune__net_plan *plan, size_t v)
{
    clprune_max_pool_sizes sizes;
    if (plan->graph->layers[v].kind->positions == NULL)
        return 0;
    (void)clprune__net_positions_query(plan, v, &sizes);
    return (double)(sizes.rows * sizes.cols * sizeof(float));
}

double clprune__net_beside(const clprune__net_plan *plan, size_t v, bool again)
{
    return (again ? 0 : mask_bytes(plan, v)) +
           (again == (plan->layers[v].made_again > 0) ? position_bytes(plan, v) : 0);
}

/* What stores add at a step, and signs and positions beside them; change has one step more than the
 * list. Of a forward list: from the step that writes them; of a backward one: to the last that
 * reads them. */
static void count_stores(const clprune__net_plan *plan, const clprune__net_steps *list,
    const size_t *ends, bool backward, double *change)
{
    for (size_t v = 0; backward && v < plan->graph->count; ++v) {
        const double bytes = plan->values[v].kept ? (double)clprune__net_bytes(plan, v) : 0;
        change[0] += bytes + clprune__net_beside(plan, v, false);
        change[ends[v]] -= bytes;
    }
    for (size_t i = 0; i < list->count; ++i) {
        const clprune__net_step *step = &list->steps[i];
        if (step->act == CLPRUNE__NET_FORWARD)
            change[i] += clprune__net_beside(plan, step->id, backward);
        if (step->act == CLPRUNE__NET_FORWARD && !backward && step->out.at == CLPRUNE__NET_STORE)
            change[i] += (double)clprune__net_bytes(plan, step->out.id);
        if (step->act == CLPRUNE__NET_KEEP)
            change[i] += (double)clprune__net_bytes(plan, step->id);
        if (step->stores)
            change[i] += (double)clprune__net_bytes(plan, plan->graph->layers[step->id].in[0]);
        for (size_t k = 0; step->act == CLPRUNE__NET_BACKWARD && k < plan->tiles[step->id].count;
             ++k) {
            const size_t v = plan->tiles[step->id].layers[k];
            change[i + 1] -= mask_bytes(plan, v) + position_bytes(plan, v);
        }
    }
}

clprune_status clprune__net_most_bytes(const clprune__net_plan *plan, clprune__net_steps *list,
    const clprune__net_size *sizes, size_t count, bool backward, double *most)
{
    clprune_context *context = plan->graph->context;
    clprune_status status = CLPRUNE_SUCCESS;
    life *lives = calloc(count + 1, sizeof *lives);
    size_t *ends = calloc(plan->graph->count, sizeof *ends);
    double live = 0, *change = calloc(list->count + 1, sizeof *change);
    REQUIRE_DONE(lives != NULL && ends != NULL && change != NULL, CLPRUNE_OUT_OF_HOST_MEMORY,
        "no memory for %zu slots", count);
    settle_lives(plan, list, sizes, count, lives);
    end_signs_early(plan, list, lives);
    find_reads(list, ends);
    count_stores(plan, list, ends, backward, change);
    for (size_t k = 0; k < count; ++k) {
        if (!lives[k].used)
            continue;
        const double bytes = 4 * (double)slot_elements(plan, &sizes[k], &lives[k]);
        change[lives[k].first] += bytes;
        change[lives[k].last + 1] -= bytes;
    }
    *most = 0;
    for (size_t i = 0; i < list->count; ++i) {
        live += change[i];
        *most = live > *most ? live : *most;
    }
done:
    free(lives);
    free(ends);
    free(change);
    return status;
}

/* A slot that is free: the smallest one that is large enough, else the largest one, which grows.
 * SIZE_MAX: none. */
static size_t free_slot(const clprune__net_plan *plan, size_t elements, const bool *busy)
{
    size_t best = SIZE_MAX;
    for (size_t i = 0; i < plan->slots_count; ++i) {
        const size_t now = plan->slots[i].elements,
                     then = best != SIZE_MAX ? plan->slots[best].elements : 0;
        if (!busy[i] &&
            (best == SIZE_MAX || (now >= elements ? now < then || then < elements : now > then)))
            best = i;
    }
    return best;
}

static clprune_status take_slot(
    clprune__net_plan *plan, bool shares, size_t elements, bool *busy, size_t *slot)
{
    clprune_context *context = plan->graph->context;
    *slot = shares ? free_slot(plan, elements, busy) : SIZE_MAX;
    if (*slot != SIZE_MAX) {
        if (plan->slots[*slot].elements < elements)
            plan->slots[*slot].elements = elements;
        return CLPRUNE_SUCCESS;
    }
    *slot = plan->slots_count;
    clprune__net_slot *larger = realloc(plan->slots, (plan->slots_count + 1) * sizeof *plan->slots);
    REQUIRE(larger != NULL, CLPRUNE_OUT_OF_HOST_MEMORY, "no memory for the slots of the net");
    plan->slots = larger;
    plan->slots[plan->slots_count] = (clprune__net_slot){.elements = elements};
    (void)snprintf(plan->slots[plan->slots_count].name, sizeof plan->slots->name, "slot %zu",
        plan->slots_count);
    plan->slots_count++;
    return CLPRUNE_SUCCESS;
}

/* Chains the lives of each first step and of each last one; steps[i], steps[count + i]: the first
 * of the chain; 0: none. */
static void chain_lives(life *lives, size_t lives_count, size_t *steps, size_t count)
{
    for (size_t k = lives_count; k-- > 1;) {
        if (!lives[k].used)
            continue;
        lives[k].next_first = steps[lives[k].first];
        steps[lives[k].first] = k;
        lives[k].next_last = steps[count + lives[k].last];
        steps[count + lives[k].last] = k;
    }
}

clprune_status clprune__net_place_slots(clprune__net_plan *plan, clprune__net_steps *list,
    const clprune__net_size *sizes, size_t count, bool shares)
{
    clprune_context *context = plan->graph->context;
    clprune_status status = CLPRUNE_SUCCESS;
    clprune__net_steps placed = {0};
    life *lives = calloc(count + 1, sizeof *lives);
    bool *busy = calloc(plan->slots_count + count + 1, sizeof *busy);
    size_t *ends = calloc(plan->graph->count, sizeof *ends);
    size_t *chains = calloc(2 * list->count + 1, sizeof *chains);
    REQUIRE_DONE(lives != NULL && busy != NULL && ends != NULL && chains != NULL,
        CLPRUNE_OUT_OF_HOST_MEMORY, "no memory for %zu slots", count);
    settle_lives(plan, list, sizes, count, lives);
    find_reads(list, ends);
    mark_last(list, lives, ends);
    drop_spares(plan, list, lives);
    chain_lives(lives, count, chains, list->count);
    busy[0] = true; /* the output */
    for (size_t i = 0; i < list->count; ++i) {
        clprune__net_step step = list->steps[i];
        clprune__net_place *places[PLACES];
        for (size_t k = chains[i]; k != 0; k = lives[k].next_first) {
            TRY_DONE(take_slot(
                plan, shares, slot_elements(plan, &sizes[k], &lives[k]), busy, &lives[k].slot));
            busy[lives[k].slot] = true;
        }
        list_places(&step, places);
        for (size_t k = 0; k < PLACES; ++k)
            if (places[k]->at == CLPRUNE__NET_SLOT)
                places[k]->id = lives[places[k]->id].slot;
        TRY_DONE(clprune__net_push(plan, &placed, &step));
        for (size_t k = chains[list->count + i]; k != 0; k = lives[k].next_last) {
            busy[lives[k].slot] = false;
            TRY_DONE(clprune__net_push(plan, &placed,
                &(clprune__net_step){.act = CLPRUNE__NET_FORGET, .id = lives[k].slot}));
        }
    }
    free(list->steps);
    *list = placed;
    placed.steps = NULL;
done:
    free(placed.steps);
    free(lives);
    free(busy);
    free(ends);
    free(chains);
    return status;
}
