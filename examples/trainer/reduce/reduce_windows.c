/*
 * Windows, in pieces: the same columns of each slice. Each rank gets its own part of a piece from
 * all ranks, adds them up, and sends the sum to all. A few pieces are in flight, so one is added up
 * while others are transferred. A rank sends what MPI_Alltoallv and MPI_Allgatherv would send, but
 * message by message: counts stay small, and each message says that its sender lives.
 *
 * Of a coded window the parts are codes, which a rank encodes before it sends them, and decodes as
 * it adds them up; so are the sums, and each rank has what it sends decoded in place of its sum.
 */
#include <stdlib.h>

#include "trainer/reduce/reduce_code.h"
#include "trainer/reduce/reduce_group.h"
#include "trainer/reduce/reduce_tree.h"

enum {
    WIDTH_MOST = 1 << 16, /* 256 KiB a slice: what is in flight between two ranks stays in caches */
    PIECE_FLOATS = 1 << 19, /* 2 MiB of all slices together */
    WIDTH_LEAST = 1 << 11,  /* with many ranks */
    FAST_FLOATS = 1 << 28   /* of one MPI_Iallreduce */
};

static int other(const reduce_group *group, int r)
{
    return r < group->place.rank ? r : r - 1; /* place among the other ranks */
}

bool windows_open(reduce_group *group)
{
    const size_t ranks = (size_t)group->place.ranks, width = PIECE_FLOATS / ranks;
    group->width = width > WIDTH_MOST    ? WIDTH_MOST
                   : width > WIDTH_LEAST ? width - width % REDUCE_GROUP
                                         : WIDTH_LEAST;
    group->parts = malloc(ranks * sizeof *group->parts);
    group->decoded = malloc(ranks * DECODED * sizeof *group->decoded);
    bool all = group->parts != NULL && group->decoded != NULL;
    for (int i = 0; i < PIECES && all; ++i) {
        reduce_piece *piece = &group->pieces[i];
        piece->requests = malloc(2 * ranks * sizeof(MPI_Request));
        piece->received = malloc((ranks - 1) * group->width * sizeof(float) + 1);
        all = piece->requests != NULL && piece->received != NULL;
        for (size_t r = 0; all && r < 2 * ranks; ++r)
            piece->requests[r] = MPI_REQUEST_NULL;
    }
    return all || group_fail(group, CODE_MEMORY, "out of memory for windows of %zu ranks", ranks);
}

void windows_close(reduce_group *group)
{
    free(group->parts);
    free(group->decoded);
    for (int i = 0; i < PIECES; ++i) {
        free(group->pieces[i].requests);
        free(group->pieces[i].received);
    }
}

/* The columns of a piece in the slice of rank r. */
static reduce_slice part_of(const reduce_group *group, const reduce_piece *piece, int r)
{
    reduce_slice s = reduce_slice_of(piece->window->count, group->place.ranks, r);
    const size_t from = piece->from < s.count ? piece->from : s.count;
    s.first += from;
    s.count -= from;
    if (s.count > piece->width)
        s.count = piece->width;
    return s;
}

static bool transfer(
    reduce_group *group, reduce_piece *piece, int r, bool sends, void *at, size_t bytes)
{
    const int tag = 2 * (int)(piece - group->pieces) + piece->gathers, n = (int)bytes;
    MPI_Request *request = &piece->requests[r + (sends ? group->place.ranks : 0)];
    return bytes == 0 || group_check(group,
                             sends ? MPI_Isend(at, n, MPI_BYTE, r, tag, group->windows, request)
                                   : MPI_Irecv(at, n, MPI_BYTE, r, tag, group->windows, request),
                             "exchanging gradients");
}

/* Where values from rank r come: into the window if they gather, and are no codes. */
static void *values_from(const reduce_group *group, const reduce_piece *piece, int r)
{
    return piece->gathers ? piece->window->values + part_of(group, piece, r).first
                          : piece->received + (size_t)other(group, r) * piece->width;
}

static reduce_code *codes_from(const reduce_group *group, const reduce_piece *piece, int r)
{
    return (reduce_code *)piece->received +
           (size_t)other(group, r) * reduce_code_groups(piece->width);
}

/* Where codes for rank r, or of the sum, lie. */
static reduce_code *codes_for(const reduce_group *group, const reduce_piece *piece, int r)
{
    const size_t others = (size_t)group->place.ranks - 1;
    return (reduce_code *)piece->received +
           (others + (piece->gathers ? 0 : (size_t)other(group, r))) *
               reduce_code_groups(piece->width);
}

