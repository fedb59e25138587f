/* The header of safetensors files, the format of huggingface/safetensors:
 *
 *     uint64 length of the header (little endian); the header, JSON, padded with spaces:
 *         {"__metadata__": {"key": "value", ...},
 *          "name": {"dtype": "F32", "shape": [64, 3], "data_offsets": [from, to]}, ...}
 *     the data; offsets count from its start, cover it whole and do not overlap
 */
#ifndef CLPRUNE_CORE_SAFETENSORS_H
#define CLPRUNE_CORE_SAFETENSORS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    CLPRUNE__SAFETENSORS_PREFIX = 8, /* bytes of the length */
    CLPRUNE__SAFETENSORS_RANK = 8,
    CLPRUNE__SAFETENSORS_TEXT = 256,
    CLPRUNE__SAFETENSORS_MOST = 100000000 /* bytes of a header: the reference reader's limit */
};

/* Both structs begin with their name. */
typedef struct clprune__safetensor {
    char *name;
    char dtype[16]; /* cut off */
    size_t rank;
    uint64_t shape[CLPRUNE__SAFETENSORS_RANK]; /* cut off */
    uint64_t count;                            /* elements */
    uint64_t from, to;                         /* bytes of the data */
} clprune__safetensor;

typedef struct clprune__safetensors_note {
    char *key, *value;
} clprune__safetensors_note;

typedef struct clprune__safetensors {
    clprune__safetensor *tensors; /* sorted by name */
    size_t count;
    clprune__safetensors_note *notes; /* the metadata, sorted by key */
    size_t notes_count;
} clprune__safetensors;

/* Checks a header of `length` bytes, without its prefix, for `data_bytes` bytes of data. Refused
 * are: anything but such JSON, invalid UTF-8, names that appear twice, sizes that overflow, data
 * that overlap, leave a hole or lie outside, and a size of data that type and shape contradict. A
 * type that is not known here is accepted, with data of any size. On failure *s is zero, and `text`
 * says why, or is "" if there is no memory. */
bool clprune__safetensors_parse(const char *header, size_t length, uint64_t data_bytes,
    clprune__safetensors *s, char text[CLPRUNE__SAFETENSORS_TEXT]);
void clprune__safetensors_free(clprune__safetensors *s); /* accepts {0} */

/* NULL where there is none. */
const clprune__safetensor *clprune__safetensors_find(
    const clprune__safetensors *s, const char *name);
const char *clprune__safetensors_note_of(const clprune__safetensors *s, const char *key);

/* A header with its prefix, *length bytes, for tensors whose data follow in this order; to be
 * freed. NULL: no memory. Only names, types, shapes and offsets are read. */
char *clprune__safetensors_header(const clprune__safetensors *s, size_t *length);

/* "64 x 3", in `text`. */
const char *clprune__safetensor_shape(size_t rank, const uint64_t *shape, char text[128]);

uint64_t clprune__little_endian(const unsigned char *bytes, size_t count);
void clprune__to_little_endian(uint64_t value, unsigned char *bytes, size_t count);

#endif
