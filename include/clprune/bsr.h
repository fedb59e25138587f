/* Batched Block Sparse Row (BSR) matrices with the same number of blocks in every sample.
 *
 * A sample is a rows x cols matrix cut into ceil(rows/BR) x ceil(cols/BC) blocks; a block that
 * overhangs an edge is zero-padded in storage. The kept blocks of a sample lie in row-major order:
 *
 *     values [batch][keep][BR][BC]     of the value type
 *     scales [batch][keep]             bf16, of INT8 and INT4: block k is scales[n][k] *
 *                                      values[n][k]
 *
 * and the index stores the positions of these blocks. For sample n, block row i and kept block k:
 *
 *     INT32   crow [batch][block_rows + 1]  int32: block row i has blocks crow[n][i] <= k <
 *                                           crow[n][i + 1]; from 0 to `keep` in every sample
 *             col  [batch][keep]            int32: block column of block k, ascending in a block
 *                                           row. The layout of PyTorch's batched BSR.
 *     BITMAP  bitmap [batch][ceil(blocks / 8)]  bytes: bit i % 8 (1 << i % 8) of byte i / 8 is set
 *                                           if block i, row-major in the sample, is kept. A sample
 *                                           has `keep` set bits; the bits after its last block are
 *                                           clear. There is no crow and no col. If the number of
 *                                           set bits is wrong, the first `keep` count, and missing
 *                                           ones are taken from the first clear bits.
 *
 * All sizes follow from the shape and the sparsity, so memory is known before training starts. */
#ifndef CLPRUNE_BSR_H
#define CLPRUNE_BSR_H

#include "clprune/matrix.h"