/* Encodes values of a part with draws of this rank; parts to send and its sums lie apart. */
static void encode(
    const reduce_group *group, const reduce_piece *piece, size_t at, size_t count, reduce_code *to)
{
    reduce_encode(piece->window->values + at, count,
        reduce_key(piece->window->key, (uint64_t)group->place.rank), at / REDUCE_GROUP, to);
}

/* Begins with the exchange of a piece, or with its second half. The ranks begin with the next one,
 * so that not all send to the same rank. */
static bool post(reduce_group *group, reduce_piece *piece)
{
    const int ranks = group->place.ranks, rank = group->place.rank;
    const bool coded = windows_are_coded(piece->window->kind);
    const reduce_slice mine = part_of(group, piece, rank);
    for (int i = 1; i < ranks; ++i) {
        const int from = (rank + ranks - i) % ranks, to = (rank + i) % ranks;
        const reduce_slice comes = piece->gathers ? part_of(group, piece, from) : mine;
        const reduce_slice goes = piece->gathers ? mine : part_of(group, piece, to);
        if (coded && !piece->gathers)
            encode(group, piece, goes.first, goes.count, codes_for(group, piece, to));
        if (coded ? !transfer(group, piece, from, false, codes_from(group, piece, from),
                        reduce_code_bytes(comes.count)) ||
                        !transfer(group, piece, to, true, codes_for(group, piece, to),
                            reduce_code_bytes(goes.count))
                  : !transfer(group, piece, from, false, values_from(group, piece, from),
                        comes.count * sizeof(float)) ||
                        !transfer(group, piece, to, true, piece->window->values + goes.first,
                            goes.count * sizeof(float)))
            return false;
    }
    return true;
}

static void add_up(reduce_group *group, reduce_piece *piece)
{
    const reduce_slice mine = part_of(group, piece, group->place.rank);
    float *own = piece->window->values + mine.first;
    for (int r = 0; r < group->place.ranks; ++r)
        group->parts[r] =
            r == group->place.rank ? own : piece->received + (size_t)other(group, r) * piece->width;
    reduce_tree(group->parts, group->place.ranks, mine.count, own);
}

/* The same of codes, block by block; and the sums as codes, for all ranks. */
static void add_up_codes(reduce_group *group, reduce_piece *piece)
{
    const int rank = group->place.rank;
    const reduce_slice mine = part_of(group, piece, rank);
    piece->gathers = true; /* where codes to send lie */
    reduce_code *sums = codes_for(group, piece, rank);
    for (size_t i = 0; i < mine.count; i += DECODED) {
        const size_t some = mine.count - i < DECODED ? mine.count - i : DECODED;
        float *own = piece->window->values + mine.first + i;
        for (int r = 0; r < group->place.ranks; ++r) {
            group->parts[r] = r == rank ? own : group->decoded + (size_t)r * DECODED;
            if (r != rank)
                reduce_decode(
                    codes_from(group, piece, r) + i / REDUCE_GROUP, some, group->parts[r]);
        }
        reduce_tree(group->parts, group->place.ranks, some, own);
        if (piece->window->kind == REDUCE_SCATTER_CODED)
            continue;
        encode(group, piece, mine.first + i, some, sums + i / REDUCE_GROUP);
        reduce_decode(sums + i / REDUCE_GROUP, some, own);
    }
}

/* The sums of the other ranks. */
static void decode_sums(const reduce_group *group, const reduce_piece *piece)
{
    for (int r = 0; r < group->place.ranks; ++r) {
        const reduce_slice theirs = part_of(group, piece, r);
        if (r != group->place.rank)
            reduce_decode(
                codes_from(group, piece, r), theirs.count, piece->window->values + theirs.first);
    }
}

/* A turn of a piece in flight. Returns whether something arrived. */
static bool piece_turn(reduce_group *group, reduce_piece *piece)
{
    const int ranks = group->place.ranks;
    int count = 0;
    if (!group_check(group,
            MPI_Testsome(2 * ranks, piece->requests, &count, group->indices, group->statuses),
            "exchanging gradients"))
        return false;
    if (count != MPI_UNDEFINED) {
        for (int i = 0; i < count; ++i)
            if (group->indices[i] < ranks)
                peers_heard(group, group->indices[i]);
        return count > 0;
    }
    const bool coded = windows_are_coded(piece->window->kind);
    if (!piece->gathers) {
        if (coded)
            add_up_codes(group, piece);
        else
            add_up(group, piece);
        piece->gathers = true;
        if (piece->window->kind == REDUCE_SUM || piece->window->kind == REDUCE_SUM_CODED)
            return post(group, piece);
    } else if (coded) {
        decode_sums(group, piece);
    }
    --piece->window->pieces;
    piece->window = NULL;
    return true;
}

