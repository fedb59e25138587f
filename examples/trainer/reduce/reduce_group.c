#include "trainer/reduce/reduce_group.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

bool group_fail(reduce_group *group, int code, const char *format, ...)
{
    char text[1024];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    (void)pthread_mutex_lock(&group->lock);
    (void)fault_set(&group->fault, code, "%s", text);
    (void)pthread_cond_broadcast(&group->answered);
    (void)pthread_mutex_unlock(&group->lock);
    return false;
}

bool group_check(reduce_group *group, int result, const char *doing)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int length = 0;
    if (result == MPI_SUCCESS)
        return true;
    (void)MPI_Error_string(result, text, &length);
    return group_fail(group, CODE_PEER, "%s: %s", doing, text);
}

bool group_failed(reduce_group *group)
{
    (void)pthread_mutex_lock(&group->lock);
    const bool failed = group->fault.code != CODE_OK;
    (void)pthread_mutex_unlock(&group->lock);
    return failed;
}

void group_wait(reduce_group *group, pthread_cond_t *condition, double seconds)
{
    struct timespec until;
    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += (long)(seconds * 1e9); /* less than a second */
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    (void)pthread_cond_timedwait(condition, &group->lock, &until);
}

/* "gathers up to 64 bytes" */
static void describe(const reduce_header *h, char *text, size_t size)
{
    static const char *const does[] = {[REDUCE_SUM] = "adds up %" PRIu64 " values",
        [REDUCE_SCATTER] = "adds up its part of %" PRIu64 " values",
        [REDUCE_GATHER] = "gathers %" PRIu64 " values",
        [REDUCE_SUM_CODED] = "adds up the codes of %" PRIu64 " values",
        [REDUCE_SCATTER_CODED] = "adds up the codes of its part of %" PRIu64 " values",
        [DOES_GATHER] = "gathers up to %" PRIu64 " bytes",
        [DOES_BROADCAST] = "takes %" PRIu64 " bytes of rank 0",
        [DOES_AGREE] = "takes a decision of %" PRIu64 " words"};
    uint64_t count = h->size;
    if (h->kind == DOES_GATHER)
        memcpy(&count, h->words, sizeof count);
    if (h->kind > DOES_AGREE)
        (void)snprintf(text, size, "does what no rank can do");
    else
        (void)snprintf(text, size, does[h->kind], count);
}

static bool same(const reduce_header *a, const reduce_header *b)
{
    return a->kind == b->kind && a->number == b->number &&
           (a->kind == DOES_GATHER || a->size == b->size) &&
           (a->kind == DOES_AGREE || memcmp(a->words, b->words, sizeof a->words) == 0);
}

bool group_alike(reduce_group *group, const reduce_header *heads)
{
    char does[96], first[96];
    int r = 1;
    while (r < group->place.ranks && same(&heads[0], &heads[r]))
        ++r;
    if (r >= group->place.ranks)
        return true;
    describe(&heads[r], does, sizeof does);
    describe(&heads[0], first, sizeof first);
    return group_fail(group, CODE_PEER, "rank %d on %s %s, rank 0 on %s %s%s", r, group->hosts[r],
        does, group->hosts[0], first, strcmp(does, first) == 0 ? ", of other draws" : "");
}

bool group_crossed(reduce_group *group, const reduce_header *mine, int r, const reduce_header *its)
{
    char does[96], own[96];
    describe(its, does, sizeof does);
    describe(mine, own, sizeof own);
    return group_fail(group, CODE_PEER, "rank %d on %s %s, rank %d on %s %s", r, group->hosts[r],
        does, group->place.rank, group->place.host, own);
}
