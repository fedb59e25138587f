/*
 * token_file.h: files of tokens. A name that ends with .bin, or .BIN, is of tokens, in little
 * endian:
 *
 *     as llm.c writes them     256 int32, the first 20240520, version 1, number of tokens; then
 *                              uint16. 20240801, version 7: then uint32
 *     others, as nanoGPT       uint16; uint32 where the vocabulary needs it
 *
 * Beside NAME.bin may lie NAME.mask, a byte for each token: 0 where it is given, and not to be
 * learnt. Any other file is a text, whose tokens are those of a model's vocabulary (text_tokens.h),
 * or its bytes.
 *
 * A file stays open and is read as it is asked for, by any thread. Faults name it: CODE_DATA,
 * CODE_MEMORY.
 */
#ifndef TRAINER_TOKEN_FILE_H
#define TRAINER_TOKEN_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "trainer/base/fault.h"
#include "trainer/vocabulary/text_tokens.h"

enum { TOKEN_BYTES = 256 /* the vocabulary of a text */ };

typedef struct token_file {
    char *path;
    int descriptor, mask; /* mask: -1, or of NAME.mask */
    uint32_t width;       /* bytes of a token: 1, 2 or 4 */
    uint32_t vocabulary;  /* its tokens are below */
    uint64_t data;        /* where they begin */
    uint64_t count;       /* 1 or more */
    uint64_t *begins;     /* (texts + 1) of NAME.jsonl: where each text begins, and the end */
    size_t texts;         /* 0: of any other file */
    uint64_t zeros;       /* tokens 0 among those that were checked */
} token_file;

/* Opens and checks a file; of tokens up to 16 MiB of them, spread over the file. tokens: of the
 * vocabulary. model: NULL, or that with the vocabulary of texts. *checksum: of its
 * size and what was checked. On failure *file needs no closing. */
bool token_file_open(const char *path, uint32_t tokens, text_model *model, token_file *file,
    uint64_t *checksum, fault *f);
void token_file_close(token_file *file); /* accepts {0} */

/*
 * Opens the files of --data PATH: PATH, or train.bin or train.txt of a folder; and that for tests,
 * else {0}: it has "val", "valid" or "validation" in place of the last "train" in its name, and the
 * same number behind it or 0, as llm.c's train_000001.bin and val_000000.bin. Capitals are as good.
 *
 * resumed    the checksum of a run that goes on: if it had no file for tests, none is opened; 0
 * *checksum  of both
 *
 * On failure the caller closes both.
 */
bool token_files_open(const char *path, uint32_t tokens, text_model *model, uint64_t resumed,
    token_file files[2], uint64_t *checksum, fault *f);

/* Reads the mask of tokens first ... first + count - 1, which are there; 1 without one. */
bool token_file_read_mask(
    const token_file *file, uint64_t first, size_t count, uint8_t *mask, fault *f);

/* Reads tokens first ... first + count - 1, which are there, and checks them. */
bool token_file_read(
    const token_file *file, uint64_t first, size_t count, uint32_t *tokens, fault *f);

#endif
