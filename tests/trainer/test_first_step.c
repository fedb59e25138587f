/* The trainer announces how many programs a first step builds or loads. The plan counts them in a
 * dry context; the count must equal that of the step. While it waits for the step it says so, and a
 * signal ends it.
 *
 *     test_first_step [long]
 *
 * long: every preset of both models, on both kernel families. The program runs itself with "stuck"
 * and a device: a run whose first step does not end.
 *
 * A resumed run with another kind of step has no count. */
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "resmlp_model.h"
#include "resnet_model.h"
#include "support/test_folder.h"
#include "support/test_gate.h"
#include "support/test_run.h"
#include "trainer/base/stop.h"
#include "trainer/model/keep_presets.h"

/* Sizes that other tests have, too: they share compiled kernels. */
#define RESMLP "--image-size 16 --patch-size 8 --train-limit 80 --test-limit 40 --batch-size 32 "
#define RESNET                                                                                     \
    "--arch resnet20 --image-size 17 --train-limit 40 --test-limit 20 --batch-size 16 "            \
    "--optimizer sgd --lr 0.05 "

typedef struct first_step {
    const trainer_model *model;
    const char *sizes, *preset;
    const char *debug; /* for $CLPRUNE_DEBUG; NULL: the device's kernel family */
} first_step;

static const char *program;

/* Programs that a run had before it was planned (the probe of tensor cores, if any) and made until
 * its first step was done, as far as they were not built but loaded, too. */
static void counted(void **state)
{
    const first_step *row = *state;
    test_debug(row->debug);
    training_run *run =
        test_run_open(row->model, "%s --steps 1 --activations %s", row->sizes, row->preset);
    const uint64_t planned = run->s.programs;
    test_run_epoch(run);
    const clprune_cache_stats made = clprune_context_cache_stats(run->s.context);
    test_end(run);
    test_debug(NULL);
    assert_true(planned > 10);
    assert_int_equal(made.builds + made.disk_hits, planned);
}

/* A run that finds part of its programs in the cache loads those and builds the others. */
static void partly_loaded(NO_ROW)
{
    static const char *const presets[] = {"dense", "exact"};
    clprune_cache_stats made[2];
    test_environment("CLPRUNE_CACHE_DIR", test_folder());
    for (size_t i = 0; i < 2; i++) {
        training_run *run =
            test_run_open(&resmlp_model, RESMLP "--steps 1 --activations %s", presets[i]);
        test_run_epoch(run);
        made[i] = clprune_context_cache_stats(run->s.context);
        assert_int_equal(made[i].builds + made[i].disk_hits, run->s.programs);
        test_end(run);
    }
    assert_int_equal(made[0].disk_hits, 0);
    assert_true(made[1].disk_hits > 0 && made[1].builds > 0);
}

/* A run that goes on with the last batch of an epoch, which is smaller, or with a test, or that
 * tests only: no number rather than a wrong one. */
static void not_known(NO_ROW)
{
    const char *folder = test_folder();
    for (unsigned steps = 1; steps <= 3; steps++) {
        training_run *run =
            test_run_open(&resmlp_model, RESMLP "--epochs 2 --output-dir %s/%u", folder, steps);
        run->s.options->steps = steps; /* of three an epoch */
        test_run_epoch(run);
        TEST_GOOD(run_save(run, &f));
        test_end(run);
        run = test_run_open(&resmlp_model, "--resume %s/%u/last.ckpt", folder, steps);
        assert_int_equal(run->at.step_in_epoch, steps);
        assert_true((run->s.programs == 0) == (steps >= 2));
        test_end(run);
    }
    assert_int_equal(
        test_run_open(&resmlp_model, "--resume %s/1/last.ckpt --test-only", folder)->s.programs, 0);
}

/* The child. */
static int stuck(const char *device)
{
    test_gate g;
    fault f = {0};
    stop_install();
    test_run_device = device;
    training_run *run = test_run_open(&resmlp_model, RESMLP "--steps 1");
    run->progress = progress_begin(false);
    test_gate_close_for(&g, run->s.context, 60 * 1000);
    (void)run_epoch(run, &f);
    return 1;
}

/* Waits up to a minute for a line that begins with `text`. */
static bool says(const char *path, const char *text)
{
    for (int i = 0; i < 600; i++) {
        const struct timespec moment = {.tv_nsec = 100 * 1000 * 1000};
        size_t size;
        const char *out = test_file_read(path, &size);
        if (strstr(test_text("\n%s", out), text) != NULL)
            return true;
        (void)nanosleep(&moment, NULL);
    }
    return false;
}

/* A driver may compile after the last kernel is built; PoCL does. */
static void stopped(NO_ROW)
{
    const char *path = test_text("%s/out", test_folder());
    int result;
    test_file_write(path, "", 0);
    (void)fflush(stdout);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        const int out = open(path, O_WRONLY | O_APPEND);
        (void)dup2(out, STDOUT_FILENO);
        (void)execl(program, program, "stuck", test_device_selection(), (char *)NULL);
        _exit(9);
    }
    const bool waits = says(path, "\nfirst step: ");
    assert_int_equal(kill(child, waits ? SIGTERM : SIGKILL), 0);
    assert_int_equal(waitpid(child, &result, 0), child);
    assert_true(waits);
    assert_true(says(path, "\nstopped by a signal in the first step; nothing was trained\n"));
    assert_true(WIFEXITED(result));
    assert_int_equal(WEXITSTATUS(result), 128 + SIGTERM);
}

static void add(test_list *list, const first_step *row)
{
    test_add(list, counted, row, "%s, %s%s%s", row->model->program, row->preset,
        row->debug != NULL ? ", " : "", row->debug != NULL ? row->debug : "");
}

/* Every preset but auto, which chooses one after measuring. */
static void add_all(test_list *list, const trainer_model *model, const char *sizes)
{
    enum { MOST = 64 };
    static const char *const families[] = {"kernels=vector", "kernels=tiled"};
    static first_step rows[MOST];
    static size_t used;
    for (size_t i = 0; i < KEEP_PRESETS; i++)
        for (size_t k = 0; k < 2; k++) {
            if (keep_preset_chooses(i))
                continue;
            assert_true(used < MOST);
            rows[used] = (first_step){model, sizes, keep_presets[i].name, families[k]};
            add(list, &rows[used++]);
        }
}

int main(int argc, char **argv)
{
    static const first_step rows[] = {{&resmlp_model, RESMLP, "compact-pruned", NULL},
        /* one batch, which is smaller */
        {&resmlp_model, RESMLP "--batch-size 128 ", "quantised", NULL},
        {&resnet_model, RESNET, "pruned", NULL}, {&resnet_model, RESNET, "exact", "kernels=tiled"}};
    test_list list = {0};
    program = argv[0];
    if (argc == 3 && strcmp(argv[1], "stuck") == 0)
        return stuck(argv[2]);
    if (argc > 1 && strcmp(argv[1], "long") == 0) {
        add_all(&list, &resmlp_model, RESMLP);
        add_all(&list, &resnet_model, RESNET);
        return test_run_on_each_device("first step", &list);
    }
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        add(&list, &rows[i]);
    test_add(&list, partly_loaded, NULL, "some programs are in the cache");
    test_add(&list, not_known, NULL, "not known");
    test_add(&list, stopped, NULL, "stopped while it waits");
    return test_run_on_each_device("first step", &list);
}
