/*
 * csv_log.h: log.csv, one row per finished epoch and, with --test-steps, one for each test within
 * it.
 *
 * Every checkpoint has the rows so far. So a resumed run writes, in any folder, the same file as an
 * uninterrupted run, except for the columns of time.
 */
#ifndef TRAINER_CSV_LOG_H
#define TRAINER_CSV_LOG_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h> /* FILE */

#include "trainer/base/fault.h"

/* The columns. Whole numbers are exact below 2^53. */
typedef struct csv_row {
    double epoch; /* from 1; within an epoch that one */
    double step;  /* optimisation steps so far */
    double lr;    /* of the epoch's last step */
    double train_loss;
    double test_loss;
    double top1;  /* percent */
    double speed; /* images or tokens per second */
    double step_ms;
    double seconds; /* of training and testing so far */
    double saved_activation_bytes;
    double peak_bytes;
    double grad_norm; /* mean of the steps of the epoch so far, before clipping; NaN: not known */
} csv_row;

/* In a file and in a checkpoint the last column is missing where a run has not clipped. */
enum { CSV_COLUMNS = 12, CSV_COLUMNS_WITHOUT_NORMS = 11 };
_Static_assert(sizeof(csv_row) == CSV_COLUMNS * sizeof(double), "a row is an array of doubles");

typedef struct csv_log {
    size_t count, room;
    csv_row *rows;
    bool tokens;  /* names the column of the speed */
    bool norms;   /* has the column grad_norm */
    FILE *stream; /* NULL: rows are only remembered */
    char *path;
} csv_log;

/* Starts with `count` rows of an earlier run, of `columns` columns each. */
bool csv_log_open(csv_log *log, const double *rows, size_t columns, size_t count, fault *f);
/* Whether a row has that many columns; row `index` of such rows. */
bool csv_log_has_columns(uint64_t columns);
csv_row csv_log_row(const double *rows, size_t columns, size_t index);
/* *begins: the file is missing, has no other rows than the log, or begins with the log's rows (one
 * or more). Faults: CODE_DATA if it cannot be read. */
bool csv_log_begins(const csv_log *log, const char *path, bool *begins, fault *f);
/* Creates the file with the header and the rows so far; an older file of this name is replaced at
 * once. Later rows are appended. Faults: CODE_DATA. */
bool csv_log_write(csv_log *log, const char *path, fault *f);
/* Whether a file has no rows: the header or its beginning, or nothing. False if it cannot be read.
 */
bool csv_log_is_empty(const char *path);

/* The best test so far: of the highest top-1 or, `by_loss`, of the lowest loss; the first of equal
 * ones. */
typedef struct csv_best {
    const csv_row *row; /* NULL: no test was made; valid until csv_log_add */
    uint64_t since;     /* tests after it */
} csv_best;
csv_best csv_log_best(const csv_log *log, bool by_loss);

bool csv_log_add(csv_log *log, const csv_row *row, fault *f);
void csv_log_close(csv_log *log); /* accepts {0} */

#endif
