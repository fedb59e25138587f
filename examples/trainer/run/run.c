/* Opening and closing a run. */
#include "trainer/run/run.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "trainer/files/adapters.h"
#include "trainer/files/atomic_file.h"
#include "trainer/files/output_files.h"
#include "trainer/files/plain_file.h"
#include "trainer/files/weights.h"
#include "trainer/memory/auto_keep.h"
#include "trainer/memory/memory_plan.h"
#include "trainer/run/run_ranks.h"

/* Initial values, or those of --import. */
static bool start_weights(training_run *r, fault *f)
{
    session *s = &r->s;
    const options *o = s->options;
    const weights_imported *imported = &r->imported;
    if (o->import_file == NULL)
        return fault_check(f, s->context, net_model_init(s->model, o->seed, NULL),
                   "initialising the model") &&
               session_fit(s, f);
    if (!weights_import(s->model, o->import_file, o->seed, &r->imported, f))
        return false;
    if (imported->prefix[0] != '\0')
        (void)fprintf(stderr, "%s: note: \"%s\" before the names in %s is left out\n",
            s->type->program, imported->prefix, o->import_file);
    if (imported->head_left)
        (void)fprintf(stderr,
            "%s: note: the head in %s is not there or has another number of classes: the model's "
            "has its initial values\n",
            s->type->program, o->import_file);
    if (imported->unread[0] != '\0')
        (void)fprintf(stderr, "%s: note: of %s these are not read: %s\n", s->type->program,
            o->import_file, imported->unread);
    return true;
}

static bool start(training_run *r, const checkpoint *c, fault *f)
{
    if (c != NULL)
        return run_restore(r, c, f);
    r->at.sums = tally_zero;
    if (!run_take_stages(&r->s, NULL, &r->stages, f))
        return false;
    run_begin_stage(&r->s, 0, &r->stages);
    return csv_log_open(&r->log, NULL, CSV_COLUMNS_WITHOUT_NORMS, 0, f) && start_weights(r, f) &&
           fault_check(
               f, r->s.context, slow_weights_begin(&r->s.slow), "initialising the slow weights");
}

static bool check_log(const training_run *r, const char *csv, fault *f)
{
    bool begins;
    return csv_log_begins(&r->log, csv, &begins, f) &&
           (begins ||
               fault_set(f, CODE_USAGE,
                   "%s: these are not the epochs of the run in %s; replace them with --overwrite, "
                   "or give another --output-dir",
                   csv, r->s.options->resume));
}

/* A checkpoint that lies in a folder without last.ckpt may be of another run than the other files
 * there. */
static bool check_folder(const training_run *r, const char *csv, fault *f)
{
    const options *o = r->s.options;
    bool there;
    if (o->resume == NULL || o->overwrite)
        return true;
    return plain_file_exists(r->checkpoint_path, &there, f) &&
           (there || (check_log(r, csv, f) && auto_keep_check(&r->s, f)));
}

static bool open_output(training_run *r, fault *f)
{
    const options *o = r->s.options;
    const bool files = r->folder.path != NULL;
    char *csv = files ? run_folder_file(&r->folder, "log.csv") : NULL;
    r->checkpoint_path = files ? run_folder_file(&r->folder, "last.ckpt") : NULL;
    r->best_path = files ? run_folder_file(&r->folder, "best.ckpt") : NULL;
    r->log.tokens = r->board.tokens = r->s.type->tokens;
    bool good = !files || (csv != NULL && r->checkpoint_path != NULL && r->best_path != NULL) ||
                fault_set(f, CODE_MEMORY, "out of memory");
    good = good && (!files || check_folder(r, csv, f)) &&
           (o->tensorboard == NULL || tensorboard_open(o->tensorboard, r->s.step, &r->board, f));
    r->log.norms = r->log.norms || o->clip_norm > 0; /* after check_folder */
    if (good && files) {
        run_folder_clear(&r->folder, o);
        good = csv_log_write(&r->log, csv, f) && auto_keep_save(&r->s, r->checkpoint_path, f);
    }
    if (good && r->folder.has_replaced)
        progress_say(&r->progress, "last.ckpt is the checkpoint of the replaced run until this run "
                                   "has written one");
    free(csv);
    return good;
}

/* The checkpoint has the precision that the device gave, so a resumed run uses the same. */
static bool open_device(session *s, fault *f)
{
    const bool unset = options_precision(s->options) == CLPRUNE_PRECISION_DEFAULT;
    if (!session_open_device(s, s, f))
        return false;
    if (unset)
        s->options->precision = clprune_context_precision(s->context) - CLPRUNE_PRECISION_FP32;
    return true;
}

