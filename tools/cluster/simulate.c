/*
 * A training step on many ranks, simulated: what examples/trainer/reduce/reduce_windows.c sends, as
 * windows of gradients are ready, on a network that SimGrid imagines. tools/cluster/simulate.sh
 * compiles it with smpicc and runs it. No value is sent or added: the program has the messages, and
 * what else takes time is slept.
 *
 *     simulate tree|fast|alone WINDOWS STEP_MS [STEPS]       STEPS: 2
 *
 * tree: slices of pieces, all ranks to all. fast: as MPI_Allreduce of each window may be, for
 * powers of two. alone: tree with all windows ready at once, and no step around it. WINDOWS has a
 * line for each window: the ms of the step after which it is ready, and its floats. Rank 0 prints
 * the milliseconds of a step, the last one of STEPS.
 *
 * Messages have up to 1 MiB, in place of 256 KiB, so there are fewer: with small ones the first 35
 * rows of `tree` change by 0.1 % at most.
 */
#include <mpi.h>
#include <smpi/smpi.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SLOTS = 16, PIECE_FLOATS = 1 << 19, WIDTH_LEAST = 1 << 11, SLICE = 256, WINDOWS = 4096 };

/* Bytes that reduce_tree adds up in a second: 28e9 of 2 ranks, 8e9 of 16 (one core of an EPYC). */
static const double sum_rate = 8e9;

typedef struct window {
    double ready; /* seconds after the step's begin */
    size_t count;
} window;

typedef struct piece {
    bool busy, gathers;
    size_t window, from;
} piece;

typedef struct simulation {
    int ranks, rank;
    size_t windows_count, width;
    window windows[WINDOWS];
    piece pieces[SLOTS];
    MPI_Request *requests; /* (SLOTS, 2 * ranks) */
    int *left;             /* (SLOTS) requests of a piece that are not complete */
    int *done;             /* what MPI_Waitsome completed */
    char *memory;          /* which all messages share */
} simulation;

static void wait_seconds(double seconds)
{
    if (seconds > 0)
        (void)usleep((useconds_t)(1e6 * seconds + 0.5));
}

/* Floats of rank r's slice of a window: reduce_slice_of. */
static size_t slice_of(const simulation *s, size_t count, int r)
{
    const size_t ranks = (size_t)s->ranks,
                 each = ((count + ranks - 1) / ranks + SLICE - 1) / SLICE * SLICE;
    const size_t first = (size_t)r * each < count ? (size_t)r * each : count;
    return count - first < each ? count - first : each;
}

static size_t part_of(const simulation *s, const piece *p, int r)
{
    const size_t count = slice_of(s, s->windows[p->window].count, r);
    const size_t left = p->from < count ? count - p->from : 0;
    return left < s->width ? left : s->width;
}

/* The messages of a piece's half. */
static void post(simulation *s, int slot)
{
    const piece *p = &s->pieces[slot];
    const size_t mine = part_of(s, p, s->rank);
    MPI_Request *at = s->requests + (size_t)slot * 2 * (size_t)s->ranks;
    const int tag = 2 * slot + p->gathers;
    for (int i = 1; i < s->ranks; ++i) {
        const int from = (s->rank + s->ranks - i) % s->ranks, to = (s->rank + i) % s->ranks;
        const size_t in = p->gathers ? part_of(s, p, from) : mine,
                     out = p->gathers ? mine : part_of(s, p, to);
        if (in > 0)
            (void)MPI_Irecv(s->memory, (int)in, MPI_FLOAT, from, tag, MPI_COMM_WORLD, &at[from]),
                ++s->left[slot];
        if (out > 0)
            (void)MPI_Isend(
                s->memory, (int)out, MPI_FLOAT, to, tag, MPI_COMM_WORLD, &at[s->ranks + to]),
                ++s->left[slot];
    }
}

/* What follows the last message of a piece. Returns whether the piece is complete. */
static bool turn(simulation *s, int slot)
{
    piece *p = &s->pieces[slot];
    if (!p->gathers) {
        wait_seconds((double)part_of(s, p, s->rank) * (double)s->ranks * 4 / sum_rate);
        p->gathers = true;
        post(s, slot);
        if (s->left[slot] > 0)
            return false;
    }
    p->busy = false;
    return true;
}

