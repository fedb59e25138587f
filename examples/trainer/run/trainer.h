/*
 * trainer.h: a training run: data, model, optimizer, and its position.
 *
 *     trainer_open(&options, &t, &fault);      also resumes
 *     trainer_epoch(&t, &fault);               the rest of the present epoch
 *     trainer_test(&t, &fault);                loss and accuracy on the test images
 *     trainer_finish_epoch(&t, &fault);        a row in the log
 *     trainer_save(&t, &fault);                a checkpoint
 *     trainer_close(&t);
 *
 * All random numbers are functions of the seed and of epoch, image or step. So a resumed run needs
 * only parameters, optimizer moments, the model's states and counts, and the position.
 */
#ifndef TRAINER_H
#define TRAINER_H

#include <clprune/clprune.h>

#include "trainer/data/dataset.h"
#include "trainer/data/feed.h"
#include "trainer/files/run_folder.h"
#include "trainer/options/options.h"
#include "trainer/report/csv_log.h"
#include "trainer/report/progress.h"
#include "trainer/report/tally.h"
#include "trainer/report/tensorboard.h"
#include "trainer/run/fault.h"
#include "trainer/run/learning_rate.h"
#include "trainer/run/trainer_model.h"

/* The position of a run; a resumed run continues it. */
typedef struct trainer_position {
    uint64_t epoch;         /* epochs finished */
    uint64_t step_in_epoch; /* steps done in the next one */
    uint64_t step;          /* steps done in all */
    tally_sums sums;        /* of the steps done in the next epoch */
    double seconds;         /* spent before this process began */
    double cpu_seconds;     /* CPU seconds, likewise */
    uint64_t peak_bytes;    /* reached before this process began */
    uint64_t skipped;       /* broken images replaced in steps and tests, in all */
} trainer_position;

/* The random streams of a run; a resumed run keeps those that it began with.
 *     1   sampled pruning at step i and the initial values of tensor i shared one stream
 *     2   each has its own: rng.h */
enum { TRAINER_STREAMS = 2 };

typedef struct trainer {
    options *options; /* not owned; trainer_open fills in the sizes that were not given */
    dataset *data;
    clprune_context *context;
    const trainer_model *type;
    trainer_sizes sizes;
    void *model;
    keep_rule *rules;            /* how it keeps its tensors */
    struct auto_keep *automatic; /* what --activations auto chose; NULL: nothing */
    clprune_param *params;       /* (params_count) the model's */
    size_t params_count;
    trainer_watch_fn *watch; /* called at the parts of a step; NULL: none */
    void *watch_user;
    clprune_optimizer *optimizer;
    learning_rate rate;
    batch_feed feed;
    tally tally;
    uint32_t *order; /* of images in an epoch, train or test; has room for the longer one */
    csv_log log;
    tensorboard board;
    run_folder folder;
    char *checkpoint_path; /* NULL: none is written */
    bool saved;            /* this process wrote a checkpoint */
    uint64_t next_skipped; /* in the batch made last, which no step has used yet */
    bool head_left;        /* --import left the head at its initial values */
    progress progress;
    struct trainer *run; /* of a probe: whose it is; NULL: a run */
    uint64_t built;      /* kernels built so far */
    uint64_t programs;   /* in the context after the first step; 0: not known */

    uint64_t streams; /* TRAINER_STREAMS, or those of a run of an older program */
    trainer_position at;
    uint64_t steps_per_epoch;
    uint64_t steps_here;             /* done by this process */
    double began;                    /* clock at trainer_open */
    double mark;                     /* clock when the latest step was read back */
    bool timed_whole, timed_smaller; /* this process did a step of a whole batch, of fewer images */
    meter first;                     /* the first step of each, which builds kernels */
    meter epoch;                     /* the other steps of the latest epoch */
    meter all;           /* all other steps; starts anew after the first of several epochs */
    double test_seconds; /* of the latest test */

    /* results; NaN where there is none yet */
    double train_loss, test_loss, top1;
    uint64_t saved_activation_bytes; /* live at the end of a forward pass */
} trainer;

