/*
 * Saves a run to a checkpoint and restores it. Records that a program does not know are refused, so
 * new ones may be added:
 *
 *     options               the settings of the run, "name=value" strings
 *     keep                  the text of --keep-file; only if there is one
 *     dataset               name of the data set
 *     checksum              of the data set, where its name does not identify it (dataset.h)
 *     sizes                 a checksum of the sizes of its files, if it is a folder of images
 *     device                what decides on the bits of results besides the settings, as a text:
 *                           kernels, device, driver, compute units, a hash of the tuning parameters
 *                           and, for reading, their source
 *     position              epoch, step in the epoch, step, samples and hits summed in the epoch,
 *                           steps of the optimizer, peak bytes, saved activation bytes, steps and
 *                           samples that were timed in the epoch, broken images that were
 *                           replaced
 *     stages                for each stage (run_position.h) epochs and steps done before it, and
 *                           the samples of an epoch; only if there are several
 *     sums                  loss summed in the epoch, seconds, seconds that were timed in the
 *                           epoch, CPU seconds
 *     norms                 norms of gradients summed in the epoch, and their number; only if there
 *                           are some
 *     log                   the rows of log.csv so far
 *     param/NAME            each parameter
 *     state0/NAME, state1/NAME
 *                           the optimizer's moments in fp32
 *     scales0/NAME, codes0/NAME, scales1/NAME, codes1/NAME
 *                           or in 8 bits (optimizer.h)
 *     model/NAME            each state of the model that is not a parameter
 *     slow/NAME             each slow weight (slow_weights.h)
 *     count/NAME            each count of the model, unless it has none
 */
#include "trainer/run/run.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "trainer/base/stop.h"
#include "trainer/data/fnv.h"
#include "trainer/files/checkpoint.h"
#include "trainer/run/run_position.h"

enum { RECORD_NAME = 96 };

/* The record `device` without the tuning's source, and with it (PATH_MAX). */
enum { DEVICE_TEXT = RUN_DEVICE_TEXT, DEVICE_RECORD = DEVICE_TEXT + 4096 };

/* A tensor of a run, and its record; a tensor without rows and buffer has none. */
typedef struct run_tensor {
    char name[RECORD_NAME];
    clprune_mat mat;
    checkpoint_type type; /* BYTES: four in an element */
    bool sliced;          /* a moment of which each rank has slices: mat has its shape alone */
    size_t param, slot;   /* of a moment */
} run_tensor;

/* The kinds of tensors of each parameter: its value, and of each slot of the optimizer the state in
 * fp32, scales and codes. */
static size_t kinds_count(const session *s)
{
    return 1 + 3 * clprune_optimizer_slots(s->optimizer);
}

/* Tensors, some without a record: those of parameters by kind, then states. */
static size_t tensor_count(const session *s)
{
    return s->params_count * kinds_count(s) + s->model->states_count + s->slow.count;
}

static run_tensor learned_at(const session *s, size_t kind, size_t i)
{
    static const char *const kinds[] = {"state", "scales", "codes"};
    const clprune_param *param = &s->params[i];
    run_tensor t = {.mat = param->value, .type = CHECKPOINT_F32};
    if (kind == 0) {
        (void)snprintf(t.name, sizeof t.name, "param/%s", param->name);
        return t;
    }
    const size_t slot = (kind - 1) / 3, part = (kind - 1) % 3;
    clprune_mat codes, scales;
    t.param = i;
    t.slot = slot;
    t.sliced = s->slices.context != NULL && part == 0;
    if (s->slices.context != NULL && part > 0)
        t.mat = CLPRUNE_NO_MAT;
    (void)snprintf(t.name, sizeof t.name, "%s%zu/%s", kinds[part], slot, param->name);
    t.type = part == 2 ? CHECKPOINT_BYTES : CHECKPOINT_F32;
    if (s->slices.context != NULL)
        return t;
    clprune_optimizer_codes(s->optimizer, i, slot, &codes, &scales);
    t.mat = part == 0 ? clprune_optimizer_state(s->optimizer, i, slot) : part == 1 ? scales : codes;
    return t;
}

static run_tensor tensor_at(const session *s, size_t index)
{
    const size_t learned = s->params_count * kinds_count(s);
    const size_t states = s->model->states_count;
    if (index < learned)
        return learned_at(s, index / s->params_count, index % s->params_count);
    if (index >= learned + states) {
        const slow_tensor *slow = &s->slow.tensors[index - learned - states];
        run_tensor t = {.mat = slow->slow, .type = CHECKPOINT_F32};
        (void)snprintf(t.name, sizeof t.name, "slow/%s", slow->name);
        return t;
    }
    const trainer_state *state = &s->model->states[index - learned];
    run_tensor t = {.mat = state->mat, .type = state->words ? CHECKPOINT_BYTES : CHECKPOINT_F32};
    (void)snprintf(t.name, sizeof t.name, "model/%s", state->name);
    return t;
}

