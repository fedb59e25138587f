/*
 * run.h: a training run: a session (session.h), and beside it files, epochs, log, checkpoints,
 * progress.
 *
 *     run_open(&options, &r, &fault);      also resumes
 *     run_epoch(&r, &fault);               the rest of the present epoch
 *     run_evaluate(&r, &fault);                loss and accuracy on the test images
 *     run_finish_epoch(&r, &fault);        a row in the log
 *     run_save(&r, &fault);                a checkpoint
 *     run_close(&r);
 *
 * All random numbers are functions of the seed and of epoch, image or step. So a resumed run needs
 * only parameters, optimizer moments, the model's states and counts, and the position.
 */
#ifndef TRAINER_RUN_H
#define TRAINER_RUN_H

#include "trainer/files/weights.h"
#include "trainer/report/csv_log.h"
#include "trainer/report/iou.h"
#include "trainer/report/tensorboard.h"
#include "trainer/run/run_position.h"
#include "trainer/run/sample.h"
#include "trainer/session/session.h"

/* The position of a run, besides session.step; a resumed run continues it. */
typedef struct run_position {
    uint64_t epoch;         /* epochs finished */
    uint64_t step_in_epoch; /* steps done in the next one */
    tally_sums sums;        /* of the steps done in the next epoch */
    double seconds;         /* spent before this process began */
    double cpu_seconds;     /* CPU seconds, likewise */
    uint64_t skipped;       /* broken images replaced in steps and tests, in all */
} run_position;

/* With other ranks: how long a step takes this rank, and how long it then waits for sums. */
typedef struct run_pace {
    double own, waited; /* seconds */
    uint64_t steps;
    /* of the latest epoch, by run_ranks_pace */
    double median_ms, slowest_ms; /* a step's own part, of the ranks */
    int slowest;                  /* the rank */
    double waited_ms;             /* of a step, the mean over the ranks */
} run_pace;

typedef struct training_run {
    session s;
    csv_log log;
    tensorboard board;
    run_folder folder;
    char *checkpoint_path; /* NULL: none is written */
    char *best_path;       /* likewise; of --best */
    bool saved;            /* this process wrote a checkpoint */
    double saved_at;       /* clock then, or at run_open */
    bool save_due;         /* after this step, for --checkpoint-minutes or a signal */
    bool save_asked;       /* by a signal */
    uint64_t next_skipped; /* in the batches made for the next step */
    uint64_t next_labels;  /* of the next step that count, on all ranks; 0: not counted */
    weights_imported imported;
    bool stop;         /* a rank has a signal: all stop */
    bool agreed;       /* a fault that all ranks know */
    bool unequal;      /* ranks have devices whose results differ by rounding */
    uint64_t compared; /* steps when all ranks had the same parameters */
    run_pace pace;     /* of the present epoch, then of all ranks */
    progress progress;
    sample_start sample;

    run_position at;
    run_stages stages;
    uint64_t read_from;              /* steps before those whose losses are in the tally */
    double began;                    /* clock at run_open */
    double mark;                     /* clock when the latest step was read back */
    double step_began;               /* clock then */
    bool timed_whole, timed_smaller; /* this process did a step of a whole batch, of fewer images */
    /* The first step of each builds kernels and is not timed. */
    meter epoch;         /* of the latest epoch */
    meter all;           /* starts anew after the first of several epochs */
    double test_seconds; /* of the latest test */

    /* results; NaN where there is none yet */
    double train_loss, test_loss, top1;
    double mean_iou; /* of the latest test, with a label for each pixel in one process; else NaN */
    size_t iou_classes; /* that count in it */
    iou iou;            /* during a test */
} training_run;

/* Makes and locks the output folder; checks that --summary-json, --export and --adapters can be
 * written; opens data, device, model; initialises parameters or takes them from --resume. On
 * failure *r needs no closing; r->agreed: all ranks know of it. A run that is open must not move.
 */
bool run_open(options *o, training_run *r, fault *f);
void run_close(training_run *r);

/* Trains until the epoch is over or the run has to stop. Faults: CODE_DATA if a batch could not be
 * made, after which run_save saves the steps before it (of --micro-batches, running statistics also
 * have the passes before it); CODE_PEER, likewise, if another rank is lost; CODE_DIVERGED and
 * others. */
bool run_epoch(training_run *r, fault *f);

/* Whether a signal came, to any of the ranks; or --steps are done. */
bool run_is_stopped(const training_run *r);
bool run_must_stop(const training_run *r);

/* Whether the run tests after that many epochs, which are done; or, before the present one ends,
 * after that many steps in it, and the log has no row of that yet. */
bool run_tests_at(const training_run *r, uint64_t epochs);
bool run_tests_within(const training_run *r, uint64_t step_in_epoch);

/* Sets test_loss, top1 and mean_iou. If a signal comes before its end, leaves them unchanged. */
bool run_evaluate(training_run *r, fault *f);

/* Of the latest test: e to the loss, of tokens; bits for a byte of a text. NaN for others. */
double run_perplexity(const training_run *r);
double run_bits_per_byte(const training_run *r);
/* "test loss 0.6931, top-1 50.00 %", with `gap` in place of ", ". */
void run_test_text(const training_run *r, const char *gap, char *text, size_t size);

/* The best test of the log; "top-1 50.00 % after step 12", or "no test". */
csv_best run_best(const training_run *r);
void run_best_text(const training_run *r, char *text, size_t size);

/* Whether --patience ends the run. */
bool run_is_over(const training_run *r);

/* Tests within an epoch whose sums are in r->at, and writes the log's row; no row if a signal comes
 * before its end. */
bool run_test_within(training_run *r, fault *f);

/* Writes the log's row, goes on to the next epoch and, with --best, keeps the best test's
 * checkpoint. */
bool run_finish_epoch(training_run *r, fault *f);

/* Writes a checkpoint, if there is a folder for it; with --zero all ranks call it. Refuses
 * parameters that are no numbers (CODE_DIVERGED): the last good checkpoint stays. */
bool run_save(training_run *r, fault *f);
/* The same as best.ckpt, if there is a folder for it. */
bool run_save_best(training_run *r, fault *f);

/* With other ranks: before the first step, whether all have the same options, data, parameters and
 * precision; and later, after the same step on all of them, the same parameters. Faults, of which
 * all ranks know: CODE_USAGE, CODE_RUN. */
bool run_compare_all(training_run *r, fault *f);
bool run_compare(training_run *r, fault *f);

/* Private to run*.c: tells the others whether this rank has a signal, and what it could not read;
 * all take the same decision. *fed: it could be read, on all ranks. */
bool run_agree(training_run *r, bool *fed, fault *f);

/* Private to run*.c: what decides on the bits of results besides options, as a text. */
enum { RUN_DEVICE_TEXT = 512 };
bool run_device_text(const session *s, char text[RUN_DEVICE_TEXT], fault *f);

/* Private to run*.c: restores parameters, moments, states, counts and position from an opened
 * checkpoint. Checks all of it before anything of the model changes. */
bool run_restore(training_run *r, const checkpoint *c, fault *f);

/* "100.0 img/s, 80.0 ms/step" behind a gap, which may be ", "; "" where no step was timed. */
void run_speed_text(
    const training_run *r, const meter *m, const char *gap, char *text, size_t size);

#endif
