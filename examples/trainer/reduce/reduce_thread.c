/*
 * The thread that makes every call of MPI. It turns in a loop and sleeps between turns in which
 * nothing moved: 20 to 200 microseconds while something is exchanged, 1 ms while a window waits for
 * its event, else 20 ms. So it leaves the cores to the step.
 *
 * The group's clock moves by at most 0.25 s a turn: a process that was stopped, and goes on, does
 * not take the others for dead.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h> /* _exit */

#include "trainer/reduce/reduce_group.h"

static const double most_of_turn = 0.25;

static double seconds(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static bool open_mpi(reduce_group *group)
{
    static const char doing[] = "opening MPI";
    reduce_place *place = &group->place;
    int provided = 0, length = 0;
    char host[MPI_MAX_PROCESSOR_NAME + REDUCE_HOST] = "";
    MPI_Comm local;
    if (!group_check(group, MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &provided), doing))
        return false;
    if (provided < MPI_THREAD_FUNNELED)
        return group_fail(group, CODE_RUN, "this MPI does not allow threads");
    if (!group_check(group, MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN), doing) ||
        !group_check(group, MPI_Comm_dup(MPI_COMM_WORLD, &group->control), doing) ||
        !group_check(group, MPI_Comm_dup(MPI_COMM_WORLD, &group->announced), doing) ||
        !group_check(group, MPI_Comm_dup(MPI_COMM_WORLD, &group->windows), doing) ||
        !group_check(group, MPI_Comm_rank(group->control, &place->rank), doing) ||
        !group_check(group, MPI_Comm_size(group->control, &place->ranks), doing) ||
        !group_check(group,
            MPI_Comm_split_type(
                group->control, MPI_COMM_TYPE_SHARED, place->rank, MPI_INFO_NULL, &local),
            doing) ||
        !group_check(group, MPI_Comm_rank(local, &place->local_rank), doing) ||
        !group_check(group, MPI_Comm_size(local, &place->local_ranks), doing) ||
        !group_check(group, MPI_Comm_free(&local), doing) ||
        !group_check(group, MPI_Get_processor_name(host, &length), doing))
        return false;
    host[sizeof place->host - 1] = '\0';
    (void)strcpy(place->host, host);
    group->hosts = calloc((size_t)place->ranks, sizeof *group->hosts);
    group->heads = calloc((size_t)place->ranks, sizeof *group->heads);
    if (group->hosts == NULL || group->heads == NULL)
        return group_fail(group, CODE_MEMORY, "out of memory for %d hosts", place->ranks);
    return group_check(group,
               MPI_Allgather(place->host, REDUCE_HOST, MPI_CHAR, group->hosts, REDUCE_HOST,
                   MPI_CHAR, group->control),
               doing) &&
           peers_open(group) && windows_open(group);
}

/* A turn of what a caller waits for. Returns whether it is there. */
static bool call_turn(reduce_group *group, reduce_call *call)
{
    int there = 0;
    if (!call->posted) {
        call->posted = true;
        if (!group_check(group, call->post(group, &call->request), "asking other ranks"))
            return false;
    }
    if (!group_check(group, MPI_Test(&call->request, &there, MPI_STATUS_IGNORE), "hearing ranks") ||
        !there)
        return false;
    (void)pthread_mutex_lock(&group->lock);
    call->post = NULL;
    (void)pthread_cond_broadcast(&group->answered);
    (void)pthread_mutex_unlock(&group->lock);
    return true;
}

/* Waits for a caller's question, a moment or longer. */
static void rest(reduce_group *group, double pause)
{
    (void)pthread_mutex_lock(&group->lock);
    ++group->turns;
    if (pause > 0 && !group->news)
        group_wait(group, &group->asked, pause);
    group->news = false;
    (void)pthread_mutex_unlock(&group->lock);
}

/* Ends the run. Rank 0 may have something to save; it knows by now that it must end. */
static void abort_turn(reduce_group *group, int code, double *since)
{
    if (*since < 0)
        *since = group->clock;
    (void)peers_tell(group, PEER_FAILED, peers_culprit(group));
    if (group->place.rank == 0 || group->peers[0].state != PEER_LIVES ||
        group->clock - *since > group->options.peer_timeout) {
        (void)MPI_Abort(MPI_COMM_WORLD, code);
        _exit(code);
    }
}

/* Turns until the group is closed or the process ends. */
static void turns(reduce_group *group)
{
    double pause = 0, abort_since = -1;
    for (;;) {
        bool moved = false, exchanging = false;
        const double now = seconds(), passed = now - group->last;
        group->clock += passed < most_of_turn ? passed : most_of_turn;
        group->last = now;

        (void)pthread_mutex_lock(&group->lock);
        const bool failed = group->fault.code != CODE_OK, aborting = group->aborting;
        const bool asked = group->call.post != NULL, windows = group->first != NULL;
        const bool leaving = group->leaving;
        const int32_t operations = group->operations;
        const int code = group->code;
        (void)pthread_mutex_unlock(&group->lock);

        moved = peers_turn(group);
        if (!failed && windows)
            windows_announce(group);
        if (!failed && asked)
            moved = call_turn(group, &group->call) || moved;
        if (!failed && windows)
            moved = windows_turn(group, &exchanging) || moved;
        if (!failed && leaving && peers_tell(group, PEER_LEFT, operations) &&
            peers_have_left(group))
            return;
        if (aborting)
            abort_turn(group, code, &abort_since);
        if (moved)
            pause = 0;
        else if (exchanging || asked)
            pause = pause < 10e-6 ? 20e-6 : pause < 100e-6 ? 2 * pause : 200e-6;
        else
            pause = windows || leaving ? 1e-3 : 20e-3;
        rest(group, pause);
    }
}

void *reduce_thread(void *argument)
{
    reduce_group *group = argument;
    if (!open_mpi(group))
        return NULL;
    group->last = seconds();
    (void)pthread_mutex_lock(&group->lock);
    group->opened = true;
    (void)pthread_cond_broadcast(&group->answered);
    (void)pthread_mutex_unlock(&group->lock);
    turns(group);
    if (!group_check(group, MPI_Finalize(), "closing MPI"))
        return NULL;
    (void)pthread_mutex_lock(&group->lock);
    group->closed = true;
    (void)pthread_cond_broadcast(&group->answered);
    (void)pthread_mutex_unlock(&group->lock);
    return NULL;
}
