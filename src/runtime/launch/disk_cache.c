#include "runtime/launch/disk_cache.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/sha256.h"
#include "core/system.h"

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

char *clprune__disk_folder(const char *dir, const char **reason)
{
    char path[PATH_BYTES], home[PATH_BYTES];
    int length;
    *reason = NULL;
    if (dir == NULL || dir[0] == '\0')
        dir = getenv("CLPRUNE_CACHE_DIR");
    if (dir != NULL && strcmp(dir, "off") == 0)
        return NULL;
    if (dir != NULL && dir[0] != '\0')
        length = snprintf(path, sizeof path, "%s", dir);
    else if (clprune__system_cache_home(home, sizeof home))
        length = snprintf(path, sizeof path, "%s/clprune", home);
    else {
        *reason = clprune__system_no_cache;
        return NULL;
    }
    if (length < 0 || (size_t)length >= sizeof path) {
        *reason = "the folder's name is too long";
        return NULL;
    }
    static const char *const refused[] = {
        [CLPRUNE__FOLDER_NONE] = "the folder's name is taken by a file or a link",
        [CLPRUNE__FOLDER_SHARED] = "the folder belongs to another user or others may write it"};
    if (!clprune__system_make_folders(path))
        *reason = "the folder cannot be created";
    else
        *reason = refused[clprune__system_folder_state(path)];
    if (*reason != NULL)
        return NULL;
    length = (int)strlen(path);
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
    clprune__file_facts facts;
    unsigned char header[HEADER_BYTES], digest[CLPRUNE__SHA256_BYTES];
    if (!clprune__system_facts(file, &facts) || !facts.regular)
        return "a file is not a regular file";
    if (!facts.private)
        return "a file belongs to another user or others may write it";
    if (!clprune__system_read(file, header, sizeof header) ||
        memcmp(header, MAGIC, MAGIC_BYTES) != 0)
        return "a file has no valid header";
    if (memcmp(header + KEY_AT, key_digest, CLPRUNE__SHA256_BYTES) != 0)
        return "a file belongs to another key";
    const uint64_t bytes = get_u64(header + SIZE_AT);
    if (bytes == 0 || bytes > MAX_PAYLOAD || facts.bytes != HEADER_BYTES + bytes)
        return "a file has the wrong size";
    unsigned char *data = malloc((size_t)bytes);
    if (data == NULL)
        return "no host memory to load a file";
    bool good = clprune__system_read(file, data, (size_t)bytes);
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
    const int file = clprune__system_open_private(path);
    if (file < 0) {
        if (errno == ENOENT)
            return CLPRUNE__DISK_MISS;
        *reason = "a file cannot be opened or is a link";
        return CLPRUNE__DISK_REFUSED;
    }
    *reason = load_file(file, key_digest, payload, size);
    if (*reason == NULL)
        clprune__system_used_now(file);
    clprune__system_close(file);
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

    const int file = clprune__system_create_temporary(path, temporary, sizeof temporary);
    if (file < 0) {
        *reason = "a file cannot be created";
        return CLPRUNE__DISK_FAILED;
    }
    const bool good = clprune__system_write(file, header, sizeof header) &&
                      clprune__system_write(file, payload, size);
    if (clprune__system_commit(file, good, temporary, path))
        return CLPRUNE__DISK_OK;
    *reason = "a file cannot be written";
    return CLPRUNE__DISK_FAILED;
}

typedef enum name_kind { OTHER, BINARY, TEMPORARY } name_kind;

enum { KEY_DIGITS = 2 * CLPRUNE__SHA256_BYTES, NAME_BYTES = KEY_DIGITS + sizeof ".bin" };

/* "<64 digits>.bin", as file_path writes it, or with six characters and a dot behind it. */
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
    int64_t seconds, nanoseconds; /* when it was used */
} binary;

static int by_use(const void *a, const void *b)
{
    const binary *x = a, *y = b;
    if (x->seconds != y->seconds)
        return x->seconds < y->seconds ? -1 : 1;
    return x->nanoseconds < y->nanoseconds ? -1 : x->nanoseconds > y->nanoseconds;
}

static bool is_ours(const char *name)
{
    return kind_of(name) != OTHER;
}

/* Lists the binaries of a folder and removes its stale temporaries; the caller frees *list. Without
 * memory the list ends early. */
static size_t list_binaries(clprune__folder *folder, binary **list)
{
    size_t count = 0, capacity = 0;
    const int64_t now = (int64_t)time(NULL);
    clprune__folder_entry entry;
    *list = NULL;
    while (clprune__system_next_file(folder, is_ours, &entry)) {
        if (kind_of(entry.name) == TEMPORARY) {
            if (now - entry.seconds > CLPRUNE__DISK_STALE_S)
                clprune__system_remove_file(folder, entry.name);
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
        memcpy(found->name, entry.name, NAME_BYTES);
        found->bytes = entry.bytes;
        found->seconds = entry.seconds;
        found->nanoseconds = entry.nanoseconds;
    }
    return count;
}

/* Another process may tidy up at the same time; it chooses the same files, and a file that is gone
 * is built again. */
void clprune__disk_tidy(const char *folder, uint64_t limit)
{
    clprune__folder *open_folder = clprune__system_open_folder(folder);
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
        clprune__system_remove_file(open_folder, list[i].name);
        bytes -= list[i].bytes;
    }
    free(list);
    clprune__system_close_folder(open_folder);
}
