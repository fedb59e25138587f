#define _XOPEN_SOURCE 700 /* realpath */

#include "trainer/files/atomic_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "trainer/base/open_output.h"
#include "trainer/files/plain_file.h"

enum { TEMPORARY_SUFFIX = sizeof ".12345678.tmp" - 1 };

static bool fail(const char *doing, const char *path, fault *f)
{
    return fault_set_file(f, doing, path, errno);
}

/* Eight digits that differ between writers, even for equal process ids on two machines that share a
 * folder. O_EXCL catches the remaining collisions. */
static uint32_t draw(uint32_t attempt)
{
    struct timespec now = {0};
    (void)clock_gettime(CLOCK_REALTIME, &now);
    uint32_t bits = (uint32_t)now.tv_nsec ^ (uint32_t)now.tv_sec * UINT32_C(0x9E3779B9);
    bits ^= (uint32_t)getpid() * UINT32_C(0x85EBCA6B) + attempt * UINT32_C(0xC2B2AE35);
    return bits;
}

static FILE *open_temporary(atomic_file *file)
{
    const size_t size = strlen(file->path) + TEMPORARY_SUFFIX + 1;
    FILE *stream = NULL;
    file->temporary = malloc(size);
    if (file->temporary == NULL) {
        errno = ENOMEM;
        return NULL;
    }
    for (uint32_t i = 0; i < 100; ++i) {
        (void)snprintf(file->temporary, size, "%s.%08" PRIx32 ".tmp", file->path, draw(i));
        stream = open_output(file->temporary, O_CREAT | O_EXCL | O_NOFOLLOW);
        if (stream != NULL || errno != EEXIST)
            break;
    }
    if (stream == NULL) { /* a file of this name is another's */
        const int cause = errno;
        free(file->temporary);
        file->temporary = NULL;
        errno = cause;
    }
    return stream;
}

/* A descriptor, from standard output on, that has the file open for writing; -1: none. */
static int find_open(const struct stat *status)
{
    for (int i = STDOUT_FILENO; i < 10; ++i) {
        struct stat other;
        if (fstat(i, &other) == 0 && other.st_dev == status->st_dev &&
            other.st_ino == status->st_ino && (fcntl(i, F_GETFL) & O_ACCMODE) != O_RDONLY)
            return i;
    }
    return -1;
}

/* A stream of a copy of a descriptor. */
static FILE *duplicate(int descriptor)
{
    const int copy = fcntl(descriptor, F_DUPFD_CLOEXEC, 0);
    FILE *stream = copy >= 0 ? fdopen(copy, "wb") : NULL;
    if (copy >= 0 && stream == NULL) {
        const int cause = errno;
        (void)close(copy);
        errno = cause;
    }
    return stream;
}

/* Opens what is written directly: a device, a pipe, or what the process has open, behind what was
 * written there. *stream is NULL for other names. Fails for folders, named FIFOs and the like. */
static bool open_direct(const char *path, FILE **stream, fault *f)
{
    struct stat status;
    const size_t length = strlen(path);
    *stream = NULL;
    if (strcmp(path, "-") == 0)
        return fault_set(f, CODE_DATA,
            "cannot write -: standard output is /dev/stdout, and a file of this name ./-");
    if (length > 0 && path[length - 1] == '/')
        return fault_set(f, CODE_DATA, "cannot write %s: it names a folder", path);
    if (stat(path, &status) != 0) {
        if (errno != ENOENT && errno != ELOOP)
            return fail("write", path, f);
        if (lstat(path, &status) == 0)
            return fault_set(f, CODE_DATA, "cannot write %s: it is a link to nothing", path);
        return errno == ENOENT || fail("write", path, f);
    }
    const int found = find_open(&status);
    if (found < 0 && S_ISREG(status.st_mode))
        return true;
    if (found >= 0) {
        (void)fflush(stdout);
        *stream = duplicate(found);
    } else if (S_ISCHR(status.st_mode) ||
               (S_ISFIFO(status.st_mode) && strncmp(path, "/dev/", 5) == 0)) {
        *stream = open_output(path, 0);
    } else {
        return fault_set(
            f, CODE_DATA, "cannot write %s: %s", path, plain_file_refusal(status.st_mode));
    }
    return *stream != NULL || fail("write", path, f);
}

