/* What differs from one operating system to another: system_posix.c and system_windows.c, of which
 * a build has one. Paths and texts are the caller's; functions that fail set errno. */
#ifndef CLPRUNE_CORE_SYSTEM_H
#define CLPRUNE_CORE_SYSTEM_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Processors that are online, at least 1. */
uint32_t clprune__system_processors(void);

/* Has `child` called in each process that a fork makes; 0, or an error number. Windows has no
 * fork. */
int clprune__system_watch_forks(void (*child)(void));

/* Where the user finds an OpenCL driver: the rest of a sentence. */
extern const char *const clprune__system_driver_advice;

/* ---- texts ---- */

/* vsnprintf with a decimal point, whatever the program's locale is. */
int clprune__system_format(char *text, size_t size, const char *format, va_list arguments);

/* Whether a text matches a pattern of a shell: *, ?, [a-z], [!a-z] and \. */
bool clprune__system_matches(const char *pattern, const char *text);

/* Opens any file to read its bytes, without waiting for a FIFO's writer; -1: errno says why. */
int clprune__system_open_file(const char *path);

/* Opens a file to append lines, without waiting for a pipe's reader; NULL: errno says why. */
FILE *clprune__system_append(const char *path);

/* Lines of several threads do not mix between the two. */
void clprune__system_lock(FILE *stream);
void clprune__system_unlock(FILE *stream);

/* ---- a folder of the user's own files ----
 *
 * Private is what belongs to the user and nobody else may write. Windows keeps folders below
 * %LOCALAPPDATA% private; rights are not checked there. */

typedef enum clprune__folder_state {
    CLPRUNE__FOLDER_PRIVATE,
    CLPRUNE__FOLDER_NONE, /* a file or a link has the name */
    CLPRUNE__FOLDER_SHARED
} clprune__folder_state;

typedef struct clprune__file_facts {
    bool regular, private;
    uint64_t bytes;
} clprune__file_facts;

/* Writes the user's folder for caches, without one of this library's own, cut off at `size`; false:
 * the environment names none. */
bool clprune__system_cache_home(char *path, size_t size);

/* What to say then. */
extern const char *const clprune__system_no_cache;

/* Cuts separators off the end of a path, which lstat would follow through a link, and creates the
 * folder and its parents, for the user alone; existing ones stay as they are. */
bool clprune__system_make_folders(char *path);

clprune__folder_state clprune__system_folder_state(const char *path);

/* Opens a file to read its bytes; no link, and without waiting for a FIFO's writer. -1: errno says
 * why, ENOENT if there is none. */
int clprune__system_open_private(const char *path);
bool clprune__system_facts(int file, clprune__file_facts *facts);
bool clprune__system_read(int file, void *data, size_t size); /* false: fewer bytes, or an error */
void clprune__system_used_now(int file);                      /* sets the time of modification */
void clprune__system_close(int file);

/* Creates a file with a new name that begins with `name`: in `temporary`, of the length of `name` +
 * 8 or more. -1: errno says why. */
int clprune__system_create_temporary(const char *name, char *temporary, size_t size);
bool clprune__system_write(int file, const void *data, size_t size);

/* Closes a temporary file and, if it is `good` and reaches the disk, gives it its name, in place of
 * a file there; else removes it. */
bool clprune__system_commit(int file, bool good, const char *temporary, const char *name);

/* The most bytes that the stack of the first thread may have; SIZE_MAX: no limit is known. */
size_t clprune__system_stack_limit(void);

/* When a file was modified, in seconds since 1970; false: there is none. */
bool clprune__system_modified(const char *path, int64_t *seconds);

/* A file in a folder. */
typedef struct clprune__folder_entry {
    const char *name;
    uint64_t bytes;
    int64_t seconds, nanoseconds; /* of the last modification, since 1970 */
} clprune__folder_entry;

typedef struct clprune__folder clprune__folder;

clprune__folder *clprune__system_open_folder(const char *path); /* NULL: errno says why */
/* The next regular file whose name `wanted` accepts; false at the end. */
bool clprune__system_next_file(
    clprune__folder *folder, bool (*wanted)(const char *name), clprune__folder_entry *entry);
/* The next folder in it, likewise. */
bool clprune__system_next_folder(
    clprune__folder *folder, bool (*wanted)(const char *name), clprune__folder_entry *entry);
void clprune__system_remove_file(clprune__folder *folder, const char *name);
void clprune__system_close_folder(clprune__folder *folder);

#endif
