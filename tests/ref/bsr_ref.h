/* Reference of batched BSR: sizes, packing and unpacking by the definition in clprune/bsr.h.
 *
 * Arrays are dense; x is (batch * rows) x cols, mask has one byte for each block of each sample. */
#ifndef CLPRUNE_BSR_REF_H
#define CLPRUNE_BSR_REF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct bsr_ref {
    size_t batch, rows, cols, br, bc, keep;
    size_t block_rows, block_cols, blocks;
    int32_t *crow, *col;
    float *values;
} bsr_ref;

/* Allocates the arrays, zeroed. */
bsr_ref bsr_ref_make(size_t batch, size_t rows, size_t cols, size_t br, size_t bc, size_t keep);

/* Packs the marked blocks; the mask must mark `keep` in each sample. */
void bsr_ref_pack(bsr_ref *ref, const float *x, const unsigned char *mask);

/* The index in its stored form; arrays that a type does not have are NULL, with 0 bytes. */
typedef struct bsr_ref_index {
    int32_t *crow, *col;
    unsigned char *bitmap;
    size_t crow_bytes, col_bytes, bitmap_bytes;
} bsr_ref_index;

/* A new bitmap, or crow and col of `ref`. */
bsr_ref_index bsr_ref_index_make(const bsr_ref *ref, bool bitmap);

/* The dense form as a new array. */
float *bsr_ref_unpack(const bsr_ref *ref);

/* x with all unmarked blocks set to zero, without going through BSR; a new array. */
float *bsr_ref_masked(const bsr_ref *ref, const float *x, const unsigned char *mask);

/* floor(s * blocks + 1/2) subtracted from blocks, s = numerator / denominator exactly. */
size_t bsr_ref_keep_count(size_t blocks, uint64_t numerator, uint64_t denominator);

#endif
