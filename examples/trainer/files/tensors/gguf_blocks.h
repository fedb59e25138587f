/*
 * gguf_blocks.h: the element types of GGUF files, as fp32.
 *
 * A row of a tensor is a sequence of blocks of `elements` elements in `bytes` bytes. Of the plain
 * types a block is one element; of the others it has scales, and the elements as codes of 2 to 8
 * bits. Types that are not here (importance quantisation and others) are known by number only.
 */
#ifndef TRAINER_GGUF_BLOCKS_H
#define TRAINER_GGUF_BLOCKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { GGUF_BLOCK_ELEMENTS = 256, GGUF_BLOCK_BYTES = 210 }; /* at most */

typedef struct gguf_block {
    uint32_t type;
    const char *name;
    unsigned elements, bytes;
    bool whole; /* whole numbers, which have no `decode` */
    void (*decode)(const unsigned char *block, float *elements);
} gguf_block;

/* NULL for a type that is not here. */
const gguf_block *gguf_block_of(uint32_t type);

#endif
