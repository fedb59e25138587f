/* Opening and closing a run. */
#include "trainer/run/trainer.h"

#include <inttypes.h>
#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h> /* access, _exit */

#include "trainer/files/atomic_file.h"
#include "trainer/files/checkpoint.h"
#include "trainer/files/output_files.h"
#include "trainer/files/plain_file.h"
#include "trainer/files/weights.h"
#include "trainer/memory/auto_keep.h"
#include "trainer/memory/memory_plan.h"
#include "trainer/options/keep_file.h"
#include "trainer/run/stop.h"

bool trainer_check_limit(const options *o, fault *f)
{
    return o->run_images == 0 || o->run_images == o->train_limit ||
           fault_set(f, CODE_USAGE,
               "--train-limit %" PRIu64 ": the run in %s has %" PRIu64
               "; leave it out, or train anew",
               o->given_limit, o->resume, o->run_images);
}

static void hear_data(void *user, const char *note)
{
    trainer *t = user;
    char line[MESSAGE_SIZE];
    (void)snprintf(line, sizeof line, "%s", note);
    for (char *p = line; *p != '\0'; ++p)
        if (*p == '\n' || *p == '\r')
            *p = ' ';
    if (t->progress.dirty) {
        progress_end(&t->progress);
        (void)fflush(stdout);
    }
    (void)fprintf(stderr, "%s: note: --data: %s\n", t->type->program, line);
}

static bool open_data(trainer *t, fault *f)
{
    options *o = t->options;
    const bool generated = strcmp(o->data, "generated") == 0;
    trainer_sizes usual = {.arch = o->arch};
    (void)t->type->settle(&usual);
    /* Files know their sizes; generated images can have those of the architecture. */
    const uint64_t size = o->image_size == 0 && generated ? usual.image : o->image_size;
    const uint64_t classes = o->classes == 0 && generated ? usual.classes : o->classes;
    const dataset_options wanted = {
        .image_size = (uint32_t)size,
        .classes = (uint32_t)classes,
        .train_limit = (uint32_t)o->train_limit,
        .test_limit = (uint32_t)o->test_limit,
        .seed = 1, /* runs of different --seed see the same images */
        .usual_image_size = (uint32_t)usual.image,
        .skip_broken = o->skip_broken,
        .hear = hear_data,
        .hear_user = t,
    };
    char message[MESSAGE_SIZE];
    if (!feed_check(
            f, dataset_open(o->data, &wanted, &t->data, message, sizeof message), message)) {
        if (o->resume != NULL && !options_given(o, "data") && access(o->data, F_OK) != 0)
            options_append(f->text, sizeof f->text,
                "; the run in %s has its data there, --data DIR names another place", o->resume);
        return false;
    }
    o->image_size = dataset_image_size(t->data);
    o->classes = dataset_classes(t->data);
    o->train_limit = dataset_count(t->data, DATASET_TRAIN);
    o->test_limit = dataset_count(t->data, DATASET_TEST);
    if (o->plan && !trainer_check_limit(o, f)) /* a run looks at its data first */
        return false;
    const size_t most = (size_t)(o->train_limit > o->test_limit ? o->train_limit : o->test_limit);
    t->order = malloc(most * sizeof *t->order);
    return t->order != NULL || fault_set(f, CODE_MEMORY, "no memory for %zu indices", most);
}

static bool choose_sizes(trainer *t, fault *f)
{
    options *o = t->options;
    char extras[256] = "";
    t->sizes = (trainer_sizes){
        .arch = o->arch, .image = (size_t)o->image_size, .classes = (size_t)o->classes};
    memcpy(t->sizes.extra, o->extra, sizeof t->sizes.extra);
    const char *wrong = t->type->settle(&t->sizes);
    memcpy(o->extra, t->sizes.extra, sizeof t->sizes.extra);
    if (wrong == NULL)
        return true;
    for (size_t i = 0; i < t->type->extras_count; ++i) {
        const size_t used = strlen(extras);
        (void)snprintf(extras + used, sizeof extras - used, ", --%s %" PRIu64,
            t->type->extras[i].name, t->sizes.extra[i]);
    }
    return fault_set(f, CODE_USAGE, "--image-size %zu%s: %s", t->sizes.image, extras, wrong);
}

const char *trainer_arch_name(const trainer *t)
{
    return t->type->archs[t->sizes.arch];
}

clprune_status trainer_create_context(
    const clprune_context_options *wanted, clprune_context **context, fault *f)
{
    const clprune_status status = clprune_context_create(NULL, wanted, context);
    if (status == CLPRUNE_INVALID_ARGUMENT) /* a bad environment variable */
        (void)fault_set(f, CODE_USAGE, "opening a device: %s", fault_detail(NULL));
    else
        (void)fault_check(f, NULL, status,
            status == CLPRUNE_NO_DEVICE && wanted->device != NULL ? "--device"
                                                                  : "opening a device");
    return status;
}

