/*
 * atomic_file.h: a file that is there whole or not at all. It is written under a temporary name in
 * its folder, then synced and renamed; an older file of its name stays until then.
 *
 * The temporary name is NAME.XXXXXXXX.tmp with eight hexadecimal digits; no two writers share it.
 *
 * A symbolic link stays, and the file that it names is replaced.
 *
 * A device (/dev/null, a terminal), a pipe below /dev, and the file or pipe behind descriptors 1 to
 * 9 (/dev/stdout, redirected or not) are written directly, the latter behind what was written there
 * before. A named FIFO is refused: opening it would wait for a reader.
 */
#ifndef TRAINER_ATOMIC_FILE_H
#define TRAINER_ATOMIC_FILE_H

#include <stdio.h> /* FILE */

#include "trainer/base/fault.h"

typedef struct atomic_file {
    FILE *stream;    /* write here */
    char *path;      /* the final name */
    char *temporary; /* NULL where the file is written directly */
    int error;       /* of the first atomic_file_put that failed; 0: none did */
} atomic_file;

/* Faults are CODE_DATA and name the file. After a failure *file needs no closing. */
bool atomic_file_open(const char *path, atomic_file *file, fault *f);

/* Writes to the stream; commit reports a failure with its reason. */
void atomic_file_put(atomic_file *file, const void *data, size_t size);

/* Whether a file of this name could be opened now; leaves everything as it is. */
bool atomic_file_probe(const char *path, fault *f);

/* Makes the file appear, or leaves things as they were. Closes in any case. */
bool atomic_file_commit(atomic_file *file, fault *f);

/* Drops what was written; accepts a file that is closed or was never opened ({0}). */
void atomic_file_abandon(atomic_file *file);

/* Removes the temporary files that killed writers of folder/name left. Not while one may be alive:
 * the caller holds the folder's lock. */
void atomic_file_sweep(const char *folder, const char *name);

/* Makes a folder and those above it; one that exists is fine. */
bool make_folder(const char *path, fault *f);

#endif
