#include "support/test_run.h"

#include <getopt.h>

#include "support/test_folder.h"

const char *test_run_device;

typedef struct opened {
    training_run run; /* first: its address is that of the whole */
    options o;
    fault f;
} opened;

static void close_run(void *of, void *what)
{
    opened *run = what;
    (void)of;
    run_close(&run->run);
    options_close(&run->o);
}

TEST_UNDO(close_options, options_close(what))

/* The run, or a fault. Options point into the words, which live as long as the case. */
static opened *open_run(
    const trainer_model *model, const char *arguments, va_list values, bool *good)
{
    enum { WORDS = 64, SIZE = 4096 };
    opened *run = test_alloc(sizeof *run);
    char **words = test_alloc(WORDS * sizeof *words), *text = test_alloc(SIZE), *rest = text;
    int count = 0;
    const int begin = snprintf(text, SIZE, "%s --quiet --device %s ", model->program,
        test_run_device != NULL ? test_run_device : test_device_selection());
    const int length = vsnprintf(text + begin, (size_t)(SIZE - begin), arguments, values);
    assert_true(begin + length < SIZE);
    for (char *word; (word = strtok_r(rest, " ", &rest)) != NULL; count++) {
        assert_true(count < WORDS - 1);
        words[count] = word;
    }
    optind = 0; /* getopt starts anew */
    *good = options_parse(model, count, words, &run->o, &run->f) &&
            run_open(&run->o, &run->run, &run->f);
    test_later(*good ? close_run : close_options, NULL, *good ? (void *)run : &run->o);
    return run;
}

training_run *test_run_open(const trainer_model *model, const char *arguments, ...)
{
    bool good;
    va_list values;
    va_start(values, arguments);
    opened *run = open_run(model, arguments, values, &good);
    va_end(values);
    if (!good)
        fail_msg("%s: %s", arguments, run->f.text);
    return &run->run;
}

const char *test_run_refused(
    const trainer_model *model, int code, const char *part, const char *arguments, ...)
{
    bool good;
    va_list values;
    va_start(values, arguments);
    opened *run = open_run(model, arguments, values, &good);
    va_end(values);
    const char *text = test_text("%s", run->f.text);
    test_refused(good, &run->f, code, part);
    return text;
}

void test_run_epoch(training_run *run)
{
    TEST_GOOD(run_epoch(run, &f));
}

void test_run_train(training_run *run)
{
    while (run->at.epoch < run->s.options->epochs && !run_must_stop(run) && !run_is_over(run)) {
        test_run_epoch(run);
        if (run_must_stop(run) || run_is_over(run))
            break;
        TEST_GOOD(run_evaluate(run, &f) && run_finish_epoch(run, &f));
    }
    TEST_GOOD(run_save(run, &f));
}

void test_run_whole(const trainer_model *model, const char *arguments, ...)
{
    bool good;
    va_list values;
    va_start(values, arguments);
    opened *run = open_run(model, arguments, values, &good);
    va_end(values);
    test_good(good, &run->f);
    test_run_train(&run->run);
    test_end(run);
}

TEST_UNDO(close_checkpoint, checkpoint_close(what))

const checkpoint *test_checkpoint(const char *path)
{
    checkpoint *c = test_alloc(sizeof *c);
    TEST_GOOD(checkpoint_open(path, c, &f));
    test_later(close_checkpoint, NULL, c);
    return c;
}

const checkpoint_record *test_record(const checkpoint *c, const char *name)
{
    const checkpoint_record *record = checkpoint_find(c, name);
    if (record == NULL)
        fail_msg("%s has no record '%s'", c->path, name);
    return record;
}

const csv_row *test_rows(const char *path, size_t *count)
{
    const checkpoint_record *log = test_record(test_checkpoint(path), "log");
    *count = (size_t)log->rows;
    csv_row *rows = test_alloc((*count + 1) * sizeof *rows);
    for (size_t i = 0; i < *count; i++)
        rows[i] = csv_log_row(log->data, (size_t)log->cols, i);
    return rows;
}
