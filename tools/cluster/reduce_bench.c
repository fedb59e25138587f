/*
 * Seconds that the sum of gradients takes: the trainer's (examples/trainer/reduce), or
 * MPI_Allreduce of the same bytes.
 *
 *     mpirun -n 2 reduce_bench tree|codes|fast|mpi [MIB [WINDOW_MIB [REPEATS]]]  100, 8 and 11
 *
 * Rank 0 prints the median. `codes` sends codes of 8 bits. `mpi` is one blocking call for each
 * window. tools/cluster/reduce_bench.sh runs them in turns.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "trainer/reduce/reduce.h"

static double seconds(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static int in_order(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

typedef struct sums {
    float *values;
    size_t count, window;
    reduce_kind kind;
    reduce_group *group; /* NULL: MPI_Allreduce */
    fault f;
} sums;

static bool wait_for_all(sums *s)
{
    return s->group == NULL ? MPI_Barrier(MPI_COMM_WORLD) == MPI_SUCCESS
                            : reduce_mpi.agree(s->group, NULL, 0, &s->f);
}

static bool add_up(sums *s)
{
    bool good = true;
    for (size_t from = 0; from < s->count && good; from += s->window) {
        const size_t left = s->count - from, count = left < s->window ? left : s->window;
        float *at = s->values + from;
        good = s->group == NULL ? MPI_Allreduce(MPI_IN_PLACE, at, (int)count, MPI_FLOAT, MPI_SUM,
                                      MPI_COMM_WORLD) == MPI_SUCCESS
                                : reduce_mpi.begin(s->group, s->kind, NULL, at, count, &s->f);
    }
    return good && (s->group == NULL || reduce_mpi.finish(s->group, &s->f));
}

static size_t mebibytes(int argc, char **argv, int i, size_t usual)
{
    return (argc > i ? strtoul(argv[i], NULL, 10) : usual) << 18; /* floats */
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "";
    const bool mpi = strcmp(mode, "mpi") == 0, fast = strcmp(mode, "fast") == 0;
    const bool codes = strcmp(mode, "codes") == 0;
    const size_t repeats = argc > 4 ? strtoul(argv[4], NULL, 10) : 11;
    const reduce_options options = {.peer_timeout = 60, .fast = fast};
    reduce_place place = {0};
    sums s = {.count = mebibytes(argc, argv, 2, 100),
        .window = mebibytes(argc, argv, 3, 8),
        .kind = codes ? REDUCE_SUM_CODED : REDUCE_SUM};
    double *times = malloc((repeats + 1) * sizeof *times);
    s.values = calloc(s.count + 1, sizeof *s.values);
    if ((!mpi && !fast && !codes && strcmp(mode, "tree") != 0) || s.window == 0 || repeats == 0 ||
        times == NULL || s.values == NULL) {
        (void)fputs("usage: mpirun -n RANKS reduce_bench tree|codes|fast|mpi [MIB [WINDOW_MIB "
                    "[REPEATS]]]\n",
            stderr);
        return CODE_USAGE;
    }
    for (size_t i = 0; i < s.count; ++i)
        s.values[i] = (float)(i * 7919 % 65536) - 32768;
    if (mpi)
        (void)MPI_Init(NULL, NULL), (void)MPI_Comm_rank(MPI_COMM_WORLD, &place.rank),
            (void)MPI_Comm_size(MPI_COMM_WORLD, &place.ranks);
    bool good = mpi || reduce_mpi.open(&options, &s.group, &place, &s.f);
    for (size_t i = 0; i <= repeats && good; ++i) { /* the first one opens connections */
        good = wait_for_all(&s);
        const double since = seconds();
        good = good && add_up(&s) && wait_for_all(&s);
        times[i == 0 ? repeats : i - 1] = seconds() - since;
    }
    qsort(times, repeats, sizeof *times, in_order);
    if (good && place.rank == 0)
        (void)printf("%s: %d ranks, %zu MiB, windows of %zu MiB: %.1f ms (%.1f to %.1f)\n", mode,
            place.ranks, s.count >> 18, s.window >> 18, 1e3 * times[repeats / 2], 1e3 * times[0],
            1e3 * times[repeats - 1]);
    free(times);
    if (good && (mpi ? MPI_Finalize() == MPI_SUCCESS : reduce_mpi.close(s.group, &s.f))) {
        free(s.values);
        return CODE_OK;
    }
    (void)fprintf(stderr, "reduce_bench: %s\n", s.f.text);
    reduce_mpi.abort(s.group, CODE_RUN);
    return CODE_RUN;
}
