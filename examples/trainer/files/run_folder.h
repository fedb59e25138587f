/*
 * run_folder.h: the folder that a run writes into, for this run alone.
 *
 *     log.csv, last.ckpt, best.ckpt, auto.keep, auto.csv    the files of a run
 *     run.lock                                              exists during a run; locked by its
 *                                                           process
 *
 * The lock (fcntl, so it dies with its process) refuses a second run in the folder. A new run in a
 * folder that has a run's files is refused, too, unless --overwrite is given. --resume continues in
 * the folder of its checkpoint if that is last.ckpt, or if there is no last.ckpt and log.csv,
 * auto.keep and auto.csv are of no other run (trainer.c); with another file beside last.ckpt the
 * run is a new one.
 */
#ifndef TRAINER_RUN_FOLDER_H
#define TRAINER_RUN_FOLDER_H

#include "trainer/base/fault.h"
#include "trainer/options/options.h"

typedef struct run_folder {
    char *path; /* NULL: the run writes no files */
    char *lock_path;
    int lock;          /* the lock's descriptor; -1: this file system has no locks */
    bool made;         /* by this run; close removes it if it is empty */
    bool made_runs;    /* likewise runs/ */
    bool is_new;       /* had no run's files */
    bool replaces;     /* --overwrite: the files of the run before are to be removed */
    bool has_replaced; /* last.ckpt is still that of the replaced run */
} run_folder;

/* Makes and locks the folder o->output_dir or, with o->new_folder, a new one, runs/ARCH-DATE-TIME.
 * Removes temporary files of killed runs. Faults: CODE_DATA if another run has the lock or the
 * folder cannot be written; CODE_USAGE if it has a run's files. On failure *folder needs no
 * closing. */
bool run_folder_open(const options *o, run_folder *folder, fault *f);

/* Removes the files of the replaced run, except last.ckpt and log.csv, which the new run replaces,
 * and the files of --resume and --keep-file. Call it when only training itself can still fail. */
void run_folder_clear(run_folder *folder, const options *o);

/* Removes the replaced run's checkpoint, if it is still there: the new run ends without its own. */
void run_folder_drop_replaced(run_folder *folder);

/* The path of a file in it; NULL if memory is out. The caller frees it. */
char *run_folder_file(const run_folder *folder, const char *name);

/* Closes it as it was before a run that did no step: without this run's files, if it had none. */
void run_folder_undo(run_folder *folder);

void run_folder_close(run_folder *folder); /* accepts {0} */

#endif
