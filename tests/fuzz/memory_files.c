/* Files in memory: the linker hands the targets' calls of open, stat and others to the functions
 * __wrap_* here (CMakeLists.txt). Below MEMORY_FOLDER there are the files of one execution and
 * folders; every other path, and the C library's own calls, go to the system. */
#define _GNU_SOURCE /* fopencookie */
#include "fuzz/memory_files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fuzz/fuzz.h"
#include "support/linker_wrap.h"

enum {
    FILES = 16,
    PATH = 256,
    COMPONENT = 255,            /* NAME_MAX */
    WHOLE_PATH = 4096,          /* PATH_MAX */
    FIRST_DESCRIPTOR = 1 << 24, /* above all of the system's */
    SINK_DESCRIPTOR = FIRST_DESCRIPTOR - 1
};

typedef struct memory_file {
    char path[PATH];
    size_t length; /* of the path */
    uint8_t *data; /* (room), kept for the next execution */
    size_t room, size;
    size_t at; /* of the descriptor or stream, while it is open */
    bool open;
    FILE *stream; /* NULL: it is open as a descriptor */
} memory_file;

static memory_file files[FILES];
static size_t count, found, sinks; /* sinks: open ones of the target's */
static bool here;                  /* relative paths lie in MEMORY_FOLDER */

void memory_files_clear(void)
{
    FUZZ_CHECK(count == 0 || found > 0); /* else the target reads elsewhere */
    for (size_t i = 0; i < count; ++i)
        FUZZ_CHECK(!files[i].open);
    FUZZ_CHECK(sinks == 0);
    count = found = 0;
}

void memory_files_add(const char *path, const void *data, size_t size)
{
    FUZZ_CHECK(count < FILES);
    memory_file *file = &files[count++];
    file->length = strlen(path);
    FUZZ_CHECK(file->length < PATH);
    memcpy(file->path, path, file->length + 1);
    if (size > file->room) {
        file->data = realloc(file->data, file->room = 2 * size);
        FUZZ_CHECK(file->data != NULL);
    }
    if (size > 0)
        memcpy(file->data, data, size);
    file->size = size;
}

void memory_files_here(bool on)
{
    here = on;
}

/* Not strcmp, whose arguments libFuzzer would note. */
static bool are_equal(const char *a, const char *b)
{
    while (*a == *b && *a != '\0') {
        ++a;
        ++b;
    }
    return *a == *b;
}

static bool is_ours(const char *path)
{
    static const char folder[] = MEMORY_FOLDER;
    size_t i = 0;
    while (folder[i] != '\0' && path[i] == folder[i])
        ++i;
    return folder[i] == '\0' || (here && path[0] != '/');
}

static memory_file *find(const char *path)
{
    const size_t length = strlen(path), skip = path[0] == '/' ? sizeof MEMORY_FOLDER - 1 : 0;
    for (size_t i = 0; i < count; ++i)
        if (files[i].length == length && are_equal(files[i].path + skip, path + skip)) {
            ++found;
            return &files[i];
        }
    errno = ENOENT;
    return NULL;
}

static memory_file *of_descriptor(int descriptor)
{
    if (descriptor < FIRST_DESCRIPTOR)
        return NULL;
    FUZZ_CHECK(descriptor < FIRST_DESCRIPTOR + FILES);
    FUZZ_CHECK(files[descriptor - FIRST_DESCRIPTOR].open);
    return &files[descriptor - FIRST_DESCRIPTOR];
}

static int begin(memory_file *file)
{
    FUZZ_CHECK(!file->open); /* one position serves one reader */
    file->open = true;
    file->at = 0;
    file->stream = NULL;
    return FIRST_DESCRIPTOR + (int)(file - files);
}

static size_t take(memory_file *file, void *bytes, size_t size)
{
    const size_t left = file->at < file->size ? file->size - file->at : 0;
    const size_t some = size < left ? size : left;
    if (some > 0)
        memcpy(bytes, file->data + file->at, some);
    file->at += some;
    return some;
}

static void describe(mode_t mode, size_t size, struct stat *info)
{
    memset(info, 0, sizeof *info);
    info->st_mode = mode;
    info->st_uid = geteuid();
    info->st_size = (off_t)size;
}

/* ---- streams ---- */

static ssize_t stream_read(void *file, char *bytes, size_t size)
{
    return (ssize_t)take(file, bytes, size);
}

static int stream_seek(void *cookie, off64_t *offset, int whence)
{
    memory_file *file = cookie;
    const off64_t base = whence == SEEK_SET   ? 0
                         : whence == SEEK_CUR ? (off64_t)file->at
                                              : (off64_t)file->size;
    if (*offset < -base || *offset > INT64_MAX - base) {
        errno = EINVAL;
        return -1;
    }
    *offset += base;
    file->at = (size_t)*offset;
    return 0;
}

static int stream_close(void *cookie)
{
    ((memory_file *)cookie)->open = false;
    return 0;
}

static FILE *stream(memory_file *file)
{
    static char buffers[FILES][4096]; /* as large as those of the system's files */
    FILE *made = fopencookie(file, "rb",
        (cookie_io_functions_t){.read = stream_read, .seek = stream_seek, .close = stream_close});
    FUZZ_CHECK(made != NULL);
    FUZZ_CHECK(setvbuf(made, buffers[file - files], _IOFBF, sizeof buffers[0]) == 0);
    file->stream = made;
    return made;
}

static ssize_t sink_write(void *nothing, const char *bytes, size_t size)
{
    (void)nothing;
    (void)bytes;
    return (ssize_t)size;
}

static int sink_close(void *nothing)
{
    (void)nothing;
    --sinks;
    return 0;
}

