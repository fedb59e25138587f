/*
 * atomic_file.h: a file that is there whole or not at all. It is written under a temporary name in
 * its folder, then synced and renamed; what was there before stays until then.
 *
 * A name that is no regular file (a terminal, a pipe, /dev/full) is written directly.
 */
#ifndef TRAINER_ATOMIC_FILE_H
#define TRAINER_ATOMIC_FILE_H

#include <stdio.h> /* FILE */

#include "fault.h"

typedef struct atomic_file {
    FILE *stream;    /* write here */
    char *path;      /* the final name */
    char *temporary; /* NULL where the file is written directly */
} atomic_file;

/* Faults are CODE_DATA and name the file. After a failure *file needs no closing. */
bool atomic_file_open(const char *path, atomic_file *file, fault *f);

/* Makes the file appear, or leaves things as they were. Closes in any case. */
bool atomic_file_commit(atomic_file *file, fault *f);

/* Drops what was written; accepts a file that is closed or was never opened ({0}). */
void atomic_file_abandon(atomic_file *file);

/* Makes a folder and those above it; one that exists is fine. */
bool make_folder(const char *path, fault *f);

#endif
