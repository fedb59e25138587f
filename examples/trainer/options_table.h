/* options_table.h: private to options*.c. One row per option; parsing, help and checkpoints all
 * read it. */
#ifndef RESMLP_OPTIONS_TABLE_H
#define RESMLP_OPTIONS_TABLE_H

#include "options.h"

typedef enum option_kind {
    OPTION_FLAG,   /* bool, no value */
    OPTION_TEXT,   /* const char * */
    OPTION_CHOICE, /* size_t, a position in `choices` */
    OPTION_COUNT,  /* uint64_t in [low, high] */
    OPTION_BYTES,  /* uint64_t in [low, high], with a suffix K, M or G if that is shorter */
    OPTION_REAL,   /* double in [low, high] */
    OPTION_BLOCK   /* clprune_block */
} option_kind;

/* What a resumed run does with an option that was not given again, or given otherwise. */
typedef enum option_memory {
    OPTION_FORGET, /* not in the checkpoint */
    OPTION_TAKE,   /* taken from the checkpoint; may be given otherwise */
    OPTION_MATCH   /* taken from the checkpoint; may not be given otherwise */
} option_memory;

typedef struct option_row {
    const char *name;
    option_kind kind;
    option_memory memory;
    size_t offset;              /* of the field in options */
    double low, high;           /* COUNT, REAL; both included */
    const char *const *choices; /* CHOICE; ends with NULL */
    const char *value;          /* its name in --help; NULL for FLAG */
    const char *help;
} option_row;

extern const option_row option_rows[];
extern const size_t option_rows_count;

/* The row of an option that there is; name without dashes. */
const option_row *option_row_named(const char *name);

/* Sets the field of a row from text. */
bool option_set(const option_row *row, const char *text, options *o, fault *f);

/* Writes the value of a row's field, so that option_set reads the same again. */
void option_print(const option_row *row, const options *o, char *text, size_t size);

#endif
