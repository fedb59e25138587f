/*
 * plain_file.h: opens files that the user names, never waiting. Opening a FIFO waits for its other
 * end, so only regular files are opened; others are refused.
 */
#ifndef TRAINER_PLAIN_FILE_H
#define TRAINER_PLAIN_FILE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h> /* FILE */
#include <sys/stat.h>

#include "trainer/base/fault.h"

/* Sets *there: whether the name exists. Fails where the system cannot tell, as after an error of
 * the disk: a file that is taken for missing may be written over. */
bool plain_file_exists(const char *path, bool *there, fault *f);

/* Opens a regular file for reading; *bytes, unless NULL, is its size. NULL where that fails; *why
 * is then the reason, a constant or strerror's text: "No such file or directory", "it is a FIFO,
 * not a regular file"; errno is the system's, or 0 for a file that is refused. */
FILE *plain_file_open(const char *path, uint64_t *bytes, const char **why);

/* Likewise, to a descriptor for reading; -1 where that fails. */
int plain_file_descriptor(const char *path, uint64_t *bytes, const char **why);

/* The whole of a regular file of at most `most` bytes, for the caller to free; a NUL comes after
 * it. NULL after a fault: CODE_DATA, CODE_MEMORY. */
char *plain_file_read(const char *path, size_t most, size_t *length, fault *f);

/* Whether two paths are of one file or folder; false if either is not there. */
bool same_file(const char *a, const char *b);

/* The folder of a path, "." without one, for the caller to free; NULL if memory is out. */
char *folder_of(const char *path);

/* "folder/sub" + name, for the caller to free; NULL if memory is out. sub: "", or ends with '/'. */
char *path_join(const char *folder, const char *sub, const char *name);

/* NULL for a regular file, else "it is a folder, not a regular file" and the like. */
const char *plain_file_refusal(mode_t mode);

#endif
