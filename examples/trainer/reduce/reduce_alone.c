/* One process: its sums are complete as soon as its values are. */
#include "trainer/reduce/reduce.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h> /* gethostname, _exit */

struct reduce_group {
    size_t count, room; /* of events */
    cl_event *ready;    /* of the windows in flight */
};

static bool alone_open(
    const reduce_options *options, reduce_group **group, reduce_place *place, fault *f)
{
    (void)options;
    *place = (reduce_place){.ranks = 1, .local_ranks = 1};
    (void)gethostname(place->host, sizeof place->host - 1);
    *group = calloc(1, sizeof **group);
    return *group != NULL || fault_set(f, CODE_MEMORY, "out of memory for a group of one process");
}

static bool alone_close(reduce_group *group, fault *f)
{
    (void)f;
    free(group->ready);
    free(group);
    return true;
}

static bool alone_begin(
    reduce_group *group, reduce_kind kind, cl_event ready, float *values, size_t count, fault *f)
{
    (void)kind, (void)values, (void)count;
    if (ready == NULL)
        return true;
    if (group->count == group->room) {
        const size_t room = 2 * group->room + 8;
        cl_event *more = realloc(group->ready, room * sizeof *more);
        if (more == NULL)
            return fault_set(f, CODE_MEMORY, "out of memory for a window of gradients");
        group->ready = more;
        group->room = room;
    }
    if (!fault_check_cl(f, clRetainEvent(ready), "retaining a window's event"))
        return false;
    group->ready[group->count++] = ready;
    return true;
}

static void alone_draw(reduce_group *group, uint64_t number)
{
    (void)group, (void)number;
}

static bool alone_finish(reduce_group *group, fault *f)
{
    const cl_uint count = (cl_uint)group->count;
    const cl_int code = count == 0 ? CL_SUCCESS : clWaitForEvents(count, group->ready);
    while (group->count > 0)
        (void)clReleaseEvent(group->ready[--group->count]);
    return fault_check_cl(f, code, "waiting for gradients");
}

static bool alone_gather(reduce_group *group, const void *mine, size_t bytes, void *all,
    size_t most, size_t *bytes_of_rank, fault *f)
{
    (void)group;
    if (bytes > most)
        return fault_set(f, CODE_RUN, "gathering %zu bytes, with room for %zu", bytes, most);
    if (bytes > 0)
        memmove(all, mine, bytes);
    if (bytes_of_rank != NULL)
        bytes_of_rank[0] = bytes;
    return true;
}

static bool alone_broadcast(reduce_group *group, void *data, size_t bytes, fault *f)
{
    (void)group, (void)data, (void)bytes, (void)f;
    return true;
}

static bool alone_agree(reduce_group *group, uint32_t *words, size_t count, fault *f)
{
    (void)group, (void)words, (void)count, (void)f;
    return true;
}

static void alone_abort(reduce_group *group, int code)
{
    (void)group;
    _exit(code);
}

const reduce_functions reduce_alone = {alone_open, alone_close, alone_begin, alone_draw,
    alone_finish, alone_gather, alone_broadcast, alone_agree, alone_abort};