static bool has_record(const run_tensor *t)
{
    return t->mat.buffer != NULL;
}

static uint64_t record_cols(const run_tensor *t)
{
    return t->mat.cols * (t->type == CHECKPOINT_BYTES ? sizeof(float) : 1);
}

static size_t largest_tensor(const session *s)
{
    size_t most = 1;
    for (size_t i = 0; i < tensor_count(s); ++i) {
        const clprune_mat mat = tensor_at(s, i).mat;
        if (mat.rows * mat.cols > most)
            most = mat.rows * mat.cols;
    }
    return most;
}

static bool all_finite(const run_tensor *t, const float *values)
{
    for (size_t i = 0; t->type == CHECKPOINT_F32 && i < t->mat.rows * t->mat.cols; ++i)
        if (!isfinite(values[i]))
            return false;
    return true;
}

static bool read_tensor(const session *s, const run_tensor *t, float *values, fault *f)
{
    return t->sliced ? state_slices_read(&s->slices, s->optimizer, t->param, t->slot, values, f)
                     : fault_check(f, s->context, clprune_mat_read(s->context, t->mat, values),
                           "reading parameters back");
}

static bool write_tensor(const session *s, const run_tensor *t, const float *values, fault *f)
{
    return t->sliced ? state_slices_write(&s->slices, s->optimizer, t->param, t->slot, values, f)
                     : fault_check(f, s->context, clprune_mat_write(s->context, t->mat, values),
                           "writing parameters");
}

/* writer: NULL on ranks that only give their slices. */
static bool put_tensors(const session *s, checkpoint_writer *writer, fault *f)
{
    float *values = malloc(largest_tensor(s) * sizeof *values);
    bool good = values != NULL || fault_set(f, CODE_MEMORY, "out of memory");
    for (size_t i = 0; good && i < tensor_count(s); ++i) {
        const run_tensor t = tensor_at(s, i);
        if (!has_record(&t) || (writer == NULL && !t.sliced))
            continue;
        good = read_tensor(s, &t, values, f);
        if (good && !all_finite(&t, values))
            good = fault_set(f, CODE_DIVERGED,
                "diverged: %s is not finite any more; no checkpoint is written", t.name);
        if (good && writer != NULL)
            checkpoint_put(writer, t.name, t.type, t.mat.rows, record_cols(&t), values);
    }
    free(values);
    return good;
}

static void put_counts(const session *s, checkpoint_writer *writer)
{
    const trainer_count *counts = s->model->counts;
    for (size_t i = 0; i < s->model->counts_count; ++i) {
        const uint64_t value = (uint64_t)*counts[i].value;
        char name[RECORD_NAME];
        (void)snprintf(name, sizeof name, "count/%s", counts[i].name);
        if (*counts[i].value != TRAINER_NO_COUNT)
            checkpoint_put(writer, name, CHECKPOINT_U64, 1, 1, &value);
    }
}

/* A hash of the tuning parameters: a file of the same name may have been edited. */
static bool tuning_hash(const session *s, uint64_t *hash, fault *f)
{
    size_t count = 0;
    if (!fault_check(f, NULL, clprune_context_tuning(s->context, 0, NULL, &count), "tuning"))
        return false;
    clprune_tuning_parameter *all = calloc(count + 1, sizeof *all);
    bool good = all != NULL || fault_set(f, CODE_MEMORY, "out of memory");
    good = good &&
           fault_check(f, NULL, clprune_context_tuning(s->context, count, all, &count), "tuning");
    *hash = FNV_START;
    for (size_t i = 0; good && i < count; ++i) {
        char text[128];
        const int length = snprintf(text, sizeof text, "%s.%s = %" PRIu32 "\n", all[i].section,
            all[i].key, all[i].is_set ? all[i].value : 0);
        *hash = fnv1a(*hash, text, (size_t)length);
    }
    free(all);
    return good;
}

/* The tiled kernels and those of tensor cores split sums by the number of compute units; the other
 * vector kernels do not. */
