#include "stop.h"

#include <signal.h>
#include <stddef.h>
#include <unistd.h> /* _exit */

static volatile sig_atomic_t asked;

static void ask(int number)
{
    if (asked != 0)
        _exit(128 + number);
    asked = number;
}

void stop_install(void)
{
    struct sigaction action = {.sa_handler = ask, .sa_flags = SA_RESTART};
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    (void)sigemptyset(&action.sa_mask);
    (void)sigemptyset(&ignore.sa_mask);
    (void)sigaction(SIGINT, &action, NULL);
    (void)sigaction(SIGTERM, &action, NULL);
    (void)sigaction(SIGPIPE, &ignore, NULL);
}

int stop_signal(void)
{
    return asked;
}
