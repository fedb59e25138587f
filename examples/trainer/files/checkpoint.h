/*
 * checkpoint.h: a file of named arrays, checked to the last bit.
 *
 *     header     "CLPRCKPT"; uint32 version = 2; uint32 0x01020304 (byte order)
 *     records    uint32 length of the name; uint32 type; uint64 rows; uint64 cols;
 *                name and zeros up to a multiple of 8; rows * cols elements and zeros likewise
 *     trailer    uint32 0xFFFFFFFF; uint32 records; uint64 size of the file;
 *                uint64 FNV-1a hash of all bytes before it
 *
 * Numbers have the byte order of the machine that wrote; another order is refused. Truncation and
 * flipped bits are found before anything is used: the trailer has the size, and a change of one
 * byte always changes the hash (each of its steps is a bijection).
 */
#ifndef TRAINER_CHECKPOINT_H
#define TRAINER_CHECKPOINT_H

#include <stddef.h>
#include <stdint.h>

#include "trainer/base/fault.h"
#include "trainer/files/atomic_file.h"

typedef enum checkpoint_type {
    CHECKPOINT_BYTES = 1,
    CHECKPOINT_U64 = 2,
    CHECKPOINT_F64 = 3,
    CHECKPOINT_F32 = 4
} checkpoint_type;

typedef struct checkpoint_writer {
    atomic_file file;
    uint64_t hash, size;
    uint32_t records;
} checkpoint_writer;

/* Write, then commit or abandon: the file appears whole or not at all. Faults: CODE_DATA. */
bool checkpoint_create(const char *path, checkpoint_writer *writer, fault *f);
/* Disk errors are reported by commit at the latest. Names are unique, not empty, below 256
 * bytes. */
void checkpoint_put(checkpoint_writer *writer, const char *name, checkpoint_type type,
    uint64_t rows, uint64_t cols, const void *data);
bool checkpoint_commit(checkpoint_writer *writer, fault *f);
void checkpoint_abandon(checkpoint_writer *writer);

/* One array of a file that was read; name and data lie in the checkpoint, data aligned to 8. */
typedef struct checkpoint_record {
    const char *name; /* ended by NUL */
    checkpoint_type type;
    uint64_t rows, cols;
    const void *data;
} checkpoint_record;

typedef struct checkpoint {
    char *path;
    unsigned char *bytes; /* the whole file */
    size_t size;
    size_t count;
    checkpoint_record *records;
} checkpoint;

/* Reads and checks the whole file. Faults: CODE_DATA, CODE_MEMORY; *c then needs no closing. */
bool checkpoint_open(const char *path, checkpoint *c, fault *f);
void checkpoint_close(checkpoint *c); /* accepts {0} */

/* Whether a file can be read and begins as a checkpoint. Faults: CODE_DATA. */
bool checkpoint_probe(const char *path, fault *f);

/* The data of a record, or NULL and a fault (CODE_DATA) where it is missing or of other type or
 * shape. */
const void *checkpoint_get(const checkpoint *c, const char *name, checkpoint_type type,
    uint64_t rows, uint64_t cols, fault *f);

/* The record, of any type and shape; NULL if it is missing. */
const checkpoint_record *checkpoint_find(const checkpoint *c, const char *name);

#endif
