/*
 * reduce.h: what the processes (ranks) of one training run tell each other. A program links one of
 * two implementations: reduce_alone, one process, or reduce_mpi, any number of them (library
 * clprune_reduce_mpi).
 *
 * All ranks begin the same windows in the same order, and make the same calls in the same order,
 * each from one thread at a time: ranks that differ get a fault, CODE_PEER, which names both. With
 * MPI a thread of the group's own makes every call of MPI; the others ask it and wait.
 *
 * A rank shows signs of life as long as its process runs, however long its own work takes. One that
 * shows none for peer_timeout seconds counts as dead: killed, stopped, unplugged. Then each call
 * that waits, and each later one, ends with CODE_PEER and one line that names this rank, its host,
 * what it waited for, and the dead ranks. The caller saves what it has and calls abort. Until then
 * the memory of windows and calls in flight must stay: MPI may still write to it.
 *
 * Signals (base/stop.h) do not end a wait while the ranks answer, so that all can agree to stop
 * after the step. But mpirun sends SIGTERM to the survivors of a rank that died, and ends them a
 * second later (Open MPI). So a rank that waits and has a signal asks the others every 0.1 s, and
 * those that show no life for 0.3 s count as dead.
 */
#ifndef TRAINER_REDUCE_H
#define TRAINER_REDUCE_H

#include <stdint.h>

#include "trainer/base/fault.h"

typedef struct reduce_group reduce_group;

enum { REDUCE_HOST = 64, REDUCE_WORDS = 6 };

typedef struct reduce_options {
    double peer_timeout; /* seconds, above 0 */
    bool fast;           /* REDUCE_SUM by MPI_Iallreduce, in an order that MPI chooses */
} reduce_options;

typedef struct reduce_place {
    int rank, ranks;
    int local_rank, local_ranks; /* among the ranks of this host */
    char host[REDUCE_HOST];
} reduce_place;

/* What happens to a window of values. Slices are those of reduce_slice_of (reduce_tree.h). */
typedef enum reduce_kind {
    REDUCE_SUM,     /* on all ranks, each value becomes its sum over the ranks (reduce_tree) */
    REDUCE_SCATTER, /* the same for each rank's own slice; the rest of the window stays */
    REDUCE_GATHER,  /* each rank's own slice goes to the windows of all */

    /* The same sums from 8-bit codes of the other ranks' values (reduce_code.h), and for all ranks
     * from codes of the sum: the sum in expectation, within the scales of as many codes. All ranks
     * have the same bits. A NaN or Inf makes its group NaN. `fast` does not count. */
    REDUCE_SUM_CODED,
    REDUCE_SCATTER_CODED
} reduce_kind;

typedef struct reduce_functions {
    /* Opens the group of all processes that were started together; waits a minute for them at most.
     * Call stop_install before. On a failure *group is NULL. Faults: CODE_PEER (MPI fails, or a
     * process does not start), CODE_MEMORY, CODE_RUN. */
    bool (*open)(
        const reduce_options *options, reduce_group **group, reduce_place *place, fault *f);

    /* Waits until all ranks close, and frees the group. Nothing may be in flight. After a fault the
     * group still exists, and can only be aborted. */
    bool (*close)(reduce_group *group, fault *f);

    /* Begins with a window of any count, 0 included, which must be equal on all ranks. Its values
     * are taken once `ready`, an event of a flushed queue or NULL, is complete; the group retains
     * it. Until `finish` the caller leaves the values alone. Windows are worked on in the order of
     * these calls, so the first one's event holds back the others. */
    bool (*begin)(reduce_group *group, reduce_kind kind, cl_event ready, float *values,
        size_t count, fault *f);

    /* The codes of windows that begin from now on are drawn from this number, equal on all ranks,
     * and from their count since: the same number, windows and ranks give the same bits. */
    void (*draw)(reduce_group *group, uint64_t number);

    /* Waits for all windows. */
    bool (*finish)(reduce_group *group, fault *f);

    /* The next three may be called while windows are in flight, and do not wait for them. */

    /* Bytes of different lengths, 0 included, from all ranks to all: rank 0's are the first in
     * `all`, which has room for `most`, equal on all ranks; bytes_of_rank gets each rank's length,
     * unless it is NULL. A fault, CODE_RUN, if they are more than `most` or INT_MAX. */
    bool (*gather)(reduce_group *group, const void *mine, size_t bytes, void *all, size_t most,
        size_t *bytes_of_rank, fault *f);

    /* Rank 0's data to all; bytes are equal on all ranks. */
    bool (*broadcast)(reduce_group *group, void *data, size_t bytes, fault *f);

    /* Each word becomes the largest one of all ranks: how the ranks take one decision. No rank
     * returns before all have called: with count 0 it is a barrier. count <= REDUCE_WORDS, equal
     * on all ranks. */
    bool (*agree)(reduce_group *group, uint32_t *words, size_t count, fault *f);

    /* Ends all processes with this exit code, without atexit handlers. The others see that this
     * rank gave up; while rank 0 shows signs of life it has peer_timeout seconds to save and to end
     * the run itself. Does not return, and ends this process if MPI does not. group may be NULL. */
    void (*abort)(reduce_group *group, int code);
} reduce_functions;

extern const reduce_functions reduce_alone, reduce_mpi;

#endif
