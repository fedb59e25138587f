/*
 * session.h: a model on a device with its optimizer and the feed of its samples: all that a step
 * takes. A run (run.h) has one, the memory plan makes one without a device, and --activations auto
 * measures in one beside the run's.
 *
 *     session s = {.options = &options, .shown = &progress, .folder = &folder};
 *     session_prepare(&s, &checkpoint, &fault);    options of the checkpoint, data, sizes
 *     session_open_device(&s, &s, &fault);
 *     session_create_feed(&s, &fault);
 *     session_create_model(&s, &fault);
 *     session_enqueue_pass(&s, &pass, loss, hit);  --micro-batches of them are a step
 *     session_update(&s, &fault);
 *     session_close(&s);
 */
#ifndef TRAINER_SESSION_H
#define TRAINER_SESSION_H

#include <clprune/clprune.h>

#include "trainer/base/fault.h"
#include "trainer/base/learning_rate.h"
#include "trainer/data/dataset.h"
#include "trainer/data/feed.h"
#include "trainer/files/checkpoint.h"
#include "trainer/files/run_folder.h"
#include "trainer/model/net_model.h"
#include "trainer/options/options.h"
#include "trainer/report/progress.h"
#include "trainer/report/tally.h"
#include "trainer/session/gradient_sum.h"
#include "trainer/session/gradient_windows.h"
#include "trainer/session/shared_statistics.h"
#include "trainer/session/slow_weights.h"
#include "trainer/session/state_slices.h"
#include "trainer/vocabulary/text_tokens.h"

typedef struct session {
    options *options;   /* not owned; session_prepare fills in the sizes that were not given */
    progress *shown;    /* not owned: of the run */
    run_folder *folder; /* not owned: likewise; undone if a signal ends the program untrained */
    text_model text;    /* of --model */
    bool beside;        /* data and order belong to another session */
    dataset *data;
    bool other_data; /* not those of the run that goes on: a stage begins (run_position.h) */
    uint32_t *order; /* of samples in an epoch, train or test; has room for the longer one */
    const trainer_model *type;
    trainer_sizes sizes;
    struct auto_keep *automatic; /* not owned: what --activations auto chose; NULL: nothing */

    clprune_context *context;
    net_model *model;
    clprune_param *params; /* (params_count) the model's */
    size_t params_count;
    bool keeps_grads;        /* also with --early-update */
    trainer_watcher watcher; /* of the parts of a step */
    gradient_sum sum;
    gradient_windows windows;     /* with several ranks */
    state_slices slices;          /* with --zero */
    shared_statistics statistics; /* with --sync-batch-norm */
    clprune_optimizer *optimizer;
    slow_weights slow; /* with --lookahead or --ema */
    learning_rate rate;
    batch_feed feed;
    float *pixels;     /* logits of the latest tests, with a label for each pixel; or NULL */
    clprune_mat views; /* sums of logits, with --views: pass x classes */
    tally tally;

    uint64_t steps_per_epoch;
    uint64_t stage_epoch, stage_step; /* epochs and steps done before the stage */
    uint64_t step;                    /* optimisation steps done */
    uint64_t steps_here;              /* done by this process */
    uint64_t earlier_peak;            /* bytes reached before this process began */
    uint64_t built;                   /* kernels built so far */
    uint64_t programs;                /* in the context after the first step; 0: not known */
    uint64_t saved_activation_bytes;  /* live at the end of a forward pass */
} session;

/* Takes options and overrides from the checkpoint of --resume, opens the data, settles the sizes;
 * opens no device. On failure the caller still closes *s and *c. */
bool session_prepare(session *s, checkpoint *c, fault *f);

/* After a change of options->base_bits in a prepared session without a model. */
void session_set_base(session *s);

/* Another session of the same options, data and sizes, without context, model and feed. */
session session_beside(const session *s);

/* Closes what is open. Accepts {0}. */
void session_close(session *s);

/* Whether samples are those of the run in a checkpoint. */
bool session_has_data(const dataset *data, const checkpoint *c);

/* Fails if a given --train-limit is not that of the resumed run, of the same data. */
bool session_check_limit(const session *s, fault *f);

/* The tensors of the run's model, as preset `preset` with the run's settings keeps them, but in
 * fp32 what is dense; for the caller to close in any case. */
bool session_list(const session *s, size_t preset, keep_list *list, fault *f);

/* The same of the run's own choice, rules of its keep file included. */
bool session_list_kept(const session *s, keep_list *list, fault *f);

/* The name of the architecture. */
const char *session_arch_name(const session *s);

