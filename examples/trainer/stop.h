/*
 * stop.h: after SIGINT, SIGTERM or, unless it is ignored, SIGHUP the program stops after the present
 * step; a signal at least a second later ends it at once. Call stop_install before any other thread
 * starts. SIGPIPE is ignored: if the reader of the output goes away, writing fails. SIGCHLD is not,
 * even if the parent ignored it.
 */
#ifndef TRAINER_STOP_H
#define TRAINER_STOP_H

void stop_install(void);

/* The signal that asked to stop, or 0. */
int stop_signal(void);

#endif
