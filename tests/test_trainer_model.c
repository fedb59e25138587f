/* The trainer with a model that is not one of the examples': the trainer needs only the model's
 * table, and a checkpoint restores state that is not a parameter.
 *
 * The model is linear: logits = images W^T + ones * mean. The state is mean, a running mean of the
 * logits in training; a run that loses it has other losses. It counts its batches. */
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "checkpoint.h"
#include "gradient_check.h"
#include "rng.h"
#include "support/test_device.h"
#include "support/test_folder.h"
#include "trainer.h"

typedef struct linear_model {
    clprune_context *context;
    clprune_patch_embed_desc whole; /* an image is one patch */
    size_t pixels, classes;
    clprune_mat w, dw, mean, ones, zero, logits, log_p;
    clprune_param param;
    trainer_state state;
    int64_t batches;
    trainer_count count;
    trainer_watch_fn *watch;
    void *watch_user;
    uint64_t seeds[8]; /* of the first steps, in a run with a device */
    size_t steps;
} linear_model;

static const char *const archs[] = {"small", "large", NULL};
static const char *const preset_names[] = {"dense", NULL};
static const keep_preset_row presets[] = {
    {"d", CLPRUNE_CRITERION_SAMPLED, CLPRUNE_INDEX_INT32, "keep the images"}};
static const keep_entry entries[] = {
    {.name = "images", .place = "input", .never = "they are data"}};
static const keep_rung ladder[] = {{"dense", 0}};
static const trainer_extra extras[] = {{"stretch", "stretch", 1, 9, "a number that nobody reads"}};

static keep_shape shape(const trainer_sizes *sizes, size_t block, size_t entry)
{
    (void)block, (void)entry;
    return (keep_shape){1, 3 * sizes->image * sizes->image};
}

static const keep_table table = {.entries = entries,
    .in_block = 0,
    .count = 1,
    .shape = shape,
    .preset_names = preset_names,
    .presets = presets,
    .ladder = ladder,
    .rungs = 1};

static const char *settle(trainer_sizes *sizes)
{
    if (sizes->image == 0)
        sizes->image = sizes->arch == 0 ? 16 : 32;
    if (sizes->classes == 0)
        sizes->classes = 4;
    if (sizes->extra[0] == 0)
        sizes->extra[0] = 3;
    sizes->parameters = 3 * sizes->image * sizes->image * sizes->classes;
    return sizes->image == 17 ? "17 is no size" : NULL;
}

static void destroy(void *model)
{
    linear_model *m = model;
    if (m == NULL)
        return;
    const clprune_mat mats[] = {m->w, m->dw, m->mean, m->ones, m->zero, m->logits, m->log_p};
    for (size_t i = 0; i < sizeof mats / sizeof *mats; i++)
        clprune_buffer_release(m->context, mats[i].buffer);
    free(m);
}

static clprune_status create(clprune_context *context, const trainer_sizes *sizes,
    const keep_rule *rules, size_t batch, void **model)
{
    linear_model *m = calloc(1, sizeof *m);
    const size_t pixels = 3 * sizes->image * sizes->image, classes = sizes->classes;
    *model = NULL;
    if (m == NULL)
        return CLPRUNE_OUT_OF_HOST_MEMORY;
    assert_true(keep_has_form(&rules[0], CLPRUNE_FORM_DENSE));
    *m = (linear_model){.context = context,
        .whole = {3, sizes->image, sizes->image, sizes->image, classes},
        .pixels = pixels,
        .classes = classes};
    const struct {
        const char *name;
        clprune_memory_category category;
        size_t rows, cols;
        clprune_mat *mat;
    } mats[] = {{"w", CLPRUNE_MEMORY_PARAMETERS, classes, pixels, &m->w},
        {"dw", CLPRUNE_MEMORY_GRADIENTS, classes, pixels, &m->dw},
        {"mean", CLPRUNE_MEMORY_PARAMETERS, 1, classes, &m->mean},
        {"ones", CLPRUNE_MEMORY_PARAMETERS, batch, 1, &m->ones},
        {"zero", CLPRUNE_MEMORY_PARAMETERS, 1, classes, &m->zero},
        {"logits", CLPRUNE_MEMORY_WORKSPACE, batch, classes, &m->logits},
        {"log_p", CLPRUNE_MEMORY_ACTIVATIONS, batch, classes, &m->log_p}};
    clprune_status status = CLPRUNE_SUCCESS;
    for (size_t i = 0; i < sizeof mats / sizeof *mats && status == CLPRUNE_SUCCESS; i++)
        status = clprune_mat_create(
            context, mats[i].category, mats[i].name, mats[i].rows, mats[i].cols, mats[i].mat);
    m->param = (clprune_param){.name = "w", .value = m->w, .grad = m->dw, .decay = true};
    m->state = (trainer_state){"mean", m->mean};
    m->count = (trainer_count){"batches", &m->batches};
    *model = m;
    return status;
}

static clprune_status init(void *model, uint64_t seed)
{
    linear_model *m = model;
    const size_t count = m->classes * m->pixels;
    float *values = malloc(count * sizeof *values);
    assert_non_null(values);
    for (size_t i = 0; i < count; i++)
        values[i] = (float)((i * 2654435761u + seed) % 1000) * 1e-5f;
    clprune_status status = clprune_mat_write(m->context, m->w, values);
    free(values);
    if (status == CLPRUNE_SUCCESS)
        status = clprune_mat_fill(m->context, 0.0f, m->mean, NULL);
    return status == CLPRUNE_SUCCESS ? clprune_mat_fill(m->context, 1.0f, m->ones, NULL) : status;
}

static clprune_param *params(void *model, size_t *count)
{
    *count = 1;
    return &((linear_model *)model)->param;
}

static const trainer_state *states(void *model, size_t *count)
{
    *count = 1;
    return &((linear_model *)model)->state;
}

static const trainer_count *counts(void *model, size_t *count)
{
    *count = 1;
    return &((linear_model *)model)->count;
}