/* Of the target: "." and ".." are folders; other names can be written. */
static int begin_sink(const char *path)
{
    FUZZ_CHECK(strchr(path, '/') == NULL);
    if (are_equal(path, ".") || are_equal(path, "..")) {
        errno = EISDIR;
        return -1;
    }
    ++sinks;
    return SINK_DESCRIPTOR;
}

static FILE *sink(void)
{
    return fopencookie(
        NULL, "w", (cookie_io_functions_t){.write = sink_write, .close = sink_close});
}

FILE *memory_files_sink(void)
{
    return fopencookie(NULL, "w", (cookie_io_functions_t){.write = sink_write});
}

/* ---- what the targets call ---- */

TEST_WRAP(int, open, (const char *path, int flags, ...))
{
    if (is_ours(path)) {
        if ((flags & O_ACCMODE) == O_WRONLY)
            return begin_sink(path);
        memory_file *file = find(path);
        FUZZ_CHECK((flags & (O_ACCMODE | O_CREAT)) == O_RDONLY);
        return file != NULL ? begin(file) : -1;
    }
    va_list args;
    va_start(args, flags);
    const mode_t mode = (flags & O_CREAT) ? va_arg(args, mode_t) : 0;
    va_end(args);
    return __real_open(path, flags, mode);
}

TEST_WRAP(int, close, (int descriptor))
{
    if (descriptor == SINK_DESCRIPTOR)
        return sink_close(NULL);
    memory_file *file = of_descriptor(descriptor);
    return file != NULL ? stream_close(file) : __real_close(descriptor);
}

TEST_WRAP(ssize_t, read, (int descriptor, void *bytes, size_t size))
{
    memory_file *file = of_descriptor(descriptor);
    return file != NULL ? stream_read(file, bytes, size) : __real_read(descriptor, bytes, size);
}

TEST_WRAP(ssize_t, pread, (int descriptor, void *bytes, size_t size, off_t at))
{
    const memory_file *file = of_descriptor(descriptor);
    if (file == NULL)
        return __real_pread(descriptor, bytes, size, at);
    const size_t left = (size_t)at < file->size ? file->size - (size_t)at : 0;
    const size_t taken = size < left ? size : left;
    memcpy(bytes, (const char *)file->data + at, taken);
    return (ssize_t)taken;
}

TEST_WRAP(int, fstat, (int descriptor, struct stat *info))
{
    const memory_file *file = of_descriptor(descriptor);
    if (file == NULL)
        return __real_fstat(descriptor, info);
    describe(S_IFREG | 0600, file->size, info);
    return 0;
}

TEST_WRAP(int, futimens, (int descriptor, const struct timespec times[2]))
{
    return of_descriptor(descriptor) != NULL ? 0 : __real_futimens(descriptor, times);
}

TEST_WRAP(FILE *, fdopen, (int descriptor, const char *mode))
{
    if (descriptor == SINK_DESCRIPTOR)
        return sink();
    memory_file *file = of_descriptor(descriptor);
    return file != NULL ? stream(file) : __real_fdopen(descriptor, mode);
}

TEST_WRAP(int, fileno, (FILE * stream))
{
    for (size_t i = 0; i < count; ++i)
        if (files[i].open && files[i].stream == stream)
            return FIRST_DESCRIPTOR + (int)i;
    return __real_fileno(stream);
}

TEST_WRAP(FILE *, fopen, (const char *path, const char *mode))
{
    if (!is_ours(path))
        return __real_fopen(path, mode);
    if (mode[0] != 'r')
        return begin_sink(path) < 0 ? NULL : sink();
    memory_file *file = find(path);
    if (file == NULL)
        return NULL;
    (void)begin(file);
    return stream(file);
}

TEST_WRAP(int, access, (const char *path, int mode))
{
    if (!is_ours(path))
        return __real_access(path, mode);
    return find(path) != NULL ? 0 : -1;
}

/* Whether a file lies in it. */
static bool is_folder(const char *path)
{
    const size_t length = strlen(path), skip = path[0] == '/' ? sizeof MEMORY_FOLDER - 1 : 0;
    for (size_t i = 0; i < count; ++i) {
        const char *other = files[i].path;
        size_t k = skip;
        while (k < length && k < files[i].length && other[k] == path[k])
            ++k;
        if (k == length && length < files[i].length && other[k] == '/')
            return true;
    }
    return false;
}

TEST_WRAP(int, stat, (const char *path, struct stat *info))
{
    if (!is_ours(path))
        return __real_stat(path, info);
    const memory_file *file = find(path);
    if (file == NULL && !is_folder(path))
        return -1;
    describe(file != NULL ? S_IFREG | 0600 : S_IFDIR | 0700, file != NULL ? file->size : 0, info);
    return 0;
}

/* Of folders that mkdir has made. */
TEST_WRAP(int, lstat, (const char *path, struct stat *info))
{
    if (!is_ours(path))
        return __real_lstat(path, info);
    describe(S_IFDIR | 0700, 0, info);
    return 0;
}

/* Any folder can be made, and MEMORY_FOLDER is there. */
TEST_WRAP(int, mkdir, (const char *path, mode_t mode))
{
    if (!is_ours(path))
        return __real_mkdir(path, mode);
    const char *last = path;
    size_t longest = 0;
    for (const char *p = path; *p != '\0'; p += strspn(p, "/")) {
        const size_t length = strcspn(p, "/");
        longest = length > longest ? length : longest;
        last = p;
        p += length;
    }
    if (longest > COMPONENT || strlen(path) >= WHOLE_PATH) {
        errno = ENAMETOOLONG;
        return -1;
    }
    if (are_equal(path, MEMORY_FOLDER) || are_equal(last, ".") || path[strlen(path) - 1] == '/') {
        errno = EEXIST;
        return -1;
    }
    return 0;
}
