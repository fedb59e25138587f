/* What sources share: failures, and the search for their files. */
#include "trainer/data/dataset_source.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>  /* vsnprintf */
#include <stdlib.h> /* free */
#include <string.h> /* strerror */
#include <unistd.h> /* access */

dataset_status dataset_fail(dataset_status status, const dataset_err *err, const char *format, ...)
{
    if (err->text != NULL && err->size > 0) {
        va_list args;
        va_start(args, format);
        (void)vsnprintf(err->text, err->size, format, args);
        va_end(args);
    }
    return status;
}

dataset_status dataset_no_memory(const dataset_err *err, const char *path)
{
    return dataset_fail(DATASET_NO_MEMORY, err, "%s: out of memory", path);
}

bool dataset_search_file(dataset_search *search, char *path)
{
    const bool found = path != NULL && access(path, F_OK) == 0;
    if (!found)
        dataset_search_failed(search, path == NULL ? ENOMEM : errno);
    free(path);
    return found;
}

void dataset_search_failed(dataset_search *search, int error)
{
    /* Where the user may not look there is no set. */
    if (search->error == 0 && error != ENOENT && error != ENOTDIR && error != EACCES &&
        error != ENAMETOOLONG)
        search->error = error;
}

dataset_status dataset_search_status(const dataset_search *search, const dataset_err *err)
{
    if (search->error == 0)
        return DATASET_OK;
    if (search->error == ENOMEM)
        return dataset_no_memory(err, search->dir);
    return dataset_fail(DATASET_BAD_FILE, err, "%s: cannot look for files there: %s", search->dir,
        strerror(search->error));
}
