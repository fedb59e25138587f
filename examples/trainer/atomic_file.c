#include "atomic_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char *join(const char *a, const char *b)
{
    const size_t size = strlen(a) + strlen(b) + 1;
    char *text = malloc(size);
    if (text != NULL)
        (void)snprintf(text, size, "%s%s", a, b);
    return text;
}

static bool fail(const char *doing, const char *path, fault *f)
{
    return fault_set(f, CODE_DATA, "cannot %s %s: %s", doing, path, strerror(errno));
}

static void forget(atomic_file *file)
{
    free(file->path);
    free(file->temporary);
    *file = (atomic_file){0};
}

bool atomic_file_open(const char *path, atomic_file *file, fault *f)
{
    struct stat status;
    const bool direct = stat(path, &status) == 0 && !S_ISREG(status.st_mode);
    *file = (atomic_file){.path = strdup(path), .temporary = direct ? NULL : join(path, ".tmp")};
    if (file->path == NULL || (!direct && file->temporary == NULL)) {
        forget(file);
        return fault_set(f, CODE_MEMORY, "out of memory");
    }
    const int flags = O_WRONLY | O_CLOEXEC | (direct ? 0 : O_CREAT | O_TRUNC | O_NOFOLLOW);
    const int descriptor = open(direct ? path : file->temporary, flags, 0666);
    file->stream = descriptor < 0 ? NULL : fdopen(descriptor, "wb");
    if (file->stream == NULL) {
        (void)fail("write", path, f);
        if (descriptor >= 0)
            (void)close(descriptor);
        forget(file);
        return false;
    }
    return true;
}

/* The rename lasts only once the folder is on the disk, too. */
static bool sync_folder(const char *path)
{
    char *folder = strdup(path);
    if (folder == NULL) {
        errno = ENOMEM;
        return false;
    }
    char *slash = strrchr(folder, '/');
    if (slash == NULL)
        (void)snprintf(folder, strlen(folder) + 1, ".");
    else
        slash[slash == folder ? 1 : 0] = '\0';
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
    const int first = errno; /* fclose may overwrite it */
    const bool closed = fclose(file->stream) == 0;
    file->stream = NULL;
    if (!good)
        errno = first;
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
    forget(file);
}

bool make_folder(const char *path, fault *f)
{
    char *name = join(path, "");
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