/* Sends all windows, none before it is ready. */
static void send_windows(simulation *s, double begin)
{
    size_t window = 0, from = 0;
    int busy = 0, next = 0;
    while (window < s->windows_count || busy > 0) {
        while (window < s->windows_count && !s->pieces[next].busy &&
               MPI_Wtime() - begin >= s->windows[window].ready - 1e-7) {
            s->pieces[next] = (piece){.busy = true, .window = window, .from = from};
            ++busy;
            post(s, next);
            if (s->left[next] == 0 && turn(s, next))
                --busy;
            next = (next + 1) % SLOTS;
            from += s->width;
            if (from >= slice_of(s, s->windows[window].count, 0)) {
                ++window;
                from = 0;
            }
        }
        if (busy == 0) {
            wait_seconds(
                s->windows[window < s->windows_count ? window : 0].ready - (MPI_Wtime() - begin));
            continue;
        }
        int count = 0;
        (void)MPI_Waitsome(SLOTS * 2 * s->ranks, s->requests, &count, s->done, MPI_STATUSES_IGNORE);
        for (int i = 0; i < count; ++i) {
            const int slot = s->done[i] / (2 * s->ranks);
            if (--s->left[slot] == 0 && turn(s, slot))
                --busy;
        }
    }
}

static void swap(simulation *s, int with, size_t count)
{
    (void)MPI_Sendrecv(s->memory, (int)count, MPI_FLOAT, with, 0, s->memory, (int)count, MPI_FLOAT,
        with, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

/* Rabenseifner's algorithm, which MPI takes for large sums: halves, quarters, ... are added, then
 * they go the other way. */
static void halve_windows(simulation *s, double begin)
{
    for (size_t i = 0; i < s->windows_count; ++i) {
        wait_seconds(s->windows[i].ready - (MPI_Wtime() - begin));
        size_t count = s->windows[i].count;
        for (int distance = 1; distance < s->ranks; distance *= 2) {
            count = (count + 1) / 2;
            swap(s, s->rank ^ distance, count);
            wait_seconds((double)count * 2 * 4 / sum_rate);
        }
        for (int distance = s->ranks / 2; distance > 0; distance /= 2, count *= 2)
            swap(s, s->rank ^ distance, count);
    }
}

static bool read_windows(simulation *s, const char *name)
{
    FILE *file = fopen(name, "r");
    double ready, count;
    while (
        file != NULL && s->windows_count < WINDOWS && fscanf(file, "%lf %lf", &ready, &count) == 2)
        s->windows[s->windows_count++] = (window){1e-3 * ready, (size_t)count};
    if (file != NULL)
        (void)fclose(file);
    return s->windows_count > 0;
}

int main(int argc, char **argv)
{
    simulation s = {0}; /* a static one would be the same for all ranks */
    (void)MPI_Init(&argc, &argv);
    (void)MPI_Comm_rank(MPI_COMM_WORLD, &s.rank);
    (void)MPI_Comm_size(MPI_COMM_WORLD, &s.ranks);
    const char *mode = argc > 1 ? argv[1] : "";
    const bool fast = strcmp(mode, "fast") == 0, alone = strcmp(mode, "alone") == 0;
    if (argc < 4 || (!fast && !alone && strcmp(mode, "tree") != 0) || !read_windows(&s, argv[2])) {
        (void)fputs("usage: simulate tree|fast|alone WINDOWS STEP_MS [STEPS]\n", stderr);
        return 2;
    }
    const double step = alone ? 0 : 1e-3 * strtod(argv[3], NULL);
    const int steps = argc > 4 ? atoi(argv[4]) : 2;
    size_t largest = 0;
    for (size_t i = 0; i < s.windows_count; ++i) {
        largest = s.windows[i].count > largest ? s.windows[i].count : largest;
        s.windows[i].ready = alone ? 0 : s.windows[i].ready;
    }
    const size_t ranks = (size_t)s.ranks, slots = SLOTS * 2 * ranks;
    s.width = PIECE_FLOATS / ranks > WIDTH_LEAST ? PIECE_FLOATS / ranks : WIDTH_LEAST;
    s.requests = malloc(slots * sizeof(MPI_Request));
    s.left = calloc(SLOTS, sizeof *s.left);
    s.done = malloc(slots * sizeof *s.done);
    s.memory = SMPI_SHARED_MALLOC((largest + ranks) * sizeof(float));
    for (size_t i = 0; i < slots; ++i)
        s.requests[i] = MPI_REQUEST_NULL;
    double took = 0;
    for (int i = 0; i < steps; ++i) {
        (void)MPI_Barrier(MPI_COMM_WORLD);
        const double begin = MPI_Wtime();
        if (fast)
            halve_windows(&s, begin);
        else if (s.ranks > 1)
            send_windows(&s, begin);
        wait_seconds(step - (MPI_Wtime() - begin)); /* the backward pass ends */
        (void)MPI_Barrier(MPI_COMM_WORLD);
        took = MPI_Wtime() - begin;
    }
    if (s.rank == 0)
        (void)printf("%.3f\n", 1e3 * took);
    free(s.requests);
    free(s.left);
    free(s.done);
    SMPI_SHARED_FREE(s.memory);
    return MPI_Finalize();
}
