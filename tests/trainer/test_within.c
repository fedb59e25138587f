/* --test-steps: tests within epochs. They have rows of their own, change no number of the training,
 * and a run that stopped at any step goes on to the same rows and weights. With the model of
 * support/linear_model.h, three steps an epoch. */
#include "support/linear_model.h"
#include "support/test_dataset.h"
#include "support/test_folder.h"
#include "support/test_run.h"

#define RUN LINEAR_SMALL "--epochs 3 "
enum { STEPS = 9, MOST = 16 };

typedef struct case_row {
    const char *name; /* options */
    int steps[MOST];  /* of the rows; negative: without a test */
} case_row;

static const case_row case_rows[] = {
    {"--test-steps 2", {2, 3, 4, 6, 8, 9}},
    {"--test-steps 1", {1, 2, 3, 4, 5, 6, 7, 8, 9}},
    {"--test-steps 3", {3, 6, 9}},
    {"--test-steps 2 --test-every 0", {2, -3, 4, 6, 8, 9}},
    {"--test-steps 4 --test-every 2", {-3, 4, 6, 8, 9}},
    {"--test-steps 100", {3, 6, 9}},
    {"--test-steps 2 --micro-batches 3", {2, 3, 4, 6, 8, 9}},
};

static const void *weights_of(const char *path)
{
    return test_record(test_checkpoint(path), LINEAR_W)->data;
}

static size_t bytes_of_weights(const char *path)
{
    const checkpoint_record *w = test_record(test_checkpoint(path), LINEAR_W);
    return (size_t)(w->rows * w->cols) * sizeof(float);
}

static void rows(void **state)
{
    const case_row *want = *state;
    const char *folder = test_folder(), *path = test_text("%s/with/last.ckpt", folder),
               *plain = test_text("%s/plain/last.ckpt", folder);
    size_t count, epochs = 0, plain_count;
    const bool passes = strstr(want->name, "micro") != NULL;
    test_run_whole(&linear_with_state, RUN "%s --output-dir %s/with", want->name, folder);
    test_run_whole(&linear_with_state, RUN "%s --output-dir %s/plain",
        passes ? "--micro-batches 3" : "", folder);
    const csv_row *row = test_rows(path, &count), *epoch = test_rows(plain, &plain_count);
    assert_int_equal(plain_count, 3);
    assert_memory_equal(weights_of(path), weights_of(plain), bytes_of_weights(plain));
    for (size_t i = 0; i < MOST && want->steps[i] != 0; i++) {
        const int step = abs(want->steps[i]);
        assert_true(i < count);
        assert_int_equal(row[i].step, step);
        assert_int_equal(row[i].epoch, (step + 2) / 3);
        assert_int_equal(!isnan(row[i].top1), want->steps[i] > 0);
        assert_true(row[i].lr > 0 || step == STEPS);
        if (step % 3 != 0)
            continue;
        assert_true(row[i].train_loss == epoch[epochs].train_loss);
        assert_true(isnan(row[i].top1) || (row[i].test_loss == epoch[epochs].test_loss &&
                                              row[i].top1 == epoch[epochs].top1));
        epochs++;
    }
    assert_int_equal(epochs, 3);
    assert_true(count == MOST || want->steps[count] == 0);
}

/* The test is that of the weights of the moment, and train_loss the mean of the steps so far. */
static void numbers(NO_ROW)
{
    const char *folder = test_folder();
    size_t count;
    test_run_whole(&linear_with_state, RUN "--test-steps 2 --output-dir %s/with", folder);
    const csv_row *row = test_rows(test_text("%s/with/last.ckpt", folder), &count);
    training_run *run = test_run_open(&linear_with_state, RUN "--steps 5");
    test_run_epoch(run);
    TEST_GOOD(run_evaluate(run, &f) && run_finish_epoch(run, &f));
    run->s.options->steps = 4;
    test_run_epoch(run);
    TEST_GOOD(run_evaluate(run, &f));
    assert_int_equal(row[2].step, 4);
    assert_true(run->test_loss == row[2].test_loss && run->top1 == row[2].top1);
    assert_true(run->at.sums.loss / (double)run->at.sums.samples == row[2].train_loss);
}

static void goes_on(void **state)
{
    const uint64_t stop = *(const uint64_t *)*state;
    static const char tests[] = "--test-steps 2 --best";
    const char *folder = test_folder();
    test_run_whole(&linear_with_state, RUN "%s --output-dir %s/whole", tests, folder);
    test_run_whole(
        &linear_with_state, RUN "%s --steps %zu --output-dir %s/part", tests, (size_t)stop, folder);
    test_run_whole(&linear_with_state, "--resume %s/part/last.ckpt", folder);
    for (int i = 0; i < 2; i++) {
        const char *name = i == 0 ? "last" : "best";
        const char *whole = test_text("%s/whole/%s.ckpt", folder, name),
                   *part = test_text("%s/part/%s.ckpt", folder, name);
        size_t count, part_count;
        const csv_row *a = test_rows(whole, &count), *b = test_rows(part, &part_count);
        assert_int_equal(count, part_count);
        for (size_t k = 0; k < count; k++)
            assert_memory_equal(&a[k], &b[k], 6 * sizeof(double)); /* up to top1 */
        assert_memory_equal(weights_of(whole), weights_of(part), bytes_of_weights(whole));
        const checkpoint_record *position = test_record(test_checkpoint(whole), "position");
        assert_memory_equal(position->data, test_record(test_checkpoint(part), "position")->data,
            6 * sizeof(uint64_t));
    }
}

static uint64_t since_best(const csv_row *row, size_t count)
{
    csv_log log;
    TEST_GOOD(csv_log_open(&log, &row->epoch, CSV_COLUMNS, count, &f));
    const uint64_t since = csv_log_best(&log, false).since;
    csv_log_close(&log);
    return since;
}

/* The tests within an epoch count for --patience, which ends the run there: not at a third step. */
static void over(NO_ROW)
{
    const char *folder = test_folder();
    test_run_whole(&linear_with_state,
        RUN "--lr 0 --test-steps 1 --patience 3 --best --output-dir %s", folder);
    size_t count, count_then;
    const csv_row *row = test_rows(test_text("%s/last.ckpt", folder), &count);
    assert_int_equal(since_best(row, count), 3);
    assert_int_equal(since_best(row, count - 1), 2);
    assert_true(count < STEPS && count % 3 != 0);
    training_run *run = test_run_open(&linear_with_state, "--resume %s/last.ckpt", folder);
    assert_true(run_is_over(run));
    assert_int_equal(run->at.step_in_epoch, count % 3);
    test_run_train(run);
    assert_int_equal(run->s.step, count);
    test_end(run);
    test_run_whole(&linear_with_state, "--resume %s/last.ckpt --patience 0", folder);
    (void)test_rows(test_text("%s/last.ckpt", folder), &count_then);
    assert_int_equal(count_then, STEPS);
}

int main(void)
{
    static const uint64_t stops[] = {1, 2, 3, 4, 5, 6, 7, 8};
    test_list list = {0};
    TEST_ADD_EACH(&list, rows, case_rows, "%s");
    test_add(&list, numbers, NULL, "the numbers of a row");
    for (size_t i = 0; i < COUNT_OF(stops); i++)
        test_add(&list, goes_on, &stops[i], "stopped after step %zu", (size_t)stops[i]);
    test_add(&list, over, NULL, "--patience");
    return test_run_on_each_device("tests within epochs", &list);
}
