/* The gradient's norm in the log: the mean of the epoch's steps so far, before clipping; also in a
 * run that goes on. Without --clip-norm neither log nor checkpoint has it. With the model of
 * support/linear_model.h, three steps an epoch. */
#include "support/linear_model.h"
#include "support/test_dataset.h"
#include "support/test_folder.h"
#include "support/test_run.h"

#define RUN  LINEAR_SMALL "--epochs 2 "
#define HUGE "--clip-norm 1e20 " /* clips nothing, so that the gradients stay */
enum { STEPS = 6 };

static double norm_of(const training_run *run)
{
    double sum = 0;
    for (size_t i = 0; i < run->s.params_count; i++) {
        const clprune_mat grad = run->s.params[i].grad;
        const size_t count = grad.rows * grad.cols;
        float *values = test_floats(count);
        TEST_OK(clprune_mat_read(run->s.context, grad, values));
        for (size_t k = 0; k < count; k++)
            sum += (double)values[k] * (double)values[k];
    }
    return sqrt(sum);
}

/* The norms of all steps. */
static void measure(const char *more, double norms[STEPS])
{
    training_run *run = test_run_open(&linear_with_state, RUN HUGE "--steps 1 %s", more);
    for (uint64_t step = 1; step <= STEPS; step++) {
        run->s.options->steps = step;
        test_run_epoch(run);
        norms[step - 1] = norm_of(run);
        if (step % 3 == 0)
            TEST_GOOD(run_evaluate(run, &f) && run_finish_epoch(run, &f));
    }
    test_end(run);
}

static void measured(void **state)
{
    const char *more = *state, *folder = test_folder();
    double norms[STEPS];
    size_t count;
    measure(more, norms);
    test_run_whole(&linear_with_state, RUN HUGE "--test-steps 1 %s --output-dir %s", more, folder);
    const csv_row *row = test_rows(test_text("%s/last.ckpt", folder), &count);
    assert_int_equal(count, STEPS);
    for (size_t i = 0; i < STEPS; i++) {
        double sum = 0;
        for (size_t k = i / 3 * 3; k <= i; k++)
            sum += norms[k] / (double)(i % 3 + 1);
        assert_near(row[i].grad_norm, sum, 1e-5 * sum, "the norm of a row");
    }
}

/* The norm is that before clipping, and clipping is as it was without the log. */
static void clipped(NO_ROW)
{
    const char *folder = test_folder();
    double norms[STEPS];
    size_t count;
    measure("", norms);
    test_run_whole(
        &linear_with_state, RUN "--clip-norm 0.01 --test-steps 1 --output-dir %s", folder);
    const csv_row *row = test_rows(test_text("%s/last.ckpt", folder), &count);
    assert_near(row[0].grad_norm, norms[0], 1e-5 * norms[0], "the norm of the first step");
    training_run *run = test_run_open(&linear_with_state, RUN "--clip-norm 0.01 --steps 1");
    test_run_epoch(run);
    assert_near(norm_of(run), 0.01, 1e-6, "the norm after clipping");
}

static const char *log_of(const char *folder)
{
    size_t size;
    return test_file_read(test_text("%s/log.csv", folder), &size);
}

/* Stopped after each step, also with the norms of its epoch in the checkpoint. */
static void goes_on(NO_ROW)
{
    const char *folder = test_folder();
    size_t count, part_count;
    test_run_whole(&linear_with_state, RUN "--clip-norm 0.5 --output-dir %s/whole", folder);
    const csv_row *whole = test_rows(test_text("%s/whole/last.ckpt", folder), &count);
    for (size_t stop = 1; stop < STEPS; stop++) {
        const char *part = test_text("%s/part%zu", folder, stop);
        test_run_whole(
            &linear_with_state, RUN "--clip-norm 0.5 --steps %zu --output-dir %s", stop, part);
        const checkpoint *c = test_checkpoint(test_text("%s/last.ckpt", part));
        assert_true(
            ((const double *)test_record(c, "norms")->data)[1] == (double)((stop - 1) % 3 + 1));
        test_run_whole(&linear_with_state, "--resume %s/last.ckpt", part);
        const csv_row *row = test_rows(test_text("%s/last.ckpt", part), &part_count);
        assert_int_equal(count, part_count);
        for (size_t i = 0; i < count; i++)
            assert_true(row[i].grad_norm == whole[i].grad_norm && row[i].grad_norm > 0);
    }
    test_says(log_of(test_text("%s/whole", folder)), ",peak_bytes,grad_norm\n1,3,");
}

/* A run that clips from some epoch on has empty fields before, and one that no longer clips later.
 */
static void turned(NO_ROW)
{
    const char *folder = test_folder(), *last = test_text("%s/last.ckpt", folder);
    size_t count;
    test_run_whole(&linear_with_state, RUN "--output-dir %s", folder);
    const checkpoint *c = test_checkpoint(last);
    assert_int_equal(test_record(c, "log")->cols, CSV_COLUMNS_WITHOUT_NORMS);
    assert_null(strstr(log_of(folder), "grad_norm"));
    test_run_whole(&linear_with_state, "--resume %s --epochs 3 --clip-norm 1", last);
    test_run_whole(&linear_with_state, "--resume %s --epochs 4 --clip-norm 0", last);
    const csv_row *row = test_rows(last, &count);
    assert_int_equal(count, 4);
    for (size_t i = 0; i < count; i++)
        assert_int_equal(isnan(row[i].grad_norm), i != 2);
    /* each row has as many commas as the header */
    int commas = -1, here = 0;
    for (const char *text = log_of(folder); *text != '\0' && text < strchr(text, '\0'); text++) {
        here += *text == ',';
        if (*text != '\n')
            continue;
        assert_true(commas < 0 || here == commas);
        commas = here;
        here = 0;
    }
    assert_int_equal(commas, CSV_COLUMNS - 1);
}

/* Numbers that no run has. */
static void nonsense(NO_ROW)
{
    static const double bad[][2] = {
        {-1, 1}, {1, 2}, {1, 0.5}, {(double)NAN, 1}, {1, (double)NAN}, {(double)INFINITY, 1}};
    const char *folder = test_folder(), *last = test_text("%s/last.ckpt", folder);
    test_run_whole(&linear_with_state, RUN HUGE "--steps 4 --output-dir %s", folder);
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        const checkpoint *c = test_checkpoint(last);
        const char *other = test_text("%s/%zu", folder, i);
        checkpoint_writer writer;
        TEST_GOOD(checkpoint_create(other, &writer, &f));
        for (size_t k = 0; k < c->count; k++) {
            const checkpoint_record *r = &c->records[k];
            checkpoint_put(&writer, r->name, r->type, r->rows, r->cols,
                strcmp(r->name, "norms") == 0 ? bad[i] : r->data);
        }
        TEST_GOOD(checkpoint_commit(&writer, &f));
        test_run_refused(
            &linear_with_state, CODE_DATA, "norms of gradients", "--resume %s --steps 1", other);
    }
}

int main(void)
{
    test_list list = {0};
    test_add(&list, measured, "", "measured");
    test_add(&list, measured, "--micro-batches 4", "measured in passes");
    test_add(&list, clipped, NULL, "before clipping");
    test_add(&list, goes_on, NULL, "a resumed run");
    test_add(&list, turned, NULL, "--clip-norm turned on and off");
    test_add(&list, nonsense, NULL, "nonsense in a checkpoint");
    return test_run_on_each_device("the gradient's norm", &list);
}
