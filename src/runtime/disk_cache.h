/* The disk layer of the program cache: files that are trusted only after every check passed.
 *
 * A file holds: magic and format version, the SHA-256 of the key, the payload's size and SHA-256,
 * the payload. It is written to a temporary name, fsynced and renamed. The folder must belong to
 * the user and be writable by nobody else; files likewise, and links are refused. A driver may die
 * on a damaged binary, so not one byte reaches it before the payload's hash is verified. The time
 * of the last change of a file is when it was last stored or loaded. Any number of processes may
 * use a folder at once. */
#ifndef CLPRUNE_RUNTIME_DISK_CACHE_H
#define CLPRUNE_RUNTIME_DISK_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CLPRUNE__DISK_LIMIT   ((uint64_t)1 << 30) /* bytes of a folder, unless told otherwise */
#define CLPRUNE__DISK_STALE_S 3600                /* age of temporaries that nobody writes */

typedef enum clprune__disk_result {
    CLPRUNE__DISK_OK,
    CLPRUNE__DISK_MISS,    /* no such file */
    CLPRUNE__DISK_REFUSED, /* a check failed; *reason says which */
    CLPRUNE__DISK_FAILED   /* the file system said no; *reason says where */
} clprune__disk_result;

/* Returns a malloced copy of the usable cache folder made from `dir` (NULL: the environment's
 * choice), created with mode 0700 if need be; NULL where the cache is off, with *reason NULL if
 * that was asked for, else static text. */
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