/* The run that shows its progress and has the folder. */
static trainer *run_of(trainer *t)
{
    return t->run != NULL ? t->run : t;
}

/* Ends the program in or before its first step, between two builds of kernels. Nothing is lost: a
 * resumed checkpoint is unchanged. */
static void quit_untrained(trainer *t, const char *when, const char *step)
{
    progress_say(&run_of(t)->progress, "stopped by a signal %s%s; nothing was trained", when, step);
    run_folder_undo(&run_of(t)->folder);
    (void)fflush(stdout);
    _exit(128 + stop_signal());
}

/* Programs that a context has built or taken from its cache. */
static uint64_t programs_in(const clprune_context *context)
{
    const clprune_cache_stats stats = clprune_context_cache_stats(context);
    return stats.builds + stats.disk_hits;
}

void trainer_hear(void *user, clprune_log_level level, const char *message)
{
    trainer *t = user;
    progress *shown = &run_of(t)->progress;
    const clprune_precision precision = options_precision(t->options);
    const bool rounds = precision == CLPRUNE_PRECISION_TF32 || precision == CLPRUNE_PRECISION_BF16;
    if (level == CLPRUNE_LOG_WARNING && rounds) /* why --precision is not available */
        progress_say(shown, "%s", message);
    if (level != CLPRUNE_LOG_INFO || strncmp(message, "built ", 6) != 0)
        return;
    if (stop_signal() != 0 && t->steps_here == 0)
        quit_untrained(t, "while kernels were built", "");
    ++t->built;
    progress_built(shown, t->programs > 0 ? programs_in(t->context) : t->built, t->programs);
}

bool trainer_wait(trainer *t, const char *step, fault *f)
{
    const double start = clock_seconds();
    const cl_command_queue queue = clprune_context_queue(t->context);
    cl_event end = NULL;
    cl_int state = CL_QUEUED, code = clEnqueueMarkerWithWaitList(queue, 0, NULL, &end);
    if (code == CL_SUCCESS)
        code = clFlush(queue);
    while (code == CL_SUCCESS && state > CL_COMPLETE) {
        code = clGetEventInfo(end, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof state, &state, NULL);
        if (code != CL_SUCCESS || state <= CL_COMPLETE)
            break;
        if (stop_signal() != 0 && t->steps_here <= 1)
            quit_untrained(t, "in the ", step);
        progress_waiting(&run_of(t)->progress, step, clock_seconds() - start);
        (void)poll(NULL, 0, 1);
    }
    if (end != NULL)
        (void)clReleaseEvent(end);
    return fault_check_cl(f, state < CL_COMPLETE ? state : code, "waiting for a step");
}

static bool open_device(trainer *t, fault *f)
{
    const clprune_precision precision = options_precision(t->options);
    const clprune_context_options wanted = {
        .device = t->options->device, .precision = precision, .log = trainer_hear, .log_user = t};
    if (trainer_create_context(&wanted, &t->context, f) != CLPRUNE_SUCCESS)
        return false;
    if (precision == CLPRUNE_PRECISION_DEFAULT) /* saved, so a resumed run uses the same */
        t->options->precision = clprune_context_precision(t->context) - CLPRUNE_PRECISION_FP32;
    return true;
}

static bool create_model(trainer *t, fault *f)
{
    const options *o = t->options;
    const keep_table *table = t->type->keep;
    const size_t blocks = t->sizes.blocks;
    const char *source = o->keep_file != NULL ? o->keep_file
                         : o->resume != NULL  ? o->resume
                                              : "activations auto";
    const keep_how how = options_how(o);
    keep_rule *rules = t->rules = malloc(keep_rules_count(table, blocks) * sizeof *rules);
    bool good = rules != NULL || fault_set(f, CODE_MEMORY, "out of memory");
    if (good)
        keep_preset_rules(table, o->activations, &how, blocks, rules);
    if (good && o->keep_text != NULL)
        good = keep_file_apply(o->keep_text, source, o, &t->sizes, rules, f);
    if (good)
        keep_set_grids(table, &t->sizes, rules);
    good =
        good && fault_check(f, t->context,
                    t->type->create(t->context, &t->sizes, rules, (size_t)o->batch_size, &t->model),
                    "creating the model");
    if (good)
        t->params = t->type->params(t->model, &t->params_count);
    return good;
}

