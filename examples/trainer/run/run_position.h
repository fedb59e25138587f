/* run_position.h: where the run of a checkpoint stands.
 *
 * A run that goes on with other samples begins a stage, and its unfinished epoch anew. Steps and
 * epochs count on; the learning rate goes on by epochs (session_rate). */
#ifndef TRAINER_RUN_POSITION_H
#define TRAINER_RUN_POSITION_H

#include "trainer/files/checkpoint.h"
#include "trainer/session/session.h"

/* Numbers of the records "position", "sums" and "norms", and of a row of "stages"
 * (run_checkpoint.c). */
enum { POSITION_NUMBERS = 11, SUM_NUMBERS = 4, NORM_NUMBERS = 2, STAGE_NUMBERS = 3 };

typedef struct run_stage {
    uint64_t epoch, step; /* done before it */
    uint64_t samples;     /* of an epoch */
} run_stage;

/* The stages of a run, one or more; the last is the present one. */
typedef struct run_stages {
    run_stage *list;
    size_t count;
} run_stages;

/* Takes those of a checkpoint, with room for one more; c NULL: none, with room for one. Faults:
 * CODE_DATA, CODE_MEMORY. The caller frees the list in any case. */
bool run_take_stages(const session *s, const checkpoint *c, run_stages *stages, fault *f);

/* Begins a stage with the session's data, in place of a last one of no steps. */
void run_begin_stage(session *s, uint64_t epoch, run_stages *stages);

/* Fails (CODE_DATA) unless both, and the rows of the record "log", can be those of a run of these
 * stages, or --epochs is less than the epoch. */
bool run_check_position(const session *s, const checkpoint *c, const run_stages *stages,
    const uint64_t position[POSITION_NUMBERS], const double sums[SUM_NUMBERS], fault *f);

/* Takes the sum and the number of norms, both 0 without a record: of at most `steps`. Faults:
 * CODE_DATA. */
bool run_take_norms(const checkpoint *c, uint64_t steps, double norms[NORM_NUMBERS], fault *f);

#endif
