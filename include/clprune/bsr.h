/* Batched Block Sparse Row (BSR) matrices with the same number of blocks in every sample.
 *
 * A sample is a rows x cols matrix cut into ceil(rows/BR) x ceil(cols/BC) blocks; a block that
 * overhangs an edge is zero-padded in storage. The kept blocks of a sample lie in row-major order:
 *
 *     values [batch][keep][BR][BC]     of the value type
 *     scales [batch][keep]             bf16, for INT8 alone: block k is scales[n][k] * values[n][k]
 *
 * and the index says which blocks these are. For sample n, block row i and kept block k:
 *
 *     INT32   crow [batch][block_rows + 1]  int32: block row i has blocks crow[n][i] <= k <
 *                                           crow[n][i + 1]; from 0 to `keep` in every sample
 *             col  [batch][keep]            int32: block column of block k, ascending in a block
 *                                           row. The layout of PyTorch's batched BSR.
 *     INT16   crow                          as above, int32
 *             col  [batch][keep]            uint16; for at most 65536 block columns
 *     BITMAP  bitmap [batch][ceil(blocks / 8)]  bytes: bit i % 8 (1 << i % 8) of byte i / 8 is set
 *                                           where block i, row-major in the sample, is kept; `keep`
 *                                           bits of a sample are set, those behind its last block
 *                                           are clear. Neither crow nor col.
 *
 * All sizes follow from the shape and the sparsity, so memory is known before training starts. */
#ifndef CLPRUNE_BSR_H
#define CLPRUNE_BSR_H

#include "clprune/matrix.h"