static void set_seed(void *model, uint64_t seed)
{
    linear_model *m = model;
    if (m->steps < sizeof m->seeds / sizeof m->seeds[0])
        m->seeds[m->steps++] = seed;
}

static void watch(void *model, trainer_watch_fn *told, void *user)
{
    linear_model *m = model;
    m->watch = told;
    m->watch_user = user;
}

/* mean = 0.9 mean + 0.1 (mean over the batch of images W^T) in training. */
static clprune_status forward(void *model, size_t batch, clprune_image_bytes images, bool training)
{
    linear_model *m = model;
    const clprune_mat logits = clprune_mat_rows(m->logits, 0, batch);
    clprune_mat ones = clprune_mat_rows(m->ones, 0, batch);
    if (m->watch != NULL)
        m->watch(m->watch_user, "forward", 0);
    if (training && m->batches != TRAINER_NO_COUNT)
        ++m->batches;
    clprune_status status = clprune_mat_fill(m->context, 1.0f, ones, NULL);
    if (status == CLPRUNE_SUCCESS)
        status = clprune_mat_fill(m->context, 0.0f, m->zero, NULL);
    if (status == CLPRUNE_SUCCESS)
        status = clprune_patch_embed_forward_bytes(
            m->context, &m->whole, batch, images, m->w, m->zero, logits, NULL);
    if (status == CLPRUNE_SUCCESS && training)
        status = clprune_gemm(
            m->context, true, false, 0.1f / (float)batch, 0.9f, ones, logits, m->mean, NULL);
    if (status == CLPRUNE_SUCCESS)
        status = clprune_gemm(m->context, false, false, 1.0f, 1.0f, ones, m->mean, logits, NULL);
    return status;
}

static clprune_status loss(
    void *model, size_t batch, cl_mem labels, float smoothing, clprune_mat losses, clprune_mat hit)
{
    linear_model *m = model;
    return clprune_cross_entropy_forward(m->context, smoothing,
        clprune_mat_rows(m->logits, 0, batch), labels, clprune_mat_rows(m->log_p, 0, batch), losses,
        hit, NULL);
}

static clprune_status backward(
    void *model, size_t batch, clprune_image_bytes images, cl_mem labels, float smoothing)
{
    linear_model *m = model;
    const clprune_mat log_p = clprune_mat_rows(m->log_p, 0, batch);
    clprune_status status = clprune_cross_entropy_backward(
        m->context, smoothing, 1.0f / (float)batch, log_p, labels, log_p, NULL);
    if (status == CLPRUNE_SUCCESS)
        status = clprune_patch_embed_backward_bytes(
            m->context, &m->whole, batch, 0.0f, images, log_p, m->dw, CLPRUNE_NO_MAT, NULL);
    return status;
}

static const keep_table table_without_ladder = {.entries = entries,
    .in_block = 0,
    .count = 1,
    .shape = shape,
    .preset_names = preset_names,
    .presets = presets};

#define MODEL(kept)                                                                                \
    .program = "linear-train", .about = "Trains a linear model.\n", .archs = archs,                \
    .extras = extras, .extras_count = 1, .keep = kept, .settle = settle, .create = create,         \
    .destroy = destroy, .init = init, .params = params, .set_seed = set_seed, .forward = forward,  \
    .loss = loss, .backward = backward, .watch = watch

static const trainer_model with_state = {MODEL(&table), .states = states, .counts = counts};
static const trainer_model without_state = {MODEL(&table)};
static const trainer_model without_ladder = {MODEL(&table_without_ladder)};

/* Opens a run; false with a fault. */
static bool open_run(
    const trainer_model *model, const char *arguments, options *o, trainer *t, fault *f)
{
    static char words[32][TEST_PATH + 32];
    char *argv[33] = {words[0]};
    char text[4 * TEST_PATH];
    int argc = 1;
    *f = (fault){0};
    (void)snprintf(words[0], sizeof words[0], "%s", model->program);
    (void)snprintf(text, sizeof text, "--quiet --device %s %s", test_device_selection(), arguments);
    for (char *p = strtok(text, " "); p != NULL; p = strtok(NULL, " "), argc++) {
        (void)snprintf(words[argc], sizeof words[0], "%s", p);
        argv[argc] = words[argc];
    }
    optind = 0; /* getopt starts anew */
    return options_parse(model, argc, argv, o, f) && trainer_open(o, t, f);
}

static const char small[] =
    "--train-limit 24 --test-limit 12 --batch-size 8 --optimizer sgd --lr 0.1";

static void train(trainer *t, fault *f)
{
    while (t->at.epoch < t->options->epochs && !trainer_must_stop(t)) {
        assert_true(trainer_epoch(t, f));
        if (trainer_must_stop(t))
            break;
        assert_true(trainer_test(t, f) && trainer_finish_epoch(t, f));
    }
    assert_true(trainer_save(t, f));
}

/* A run of two epochs into a folder, from the start or from a checkpoint. */
static void run(const char *more)
{
    char arguments[3 * TEST_PATH];
    options o;
    trainer t;
    fault f;
    (void)snprintf(arguments, sizeof arguments, "%s", more);
    if (!open_run(&with_state, arguments, &o, &t, &f))
        fail_msg("%s", f.text);
    train(&t, &f);
    trainer_close(&t);
    options_close(&o);
}

static void same_record(const checkpoint *a, const checkpoint *b, const char *name, size_t bytes)
{
    const checkpoint_record *x = checkpoint_find(a, name), *y = checkpoint_find(b, name);
    assert_non_null(x);
    assert_non_null(y);
    assert_memory_equal(x->data, y->data, bytes);
}

