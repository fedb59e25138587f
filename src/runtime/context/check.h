/* What public functions begin with: ENTER (guard.h), and the checks of their operands. */
#ifndef CLPRUNE_RUNTIME_CHECK_H
#define CLPRUNE_RUNTIME_CHECK_H

#include <stdbool.h>

#include "clprune/matrix.h"
#include "runtime/context/fail.h"
#include "runtime/context/guard.h"

/* Fails unless `mat` is rows x cols of fp32, has ld >= cols and lies inside its buffer. An empty
 * matrix may lack a buffer. `name` is the argument's name in the message. */
clprune_status clprune__check_mat(
    clprune_context *context, const char *name, clprune_mat mat, size_t rows, size_t cols);

/* The same; elements of bf16 will do, or any of bf16 and codes. */
clprune_status clprune__check_mat_bf16(
    clprune_context *context, const char *name, clprune_mat mat, size_t rows, size_t cols);
clprune_status clprune__check_mat_any(
    clprune_context *context, const char *name, clprune_mat mat, size_t rows, size_t cols);

/* Fails unless `buffer` holds at least count * size bytes; a count of 0 accepts NULL. */
clprune_status clprune__check_buffer(
    clprune_context *context, const char *name, cl_mem buffer, size_t count, size_t size);

/* Fails unless `ints` has `count` elements from its offset on. *mat: these, as a row, because an
 * int32 is as wide as a float. */
clprune_status clprune__check_ints(
    clprune_context *context, const char *name, clprune_ints ints, size_t count, clprune_mat *mat);

/* Fails where two non-empty matrices may share an element, in one buffer or in sub-buffers of one.
 * They are apart if one ends before the other begins, or if both have the same ld and their columns
 * are disjoint: two windows of one matrix, side by side. Both have passed clprune__check_mat. */
clprune_status clprune__check_apart(
    clprune_context *context, const char *name_a, clprune_mat a, const char *name_b, clprune_mat b);

/* `count` bytes of a buffer from byte `begin` on. */
typedef struct clprune__bytes {
    cl_mem buffer;
    size_t begin, count;
} clprune__bytes;

/* The bytes from the first element to the last of a matrix that has passed clprune__check_mat. */
clprune__bytes clprune__bytes_of(clprune_mat mat);

/* Fails if two regions overlap. Both lie inside their buffers. */
clprune_status clprune__check_bytes_apart(clprune_context *context, const char *name_a,
    clprune__bytes a, const char *name_b, clprune__bytes b);

/* Whether an optional matrix is CLPRUNE_NO_MAT, or rows of it. */
bool clprune__is_absent(clprune_mat mat);

/* A matrix argument, with the size that it must have. */
typedef struct clprune__operand {
    const char *name;
    clprune_mat mat;
    size_t rows, cols;
    bool optional;     /* CLPRUNE_NO_MAT is accepted */
    bool bf16, codes;  /* elements of bf16, codes of 4 or 8 bits are accepted */
    unsigned in_place; /* bit i: it may alias operand i, element for element */
} clprune__operand;

enum { CLPRUNE__OPERANDS = 16 }; /* at most */

/* Checks `count` operands: first `inputs` inputs, then the outputs. Each must have its size, and
 * each output must lie apart from all operands before it; exact aliases that its in_place allows
 * are accepted. */
clprune_status clprune__check_operands(
    clprune_context *context, const clprune__operand *operands, size_t inputs, size_t count);

/* Fails unless the rows of x are those of `batch` samples; without samples there are none. */
clprune_status clprune__check_batch(clprune_context *context, size_t batch, clprune_mat x);

/* Whether matrices may have elements of a type: FP32, BF16, CODES8, CODES4 or NF4. */
bool clprune__is_mat_type(clprune_value_type type);

/* Fails unless all `bytes` of a struct's reserved fields are zero. `name` names the struct in the
 * message. */
clprune_status clprune__check_reserved(
    clprune_context *context, const char *name, const void *reserved, size_t bytes);

/* Whether two matrices are the same elements, at least one: the aliasing that element-wise
 * operations allow. */
bool clprune__same_mat(clprune_mat a, clprune_mat b);

/* Sets *same to that, also through sub-buffers of one buffer. */
clprune_status clprune__is_in_place(
    clprune_context *context, clprune_mat a, clprune_mat b, bool *same);

/* Columns of a matrix of codes that share a scale; of NF4, such groups whose scales share a word.
 */
enum { CLPRUNE__CODES_GROUP = 64, CLPRUNE__NF4_SCALES = 256 };

/* Words of the scales of a row of NF4. */
size_t clprune__nf4_words(size_t cols);

/* Bits of its codes; 0: it has none. */
unsigned clprune__code_bits(clprune_mat mat);

/* The matrix in the units of its offset and ld, as floats or bf16: of codes, its words. */
clprune_mat clprune__mat_units(clprune_mat mat);

/* Bytes of such a unit. */
size_t clprune__element_bytes(clprune_mat mat);

/* The matrix in its OpenCL buffer: with a place in an arena, in the slab. */
clprune_mat clprune__mat_in_window(clprune_mat mat);

/* For operations with nothing to do: sets *event, if event is not NULL, to an event that completes
 * with all commands so far. */
clprune_status clprune__empty_event(clprune_context *context, cl_event *event);

#endif