/* A link must not be replaced by the file: NULL, and errno, if the system cannot tell. */
static char *without_links(const char *path)
{
    struct stat status;
    if (lstat(path, &status) != 0)
        return errno == ENOENT ? strdup(path) : NULL;
    return S_ISLNK(status.st_mode) ? realpath(path, NULL) : strdup(path);
}

bool atomic_file_open(const char *path, atomic_file *file, fault *f)
{
    *file = (atomic_file){0};
    if (!open_direct(path, &file->stream, f))
        return false;
    const bool direct = file->stream != NULL;
    file->path = direct ? strdup(path) : without_links(path);
    if (file->path != NULL && !direct)
        file->stream = open_temporary(file);
    if (file->path != NULL && file->stream != NULL)
        return true;
    (void)fail("write", path, f);
    atomic_file_abandon(file);
    return false;
}

void atomic_file_put(atomic_file *file, const void *data, size_t size)
{
    errno = 0;
    if (fwrite(data, 1, size, file->stream) != size && file->error == 0)
        file->error = errno;
}

bool atomic_file_probe(const char *path, fault *f)
{
    atomic_file file;
    if (!atomic_file_open(path, &file, f))
        return false;
    atomic_file_abandon(&file);
    return true;
}

/* Whether `entry` is a temporary name of `name`. */
static bool is_temporary(const char *entry, const char *name)
{
    const size_t length = strlen(name);
    return strncmp(entry, name, length) == 0 && entry[length] == '.' &&
           strspn(entry + length + 1, "0123456789abcdef") == 8 &&
           strcmp(entry + length + 9, ".tmp") == 0;
}

void atomic_file_sweep(const char *folder, const char *name)
{
    DIR *entries = opendir(folder);
    if (entries == NULL)
        return;
    for (const struct dirent *e = readdir(entries); e != NULL; e = readdir(entries))
        if (is_temporary(e->d_name, name))
            (void)unlinkat(dirfd(entries), e->d_name, 0);
    (void)closedir(entries);
}

/* The rename lasts only once the folder is on the disk, too. */
static bool sync_folder(const char *path)
{
    char *folder = folder_of(path);
    if (folder == NULL) {
        errno = ENOMEM;
        return false;
    }
    const int descriptor = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    free(folder);
    if (descriptor < 0)
        return false;
    const bool synced = fsync(descriptor) == 0 || errno == EINVAL; /* not all systems can */
    (void)close(descriptor);
    return synced;
}

bool atomic_file_commit(atomic_file *file, fault *f)
{
    const bool direct = file->temporary == NULL;
    errno = 0;
    bool good = fflush(file->stream) == 0 && !ferror(file->stream);
    good = good && (direct || fsync(fileno(file->stream)) == 0);
    const int first = file->error != 0 ? file->error : errno; /* fclose may overwrite it */
    const bool closed = fclose(file->stream) == 0;
    file->stream = NULL;
    if (!good)
        errno = first != 0 ? first : EIO;
    good = good && closed && (direct || rename(file->temporary, file->path) == 0);
    if (good)
        good = direct || sync_folder(file->path);
    if (!good)
        (void)fail("write", file->path, f);
    atomic_file_abandon(file);
    return good;
}

void atomic_file_abandon(atomic_file *file)
{
    if (file->stream != NULL)
        (void)fclose(file->stream);
    if (file->temporary != NULL)
        (void)unlink(file->temporary); /* gone already after a commit */
    free(file->path);
    free(file->temporary);
    *file = (atomic_file){0};
}

bool make_folder(const char *path, fault *f)
{
    char *name = strdup(path);
    bool good = true;
    if (name == NULL)
        return fault_set(f, CODE_MEMORY, "out of memory");
    for (char *p = name + 1; good; ++p) {
        const char end = *p;
        if (end != '/' && end != '\0')
            continue;
        *p = '\0';
        good = mkdir(name, 0777) == 0 || errno == EEXIST;
        *p = end;
        if (end == '\0')
            break;
    }
    struct stat status;
    if (good && (stat(name, &status) != 0 || !S_ISDIR(status.st_mode))) {
        good = false;
        errno = ENOTDIR;
    }
    if (!good)
        (void)fail("make the folder", path, f);
    free(name);
    return good;
}
