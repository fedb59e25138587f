/* What the operations on BSR matrices share. */
#ifndef CLPRUNE_OPS_BSR_PRIVATE_H
#define CLPRUNE_OPS_BSR_PRIVATE_H

#include "clprune/bsr.h"
#include "runtime/context/check.h"
#include "runtime/launch/launch.h"
#include "runtime/memory/scratch.h"

/* Fails unless `bsr` has a legal description and parts that lie in their buffers, apart from each
 * other; fills *sizes. */
clprune_status clprune__check_bsr(
    clprune_context *context, const clprune_bsr *bsr, clprune_bsr_sizes *sizes);

/* Fails unless `desc` is legal, with the reason in the last error; fills *sizes. */
clprune_status clprune__check_bsr_desc(
    clprune_context *context, const clprune_bsr_desc *desc, clprune_bsr_sizes *sizes);

/* Fails where `bytes` meet one of the parts of `bsr`, up to its last sample. */
clprune_status clprune__check_bsr_apart(
    clprune_context *context, const char *name, clprune__bytes bytes, const clprune_bsr *bsr);

/* As clprune__check_bsr, and fails unless `mat` has the size of all samples, one below the other,
 * and lies apart from `bsr`. */
clprune_status clprune__check_bsr_dense(clprune_context *context, const clprune_bsr *bsr,
    const char *name, clprune_mat mat, clprune_bsr_sizes *sizes);

/* Where the values or scales of the first sample of `bsr` begin; offsets in elements. */
clprune__region clprune__bsr_values_region(const clprune_bsr *bsr);
clprune__region clprune__bsr_scales_region(const clprune_bsr *bsr);

/* Bytes of a value; values of a block (INT4: bytes, two elements each); whether blocks have
 * scales. */
size_t clprune__value_bytes(clprune_value_type type);
size_t clprune__block_values(clprune_value_type type, clprune_block block);
bool clprune__is_scaled(clprune_value_type type);

bool clprune__is_index_type(clprune_index_type type);

/* Bytes of a sample's bitmap. */
size_t clprune__bitmap_bytes(size_t blocks);

/* crow and col of a matrix as int32, from its first sample on. */
typedef struct clprune__index {
    clprune__region crow, col;
} clprune__index;

/* Four kernel parameters: crow and col as regions. */
void clprune__arg_index(clprune__launch *launch, const clprune__index *index);

/* Writes the index of `bsr` from a mask of batch * blocks bytes; a mask without buffer keeps all
 * blocks. Sets *index to crow and col: if bsr stores another index form, they are expanded into
 * caller-scoped scratch. */
clprune_status clprune__bsr_write_index(clprune_context *context, clprune__region mask,
    const clprune_bsr *bsr, const clprune_bsr_sizes *sizes, clprune__index *index);

/* Sets *index to crow and col of `bsr`, expanded in the same way. */
clprune_status clprune__bsr_read_index(clprune_context *context, const clprune_bsr *bsr,
    const clprune_bsr_sizes *sizes, clprune__index *index);

/* Floats of a vector for rows of `cols`: 16, 4 or 1. */
size_t clprune__row_vector(size_t cols);

/* Appends the defines of bsr_values.clh. */
void clprune__value_defines(clprune_value_type type, size_t width, clprune__defines *defines);

/* Appends the defines of the kernels that write pairs of bf16: those of bsr_values.clh, BF16, BC,
 * BR. */
void clprune__word_defines(
    const clprune_context *context, const clprune_bsr_desc *desc, clprune__defines *defines);

/* Sets *values to the kept values of `bsr` in fp32. Other value types are widened into
 * caller-scoped scratch. */
clprune_status clprune__bsr_values(
    clprune_context *context, const clprune_bsr *bsr, clprune__region *values);

/* Sets *words to the kept rows of `bsr` as pairs of bf16 (bspmm_words), in caller-scoped scratch.
 * context->ops->pairs is not NONE. */
clprune_status clprune__bsr_words(
    clprune_context *context, const clprune_bsr *bsr, clprune__region *words);

/* The weights of a sampled selection, floats: a score for each block, a threshold for each
 * sample. */
typedef struct clprune__weights {
    clprune__region scores, thresholds;
} clprune__weights;

/* Block rows that a group of `local` work-items takes in kernels that handle block rows
 * independently. */
size_t clprune__block_row_run(size_t local, const clprune_bsr_desc *desc);

/* As clprune_bsr_pack, with checked operands; *sizes are those of `bsr`. mask: bytes; with a NULL
 * buffer all blocks are kept. weights: NULL for ones. centre: batch x cols, subtracted from the
 * rows of its sample; NULL: none. */
clprune_status clprune__bsr_pack(clprune_context *context, clprune_mat x, const clprune_mat *centre,
    clprune__region mask, const clprune__weights *weights, const clprune_bsr *bsr,
    const clprune_bsr_sizes *sizes, cl_event *event);

/* As clprune_bsr_unpack, within a call. */
clprune_status clprune__bsr_unpack(
    clprune_context *context, const clprune_bsr *bsr, clprune_mat y, cl_event *event);

#endif
