#include "nn/store/stored.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "core/checked.h"

static size_t end_of(clprune__range range)
{
    return range.first + range.count;
}

bool clprune__stored_reserve(clprune__stored *stored)
{
    const size_t needed = stored->count + 2;
    if (needed <= stored->room)
        return true;
    const size_t room = 2 * needed;
    clprune__range *ranges =
        room <= SIZE_MAX / sizeof *ranges ? realloc(stored->ranges, room * sizeof *ranges) : NULL;
    if (ranges == NULL)
        return false;
    stored->ranges = ranges;
    stored->room = room;
    return true;
}

/* Replaces ranges [from, to) by the `count` ranges `with`. */
static void replace(
    clprune__stored *stored, size_t from, size_t to, size_t count, const clprune__range *with)
{
    clprune__range *at = stored->ranges + from;
    memmove(at + count, stored->ranges + to, (stored->count - to) * sizeof *at);
    if (count > 0)
        memcpy(at, with, count * sizeof *at);
    stored->count += count - (to - from);
}

void clprune__stored_add(clprune__stored *stored, clprune__range range)
{
    if (range.count == 0)
        return;
    size_t from = 0;
    while (from < stored->count && end_of(stored->ranges[from]) < range.first)
        from++;
    size_t to = from, end = end_of(range);
    for (; to < stored->count && stored->ranges[to].first <= end_of(range); to++) {
        range.first = clprune__min(range.first, stored->ranges[to].first);
        end = clprune__max(end, end_of(stored->ranges[to]));
        range.count = end - range.first;
    }
    replace(stored, from, to, 1, &range);
}

void clprune__stored_remove(clprune__stored *stored, clprune__range range)
{
    if (range.count == 0 || stored->count == 0)
        return;
    size_t from = 0;
    while (from < stored->count && end_of(stored->ranges[from]) <= range.first)
        from++;
    clprune__range left[2];
    size_t to = from, count = 0;
    for (; to < stored->count && stored->ranges[to].first < end_of(range); to++) {
        const clprune__range old = stored->ranges[to];
        if (old.first < range.first)
            left[count++] = (clprune__range){old.first, range.first - old.first};
        if (end_of(old) > end_of(range))
            left[count++] = (clprune__range){end_of(range), end_of(old) - end_of(range)};
    }
    replace(stored, from, to, count, left);
}

size_t clprune__stored_run(const clprune__stored *stored, clprune__range range)
{
    for (size_t i = 0; i < stored->count; i++)
        if (stored->ranges[i].first <= range.first && range.first < end_of(stored->ranges[i]))
            return clprune__min(range.count, end_of(stored->ranges[i]) - range.first);
    return 0;
}

void clprune__stored_clear(clprune__stored *stored)
{
    free(stored->ranges);
    *stored = (clprune__stored){.ranges = NULL};
}
