/*
 * file_kind.h: what a file is that was taken for a text, for tokens or for images, by its first
 * bytes.
 */
#ifndef TRAINER_FILE_KIND_H
#define TRAINER_FILE_KIND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "trainer/base/fault.h"

/* The first bytes that are looked at; a text of file_kind_say. */
enum { FILE_KIND_BYTES = 512, FILE_KIND_TEXT = 256 };

/* What a file was taken for; tokens may begin with any bytes, so that short magic numbers do not
 * count. */
typedef enum file_kind_use { FILE_KIND_OF_TEXT, FILE_KIND_OF_TOKENS } file_kind_use;

/*
 * Whether `count` bytes at the beginning of a file have a known magic number; `said` is then
 *
 *     begins with 1f8b: it is packed; unpack it with gunzip
 *     begins with 89504e47: it is a PNG image; expected a text
 *
 * or where tokens are letters alone; it is then "it is a text, ...".
 *
 * name      the file's, or ""; one of a .tar.gz is unpacked with tar
 * expected  "a text"
 */
bool file_kind_say(const uint8_t *bytes, size_t count, file_kind_use use, const char *name,
    const char *expected, char said[FILE_KIND_TEXT]);

/* Fails with that text, CODE_DATA, for an open file; one that cannot be read passes. */
bool file_kind_check(
    const char *path, int descriptor, file_kind_use use, const char *expected, fault *f);

/* Fails for a folder with a packed file, CODE_DATA: "DIR: train.txt.gz is packed; unpack it with
 * gunzip", the first by its bytes. */
bool file_kind_check_folder(const char *path, fault *f);

/* Whether a name is longer than `end` and ends with it, in capitals or not. */
bool file_kind_ends_with(const char *name, const char *end);

#endif