#ifdef __cplusplus
extern "C" {
#endif

/* BR x BC elements; any size >= 1. {1, 16} is the usual choice. */
typedef struct clprune_block {
    size_t rows, cols;
} clprune_block;

/* How the kept values are stored; all arithmetic is fp32. Packing rounds to the nearest value, ties
 * to even; NaN stays NaN and Inf stays Inf.
 *
 *     FP16  IEEE half: relative error 2^-11 from 2^-14 to 65504, absolute 2^-25 below. Larger
 *           finite values become 65504, so that packing makes no Inf.
 *     BF16  the upper half of an fp32: relative error 2^-8. Finite values beyond its largest,
 *           2^128 - 2^120, become that.
 *     INT8  q in -127 .. 127 and a scale for each block: its largest magnitude / 127, rounded up to
 *           bf16, which makes the step at most 1 + 2^-7 times as long; absolute error 1/252 of that
 *           magnitude. q is the nearest for the scale that is stored, and scale * q is exact. A
 *           block below 127 * 2^-126 becomes zero, of scale 0: no scale is subnormal; elements that
 *           are may count as zero. One NaN or Inf makes its scale not finite, and the whole block
 *           NaN when read. */
typedef enum clprune_value_type {
    CLPRUNE_VALUES_FP32 = 0,
    CLPRUNE_VALUES_FP16 = 1,
    CLPRUNE_VALUES_BF16 = 2,
    CLPRUNE_VALUES_INT8 = 3
} clprune_value_type;

/* How it is stored which blocks are kept; a product has the same bits with any of them. All but
 * INT32 are written and read by way of up to 4 * batch * (keep + block_rows + 1) bytes of scratch.
 */
typedef enum clprune_index_type {
    CLPRUNE_INDEX_INT32 = 0,
    CLPRUNE_INDEX_INT16 = 1,
    CLPRUNE_INDEX_BITMAP = 2,
    CLPRUNE_INDEX_SMALLEST = 3 /* stands for that of the fewest bytes, the first of equals */
} clprune_index_type;

typedef struct clprune_bsr_desc {
    size_t batch;
    size_t rows, cols; /* of one sample */
    clprune_block block;
    size_t keep; /* kept blocks of one sample, at most block_rows * block_cols */
    clprune_value_type value_type;
    clprune_index_type index_type;
} clprune_bsr_desc;

/* Where the parts of a BSR matrix begin in their buffers: bytes, multiples of the size of a part's
 * elements. */
typedef struct clprune_bsr_offsets {
    size_t values, crow, col, scales, bitmap;
} clprune_bsr_offsets;

/* A BSR matrix is transparent: fill it from your own buffers, or use clprune_bsr_create. All parts
 * may lie in one buffer. */
typedef struct clprune_bsr {
    clprune_bsr_desc desc;
    cl_mem values;
    cl_mem crow, col;           /* of INT32 and INT16; else not read */
    cl_mem scales;              /* of INT8; else not read */
    cl_mem bitmap;              /* of BITMAP; else not read */
    size_t first;               /* the parts hold this many samples before those of the matrix */
    clprune_bsr_offsets offset; /* 0: a part begins with its buffer */
} clprune_bsr;

typedef struct clprune_bsr_sizes {
    size_t block_rows, block_cols;
    size_t blocks;                 /* of one sample: block_rows * block_cols */
    clprune_index_type index_type; /* as described; where that is SMALLEST, which one it is */
    size_t values_bytes;
    size_t crow_bytes, col_bytes; /* 0 for BITMAP */
    size_t bitmap_bytes;          /* 0 but for BITMAP */
    size_t scales_bytes;          /* 0 but for INT8 */
    size_t total_bytes;           /* the sum of the five */
    size_t dense_bytes;           /* batch * rows * cols * 4 */
} clprune_bsr_sizes;

/* How many of `blocks` blocks are kept at a sparsity in [0, 1]: blocks - round_half_up(sparsity *
 * blocks), the rounding that reproduces Table II of arXiv 2311.16883. The product is formed from
 * the float's shortest decimal, so that 0.7f means 0.7. A sparsity outside [0, 1], also NaN, keeps
 * all. */
CLPRUNE_API size_t clprune_keep_count(size_t blocks, float sparsity);

/* Computes all sizes without touching a device; checks for overflow.
 * Errors: INVALID_ARGUMENT (a zero block side, keep > blocks, an unknown value or index type, INT16
 * with more than 65536 block columns), SIZE_OVERFLOW (also: more than 2^31 - 1 blocks in a sample).
 */
CLPRUNE_API clprune_status clprune_bsr_size_query(
    const clprune_bsr_desc *desc, clprune_bsr_sizes *sizes);

/* Creates the buffers, booked under `category` as name.values, name.crow and name.col or
 * name.bitmap, and, for INT8, name.scales; their content is undefined until packed. bsr->desc is
 * *desc with the index type that it is made of, never SMALLEST. On failure *bsr is zeroed. */
CLPRUNE_API clprune_status clprune_bsr_create(clprune_context *context,
    clprune_memory_category category, const char *name, const clprune_bsr_desc *desc,
    clprune_bsr *bsr);

/* Releases the buffers that clprune_bsr_create made and zeroes *bsr; accepts NULL and zeroes. */
CLPRUNE_API void clprune_bsr_destroy(clprune_context *context, clprune_bsr *bsr);

/* Samples [first, first + count) of a matrix, clipped to those it has: a view of the same buffers,
 * which every function here takes, so that a part of a batch can be packed, unpacked or multiplied
 * alone. Nothing is allocated; do not destroy it. */
CLPRUNE_API clprune_bsr clprune_bsr_samples(const clprune_bsr *bsr, size_t first, size_t count);

/* Packs the blocks of x that `mask` marks. x: (batch * rows) x cols. mask: batch * blocks bytes,
 * row-major over the blocks of a sample, non-zero = kept, with exactly `keep` kept in each sample;
 * NULL keeps all and requires keep = blocks. Writes values, scales and the index. */
CLPRUNE_API clprune_status clprune_bsr_pack(
    clprune_context *context, clprune_mat x, cl_mem mask, const clprune_bsr *bsr, cl_event *event);

/* Writes the dense form: kept blocks at their place, zero elsewhere. y: (batch * rows) x cols. */
CLPRUNE_API clprune_status clprune_bsr_unpack(
    clprune_context *context, const clprune_bsr *bsr, clprune_mat y, cl_event *event);

/* Checks a BSR matrix that the user brings: buffer sizes; crow from 0 to keep and never falling,
 * col in range and ascending in each block row; `keep` bits of a bitmap's sample set, none behind
 * its last block; scales zero or normal, finite and not negative. Blocking: reads the index and the
 * scales back. The last error says which entry broke which rule. Errors: INVALID_BSR,
 * INVALID_ARGUMENT, INVALID_SIZE, UNSUPPORTED (a dry context). */
CLPRUNE_API clprune_status clprune_bsr_validate(clprune_context *context, const clprune_bsr *bsr);

#ifdef __cplusplus
}
#endif
#endif
