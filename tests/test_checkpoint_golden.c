/* Checkpoints that older programs wrote are read for ever: each file in golden/checkpoints goes on
 * where it was and ends near the losses of the program that wrote it, within the rounding of
 * kernels that changed since. The model is a ResMLP of 16 features and 2 blocks, so that a file is
 * small. golden/README.md says how the files were made. */
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "checkpoint.h"
#include "model.h"
#include "resmlp_model.h"
#include "support/test_device.h"
#include "support/test_folder.h"
#include "trainer.h"

enum { EPOCHS = 3, DEPTH = 2 };

static const char *settle(trainer_sizes *sizes)
{
    const char *wrong = resmlp_model.settle(sizes);
    sizes->blocks = DEPTH;
    return wrong;
}

static clprune_status create(clprune_context *context, const trainer_sizes *sizes,
    const keep_rule *rules, size_t batch, void **model)
{
    resmlp_arch arch = resmlp_arch_of(sizes);
    keep_policy policies[DEPTH] = {0};
    *model = NULL;
    arch.dim = 16;
    arch.depth = DEPTH;
    arch.hidden = 32;
    for (size_t i = 0; i < DEPTH; i++)
        for (size_t k = 0; k < KEEP_TENSORS; k++)
            policies[i].rule[k] = rules[keep_rule_at(&resmlp_keep, DEPTH, i, k)];
    policies[DEPTH - 1].last_x = rules[keep_rule_at(&resmlp_keep, DEPTH, 0, KEEP_TENSORS)];
    resmlp *made = malloc(sizeof *made);
    assert_non_null(made);
    const clprune_status status = resmlp_create_each(context, &arch, policies, batch, made);
    if (status == CLPRUNE_SUCCESS)
        *model = made;
    else
        free(made);
    return status;
}

/* A file, what it was written by, and the log of that program's run to its end. */
typedef struct golden {
    const char *file, *preset, *criterion;
    uint64_t streams;                         /* 0: it names none */
    double train[EPOCHS], test[EPOCHS], top1; /* top1: of the last epoch */
} golden;

static const golden files[] = {
#include "golden/checkpoints.inc"
};

static double off(double a, double b)
{
    return fabs(a - b);
}

static void check_settings(const char *path, const golden *g)
{
    fault f = {0};
    checkpoint c;
    assert_true(checkpoint_open(path, &c, &f));
    const checkpoint_record *settings = checkpoint_find(&c, "options");
    assert_non_null(settings);
    assert_true((checkpoint_find(&c, "streams") != NULL) == (g->streams != 0));
    options o = options_defaults(&resmlp_model);
    o.resume = path;
    assert_true(options_restore(&o, settings->data, (size_t)(settings->rows * settings->cols), &f));
    assert_string_equal(options_preset(&o), g->preset);
    assert_string_equal(options_criteria[o.criterion], g->criterion);
    options_close(&o);
    checkpoint_close(&c);
}