/* A run that stops within an epoch and goes on ends as one that does not stop. */
static void state_comes_back(void **state)
{
    (void)state;
    char folder[TEST_PATH], arguments[3 * TEST_PATH], path[TEST_PATH + 32];
    fault f = {0};
    checkpoint whole, part;
    test_folder_make(folder);
    (void)snprintf(
        arguments, sizeof arguments, "%s --epochs 2 --output-dir %s/whole", small, folder);
    run(arguments);
    (void)snprintf(
        arguments, sizeof arguments, "%s --epochs 2 --steps 2 --output-dir %s/part", small, folder);
    run(arguments);
    (void)snprintf(path, sizeof path, "%s/part/last.ckpt", folder);
    assert_true(checkpoint_open(path, &part, &f));
    const checkpoint_record *mean = checkpoint_find(&part, "model/mean");
    assert_non_null(mean);
    assert_int_equal(mean->type, CHECKPOINT_F32);
    assert_int_equal(mean->rows * mean->cols, 4);
    for (size_t i = 0; i < 4; i++) {
        const float value = ((const float *)mean->data)[i];
        assert_true(value < -1e-6f || value > 1e-6f); /* it moved */
    }
    checkpoint_close(&part);
    (void)snprintf(arguments, sizeof arguments, "--resume %s", path);
    run(arguments);
    assert_true(checkpoint_open(path, &part, &f));
    (void)snprintf(path, sizeof path, "%s/whole/last.ckpt", folder);
    assert_true(checkpoint_open(path, &whole, &f));
    same_record(&whole, &part, "model/mean", 4 * sizeof(float));
    same_record(&whole, &part, "param/w", 4 * 768 * sizeof(float));
    same_record(&whole, &part, "count/batches", sizeof(uint64_t));
    assert_int_equal(*(const uint64_t *)checkpoint_find(&part, "count/batches")->data, 6);
    /* the losses of both epochs, which the state decides on */
    const double *a = checkpoint_find(&whole, "log")->data,
                 *b = checkpoint_find(&part, "log")->data;
    for (size_t row = 0; row < 2; row++)
        assert_memory_equal(&a[row * CSV_COLUMNS], &b[row * CSV_COLUMNS], 6 * sizeof(double));
    checkpoint_close(&whole);
    checkpoint_close(&part);
    test_folder_remove(folder);
}

/* A checkpoint must have the states of the model. */
static void state_is_missed(void **state)
{
    (void)state;
    char folder[TEST_PATH], arguments[3 * TEST_PATH];
    options o;
    trainer t;
    fault f;
    test_folder_make(folder);
    (void)snprintf(arguments, sizeof arguments, "%s --epochs 1 --output-dir %s", small, folder);
    if (!open_run(&without_state, arguments, &o, &t, &f))
        fail_msg("%s", f.text);
    train(&t, &f);
    trainer_close(&t);
    options_close(&o);
    (void)snprintf(arguments, sizeof arguments, "--resume %s/last.ckpt", folder);
    assert_false(open_run(&with_state, arguments, &o, &t, &f));
    assert_int_equal(f.code, CODE_DATA);
    assert_non_null(strstr(f.text, "'model/mean'"));
    options_close(&o);
    test_folder_remove(folder);
}

/* States that are not finite are not saved. */
static void state_diverges(void **state)
{
    (void)state;
    char folder[TEST_PATH], arguments[3 * TEST_PATH];
    const float bad[4] = {0, 0, (float)(1e300 * 1e300), 0};
    options o;
    trainer t;
    fault f;
    test_folder_make(folder);
    (void)snprintf(arguments, sizeof arguments, "%s --epochs 1 --output-dir %s", small, folder);
    assert_true(open_run(&with_state, arguments, &o, &t, &f));
    train(&t, &f);
    TEST_OK(clprune_mat_write(t.context, ((linear_model *)t.model)->mean, bad));
    assert_false(trainer_save(&t, &f));
    assert_int_equal(f.code, CODE_DIVERGED);
    assert_non_null(strstr(f.text, "model/mean"));
    trainer_close(&t);
    options_close(&o);
    (void)snprintf(arguments, sizeof arguments, "--resume %s/last.ckpt", folder);
    run(arguments); /* the last good checkpoint is there */
    test_folder_remove(folder);
}

/* --gradient-check compares with a model in the same state: this one is dense, so they agree. */
static void gradients_of_the_same_state(void **state)
{
    (void)state;
    char arguments[3 * TEST_PATH];
    gradient_check check;
    options o;
    trainer t;
    fault f;
    (void)snprintf(arguments, sizeof arguments, "%s --steps 3 --gradient-check 1", small);
    assert_true(open_run(&with_state, arguments, &o, &t, &f));
    assert_true(trainer_epoch(&t, &f));
    assert_true(gradient_check_run(&t, &check, &f));
    assert_int_equal(check.batches, 1);
    assert_true(check.sums[0].exact > 0);
    assert_true(check.sums[0].off <= 0);
    gradient_check_close(&check);
    trainer_close(&t);
    options_close(&o);
}

/* The first step of each size builds kernels: its time is not counted. */
static void time_of_first_steps(void **state)
{
    (void)state;
    options o;
    trainer t;
    fault f;
    assert_true(open_run(&with_state,
        "--train-limit 28 --test-limit 12 --batch-size 8 --epochs 2 --steps 8", &o, &t, &f));
    assert_true(trainer_epoch(&t, &f)); /* 8, 8, 8, 4 */
    assert_int_equal(t.first.steps, 2);
    assert_int_equal(t.first.images, 8 + 4);
    assert_int_equal(t.epoch.steps, 2);
    assert_int_equal(t.epoch.images, 8 + 8);
    assert_true(trainer_finish_epoch(&t, &f) && trainer_epoch(&t, &f));
    assert_int_equal(t.first.steps, 2);
    assert_int_equal(t.epoch.steps, 4);
    assert_int_equal(t.epoch.images, 28);
    trainer_close(&t);
    options_close(&o);
}

static uint64_t seed_from(rng_domain domain, uint64_t seed, uint32_t a)
{
    rng r = rng_open(seed, domain, a, 0);
    const uint64_t high = rng_next(&r);
    return high << 32 | rng_next(&r);
}

