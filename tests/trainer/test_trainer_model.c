/* The trainer with a model that is not one of the examples' (support/linear_model.h): the trainer
 * needs only the model's table, and a checkpoint restores state that is not a parameter. */
#include "support/linear_model.h"
#include "support/test_folder.h"
#include "support/test_run.h"
#include "trainer/session/gradient_check.h"

static void same_record(const checkpoint *a, const checkpoint *b, const char *name, size_t bytes)
{
    assert_memory_equal(test_record(a, name)->data, test_record(b, name)->data, bytes);
}

/* A run that stops within an epoch and goes on ends as one that does not stop. */
static void state_comes_back(NO_ROW)
{
    const char *folder = test_folder(), *last = test_text("%s/part/last.ckpt", folder);
    test_run_whole(&linear_with_state, LINEAR_SMALL "--epochs 2 --output-dir %s/whole", folder);
    test_run_whole(
        &linear_with_state, LINEAR_SMALL "--epochs 2 --steps 2 --output-dir %s/part", folder);
    const checkpoint_record *mean = test_record(test_checkpoint(last), LINEAR_MEAN);
    assert_int_equal(mean->type, CHECKPOINT_F32);
    assert_int_equal(mean->rows * mean->cols, 4);
    for (size_t i = 0; i < 4; i++) {
        const float value = ((const float *)mean->data)[i];
        assert_true(value < -1e-6f || value > 1e-6f); /* it moved */
    }
    test_run_whole(&linear_with_state, "--resume %s", last);
    const checkpoint *part = test_checkpoint(last),
                     *whole = test_checkpoint(test_text("%s/whole/last.ckpt", folder));
    same_record(whole, part, LINEAR_MEAN, 4 * sizeof(float));
    same_record(whole, part, LINEAR_W, 4 * 768 * sizeof(float));
    same_record(whole, part, LINEAR_COUNT, sizeof(uint64_t));
    assert_int_equal(*(const uint64_t *)test_record(part, LINEAR_COUNT)->data, 6);
    /* the losses of both epochs, which the state decides on */
    const double *a = test_record(whole, "log")->data, *b = test_record(part, "log")->data;
    for (size_t row = 0; row < 2; row++)
        assert_memory_equal(&a[row * CSV_COLUMNS_WITHOUT_NORMS],
            &b[row * CSV_COLUMNS_WITHOUT_NORMS], 6 * sizeof(double));
}

/* A checkpoint must have the states of the model. */
static void state_is_missed(NO_ROW)
{
    const char *folder = test_folder();
    test_run_whole(&linear_without_state, LINEAR_SMALL "--epochs 1 --output-dir %s", folder);
    test_run_refused(
        &linear_with_state, CODE_DATA, "'" LINEAR_MEAN "'", "--resume %s/last.ckpt", folder);
}

/* States that are not finite are not saved. */
static void state_diverges(NO_ROW)
{
    const char *folder = test_folder();
    const float bad[4] = {0, 0, (float)(1e300 * 1e300), 0};
    training_run *run =
        test_run_open(&linear_with_state, LINEAR_SMALL "--epochs 1 --output-dir %s", folder);
    test_run_train(run);
    TEST_OK(clprune_mat_write(run->s.context, run->s.model->states[0].mat, bad));
    TEST_REFUSED(run_save(run, &f), CODE_DIVERGED, LINEAR_MEAN);
    test_end(run);
    test_run_whole(&linear_with_state, "--resume %s/last.ckpt", folder); /* the last good one */
}

/* --gradient-check compares with a model in the same state: this one is dense, so they agree. */
static void gradients_of_the_same_state(NO_ROW)
{
    gradient_check check;
    training_run *run =
        test_run_open(&linear_with_state, LINEAR_SMALL "--steps 3 --gradient-check 1");
    test_run_epoch(run);
    TEST_GOOD(gradient_check_run(&run->s, run->at.epoch, &check, &f));
    assert_int_equal(check.batches, 1);
    assert_true(check.sums[0].exact > 0);
    assert_true(check.sums[0].off <= 0);
    gradient_check_close(&check);
}

/* The first step of each size builds kernels: its time is not counted. */
static void time_of_first_steps(NO_ROW)
{
    training_run *run = test_run_open(
        &linear_with_state, "--train-limit 28 --test-limit 12 --batch-size 8 --epochs 2 --steps 8");
    test_run_epoch(run); /* 8, 8, 8, 4 */
    assert_int_equal(run->epoch.steps, 2);
    assert_int_equal(run->epoch.samples, 8 + 8);
    TEST_GOOD(run_finish_epoch(run, &f));
    test_run_epoch(run);
    assert_int_equal(run->epoch.steps, 4);
    assert_int_equal(run->epoch.samples, 28);
}

/* --memory-limit takes the batch that was given, or the largest, and the mildest preset that fits.
 */
static void limit_of_memory(NO_ROW)
{
    static const char *const batches[] = {"--batch-size 8", "--activations dense"};
    for (size_t i = 0; i < COUNT_OF(batches); i++) {
        training_run *run = test_run_open(&linear_with_state,
            "--train-limit 24 --test-limit 12 --steps 1 --memory-limit 1G %s", batches[i]);
        const options *o = run->s.options;
        assert_int_equal(o->batch_size, i == 0 ? 8 : 24);
        assert_int_equal(o->activations, 0);
        assert_int_equal(o->criterion, CLPRUNE_CRITERION_SAMPLED); /* the preset's */
        assert_true(o->sparsity <= 0);
        test_run_epoch(run);
    }
    const char *said = test_run_refused(
        &linear_with_state, CODE_MEMORY, "", "--steps 1 --batch-size 8 --memory-limit 1K");
    assert_null(strstr(said, "take 0 bytes"));
}

/* What the command line says of a model comes from its table. */
static void options_of_the_model(NO_ROW)
{
    static const char *const refused[][2] = {
        {"--stretch 10", "--stretch: '10' is not a whole number from 1 to 9"},
        {"--image-size 17 --stretch 2 --steps 1", "--image-size 17, --stretch 2: 17 is no size"},
        {"--arch paper", "'paper' is not one of small large"}};
    char *text = NULL;
    size_t size = 0;
    FILE *help = open_memstream(&text, &size);
    assert_non_null(help);
    options_print_help(&linear_with_state, help);
    (void)fclose(help);
    test_says(text, "usage: linear-train");
    test_says(text, "  --stretch N ");
    test_says(text, "small (the default) or large");
    free(text);
    for (size_t i = 0; i < COUNT_OF(refused); i++)
        test_run_refused(&linear_with_state, CODE_USAGE, refused[i][1], "%s", refused[i][0]);
}

int main(void)
{
    test_list list = {0};
    test_add(&list, state_comes_back, NULL, "a state that comes back");
    test_add(&list, state_is_missed, NULL, "a state that is missed");
    test_add(&list, state_diverges, NULL, "a state that diverges");
    test_add(&list, gradients_of_the_same_state, NULL, "gradients of the same state");
    test_add(&list, time_of_first_steps, NULL, "the time of first steps");
    test_add(&list, limit_of_memory, NULL, "a limit of memory");
    test_add(&list, options_of_the_model, NULL, "options of the model");
    return test_run_on_each_device("trainer_model", &list);
}