static void goes_on(void **state)
{
    const golden *g = *state;
    char folder[TEST_PATH], path[TEST_PATH + 32], original[2 * TEST_PATH];
    size_t size;
    trainer_model small = resmlp_model;
    small.settle = settle;
    small.create = create;
    test_folder_make(folder);
    (void)snprintf(original, sizeof original, "%s/%s", TEST_GOLDEN, g->file);
    (void)snprintf(path, sizeof path, "%s/last.ckpt", folder);
    void *bytes = test_file_read(original, &size);
    test_file_write(path, bytes, size);
    free(bytes);
    check_settings(path, g);

    char *argv[] = {"test", "--quiet", "--device", (char *)(uintptr_t)test_device_selection(),
        "--resume", path, NULL};
    options o;
    trainer t;
    fault f = {0};
    optind = 0; /* getopt starts anew */
    if (!options_parse(&small, 6, argv, &o, &f) || !trainer_open(&o, &t, &f))
        fail_msg("%s: %s", g->file, f.text);
    assert_int_equal(t.at.epoch, 1); /* it stopped in the second */
    assert_int_equal(t.at.step, 4);
    assert_int_equal(t.streams, g->streams == 0 ? 1 : g->streams);
    while (t.at.epoch < EPOCHS)
        if (!trainer_epoch(&t, &f) || !trainer_test(&t, &f) || !trainer_finish_epoch(&t, &f))
            fail_msg("%s: %s", g->file, f.text);
    assert_int_equal(t.log.count, EPOCHS);
    for (size_t i = 0; i < EPOCHS; i++) {
        const csv_row *row = &t.log.rows[i];
        if (!(off(row->train_loss, g->train[i]) < 2e-4 && off(row->test_loss, g->test[i]) < 2e-4))
            fail_msg("%s: epoch %zu has the losses %.6f and %.6f, had %.6f and %.6f", g->file,
                i + 1, row->train_loss, row->test_loss, g->train[i], g->test[i]);
    }
    assert_true(off(t.log.rows[EPOCHS - 1].top1, g->top1) < 5); /* one image of 24 */
    trainer_close(&t);
    options_close(&o);
    test_folder_remove(folder);
}

/* A run of this program, stopped after `steps` if that is not 0. */
static void run_here(const char *folder, const char *name, const char *steps, csv_row rows[EPOCHS])
{
    trainer_model small = resmlp_model;
    char path[2 * TEST_PATH];
    options o;
    trainer t;
    fault f = {0};
    small.settle = settle;
    small.create = create;
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    char *argv[] = {"test", "--quiet", "--device", (char *)(uintptr_t)test_device_selection(),
        "--image-size", "16", "--patch-size", "4", "--classes", "4", "--train-limit", "48",
        "--test-limit", "24", "--batch-size", "16", "--epochs", "3", "--seed", "5", "--activations",
        "pruned", "--sparsity", "0.5", "--block", "8", "--centre", "yes", "--optimizer", "adamw",
        "--lr", "0.02", "--output-dir", path, "--steps", (char *)(uintptr_t)steps, NULL};
    optind = 0;
    if (!options_parse(&small, steps != NULL ? 36 : 34, argv, &o, &f) || !trainer_open(&o, &t, &f))
        fail_msg("%s", f.text);
    while (t.at.epoch < EPOCHS && !trainer_must_stop(&t)) {
        assert_true(trainer_epoch(&t, &f));
        if (!trainer_must_stop(&t))
            assert_true(trainer_test(&t, &f) && trainer_finish_epoch(&t, &f));
    }
    assert_true(trainer_save(&t, &f));
    if (rows != NULL)
        memcpy(rows, t.log.rows, EPOCHS * sizeof *rows);
    trainer_close(&t);
    options_close(&o);
}

/* With $CLPRUNE_GOLDEN_WRITE, a folder: the file and the row of this program. */
static void write_here(void **state)
{
    csv_row r[EPOCHS];
    (void)state;
    run_here(getenv("CLPRUNE_GOLDEN_WRITE"), "whole", NULL, r);
    run_here(getenv("CLPRUNE_GOLDEN_WRITE"), "part", "4", NULL);
    print_message("{\"NAME.ckpt\", \"pruned\", \"sampled\", %d, {%.9g, %.9g, %.9g}, {%.9g, %.9g, "
                  "%.9g}, %.9g},\n",
        TRAINER_STREAMS, r[0].train_loss, r[1].train_loss, r[2].train_loss, r[0].test_loss,
        r[1].test_loss, r[2].test_loss, r[2].top1);
}

int main(void)
{
    test_list list = {0};
    if (getenv("CLPRUNE_GOLDEN_WRITE") != NULL)
        test_add(&list, write_here, NULL, "write");
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++)
        test_add(&list, goes_on, &files[i], "%s", files[i].file);
    return test_run_on_each_device("checkpoints of older programs", &list);
}