/* The first window whose header is not sent. */
static reduce_window *to_announce(reduce_group *group)
{
    (void)pthread_mutex_lock(&group->lock);
    reduce_window *window = group->first;
    while (window != NULL && window->announced)
        window = window->next;
    (void)pthread_mutex_unlock(&group->lock);
    return window;
}

void windows_announce(reduce_group *group)
{
    const int bytes = (int)sizeof(reduce_header);
    for (reduce_window *w; (w = to_announce(group)) != NULL;) {
        w->announced = true;
        if (!group_check(group,
                MPI_Iallgather(&w->header, bytes, MPI_BYTE, w->heads, bytes, MPI_BYTE,
                    group->announced, &w->request),
                "asking other ranks"))
            return;
    }
}

/* Whether it is known that all ranks have begun the same window. */
static bool is_alike(reduce_group *group, reduce_window *window)
{
    int there = 0;
    if (window->announced && !window->alike &&
        group_check(group, MPI_Test(&window->request, &there, MPI_STATUS_IGNORE), "hearing ranks"))
        window->alike = there && group_alike(group, window->heads);
    return window->alike;
}

/* Whether a window's values are there; a status query alone is no synchronisation. */
static bool is_ready(reduce_group *group, reduce_window *window)
{
    cl_int status = CL_QUEUED;
    if (window->ready == NULL)
        return true;
    cl_int code = clGetEventInfo(
        window->ready, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof status, &status, NULL);
    if (code == CL_SUCCESS && status > CL_COMPLETE)
        return false;
    if (code == CL_SUCCESS)
        code = status < 0 ? status : clWaitForEvents(1, &window->ready);
    (void)clReleaseEvent(window->ready);
    window->ready = NULL;
    return code == CL_SUCCESS ||
           group_fail(group, CODE_RUN, "waiting for gradients: OpenCL error %d", code);
}

static bool is_fast(const reduce_group *group, const reduce_window *window)
{
    return group->options.fast && window->kind == REDUCE_SUM;
}

/* Columns of a window that are not begun; with MPI_Iallreduce, the window is one slice. */
static size_t left_of(const reduce_group *group, const reduce_window *window)
{
    const int slices = is_fast(group, window) ? 1 : group->place.ranks;
    return group->place.ranks == 1 ? 0
                                   : reduce_slice_of(window->count, slices, 0).count - window->from;
}

/* Begins with the next piece of a window in the next place. Returns whether there was one. */
static bool begin_piece(reduce_group *group, reduce_window *window)
{
    reduce_piece *piece = &group->pieces[group->next_piece];
    const bool fast = is_fast(group, window);
    const size_t left = left_of(group, window), most = fast ? FAST_FLOATS : group->width;
    if (piece->window != NULL || left == 0)
        return false;
    piece->window = window;
    piece->from = window->from;
    piece->width = left < most ? left : most;
    piece->gathers = fast || window->kind == REDUCE_GATHER;
    group->next_piece = (group->next_piece + 1) % PIECES;
    window->from += piece->width;
    ++window->pieces;
    return fast ? group_check(group,
                      MPI_Iallreduce(MPI_IN_PLACE, window->values + piece->from, (int)piece->width,
                          MPI_FLOAT, MPI_SUM, group->windows, piece->requests),
                      "adding gradients")
                : post(group, piece);
}

bool windows_turn(reduce_group *group, bool *exchanging)
{
    bool moved = false;
    *exchanging = false;
    for (int i = 0; i < PIECES; ++i) /* in the order in which they began */
        if (group->pieces[(group->next_piece + i) % PIECES].window != NULL) {
            moved = piece_turn(group, &group->pieces[(group->next_piece + i) % PIECES]) || moved;
            *exchanging = true;
        }
    (void)pthread_mutex_lock(&group->lock);
    reduce_window *window = group->first;
    (void)pthread_mutex_unlock(&group->lock);
    while (window != NULL && is_alike(group, window) && is_ready(group, window)) {
        while (begin_piece(group, window))
            moved = *exchanging = true;
        if (left_of(group, window) > 0)
            break;
        (void)pthread_mutex_lock(&group->lock);
        reduce_window *next = window->next;
        if (window == group->first && window->pieces == 0) {
            group->first = next;
            if (next == NULL)
                group->end = &group->first;
            free(window);
            (void)pthread_cond_broadcast(&group->answered);
        }
        (void)pthread_mutex_unlock(&group->lock);
        window = next;
    }
    *exchanging = *exchanging || (window != NULL && !window->alike);
    return moved;
}
