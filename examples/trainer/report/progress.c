#include "trainer/report/progress.h"

#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h> /* isatty */

#include "trainer/base/stop.h"

double clock_seconds(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

double cpu_seconds(void)
{
    struct rusage use = {0};
    (void)getrusage(RUSAGE_SELF, &use);
    return (double)(use.ru_utime.tv_sec + use.ru_stime.tv_sec) +
           1e-6 * (double)(use.ru_utime.tv_usec + use.ru_stime.tv_usec);
}

void meter_add(meter *m, double seconds, uint64_t steps, uint64_t samples)
{
    m->seconds += seconds;
    m->steps += steps;
    m->samples += samples;
}

double meter_step_ms(const meter *m)
{
    return m->steps == 0 ? (double)NAN : 1e3 * m->seconds / (double)m->steps;
}

double meter_samples_per_second(const meter *m)
{
    return m->steps == 0 || m->seconds <= 0 ? (double)NAN : (double)m->samples / m->seconds;
}

progress progress_begin(bool quiet)
{
    return (progress){
        .quiet = quiet, .terminal = isatty(STDOUT_FILENO) == 1, .printed = clock_seconds()};
}

bool progress_due(const progress *p)
{
    const double interval = p->terminal ? 0.3 : 10.0;
    return !p->quiet && clock_seconds() - p->printed >= interval;
}

/* "1:02:03" or "2:03". */
static void print_duration(double seconds, char *text, size_t size)
{
    const uint64_t all = seconds > 0 && seconds < 1e9 ? (uint64_t)(seconds + 0.5) : 0;
    const uint64_t h = all / 3600, m = all / 60 % 60, s = all % 60;
    if (h > 0)
        (void)snprintf(text, size, "%" PRIu64 ":%02" PRIu64 ":%02" PRIu64, h, m, s);
    else
        (void)snprintf(text, size, "%" PRIu64 ":%02" PRIu64, m, s);
}

size_t progress_width(void)
{
#ifdef TIOCGWINSZ
    struct winsize window;
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &window) == 0 && window.ws_col > 0)
        return window.ws_col;
#endif
    const char *columns = getenv("COLUMNS");
    const unsigned long width = columns == NULL ? 0 : strtoul(columns, NULL, 10);
    return width > 0 && width < 10000 ? (size_t)width : 80;
}

void progress_line(const progress_values *values, size_t width, char *text, size_t size)
{
    char front[128], speed[64], ms[64], eta[32], rest[64] = "";
    (void)snprintf(front, sizeof front,
        "epoch %" PRIu64 "/%" PRIu64 "  step %" PRIu64 "/%" PRIu64 "  loss %.4f", values->epoch,
        values->epochs, values->step, values->steps, values->loss);
    (void)snprintf(speed, sizeof speed, "  %.1f %s", values->speed, values->unit);
    (void)snprintf(ms, sizeof ms, "  %.1f ms/step", values->step_ms);
    print_duration(values->eta, eta, sizeof eta);
    if (isfinite(values->step_ms))
        (void)snprintf(rest, sizeof rest, "  ETA %s", eta);
    else
        speed[0] = ms[0] = '\0';
    if (strlen(front) + strlen(speed) + strlen(ms) + strlen(rest) > width)
        speed[0] = '\0';
    if (strlen(front) + strlen(ms) + strlen(rest) > width)
        ms[0] = '\0';
    (void)snprintf(text, size, "%s%s%s%s", front, speed, ms, rest);
    if (width < size)
        text[width] = '\0';
}

/* Waits until stdout takes a line; a pipe with room takes a line in one piece. A reader that
 * stalls, or a stopped terminal, must not keep the program from ending: after a signal the output
 * goes to /dev/null. */
static void wait_for_reader(void)
{
    struct pollfd out = {.fd = STDOUT_FILENO, .events = POLLOUT};
    while (poll(&out, 1, 100) <= 0)
        if (stop_signal() != 0) {
            const int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
            if (nowhere >= 0)
                (void)dup2(nowhere, STDOUT_FILENO);
            return;
        }
}

/* A terminal's last column stays free: some terminals would go on to the next line. */
static void show_line(progress *p, const char *text)
{
    const int width = p->terminal ? (int)progress_width() - 1 : 1000;
    wait_for_reader();
    (void)printf("%s%.*s%s", p->terminal ? "\r\033[K" : "", width, text, p->terminal ? "" : "\n");
    (void)fflush(stdout);
    p->dirty = p->terminal;
    p->printed = clock_seconds();
}

void progress_show(progress *p, const progress_values *values)
{
    char text[512];
    if (p->quiet)
        return;
    progress_line(values, p->terminal ? progress_width() - 1 : sizeof text, text, sizeof text);
    show_line(p, text);
}

/* Whether a line is due while kernels are built. */
static bool build_due(const progress *p)
{
    const double pause = p->told ? 5.0 : 1.0;
    return progress_due(p) || (!p->quiet && !p->terminal && clock_seconds() - p->printed >= pause);
}

void progress_built(progress *p, uint64_t built, uint64_t all)
{
    char text[80], rest[32] = "so far";
    if (!build_due(p))
        return;
    p->told = built <= all;
    if (p->told)
        (void)snprintf(rest, sizeof rest, "of %" PRIu64, all);
    (void)snprintf(text, sizeof text, "building kernels: %" PRIu64 " %s", built, rest);
    show_line(p, text);
}

void progress_waiting(progress *p, const char *step, double seconds)
{
    char text[128];
    if (!build_due(p))
        return;
    p->told = true;
    (void)snprintf(text, sizeof text, "%s: %.0f s", step, seconds);
    show_line(p, text);
}

void progress_end(progress *p)
{
    if (p->dirty)
        (void)fputs("\r\033[K", stdout);
    p->dirty = false;
}

void progress_say(progress *p, const char *format, ...)
{
    va_list args;
    if (p->quiet)
        return;
    wait_for_reader();
    progress_end(p);
    va_start(args, format);
    (void)vprintf(format, args);
    va_end(args);
    (void)putchar('\n');
    (void)fflush(stdout);
    p->printed = clock_seconds();
}
