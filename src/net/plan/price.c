/* Counts what a backward pass makes again from what is kept. */
#include "net/plan/price.h"

#include <stdlib.h>

#include "net/plan/cover.h"
#include "net/plan/regions.h"
#include "net/plan/steps.h"
#include "runtime/context/check.h"

/* Making an element again costs as much as keeping this many bytes. So a chain of layers is not
 * made again from the far end for each of its values. */
static const double byte_per_element = 0.05;

/* A product of so few multiplications an element takes about as long as a pass over memory. One of
 * an adapter counts as such a pass if it has at most so many an element of its input or output. */
enum { SMALL_PRODUCT = 64, ADAPTER_PRODUCT = 16 };

/* Multiplications of a forward pass that count as a product. */
static double work_of(const clprune__net_plan *plan, const clprune__net_layer *layer)
{
    const size_t y =
        clprune__net_elements(&plan->graph->values[clprune__net_out(plan->graph, layer)]);
    const size_t x = clprune__net_elements(&plan->graph->values[layer->in[0]]);
    const double work = layer->kind->work != NULL ? layer->kind->work(plan->graph, layer) : 0;
    const bool passes = layer->adapter && plan->adapter_products &&
                        work <= ADAPTER_PRODUCT * (double)(x > y ? x : y);
    return passes ? 0 : work;
}

/* Counts the multiplications of making a value again, for one of `most` elements. A small product
 * of more elements than that takes more memory, while it is there, than is saved. */
static void count_work(clprune__net_pricer *p, clprune__net_price *price, size_t v, size_t most)
{
    const clprune__net_plan *plan = p->plan;
    const clprune__net_tile *fused = clprune__net_fused(plan, v);
    const double work = work_of(plan, &plan->graph->layers[fused != NULL ? fused->layers[0] : v]);
    const size_t elements = clprune__net_elements(&plan->graph->values[v]);
    if (plan->values[v].ruled || work <= (double)plan->products * (double)elements)
        return;
    if (plan->small_products && elements <= most && work <= SMALL_PRODUCT * (double)elements)
        price->small_work += work;
    else
        price->work += work;
}

/* Whether a value is read where it is kept, or is data. */
static bool is_there(const clprune__net_plan *plan, size_t v, bool product)
{
    const clprune__net_choice *value = &plan->values[v];
    return clprune__net_is_data(&plan->graph->layers[v]) ||
           (value->kept && (product || value->keep.form == CLPRUNE_FORM_DENSE));
}

double clprune__net_price_bytes(const clprune__net_plan *plan, const clprune__net_price *price)
{
    return price->kept + byte_per_element * price->elements * (double)plan->graph->desc.batch;
}

static size_t out_of(const clprune__net_plan *plan, size_t tile)
{
    return plan->tiles[tile].layers[plan->tiles[tile].count - 1];
}