bool run_device_text(const session *s, char text[RUN_DEVICE_TEXT], fault *f)
{
    const clprune_device_info device = clprune_context_device_info(s->context);
    const bool tiled = clprune_context_kernels(s->context) == CLPRUNE_KERNELS_TILED;
    const bool rounds = clprune_context_precision(s->context) != CLPRUNE_PRECISION_FP32;
    uint64_t hash;
    if (!tuning_hash(s, &hash, f))
        return false;
    (void)snprintf(text, DEVICE_TEXT, "%s kernels on %s, driver %s", tiled ? "tiled" : "vector",
        device.device, device.driver);
    if (tiled || rounds)
        options_append(text, DEVICE_TEXT, ", compute units: %" PRIu32, device.compute_units);
    options_append(text, DEVICE_TEXT, ", tuning %016" PRIx64, hash);
    return true;
}

static bool put_log(const csv_log *log, checkpoint_writer *writer, fault *f)
{
    const size_t columns = log->norms ? CSV_COLUMNS : CSV_COLUMNS_WITHOUT_NORMS;
    double *rows = calloc(log->count * columns + 1, sizeof *rows);
    if (rows == NULL)
        return fault_set(f, CODE_MEMORY, "out of memory");
    for (size_t i = 0; i < log->count; ++i)
        memcpy(rows + i * columns, &log->rows[i], columns * sizeof *rows);
    checkpoint_put(writer, "log", CHECKPOINT_F64, log->count, columns, rows);
    free(rows);
    return true;
}

static bool put_run(const training_run *r, checkpoint_writer *writer, fault *f)
{
    const session *s = &r->s;
    const run_position *at = &r->at;
    const meter *m = &r->epoch;
    const uint64_t position[POSITION_NUMBERS] = {at->epoch, at->step_in_epoch, s->step,
        at->sums.samples, at->sums.hits, clprune_optimizer_steps(s->optimizer),
        session_peak_bytes(s), s->saved_activation_bytes, m->steps, m->samples, at->skipped};
    const double sums[SUM_NUMBERS] = {at->sums.loss, at->seconds + clock_seconds() - r->began,
        m->seconds, at->cpu_seconds + cpu_seconds()};
    const char *name = dataset_name(s->data);
    const uint64_t checksum = dataset_checksum(s->data), sizes = dataset_sizes(s->data);
    char *text, device[DEVICE_RECORD];
    size_t size;
    if (!run_device_text(s, device, f) || !options_save(s->options, false, &text, &size, f))
        return false;
    options_append(device, sizeof device, " (%s)", clprune_context_tuning_source(s->context));
    checkpoint_put(writer, "options", CHECKPOINT_BYTES, 1, size, text);
    if (s->options->keep_text != NULL)
        checkpoint_put(writer, "keep", CHECKPOINT_BYTES, 1, strlen(s->options->keep_text) + 1,
            s->options->keep_text);
    checkpoint_put(writer, "dataset", CHECKPOINT_BYTES, 1, strlen(name) + 1, name);
    if (checksum != 0)
        checkpoint_put(writer, "checksum", CHECKPOINT_U64, 1, 1, &checksum);
    if (sizes != 0)
        checkpoint_put(writer, "sizes", CHECKPOINT_U64, 1, 1, &sizes);
    checkpoint_put(writer, "device", CHECKPOINT_BYTES, 1, strlen(device) + 1, device);
    checkpoint_put(writer, "position", CHECKPOINT_U64, 1, POSITION_NUMBERS, position);
    if (r->stages.count > 1)
        checkpoint_put(
            writer, "stages", CHECKPOINT_U64, r->stages.count, STAGE_NUMBERS, r->stages.list);
    checkpoint_put(writer, "sums", CHECKPOINT_F64, 1, SUM_NUMBERS, sums);
    const double norms[NORM_NUMBERS] = {at->sums.norm, (double)at->sums.norms};
    if (at->sums.norms > 0)
        checkpoint_put(writer, "norms", CHECKPOINT_F64, 1, NORM_NUMBERS, norms);
    free(text);
    return put_log(&r->log, writer, f);
}

/* path: NULL on ranks that only give their slices. */
static bool save(const training_run *r, const char *path, fault *f)
{
    checkpoint_writer writer;
    if (path == NULL)
        return r->s.slices.context == NULL || put_tensors(&r->s, NULL, f);
    if (!checkpoint_create(path, &writer, f))
        return false;
    if (!put_run(r, &writer, f) || !put_tensors(&r->s, &writer, f)) {
        checkpoint_abandon(&writer);
        return false;
    }
    put_counts(&r->s, &writer);
    return checkpoint_commit(&writer, f);
}

bool run_save_best(training_run *r, fault *f)
{
    return save(r, r->best_path, f);
}

