/*
 * fault.h: why the program cannot go on: an exit code and one line for the user.
 *
 * Functions that can fail take a fault as their last argument and return whether they succeeded;
 * only main prints it. The first fault stays: what fails while cleaning up does not hide it.
 */
#ifndef TRAINER_FAULT_H
#define TRAINER_FAULT_H

#include <CL/cl.h>
#include <stdbool.h>

#include <clprune/context.h>

#include "trainer/base/message.h"

enum {
    CODE_OK = 0,
    CODE_RUN = 1,       /* anything else */
    CODE_USAGE = 2,     /* a bad option, or variable of the environment */
    CODE_NO_DEVICE = 3, /* no OpenCL device */
    CODE_DATA = 4,      /* data or another file cannot be read or written */
    CODE_MEMORY = 5,    /* the host's or the device's is not enough */
    CODE_DIVERGED = 6,  /* the loss is no number any more */
    CODE_PEER = 7,      /* another process of the run died, or MPI failed */
    CODE_STOPPED = 128  /* + the signal: it came where there is nothing to save */
};

typedef struct fault {
    int code; /* CODE_OK: nothing happened */
    char text[MESSAGE_SIZE];
} fault;

/* Records that a signal came, if one did: true without one. `doing`: "planning memory". */
bool fault_check_signal(fault *f, const char *doing);

/* Records a fault; returns false, so that a failure is one statement. */
MESSAGE_PRINTF(3, 4)
bool fault_set(fault *f, int code, const char *format, ...);

/* The same for `error`, an errno: "cannot write log.csv: No space left on device". */
bool fault_set_file(fault *f, const char *doing, const char *path, int error);

/* The same for a status of the library, with the particulars it has. `doing`: "creating the model".
 * True where the status is success. context may be NULL. */
bool fault_check(
    fault *f, const clprune_context *context, clprune_status status, const char *doing);

/* The library's last error without "file.c:123: ", which says nothing to a user. */
const char *fault_detail(const clprune_context *context);

/* The same for an OpenCL call made by the program itself. */
bool fault_check_cl(fault *f, cl_int code, const char *doing);

#endif