/* Whether the ranks take one choice of --memory-limit. */
static bool choose_together(const options *o)
{
    return o->memory_limit != 0 && ranks_many(&o->ranks);
}

/* Rank 0 chooses, for the rank that takes most. */
static bool choose_for_all(
    session *s, const clprune_device_info *device, memory_plan *plan, fault *f)
{
    options *o = s->options;
    reduce_place *at = &o->ranks.at;
    bool chosen = at->rank > 0;
    *plan = (memory_plan){0};
    if (at->rank == 0) {
        at->rank = run_ranks_fullest(o);
        chosen = memory_plan_choose(s, device, plan, f);
        at->rank = 0;
        memory_plan_close(plan);
    }
    if (!run_ranks_share_choice(o, chosen, f))
        return false;
    session_set_base(s);
    if (!memory_plan_make(s, device, plan, f))
        return false;
    if (memory_plan_bytes(plan) <= o->memory_limit)
        return true;
    (void)fault_set(f, CODE_MEMORY,
        "--memory-limit %" PRIu64 ": what fits other ranks takes %" PRIu64
        " bytes on rank %d; give a lower limit, or --batch-size and --activations",
        o->memory_limit, memory_plan_bytes(plan), at->rank);
    memory_plan_close(plan);
    return false;
}

/* Plans the run and makes the arena for all that dies within a step. */
static bool use_plan(session *s, fault *f)
{
    const clprune_device_info device = clprune_context_device_info(s->context);
    memory_plan plan;
    const bool good = (choose_together(s->options) ? choose_for_all(s, &device, &plan, f)
                                                   : memory_plan_choose(s, &device, &plan, f)) &&
                      fault_check(f, s->context, clprune_context_use_plan(s->context, plan.plan),
                          "making the arena of activations and workspace");
    if (good && !s->options->test_only)
        s->programs = session_programs(s) + plan.programs;
    memory_plan_close(&plan);
    return good;
}

bool run_open(options *o, training_run *r, fault *f)
{
    checkpoint c = {0};
    session *s = &r->s;
    *r = (training_run){
        .s = {.options = o, .shown = &r->progress, .folder = &r->folder},
        .progress = progress_begin(o->quiet),
        .began = clock_seconds(),
        .saved_at = clock_seconds(),
        .train_loss = (double)NAN,
        .test_loss = (double)NAN,
        .top1 = (double)NAN,
        .mean_iou = (double)NAN,
    };
    if (!run_folder_open(o, &r->folder, f))
        return false;
    /* The folder is locked before the checkpoint is read, so no other run changes it. */
    bool good = output_files_check(o, r->folder.path, f) &&
                (o->summary_json == NULL || atomic_file_probe(o->summary_json, f)) &&
                (o->export_file == NULL || atomic_file_probe(o->export_file, f)) &&
                (o->adapters == NULL || adapters_probe(o->adapters, f)) &&
                (o->import_file == NULL || weights_probe(o->model, o->import_file, f)) &&
                session_prepare(s, &c, f) && sample_open(s, &r->sample, f) && open_device(s, f);
    bool agreed = false;
    if (choose_together(o)) { /* a rank that has failed would be waited for */
        good = run_ranks_all(o, good, f);
        agreed = !good;
    }
    good = good && use_plan(s, f) && session_create_feed(s, f) && session_create_model(s, f) &&
           session_connect(s, f) && start(r, o->resume == NULL ? NULL : &c, f);
    if (ranks_many(&o->ranks) && !agreed) { /* before files of an earlier run are replaced */
        good = run_ranks_all(o, good, f) && run_compare_all(r, f);
        agreed = !good;
    }
    good = good && open_output(r, f);
    checkpoint_close(&c);
    /* The plan counts the programs of a step on a whole batch; this run's first step may be
     * smaller. */
    if (r->at.step_in_epoch > 0 && r->at.step_in_epoch + 1 >= s->steps_per_epoch)
        s->programs = 0;
    if (!good) {
        run_close(r);
        r->agreed = agreed;
    }
    return good;
}

void run_close(training_run *r)
{
    progress_end(&r->progress);
    csv_log_close(&r->log);
    tensorboard_close(&r->board);
    auto_keep_close(r->s.automatic);
    session_close(&r->s);
    sample_close(&r->sample);
    free(r->checkpoint_path);
    free(r->best_path);
    free(r->stages.list);
    run_folder_close(&r->folder);
    *r = (training_run){0};
}
