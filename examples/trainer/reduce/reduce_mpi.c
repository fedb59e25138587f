/* The calls of a group of processes: each asks the group's thread, and waits for its answer. */
#include <limits.h>
#include <stdio.h> /* snprintf */
#include <stdlib.h>
#include <string.h>
#include <unistd.h> /* _exit */

#include "trainer/base/stop.h"
#include "trainer/reduce/reduce_code.h"
#include "trainer/reduce/reduce_group.h"

/* Seconds: for MPI_Init on many hosts; for a thread that is late; for MPI_Abort; after a signal,
 * when mpirun may send the next one in a second. */
static const double open_patience = 60, thread_patience = 1, abort_patience = 0.5,
                    signal_patience = 0.6;

static void ask(reduce_group *group) /* with the lock held */
{
    group->news = true;
    (void)pthread_cond_signal(&group->asked);
}

/* Waits until done or failed, or until the thread has not turned for so long: it hangs in a call of
 * MPI, as Open MPI does over TCP when a rank died. With done == NULL no fault ends it. With the
 * lock held. */
static bool wait_until(reduce_group *group, bool (*done)(const reduce_group *), double patience)
{
    const double moment = 0.1;
    uint64_t turns = group->turns;
    double quiet = 0; /* its own count, so that a stopped process which goes on has time left */
    while ((done == NULL || (!done(group) && group->fault.code == CODE_OK)) && quiet < patience &&
           (stop_signal() == 0 || group->leaving || quiet < signal_patience)) {
        group_wait(group, &group->answered, moment);
        quiet = turns == group->turns ? quiet + moment : 0;
        turns = group->turns;
    }
    return done != NULL && done(group);
}

/* Takes the fault of a wait that failed, with the lock held. Returns false. */
static bool take_fault(reduce_group *group, const char *what, fault *f)
{
    char place[REDUCE_HOST + 64] = "";
    const bool failed = group->fault.code != CODE_OK;
    if (group->opened)
        (void)snprintf(place, sizeof place, "rank %d of %d on %s, ", group->place.rank,
            group->place.ranks, group->place.host);
    return fault_set(f, failed ? group->fault.code : CODE_PEER, "%swaiting for %s: %s", place, what,
        failed ? group->fault.text : "MPI does not return");
}

/* The same as wait_until, with its fault. Takes the lock. */
static bool wait_for(reduce_group *group, bool (*done)(const reduce_group *), double patience,
    const char *what, fault *f)
{
    (void)pthread_mutex_lock(&group->lock);
    group->waiting = true;
    ask(group);
    const bool there = wait_until(group, done, patience) || take_fault(group, what, f);
    group->waiting = false;
    (void)pthread_mutex_unlock(&group->lock);
    return there;
}

static double patience_of(const reduce_group *group)
{
    return group->options.peer_timeout + thread_patience;
}

static bool is_open(const reduce_group *group)
{
    return group->opened;
}

static bool is_closed(const reduce_group *group)
{
    return group->closed;
}

static bool has_no_window(const reduce_group *group)
{
    return group->first == NULL;
}

static bool has_no_call(const reduce_group *group)
{
    return group->call.post == NULL;
}

static bool mpi_open(
    const reduce_options *options, reduce_group **group, reduce_place *place, fault *f)
{
    pthread_condattr_t monotonic;
    *group = NULL;
    reduce_group *g = calloc(1, sizeof *g);
    if (g == NULL)
        return fault_set(f, CODE_MEMORY, "out of memory for a group of processes");
    g->options = *options;
    g->end = &g->first;
    (void)pthread_mutex_init(&g->lock, NULL);
    (void)pthread_condattr_init(&monotonic);
    (void)pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&g->asked, &monotonic);
    (void)pthread_cond_init(&g->answered, &monotonic);
    (void)pthread_condattr_destroy(&monotonic);
    /* MPI's list of devices starts OpenCL's drivers in its thread, and LLVM's stack for signals
     * does not outlive that; MPI here exchanges memory of the host alone. */
    (void)setenv("HWLOC_COMPONENTS", "-opencl", 0);
    if (pthread_create(&g->thread, NULL, reduce_thread, g) != 0) {
        free(g);
        return fault_set(f, CODE_RUN, "cannot start a thread for MPI");
    }
    if (!wait_for(g, is_open, open_patience, "the start of all processes", f)) {
        (void)pthread_detach(g->thread); /* it may hang, and has the group */
        return false;
    }
    *place = g->place;
    *group = g;
    return true;
}

