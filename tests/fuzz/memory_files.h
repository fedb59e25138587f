/* Files in memory, for the targets: an execution then makes no system calls for them, and takes a
 * tenth of the time or less. Used by fuzz.c. */
#ifndef CLPRUNE_TESTS_MEMORY_FILES_H
#define CLPRUNE_TESTS_MEMORY_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* Where they lie; no path of the system begins like that. */
#define MEMORY_FOLDER "/clprune-fuzz-memory"

/* Forgets all files. The target has looked for one of them at least, and has closed all that it
 * opened. */
void memory_files_clear(void);
/* At most 16, with paths of their own; `data` is copied. */
void memory_files_add(const char *path, const void *data, size_t size);

/* Whether relative paths are names of files in memory. */
void memory_files_here(bool on);

/* A stream that takes what is written and forgets it; NULL without memory. */
FILE *memory_files_sink(void);

#endif
