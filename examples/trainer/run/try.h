/* try.h: functions that enqueue work leave at the first failure, through one exit. */
#ifndef TRAINER_TRY_H
#define TRAINER_TRY_H

#include <clprune/status.h>

/* Expects a local `clprune_status status` and a label `done`. */
#define TRY(call)                                                                                  \
    do {                                                                                           \
        status = (call);                                                                           \
        if (status != CLPRUNE_SUCCESS)                                                             \
            goto done;                                                                             \
    } while (0)

#endif
