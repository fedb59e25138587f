/*
 * safetensors.h: files of named tensors, the format of huggingface/safetensors.
 *
 *     uint64 length of the header (little endian); the header, JSON, padded with spaces:
 *         {"name": {"dtype": "F32", "shape": [64, 3], "data_offsets": [from, to]}, ...}
 *     the data; offsets count from its start, cover it whole and do not overlap
 *
 * A large model lies in several files, which an index names, NAME.safetensors.index.json:
 *     {"weight_map": {"name": "model-00001-of-00002.safetensors", ...}}
 *
 * Reading takes a build with jansson (safetensors_readable). A file is checked before a byte of its
 * data is used: sizes, names that appear twice, offsets. A tensor may have a type that is not known
 * here, or many dimensions, as long as nobody reads it.
 */
#ifndef TRAINER_SAFETENSORS_FILE_H
#define TRAINER_SAFETENSORS_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "trainer/base/fault.h"
#include "trainer/files/atomic_file.h"

enum { SAFETENSORS_RANK = 8 };

typedef enum safetensor_type {
    SAFETENSOR_F64,
    SAFETENSOR_F32,
    SAFETENSOR_F16,
    SAFETENSOR_BF16,
    SAFETENSOR_I64,
    SAFETENSOR_OTHER /* any other type: never read */
} safetensor_type;

typedef struct safetensor {
    char *name;
    char dtype[16]; /* the type's name in the file, cut off at 15 characters */
    safetensor_type type;
    size_t rank; /* above SAFETENSORS_RANK: type is OTHER, and shape is cut off */
    uint64_t shape[SAFETENSORS_RANK], count; /* elements */
    uint64_t from, to;                       /* bytes of the data */
    size_t part;                             /* the file that has it */
} safetensor;

/* A file, and where its data begin. */
typedef struct safetensors_part {
    FILE *stream;
    uint64_t data;
} safetensors_part;

typedef struct safetensors {
    char *path; /* of the file, or of the index */
    safetensors_part *parts;
    size_t parts_count;
    size_t count;
    safetensor *tensors; /* in the order of their data, part by part */
} safetensors;

/* Whether this build reads such files. */
bool safetensors_readable(void);

/* Opens and checks a file; or all of an index; or in a folder model.safetensors or its index.
 * Faults: CODE_DATA, CODE_MEMORY; *s then needs no closing. */
bool safetensors_open(const char *path, safetensors *s, fault *f);
void safetensors_close(safetensors *s); /* accepts {0} */

/* Checks a header of `length` bytes for `data_bytes` bytes of data; fills in tensors and count.
 * safetensors_open calls it with the header of a file. `path` is for messages. */
bool safetensors_parse(const char *path, const char *header, size_t length, uint64_t data_bytes,
    safetensors *s, fault *f);

/* NULL where there is none. */
const safetensor *safetensors_find(const safetensors *s, const char *name);

/* Reads a tensor's elements as fp32; `values` has room for tensor->count. Faults: CODE_DATA (also
 * for types other than F64, F32, F16 and BF16), CODE_MEMORY. */
bool safetensors_read(const safetensors *s, const safetensor *tensor, float *values, fault *f);

/* The same for the elements of an I64 tensor. Faults: CODE_DATA (also for other types). */
bool safetensors_read_i64(
    const safetensors *s, const safetensor *tensor, int64_t *values, fault *f);

/* Writes the header for tensors of any type but OTHER, in the given order. The caller then writes
 * their elements in the same order, little endian. Only name, type, rank, shape and count are read.
 * If I64 tensors come first, then F32 ones, each sorted by name, the file has the bytes that the
 * reference writer gives it with metadata {"format": "pt"}. */
bool safetensors_put_header(atomic_file *file, size_t count, const safetensor *tensors, fault *f);

/* Write elements, little endian. `values` are overwritten. */
void safetensors_put_i64(atomic_file *file, int64_t value);
void safetensors_put_f32(atomic_file *file, size_t count, float *values);

#endif
