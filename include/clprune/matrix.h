/* A matrix: a row-major window of fp32 or bf16 elements in a device buffer, or of codes.
 *
 * Letters in all headers: n sample, p tokens (rows of one sample), d features, o outputs, M rows,
 * N columns, K inner size, BR x BC block, keep = kept blocks of a sample. A batch of samples is one
 * matrix of batch * rows rows. */
#ifndef CLPRUNE_MATRIX_H
#define CLPRUNE_MATRIX_H

#include "clprune/memory.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Number formats of values; clprune/bsr.h says how they are rounded, those of a matrix below. */
typedef enum clprune_value_type {
    CLPRUNE_VALUES_FP32 = 0,
    CLPRUNE_VALUES_FP16 = 1,
    CLPRUNE_VALUES_BF16 = 2,
    CLPRUNE_VALUES_INT8 = 3,
    CLPRUNE_VALUES_INT4 = 4,
    CLPRUNE_VALUES_CODES8 = 5,
    CLPRUNE_VALUES_CODES4 = 6,
    CLPRUNE_VALUES_NF4 = 7
} clprune_value_type;

/* Element (r, c) is buffer[offset + r * ld + c]. Offsets, sizes and strides are in elements.
 * A matrix does not own its buffer, which is an OpenCL buffer or sub-buffer, not an image. A matrix
 * of zero rows or columns is legal everywhere.
 *
 * Outputs must not overlap inputs or other outputs unless the function allows it: INVALID_ARGUMENT.
 * Sub-buffers of one buffer overlap where their bytes do. Two windows of one buffer with the same
 * ld and disjoint columns do not overlap.
 *
 * Elements are fp32. Elements of BF16, two bytes each, are for what lies between a layer and a
 * product that rounds its operands to bf16: functions that take or give such a matrix say so, and
 * others refuse it, INVALID_ARGUMENT. On the way in magnitudes below 2^-126 become 0, others are
 * rounded to the nearest, ties to even.
 *
 * CODES8, CODES4 and NF4 are for frozen weights: clprune_gemm takes such a b, clprune_linear and
 * clprune_token_head a w, clprune_embedding_forward a table, none with a dense copy. A row is words
 * of 4 bytes: the codes of its elements, 16 in 2 or 4 words, then a word for each 64 columns, with
 * the scale and zero of CLPRUNE_FORM_QUANTISED, rounded to the nearest (clprune/keep.h). `offset`
 * and `ld` count these words.
 *
 * NF4 has codes of 4 bits, too, but of 16 quantiles of a normal distribution (QLoRA, arXiv
 * 2305.14314; the levels of bitsandbytes), times the largest magnitude of 64 columns. These scales
 * are codes of 8 bits themselves, a byte each behind a word with their scale and zero, for each 256
 * of a row: 4.13 bits an element in rows of 4096, 4.5 with CODES4. An Inf or a NaN makes the 16384
 * columns of such a word NaN. */
typedef struct clprune_mat {
    cl_mem buffer;
    size_t offset;
    size_t rows, cols;
    size_t ld;               /* >= cols; elements from one row to the next */
    clprune_value_type type; /* FP32, or for the operands of a function that takes it BF16, CODES8,
                                CODES4 or NF4 */
} clprune_mat;

/* A window of int32 elements in a device buffer: labels, tokens, lengths. Not owned. */
typedef struct clprune_ints {
    cl_mem buffer; /* NULL: none */
    size_t offset; /* elements; any */
} clprune_ints;

/* The absent matrix, for optional arguments; its rows (clprune_mat_rows) are absent, too. A matrix
 * with columns is not, even without a buffer: its size is checked. */
#ifdef __cplusplus
#define CLPRUNE_NO_MAT (clprune_mat())
#else
#define CLPRUNE_NO_MAT ((clprune_mat){0})
#endif

/* A dense matrix at the start of `buffer`: offset 0, ld = cols. */
static inline clprune_mat clprune_mat_of(cl_mem buffer, size_t rows, size_t cols)
{
    clprune_mat mat = {buffer, 0, rows, cols, cols, CLPRUNE_VALUES_FP32};
    return mat;
}

/* Rows [first, first + rows) of a matrix. */
static inline clprune_mat clprune_mat_rows(clprune_mat mat, size_t first, size_t rows)
{
    mat.offset += first * mat.ld;
    mat.rows = rows;
    return mat;
}

/* The words of 4 bytes of a whole matrix of bf16 or codes, as floats, to copy them bit by bit. It
 * is one of clprune_mat_create_as, of bf16 with an even number of columns. */
static inline clprune_mat clprune_mat_words(clprune_mat mat)
{
    const size_t part = mat.type == CLPRUNE_VALUES_BF16 ? 2 : 1;
    mat.offset /= part;
    mat.cols = mat.ld = mat.ld / part;
    mat.type = CLPRUNE_VALUES_FP32;
    return mat;
}

/* Creates a dense rows x cols matrix in a buffer of its own; release it with
 * clprune_buffer_release(context, mat->buffer). Errors as clprune_buffer_create, SIZE_OVERFLOW. */
CLPRUNE_API clprune_status clprune_mat_create(clprune_context *context,
    clprune_memory_category category, const char *name, size_t rows, size_t cols, clprune_mat *mat);

/* The same with elements of another type: FP32, BF16, CODES8, CODES4 or NF4, else
 * INVALID_ARGUMENT. */
CLPRUNE_API clprune_status clprune_mat_create_as(clprune_context *context,
    clprune_memory_category category, const char *name, clprune_value_type type, size_t rows,
    size_t cols, clprune_mat *mat);

/* Creates `count` dense matrices in one buffer, so that one launch can use them all. On entry
 * mats[i] has its rows and cols; on return it is the matrix. Each is booked under its own name,
 * names[i]. clprune_buffer_release(context, mats[0].buffer) releases them together. On failure each
 * has a NULL buffer. Errors as clprune_mat_create. */
CLPRUNE_API clprune_status clprune_mats_create(clprune_context *context,
    clprune_memory_category category, size_t count, const char *const *names, clprune_mat *mats);

/* Copies a dense host array of rows * cols floats to a matrix, or a matrix to such an array, also
 * one of bf16 or of codes; either then takes 256 KiB of scratch, or a row. Blocks until the copy,
 * and all work enqueued before it, is done; then the host may use the array again. Errors:
 * INVALID_ARGUMENT, INVALID_SIZE, OPENCL_ERROR; a read after a pass of a net also fails for what
 * clprune_net_data says. */
CLPRUNE_API clprune_status clprune_mat_write(
    clprune_context *context, clprune_mat mat, const float *host);
CLPRUNE_API clprune_status clprune_mat_read(clprune_context *context, clprune_mat mat, float *host);

/* Sets every element of `mat` to `value`; elements between rows (ld > cols) stay untouched. */
CLPRUNE_API clprune_status clprune_mat_fill(
    clprune_context *context, float value, clprune_mat mat, cl_event *event);

/* to = from; same rows and cols, no overlap. */
CLPRUNE_API clprune_status clprune_mat_copy(
    clprune_context *context, clprune_mat from, clprune_mat to, cl_event *event);

#ifdef __cplusplus
}
#endif
#endif