/* A context on the device of *wanted (NULL: the library's choice). Returns the status of
 * clprune_context_create. Faults: CODE_USAGE for a bad environment variable, and others. */
clprune_status session_create_context(
    const clprune_context_options *wanted, clprune_context **context, fault *f);

/* s->context, on the device and with the precision of the options. While it builds kernels, `of`,
 * the run's session, counts and shows them, says why --precision is not available, and ends the
 * program between two builds if a signal came before its first step. */
bool session_open_device(session *s, session *of, fault *f);

/* Whether the run only tests: then it has no gradients, and no state of the optimizer. */
bool session_only_tests(const session *s);

/* Whether the optimizer's step is in the backward pass. */
bool session_updates_early(const session *s);

/* Make what a run needs on the device of s->context: the feed and the tally; the model and the
 * optimizer. On failure the caller still closes *s. */
bool session_create_feed(session *s, fault *f);
bool session_create_model(session *s, fault *f);

/* The learning rate of a run of these options in epochs of s->steps_per_epoch, and the step in it
 * that comes next: epochs of earlier stages count as many steps as those of this one. */
bool session_rate(const session *s, const options *o, learning_rate *rate, fault *f);
uint64_t session_rate_step(const session *s);

/* Samples of part `index` of an epoch over `samples` that goes in parts of `batch`: the last one
 * may have fewer. */
size_t session_count_at(uint64_t batch, uint64_t index, uint64_t samples);

/* A pass of a step: the samples that go through the model at once. */
typedef struct session_pass {
    size_t first, count; /* in the step */
    size_t of;           /* samples of the step */
    size_t draw;         /* the pass's number in the step */
    size_t index;        /* likewise, among those of this rank */
    bool last;           /* of this rank */
    double part;         /* of the step's labels that count; 0: as of its samples, or none */
} session_pass;

/* Passes of a step on this rank; pass `index` of them, of a step of `samples`. Passes differ by one
 * sample at most; a small last step may have some without any. */
size_t session_passes(const session *s);
session_pass session_pass_at(const session *s, size_t samples, size_t index);

/* A step of one pass. */
session_pass session_only_pass(size_t samples);

/* Images or tokens per second. */
double session_speed(const session *s, const meter *m);

/* `count` samples of a step of `of`, which the feed has on the device. */
clprune_net_data session_data(const session *s, size_t count, size_t of);

/* Tells `watcher` at the start of each part of the coming steps: the model's parts, "loss" and
 * "update". */
void session_watch(session *s, trainer_watcher watcher);

/* Gives a new model initial values that depend on the data, if it has such. */
bool session_fit(session *s, fault *f);

/* From now on gradients are summed over the ranks, if there are others. */
bool session_connect(session *s, fault *f);

/* Enqueue a pass of an optimisation step, or the test of a batch, on the samples and labels in
 * s->feed; nothing is waited for. Passes come in order. loss and hit of a pass without samples
 * have no rows, but room for one. */
clprune_status session_enqueue_pass(
    session *s, const session_pass *pass, clprune_mat loss, clprune_mat hit);

/* Each rank's running statistics become the mean over the ranks. Training does not depend on them.
 * Waits. */
bool session_average_states(session *s, fault *f);

/* Enqueues the optimizer's step, after the passes and, with others, gradient_windows_finish. With
 * --zero it waits for the others. */
bool session_update(session *s, fault *f);

/* With --ema the model gets the means of its weights, and later its own again. */
bool session_swap_means(session *s, fault *f);

/* Gives the optimizer the factors of --rates in an epoch. */
bool session_set_rates(session *s, uint64_t epoch, fault *f);

/* View `view` of a batch of tests; the last one makes loss and hit, from the mean of the logits.
 * With s->pixels it waits, and they have the logits. */
clprune_status session_enqueue_test(
    session *s, size_t count, size_t view, clprune_mat loss, clprune_mat hit);

/* Waits for what was enqueued, and shows for how long. `step` says what that is, as "first step"; a
 * driver may still compile for it. A signal meanwhile ends the program if this process has done no
 * step before it: nothing is lost. */
bool session_wait(session *s, const char *step, fault *f);

/* The parameters, then the states, of a model of the session's type. */
size_t session_tensors(const session *s);
clprune_mat session_tensor(const session *s, const net_model *model, size_t index);

/* Elements of all parameters; of all states; of the largest of them. */
typedef struct session_elements {
    size_t params, states, most;
} session_elements;
session_elements session_count_elements(const session *s);

/* Programs that the context has built or taken from its cache. */
uint64_t session_programs(const session *s);

/* Peak bytes of all categories, earlier processes of a resumed run included. */
uint64_t session_peak_bytes(const session *s);

#endif
