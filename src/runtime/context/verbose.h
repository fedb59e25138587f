/* CLPRUNE_VERBOSE: a line of CSV for each call that enqueued commands, with operands, kernels and
 * time; include/clprune/README.md describes the format. verbose.c writes the lines;
 * backend_verbose.c is the backend of a verbose context, which waits for each command and times it.
 */
#ifndef CLPRUNE_RUNTIME_VERBOSE_H
#define CLPRUNE_RUNTIME_VERBOSE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "clprune/matrix.h"

enum { CLPRUNE__VERBOSE_OPERANDS = 16, CLPRUNE__VERBOSE_TEXT = 512 };

/* Where a program came from; a call with several reports the last of this list. */
typedef enum clprune__program_source {
    CLPRUNE__SOURCE_NONE,
    CLPRUNE__SOURCE_MEMORY,
    CLPRUNE__SOURCE_DISK,
    CLPRUNE__SOURCE_BUILD
} clprune__program_source;

/* A file, and the call that is going on. */
typedef struct clprune__verbose {
    FILE *file;
    bool each_command;
    unsigned depth; /* public functions entered and not left */
    const char *function;
    clprune_mat operands[CLPRUNE__VERBOSE_OPERANDS];
    size_t operands_count, commands;
    char shapes[CLPRUNE__VERBOSE_TEXT], kernels[CLPRUNE__VERBOSE_TEXT];
    clprune__program_source source;
    uint64_t ns;
} clprune__verbose;

/* A command that has finished. size: "4x8/1x1", or bytes. */
typedef struct clprune__verbose_command {
    const char *name, *defines, *size;
    clprune__program_source source;
    uint64_t ns;
} clprune__verbose_command;

/* Makes the context verbose if $CLPRUNE_VERBOSE says so; else context->verbose stays NULL. The
 * context has its backend and facts. Errors: INVALID_ARGUMENT (the value, or a file that cannot be
 * opened), OUT_OF_HOST_MEMORY. */
clprune_status clprune__verbose_open(clprune_context *context);
void clprune__verbose_close(clprune_context *context);
bool clprune__verbose_wanted(void);

/* The rest takes the `verbose` of a context, not NULL. */

/* A public function begins and ends; public functions that it calls are part of its line. */
void clprune__verbose_enter(clprune__verbose *verbose, const char *function);
void clprune__verbose_leave(clprune__verbose *verbose);

/* Notes a checked operand of the call, once, by its first name. */
void clprune__verbose_operand(clprune__verbose *verbose, const char *name, clprune_mat mat);

void clprune__verbose_command_note(
    clprune__verbose *verbose, const clprune__verbose_command *command);
void clprune__verbose_error(clprune__verbose *verbose, clprune_status status, const char *text);
void clprune__verbose_info(clprune__verbose *verbose, const clprune_context *context);

#endif
