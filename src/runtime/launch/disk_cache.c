#include "runtime/launch/disk_cache.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "core/sha256.h"

/* Layout of a cache file; numbers are little-endian. */
#define MAGIC        "CLPRUNE1"
#define MAGIC_BYTES  8
#define KEY_AT       MAGIC_BYTES
#define SIZE_AT      (KEY_AT + CLPRUNE__SHA256_BYTES)
#define HASH_AT      (SIZE_AT + 8)
#define HEADER_BYTES (HASH_AT + CLPRUNE__SHA256_BYTES)

#define MAX_PAYLOAD ((uint64_t)256 << 20)
#define PATH_BYTES  4096

static void digest_of(const void *data, size_t size, unsigned char digest[CLPRUNE__SHA256_BYTES])
{
    clprune__sha256 hash;
    clprune__sha256_begin(&hash);
    clprune__sha256_update(&hash, data, size);
    clprune__sha256_end(&hash, digest);
}

/* Whether a file or folder is the user's own and nobody else may write it. */
static int is_private(const struct stat *info)
{
    return info->st_uid == geteuid() && (info->st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

/* Creates `path` and its parents with mode 0700; existing folders stay as they are. */
static int make_folders(char *path)
{
    for (char *p = path + 1;; p++) {
        if (*p != '/' && *p != '\0')
            continue;
        const char end = *p;
        *p = '\0';
        const int failed = mkdir(path, 0700) != 0 && errno != EEXIST;
        *p = end;
        if (failed)
            return 0;
        if (end == '\0')
            return 1;
    }
}

char *clprune__disk_folder(const char *dir, const char **reason)
{
    char path[PATH_BYTES];
    int length;
    const char *cache_home = getenv("XDG_CACHE_HOME");
    const char *home = getenv("HOME");
    *reason = NULL;
    if (dir == NULL || dir[0] == '\0')
        dir = getenv("CLPRUNE_CACHE_DIR");
    if (dir != NULL && strcmp(dir, "off") == 0)
        return NULL;
    if (dir != NULL && dir[0] != '\0')
        length = snprintf(path, sizeof path, "%s", dir);
    else if (cache_home != NULL && cache_home[0] == '/')
        length = snprintf(path, sizeof path, "%s/clprune", cache_home);
    else if (home != NULL && home[0] == '/')
        length = snprintf(path, sizeof path, "%s/.cache/clprune", home);
    else {
        *reason = "neither CLPRUNE_CACHE_DIR nor XDG_CACHE_HOME nor HOME names a folder";
        return NULL;
    }
    if (length < 0 || (size_t)length >= sizeof path) {
        *reason = "the folder's name is too long";
        return NULL;
    }
    /* Strips "/" and "/." at the end: lstat would follow "link/" and "link/.". */
    while (length > 1 &&
           (path[length - 1] == '/' || (path[length - 1] == '.' && path[length - 2] == '/')))
        path[--length] = '\0';
    struct stat info;
    if (!make_folders(path))
        *reason = "the folder cannot be created";
    else if (lstat(path, &info) != 0 || !S_ISDIR(info.st_mode))
        *reason = "the folder's name is taken by a file or a link";
    else if (!is_private(&info))
        *reason = "the folder belongs to another user or others may write it";
    if (*reason != NULL)
        return NULL;
    char *copy = malloc((size_t)length + 1);
    if (copy == NULL)
        *reason = "no host memory";
    else
        memcpy(copy, path, (size_t)length + 1);
    return copy;
}

/* Writes "folder/<key hash>.bin" and the key's hash; 0 where the path does not fit. */
static int file_path(const char *folder, const char *key, char path[PATH_BYTES],
    unsigned char key_digest[CLPRUNE__SHA256_BYTES])
{
    char hex[65];
    digest_of(key, strlen(key), key_digest);
    clprune__sha256_hex(key_digest, hex);
    const int length = snprintf(path, PATH_BYTES, "%s/%s.bin", folder, hex);
    return length > 0 && length < PATH_BYTES;
}

static int read_all(int file, unsigned char *data, size_t size)
{
    while (size > 0) {
        const ssize_t got = read(file, data, size);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return 0;
        data += got;
        size -= (size_t)got;
    }
    return 1;
}

static int write_all(int file, const unsigned char *data, size_t size)
{
    while (size > 0) {
        const ssize_t put = write(file, data, size);
        if (put < 0 && errno == EINTR)
            continue;
        if (put <= 0)
            return 0;
        data += put;
        size -= (size_t)put;
    }
    return 1;
}

static uint64_t get_u64(const unsigned char *bytes)
{
    uint64_t value = 0;
    for (int i = 7; i >= 0; i--)
        value = value << 8 | bytes[i];
    return value;
}

static void put_u64(uint64_t value, unsigned char *bytes)
{
    for (int i = 0; i < 8; i++)
        bytes[i] = (unsigned char)(value >> (8 * i));
}

/* Reads and verifies an open file; returns NULL or why it is refused. */
static const char *load_file(int file, const unsigned char key_digest[CLPRUNE__SHA256_BYTES],
    unsigned char **payload, size_t *size)
{
    struct stat info;
    unsigned char header[HEADER_BYTES], digest[CLPRUNE__SHA256_BYTES];
    if (fstat(file, &info) != 0 || !S_ISREG(info.st_mode))
        return "a file is not a regular file";
    if (!is_private(&info))
        return "a file belongs to another user or others may write it";
    if (!read_all(file, header, sizeof header) || memcmp(header, MAGIC, MAGIC_BYTES) != 0)
        return "a file has no valid header";
    if (memcmp(header + KEY_AT, key_digest, CLPRUNE__SHA256_BYTES) != 0)
        return "a file belongs to another key";
    const uint64_t bytes = get_u64(header + SIZE_AT);
    if (bytes == 0 || bytes > MAX_PAYLOAD || (uint64_t)info.st_size != HEADER_BYTES + bytes)
        return "a file has the wrong size";
    unsigned char *data = malloc((size_t)bytes);
    if (data == NULL)
        return "no host memory to load a file";
    int good = read_all(file, data, (size_t)bytes);
    if (good) {
        digest_of(data, (size_t)bytes, digest);
        good = memcmp(digest, header + HASH_AT, CLPRUNE__SHA256_BYTES) == 0;
    }
    if (!good) {
        free(data);
        return "a file's checksum does not match";
    }
    *payload = data;
    *size = (size_t)bytes;
    return NULL;
}

clprune__disk_result clprune__disk_load(
    const char *folder, const char *key, unsigned char **payload, size_t *size, const char **reason)
{
    char path[PATH_BYTES];
    unsigned char key_digest[CLPRUNE__SHA256_BYTES];
    *payload = NULL;
    *size = 0;
    *reason = NULL;
    if (!file_path(folder, key, path, key_digest))
        return CLPRUNE__DISK_MISS;
    /* O_NONBLOCK: a FIFO in the file's place must not hang the program. */
    const int file = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    if (file < 0) {
        if (errno == ENOENT)
            return CLPRUNE__DISK_MISS;
        *reason = "a file cannot be opened or is a link";
        return CLPRUNE__DISK_REFUSED;
    }
    *reason = load_file(file, key_digest, payload, size);
    if (*reason == NULL)
        (void)futimens(file, NULL); /* used now */
    (void)close(file);
    return *reason == NULL ? CLPRUNE__DISK_OK : CLPRUNE__DISK_REFUSED;
}

clprune__disk_result clprune__disk_store(const char *folder, const char *key,
    const unsigned char *payload, size_t size, const char **reason)
{
    char path[PATH_BYTES], temporary[PATH_BYTES + 16];
    unsigned char header[HEADER_BYTES];
    *reason = NULL;
    if (size == 0 || size > MAX_PAYLOAD || !file_path(folder, key, path, header + KEY_AT))
        return CLPRUNE__DISK_FAILED;
    memcpy(header, MAGIC, MAGIC_BYTES);
    put_u64(size, header + SIZE_AT);
    digest_of(payload, size, header + HASH_AT);

    (void)snprintf(temporary, sizeof temporary, "%s.XXXXXX", path);
    const int file = mkstemp(temporary); /* mode 0600 */
    if (file < 0) {
        *reason = "a file cannot be created";
        return CLPRUNE__DISK_FAILED;
    }
    int good = write_all(file, header, sizeof header) && write_all(file, payload, size) &&
               fsync(file) == 0;
    good = close(file) == 0 && good;
    good = good && rename(temporary, path) == 0;
    if (good)
        return CLPRUNE__DISK_OK;
    (void)unlink(temporary);
    *reason = "a file cannot be written";
    return CLPRUNE__DISK_FAILED;
}

typedef enum name_kind { OTHER, BINARY, TEMPORARY } name_kind;

enum { KEY_DIGITS = 2 * CLPRUNE__SHA256_BYTES, NAME_BYTES = KEY_DIGITS + sizeof ".bin" };

/* "<64 digits>.bin", as file_path writes it, or with the six characters of mkstemp behind it. */
static name_kind kind_of(const char *name)
{
    if (strspn(name, "0123456789abcdef") != KEY_DIGITS ||
        strncmp(name + KEY_DIGITS, ".bin", 4) != 0)
        return OTHER;
    const char *rest = name + KEY_DIGITS + 4;
    if (rest[0] == '\0')
        return BINARY;
    return rest[0] == '.' && strlen(rest) == 7 ? TEMPORARY : OTHER;
}

/* A binary in the folder. */
typedef struct binary {
    char name[NAME_BYTES];
    uint64_t bytes;
    struct timespec used;
} binary;

static int by_use(const void *a, const void *b)
{
    const struct timespec *x = &((const binary *)a)->used, *y = &((const binary *)b)->used;
    if (x->tv_sec != y->tv_sec)
        return x->tv_sec < y->tv_sec ? -1 : 1;
    return x->tv_nsec < y->tv_nsec ? -1 : x->tv_nsec > y->tv_nsec;
}

/* Lists the binaries of a folder and removes its stale temporaries; the caller frees *list. Without
 * memory the list ends early. */
static size_t list_binaries(DIR *folder, binary **list)
{
    size_t count = 0, capacity = 0;
    const time_t now = time(NULL);
    const struct dirent *entry;
    *list = NULL;
    while ((entry = readdir(folder)) != NULL) {
        struct stat info;
        const name_kind kind = kind_of(entry->d_name);
        if (kind == OTHER ||
            fstatat(dirfd(folder), entry->d_name, &info, AT_SYMLINK_NOFOLLOW) != 0 ||
            !S_ISREG(info.st_mode))
            continue;
        if (kind == TEMPORARY) {
            if (now - info.st_mtim.tv_sec > CLPRUNE__DISK_STALE_S)
                (void)unlinkat(dirfd(folder), entry->d_name, 0);
            continue;
        }
        if (count == capacity) {
            capacity = 2 * capacity + 64;
            binary *grown = realloc(*list, capacity * sizeof *grown);
            if (grown == NULL)
                break;
            *list = grown;
        }
        binary *found = &(*list)[count++];
        memcpy(found->name, entry->d_name, NAME_BYTES);
        found->bytes = (uint64_t)info.st_size;
        found->used = info.st_mtim;
    }
    return count;
}

/* Another process may tidy up at the same time; it chooses the same files, and a file that is gone
 * is built again. */
void clprune__disk_tidy(const char *folder, uint64_t limit)
{
    DIR *open_folder = opendir(folder);
    if (open_folder == NULL)
        return;
    binary *list;
    const size_t count = list_binaries(open_folder, &list);
    uint64_t bytes = 0;
    for (size_t i = 0; i < count; i++)
        bytes += list[i].bytes;
    if (bytes > limit)
        qsort(list, count, sizeof *list, by_use);
    for (size_t i = 0; i < count && bytes > limit; i++) {
        (void)unlinkat(dirfd(open_folder), list[i].name, 0);
        bytes -= list[i].bytes;
    }
    free(list);
    (void)closedir(open_folder);
}
