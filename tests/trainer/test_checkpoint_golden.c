/* A checkpoint of each version that was released is read for ever: each file in golden/checkpoints
 * goes on where it was and ends near the losses of the program that wrote it. The models are small,
 * and so are the files. golden/README.md says how they were made. */
#include <sys/stat.h>

#include "support/small_models.h"
#include "support/test_folder.h"
#include "support/test_run.h"

enum { EPOCHS = 3, STEPS = 9 };

/* A file, what it was written by, and the log of that program's run to its end. */
typedef struct golden {
    const char *file, *preset, *criterion;
    double train[EPOCHS], test[EPOCHS], top1; /* top1: of the last epoch */
    const trainer_model *(*model)(void);      /* NULL: small_resmlp */
} golden;

static const golden files[] = {
#include "golden/checkpoints.inc"
};

static char **write_arguments; /* of `write`, see main; ends with NULL */

static void write_idx(const char *folder, const char *split, const char *kind, uint32_t sides,
    uint32_t count, uint32_t salt)
{
    unsigned char file[16 + 48 * 256] = {0, 0, 8, (unsigned char)(1 + 2 * (sides > 1))};
    const size_t header = sides > 1 ? 16 : 8, size = (size_t)count * sides * sides;
    file[7] = (unsigned char)count;
    file[11] = file[15] = (unsigned char)sides;
    for (size_t i = 0; i < size; i++) { /* class i % 4 has its stripes, under noise */
        const size_t class = i / ((size_t)sides * sides) % 4;
        const uint32_t stripe = i % (class + 2) == 0 ? 128 : 0;
        const uint32_t noise = ((uint32_t)i * 2654435761u + salt) >> 26;
        file[header + i] = (unsigned char)(sides > 1 ? stripe + noise : class);
    }
    test_file_write(test_text("%s/%s-%s-ubyte", folder, split, kind), file, header + size);
}

/* 48 and 24 images of 16 x 16 pixels in a new folder, as IDX files: their name does not identify
 * them, so that a checkpoint has their checksum. They never change. */
static const char *make_digits(const char *parent)
{
    const char *folder = test_text("%s/digits", parent);
    assert_int_equal(mkdir(folder, 0700), 0);
    write_idx(folder, "train", "images-idx3", 16, 48, 0x20000000);
    write_idx(folder, "train", "labels-idx1", 1, 48, 0);
    write_idx(folder, "t10k", "images-idx3", 16, 24, 0x90000000);
    write_idx(folder, "t10k", "labels-idx1", 1, 24, 0);
    return folder;
}

static double off(double a, double b)
{
    return fabs(a - b);
}

static void check_settings(const char *path, const trainer_model *model, const golden *g)
{
    const checkpoint *c = test_checkpoint(path);
    const checkpoint_record *settings = test_record(c, "options");
    options o = options_defaults(model);
    o.resume = path;
    TEST_GOOD(options_restore(&o, settings->data, (size_t)(settings->rows * settings->cols), &f));
    assert_string_equal(options_preset(&o), g->preset);
    assert_string_equal(options_criteria[o.criterion], g->criterion);
    options_close(&o);
}

static void goes_on(void **state)
{
    const golden *g = *state;
    const trainer_model *small = g->model != NULL ? g->model() : small_resmlp();
    const char *folder = test_folder(), *path = test_text("%s/last.ckpt", folder);
    const char *digits = make_digits(folder);
    size_t size;
    const void *bytes = test_file_read(test_text("%s/%s", TEST_GOLDEN, g->file), &size);
    test_file_write(path, bytes, size);
    check_settings(path, small, g);

    training_run *run = test_run_open(small, "--resume %s --data %s", path, digits);
    assert_int_equal(run->at.epoch, 1); /* it stopped in the second */
    assert_int_equal(run->s.step, 4);
    test_run_train(run);
    assert_int_equal(run->log.count, EPOCHS);
    for (size_t i = 0; i < EPOCHS; i++) {
        const csv_row *row = &run->log.rows[i];
        if (!(off(row->train_loss, g->train[i]) < 1e-3 && off(row->test_loss, g->test[i]) < 2e-3))
            fail_msg("%s: epoch %zu has the losses %.6f and %.6f, had %.6f and %.6f", g->file,
                i + 1, row->train_loss, row->test_loss, g->train[i], g->test[i]);
    }
    assert_true(off(run->log.rows[EPOCHS - 1].top1, g->top1) < 5); /* one image of 24 */
}

/* A run of this program with the options of `write`, and more. */
static training_run *run_here(const char *name, const char *digits, const char *more)
{
    const trainer_model *small =
        strcmp(write_arguments[1], "resnet") == 0 ? small_resnet() : small_resmlp();
    for (char **argument = write_arguments + 2; *argument != NULL; argument++)
        more = test_text("%s %s", more, *argument);
    training_run *run =
        test_run_open(small, "--data %s --batch-size 16 --epochs 3 --seed 5 --output-dir %s/%s %s",
            digits, write_arguments[0], name, more);
    test_run_train(run);
    return run;
}

/* The file and the row of this program. */
static void write_here(NO_ROW)
{
    const char *digits = make_digits(write_arguments[0]);
    const csv_row *r = run_here("whole", digits, "")->log.rows;
    run_here("part", digits, "--steps 4");
    print_message("{\"NAME.ckpt\", \"PRESET\", \"CRITERION\", {%.9g, %.9g, %.9g}, {%.9g, %.9g, "
                  "%.9g}, %.9g},\n",
        r[0].train_loss, r[1].train_loss, r[2].train_loss, r[0].test_loss, r[1].test_loss,
        r[2].test_loss, r[2].top1);
}

/* test_checkpoint_golden [write FOLDER resmlp|resnet OPTION...] */
int main(int argc, char **argv)
{
    test_list list = {0};
    if (argc > 3 && strcmp(argv[1], "write") == 0) {
        write_arguments = argv + 2;
        test_add(&list, write_here, NULL, "write");
        return test_run_on_each_device("a checkpoint of this program", &list);
    }
    for (size_t i = 0; i < COUNT_OF(files); i++)
        test_add(&list, goes_on, &files[i], "%s", files[i].file);
    return test_run_on_each_device("checkpoints of released programs", &list);
}
