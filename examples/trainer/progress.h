/*
 * progress.h: what the user sees of a run while it runs. On a terminal one line is rewritten in
 * place; elsewhere a plain line comes every ten seconds. Errors of writing stay in ferror(stdout).
 */
#ifndef TRAINER_PROGRESS_H
#define TRAINER_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

/* Seconds of a clock that never goes back. */
double clock_seconds(void);

/* The speed of training, over steps measured together. */
typedef struct meter {
    double seconds;
    uint64_t steps, images;
} meter;

void meter_add(meter *m, double seconds, uint64_t steps, uint64_t images);
double meter_step_ms(const meter *m);           /* NaN before the first step */
double meter_images_per_second(const meter *m); /* likewise */

typedef struct progress {
    bool quiet, terminal;
    bool dirty;     /* a line is on the terminal that has no end yet */
    double printed; /* clock at the last plain or rewritten line */
} progress;

progress progress_begin(bool quiet);

/* Whether a line is due: several a second on a terminal, one in ten seconds elsewhere. */
bool progress_due(const progress *p);

typedef struct progress_values {
    uint64_t epoch, epochs; /* epoch counts from 1 */
    uint64_t step, steps;   /* of this epoch */
    double loss;            /* of the latest batch */
    double images_per_second, step_ms;
    double eta; /* seconds */
} progress_values;

void progress_show(progress *p, const progress_values *values);

/* A line that stays; nothing where quiet. */
#if defined(__GNUC__)
__attribute__((format(printf, 2, 3)))
#endif
void progress_say(progress *p, const char *format, ...);

/* Ends a line that was being rewritten. */
void progress_end(progress *p);

#endif
