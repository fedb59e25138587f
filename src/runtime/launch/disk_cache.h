/* The disk layer of the program cache: files that are trusted only after every check passed.
 *
 * A file holds: magic and format version, the SHA-256 of the key, the payload's size and SHA-256,
 * the payload. It is written to a temporary name, fsynced and renamed. The folder must belong to
 * the user and be writable by nobody else; files likewise, and links are refused. A driver may die
 * on a damaged binary, so not one byte reaches it before the payload's hash is verified. A
 * file's modification time is when it was last stored or loaded. Any number of processes may use a
 * folder at once. */
#ifndef CLPRUNE_RUNTIME_DISK_CACHE_H
#define CLPRUNE_RUNTIME_DISK_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CLPRUNE__DISK_LIMIT   ((uint64_t)1 << 30) /* bytes of a folder, by default */
#define CLPRUNE__DISK_STALE_S 3600                /* seconds until a temporary is stale */

typedef enum clprune__disk_result {
    CLPRUNE__DISK_OK,
    CLPRUNE__DISK_MISS,    /* no such file */
    CLPRUNE__DISK_REFUSED, /* a check failed; *reason says which */
    CLPRUNE__DISK_FAILED   /* not stored; *reason says why, or is NULL */
} clprune__disk_result;

/* Returns the path of the cache folder, malloced; the folder is created with mode 0700 if it is
 * missing. `dir` NULL or "": the environment chooses. Returns NULL if there is no cache: *reason is
 * then NULL if the user turned it off, else static text. */
char *clprune__disk_folder(const char *dir, const char **reason);

/* Loads the payload stored under `key` into malloced *payload. */
clprune__disk_result clprune__disk_load(const char *folder, const char *key,
    unsigned char **payload, size_t *size, const char **reason);

clprune__disk_result clprune__disk_store(const char *folder, const char *key,
    const unsigned char *payload, size_t size, const char **reason);

/* Removes the temporaries of processes that died, and the least recently used files until the
 * others hold at most `limit` bytes. Files of other names stay and do not count. */
void clprune__disk_tidy(const char *folder, uint64_t limit);

#endif