#ifdef __cplusplus
extern "C" {
#endif

/* BR x BC elements; any sides >= 1, at most 2^30 elements. {1, 16} is the usual choice: a vector of
 * 16 floats. Narrower blocks lose less of x at the same sparsity and need more index bytes. */
typedef struct clprune_block {
    size_t rows, cols;
} clprune_block;

/* How the kept values are stored (clprune_value_type); all arithmetic is fp32. Packing rounds to
 * the nearest value, ties to even; NaN stays NaN and Inf stays Inf.
 *
 *     FP16  IEEE half. Relative error 2^-11 from 2^-14 to 65504, absolute error 2^-25 below.
 *           Larger finite values become 65504, never Inf.
 *     BF16  The upper half of an fp32: relative error 2^-8. Larger finite values become the
 *           largest bf16, 2^128 - 2^120.
 *     INT8  Integers q in -127 .. 127, and a scale for each block. The scale is the block's largest
 *           magnitude / 127, rounded up to bf16 (by at most a factor of 1 + 2^-7). q is the integer
 *           nearest to element / scale, and scale * q is exact; the absolute error is at most 1/252
 *           of the largest magnitude. A block whose magnitudes are below 127 * 2^-126 becomes zero
 *           with scale 0, because scales are never subnormal. Subnormal elements may count as zero.
 *           A NaN or Inf in a block makes the scale NaN or Inf, and the whole block reads as NaN.
 *     INT4  The same with q in -7 .. 7 and scale = largest magnitude / 7: the absolute error is at
 *           most 1/13.8 of the largest magnitude; a block below 7 * 2^-126 becomes zero. Where
 *           scale * q exceeds FLT_MAX, it reads as FLT_MAX, never as Inf. Two codes share a byte,
 *           the first in the lower bits; a block is padded to whole bytes. */

/* How the index, the positions of the kept blocks, is stored. INT32 takes 4 bytes for each kept
 * block and block row; PyTorch reads it. BITMAP takes 1 bit for each block, kept or not; operations
 * expand it to INT32 in scratch of up to 4 * batch * (keep + block_rows + 1) bytes. Products have
 * the same bits with each type. */
typedef enum clprune_index_type {
    CLPRUNE_INDEX_INT32 = 0, /* 1 is reserved: it was a type of older versions */
    CLPRUNE_INDEX_BITMAP = 2,
    CLPRUNE_INDEX_SMALLEST = 3 /* the type with the fewest bytes; INT32 if they are equal */
} clprune_index_type;

/* Shape, block, kept blocks and types of a BSR matrix: `batch` samples of rows x cols each.
 * Zero-initialise, then set the fields. */
typedef struct clprune_bsr_desc {
    size_t batch;
    size_t rows, cols; /* of one sample */
    clprune_block block;
    size_t keep; /* kept blocks of one sample, at most block_rows * block_cols */
    clprune_value_type value_type;
    clprune_index_type index_type;
    uint64_t reserved[2]; /* zeros */
} clprune_bsr_desc;

/* Byte offsets of the parts of a BSR matrix in their buffers; each a multiple of the part's element
 * size. */
typedef struct clprune_bsr_offsets {
    size_t values, crow, col, scales, bitmap;
} clprune_bsr_offsets;

/* A BSR matrix. Zero-initialise the struct and fill it with your own buffers, or use
 * clprune_bsr_create. All parts may lie in one buffer, apart from each other. */
typedef struct clprune_bsr {
    clprune_bsr_desc desc;
    cl_mem values;
    cl_mem crow, col;           /* INT32; ignored otherwise */
    cl_mem scales;              /* INT8, INT4; ignored otherwise */
    cl_mem bitmap;              /* BITMAP; ignored otherwise */
    size_t first;               /* samples in the buffers before this matrix's first sample */
    clprune_bsr_offsets offset; /* 0: the part begins at the start of its buffer */
    uint64_t reserved[2];       /* zeros */
} clprune_bsr;

/* The result of clprune_bsr_size_query: blocks per side, and bytes of each part. */
typedef struct clprune_bsr_sizes {
    size_t block_rows, block_cols;
    size_t blocks;                 /* of one sample: block_rows * block_cols */
    clprune_index_type index_type; /* the described type; for SMALLEST the type it stands for */
    size_t values_bytes;
    size_t crow_bytes, col_bytes; /* 0 for BITMAP */
    size_t bitmap_bytes;          /* 0 except for BITMAP */
    size_t scales_bytes;          /* 0 except for INT8 and INT4 */
    size_t total_bytes;           /* the sum of the five */
    size_t dense_bytes;           /* batch * rows * cols * 4 */
} clprune_bsr_sizes;

/* The number of blocks kept of `blocks` at a sparsity in [0, 1]: blocks - round_half_up(sparsity *
 * blocks). This rounding reproduces Table II of arXiv 2311.16883. The float is read as its shortest
 * decimal: 0.7f means 0.7. A sparsity outside [0, 1] or NaN keeps all blocks. */
CLPRUNE_API size_t clprune_keep_count(size_t blocks, float sparsity);

/* Computes all sizes without touching a device; checks for overflow.
 * Errors: INVALID_ARGUMENT (a zero block side, keep > blocks, an unknown value or index type),
 * SIZE_OVERFLOW (also: more than 2^31 - 1 blocks in a sample, or 2^30 elements in a block). */
CLPRUNE_API clprune_status clprune_bsr_size_query(
    const clprune_bsr_desc *desc, clprune_bsr_sizes *sizes);

/* Creates the buffers, booked under `category` as name.values, name.crow and name.col or
 * name.bitmap, and, for INT8 and INT4, name.scales. Their contents are undefined until packed.
 * bsr->desc becomes *desc, with SMALLEST replaced by the type it stands for; desc may be
 * &bsr->desc. On failure *bsr is zeroed. Errors as clprune_bsr_size_query and
 * clprune_buffer_create. */
CLPRUNE_API clprune_status clprune_bsr_create(clprune_context *context,
    clprune_memory_category category, const char *name, const clprune_bsr_desc *desc,
    clprune_bsr *bsr);

/* Releases the buffers that clprune_bsr_create made and zeroes *bsr; accepts NULL and zeroes. */
CLPRUNE_API void clprune_bsr_destroy(clprune_context *context, clprune_bsr *bsr);

/* A view of samples [first, first + count), clipped to the samples of the matrix. Functions that
 * take a BSR matrix take a view too, so part of a batch can be packed, unpacked or multiplied. The
 * view shares the matrix's buffers; do not destroy it. */
CLPRUNE_API clprune_bsr clprune_bsr_samples(const clprune_bsr *bsr, size_t first, size_t count);

/* Packs the blocks of x that `mask` marks: writes values, scales and the index. x: (batch * rows) x
 * cols. mask: batch * blocks bytes, row-major over the blocks of a sample; non-zero means kept.
 * Every sample keeps exactly `keep` blocks: if more are marked, the first `keep` marked ones; if
 * fewer, the first unmarked ones too. mask NULL keeps all blocks and needs keep = blocks. */
CLPRUNE_API clprune_status clprune_bsr_pack(
    clprune_context *context, clprune_mat x, cl_mem mask, const clprune_bsr *bsr, cl_event *event);

/* Writes the dense form: kept blocks in place, zero elsewhere. y: (batch * rows) x cols, must not
 * overlap bsr. The index is not checked: call clprune_bsr_validate for a BSR matrix of your own. */
CLPRUNE_API clprune_status clprune_bsr_unpack(
    clprune_context *context, const clprune_bsr *bsr, clprune_mat y, cl_event *event);

/* Checks a BSR matrix made by the caller: buffer sizes; crow ascends from 0 to keep; col is in
 * range and ascends in each block row; a bitmap has `keep` set bits per sample, none after its last
 * block; scales are zero or normal, finite and not negative. Blocks, because it reads the index and
 * scales back. The last error names the entry and the broken rule. Errors: INVALID_BSR,
 * INVALID_ARGUMENT, INVALID_SIZE, UNSUPPORTED (a dry context). */
CLPRUNE_API clprune_status clprune_bsr_validate(clprune_context *context, const clprune_bsr *bsr);

#ifdef __cplusplus
}
#endif
#endif
