/* The line that a run rewrites: it fits the terminal, and shows no speed before one was
 * measured. */
#include <fcntl.h>
#include <unistd.h>

#include "support/test_device.h"
#include "support/test_folder.h"
#include "trainer/report/progress.h"

static const progress_values far_on = {.epoch = 12,
    .epochs = 100,
    .step = 345,
    .steps = 1563,
    .loss = 2.25,
    .speed = 812.25,
    .unit = "img/s",
    .step_ms = 78.75,
    .eta = 3723};

static void lines(NO_ROW)
{
    static const struct {
        size_t width;
        const char *text;
    } rows[] = {
        {200, "epoch 12/100  step 345/1563  loss 2.2500  812.2 img/s  78.8 ms/step  ETA 1:02:03"},
        {82, "epoch 12/100  step 345/1563  loss 2.2500  812.2 img/s  78.8 ms/step  ETA 1:02:03"},
        {79, "epoch 12/100  step 345/1563  loss 2.2500  78.8 ms/step  ETA 1:02:03"},
        {60, "epoch 12/100  step 345/1563  loss 2.2500  ETA 1:02:03"},
        {20, "epoch 12/100  step 3"},
        {0, ""},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char text[512];
        progress_line(&far_on, rows[i].width, text, sizeof text);
        assert_string_equal(text, rows[i].text);
    }
}

static void every_width(NO_ROW)
{
    for (size_t width = 0; width < 120; width++) {
        char text[512];
        progress_line(&far_on, width, text, sizeof text);
        assert_true(strlen(text) <= width);
    }
}

/* After the first step, which built the kernels, there is no time to go by. */
static void no_speed_yet(NO_ROW)
{
    char text[512];
    progress_values first = far_on;
    first.speed = first.step_ms = first.eta = (double)NAN;
    progress_line(&first, 200, text, sizeof text);
    assert_string_equal(text, "epoch 12/100  step 345/1563  loss 2.2500");
}

/* stdout is no terminal in a test: $COLUMNS decides, as far as it makes sense. */
static void width_of_the_environment(NO_ROW)
{
    static const struct {
        const char *columns;
        size_t width;
    } rows[] = {{"40", 40}, {"0", 80}, {"wide", 80}, {"-5", 80}, {"99999", 80}, {NULL, 80}};
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        test_environment("COLUMNS", rows[i].columns);
        assert_int_equal(progress_width(), rows[i].width);
    }
}

/* What a run says of `built` kernels of `all`, or without any of a first step after `seconds`,
 * elsewhere than on a terminal, which stdout may be; and, two seconds later, of one kernel more. */
static void build_line(uint64_t built, uint64_t all, double seconds, const char *line)
{
    const char *path = test_text("%s/out", test_folder());
    size_t size;
    progress p = {.printed = clock_seconds() - 60};
    (void)fflush(stdout);
    const int kept = dup(STDOUT_FILENO), out = open(path, O_CREAT | O_WRONLY, 0600);
    assert_true(kept >= 0 && out >= 0 && dup2(out, STDOUT_FILENO) >= 0);
    if (built > 0)
        progress_built(&p, built, all);
    else
        progress_waiting(&p, "first step", seconds);
    progress_built(&p, built + 1, all); /* too soon */
    progress_waiting(&p, "first step", seconds + 1);
    p.printed -= 2; /* but not if how many there are was not known */
    progress_built(&p, built + 1, built + 2);
    assert_true(dup2(kept, STDOUT_FILENO) >= 0);
    (void)close(kept);
    (void)close(out);
    assert_string_equal((char *)test_file_read(path, &size), line);
    assert_int_equal(size, strlen(line));
}

static void kernels(NO_ROW)
{
    build_line(3, 37, 0, "building kernels: 3 of 37\n");
    build_line(37, 37, 0, "building kernels: 37 of 37\n");
    build_line(38, 37, 0, "building kernels: 38 so far\nbuilding kernels: 39 of 40\n");
    build_line(5, 0, 0, "building kernels: 5 so far\nbuilding kernels: 6 of 7\n");
    build_line(0, 0, 12.3, "first step: 12 s\n");
}

int main(void)
{
    test_list list = {0};
    test_add(&list, lines, NULL, "lines");
    test_add(&list, every_width, NULL, "every width");
    test_add(&list, no_speed_yet, NULL, "no speed yet");
    test_add(&list, kernels, NULL, "kernels");
    if (!progress_begin(false).terminal)
        test_add(&list, width_of_the_environment, NULL, "width of the environment");
    return test_run_on_host("progress", &list);
}