static bool mpi_close(reduce_group *group, fault *f)
{
    (void)pthread_mutex_lock(&group->lock);
    group->leaving = true;
    (void)pthread_mutex_unlock(&group->lock);
    if (!wait_for(group, is_closed, patience_of(group), "all ranks to close", f))
        return false;
    (void)pthread_join(group->thread, NULL);
    peers_close(group);
    windows_close(group);
    free(group->hosts);
    free(group->heads);
    (void)pthread_cond_destroy(&group->asked);
    (void)pthread_cond_destroy(&group->answered);
    (void)pthread_mutex_destroy(&group->lock);
    free(group);
    return true;
}

static bool mpi_begin(
    reduce_group *group, reduce_kind kind, cl_event ready, float *values, size_t count, fault *f)
{
    const size_t heads = (size_t)group->place.ranks * sizeof(reduce_header);
    reduce_window *window = malloc(sizeof *window + heads);
    if (window == NULL)
        return fault_set(f, CODE_MEMORY, "out of memory for a window of gradients");
    *window = (reduce_window){.kind = kind, .ready = ready, .values = values, .count = count};
    if (ready != NULL && !fault_check_cl(f, clRetainEvent(ready), "retaining a window's event")) {
        free(window);
        return false;
    }
    (void)pthread_mutex_lock(&group->lock);
    window->key = reduce_key(group->draw, group->drawn);
    group->drawn += windows_are_coded(kind);
    window->header =
        (reduce_header){.kind = (uint32_t)kind, .number = group->windows_begun++, .size = count};
    if (windows_are_coded(kind))
        memcpy(window->header.words, &window->key, sizeof window->key);
    ++group->operations;
    *group->end = window;
    group->end = &window->next;
    ask(group);
    (void)pthread_mutex_unlock(&group->lock);
    return true;
}

static void mpi_draw(reduce_group *group, uint64_t number)
{
    (void)pthread_mutex_lock(&group->lock);
    group->draw = number;
    group->drawn = 0;
    (void)pthread_mutex_unlock(&group->lock);
}

static bool mpi_finish(reduce_group *group, fault *f)
{
    return wait_for(group, has_no_window, patience_of(group), "the sum of gradients", f);
}

static bool call(reduce_group *group, reduce_call question, const char *what, fault *f)
{
    (void)pthread_mutex_lock(&group->lock);
    group->call = question;
    ++group->operations;
    (void)pthread_mutex_unlock(&group->lock);
    return wait_for(group, has_no_call, patience_of(group), what, f);
}

static int post_header(reduce_group *group, MPI_Request *request)
{
    const int bytes = (int)sizeof group->header;
    return MPI_Iallgather(
        &group->header, bytes, MPI_BYTE, group->heads, bytes, MPI_BYTE, group->control, request);
}

/* Begins a call, which has the other ranks' headers then. */
static bool begin_call(reduce_group *group, uint32_t kind, uint64_t size, const void *words,
    size_t words_size, const char *what, fault *f)
{
    (void)pthread_mutex_lock(&group->lock);
    group->header = (reduce_header){.kind = kind, .number = group->calls_begun++, .size = size};
    if (words_size > 0)
        memcpy(group->header.words, words, words_size);
    (void)pthread_mutex_unlock(&group->lock);
    if (!call(group, (reduce_call){.post = post_header}, what, f))
        return false;
    const bool alike = group_alike(group, group->heads);
    (void)pthread_mutex_lock(&group->lock);
    const bool good = alike || take_fault(group, what, f);
    (void)pthread_mutex_unlock(&group->lock);
    return good;
}

