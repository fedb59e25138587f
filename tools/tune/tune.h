/* tune.h: the parts of clprune-tune: operations and their cases, checks, measurement, search,
 * files. */
#ifndef CLPRUNE_TUNE_H
#define CLPRUNE_TUNE_H

#include <clprune/clprune.h>

#include <stdbool.h>
#include <stdio.h>

#include "tool.h"

enum { MAX_PARAMETERS = 128, MAX_CASES = 32, OPS = 4 };

typedef enum tune_kind { KIND_GEMM, KIND_TN, KIND_NT } tune_kind;

/* One product with its operands. Dense: c = op(a) op(b), for `batch` samples that share a. Sparse:
 * a is dy, xs its other side, c is dw. */
typedef struct tune_case {
    tune_kind kind;
    bool transpose_a, transpose_b;
    size_t batch, m, n, k;
    clprune_mat a, b, c;
    clprune_bsr xs;
} tune_case;

/* An operation: its name on the command line, and the sections of parameters that it searches in
 * each family of kernels. */
typedef struct tune_op {
    const char *name;
    tune_kind kind;
    bool blast;                       /* CLBlast is the engine */
    const char *vector[3], *tiled[3]; /* sections, ended by NULL */
    const char *bf16[2];              /* vector kernels of bf16 */
    const char *mma[2];               /* tensor cores */
    unsigned timed;                   /* candidates; 0: not searched */
    double speedup;                   /* over the built-in row */
    bool cut;                         /* a signal ended its search: the speed-up is not measured */
} tune_op;

/* A value for each parameter, in the library's order; is_set as in clprune_tuning_parameter. */
typedef struct tune_row {
    uint32_t values[MAX_PARAMETERS];
    bool is_set[MAX_PARAMETERS];
} tune_row;

typedef struct tune {
    clprune_context *base; /* with the built-in row; owns the operands */
    clprune_precision precision;
    char device[128], driver[64]; /* as in clprune_device_info, which the library compares */
    clprune_tuning_parameter parameters[MAX_PARAMETERS];
    size_t count;
    tune_row built_in, best;
    tune_op ops[OPS];
    bool quick;
    double seconds; /* for each operation */
    char folder[256], file[300];
    char debug_vector[300], debug_blast[300]; /* $CLPRUNE_DEBUG for each engine */
    tune_case cases[MAX_CASES];
    size_t case_count;
    const tune_op *op; /* the one being searched */
} tune;

/* The sections that an operation searches on this device, ended by NULL. */
const char *const *tune_sections(const tune *t, const tune_op *op);

/* Whether an operation searches a parameter. */
bool tune_searches(const tune *t, const tune_op *op, size_t parameter);

/* The timed cases of t->op. */
void tune_cases_make(tune *t);
void tune_cases_free(tune *t);
clprune_status tune_case_run(clprune_context *context, const tune_case *c);
void tune_mat_make(tune *t, size_t rows, size_t cols, float **host, clprune_mat *mat);
void tune_xs_make(
    tune *t, const clprune_bsr_desc *shape, float sparsity, float **dense, clprune_bsr *xs);

/* Runs ragged and boundary shapes against naive sums in double; all of them with `full`. False
 * where one is wrong or fails; `why` says which. Returns early after a signal. */
bool tune_check(tune *t, clprune_context *context, const tune_row *row, bool full, char why[256]);

/* Searches t->op from t->best, which it improves, and sets the speed-up. */
void tune_search(tune *t, tune_op *op);

/* Writes a row as the library reads it: the parameters of `op`, or (NULL) of every section searched
 * or changed. Then `others`, the text of rows of other devices, or NULL. */
void tune_write_file(
    FILE *stream, const tune *t, const tune_row *row, const tune_op *op, const char *others);
void tune_write_c(FILE *stream, const tune *t, const tune_row *row);

/* Writes t->best, and the rows of other devices that `path` has, to a temporary file beside `path`,
 * then renames it: a reader sees the old file or the new one. What is there and no regular file
 * stays, and is written directly; NULL is standard output. With `probe`, before the search, it only
 * checks that this will work. False with a message if it does not, or if a file is there that is
 * not a tuning file, which stays as it is. */
bool tune_write_output(const tune *t, const char *path, bool probe);

#endif
