/*
 * run_folder.h: the folder that a run writes into, for this run alone.
 *
 *     log.csv, last.ckpt, auto.keep, auto.csv    the files of a run
 *     run.lock                                   there while a run is; locked by its process
 *
 * The lock (fcntl, so it dies with its process) refuses a second run in the folder. A new run in a
 * folder that has a run's files is refused, too, unless --overwrite says so; --resume goes on in
 * the folder of its checkpoint.
 */
#ifndef TRAINER_RUN_FOLDER_H
#define TRAINER_RUN_FOLDER_H

#include "fault.h"
#include "options.h"

typedef struct run_folder {
    char *path; /* NULL: the run writes no files */
    char *lock_path;
    int lock;       /* the lock's descriptor; -1: this file system has no locks */
    bool made;      /* by this run: removed again if it stays empty */
    bool made_runs; /* likewise runs/ */
    bool replaces;  /* files of another run, which --overwrite gave away */
} run_folder;

/* Makes and locks the folder that o->output_dir names, or a new one, runs/ARCH-DATE-TIME, where
 * o->new_folder says so. Removes temporary files that killed runs left. Faults: CODE_DATA where
 * another run has the lock or the folder cannot be written; CODE_USAGE where it has a run's files.
 * On failure *folder needs no closing. */
bool run_folder_open(const options *o, run_folder *folder, fault *f);

/* Removes the files of the run that is replaced: once nothing can fail but training itself. */
void run_folder_clear(run_folder *folder);

/* The path of a file in it; NULL if memory is out. The caller frees it. */
char *run_folder_file(const run_folder *folder, const char *name);

void run_folder_close(run_folder *folder); /* accepts {0} */

#endif
