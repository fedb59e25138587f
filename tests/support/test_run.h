/* Runs of the trainer and their checkpoints, which end with the case. */
#ifndef CLPRUNE_TEST_RUN_H
#define CLPRUNE_TEST_RUN_H

#include "support/test_fault.h"
#include "trainer/files/checkpoint.h"
#include "trainer/run/run.h"

/* Opens a run on the device under test. The arguments are the words of a format. Fails the case if
 * it cannot be opened. It ends with the case, or before with test_end(run). */
training_run *test_run_open(const trainer_model *model, const char *arguments, ...)
    __attribute__((__format__(__printf__, 2, 3)));

/* Fails the case unless such a run is refused with this code and a text that has `part`; returns
 * the text. */
const char *test_run_refused(const trainer_model *model, int code, const char *part,
    const char *arguments, ...) __attribute__((__format__(__printf__, 4, 5)));

/* The rest of the present epoch. */
void test_run_epoch(training_run *run);

/* Trains to the end, or until the run has to stop, and saves. */
void test_run_train(training_run *run);

/* Opens a run, trains and ends it. */
void test_run_whole(const trainer_model *model, const char *arguments, ...)
    __attribute__((__format__(__printf__, 2, 3)));

/* A checkpoint, and the record of a name in it, which must be there. */
const checkpoint *test_checkpoint(const char *path);
const checkpoint_record *test_record(const checkpoint *c, const char *name);

/* The rows of the log in a checkpoint. */
const csv_row *test_rows(const char *path, size_t *count);

/* A run on another device than the one under test. */
extern const char *test_run_device;

#endif
