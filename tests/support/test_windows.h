/* What test_folder.c needs of POSIX, for Windows. */
#ifndef CLPRUNE_TEST_WINDOWS_H
#define CLPRUNE_TEST_WINDOWS_H

#include <direct.h>
#include <io.h>
#include <stdlib.h>
#include <sys/stat.h>

#define lstat stat

static inline char *mkdtemp(char *path)
{
    return _mktemp(path) != NULL && _mkdir(path) == 0 ? path : NULL;
}

/* overwrite: as if 1. */
static inline int setenv(const char *name, const char *value, int overwrite)
{
    (void)overwrite;
    return _putenv_s(name, value);
}

static inline int unsetenv(const char *name)
{
    return _putenv_s(name, "");
}

#endif
