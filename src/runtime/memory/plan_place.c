/* Offline placement of buffers with known lives: one by one, each at the lowest place that is free
 * during all its lives. The result depends on their order. Three orders are tried; in each, the
 * buffer that ends highest is moved to the front, again and again. The placement with the lowest
 * end wins.
 *
 * Scratch is a stack that grows from offset 0, so a buffer need only lie above the most scratch
 * that is borrowed during its lives: its floor. */
#include <stdlib.h>
#include <string.h>

#include "core/checked.h"
#include "runtime/context/fail.h"
#include "runtime/memory/plan_private.h"

/* Limits for each order: rounds, and comparisons of two buffers in all rounds. */
enum { MOST_ROUNDS = 256, MOST_WORK = 1 << 23 };

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

/* Commands from the beginning of a buffer's first life to the end of its last. */
static uint64_t reach(const clprune__planned *p)
{
    const clprune_plan_entry *e = &p->entry;
    return e->spans_count == 0 ? UINT64_MAX : e->spans[e->spans_count - 1].last - e->spans[0].first;
}

static int descending(uint64_t a, uint64_t b)
{
    return (a < b) - (a > b);
}

/* The orders. Equal buffers stay in order of creation, which is that of the array. */
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

/* A search for a placement; each array has room for all buffers. */
typedef struct search {
    clprune_plan *plan;
    size_t count;
    bool *overlap;            /* (count x count) lives that overlap */
    clprune__planned **order; /* in which they are placed */
    clprune__planned **low;   /* those placed so far, by ascending offset */
    uint64_t *best;           /* offsets of the best placement, by buffer */
    uint64_t lowest;          /* the end of the best placement */
} search;

/* The least offset from `offset` on where a buffer lies in one slab. */
static uint64_t in_slab(const search *s, uint64_t offset, uint64_t room)
{
    const uint64_t slab = s->plan->slab_bytes, begin = offset % slab;
    return begin + room <= slab ? offset : offset - begin + slab;
}

/* Places order[i] at the lowest offset that order[0 .. i) leave free during its lives. */
static void place(search *s, size_t i)
{
    clprune__planned *p = s->order[i], *first = s->plan->buffers;
    const bool *overlap = s->overlap + (size_t)(p - first) * s->count;
    uint64_t offset = in_slab(s, p->floor, p->room);
    for (size_t k = 0; k < i; k++) {
        const clprune__planned *other = s->low[k];
        if (!overlap[other - first] || other->entry.offset + other->room <= offset)
            continue;
        if (other->entry.offset >= offset + p->room)
            break;
        offset = in_slab(s, other->entry.offset + other->room, p->room);
    }
    p->entry.offset = offset;
    size_t at = i;
    for (; at > 0 && s->low[at - 1]->entry.offset > offset; at--)
        s->low[at] = s->low[at - 1];
    s->low[at] = p;
}

/* Places all in the present order; *highest is the position of the one that ends last. Returns
 * where it ends. */
static uint64_t place_all(search *s, size_t *highest)
{
    uint64_t top = clprune__round_up((size_t)s->plan->totals.scratch_bytes, CLPRUNE__ARENA_ALIGN);
    *highest = 0;
    for (size_t i = 0; i < s->count; i++) {
        place(s, i);
        const uint64_t end = s->order[i]->entry.offset + s->order[i]->room;
        if (end > top) {
            top = end;
            *highest = i;
        }
    }
    if (top < s->lowest) {
        s->lowest = top;
        for (size_t i = 0; i < s->count; i++)
            s->best[i] = s->plan->buffers[i].entry.offset;
    }
    return top;
}

/* Improves the present order: up to `rounds` placements, fewer if one needs no more than
 * live_bytes. */
static void improve(search *s, size_t rounds)
{
    for (size_t round = 0; round < rounds && s->lowest > s->plan->totals.live_bytes; round++) {
        size_t highest;
        (void)place_all(s, &highest);
        if (highest == 0)
            break;
        clprune__planned *worst = s->order[highest];
        memmove(s->order + 1, s->order, highest * sizeof(clprune__planned *));
        s->order[0] = worst;
    }
}

static void find_overlaps(search *s)
{
    const clprune__planned *buffers = s->plan->buffers;
    for (size_t i = 0; i < s->count; i++)
        for (size_t k = 0; k <= i; k++)
            s->overlap[i * s->count + k] = s->overlap[k * s->count + i] =
                lives_overlap(&buffers[i].entry, &buffers[k].entry);
}

clprune_status clprune__plan_place(clprune_context *context, clprune_plan *plan)
{
    static int (*const orders[])(const void *, const void *) = {by_size, by_reach, by_floor};
    clprune_status status = CLPRUNE_SUCCESS;
    const size_t room = clprune__max(plan->count, 1);
    search s = {.plan = plan,
        .count = plan->count,
        .overlap = calloc(room, room * sizeof *s.overlap),
        .order = calloc(room, sizeof(clprune__planned *)),
        .low = calloc(room, sizeof(clprune__planned *)),
        .best = calloc(room, sizeof *s.best),
        .lowest = UINT64_MAX};
    REQUIRE_DONE(s.overlap != NULL && s.order != NULL && s.low != NULL && s.best != NULL,
        CLPRUNE_OUT_OF_HOST_MEMORY, "no memory for a plan of %zu buffers", plan->count);
    find_overlaps(&s);
    const size_t rounds = clprune__max(1, clprune__min(MOST_ROUNDS, MOST_WORK / (room * room)));
    for (size_t o = 0; o < sizeof orders / sizeof *orders; o++) {
        for (size_t i = 0; i < plan->count; i++)
            s.order[i] = &plan->buffers[i];
        qsort(s.order, plan->count, sizeof(clprune__planned *), orders[o]);
        improve(&s, rounds);
    }
    for (size_t i = 0; i < plan->count; i++)
        plan->buffers[i].entry.offset = s.best[i];
    plan->totals.arena_bytes = s.lowest;
done:
    free(s.overlap);
    free(s.order);
    free(s.low);
    free(s.best);
    return status;
}