/* The first tile that ends at layer `first` or later. */
static size_t tile_from(const clprune__net_plan *plan, size_t first)
{
    size_t low = 0, high = plan->tiles_count;
    while (low < high) {
        const size_t middle = (low + high) / 2;
        if (out_of(plan, middle) < first)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* ---- with the present regions ------------------------------------------------------------------
 */

/* Counts what it takes to have a value in the region that p->mark stands for, for one of `most`
 * elements. */
static void count_making(
    clprune__net_pricer *p, clprune__net_price *price, size_t v, bool product, size_t most)
{
    const clprune__net_plan *plan = p->plan;
    const size_t *in;
    if (p->made[v] == p->mark || is_there(plan, v, product))
        return;
    p->made[v] = p->mark;
    price->elements += (double)clprune__net_elements(&plan->graph->values[v]);
    if (plan->values[v].kept)
        return;
    if (plan->graph->layers[v].kind->forward == NULL)
        price->possible = false;
    count_work(p, price, v, most);
    const size_t ins = clprune__net_inputs(plan, v, &in);
    for (size_t k = 0; k < ins && price->possible; ++k)
        count_making(p, price, in[k], false, most);
}

/* Of the regions of layers `first` to `last`. */
static clprune__net_price price_of_span(clprune__net_pricer *p, size_t first, size_t last)
{
    const clprune__net_plan *plan = p->plan;
    clprune__net_price price = {.possible = true};
    size_t end = 0; /* of the region that is counted, + 1 */
    for (size_t i = first; i <= last; ++i)
        price.kept += plan->values[i].kept ? p->bytes[i] : 0;
    for (size_t t = tile_from(plan, first);
         t < plan->tiles_count && out_of(plan, t) <= last && price.possible; ++t) {
        const clprune__net_tile *tile = &plan->tiles[t];
        if (out_of(plan, t) >= end) {
            end = clprune__net_region_of(plan, out_of(plan, t))->last + 1;
            p->mark++;
        }
        for (size_t k = 0;
             k < tile->way->needs_count && plan->graph->values[out_of(plan, t)].trained; ++k) {
            const size_t v = clprune__net_needed(plan->graph, tile, k);
            if (clprune__net_is_needed(plan->graph, tile, k))
                count_making(p, &price, v, tile->way->needs[k].how == CLPRUNE__NET_PRODUCT,
                    clprune__net_elements(&plan->graph->values[v]));
        }
    }
    return price;
}

/* Regions read values before them, up to a kept joint: a change is seen by its own region and those
 * behind it up to such a joint. */
clprune__net_price clprune__net_price_with(
    clprune__net_pricer *p, const size_t *values, size_t count)
{
    clprune__net_plan *plan = p->plan;
    const size_t first = clprune__net_region_of(plan, values[0])->first;
    size_t last = values[count - 1];
    do
        ++last;
    while (last < plan->graph->count && !(p->joints[last] && plan->values[last].kept));
    last -= last == plan->graph->count;
    clprune__net_price price = p->price;
    if (p->first != first || p->last != last)
        p->span = price_of_span(p, first, last);
    for (size_t i = 0; i < count; ++i)
        plan->values[values[i]].kept = !plan->values[values[i]].kept;
    const clprune__net_price after = price_of_span(p, first, last);
    for (size_t i = 0; i < count; ++i)
        plan->values[values[i]].kept = !plan->values[values[i]].kept;
    p->first = first;
    p->last = last;
    price.kept += after.kept - p->span.kept;
    price.elements += after.elements - p->span.elements;
    price.work += after.work - p->span.work;
    price.small_work += after.small_work - p->span.small_work;
    price.possible = after.possible;
    return price;
}

void clprune__net_price_take(
    clprune__net_pricer *p, const size_t *values, size_t count, const clprune__net_price *price)
{
    for (size_t i = 0; i < count; ++i)
        p->plan->values[values[i]].kept = !p->plan->values[values[i]].kept;
    p->price = *price;
    p->last = 0;
}

/* ---- with regions that end at kept joints ------------------------------------------------------
 */

/* What a value is for the backward pass of a region. A joint has a mark for the region that it ends
 * and one for the next region. */
enum { WANTED = 1, MADE = 2 };

static void set_mark(clprune__net_pricer *p, size_t at, unsigned char mark)
{
    if (p->marks[at] == mark)
        return;
    p->undo[p->changes++] = 4 * at + p->marks[at];
    p->marks[at] = mark;
}

/* Counts what it takes to have a value in a region that begins behind value before - 1. */
static void count_wanted(
    clprune__net_pricer *p, clprune__net_price *price, size_t v, size_t before, bool product)
{
    const clprune__net_plan *plan = p->plan;
    const size_t at = 2 * v + (v + 1 == before), *in;
    set_mark(p, at, p->marks[at] | WANTED);
    if ((p->marks[at] & MADE) != 0 || is_there(plan, v, product))
        return;
    set_mark(p, at, WANTED | MADE);
    price->elements += (double)clprune__net_elements(&plan->graph->values[v]);
    if (plan->values[v].kept)
        return;
    if (plan->graph->layers[v].kind->forward == NULL)
        price->possible = false;
    count_work(p, price, v, 0);
    const size_t ins = clprune__net_inputs(plan, v, &in);
    for (size_t k = 0; k < ins && price->possible; ++k)
        count_wanted(p, price, in[k], before, false);
}

clprune__net_price clprune__net_price_without(
    clprune__net_pricer *p, size_t v, size_t before, bool takes)
{
    clprune__net_price price = p->price;
    unsigned char marks = 0;
    price.kept -= p->bytes[v];
    p->plan->values[v].kept = false;
    p->changes = 0;
    for (size_t at = 2 * v; at < 2 * v + 2; ++at) { /* the regions before and behind become one */
        marks |= p->marks[at];
        if ((p->marks[at] & MADE) != 0)
            price.elements -= (double)clprune__net_elements(&p->plan->graph->values[v]);
        set_mark(p, at, 0);
    }
    if (marks != 0)
        count_wanted(p, &price, v, before, false);
    if (takes) {
        p->price = price;
        return price;
    }
    p->plan->values[v].kept = true;
    while (p->changes-- > 0)
        p->marks[p->undo[p->changes] / 4] = p->undo[p->changes] % 4;
    return price;
}

/* Of the whole net. */
static void count_regions(clprune__net_pricer *p)
{
    const clprune__net_plan *plan = p->plan;
    size_t before = 0, joint = 0; /* joints up to this one were looked at */
    p->price.possible = true;
    for (size_t i = 0; i < plan->graph->count; ++i)
        p->price.kept += plan->values[i].kept ? p->bytes[i] : 0;
    for (size_t t = 0; t < plan->tiles_count; ++t) {
        const clprune__net_tile *tile = &plan->tiles[t];
        for (; joint < out_of(plan, t); ++joint)
            if (p->joints[joint] && plan->values[joint].kept)
                before = joint + 1;
        for (size_t k = 0;
             k < tile->way->needs_count && plan->graph->values[out_of(plan, t)].trained; ++k)
            if (clprune__net_is_needed(plan->graph, tile, k)) {
                p->changes = 0;
                count_wanted(p, &p->price, clprune__net_needed(plan->graph, tile, k), before,
                    tile->way->needs[k].how == CLPRUNE__NET_PRODUCT);
            }
    }
}

clprune_status clprune__net_pricer_open(
    clprune__net_pricer *p, clprune__net_plan *plan, bool at_kept)
{
    clprune_context *context = plan->graph->context;
    *p = (clprune__net_pricer){.plan = plan,
        .joints = calloc(plan->graph->count, sizeof *p->joints),
        .bytes = calloc(plan->graph->count, sizeof *p->bytes),
        .made = calloc(plan->graph->count, sizeof *p->made),
        .marks = calloc(plan->graph->count, 2 * sizeof *p->marks),
        .undo = calloc(plan->graph->count, 4 * sizeof *p->undo)};
    REQUIRE(p->joints != NULL && p->bytes != NULL && p->made != NULL && p->marks != NULL &&
                p->undo != NULL,
        CLPRUNE_OUT_OF_HOST_MEMORY, "no memory for the plan of the net");
    clprune__net_list_joints(plan, p->joints);
    for (size_t i = 0; i < plan->graph->count; ++i) {
        p->bytes[i] = (double)clprune__net_bytes(plan, i);
        p->joints[i] = p->joints[i] && i > 0 && i <= plan->graph->output &&
                       plan->graph->layers[i].kind->forward;
    }
    if (at_kept)
        count_regions(p);
    else
        p->price = price_of_span(p, 0, plan->graph->count - 1);
    return CLPRUNE_SUCCESS;
}

void clprune__net_pricer_close(clprune__net_pricer *p)
{
    free(p->joints);
    free(p->bytes);
    free(p->made);
    free(p->marks);
    free(p->undo);
}

/* A product forward, and one for each gradient: its input's, and its weight's or its other input's;
 * also of frozen weights, so that with them no more is kept. */
double clprune__net_step_work(const clprune__net_plan *plan)
{
    double work = 0;
    for (size_t i = 0; i < plan->graph->count; ++i)
        if (!plan->graph->layers[i].gone)
            work += 3 * work_of(plan, &plan->graph->layers[i]);
    return work;
}
