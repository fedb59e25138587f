/*
 * token_file.h: files of tokens. A name that ends with .bin is of tokens, in little endian:
 *
 *     as llm.c writes them     256 int32, the first 20240520, version 1, number of tokens; then
 * uint16. 20240801, version 7: then uint32 others, as nanoGPT       uint16; uint32 where the
 * vocabulary needs it
 *
 * Any other file is a text, whose bytes are the tokens.
 *
 * A file stays open and is read as it is asked for, by any thread. Faults name it: CODE_DATA,
 * CODE_MEMORY.
 */
#ifndef TRAINER_TOKEN_FILE_H
#define TRAINER_TOKEN_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "trainer/base/fault.h"

enum { TOKEN_BYTES = 256 /* the vocabulary of a text */ };

typedef struct token_file {
    char *path;
    int descriptor;
    uint32_t width;      /* bytes of a token: 1, 2 or 4 */
    uint32_t vocabulary; /* its tokens are below */
    uint64_t data;       /* where they begin */
    uint64_t count;      /* 1 or more */
} token_file;

/* The files of --data PATH: PATH, or train.bin or train.txt of a folder; and that for tests, with
 * "val" in place of the last "train" in its name, or NULL. Both are for the caller to free, also on
 * failure. */
bool token_file_paths(const char *path, char *paths[2], fault *f);

/* Opens and checks a file; of tokens up to 16 MiB of them, spread over the file. *checksum: of its
 * size and what was checked. On failure *file needs no closing. */
bool token_file_open(
    const char *path, uint32_t vocabulary, token_file *file, uint64_t *checksum, fault *f);
void token_file_close(token_file *file); /* accepts {0} */

/* Reads tokens first ... first + count - 1, which are there, and checks them. */
bool token_file_read(
    const token_file *file, uint64_t first, size_t count, uint32_t *tokens, fault *f);

#endif
