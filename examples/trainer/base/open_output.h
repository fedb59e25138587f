/* open_output.h: opens files to be written, for all programs. */
#ifndef TRAINER_OPEN_OUTPUT_H
#define TRAINER_OPEN_OUTPUT_H

#include <stdio.h> /* FILE */

/* Opens a file for writing with these more flags of open(2), such as O_CREAT | O_EXCL. Does not
 * wait: a FIFO or pipe without a reader is an error. Takes no terminal as the controlling one, and
 * is closed by exec. NULL with errno if that fails: then a file that O_EXCL made is gone again. */
FILE *open_output(const char *path, int flags);

#endif