/* The seeds of the steps of a run, which has done one already. */
static void check_seeds(const trainer *t, rng_domain domain, uint32_t first)
{
    const linear_model *m = t->model;
    assert_int_equal(m->steps, 2);
    for (size_t i = 0; i < m->steps; i++)
        assert_true(m->seeds[i] == seed_from(domain, 1, first + (uint32_t)i));
}

/* Copies a checkpoint, with another record of `name`; rows = 0: without it. */
static void with_record(
    const char *from, const char *to, const char *name, uint64_t rows, const void *data)
{
    fault f = {0};
    checkpoint c;
    checkpoint_writer writer;
    bool found = false;
    assert_true(checkpoint_open(from, &c, &f));
    assert_true(checkpoint_create(to, &writer, &f));
    for (size_t i = 0; i < c.count; i++) {
        const checkpoint_record *record = &c.records[i];
        const bool is = strcmp(record->name, name) == 0;
        found = found || is;
        if (!is || rows != 0)
            checkpoint_put(&writer, record->name, record->type, is ? rows : record->rows,
                record->cols, is ? data : record->data);
    }
    assert_true(found);
    assert_true(checkpoint_commit(&writer, &f));
    checkpoint_close(&c);
}

/* The same with another record `streams`; 0: without it. */
static void with_streams(const char *from, const char *to, uint64_t streams)
{
    with_record(from, to, "streams", streams != 0, &streams);
}

/* A count goes on from what the checkpoint has, up to the largest; without one there is none, as in
 * checkpoints of older programs. */
static void counts_go_on(void **state)
{
    (void)state;
    static const struct {
        uint64_t rows, before;
        int64_t after;
    } rows[] = {{1, 40, 41}, {1, INT64_MAX - 1, INT64_MAX}, {0, 0, TRAINER_NO_COUNT}};
    char folder[TEST_PATH], arguments[3 * TEST_PATH], last[TEST_PATH + 16], old[TEST_PATH + 32];
    options o;
    trainer t;
    fault f;
    checkpoint c;
    test_folder_make(folder);
    (void)snprintf(last, sizeof last, "%s/last.ckpt", folder);
    (void)snprintf(
        arguments, sizeof arguments, "%s --epochs 2 --steps 4 --output-dir %s", small, folder);
    run(arguments);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        (void)snprintf(old, sizeof old, "%s/%zu.ckpt", folder, i);
        with_record(last, old, "count/batches", rows[i].rows, &rows[i].before);
        (void)snprintf(arguments, sizeof arguments, "--resume %s --steps 1 --output-dir %s/%zu",
            old, folder, i);
        if (!open_run(&with_state, arguments, &o, &t, &f))
            fail_msg("%s", f.text);
        train(&t, &f);
        assert_int_equal(((linear_model *)t.model)->batches, rows[i].after);
        trainer_close(&t);
        options_close(&o);
        (void)snprintf(old, sizeof old, "%s/%zu/last.ckpt", folder, i);
        assert_true(checkpoint_open(old, &c, &f));
        const checkpoint_record *record = checkpoint_find(&c, "count/batches");
        assert_true((record != NULL) == (rows[i].rows > 0));
        if (record != NULL)
            assert_true(*(const uint64_t *)record->data == (uint64_t)rows[i].after);
        checkpoint_close(&c);
    }
    test_folder_remove(folder);
}

/* Copies a checkpoint, with one more record, which has the content of `like`. */
static void with_another(const char *from, const char *to, const char *name, const char *like)
{
    fault f = {0};
    checkpoint c;
    checkpoint_writer writer;
    assert_true(checkpoint_open(from, &c, &f));
    assert_true(checkpoint_create(to, &writer, &f));
    for (size_t i = 0; i <= c.count; i++) {
        const checkpoint_record *r = i < c.count ? &c.records[i] : checkpoint_find(&c, like);
        checkpoint_put(&writer, i < c.count ? r->name : name, r->type, r->rows, r->cols, r->data);
    }
    assert_true(checkpoint_commit(&writer, &f));
    checkpoint_close(&c);
}

enum { CHECKPOINT_PATH = TEST_PATH + 16 };

/* A run in a new folder, of 24 images in batches of 8, that stopped after step 1 of 3 of its second
 * epoch: its checkpoint, and the path for a changed one. */
static void stopped_run(
    char folder[TEST_PATH], char last[CHECKPOINT_PATH], char bad[CHECKPOINT_PATH])
{
    char arguments[3 * TEST_PATH];
    test_folder_make(folder);
    (void)snprintf(last, CHECKPOINT_PATH, "%s/last.ckpt", folder);
    (void)snprintf(bad, CHECKPOINT_PATH, "%s/bad.ckpt", folder);
    (void)snprintf(
        arguments, sizeof arguments, "%s --epochs 3 --steps 4 --output-dir %s", small, folder);
    run(arguments);
}

/* Records that the run does not have, and records that are there twice, are refused by name. */
static void other_records(void **state)
{
    (void)state;
    static const struct {
        const char *name, *like, *said;
    } rows[] = {
        {"param/other", "param/w", "the record 'param/other' is unknown; a newer linear-train"},
        {"state3/w", "param/w", "the record 'state3/w' is unknown"},
        {"model/other", "model/mean", "the record 'model/other' is unknown"},
        {"count/other", "count/batches", "the record 'count/other' is unknown"},
        {"other", "position", "the record 'other' is unknown"},
        {"param/w", "param/w", "the record 'param/w' is there twice"},
        {"count/batches", "count/batches", "the record 'count/batches' is there twice"},
        {"position", "position", "the record 'position' is there twice"},
        {"log", "log", "the record 'log' is there twice"},
    };
    char folder[TEST_PATH], arguments[3 * TEST_PATH], last[CHECKPOINT_PATH], bad[CHECKPOINT_PATH];
    options o;
    trainer t;
    fault f = {0};
    stopped_run(folder, last, bad);
    (void)snprintf(arguments, sizeof arguments, "--resume %s --steps 1", bad);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        with_another(last, bad, rows[i].name, rows[i].like);
        if (open_run(&with_state, arguments, &o, &t, &f))
            fail_msg("one more record '%s' is taken", rows[i].name);
        assert_int_equal(f.code, CODE_DATA);
        if (strstr(f.text, rows[i].said) == NULL)
            fail_msg("no '%s' in: %s", rows[i].said, f.text);
        options_close(&o);
    }
    test_folder_remove(folder);
}

