#include "trainer/base/stop.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>
#include <unistd.h> /* _exit */

static atomic_int asked;
static _Atomic int64_t asked_at; /* milliseconds */
static atomic_bool held;
static atomic_bool save_asked;
static void (*before_end)(void);

static _Noreturn void end(int number)
{
    if (before_end != NULL)
        before_end();
    _exit(128 + number);
}

/* A second signal ends the program unless it comes within a second: timeout(1) sends its signal
 * twice at once. SIGXCPU comes again in each second of processor time. */
static void ask(int number)
{
    struct timespec now;
    int64_t first = 0;
    if (number == SIGUSR1) {
        atomic_store(&save_asked, true);
        return;
    }
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    const int64_t milliseconds = (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
    if (atomic_compare_exchange_strong(&asked_at, &first, milliseconds))
        atomic_store(&asked, number);
    else if (milliseconds - first >= 1000 && number != SIGXCPU)
        end(number);
}

static void *listen(void *signals)
{
    for (;;) {
        const struct timespec second = {.tv_sec = 1};
        struct pollfd output = {.fd = STDOUT_FILENO, .events = POLLOUT};
        int number = 0;
        if (stop_signal() == 0)
            (void)sigwait(signals, &number);
        else
            number = sigtimedwait(signals, NULL, &second);
        if (number > 0)
            ask(number);
        else if (stop_signal() != 0 && !atomic_load(&held) && poll(&output, 1, 0) == 0)
            end(stop_signal());
    }
    return NULL;
}

void stop_before_end(void (*call)(void))
{
    before_end = call;
}

void stop_hold(bool hold)
{
    atomic_store(&held, hold);
}

/* The signals go to a thread of their own; all other threads block them. Otherwise a signal could
 * reach the handlers of a compiler inside of an OpenCL driver, which remove its files and fail the
 * build. */
void stop_install(void)
{
    static const int asks[] = {SIGINT, SIGTERM, SIGXCPU, SIGUSR1};
    static sigset_t signals;
    struct sigaction action = {.sa_handler = ask, .sa_flags = SA_RESTART};
    struct sigaction hang_up;
    pthread_t listener;
    (void)sigemptyset(&action.sa_mask);
    /* A shell may have signals ignored for a background job; ignored ones would never become
     * pending. A hang-up is one of a terminal that is closed; nohup(1) has it ignored on purpose.
     */
    (void)sigemptyset(&signals);
    for (size_t i = 0; i < sizeof asks / sizeof *asks; ++i) {
        (void)sigaction(asks[i], &action, NULL);
        (void)sigaddset(&signals, asks[i]);
    }
    (void)signal(SIGCHLD, SIG_DFL); /* else PoCL cannot wait for its linker, and aborts */
    (void)signal(SIGXFSZ, SIG_IGN); /* writing beyond a limit fails, as on a full disk */
    if (sigaction(SIGHUP, NULL, &hang_up) == 0 && hang_up.sa_handler != SIG_IGN) {
        (void)sigaction(SIGHUP, &action, NULL);
        (void)sigaddset(&signals, SIGHUP);
    }
    (void)pthread_sigmask(SIG_BLOCK, &signals, NULL);
    if (pthread_create(&listener, NULL, listen, &signals) == 0)
        (void)pthread_detach(listener);
    else
        (void)pthread_sigmask(SIG_UNBLOCK, &signals, NULL);
}

int stop_signal(void)
{
    return atomic_load(&asked);
}

bool stop_save_asked(void)
{
    return atomic_load(&save_asked);
}

void stop_save_begins(void)
{
    atomic_store(&save_asked, false);
}
