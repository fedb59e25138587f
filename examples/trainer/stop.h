/*
 * stop.h: SIGINT and SIGTERM ask the program to stop after the present step; a second signal ends
 * it at once. Call stop_install before any other thread starts. SIGPIPE is ignored: a reader of the
 * output that goes away is an error of writing.
 */
#ifndef TRAINER_STOP_H
#define TRAINER_STOP_H

void stop_install(void);

/* The signal that asked to stop, or 0. */
int stop_signal(void);

#endif