/* Images that were replaced count over all processes of a run; older checkpoints have no count. A
 * finished epoch has no loss left. */
static void skipped_goes_on(void **state)
{
    (void)state;
    char folder[TEST_PATH], arguments[3 * TEST_PATH], last[TEST_PATH + 16], old[TEST_PATH + 16];
    uint64_t position[11] = {0};
    double sums[4];
    options o;
    trainer t;
    fault f = {0};
    checkpoint c;
    test_folder_make(folder);
    (void)snprintf(last, sizeof last, "%s/last.ckpt", folder);
    (void)snprintf(old, sizeof old, "%s/old.ckpt", folder);
    (void)snprintf(arguments, sizeof arguments, "%s --epochs 1 --output-dir %s", small, folder);
    run(arguments);
    assert_true(checkpoint_open(last, &c, &f));
    const checkpoint_record *record = checkpoint_find(&c, "position");
    assert_int_equal(record->cols, 11);
    memcpy(position, record->data, sizeof position);
    memcpy(sums, checkpoint_find(&c, "sums")->data, sizeof sums);
    checkpoint_close(&c);
    assert_int_equal(position[10], 0);
    position[10] = 7;
    with_record(last, old, "position", 1, position);
    (void)snprintf(
        arguments, sizeof arguments, "--resume %s --epochs 2 --output-dir %s/more", old, folder);
    run(arguments);
    (void)snprintf(last, sizeof last, "%s/more/last.ckpt", folder);
    assert_true(checkpoint_open(last, &c, &f));
    assert_int_equal(((const uint64_t *)checkpoint_find(&c, "position")->data)[10], 7);
    checkpoint_close(&c);
    sums[0] = 12345;
    with_record(last, old, "sums", 1, sums);
    (void)snprintf(arguments, sizeof arguments, "--resume %s --test-only", old);
    assert_false(open_run(&with_state, arguments, &o, &t, &f));
    if (strstr(f.text, "the loss summed in the epoch: 12345, not 0 to 0") == NULL)
        fail_msg("%s", f.text);
    options_close(&o);
    test_folder_remove(folder);
}

