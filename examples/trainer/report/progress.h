/*
 * progress.h: what the user sees of a run while it runs. On a terminal one line is rewritten in
 * place; elsewhere a plain line comes every ten seconds. Errors of writing stay in ferror(stdout).
 */
#ifndef TRAINER_PROGRESS_H
#define TRAINER_PROGRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "trainer/base/message.h"

/* Seconds of a monotonic clock. */
double clock_seconds(void);

/* CPU seconds of this process: a busy machine changes them little. */
double cpu_seconds(void);

/* The speed of training, over the steps added. */
typedef struct meter {
    double seconds;
    uint64_t steps, samples;
} meter;

void meter_add(meter *m, double seconds, uint64_t steps, uint64_t samples);
double meter_step_ms(const meter *m);            /* NaN before the first step */
double meter_samples_per_second(const meter *m); /* likewise */

typedef struct progress {
    bool quiet, terminal;
    bool dirty;     /* the terminal shows a line without a newline */
    double printed; /* clock at the last plain or rewritten line */
    bool told;      /* a line about a first step, or how many kernels it takes, was shown */
} progress;

progress progress_begin(bool quiet);

/* Whether a line is due: several a second on a terminal, one in ten seconds elsewhere. */
bool progress_due(const progress *p);

typedef struct progress_values {
    uint64_t epoch, epochs; /* epoch counts from 1 */
    uint64_t step, steps;   /* of this epoch */
    double loss;            /* of the latest batch */
    double speed, step_ms;  /* NaN: not known yet, nor is eta */
    const char *unit;       /* of speed: "img/s" */
    double eta;             /* seconds */
} progress_values;

void progress_show(progress *p, const progress_values *values);

/* The line that progress_show writes, cut to `width` columns: first it loses the speed, then
 * milliseconds per step. */
void progress_line(const progress_values *values, size_t width, char *text, size_t size);

/* Columns of the terminal behind stdout: of its driver, else $COLUMNS, else 80. */
size_t progress_width(void);

/* Call when a kernel was built; building takes most of the first step. Shows "building kernels: 3
 * of 37", or "3 so far" if `all` is less than `built`: at once on a terminal, elsewhere after a
 * second, and every five once `all` was shown. */
void progress_built(progress *p, uint64_t built, uint64_t all);

/* Call again and again while waiting for a step in which a driver may still compile: "first step:
 * 12 s", as often as the line above. */
void progress_waiting(progress *p, const char *step, double seconds);

/* A line that stays; nothing where quiet. */
MESSAGE_PRINTF(2, 3)
void progress_say(progress *p, const char *format, ...);

/* Ends a line that was being rewritten. */
void progress_end(progress *p);

#endif