bool run_save(training_run *r, fault *f)
{
    stop_save_begins();
    if (!save(r, r->checkpoint_path, f))
        return false;
    if (r->checkpoint_path == NULL)
        return true;
    r->folder.has_replaced = false;
    r->saved_at = clock_seconds();
    return r->saved = true;
}

/* Reads a number; without a record it stays. */
static bool take_number(const checkpoint *c, const char *name, uint64_t *value, fault *f)
{
    if (checkpoint_find(c, name) == NULL)
        return true;
    const uint64_t *kept = checkpoint_get(c, name, CHECKPOINT_U64, 1, 1, f);
    if (kept != NULL)
        *value = *kept;
    return kept != NULL;
}

/* Says on stderr if files were replaced, also by others of the same names; that is no fault: a
 * broken file may have been mended. */
static bool check_sizes(const session *s, const checkpoint *c, fault *f)
{
    uint64_t sizes = dataset_sizes(s->data);
    if (!take_number(c, "sizes", &sizes, f))
        return false;
    if (sizes != dataset_sizes(s->data))
        (void)fprintf(stderr,
            "%s: note: --data %s: training files have other sizes than those of the run in %s\n",
            s->type->program, s->options->data, c->path);
    return true;
}

/* The data set must be the run's, unless --data is given. */
static bool check_data(const session *s, const checkpoint *c, fault *f)
{
    const checkpoint_record *record = checkpoint_find(c, "dataset");
    if (record == NULL || record->type != CHECKPOINT_BYTES)
        return fault_set(f, CODE_DATA, "%s: a checkpoint without the name of its data", c->path);
    uint64_t checksum;
    if (!take_number(c, "checksum", &checksum, f))
        return false;
    if (s->other_data)
        return true;
    if (options_given(s->options, "train-limit") && !session_check_limit(s, f))
        return false;
    if (!session_has_data(s->data, c))
        return fault_set(f, CODE_USAGE,
            "--data %s: these %s are not those of the run in %s; give --data to go on with others",
            s->options->data, trainer_words_of(s->type->tokens).samples, c->path);
    return check_sizes(s, c, f);
}

/* Checks the tensors, or also gives them to the model. */
static bool take_tensors(const session *s, const checkpoint *c, bool give, fault *f)
{
    for (size_t i = 0; i < tensor_count(s); ++i) {
        const run_tensor t = tensor_at(s, i);
        if (!has_record(&t))
            continue;
        const float *values = checkpoint_get(c, t.name, t.type, t.mat.rows, record_cols(&t), f);
        if (values == NULL)
            return false;
        if (!all_finite(&t, values))
            return fault_set(
                f, CODE_DATA, "%s: '%s' has a value that is not finite", c->path, t.name);
        if (give && !write_tensor(s, &t, values, f))
            return false;
    }
    return true;
}

/* Likewise the counts: none where the checkpoint has none. */
static bool take_counts(const session *s, const checkpoint *c, bool give, fault *f)
{
    const trainer_count *counts = s->model->counts;
    for (size_t i = 0; i < s->model->counts_count; ++i) {
        uint64_t value = 0;
        char name[RECORD_NAME];
        (void)snprintf(name, sizeof name, "count/%s", counts[i].name);
        if (!take_number(c, name, &value, f))
            return false;
        if (value > INT64_MAX)
            return fault_set(f, CODE_DATA, "%s: '%s' is %" PRIu64 ", not 0 to %" PRId64, c->path,
                name, value, INT64_MAX);
        if (give)
            *counts[i].value = checkpoint_find(c, name) != NULL ? (int64_t)value : TRAINER_NO_COUNT;
    }
    return true;
}

/* Marks the record, if there is one: the first of this name. */
static void mark(const checkpoint *c, bool *known, const char *name)
{
    const checkpoint_record *record = checkpoint_find(c, name);
    if (record != NULL)
        known[record - c->records] = true;
}

/* Refuses unknown records, which may say something of the run that would be ignored, and second
 * ones of a name. */
