#include "fuzz/fuzz.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fuzz/memory_files.h"

enum { PATH = 1024, PATHS = 16 };

void fuzz_check(bool holds, const char *condition, const char *file, int line)
{
    if (holds)
        return;
    (void)dprintf(STDERR_FILENO, "%s:%d: broken: %s\n", file, line, condition);
    abort();
}

void fuzz_check_text(const char *text, const char *part)
{
    const bool good =
        text[0] != '\0' && strchr(text, '\n') == NULL && (part == NULL || strstr(text, part));
    if (good)
        return;
    (void)dprintf(STDERR_FILENO, "a message that is not one line with \"%s\": \"%s\"\n",
        part != NULL ? part : "", text);
    abort();
}

/* Before 2.33 glibc had no function fstat that could be wrapped; _FILE_OFFSET_BITS renames them. */
#if defined _FILE_OFFSET_BITS || (defined __GLIBC__ && !__GLIBC_PREREQ(2, 33))
enum { CAN_WRAP = 0 };
#else
enum { CAN_WRAP = 1 };
#endif

bool fuzz_on_disk;
static bool in_memory;
static char folder[PATH];

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    enum { ONE_OF = 32 };
    in_memory = CAN_WRAP && !fuzz_on_disk && size % ONE_OF != ONE_OF - 1;
    fuzz_target((fuzz_input){bytes, size});
    memory_files_clear();
    return 0;
}

bool fuzz_in_memory(void)
{
    return in_memory;
}

static void remove_all(const char *path)
{
    DIR *open_folder = opendir(path);
    const struct dirent *entry;
    if (open_folder == NULL) {
        (void)unlink(path);
        return;
    }
    while ((entry = readdir(open_folder)) != NULL) {
        char below[4 * PATH];
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        (void)snprintf(below, sizeof below, "%s/%s", path, entry->d_name);
        struct stat info;
        if (lstat(below, &info) == 0 && S_ISDIR(info.st_mode))
            remove_all(below);
        else
            (void)unlink(below);
    }
    (void)closedir(open_folder);
    (void)rmdir(path);
}

static void clean_up(void)
{
    remove_all(folder);
}

const char *fuzz_folder(void)
{
    if (in_memory)
        return MEMORY_FOLDER;
    if (folder[0] != '\0')
        return folder;
    const char *base = getenv("TMPDIR");
    if (access("/dev/shm", W_OK) == 0)
        base = "/dev/shm";
    (void)snprintf(folder, sizeof folder, "%.900s/clprune-fuzz-XXXXXX", base ? base : "/tmp");
    FUZZ_CHECK(mkdtemp(folder) != NULL);
    (void)atexit(clean_up);
    return folder;
}

static const char *path_of(const char *name)
{
    static char paths[PATHS][2 * PATH];
    static unsigned next;
    char *path = paths[next++ % PATHS];
    (void)snprintf(path, sizeof paths[0], "%s/%.900s", fuzz_folder(), name);
    return path;
}

const char *fuzz_write(const char *name, const void *data, size_t size)
{
    const char *path = path_of(name);
    if (in_memory) {
        memory_files_add(path, data, size);
        return path;
    }
    const int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    FUZZ_CHECK(file >= 0);
    FUZZ_CHECK(size == 0 || write(file, data, size) == (ssize_t)size);
    FUZZ_CHECK(close(file) == 0);
    return path;
}

void fuzz_subfolder(const char *name)
{
    if (!in_memory)
        (void)mkdir(path_of(name), 0700);
}

void fuzz_remove(const char *name)
{
    if (!in_memory)
        remove_all(path_of(name));
}

uint8_t fuzz_byte(fuzz_input *in)
{
    if (in->size == 0)
        return 0;
    --in->size;
    return *in->data++;
}

uint32_t fuzz_word(fuzz_input *in, uint32_t most)
{
    const uint32_t low = fuzz_byte(in);
    return (low | (uint32_t)fuzz_byte(in) << 8) % (most + 1);
}

fuzz_input fuzz_part(fuzz_input *in, size_t size)
{
    const fuzz_input part = {in->data, size < in->size ? size : in->size};
    in->data += part.size;
    in->size -= part.size;
    return part;
}

char *fuzz_line(fuzz_input *in, char *text, size_t size)
{
    const uint8_t *newline = in->size > 0 ? memchr(in->data, '\n', in->size) : NULL;
    fuzz_input line = fuzz_part(in, newline != NULL ? (size_t)(newline - in->data) : in->size);
    (void)fuzz_byte(in);
    if (line.size > size - 1)
        line.size = size - 1;
    if (line.size > 0)
        memcpy(text, line.data, line.size);
    text[line.size] = '\0';
    return text;
}

char *fuzz_text(fuzz_input *in)
{
    char *text = malloc(in->size + 1);
    FUZZ_CHECK(text != NULL);
    if (in->size > 0)
        memcpy(text, in->data, in->size);
    text[in->size] = '\0';
    in->size = 0;
    return text;
}
