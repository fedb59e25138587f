/*
 * stop.h: after SIGINT, SIGTERM, SIGXCPU or, unless it is ignored, SIGHUP the program stops after
 * the present step; a signal at least a second later (SIGXCPU apart) ends it at once, and so does
 * the first one if the program holds nothing and is still stuck after a second, writing to a pipe
 * that nobody reads. SIGUSR1 asks for a checkpoint. A file that grows beyond the process's limit is
 * an error of writing (EFBIG): SIGXFSZ is ignored.
 *
 * Call stop_install before any other thread starts. SIGCHLD is not ignored, even if the parent did.
 */
#ifndef TRAINER_STOP_H
#define TRAINER_STOP_H

#include <stdbool.h>

void stop_install(void);

/* Called before a signal ends the program at once, perhaps in a signal handler. */
void stop_before_end(void (*call)(void));

/* While it holds, the program has steps that it will save. */
void stop_hold(bool hold);

/* The signal that asked to stop, or 0. */
int stop_signal(void);

/* Whether SIGUSR1 came since a checkpoint was begun. */
bool stop_save_asked(void);
void stop_save_begins(void);

#endif