/* Makes and locks the output folder; checks that --summary-json and --export can be written; opens
 * data, device, model; initialises parameters or takes them from --resume. On failure *t needs no
 * closing. */
bool trainer_open(options *o, trainer *t, fault *f);
void trainer_close(trainer *t);

/* Trains until the epoch is over or the run has to stop. Faults: CODE_DATA if a batch could not be
 * made, after which trainer_save saves the steps before it; CODE_DIVERGED and others. */
bool trainer_epoch(trainer *t, fault *f);

/* Calls `watch` at the start of each part of the coming steps: the model's parts, "loss" and
 * "update". NULL stops that. */
void trainer_watch(trainer *t, trainer_watch_fn *watch, void *user);

/* The first part of trainer_open: options and overrides of the checkpoint, data, architecture; no
 * device is opened. On failure the caller still closes *t and *c. */
struct checkpoint;
bool trainer_prepare(options *o, trainer *t, struct checkpoint *c, fault *f);

/* Whether a signal came or --steps are done. */
bool trainer_must_stop(const trainer *t);

/* Whether the run tests after that many epochs. */
bool trainer_tests_at(const trainer *t, uint64_t epochs);

/* Sets test_loss and top1. If a signal comes before its end, leaves them unchanged. */
bool trainer_test(trainer *t, fault *f);

/* Writes the log's row and goes on to the next epoch. */
bool trainer_finish_epoch(trainer *t, fault *f);

/* Writes a checkpoint, if there is a folder for it. Refuses parameters that are no numbers
 * (CODE_DIVERGED): the last good checkpoint stays. */
bool trainer_save(trainer *t, fault *f);

/* Private to trainer*.c: restores parameters, moments, states, counts and position from an
 * opened checkpoint. Checks all of it before anything of the model changes. */
bool trainer_restore(trainer *t, const struct checkpoint *c, fault *f);

/* Private to trainer*.c: fails if a given --train-limit is not that of the resumed run. */
bool trainer_check_limit(const options *o, fault *f);

/* The name of the architecture. */
const char *trainer_arch_name(const trainer *t);

/* A context on the device of *wanted (NULL: the library's choice). Returns the status of
 * clprune_context_create. Faults: CODE_USAGE for a bad environment variable, and others. */
clprune_status trainer_create_context(
    const clprune_context_options *wanted, clprune_context **context, fault *f);

/* The log hook of a run's contexts; `user` is the trainer. Shows how many kernels were built. Until
 * the first step is enqueued it ends the program between two builds if a signal came. It passes on
 * the reason why --precision is not available. */
void trainer_hear(void *user, clprune_log_level level, const char *message);

/* Waits for what was enqueued, and shows for how long. `step` says what that is, as "first step"; a
 * driver may still compile for it. A signal meanwhile ends the program if this process has done no
 * step before it: nothing is lost. */
bool trainer_wait(trainer *t, const char *step, fault *f);

/* Make what a run needs on the device of t->context, from options, data and architecture: the feed
 * and the tally; the model and the optimizer. On failure the caller still closes what was made. */
bool trainer_create_feed(trainer *t, fault *f);
bool trainer_create_model(trainer *t, fault *f);

/* Enqueue one optimisation step, or the test of a batch, on the images and labels in t->feed;
 * nothing is waited for. */
clprune_status trainer_enqueue_step(trainer *t, size_t count, clprune_mat loss, clprune_mat hit);
clprune_status trainer_enqueue_test(trainer *t, size_t count, clprune_mat loss, clprune_mat hit);

/* Peak bytes of all categories, earlier processes of a resumed run included. */
uint64_t trainer_peak_bytes(const trainer *t);

/* The meter to report: `all`, or the first steps if there are no others. */
const meter *trainer_meter(const trainer *t);

#endif