/* Numbers that no run could have written, under a right checksum: each is refused by its name. */
static void nonsense_in_a_checkpoint(void **state)
{
    (void)state;
    char folder[TEST_PATH], arguments[3 * TEST_PATH], last[CHECKPOINT_PATH], bad[CHECKPOINT_PATH];
    options o;
    trainer t;
    fault f = {0};
    checkpoint c;
    stopped_run(folder, last, bad);
    assert_true(checkpoint_open(last, &c, &f));
    static const struct {
        const char *record;
        size_t at;
        double value;
        const char *name;
    } rows[] = {
        {"position", 0, 2, "step: 4, not 7"},
        {"position", 0, 1e15, "epochs done"},
        {"position", 0, 0, "step: 4, not 1"},
        {"position", 1, 4, "step in the epoch: 4, not 0 to 3"},
        {"position", 1, 2, "step: 4, not 5"},
        {"position", 2, 5, "step: 5, not 4"},
        {"position", 3, 9, "images seen in the epoch: 9, not 8"},
        {"position", 4, 9, "hits in the epoch: 9, not 0 to 8"},
        {"position", 5, 1e18, "steps of the optimizer"},
        {"position", 8, 2, "steps timed in the epoch"},
        {"position", 9, 9, "images timed in the epoch"},
        {"position", 6, 0x1p63, "peak bytes: 9223372036854775808, not 0 to 9007199254740992"},
        {"position", 7, 0x1p63, "saved activation bytes"},
        {"position", 8, 0, "images timed in the epoch: 8, not 0"},
        {"position", 9, 0, "images timed in the epoch: 0, not 1 to 8"},
        {"position", 10, 0x1p63, "images replaced"},
        {"sums", 0, (double)NAN, "the loss summed in the epoch"},
        {"sums", 0, 1e300, "the loss summed in the epoch: 1e+300, not 0 to "},
        {"sums", 0, -1, "the loss summed in the epoch"},
        {"sums", 1, (double)INFINITY, "the seconds of the run"},
        {"sums", 1, 1e300, "the seconds of the run"},
        {"sums", 2, -1, "the seconds of the epoch"},
        {"sums", 2, 1e300, "the seconds of the epoch"},
        {"sums", 3, (double)NAN, "the seconds of processors"},
        {"log", 0, 2, "row 1 of its log"},
        {"log", 1, 4, "row 1 of its log"},
        {"log", 2, (double)NAN, "row 1 of its log"},
        {"log", 3, (double)NAN, "row 1 of its log"},
        {"log", 6, (double)NAN, "row 1 of its log"},
        {"log", 6, (double)INFINITY, "row 1 of its log"},
        {"log", 7, -1, "row 1 of its log"},
        {"log", 8, (double)INFINITY, "row 1 of its log"},
        {"log", 8, (double)NAN, "row 1 of its log"},
        {"log", 9, 1e300, "row 1 of its log"},
        {"log", 10, -5, "row 1 of its log"},
        {"param/w", 5, (double)NAN, "'param/w' has a value that is not finite"},
        {"model/mean", 2, (double)INFINITY, "'model/mean' has a value that is not finite"},
        {"count/batches", 0, 0x1p63,
            "'count/batches' is 9223372036854775808, not 0 to 9223372036854775807"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const checkpoint_record *record = checkpoint_find(&c, rows[i].record);
        assert_non_null(record);
        const size_t wide = record->type == CHECKPOINT_F32 ? 4 : 8;
        const size_t bytes = (size_t)(record->rows * record->cols) * wide;
        void *data = malloc(bytes);
        assert_non_null(data);
        memcpy(data, record->data, bytes);
        if (record->type == CHECKPOINT_U64)
            ((uint64_t *)data)[rows[i].at] = (uint64_t)rows[i].value;
        else if (record->type == CHECKPOINT_F64)
            ((double *)data)[rows[i].at] = rows[i].value;
        else
            ((float *)data)[rows[i].at] = (float)rows[i].value;
        with_record(last, bad, rows[i].record, record->rows, data);
        free(data);
        (void)snprintf(arguments, sizeof arguments, "--resume %s --steps 1", bad);
        if (open_run(&with_state, arguments, &o, &t, &f))
            fail_msg("%s[%zu] = %g is taken", rows[i].record, rows[i].at, rows[i].value);
        assert_int_equal(f.code, CODE_DATA);
        assert_non_null(strstr(f.text, bad));
        if (strstr(f.text, rows[i].name) == NULL)
            fail_msg("no '%s' in: %s", rows[i].name, f.text);
        options_close(&o);
    }
    with_record(last, bad, "log", 2, (double[2 * CSV_COLUMNS]){0});
    (void)snprintf(arguments, sizeof arguments, "--resume %s --steps 1", bad);
    assert_false(open_run(&with_state, arguments, &o, &t, &f));
    assert_non_null(strstr(f.text, "its log has 2 rows, not one for each of 1 epochs"));
    options_close(&o);
    char device[512];
    memset(device, 'x', sizeof device);
    with_record(last, bad, "device", 1, device); /* not ended */
    assert_false(open_run(&with_state, arguments, &o, &t, &f));
    assert_non_null(strstr(f.text, "its device is no text"));
    options_close(&o);
    with_record(last, bad, "count/batches", 2, (const uint64_t[]){4, 4});
    assert_false(open_run(&with_state, arguments, &o, &t, &f));
    assert_non_null(strstr(f.text, "'count/batches' is 2 x 1, not 1 x 1"));
    options_close(&o);
    /* What is not nonsense, but too late. */
    (void)snprintf(arguments, sizeof arguments, "--resume %s --epochs 1", last);
    assert_false(open_run(&with_state, arguments, &o, &t, &f));
    assert_int_equal(f.code, CODE_USAGE);
    assert_non_null(strstr(f.text, "--epochs 1: the run in"));
    assert_non_null(strstr(f.text, "is in epoch 2 already"));
    options_close(&o);
    checkpoint_close(&c);
    (void)snprintf(arguments, sizeof arguments, "--resume %s", last);
    run(arguments);
    test_folder_remove(folder);
}

/* Writes the checkpoint of a run that did no step; builds no kernel of a step. */
static void save_with(const char *kernels, const char *more, const char *folder)
{
    char arguments[3 * TEST_PATH];
    options o;
    trainer t;
    fault f;
    test_debug(kernels);
    (void)snprintf(
        arguments, sizeof arguments, "%s %s --output-dir %s --overwrite", small, more, folder);
    if (!open_run(&with_state, arguments, &o, &t, &f) || !trainer_save(&t, &f))
        fail_msg("%s", f.text);
    trainer_close(&t);
    options_close(&o);
}

static void save_at_once(const char *kernels, const char *folder)
{
    save_with(kernels, "", folder);
}

/* What a run says on stderr when it goes on. */
static void say_resumed(const char *kernels, const char *path, char *said, size_t size)
{
    char arguments[3 * TEST_PATH];
    options o;
    trainer t;
    fault f;
    FILE *file = tmpfile();
    const int kept = dup(STDERR_FILENO);
    test_debug(kernels);
    (void)snprintf(arguments, sizeof arguments, "--resume %s --steps 1", path);
    assert_true(file != NULL && kept >= 0 && dup2(fileno(file), STDERR_FILENO) >= 0);
    const bool good = open_run(&with_state, arguments, &o, &t, &f);
    assert_true(dup2(kept, STDERR_FILENO) >= 0 && close(kept) == 0);
    if (!good)
        fail_msg("%s", f.text);
    trainer_close(&t);
    options_close(&o);
    rewind(file);
    said[fread(said, 1, size - 1, file)] = '\0';
    (void)fclose(file);
}

/* A run that goes on where its bits may be others says so: with other kernels, or with tiled ones
 * on other compute units, which split their sums. */
static void other_devices(void **state)
{
    (void)state;
    char folder[TEST_PATH], last[TEST_PATH + 16], other[TEST_PATH + 16], device[512], said[2048];
    checkpoint c;
    fault f;
    test_folder_make(folder);
    (void)snprintf(last, sizeof last, "%s/last.ckpt", folder);
    (void)snprintf(other, sizeof other, "%s/other.ckpt", folder);
    save_at_once("kernels=tiled", folder);
    assert_true(checkpoint_open(last, &c, &f));
    (void)snprintf(device, sizeof device, "%s", (const char *)checkpoint_find(&c, "device")->data);
    checkpoint_close(&c);
    assert_non_null(strstr(device, "tiled kernels on "));
    say_resumed("kernels=tiled", last, said, sizeof said);
    assert_null(strstr(said, "note: "));
    char *units = strstr(device, ", compute units: ");
    assert_non_null(units);
    char *digit = units + strcspn(units, "0123456789");
    *digit = *digit == '1' ? '2' : '1';
    with_record(last, other, "device", 1, device);
    say_resumed("kernels=tiled", other, said, sizeof said);
    assert_non_null(strstr(said, "linear-train: note: the run in "));
    assert_non_null(strstr(said, device));
    say_resumed("kernels=vector", last, said, sizeof said);
    assert_non_null(strstr(said, "; it goes on with vector kernels on "));
    save_at_once("kernels=vector", folder);
    assert_true(checkpoint_open(last, &c, &f));
    assert_null(strstr(checkpoint_find(&c, "device")->data, "compute units"));
    checkpoint_close(&c);
    say_resumed("kernels=vector", last, said, sizeof said);
    assert_null(strstr(said, "note: "));
    /* Tensor cores split sums by compute units with both kernel families. */
    save_with("kernels=vector,mma=emulated", "--precision tf32", folder);
    assert_true(checkpoint_open(last, &c, &f));
    assert_non_null(strstr(checkpoint_find(&c, "device")->data, "compute units"));
    checkpoint_close(&c);
    test_debug(NULL);
    test_folder_remove(folder);
}

/* A tuning file with a row for the device under test. */
static void write_tuning(const char *path, int depth)
{
    const clprune_device_info device = clprune_context_device_info(test_context());
    char text[512];
    const int length = snprintf(text, sizeof text,
        "clprune_tuning = 1\ndevice = %s\ngemm.panel_depth = %d\nend\n", device.device, depth);
    test_file_write(path, text, (size_t)length);
}

/* The tuning is compared by its parameters, not by the name of the file, however long. The record
 * of an older program has only the name. */
static void other_tuning(void **state)
{
    (void)state;
    enum { LONG = 700 };
    char folder[TEST_PATH], last[TEST_PATH + 16], other[TEST_PATH + 16], said[8192];
    char path[TEST_PATH + LONG + 16], device[4 * LONG] = "";
    const clprune_device_info info = clprune_context_device_info(test_context());
    checkpoint c;
    fault f;
    test_folder_make(folder);
    (void)snprintf(last, sizeof last, "%s/last.ckpt", folder);
    (void)snprintf(other, sizeof other, "%s/other.ckpt", folder);
    const int length = snprintf(path, sizeof path, "%s/%0*d", folder, LONG, 0);
    for (int i = length - LONG; i < length; i++)
        path[i] = "./"[i % 2];
    (void)snprintf(path + length, sizeof path - (size_t)length, "/tuning");
    write_tuning(path, 128);
    test_environment("CLPRUNE_TUNING", path);
    save_at_once("kernels=tiled", folder);
    say_resumed("kernels=tiled", last, said, sizeof said);
    assert_null(strstr(said, "note: "));
    write_tuning(path, 256);
    say_resumed("kernels=tiled", last, said, sizeof said);
    assert_non_null(strstr(said, "linear-train: note: the run in "));
    assert_true(checkpoint_open(last, &c, &f));
    (void)snprintf(device, sizeof device, "%s", (const char *)checkpoint_find(&c, "device")->data);
    checkpoint_close(&c);
    char *units = strstr(device, ", compute units: ");
    assert_non_null(units);
    units[strlen(", compute units: ")] ^= 1;
    with_record(last, other, "device", 1, device);
    (void)snprintf(path, sizeof path, "%s/moved", folder);
    write_tuning(path, 128);
    test_environment("CLPRUNE_TUNING", path);
    say_resumed("kernels=tiled", last, said, sizeof said);
    assert_null(strstr(said, "note: "));
    say_resumed("kernels=tiled", other, said, sizeof said);
    assert_non_null(strstr(said, "note: "));
    /* the record of older programs */
    for (uint32_t more = 0; more < 2; more++) {
        memset(device, 0, sizeof device);
        (void)snprintf(device, sizeof device,
            "tiled kernels on %s, driver %s, tuning %s, compute units: %u", info.device,
            info.driver, path, (unsigned)(info.compute_units + more));
        with_record(last, other, "device", 1, device);
        say_resumed("kernels=tiled", other, said, sizeof said);
        assert_int_equal(strstr(said, "note: ") != NULL, more);
    }
    test_environment("CLPRUNE_TUNING", NULL);
    test_debug(NULL);
    test_folder_remove(folder);
}

/* Steps draw from a stream that no initial parameter was drawn from; runs that began before that
 * was so go on with the stream that they had. */
static void streams(void **state)
{
    (void)state;
    char folder[TEST_PATH], arguments[3 * TEST_PATH], last[TEST_PATH + 16], old[TEST_PATH + 16];
    options o;
    trainer t;
    fault f;
    test_folder_make(folder);
    (void)snprintf(last, sizeof last, "%s/last.ckpt", folder);
    (void)snprintf(old, sizeof old, "%s/old.ckpt", folder);
    (void)snprintf(
        arguments, sizeof arguments, "%s --epochs 2 --steps 2 --output-dir %s", small, folder);
    assert_true(open_run(&with_state, arguments, &o, &t, &f));
    train(&t, &f);
    check_seeds(&t, RNG_PRUNE, 0);
    for (size_t i = 0; i < 2; i++) /* at the tensors that there are, and beyond */
        for (uint32_t tensor = 0; tensor < 300; tensor++)
            assert_true(((linear_model *)t.model)->seeds[i] != seed_from(RNG_INIT, 1, tensor));
    trainer_close(&t);
    options_close(&o);
    static const struct {
        uint64_t streams;
        rng_domain domain;
    } rows[] = {{0, RNG_INIT}, {1, RNG_INIT}, {2, RNG_PRUNE}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        with_streams(last, old, rows[i].streams);
        (void)snprintf(arguments, sizeof arguments, "--resume %s --steps 2", old);
        if (!open_run(&with_state, arguments, &o, &t, &f))
            fail_msg("%s", f.text);
        train(&t, &f);
        check_seeds(&t, rows[i].domain, 2);
        trainer_close(&t);
        options_close(&o);
    }
    with_streams(last, old, 3);
    (void)snprintf(arguments, sizeof arguments, "--resume %s --steps 1", old);
    assert_false(open_run(&with_state, arguments, &o, &t, &f));
    assert_int_equal(f.code, CODE_DATA);
    assert_non_null(strstr(f.text, "random streams, 3, are unknown"));
    options_close(&o);
    test_folder_remove(folder);
}

/* 16 images of 16 x 16 ones, or the labels of class 0. */
static void put_idx(const char *folder, const char *name, bool images)
{
    char path[2 * TEST_PATH];
    unsigned char file[16 + 16 * 256] = {0, 0, 8, 1, 0, 0, 0, 16};
    const size_t size = images ? sizeof file : 8 + 16;
    if (images) {
        file[3] = 3;
        file[11] = file[15] = 16;
        memset(file + 16, 1, 16 * 256);
    }
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    test_file_write(path, file, size);
}

/* Earlier programs wrote another checksum of IDX files: of bytes, sum and sum of squares. */
static void old_checksum_of_idx(void **state)
{
    (void)state;
    char folder[TEST_PATH], arguments[4 * TEST_PATH], last[TEST_PATH + 16], old[TEST_PATH + 16];
    options o;
    trainer t;
    fault f;
    test_folder_make(folder);
    put_idx(folder, "train-images-idx3-ubyte", true);
    put_idx(folder, "train-labels-idx1-ubyte", false);
    put_idx(folder, "t10k-images-idx3-ubyte", true);
    put_idx(folder, "t10k-labels-idx1-ubyte", false);
    (void)snprintf(last, sizeof last, "%s/last.ckpt", folder);
    (void)snprintf(old, sizeof old, "%s/old.ckpt", folder);
    (void)snprintf(arguments, sizeof arguments,
        "--data %s --classes 4 --batch-size 8 --epochs 1 --output-dir %s", folder, folder);
    run(arguments);
    for (uint64_t i = 0; i < 2; i++) {
        const uint64_t checksum = UINT64_C(0xbab6bb71e6259f55) + i; /* of 4096 ones */
        with_record(last, old, "checksum", 1, &checksum);
        (void)snprintf(arguments, sizeof arguments, "--resume %s --test-only", old);
        const bool good = open_run(&with_state, arguments, &o, &t, &f);
        assert_int_equal(f.code, i == 0 ? CODE_OK : CODE_USAGE);
        if (good)
            trainer_close(&t);
        else
            assert_non_null(strstr(f.text, "these images are not those of the run in"));
        options_close(&o);
    }
    test_folder_remove(folder);
}

/* --memory-limit of a model without presets to choose from: it takes its batch, or the largest. */
static void limit_without_ladder(void **state)
{
    (void)state;
    static const char *const batches[] = {"--batch-size 8", "", "--activations dense"};
    options o;
    trainer t;
    fault f;
    for (size_t i = 0; i < sizeof batches / sizeof *batches; i++) {
        char arguments[256];
        (void)snprintf(arguments, sizeof arguments,
            "--train-limit 24 --test-limit 12 --steps 1 --memory-limit 1G %s", batches[i]);
        if (!open_run(&without_ladder, arguments, &o, &t, &f))
            fail_msg("%s: %s", arguments, f.text);
        assert_int_equal(o.batch_size, i == 0 ? 8 : 24);
        assert_int_equal(o.activations, 0);
        assert_int_equal(o.criterion, CLPRUNE_CRITERION_SAMPLED); /* the preset's */
        assert_true(o.sparsity <= 0);
        assert_true(trainer_epoch(&t, &f));
        trainer_close(&t);
        options_close(&o);
    }
    assert_false(
        open_run(&without_ladder, "--steps 1 --batch-size 8 --memory-limit 1K", &o, &t, &f));
    assert_int_equal(f.code, CODE_MEMORY);
    assert_null(strstr(f.text, "take 0 bytes"));
    options_close(&o);
}

/* What the command line says of a model comes from its table. */
static void options_of_the_model(void **state)
{
    (void)state;
    char *text = NULL;
    size_t size = 0;
    options o;
    trainer t;
    fault f;
    FILE *help = open_memstream(&text, &size);
    assert_non_null(help);
    options_print_help(&with_state, help);
    (void)fclose(help);
    assert_non_null(strstr(text, "usage: linear-train"));
    assert_non_null(strstr(text, "  --stretch N "));
    assert_non_null(strstr(text, "small (the default) or large"));
    assert_null(strstr(text, "gelu-code")); /* no preset keeps codes */
    free(text);
    assert_false(open_run(&with_state, "--gelu-code 4", &o, &t, &f));
    assert_non_null(strstr(f.text, "'--gelu-code'"));
    options_close(&o);
    assert_false(open_run(&with_state, "--stretch 10", &o, &t, &f));
    assert_non_null(strstr(f.text, "--stretch: '10' is not a whole number from 1 to 9"));
    options_close(&o);
    assert_false(open_run(&with_state, "--image-size 17 --stretch 2 --steps 1", &o, &t, &f));
    assert_non_null(strstr(f.text, "--image-size 17, --stretch 2: 17 is no size"));
    options_close(&o);
    assert_false(open_run(&with_state, "--activations paper", &o, &t, &f));
    assert_non_null(strstr(f.text, "'paper' is not one of dense"));
    options_close(&o);
}

int main(void)
{
    test_list list = {0};
    test_add(&list, state_comes_back, NULL, "a state that comes back");
    test_add(&list, state_is_missed, NULL, "a state that is missed");
    test_add(&list, state_diverges, NULL, "a state that diverges");
    test_add(&list, gradients_of_the_same_state, NULL, "gradients of the same state");
    test_add(&list, time_of_first_steps, NULL, "the time of first steps");
    test_add(&list, streams, NULL, "streams");
    test_add(&list, counts_go_on, NULL, "counts go on");
    test_add(&list, other_records, NULL, "records of no such run");
    test_add(&list, skipped_goes_on, NULL, "replaced images count on");
    test_add(&list, nonsense_in_a_checkpoint, NULL, "nonsense in a checkpoint");
    test_add(&list, other_devices, NULL, "a checkpoint on other devices");
    test_add(&list, other_tuning, NULL, "a checkpoint under other tuning");
    test_add(&list, old_checksum_of_idx, NULL, "the checksum of earlier programs");
    test_add(&list, limit_without_ladder, NULL, "a limit of memory without presets to choose from");
    test_add(&list, options_of_the_model, NULL, "options of the model");
    return test_run_on_each_device("trainer_model", &list);
}
