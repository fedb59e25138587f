/*
 * Signs of life: each rank sends every other one a beat of two numbers a second, or four in
 * peer_timeout. A message of a window is a sign, too.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trainer/base/stop.h"
#include "trainer/reduce/reduce_group.h"

enum { BEAT_TAG = 1 };

static const double asks_every = 0.1, asks_patience = 0.3; /* seconds, after a signal */
static const double grace = 0.2; /* seconds: a decision to abort may not have reached all */

static bool expect_beat(reduce_group *group, int r)
{
    return group_check(group,
        MPI_Irecv(&group->peers[r].in, sizeof(peer_beat), MPI_BYTE, r, BEAT_TAG, group->control,
            &group->from_peers[r]),
        "expecting a sign of life");
}

bool peers_open(reduce_group *group)
{
    const int ranks = group->place.ranks;
    const size_t n = (size_t)ranks;
    group->asks_since = -1;
    group->peers = calloc(n, sizeof *group->peers);
    group->from_peers = malloc(n * sizeof(MPI_Request));
    group->to_peers = malloc(n * sizeof(MPI_Request));
    group->indices = malloc(2 * n * sizeof *group->indices);
    group->statuses = malloc(2 * n * sizeof *group->statuses);
    if (group->peers == NULL || group->from_peers == NULL || group->to_peers == NULL ||
        group->indices == NULL || group->statuses == NULL)
        return group_fail(group, CODE_MEMORY, "out of memory for %d ranks", ranks);
    for (int r = 0; r < ranks; ++r) {
        group->from_peers[r] = group->to_peers[r] = MPI_REQUEST_NULL;
        if (r != group->place.rank && !expect_beat(group, r))
            return false;
    }
    return true;
}

void peers_close(reduce_group *group)
{
    free(group->peers);
    free(group->from_peers);
    free(group->to_peers);
    free(group->indices);
    free(group->statuses);
}

void peers_heard(reduce_group *group, int rank)
{
    group->peers[rank].heard = group->clock;
}

/* What this rank has begun, and waits for. */
static peer_beat own_beat(reduce_group *group)
{
    peer_beat beat = {.waits = {.kind = DOES_NOTHING}};
    (void)pthread_mutex_lock(&group->lock);
    beat.windows = group->windows_begun;
    beat.calls = group->calls_begun;
    if (group->waiting && group->call.post != NULL)
        beat.waits = group->header;
    else if (group->waiting && group->first != NULL)
        beat.waits = group->first->header;
    (void)pthread_mutex_unlock(&group->lock);
    return beat;
}

static bool waits_for_window(const peer_beat *beat)
{
    return beat->waits.kind < DOES_GATHER;
}

/* Whether one waits for a window that the other has not begun, and that one for a call that the
 * first has not: both would wait without end. A beat may be old, but who waits so stays. */
static bool are_crossed(const peer_beat *window, const peer_beat *call)
{
    return waits_for_window(window) && !waits_for_window(call) &&
           call->waits.kind != DOES_NOTHING && call->windows <= window->waits.number &&
           window->calls <= call->waits.number;
}

/* Sends r a beat unless the last one is still on its way. */
static bool send_beat(reduce_group *group, int r, peer_word word, int32_t number)
{
    int sent = 0;
    if (!group_check(group, MPI_Test(&group->to_peers[r], &sent, MPI_STATUS_IGNORE), "sending") ||
        !sent)
        return false;
    group->peers[r].out = own_beat(group);
    group->peers[r].out.word = (int32_t)word;
    group->peers[r].out.number = number;
    return group_check(group,
        MPI_Isend(&group->peers[r].out, sizeof(peer_beat), MPI_BYTE, r, BEAT_TAG, group->control,
            &group->to_peers[r]),
        "sending a sign of life");
}

bool peers_tell(reduce_group *group, peer_word word, int32_t number)
{
    bool all = true;
    for (int r = 0; r < group->place.ranks; ++r)
        if (r != group->place.rank && !group->peers[r].told) {
            group->peers[r].told = send_beat(group, r, word, number);
            all = all && group->peers[r].told;
        }
    return all;
}

bool peers_have_left(reduce_group *group)
{
    int all = 0;
    if (!group_check(group, MPI_Testall(group->place.ranks, group->to_peers, &all, group->statuses),
            "closing"))
        return false;
    for (int r = 0; r < group->place.ranks && all; ++r)
        all =
            r == group->place.rank || (group->peers[r].told && group->peers[r].state == PEER_LEFT);
    return all;
}

