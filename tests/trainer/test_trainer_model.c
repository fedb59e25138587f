/* The trainer with a model that is not one of the examples' (support/linear_model.h): the trainer
 * needs only the model's table, and a checkpoint restores state that is not a parameter. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/linear_model.h"
#include "support/test_device.h"
#include "support/test_folder.h"
#include "trainer/files/checkpoint.h"
#include "trainer/session/gradient_check.h"

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
        arguments, sizeof arguments, "%s --epochs 2 --output-dir %s/whole", linear_small, folder);
    linear_run(arguments);
    (void)snprintf(arguments, sizeof arguments, "%s --epochs 2 --steps 2 --output-dir %s/part",
        linear_small, folder);
    linear_run(arguments);
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
    linear_run(arguments);
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
    training_run t;
    fault f;
    test_folder_make(folder);
    (void)snprintf(
        arguments, sizeof arguments, "%s --epochs 1 --output-dir %s", linear_small, folder);
    if (!linear_open(&linear_without_state, arguments, &o, &t, &f))
        fail_msg("%s", f.text);
    linear_train(&t, &f);
    run_close(&t);
    options_close(&o);
    (void)snprintf(arguments, sizeof arguments, "--resume %s/last.ckpt", folder);
    assert_false(linear_open(&linear_with_state, arguments, &o, &t, &f));
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
    training_run t;
    fault f;
    test_folder_make(folder);
    (void)snprintf(
        arguments, sizeof arguments, "%s --epochs 1 --output-dir %s", linear_small, folder);
    assert_true(linear_open(&linear_with_state, arguments, &o, &t, &f));
    linear_train(&t, &f);
    TEST_OK(clprune_mat_write(t.s.context, ((linear_model *)t.s.model)->mean, bad));
    assert_false(run_save(&t, &f));
    assert_int_equal(f.code, CODE_DIVERGED);
    assert_non_null(strstr(f.text, "model/mean"));
    run_close(&t);
    options_close(&o);
    (void)snprintf(arguments, sizeof arguments, "--resume %s/last.ckpt", folder);
    linear_run(arguments); /* the last good checkpoint is there */
    test_folder_remove(folder);
}

/* --gradient-check compares with a model in the same state: this one is dense, so they agree. */
static void gradients_of_the_same_state(void **state)
{
    (void)state;
    char arguments[3 * TEST_PATH];
    gradient_check check;
    options o;
    training_run t;
    fault f;
    (void)snprintf(arguments, sizeof arguments, "%s --steps 3 --gradient-check 1", linear_small);
    assert_true(linear_open(&linear_with_state, arguments, &o, &t, &f));
    assert_true(run_epoch(&t, &f));
    assert_true(gradient_check_run(&t.s, t.at.epoch, &check, &f));
    assert_int_equal(check.batches, 1);
    assert_true(check.sums[0].exact > 0);
    assert_true(check.sums[0].off <= 0);
    gradient_check_close(&check);
    run_close(&t);
    options_close(&o);
}

/* The first step of each size builds kernels: its time is not counted. */
static void time_of_first_steps(void **state)
{
    (void)state;
    options o;
    training_run t;
    fault f;
    assert_true(linear_open(&linear_with_state,
        "--train-limit 28 --test-limit 12 --batch-size 8 --epochs 2 --steps 8", &o, &t, &f));
    assert_true(run_epoch(&t, &f)); /* 8, 8, 8, 4 */
    assert_int_equal(t.first.steps, 2);
    assert_int_equal(t.first.images, 8 + 4);
    assert_int_equal(t.epoch.steps, 2);
    assert_int_equal(t.epoch.images, 8 + 8);
    assert_true(run_finish_epoch(&t, &f) && run_epoch(&t, &f));
    assert_int_equal(t.first.steps, 2);
    assert_int_equal(t.epoch.steps, 4);
    assert_int_equal(t.epoch.images, 28);
    run_close(&t);
    options_close(&o);
}

/* --memory-limit of a model without presets to choose from: it takes its batch, or the largest. */
static void limit_without_ladder(void **state)
{
    (void)state;
    static const char *const batches[] = {"--batch-size 8", "", "--activations dense"};
    options o;
    training_run t;
    fault f;
    for (size_t i = 0; i < sizeof batches / sizeof *batches; i++) {
        char arguments[256];
        (void)snprintf(arguments, sizeof arguments,
            "--train-limit 24 --test-limit 12 --steps 1 --memory-limit 1G %s", batches[i]);
        if (!linear_open(&linear_without_ladder, arguments, &o, &t, &f))
            fail_msg("%s: %s", arguments, f.text);
        assert_int_equal(o.batch_size, i == 0 ? 8 : 24);
        assert_int_equal(o.activations, 0);
        assert_int_equal(o.criterion, CLPRUNE_CRITERION_SAMPLED); /* the preset's */
        assert_true(o.sparsity <= 0);
        assert_true(run_epoch(&t, &f));
        run_close(&t);
        options_close(&o);
    }
    assert_false(linear_open(
        &linear_without_ladder, "--steps 1 --batch-size 8 --memory-limit 1K", &o, &t, &f));
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
    training_run t;
    fault f;
    FILE *help = open_memstream(&text, &size);
    assert_non_null(help);
    options_print_help(&linear_with_state, help);
    (void)fclose(help);
    assert_non_null(strstr(text, "usage: linear-train"));
    assert_non_null(strstr(text, "  --stretch N "));
    assert_non_null(strstr(text, "small (the default) or large"));
    assert_null(strstr(text, "gelu-code")); /* no preset keeps codes */
    free(text);
    assert_false(linear_open(&linear_with_state, "--gelu-code 4", &o, &t, &f));
    assert_non_null(strstr(f.text, "'--gelu-code'"));
    options_close(&o);
    assert_false(linear_open(&linear_with_state, "--stretch 10", &o, &t, &f));
    assert_non_null(strstr(f.text, "--stretch: '10' is not a whole number from 1 to 9"));
    options_close(&o);
    assert_false(
        linear_open(&linear_with_state, "--image-size 17 --stretch 2 --steps 1", &o, &t, &f));
    assert_non_null(strstr(f.text, "--image-size 17, --stretch 2: 17 is no size"));
    options_close(&o);
    assert_false(linear_open(&linear_with_state, "--activations paper", &o, &t, &f));
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
    test_add(&list, limit_without_ladder, NULL, "a limit of memory without presets to choose from");
    test_add(&list, options_of_the_model, NULL, "options of the model");
    return test_run_on_each_device("trainer_model", &list);
}
