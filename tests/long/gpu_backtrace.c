/* To be loaded before a program (LD_PRELOAD): where it crashes, its stack goes to stderr. */
#include <execinfo.h>
#include <signal.h>
#include <unistd.h>

static void tell(int number)
{
    enum { FRAMES = 64 };
    void *frames[FRAMES];
    static const char head[] = "backtrace of a crash:\n";
    (void)!write(STDERR_FILENO, head, sizeof head - 1);
    backtrace_symbols_fd(frames, backtrace(frames, FRAMES), STDERR_FILENO);
    (void)signal(number, SIG_DFL);
    (void)raise(number);
}

__attribute__((constructor)) static void watch(void)
{
    void *frame;
    static const int fatal[] = {SIGSEGV, SIGBUS, SIGABRT, SIGILL, SIGFPE};
    (void)backtrace(&frame, 1); /* loads libgcc now, not in the handler */
    for (unsigned i = 0; i < sizeof fatal / sizeof *fatal; i++)
        (void)signal(fatal[i], tell);
}