static bool create_optimizer(trainer *t, fault *f)
{
    static const clprune_optimizer_kind kinds[] = {
        [OPTIONS_SGD] = CLPRUNE_OPTIMIZER_SGD,
        [OPTIONS_ADAMW] = CLPRUNE_OPTIMIZER_ADAMW,
        [OPTIONS_LAMB] = CLPRUNE_OPTIMIZER_LAMB,
    };
    const options *o = t->options;
    const clprune_optimizer_desc desc = {
        .kind = kinds[o->optimizer],
        .momentum = 0.9f,
        .beta1 = 0.9f,
        .beta2 = 0.999f,
        .eps = o->optimizer == OPTIONS_LAMB ? 1e-6f : 1e-8f,
        .weight_decay = (float)o->weight_decay,
    };
    return fault_check(f, t->context,
        clprune_optimizer_create(t->context, &desc, t->params_count, t->params, &t->optimizer),
        "creating the optimizer");
}

static bool plan_schedule(trainer *t, fault *f)
{
    const options *o = t->options;
    const uint64_t total_images = o->train_limit;
    t->steps_per_epoch = (total_images + o->batch_size - 1) / o->batch_size;
    const uint64_t total = t->steps_per_epoch * o->epochs;
    const double warmup = floor(o->warmup_epochs * (double)t->steps_per_epoch + 0.5);
    t->rate.schedule = (clprune_schedule){
        .base = o->lr, .warmup = warmup < (double)total ? (uint64_t)warmup : total, .total = total};
    return o->schedule == OPTIONS_COSINE || learning_rate_milestones(o->milestones, &t->rate, f);
}

static bool import_weights(trainer *t, fault *f)
{
    const char *path = t->options->import_file;
    if (path == NULL)
        return true;
    if (!weights_import(t->type, t->model, t->context, path, &t->head_left, f))
        return false;
    if (t->head_left)
        (void)fprintf(stderr,
            "%s: note: the head in %s has another number of classes: the model's has its initial "
            "values\n",
            t->type->program, path);
    return true;
}

static bool start(trainer *t, const checkpoint *c, fault *f)
{
    if (c != NULL)
        return trainer_restore(t, c, f);
    t->at.sums = tally_zero;
    return csv_log_open(&t->log, NULL, 0, f) &&
           fault_check(f, t->context, t->type->init(t->model, t->options->seed),
               "initialising the model") &&
           import_weights(t, f);
}

static bool check_log(const trainer *t, const char *csv, fault *f)
{
    bool begins;
    return csv_log_begins(&t->log, csv, &begins, f) &&
           (begins ||
               fault_set(f, CODE_USAGE,
                   "%s: these are not the epochs of the run in %s; replace them with --overwrite, "
                   "or give another --output-dir",
                   csv, t->options->resume));
}

/* A checkpoint that lies in a folder without last.ckpt may be of another run than the other files
 * there. */
static bool check_folder(const trainer *t, const char *csv, fault *f)
{
    const options *o = t->options;
    bool there;
    if (o->resume == NULL || o->overwrite)
        return true;
    return plain_file_exists(t->checkpoint_path, &there, f) &&
           (there || (check_log(t, csv, f) && auto_keep_check(t, f)));
}

static bool open_output(trainer *t, fault *f)
{
    const options *o = t->options;
    const bool files = t->folder.path != NULL;
    char *csv = files ? run_folder_file(&t->folder, "log.csv") : NULL;
    t->checkpoint_path = files ? run_folder_file(&t->folder, "last.ckpt") : NULL;
    bool good = !files || (csv != NULL && t->checkpoint_path != NULL) ||
                fault_set(f, CODE_MEMORY, "out of memory");
    good = good && (!files || check_folder(t, csv, f)) &&
           (o->tensorboard == NULL || tensorboard_open(o->tensorboard, &t->board, f));
    if (good && files) {
        run_folder_clear(&t->folder, o);
        good = csv_log_write(&t->log, csv, f) && auto_keep_save(t, f);
    }
    if (good && t->folder.has_replaced)
        progress_say(&t->progress, "last.ckpt is the checkpoint of the replaced run until this run "
                                   "has written one");
    free(csv);
    return good;
}

/* Comes first: data and model follow from the checkpoint's options. */
static bool take_options(options *o, checkpoint *c, fault *f)
{
    if (o->resume == NULL)
        return true;
    if (!checkpoint_open(o->resume, c, f))
        return false;
    const checkpoint_record *record = checkpoint_find(c, "options");
    if (record == NULL || record->type != CHECKPOINT_BYTES)
        return fault_set(f, CODE_DATA, "%s: a checkpoint without options", o->resume);
    return options_restore(o, record->data, (size_t)(record->rows * record->cols), f);
}

