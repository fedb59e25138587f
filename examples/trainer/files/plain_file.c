#include "trainer/files/plain_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *plain_file_refusal(mode_t mode)
{
    if (S_ISREG(mode))
        return NULL;
    if (S_ISDIR(mode))
        return "it is a folder, not a regular file";
    if (S_ISFIFO(mode))
        return "it is a FIFO, not a regular file";
    if (S_ISSOCK(mode))
        return "it is a socket, not a regular file";
    return "it is a device, not a regular file";
}

bool plain_file_exists(const char *path, bool *there, fault *f)
{
    *there = access(path, F_OK) == 0;
    return *there || errno == ENOENT || errno == ENOTDIR ||
           fault_set_file(f, "look for", path, errno);
}

/* The descriptor of a regular file, or -1. O_NONBLOCK: a FIFO opens at once, to be refused. */
static int open_regular(const char *path, struct stat *status, const char **why)
{
    const int descriptor = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    int error = 0;
    if (descriptor < 0 || fstat(descriptor, status) != 0) {
        error = errno;
        *why = strerror(error);
    } else if ((*why = plain_file_refusal(status->st_mode)) == NULL) {
        return descriptor;
    }
    if (descriptor >= 0)
        (void)close(descriptor);
    errno = error;
    return -1;
}

int plain_file_descriptor(const char *path, uint64_t *bytes, const char **why)
{
    struct stat status;
    const int descriptor = open_regular(path, &status, why);
    if (descriptor >= 0)
        *bytes = (uint64_t)status.st_size;
    return descriptor;
}

FILE *plain_file_open(const char *path, uint64_t *bytes, const char **why)
{
    struct stat status;
    const int descriptor = open_regular(path, &status, why);
    if (descriptor < 0)
        return NULL;
    if (bytes != NULL)
        *bytes = (uint64_t)status.st_size;
    FILE *stream = fdopen(descriptor, "rb");
    if (stream == NULL) {
        const int error = errno;
        *why = strerror(error);
        (void)close(descriptor);
        errno = error;
    }
    return stream;
}

char *plain_file_read(const char *path, size_t most, size_t *length, fault *f)
{
    uint64_t bytes;
    const char *why;
    FILE *stream = plain_file_open(path, &bytes, &why);
    if (stream == NULL) {
        (void)fault_set(f, CODE_DATA, "%s: %s", path, why);
        return NULL;
    }
    char *text = bytes <= most ? malloc((size_t)bytes + 1) : NULL;
    *length = text != NULL ? fread(text, 1, (size_t)bytes, stream) : 0;
    (void)fclose(stream);
    const bool good = bytes > most ? fault_set(f, CODE_DATA, "%s: more than %zu bytes", path, most)
                      : text == NULL
                          ? fault_set(f, CODE_MEMORY, "%s: no memory for it", path)
                          : *length == bytes || fault_set(f, CODE_DATA, "%s: cannot be read", path);
    if (good) {
        text[*length] = '\0';
        return text;
    }
    free(text);
    return NULL;
}

char *path_join(const char *folder, const char *sub, const char *name)
{
    const size_t size = strlen(folder) + strlen(sub) + strlen(name) + 2;
    char *path = malloc(size);
    if (path != NULL)
        (void)snprintf(path, size, "%s/%s%s", folder, sub, name);
    return path;
}

bool same_file(const char *a, const char *b)
{
    struct stat x, y;
    return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

char *folder_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    char *folder = strdup(slash == NULL ? "." : path);
    if (folder != NULL && slash != NULL)
        folder[slash == path ? 1 : slash - path] = '\0';
    return folder;
}
