/* run_position.h: where the run of a checkpoint stands. */
#ifndef TRAINER_RUN_POSITION_H
#define TRAINER_RUN_POSITION_H

#include "trainer/files/checkpoint.h"
#include "trainer/session/session.h"

/* Numbers of the records "position" and "sums" (run_checkpoint.c). */
enum { POSITION_NUMBERS = 11, SUM_NUMBERS = 4 };

/* Fails (CODE_DATA) unless both, and the rows of the record "log", can be those of a run with the
 * session's data, or --epochs is less than the epoch. */
bool run_check_position(const session *s, const checkpoint *c,
    const uint64_t position[POSITION_NUMBERS], const double sums[SUM_NUMBERS], fault *f);

#endif
