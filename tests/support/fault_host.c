/* The C library's functions as the linker's --wrap renames them; fault_host.h describes it. */
#include "support/fault_host.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#include "support/linker_wrap.h"

static fault_group armed;
static atomic_uint calls[FAULT_GROUPS];
static unsigned fail_at;
static bool fail_forever;
static const char *_Atomic fired;
static atomic_long blocks, files;

/* The places in the program that have called, as return addresses. */
enum { MOST_PLACES = 4096 };
static _Atomic(void *) places[MOST_PLACES];
static atomic_uint places_count[FAULT_GROUPS];
static bool by_place; /* each place counts once */

void fault_host_arm(fault_group group, unsigned at, bool forever)
{
    armed = group;
    fail_at = at;
    fail_forever = forever;
    calls[FAULT_MEMORY] = 0;
    calls[FAULT_FILES] = 0;
    fired = NULL;
}

const char *fault_host_fired(void)
{
    return fired;
}

long fault_host_blocks(void)
{
    return blocks;
}

long fault_host_files(void)
{
    return files;
}

/* Whether this is the first call from a place. */
static bool is_new(fault_group group, void *place)
{
    for (size_t i = (size_t)place % MOST_PLACES, tries = 0; tries < MOST_PLACES; tries++) {
        void *empty = NULL;
        if (atomic_compare_exchange_strong(&places[i], &empty, place)) {
            places_count[group]++;
            return true;
        }
        if (empty == place)
            return false;
        i = (i + 1) % MOST_PLACES;
    }
    return false;
}

/* Whether this call, which returns to `place`, fails; errno is then set. */
static bool fails_at(fault_group group, const char *function, void *place)
{
    const bool first = is_new(group, place);
    unsigned n = ++calls[group];
    if (group != armed || fail_at == 0)
        return false;
    if (by_place) {
        if (fired == NULL && (!first || places_count[group] != fail_at))
            return false;
        n = fired == NULL ? fail_at : fail_at + 1;
    }
    if (n < fail_at || (n > fail_at && !fail_forever))
        return false;
    if (n == fail_at)
        fired = function;
    errno = group == FAULT_MEMORY ? ENOMEM : EIO;
    return true;
}

#define fails(group, function) fails_at(group, function, __builtin_return_address(0))

/* WRAP(group, type, failure, function, parameters, arguments, count): on success `count` is
 * evaluated, with `got` the result. */
