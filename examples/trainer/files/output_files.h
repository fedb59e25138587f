/* output_files.h: an output file must not be one that the run reads, or writes besides.
 *
 * --summary-json and --plan-csv may also name a device, an open pipe or standard output
 * (/dev/stdout, not "-"); they are opened before the first step. If an output file is a symbolic
 * link, the link stays and its target is replaced. Input files must be regular files. */
#ifndef TRAINER_OUTPUT_FILES_H
#define TRAINER_OUTPUT_FILES_H

#include "trainer/options/options.h"

/* Fails (CODE_USAGE) if --export, --summary-json, --plan-csv or --adapters names another one's
 * file, the file of --resume, --import or --keep-file, or a file of the run in `folder` (NULL:
 * none). Call it before options are restored: a checkpoint's --import is not read again. */
bool output_files_check(const options *o, const char *folder, fault *f);

/* Fails likewise if one of them names a file of the data set in --data. Call it after options are
 * restored: a checkpoint has its --data. */
bool output_files_check_data(const options *o, fault *f);

#endif
