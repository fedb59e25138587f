/*
 * gguf_file.h: GGUF files, those of llama.cpp and Ollama, versions 2 and 3, little endian:
 *
 *     "GGUF", version; number of tensors and of values
 *     values, each a key, a type, and a number, a text or an array
 *     of each tensor its name, shape (the last dimension first), type, and place in the data
 *     the data, from a multiple of general.alignment (32) on, as each tensor's begin
 *
 * A file is checked before a byte of its data is used: lengths, counts and types; keys and names,
 * which are UTF-8 and appear once; sizes that overflow; tensors that are unaligned, overlap, or lie
 * outside of the file. A tensor may have a type that is not known here, as long as nobody reads it.
 * Texts of more than 255 bytes, or that cannot be printed, and arrays are only walked over.
 */
#ifndef TRAINER_GGUF_FILE_H
#define TRAINER_GGUF_FILE_H

#include <stdint.h>
#include <stdio.h>

#include "trainer/base/fault.h"
#include "trainer/files/tensors/gguf_blocks.h"

enum { GGUF_RANK = 4, GGUF_TYPE_TEXT = 8 };

typedef enum gguf_kind { GGUF_NUMBER, GGUF_TEXT, GGUF_ARRAY } gguf_kind;

typedef struct gguf_value {
    char *key;
    gguf_kind kind;
    double number;    /* true is 1 */
    char *text;       /* NULL: long, or not to be printed */
    uint32_t type;    /* of an array: its elements' */
    uint64_t count;   /* of an array: its elements */
    uint64_t at, end; /* of a text or an array: its bytes of the file */
} gguf_value;

typedef struct gguf_tensor {
    char *name;
    const gguf_block *block; /* NULL: a type that is not known here */
    uint32_t type;
    size_t rank;
    uint64_t shape[GGUF_RANK], count; /* as PyTorch has it: the last dimension's elements adjoin */
    uint64_t from, to;                /* bytes of the data; to is from, where block is NULL */
} gguf_tensor;

typedef struct gguf_file {
    char *path;
    FILE *stream;
    uint64_t bytes, data; /* of the file; where its data begin */
    size_t values_count, count;
    gguf_value *values;   /* by key */
    gguf_tensor *tensors; /* in the order of their data */
} gguf_file;

/* Whether a path is a regular file that begins with "GGUF". */
bool gguf_begins(const char *path);

/* Opens and checks a file. Faults: CODE_DATA, CODE_MEMORY; *g then needs no closing. */
bool gguf_open(const char *path, gguf_file *g, fault *f);
void gguf_close(gguf_file *g); /* accepts {0} */

/* NULL where there is none. */
const gguf_value *gguf_find(const gguf_file *g, const char *key);
const gguf_tensor *gguf_find_tensor(const gguf_file *g, const char *name);

/* A number; `usual` where the key is absent; NaN where it has something else. */
double gguf_number(const gguf_file *g, const char *key, double usual);

/* A text, owned by the file; `usual` where the key is absent; NULL where it has something else. */
const char *gguf_text(const gguf_file *g, const char *key, const char *usual);

/* Reads a tensor's elements as fp32; `values` has room for tensor->count. heads: 0, or the rows are
 * those of so many heads, each with the pairs that rotate together side by side (0, 1), (2, 3); as
 * fp32 they are half a head apart, as transformers has them. Faults: CODE_DATA. */
bool gguf_read(
    const gguf_file *g, const gguf_tensor *tensor, uint64_t heads, float *values, fault *f);

#endif