#define WRAP(group, type, failure, function, parameters, arguments, count)                         \
    TEST_WRAP(type, function, parameters)                                                          \
    {                                                                                              \
        if (fails(group, #function))                                                               \
            return failure;                                                                        \
        type got = __real_##function arguments;                                                    \
        (void)(count);                                                                             \
        return got;                                                                                \
    }

/* ---- memory ---------------------------------------------------------------------------------- */

#define MEMORY(type, failure, function, parameters, arguments, count)                              \
    WRAP(FAULT_MEMORY, type, failure, function, parameters, arguments, count)

MEMORY(void *, NULL, malloc, (size_t a), (a), blocks += got != NULL)
MEMORY(void *, NULL, calloc, (size_t a, size_t b), (a, b), blocks += got != NULL)
MEMORY(void *, NULL, realloc, (void *a, size_t b), (a, b), blocks += a == NULL && got != NULL)
MEMORY(char *, NULL, strdup, (const char *a), (a), blocks += got != NULL)
MEMORY(int, ENOMEM, posix_memalign, (void **a, size_t b, size_t c), (a, b, c), blocks += got == 0)
MEMORY(int, EAGAIN, pthread_create,
    (pthread_t * a, const pthread_attr_t *b, void *(*c)(void *), void *d), (a, b, c, d), 0)
MEMORY(
    int, ENOMEM, pthread_mutex_init, (pthread_mutex_t * a, const pthread_mutexattr_t *b), (a, b), 0)
MEMORY(int, ENOMEM, pthread_mutexattr_init, (pthread_mutexattr_t * a), (a), 0)

/* The caller frees its text; the stream itself allocates. */
TEST_WRAP(FILE *, open_memstream, (char **text, size_t *size))
{
    FILE *stream = fails(FAULT_MEMORY, "open_memstream") ? NULL : __real_open_memstream(text, size);
    files += stream != NULL;
    blocks += stream != NULL;
    return stream;
}

TEST_WRAP(void, free, (void *block))
{
    blocks -= block != NULL;
    __real_free(block);
}

/* ---- files ----------------------------------------------------------------------------------- */

#define FILES(type, failure, function, parameters, arguments, count)                               \
    WRAP(FAULT_FILES, type, failure, function, parameters, arguments, count)

FILES(FILE *, NULL, fopen, (const char *a, const char *b), (a, b), files += got != NULL)
FILES(FILE *, NULL, fdopen, (int a, const char *b), (a, b), 0) /* fclose closes `a` */
FILES(int, -1, mkstemp, (char *a), (a), files += got >= 0)
FILES(DIR *, NULL, opendir, (const char *a), (a), files += got != NULL)
FILES(struct dirent *, NULL, readdir, (DIR * a), (a), 0)
FILES(ssize_t, -1, read, (int a, void *b, size_t c), (a, b, c), 0)
FILES(ssize_t, -1, pread, (int a, void *b, size_t c, off_t d), (a, b, c, d), 0)
FILES(ssize_t, -1, write, (int a, const void *b, size_t c), (a, b, c), 0)
FILES(int, -1, fsync, (int a), (a), 0)
FILES(int, -1, ftruncate, (int a, off_t b), (a, b), 0)
FILES(int, -1, rename, (const char *a, const char *b), (a, b), 0)
FILES(int, -1, mkdir, (const char *a, mode_t b), (a, b), 0)
FILES(int, -1, rmdir, (const char *a), (a), 0)
FILES(int, -1, access, (const char *a, int b), (a, b), 0)
FILES(char *, NULL, realpath, (const char *a, char *b), (a, b), blocks += b == NULL && got != NULL)
FILES(int, -1, __open_2, (const char *a, int b), (a, b), files += got >= 0)
FILES(int, -1, unlink, (const char *a), (a), 0)
FILES(int, -1, unlinkat, (int a, const char *b, int c), (a, b, c), 0)
FILES(int, -1, stat, (const char *a, struct stat *b), (a, b), 0)
FILES(int, -1, lstat, (const char *a, struct stat *b), (a, b), 0)
FILES(int, -1, fstat, (int a, struct stat *b), (a, b), 0)
FILES(int, -1, fstatat, (int a, const char *b, struct stat *c, int d), (a, b, c, d), 0)
FILES(int, -1, futimens, (int a, const struct timespec *b), (a, b), 0)

TEST_WRAP(int, open, (const char *path, int flags, ...))
{
    va_list rest;
    va_start(rest, flags);
    const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(rest, mode_t) : 0;
    va_end(rest);
    if (fails(FAULT_FILES, "open"))
        return -1;
    const int got = __real_open(path, flags, mode);
    files += got >= 0;
    return got;
}

/* Locks and flags: an int or a pointer. */
TEST_WRAP(int, fcntl, (int file, int command, ...))
{
    va_list rest;
    va_start(rest, command);
    void *argument = va_arg(rest, void *);
    va_end(rest);
    return fails(FAULT_FILES, "fcntl") ? -1 : __real_fcntl(file, command, argument);
}

TEST_WRAP(int, close, (int file))
{
    files--;
    const int got = __real_close(file);
    return fails(FAULT_FILES, "close") ? -1 : got;
}

TEST_WRAP(int, closedir, (DIR * folder))
{
    files--;
    return __real_closedir(folder);
}

/* ---- streams --------------------------------------------------------------------------------- */

/* A stream of open_memstream, which has no descriptor, writes to memory. */
static fault_group group_of(FILE *stream)
{
    const int before = errno;
    const fault_group group = fileno(stream) < 0 ? FAULT_MEMORY : FAULT_FILES;
    errno = before;
    return group;
}

/* Whether a call on a stream fails; ferror is then true, as after a failed write. */
static bool stream_fails_at(FILE *stream, const char *function, void *place)
{
    if (stream == stderr ||
        !fails_at(group_of(stream), function, place)) /* the message is tested */
        return false;
    stream->_flags |= _IO_ERR_SEEN;
    return true;
}

#define stream_fails(stream, function)                                                             \
    stream_fails_at(stream, function, __builtin_return_address(0))

#define STREAM(type, failure, function, parameters, arguments, stream)                             \
    TEST_WRAP(type, function, parameters)                                                          \
    {                                                                                              \
        return stream_fails(stream, #function) ? (failure) : __real_##function arguments;          \
    }

STREAM(size_t, 0, fread, (void *a, size_t b, size_t c, FILE *d), (a, b, c, d), d)
STREAM(size_t, 0, __fread_chk, (void *a, size_t b, size_t c, size_t d, FILE *e), (a, b, c, d, e), e)
STREAM(size_t, 0, fwrite, (const void *a, size_t b, size_t c, FILE *d), (a, b, c, d), d)
STREAM(int, EOF, fputs, (const char *a, FILE *b), (a, b), b)
STREAM(int, EOF, fputc, (int a, FILE *b), (a, b), b)
STREAM(int, EOF, putc, (int a, FILE *b), (a, b), b)
STREAM(int, EOF, fgetc, (FILE * a), (a), a)
STREAM(int, -1, fseeko, (FILE * a, off_t b, int c), (a, b, c), a)

int __wrap_fprintf(FILE *stream, const char *format, ...);
int __wrap_fprintf(FILE *stream, const char *format, ...)
{
    va_list values;
    va_start(values, format);
    const int got = stream_fails(stream, "fprintf") ? -1 : vfprintf(stream, format, values);
    va_end(values);
    return got;
}

int __wrap___fprintf_chk(FILE *stream, int flag, const char *format, ...);
int __wrap___fprintf_chk(FILE *stream, int flag, const char *format, ...)
{
    (void)flag;
    va_list values;
    va_start(values, format);
    const int got = stream_fails(stream, "fprintf") ? -1 : vfprintf(stream, format, values);
    va_end(values);
    return got;
}

TEST_WRAP(int, fflush, (FILE * stream))
{
    if (stream != NULL && stream_fails(stream, "fflush"))
        return EOF;
    return __real_fflush(stream);
}

TEST_WRAP(int, fclose, (FILE * stream))
{
    const fault_group group = group_of(stream);
    files--;
    const int got = __real_fclose(stream);
    return fails(group, "fclose") ? EOF : got;
}

/* ---- from outside ---------------------------------------------------------------------------- */

/* "group:at" or "group:at:forever" of $FAULT_HOST; "group:#at" for places. */
__attribute__((constructor)) static void arm_by_environment(void)
{
    const char *text = getenv("FAULT_HOST");
    char group[16];
    unsigned at;
    by_place = text != NULL && strchr(text, '#') != NULL;
    if (text != NULL && sscanf(text, by_place ? "%15[^:]:#%u" : "%15[^:]:%u", group, &at) == 2)
        fault_host_arm(strcmp(group, "files") == 0 ? FAULT_FILES : FAULT_MEMORY, at,
            strstr(text, ":forever") != NULL);
}

__attribute__((destructor)) static void report(void)
{
    const char *path = getenv("FAULT_REPORT");
    FILE *file = path != NULL ? __real_fopen(path, "a") : NULL;
    if (file == NULL)
        return;
    /* PoCL's threads give a buffer's memory back a moment after its last command is finished. */
    for (int i = 0; i < 50 && blocks > 0; i++)
        (void)nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    char line[240];
    (void)snprintf(line, sizeof line,
        "host: %u allocations from %u places, %u calls on files from %u places, failed %s, "
        "alive %ld blocks %ld files\n",
        (unsigned)calls[FAULT_MEMORY], (unsigned)places_count[FAULT_MEMORY],
        (unsigned)calls[FAULT_FILES], (unsigned)places_count[FAULT_FILES],
        fired != NULL ? fired : "none", (long)blocks, (long)files);
    (void)__real_fputs(line, file);
    (void)__real_fclose(file);
}
