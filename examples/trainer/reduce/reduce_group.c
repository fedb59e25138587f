#include "trainer/reduce/reduce_group.h"

#include <stdarg.h>
#include <stdio.h>
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
