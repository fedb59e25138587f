/* What sources share: failures, and the search for their files. */
#include "trainer/data/dataset_source.h"

#include <errno.h>
#include <stdio.h>  /* snprintf */
#include <stdlib.h> /* free */
#include <string.h> /* strerror */
#include <unistd.h> /* access */

bool dataset_no_memory(fault *f, const char *path)
{
    return fault_set(f, CODE_MEMORY, "%s: out of memory", path);
}

void dataset_by_imagenet(dataset_source *source)
{
    const double mean[] = {0.485, 0.456, 0.406}, std[] = {0.229, 0.224, 0.225};
    memcpy(source->mean, mean, sizeof mean);
    memcpy(source->std, std, sizeof std);
}

void dataset_tell_empty(const char *path, const dataset_options *options, dataset_split split,
    uint32_t classes, const bool *has, uint32_t known)
{
    char note[MESSAGE_SIZE];
    uint32_t empty = 0, first = 0;
    for (uint32_t c = classes; c-- > 0;)
        if (c >= known || !has[c]) {
            first = c;
            ++empty;
        }
    if (empty == 0 || options->hear == NULL)
        return;
    (void)snprintf(note, sizeof note, "%s: %lu of %lu classes have no %s sample, %lu among them",
        path, (unsigned long)empty, (unsigned long)classes,
        split == DATASET_TRAIN ? "training" : "test", (unsigned long)first);
    options->hear(options->hear_user, note);
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

bool dataset_search_check(const dataset_search *search, fault *f)
{
    if (search->error == 0)
        return true;
    if (search->error == ENOMEM)
        return dataset_no_memory(f, search->dir);
    return fault_set(
        f, CODE_DATA, "%s: cannot look for files there: %s", search->dir, strerror(search->error));
}
