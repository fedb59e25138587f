#include "stop.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <unistd.h> /* _exit */

static atomic_int asked;

static void ask(int number)
{
    if (atomic_exchange(&asked, number) != 0)
        _exit(128 + number);
}

static void *listen(void *signals)
{
    for (;;) {
        int number;
        if (sigwait(signals, &number) == 0)
            ask(number);
    }
    return NULL;
}

/* The signals go to a thread of their own; all other threads block them. Otherwise a signal could
 * reach the handlers of a compiler inside of an OpenCL driver, which remove its files and fail the
 * build. */
void stop_install(void)
{
    static sigset_t signals;
    struct sigaction action = {.sa_handler = ask, .sa_flags = SA_RESTART};
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    pthread_t listener;
    (void)sigemptyset(&action.sa_mask);
    (void)sigemptyset(&ignore.sa_mask);
    /* A shell may have signals ignored for a background job; ignored ones would never become
     * pending. */
    (void)sigaction(SIGINT, &action, NULL);
    (void)sigaction(SIGTERM, &action, NULL);
    (void)sigaction(SIGPIPE, &ignore, NULL);
    (void)signal(SIGCHLD, SIG_DFL); /* else PoCL cannot wait for its linker, and aborts */
    (void)sigemptyset(&signals);
    (void)sigaddset(&signals, SIGINT);
    (void)sigaddset(&signals, SIGTERM);
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
