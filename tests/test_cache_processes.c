/* One cache folder, many processes at once, some of them killed: every result is right. This
 * program runs itself: without arguments as the parent, with a folder as a child. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "support/test_device.h"
#include "support/test_folder.h"

enum { CHILDREN = 4, ROUNDS = 3, KILLS = 8 };

static const char *program;

/* The child: runs three different programs from the cache and checks what they do. */
static int child(const char *dir)
{
    clprune_context *context = NULL;
    const clprune_context_options options = {.cache_dir = dir};
    if (clprune_context_create(NULL, &options, &context) != CLPRUNE_SUCCESS)
        return 2;
    int wrong = 0;
    enum { ROWS = 64, COLS = 20 };
    clprune_mat mat, out;
    static float values[ROWS * COLS];
    if (clprune_mat_create(context, CLPRUNE_MEMORY_INPUT, "m", ROWS, COLS, &mat) ||
        clprune_mat_create(context, CLPRUNE_MEMORY_INPUT, "out", ROWS, COLS, &out) ||
        clprune_mat_fill(context, 1.25f, mat, NULL) ||
        clprune_relu_forward(context, mat, CLPRUNE_NO_MAT, mat, CLPRUNE_NO_MAT, NULL) ||
        clprune_token_mean_forward(context, ROWS, 1, mat, out, NULL) ||
        clprune_mat_read(context, out, values))
        wrong = 3;
    for (size_t i = 0; i < ROWS * COLS; i++)
        wrong = values[i] == 1.25f ? wrong : 4;
    clprune_context_destroy(context);
    return wrong;
}

static pid_t start(const char *dir)
{
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        (void)execl(program, program, dir, (char *)NULL);
        _exit(9);
    }
    return pid;
}

static int finish(pid_t pid)
{
    int status = -1;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return status;
}

static void at_once(void **state)
{
    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        char base[TEST_PATH], dir[TEST_PATH + 8];
        pid_t pids[CHILDREN];
        test_folder_make(base);
        (void)snprintf(dir, sizeof dir, "%s/cache", base);
        for (int i = 0; i < CHILDREN; i++)
            pids[i] = start(dir);
        for (int i = 0; i < CHILDREN; i++)
            assert_int_equal(finish(pids[i]), 0);
        assert_int_equal(test_folder_count(dir, NULL), 3);
        test_folder_remove(base);
    }
}

static void killed(void **state)
{
    (void)state;
    char base[TEST_PATH], dir[TEST_PATH + 8];
    test_folder_make(base);
    (void)snprintf(dir, sizeof dir, "%s/cache", base);
    for (long i = 0; i < KILLS; i++) {
        const pid_t pid = start(dir);
        const struct timespec wait = {0, 8000000L * (i + 1)};
        (void)nanosleep(&wait, NULL);
        (void)kill(pid, SIGKILL);
        (void)finish(pid);
        assert_int_equal(finish(start(dir)), 0);
        test_folder_remove(dir);
    }
    test_folder_remove(base);
}

int main(int argc, char **argv)
{
    if (argc > 1)
        return child(argv[1]);
    program = argv[0];
    test_list list = {0};
    test_add(&list, at_once, NULL, "%d processes with a cold cache, %d times", CHILDREN, ROUNDS);
    test_add(&list, killed, NULL, "a process killed at %d moments", KILLS);
    return test_run_on_host("cache processes", &list);
}