static int post_gather(reduce_group *group, MPI_Request *request)
{
    const reduce_call *c = &group->call;
    return MPI_Iallgatherv(c->from, c->count, MPI_BYTE, c->to, c->counts, c->places, MPI_BYTE,
        group->control, request);
}

static int post_broadcast(reduce_group *group, MPI_Request *request)
{
    return MPI_Ibcast(group->call.to, group->call.count, MPI_BYTE, 0, group->control, request);
}

static bool gather_all(reduce_group *group, const void *mine, void *all, size_t most, size_t bytes,
    size_t *bytes_of_rank, int *counts, fault *f)
{
    static const char what[] = "bytes of all ranks";
    const int ranks = group->place.ranks;
    const uint64_t room = most;
    uint64_t total = 0;
    if (!begin_call(group, DOES_GATHER, bytes, &room, sizeof room, what, f))
        return false;
    for (int r = 0; r < ranks; ++r) {
        const uint64_t size = group->heads[r].size;
        if (size > INT_MAX - total || size > most - total)
            return fault_set(f, CODE_RUN, "gathering more than %zu bytes, or 2 GiB", most);
        counts[r] = (int)size;
        counts[ranks + r] = (int)total;
        if (bytes_of_rank != NULL)
            bytes_of_rank[r] = (size_t)size;
        total += size;
    }
    return call(group,
        (reduce_call){.post = post_gather,
            .from = mine,
            .to = all,
            .count = counts[group->place.rank],
            .counts = counts,
            .places = counts + ranks},
        what, f);
}

static bool mpi_gather(reduce_group *group, const void *mine, size_t bytes, void *all, size_t most,
    size_t *bytes_of_rank, fault *f)
{
    const size_t ranks = (size_t)group->place.ranks;
    int *counts = malloc(2 * ranks * sizeof *counts);
    if (counts == NULL)
        return fault_set(f, CODE_MEMORY, "out of memory for %zu ranks", ranks);
    const bool good = gather_all(group, mine, all, most, bytes, bytes_of_rank, counts, f);
    if (good || !group_failed(group)) /* else MPI may still read them */
        free(counts);
    return good;
}

static bool mpi_broadcast(reduce_group *group, void *data, size_t bytes, fault *f)
{
    static const char what[] = "rank 0's data";
    const size_t most = (size_t)1 << 30;
    if (!begin_call(group, DOES_BROADCAST, bytes, NULL, 0, what, f))
        return false;
    for (size_t from = 0; from < bytes; from += most)
        if (!call(group,
                (reduce_call){.post = post_broadcast,
                    .to = (char *)data + from,
                    .count = (int)(bytes - from < most ? bytes - from : most)},
                what, f))
            return false;
    return true;
}

static bool mpi_agree(reduce_group *group, uint32_t *words, size_t count, fault *f)
{
    if (count > REDUCE_WORDS)
        return fault_set(f, CODE_RUN, "%zu words, not at most %d", count, REDUCE_WORDS);
    if (!begin_call(
            group, DOES_AGREE, count, words, count * sizeof *words, "a decision of all ranks", f))
        return false;
    for (int r = 0; r < group->place.ranks; ++r)
        for (size_t i = 0; i < count; ++i)
            if (group->heads[r].words[i] > words[i])
                words[i] = group->heads[r].words[i];
    return true;
}

static void mpi_abort(reduce_group *group, int code)
{
    if (group != NULL) {
        (void)pthread_mutex_lock(&group->lock);
        group->aborting = true;
        group->code = code;
        ask(group);
        (void)wait_until(group, NULL, abort_patience);
    }
    _exit(code);
}

const reduce_functions reduce_mpi = {mpi_open, mpi_close, mpi_begin, mpi_draw, mpi_finish,
    mpi_gather, mpi_broadcast, mpi_agree, mpi_abort};