/* A resumed run has the overrides of its checkpoint; a given --keep-file must be the same. */
static bool take_keep_file(options *o, const checkpoint *c, fault *f)
{
    const checkpoint_record *record = o->resume != NULL ? checkpoint_find(c, "keep") : NULL;
    const char *kept = record != NULL ? record->data : "";
    if (o->keep_file != NULL && !keep_file_read(o->keep_file, &o->keep_text, f))
        return false;
    if (o->resume == NULL)
        return true;
    if (record != NULL && (record->type != CHECKPOINT_BYTES || record->rows * record->cols == 0 ||
                              kept[record->rows * record->cols - 1] != '\0'))
        return fault_set(f, CODE_DATA, "%s: its overrides of activations are no text", o->resume);
    if (o->keep_file != NULL && !keep_file_same(o->keep_text, kept))
        return fault_set(f, CODE_USAGE,
            "--keep-file %s: the run in %s has other overrides; leave it out, or train anew",
            o->keep_file, o->resume);
    if (record != NULL) {
        free(o->keep_text);
        o->keep_text = strdup(kept);
        if (o->keep_text == NULL)
            return fault_set(f, CODE_MEMORY, "out of memory");
    }
    return true;
}

bool trainer_create_feed(trainer *t, fault *f)
{
    const size_t batch = (size_t)t->options->batch_size;
    return feed_open(t->context, t->data, batch, &t->feed, f) &&
           tally_open(t->context, batch, &t->tally, f);
}

bool trainer_create_model(trainer *t, fault *f)
{
    return plan_schedule(t, f) && create_model(t, f) && create_optimizer(t, f);
}

bool trainer_prepare(options *o, trainer *t, checkpoint *c, fault *f)
{
    *t = (trainer){
        .options = o,
        .type = o->model,
        .streams = TRAINER_STREAMS,
        .progress = progress_begin(o->quiet),
        .began = clock_seconds(),
        .train_loss = (double)NAN,
        .test_loss = (double)NAN,
        .top1 = (double)NAN,
    };
    return take_options(o, c, f) && output_files_check_data(o, f) && take_keep_file(o, c, f) &&
           open_data(t, f) && choose_sizes(t, f);
}

/* Plans the run and makes the arena for all that dies within a step. */
static bool use_plan(trainer *t, fault *f)
{
    const clprune_device_info device = clprune_context_device_info(t->context);
    memory_plan plan;
    const bool good = memory_plan_choose(t, &device, &plan, f) &&
                      fault_check(f, t->context, clprune_context_use_plan(t->context, plan.plan),
                          "making the arena of activations and workspace");
    if (good && !t->options->test_only)
        t->programs = programs_in(t->context) + plan.programs;
    memory_plan_close(&plan);
    return good;
}

bool trainer_open(options *o, trainer *t, fault *f)
{
    checkpoint c = {0};
    run_folder folder;
    *t = (trainer){0};
    if (!run_folder_open(o, &folder, f))
        return false;
    /* The folder is locked before the checkpoint is read, so no other run changes it. */
    bool good = output_files_check(o, folder.path, f) &&
                (o->summary_json == NULL || atomic_file_probe(o->summary_json, f)) &&
                (o->export_file == NULL || atomic_file_probe(o->export_file, f)) &&
                trainer_prepare(o, t, &c, f);
    t->folder = folder;
    good = good && open_device(t, f) && use_plan(t, f) && trainer_create_feed(t, f) &&
           trainer_create_model(t, f) && start(t, o->resume == NULL ? NULL : &c, f) &&
           open_output(t, f);
    checkpoint_close(&c);
    /* The plan counts the programs of a step on a whole batch; this run's first step may be
     * smaller. */
    if (t->at.step_in_epoch > 0 && t->at.step_in_epoch + 1 >= t->steps_per_epoch)
        t->programs = 0;
    if (!good)
        trainer_close(t);
    return good;
}

void trainer_close(trainer *t)
{
    progress_end(&t->progress);
    csv_log_close(&t->log);
    tensorboard_close(&t->board);
    tally_close(&t->tally);
    feed_close(&t->feed);
    clprune_optimizer_destroy(t->optimizer);
    if (t->type != NULL)
        t->type->destroy(t->model);
    clprune_context_destroy(t->context);
    dataset_close(t->data);
    free(t->order);
    free(t->rules);
    auto_keep_close(t->automatic);
    free(t->checkpoint_path);
    run_folder_close(&t->folder);
    *t = (trainer){0};
}

uint64_t trainer_peak_bytes(const trainer *t)
{
    const uint64_t here = clprune_memory_query(t->context, CLPRUNE_MEMORY_TOTAL).peak;
    return here > t->at.peak_bytes ? here : t->at.peak_bytes;
}

const meter *trainer_meter(const trainer *t)
{
    return t->all.steps > 0 ? &t->all : &t->first;
}
