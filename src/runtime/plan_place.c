/* Offline placement of buffers with known lives: one by one, in several orders, each at the lowest
 * place that is free during all its lives; the order that ends lowest wins. The borrowed bytes grow
 * from 0 upwards and shrink again, so a buffer need only stay above what is borrowed while it
 * lives: its floor. */
#include <stdlib.h>

#include "core/checked.h"
#include "runtime/check.h"
#include "runtime/plan_private.h"

static bool lives_overlap(const clprune_plan_entry *a, const clprune_plan_entry *b)
{
    if (a->spans_count == 0 || b->spans_count == 0)
        return true;
    for (size_t i = 0, k = 0; i < a->spans_count && k < b->spans_count;) {
        if (a->spans[i].last < b->spans[k].first)
            i++;
        else if (b->spans[k].last < a->spans[i].first)
            k++;
        else
            return true;
    }
    return false;
}

/* From the first command of a buffer's lives to the last. */
static uint64_t reach(const clprune__planned *p)
{
    const clprune_plan_entry *e = &p->entry;
    return e->spans_count == 0 ? UINT64_MAX : e->spans[e->spans_count - 1].last - e->spans[0].first;
}

static int descending(uint64_t a, uint64_t b)
{
    return (a < b) - (a > b);
}

/* The orders; buffers that are equal in one keep the order of their creation: they lie in an array.
 */
static int by_size(const void *a, const void *b)
{
    const clprune__planned *p = *(clprune__planned *const *)a, *q = *(clprune__planned *const *)b;
    const int order = descending(p->room, q->room);
    return order != 0 ? order : (p > q) - (p < q);
}

static int by_reach(const void *a, const void *b)
{
    const clprune__planned *p = *(clprune__planned *const *)a, *q = *(clprune__planned *const *)b;
    const int order = descending(reach(p), reach(q));
    return order != 0 ? order : by_size(a, b);
}

static int by_floor(const void *a, const void *b)
{
    const clprune__planned *p = *(clprune__planned *const *)a, *q = *(clprune__planned *const *)b;
    const int order = descending(q->floor, p->floor);
    return order != 0 ? order : by_reach(a, b);
}

static int by_offset(const void *a, const void *b)
{
    const clprune__planned *p = *(clprune__planned *const *)a, *q = *(clprune__planned *const *)b;
    return descending(q->entry.offset, p->entry.offset);
}

/* Sets the offset of order[i] to the lowest that those before it leave. in_way: room for i. */
static void place(clprune__planned **order, size_t i, clprune__planned **in_way)
{
    clprune__planned *p = order[i];
    size_t count = 0;
    for (size_t k = 0; k < i; k++)
        if (lives_overlap(&p->entry, &order[k]->entry))
            in_way[count++] = order[k];
    qsort(in_way, count, sizeof(clprune__planned *), by_offset);
    uint64_t offset = p->floor;
    for (size_t k = 0; k < count && in_way[k]->entry.offset < offset + p->room; k++)
        if (in_way[k]->entry.offset + in_way[k]->room > offset)
            offset = in_way[k]->entry.offset + in_way[k]->room;
    p->entry.offset = offset;
}

clprune_status clprune__plan_place(clprune_context *context, clprune_plan *plan)
{
    static int (*const orders[])(const void *, const void *) = {by_size, by_reach, by_floor};
    clprune_status status = CLPRUNE_SUCCESS;
    const size_t room = clprune__max(plan->count, 1);
    clprune__planned **order = calloc(room, sizeof(clprune__planned *));
    clprune__planned **in_way = calloc(room, sizeof(clprune__planned *));
    uint64_t *best = calloc(room, sizeof *best);
    uint64_t lowest = UINT64_MAX;
    REQUIRE(order != NULL && in_way != NULL && best != NULL, CLPRUNE_OUT_OF_HOST_MEMORY,
        "a plan of %zu buffers", plan->count);
    for (size_t o = 0; o < sizeof orders / sizeof *orders; o++) {
        uint64_t top = clprune__round_up((size_t)plan->totals.scratch_bytes, CLPRUNE__ARENA_ALIGN);
        for (size_t i = 0; i < plan->count; i++)
            order[i] = &plan->buffers[i];
        qsort(order, plan->count, sizeof(clprune__planned *), orders[o]);
        for (size_t i = 0; i < plan->count; i++) {
            place(order, i, in_way);
            const uint64_t end = order[i]->entry.offset + order[i]->room;
            top = end > top ? end : top;
        }
        if (top >= lowest)
            continue;
        lowest = top;
        for (size_t i = 0; i < plan->count; i++)
            best[i] = plan->buffers[i].entry.offset;
    }
    for (size_t i = 0; i < plan->count; i++)
        plan->buffers[i].entry.offset = best[i];
    plan->totals.arena_bytes = lowest;
done:
    free(order);
    free(in_way);
    free(best);
    return status;
}
