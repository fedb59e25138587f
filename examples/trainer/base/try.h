/* try.h: functions that enqueue work, and hold nothing that must be released, leave at the first
 * failure. */
#ifndef TRAINER_TRY_H
#define TRAINER_TRY_H

#include <clprune/status.h>

/* Returns the status of a call that failed. */
#define TRY(call)                                                                                  \
    do {                                                                                           \
        const clprune_status status_ = (call);                                                     \
        if (status_ != CLPRUNE_SUCCESS)                                                            \
            return status_;                                                                        \
    } while (0)

#endif
