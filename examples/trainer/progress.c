#include "progress.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h> /* isatty */

double clock_seconds(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

void meter_add(meter *m, double seconds, uint64_t steps, uint64_t images)
{
    m->seconds += seconds;
    m->steps += steps;
    m->images += images;
}

double meter_step_ms(const meter *m)
{
    return m->steps == 0 ? (double)NAN : 1e3 * m->seconds / (double)m->steps;
}

double meter_images_per_second(const meter *m)
{
    return m->steps == 0 || m->seconds <= 0 ? (double)NAN : (double)m->images / m->seconds;
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

void progress_show(progress *p, const progress_values *values)
{
    char eta[32];
    if (p->quiet)
        return;
    print_duration(values->eta, eta, sizeof eta);
    (void)printf("%sepoch %" PRIu64 "/%" PRIu64 "  step %" PRIu64 "/%" PRIu64
                 "  loss %.4f  %.1f img/s  %.1f ms/step  ETA %s%s",
        p->terminal ? "\r\033[K" : "", values->epoch, values->epochs, values->step, values->steps,
        values->loss, values->images_per_second, values->step_ms, eta, p->terminal ? "" : "\n");
    (void)fflush(stdout);
    p->dirty = p->terminal;
    p->printed = clock_seconds();
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
    progress_end(p);
    va_start(args, format);
    (void)vprintf(format, args);
    va_end(args);
    (void)putchar('\n');
    (void)fflush(stdout);
    p->printed = clock_seconds();
}
