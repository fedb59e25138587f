/* --best, --patience: the checkpoint of the best test stays beside the last one, also in runs that
 * go on; after so many tests that were no better a run is over. With the model of
 * support/linear_model.h, and tests whose results are given. */
#include <unistd.h>

#include "support/linear_model.h"
#include "support/test_dataset.h"
#include "support/test_folder.h"
#include "support/test_run.h"

/* The best of rows, one a letter: 'a' has the lowest top-1 and the highest loss; '.' has no test.
 */
typedef struct best_row {
    const char *name;
    int best;       /* the row; -1: none */
    uint64_t since; /* tests after it */
} best_row;

static const best_row best_rows[] = {{"", -1, 0}, {"..", -1, 0}, {"a", 0, 0}, {".a..", 1, 0},
    {"abc", 2, 0}, {"cba", 0, 2}, {"acbc", 1, 2}, {"b.a.c", 4, 0}, {"b.a.b.a", 0, 3}};

static void best_of_log(void **state)
{
    const best_row *want = *state;
    csv_log log;
    TEST_GOOD(csv_log_open(&log, NULL, CSV_COLUMNS, 0, &f));
    for (size_t i = 0; want->name[i] != '\0'; i++) {
        const bool tested = want->name[i] != '.';
        const double better = want->name[i] - 'a';
        const csv_row row = {.epoch = (double)i + 1,
            .test_loss = tested ? 9 - better : (double)NAN,
            .top1 = tested ? 10 * better : (double)NAN};
        TEST_GOOD(csv_log_add(&log, &row, &f));
    }
    for (int by_loss = 0; by_loss < 2; by_loss++) {
        const csv_best best = csv_log_best(&log, by_loss);
        assert_int_equal(best.row == NULL ? -1 : (int)(best.row - log.rows), want->best);
        assert_int_equal(best.since, want->since);
    }
    csv_log_close(&log);
}

/* By top-1 and by loss the best may be others. */
static void ranked(NO_ROW)
{
    const csv_row rows[] = {
        {.test_loss = 2, .top1 = 50}, {.test_loss = 1, .top1 = 40}, {.test_loss = 3, .top1 = 60}};
    csv_log log;
    TEST_GOOD(csv_log_open(&log, &rows->epoch, CSV_COLUMNS, COUNT_OF(rows), &f));
    assert_int_equal(csv_log_best(&log, false).row - log.rows, 2);
    assert_int_equal(csv_log_best(&log, true).row - log.rows, 1);
    assert_int_equal(csv_log_best(&log, true).since, 1);
    csv_log_close(&log);
}

/* Epochs whose tests have these results, in place of real ones. */
static void epochs_of(training_run *run, const double *top1, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        assert_false(run_is_over(run));
        test_run_epoch(run);
        run->test_loss = 1;
        run->top1 = top1[run->at.epoch];
        TEST_GOOD(run_finish_epoch(run, &f));
    }
}

static const double top1[] = {20, 40, 30, 40, 50, 10, 20, 30};

static uint64_t steps_in(const char *folder, const char *name)
{
    const char *path = test_text("%s/%s", folder, name);
    return ((const uint64_t *)test_record(test_checkpoint(path), "position")->data)[2];
}

/* The file is of the best test so far, 3 steps an epoch, and has its row. */
static void keeps_best(NO_ROW)
{
    const char *folder = test_folder(), *path = test_text("%s/best.ckpt", folder);
    static const uint64_t steps[] = {3, 6, 6, 6, 15, 15};
    training_run *run =
        test_run_open(&linear_with_state, LINEAR_SMALL "--epochs 6 --best --output-dir %s", folder);
    for (size_t i = 0; i < COUNT_OF(steps); i++) {
        epochs_of(run, top1, 1);
        assert_int_equal(steps_in(folder, "best.ckpt"), steps[i]);
    }
    const checkpoint *c = test_checkpoint(path);
    assert_int_equal(test_record(c, "log")->rows, 5);
    TEST_GOOD(run_save(run, &f));
    test_end(run);
    assert_int_equal(steps_in(folder, "last.ckpt"), 18);
    /* another run does not replace it */
    test_run_refused(&linear_with_state, CODE_USAGE, "there is a run already (last.ckpt)",
        LINEAR_SMALL "--output-dir %s", folder);
    assert_int_equal(unlink(test_text("%s/last.ckpt", folder)), 0);
    assert_int_equal(unlink(test_text("%s/log.csv", folder)), 0);
    test_run_refused(&linear_with_state, CODE_USAGE, "there is a run already (best.ckpt)",
        LINEAR_SMALL "--output-dir %s", folder);
}

