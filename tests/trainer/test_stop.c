/* Signals: a run stops after the first. One that comes twice at once, as from timeout(1), is one;
 * one that comes a second later ends the program. SIGUSR1 asks to save, and limits of the process
 * do not end it. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "support/test_device.h"
#include "support/test_folder.h"
#include "trainer/base/stop.h"

static void pause_for(long milliseconds)
{
    const struct timespec time = {milliseconds / 1000, milliseconds % 1000 * 1000000};
    (void)nanosleep(&time, NULL);
}

/* A program that never comes to its end says 'u' when it is to save, 's' when it is to stop. */
static pid_t begin(int *told, void (*hang_up)(int))
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    const pid_t child = fork();
    assert_true(child >= 0);
    *told = ends[0];
    if (child > 0) {
        (void)close(ends[1]);
        return child;
    }
    (void)alarm(60); /* else it would outlive a test that fails */
    (void)signal(SIGHUP, hang_up);
    stop_install();
    (void)!write(ends[1], "r", 1);
    while (stop_signal() == 0) {
        if (stop_save_asked()) {
            stop_save_begins();
            (void)!write(ends[1], "u", 1);
        }
        pause_for(1);
    }
    (void)!write(ends[1], stop_signal() == SIGTERM ? "s" : "?", 1);
    for (;;)
        pause_for(1000);
}

static char next(int told)
{
    char c = 0;
    assert_int_equal(read(told, &c, 1), 1);
    return c;
}

static void twice_at_once(void **state)
{
    (void)state;
    int told, result;
    const pid_t child = begin(&told, SIG_DFL);
    assert_int_equal(next(told), 'r');
    assert_int_equal(kill(child, SIGTERM), 0);
    assert_int_equal(next(told), 's');
    assert_int_equal(kill(child, SIGTERM), 0);
    assert_int_equal(kill(child, SIGINT), 0);
    pause_for(100);
    assert_int_equal(waitpid(child, &result, WNOHANG), 0);
    pause_for(1000);
    assert_int_equal(waitpid(child, &result, WNOHANG), 0);
    assert_int_equal(kill(child, SIGINT), 0);
    assert_int_equal(waitpid(child, &result, 0), child);
    assert_true(WIFEXITED(result));
    assert_int_equal(WEXITSTATUS(result), 128 + SIGINT);
    (void)close(told);
}

/* A terminal that is closed asks to stop; under nohup(1), which has the signal ignored, it does
 * not. */
static void hang_up(void **state)
{
    (void)state;
    int told, result;
    pid_t child = begin(&told, SIG_DFL);
    assert_int_equal(next(told), 'r');
    assert_int_equal(kill(child, SIGHUP), 0);
    assert_int_equal(next(told), '?');
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, &result, 0), child);
    (void)close(told);

    child = begin(&told, SIG_IGN);
    assert_int_equal(next(told), 'r');
    assert_int_equal(kill(child, SIGHUP), 0);
    pause_for(100);
    assert_int_equal(kill(child, SIGTERM), 0);
    assert_int_equal(next(told), 's');
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, &result, 0), child);
    (void)close(told);
}

/* Each SIGUSR1 asks once, also of a program that goes on. */
static void save(void **state)
{
    (void)state;
    int told, result;
    const pid_t child = begin(&told, SIG_DFL);
    assert_int_equal(next(told), 'r');
    for (int i = 0; i < 2; ++i) {
        assert_int_equal(kill(child, SIGUSR1), 0);
        assert_int_equal(next(told), 'u');
    }
    pause_for(1100);
    assert_int_equal(kill(child, SIGUSR1), 0);
    assert_int_equal(next(told), 'u');
    assert_int_equal(kill(child, SIGTERM), 0);
    assert_int_equal(next(told), 's');
    assert_int_equal(kill(child, SIGUSR1), 0);
    pause_for(1100);
    assert_int_equal(kill(child, SIGUSR1), 0); /* no second signal */
    pause_for(100);
    assert_int_equal(waitpid(child, &result, WNOHANG), 0);
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, &result, 0), child);
    (void)close(told);
}

/* At its limit of processor time a program gets a signal in each second. */
static void processor_time(void **state)
{
    (void)state;
    int told, result;
    const pid_t child = begin(&told, SIG_DFL);
    assert_int_equal(next(told), 'r');
    assert_int_equal(kill(child, SIGXCPU), 0);
    assert_int_equal(next(told), '?');
    pause_for(1100);
    assert_int_equal(kill(child, SIGXCPU), 0);
    pause_for(100);
    assert_int_equal(waitpid(child, &result, WNOHANG), 0);
    assert_int_equal(kill(child, SIGTERM), 0);
    assert_int_equal(waitpid(child, &result, 0), child);
    assert_true(WIFEXITED(result));
    assert_int_equal(WEXITSTATUS(result), 128 + SIGTERM);
    (void)close(told);
}

/* A file at its limit is an error. */
static void file_size(void **state)
{
    (void)state;
    const char *name = test_text("%s/limited", test_folder());
    int result;
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        const struct rlimit none = {0, 0};
        stop_install();
        const int file = open(name, O_WRONLY | O_CREAT, 0600);
        _exit(file < 0 || setrlimit(RLIMIT_FSIZE, &none) != 0 || write(file, "x", 1) != -1 ||
              errno != EFBIG);
    }
    assert_int_equal(waitpid(child, &result, 0), child);
    assert_int_equal(result, 0);
}

int main(void)
{
    test_list list = {0};
    test_add(&list, twice_at_once, NULL, "a signal that comes twice at once");
    test_add(&list, hang_up, NULL, "a terminal that is closed");
    test_add(&list, save, NULL, "a checkpoint");
    test_add(&list, processor_time, NULL, "the limit of processor time");
    test_add(&list, file_size, NULL, "the limit of a file");
    return test_run_on_host("stop", &list);
}
