#include "core/system.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <locale.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#ifdef __APPLE__
#include <xlocale.h>
#define st_mtim st_mtimespec
#endif

uint32_t clprune__system_processors(void)
{
    const long processors = sysconf(_SC_NPROCESSORS_ONLN);
    return processors > 0 ? (uint32_t)processors : 1;
}

int clprune__system_watch_forks(void (*child)(void))
{
    return pthread_atfork(NULL, NULL, child);
}

const char *const clprune__system_driver_advice =
    "install one, on Debian for CPUs: pocl-opencl-icd; the loader reads its list from "
    "/etc/OpenCL/vendors or, if it is set, $OCL_ICD_VENDORS";

int clprune__system_format(char *text, size_t size, const char *format, va_list arguments)
{
    const locale_t point = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    const locale_t before = uselocale(point); /* 0, without memory, changes nothing */
    const int length = vsnprintf(text, size, format, arguments);
    (void)uselocale(before);
    if (point != (locale_t)0)
        freelocale(point);
    return length;
}

bool clprune__system_matches(const char *pattern, const char *text)
{
    return fnmatch(pattern, text, 0) == 0;
}

/* O_NONBLOCK only while opening: a pipe without a reader is an error then, not a wait. */
int clprune__system_open_file(const char *path)
{
    return open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
}

FILE *clprune__system_append(const char *path)
{
    const int flags = O_WRONLY | O_APPEND | O_CREAT | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
    const int descriptor = open(path, flags, 0666);
    if (descriptor < 0)
        return NULL;
    const int status = fcntl(descriptor, F_GETFL);
    if (status != -1)
        (void)fcntl(descriptor, F_SETFL, status & ~O_NONBLOCK);
    FILE *file = fdopen(descriptor, "a");
    if (file == NULL) {
        const int error = errno;
        (void)close(descriptor);
        errno = error;
    }
    return file;
}

void clprune__system_lock(FILE *stream)
{
    flockfile(stream);
}

void clprune__system_unlock(FILE *stream)
{
    funlockfile(stream);
}

/* ---- a folder of the user's own files ---- */

const char *const clprune__system_no_cache =
    "neither CLPRUNE_CACHE_DIR nor XDG_CACHE_HOME nor HOME names a folder";

bool clprune__system_cache_home(char *path, size_t size)
{
    const char *cache_home = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    const bool by_home = cache_home == NULL || cache_home[0] != '/';
    if (by_home && (home == NULL || home[0] != '/'))
        return false;
    (void)snprintf(path, size, "%s%s", by_home ? home : cache_home, by_home ? "/.cache" : "");
    return true;
}

static bool is_private(const struct stat *info)
{
    return info->st_uid == geteuid() && (info->st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

bool clprune__system_make_folders(char *path)
{
    size_t length = strlen(path);
    while (length > 1 &&
           (path[length - 1] == '/' || (path[length - 1] == '.' && path[length - 2] == '/')))
        path[--length] = '\0';
    for (char *p = path + 1;; p++) {
        if (*p != '/' && *p != '\0')
            continue;
        const char end = *p;
        *p = '\0';
        const bool failed = mkdir(path, 0700) != 0 && errno != EEXIST;
        *p = end;
        if (failed)
            return false;
        if (end == '\0')
            return true;
    }
}

clprune__folder_state clprune__system_folder_state(const char *path)
{
    struct stat info;
    if (lstat(path, &info) != 0 || !S_ISDIR(info.st_mode))
        return CLPRUNE__FOLDER_NONE;
    return is_private(&info) ? CLPRUNE__FOLDER_PRIVATE : CLPRUNE__FOLDER_SHARED;
}

int clprune__system_open_private(const char *path)
{
    /* O_NONBLOCK: a FIFO in the file's place must not hang the program. */
    return open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
}

bool clprune__system_facts(int file, clprune__file_facts *facts)
{
    struct stat info;
    if (fstat(file, &info) != 0)
        return false;
    *facts =
        (clprune__file_facts){S_ISREG(info.st_mode), is_private(&info), (uint64_t)info.st_size};
    return true;
}

bool clprune__system_read(int file, void *data, size_t size)
{
    for (unsigned char *at = data; size > 0;) {
        const ssize_t got = read(file, at, size);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return false;
        at += got;
        size -= (size_t)got;
    }
    return true;
}

void clprune__system_used_now(int file)
{
    (void)futimens(file, NULL);
}

void clprune__system_close(int file)
{
    (void)close(file);
}

int clprune__system_create_temporary(const char *name, char *temporary, size_t size)
{
    (void)snprintf(temporary, size, "%s.XXXXXX", name);
    return mkstemp(temporary); /* mode 0600 */
}

bool clprune__system_write(int file, const void *data, size_t size)
{
    for (const unsigned char *at = data; size > 0;) {
        const ssize_t put = write(file, at, size);
        if (put < 0 && errno == EINTR)
            continue;
        if (put <= 0)
            return false;
        at += put;
        size -= (size_t)put;
    }
    return true;
}

bool clprune__system_commit(int file, bool good, const char *temporary, const char *name)
{
    good = good && fsync(file) == 0;
    good = close(file) == 0 && good;
    good = good && rename(temporary, name) == 0;
    if (!good)
        (void)unlink(temporary);
    return good;
}

static DIR *handle(clprune__folder *folder)
{
    return (DIR *)(void *)folder;
}

clprune__folder *clprune__system_open_folder(const char *path)
{
    return (clprune__folder *)(void *)opendir(path);
}

size_t clprune__system_stack_limit(void)
{
    struct rlimit limit;
    return getrlimit(RLIMIT_STACK, &limit) == 0 && limit.rlim_cur < SIZE_MAX
               ? (size_t)limit.rlim_cur
               : SIZE_MAX;
}

bool clprune__system_modified(const char *path, int64_t *seconds)
{
    struct stat info;
    if (stat(path, &info) != 0)
        return false;
    *seconds = (int64_t)info.st_mtim.tv_sec;
    return true;
}

static bool next_entry(clprune__folder *folder, mode_t kind, bool (*wanted)(const char *name),
    clprune__folder_entry *entry)
{
    const struct dirent *found;
    while ((found = readdir(handle(folder))) != NULL) {
        struct stat info;
        if (!wanted(found->d_name) ||
            fstatat(dirfd(handle(folder)), found->d_name, &info, AT_SYMLINK_NOFOLLOW) != 0 ||
            (info.st_mode & S_IFMT) != kind)
            continue;
        *entry = (clprune__folder_entry){found->d_name, (uint64_t)info.st_size,
            (int64_t)info.st_mtim.tv_sec, (int64_t)info.st_mtim.tv_nsec};
        return true;
    }
    return false;
}

bool clprune__system_next_file(
    clprune__folder *folder, bool (*wanted)(const char *name), clprune__folder_entry *entry)
{
    return next_entry(folder, S_IFREG, wanted, entry);
}

bool clprune__system_next_folder(
    clprune__folder *folder, bool (*wanted)(const char *name), clprune__folder_entry *entry)
{
    return next_entry(folder, S_IFDIR, wanted, entry);
}

void clprune__system_remove_file(clprune__folder *folder, const char *name)
{
    (void)unlinkat(dirfd(handle(folder)), name, 0);
}

void clprune__system_close_folder(clprune__folder *folder)
{
    (void)closedir(handle(folder));
}