/* A run that goes on knows the best test before. */
static void goes_on(NO_ROW)
{
    const char *folder = test_folder();
    training_run *run = test_run_open(
        &linear_with_state, LINEAR_SMALL "--epochs 6 --best --patience 3 --output-dir %s", folder);
    epochs_of(run, top1, 3);
    TEST_GOOD(run_save(run, &f));
    test_end(run);
    run = test_run_open(&linear_with_state, "--resume %s/last.ckpt", folder);
    assert_int_equal(run_best(run).row->step, 6);
    assert_int_equal(run_best(run).since, 1);
    epochs_of(run, top1, 1); /* as good is no better */
    assert_int_equal(steps_in(folder, "best.ckpt"), 6);
    epochs_of(run, top1, 1);
    assert_int_equal(steps_in(folder, "best.ckpt"), 15);
    test_end(run);
    /* from the best one, and from the last into another folder */
    run = test_run_open(
        &linear_with_state, "--resume %s/best.ckpt --output-dir %s/x --epochs 8", folder, folder);
    assert_int_equal(run->at.epoch, 5);
    epochs_of(run, top1, 3);
    assert_int_equal(access(test_text("%s/x/best.ckpt", folder), F_OK), -1);
    assert_true(run_is_over(run)); /* 10, 20, 30 after 50 */
    char text[96];
    run_best_text(run, text, sizeof text);
    assert_string_equal(text, "top-1 50.00 % after step 15");
    TEST_GOOD(run_save(run, &f));
    test_end(run);
    run = test_run_open(&linear_with_state, "--resume %s/x/last.ckpt", folder);
    assert_true(run_is_over(run));
    test_end(run);
    run = test_run_open(&linear_with_state, "--resume %s/x/last.ckpt --patience 4", folder);
    assert_false(run_is_over(run));
}

/* The weights in the file are those that were tested. */
static void same_test(NO_ROW)
{
    const char *folder = test_folder();
    test_run_whole(&linear_with_state, LINEAR_SMALL "--epochs 4 --best --output-dir %s", folder);
    size_t count;
    const csv_row *row = test_rows(test_text("%s/best.ckpt", folder), &count);
    row += count - 1;
    training_run *run =
        test_run_open(&linear_with_state, "--resume %s/best.ckpt --test-only", folder);
    TEST_GOOD(run_evaluate(run, &f));
    assert_true(run->test_loss == row->test_loss && run->top1 == row->top1);
}

static void refused(NO_ROW)
{
    test_run_refused(&linear_with_state, CODE_USAGE, "--best does not go with --test-only",
        "--resume x --test-only --best");
    test_run_refused(&linear_with_state, CODE_USAGE, "--patience does not go with --test-only",
        "--resume x --test-only --patience 2");
    test_run_refused(&linear_with_state, CODE_USAGE, "--patience", LINEAR_SMALL "--patience -1");
}

int main(void)
{
    test_list list = {0};
    TEST_ADD_EACH(&list, best_of_log, best_rows, "the best of '%s'");
    test_add(&list, ranked, NULL, "by top-1 and by loss");
    test_add(&list, keeps_best, NULL, "best.ckpt");
    test_add(&list, goes_on, NULL, "a resumed run");
    test_add(&list, same_test, NULL, "the weights of the best test");
    test_add(&list, refused, NULL, "refused");
    return test_run_on_each_device("best", &list);
}