static bool check_records(const session *s, const checkpoint *c, fault *f)
{
    static const char *const names[] = {"options", "keep", "dataset", "checksum", "sizes", "device",
        "position", "stages", "sums", "norms", "log"};
    const trainer_count *counts = s->model->counts;
    size_t first = 0;
    bool *known = calloc(c->count + 1, sizeof *known);
    char name[RECORD_NAME];
    if (known == NULL)
        return fault_set(f, CODE_MEMORY, "%s: out of memory", c->path);
    for (size_t i = 0; i < sizeof names / sizeof *names; ++i)
        mark(c, known, names[i]);
    for (size_t i = 0; i < tensor_count(s); ++i) {
        const run_tensor t = tensor_at(s, i);
        if (has_record(&t) || session_only_tests(s)) /* then moments are not read */
            mark(c, known, t.name);
    }
    for (size_t i = 0; i < s->model->counts_count; ++i) {
        (void)snprintf(name, sizeof name, "count/%s", counts[i].name);
        mark(c, known, name);
    }
    while (first < c->count && known[first])
        ++first;
    free(known);
    if (first == c->count)
        return true;
    const checkpoint_record *record = &c->records[first];
    if (checkpoint_find(c, record->name) != record)
        return fault_set(f, CODE_DATA, "%s: the record '%s' is there twice", c->path, record->name);
    return fault_set(f, CODE_DATA, "%s: the record '%s' is unknown; a newer %s may have written it",
        c->path, record->name, s->type->program);
}

/* Says on stderr if a run goes on where results have other bits; that is no fault. */
static bool check_device(const session *s, const checkpoint *c, fault *f)
{
    const checkpoint_record *record = checkpoint_find(c, "device");
    char now[DEVICE_TEXT];
    if (s->options->test_only) /* nothing goes on */
        return true;
    const char *before = record != NULL ? record->data : "";
    const uint64_t size = record != NULL ? record->rows * record->cols : 0;
    if (size == 0 || record->type != CHECKPOINT_BYTES || before[size - 1] != '\0')
        return fault_set(f, CODE_DATA, "%s: its device is no text", c->path);
    if (!run_device_text(s, now, f))
        return false;
    const size_t length = strlen(now);
    if (strncmp(before, now, length) != 0 || before[length] != ' ')
        (void)fprintf(stderr,
            "%s: note: the run in %s had %s; it goes on with %s (%s), so its bits may differ from "
            "an uninterrupted run's\n",
            s->type->program, c->path, before, now, clprune_context_tuning_source(s->context));
    return true;
}

bool run_restore(training_run *r, const checkpoint *c, fault *f)
{
    session *s = &r->s;
    uint64_t position[POSITION_NUMBERS];
    double sums[SUM_NUMBERS], norms[NORM_NUMBERS];
    const void *numbers = checkpoint_get(c, "position", CHECKPOINT_U64, 1, POSITION_NUMBERS, f),
               *reals = numbers == NULL
                            ? NULL
                            : checkpoint_get(c, "sums", CHECKPOINT_F64, 1, SUM_NUMBERS, f);
    if (reals == NULL)
        return false;
    memcpy(position, numbers, sizeof position);
    memcpy(sums, reals, sizeof sums);
    if (!check_records(s, c, f) || !check_data(s, c, f) || !session_check_limit(s, f) ||
        !run_take_stages(s, c, &r->stages, f) ||
        !run_check_position(s, c, &r->stages, position, sums, f) ||
        !run_take_norms(c, position[1], norms, f) || !take_tensors(s, c, false, f) ||
        !take_counts(s, c, false, f) || !check_device(s, c, f))
        return false;
    const checkpoint_record *log = checkpoint_find(c, "log");
    s->step = position[2];
    if (s->other_data) { /* the epoch begins anew */
        run_begin_stage(s, position[0], &r->stages);
        position[1] = position[3] = position[4] = position[8] = position[9] = 0;
        sums[0] = sums[2] = norms[0] = norms[1] = 0;
    }
    s->stage_epoch = r->stages.list[r->stages.count - 1].epoch;
    s->stage_step = r->stages.list[r->stages.count - 1].step;

    r->at = (run_position){
        .epoch = position[0],
        .step_in_epoch = position[1],
        .sums = {.loss = sums[0],
            .samples = position[3],
            .hits = position[4],
            .last = (double)NAN,
            .norm = norms[0],
            .norms = (uint64_t)norms[1],
            .finite = true},
        .seconds = sums[1],
        .cpu_seconds = sums[3],
        .skipped = position[10],
    };
    s->earlier_peak = position[6];
    s->saved_activation_bytes = position[7];
    r->epoch = (meter){.seconds = sums[2], .steps = position[8], .samples = position[9]};
    clprune_optimizer_set_steps(s->optimizer, position[5]);
    if (!csv_log_open(&r->log, log->data, (size_t)log->cols, (size_t)log->rows, f))
        return false;
    if (r->log.count > 0) {
        const csv_row *last = &r->log.rows[r->log.count - 1];
        r->train_loss = last->train_loss;
        if (!s->options->test_only) { /* --test-only makes its own, or none if a signal comes */
            r->test_loss = last->test_loss;
            r->top1 = last->top1;
        }
    }
    return take_tensors(s, c, true, f) && take_counts(s, c, true, f);
}