int32_t peers_culprit(const reduce_group *group)
{
    int32_t culprit = group->place.rank;
    for (int r = 0; r < group->place.ranks; ++r)
        if (group->peers[r].state == PEER_FAILED)
            culprit = group->peers[r].number;
    for (int r = 0; r < group->place.ranks; ++r)
        if (group->peers[r].state == PEER_SILENT)
            culprit = r;
    return culprit;
}

static bool take_beat(reduce_group *group, int r)
{
    peer *from = &group->peers[r];
    const peer_beat own = own_beat(group);
    peers_heard(group, r);
    if (are_crossed(&own, &from->in) || are_crossed(&from->in, &own)) {
        (void)send_beat(group, r, PEER_LIVES, 0); /* so that it sees the same */
        return group_crossed(group, &own.waits, r, &from->in.waits);
    }
    switch ((peer_word)from->in.word) {
    case PEER_ASKS:
        if (!from->told)
            (void)send_beat(group, r, PEER_LIVES, 0); /* or one is on its way */
        return expect_beat(group, r);
    case PEER_LIVES:
        return expect_beat(group, r);
    default: /* its last one */
        from->state = (peer_word)from->in.word;
        from->number = from->in.number;
        return true;
    }
}

static const char *host(const reduce_group *group, int32_t r)
{
    return r >= 0 && r < group->place.ranks ? group->hosts[r] : "no host";
}

/* Ranks that gave up, left too early or show no life. */
static void judge(reduce_group *group, int32_t begun)
{
    const bool asks = group->asks_since >= 0;
    const double patience = asks ? asks_patience : group->options.peer_timeout;
    char text[512] = "";
    size_t length = 0;
    for (int r = 0; r < group->place.ranks; ++r) {
        peer *p = &group->peers[r];
        const double since = asks && group->asks_since > p->heard ? group->asks_since : p->heard;
        if (r == group->place.rank || (p->state == PEER_FAILED && group->clock - since < grace))
            continue;
        if (p->state == PEER_FAILED && p->number == group->place.rank)
            (void)group_fail(group, CODE_PEER, "rank %d on %s had no sign of life from this one", r,
                host(group, r));
        else if (p->state == PEER_FAILED && p->number != r)
            (void)group_fail(group, CODE_PEER,
                "rank %d on %s gave up, without a sign of life from rank %d on %s", r,
                host(group, r), p->number, host(group, p->number));
        else if (p->state == PEER_FAILED)
            (void)group_fail(group, CODE_PEER, "rank %d on %s gave up", r, host(group, r));
        else if (p->state == PEER_LEFT && begun > p->number)
            (void)group_fail(group, CODE_PEER, "rank %d on %s has left", r, host(group, r));
        else if (p->state == PEER_LIVES && group->clock - since > patience) {
            p->state = PEER_SILENT;
            if (length < sizeof text)
                length += (size_t)snprintf(text + length, sizeof text - length, "%srank %d on %s",
                    length == 0 ? "" : ", ", r, host(group, r));
        }
    }
    if (length > 0 && asks)
        (void)group_fail(
            group, CODE_PEER, "no answer from %s after signal %d", text, stop_signal());
    else if (length > 0)
        (void)group_fail(group, CODE_PEER, "no sign of life from %s for %g s", text, patience);
}

bool peers_turn(reduce_group *group)
{
    const double usual = group->options.peer_timeout / 4 < 1 ? group->options.peer_timeout / 4 : 1;
    const int ranks = group->place.ranks;
    int count = 0;
    (void)pthread_mutex_lock(&group->lock);
    const int32_t begun = group->operations;
    const bool asks = group->waiting && stop_signal() != 0;
    (void)pthread_mutex_unlock(&group->lock);
    if (!group_check(group,
            MPI_Testsome(ranks, group->from_peers, &count, group->indices, group->statuses),
            "listening to other ranks"))
        return false;
    count = count == MPI_UNDEFINED ? 0 : count;
    for (int i = 0; i < count; ++i)
        if (!take_beat(group, group->indices[i]))
            return false;
    if (asks != (group->asks_since >= 0)) {
        group->asks_since = asks ? group->clock : -1;
        group->next_beat = asks ? group->clock : group->next_beat;
    }
    if (group->clock >= group->next_beat) {
        group->next_beat = group->clock + (asks ? asks_every : usual);
        for (int r = 0; r < ranks; ++r)
            if (r != group->place.rank && !group->peers[r].told)
                (void)send_beat(group, r, asks ? PEER_ASKS : PEER_LIVES, 0);
    }
    judge(group, begun);
    return count > 0;
}
