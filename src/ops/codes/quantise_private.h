/* Quantised matrices: codes of 2, 4 or 8 bits with a scale and a zero for each group of columns, or
 * of 16 bits, which are bf16. */
#ifndef CLPRUNE_OPS_QUANTISE_PRIVATE_H
#define CLPRUNE_OPS_QUANTISE_PRIVATE_H

#include "clprune/matrix.h"
#include "ops/sparse/bsr_private.h"
#include "runtime/launch/launch.h"

enum { CLPRUNE__GROUP_LEAST = 16, CLPRUNE__GROUP_MOST = 256 };

typedef struct clprune__quantised_desc {
    size_t rows, cols; /* rows: of all samples */
    unsigned bits;     /* 2, 4, 8 or 16 */
    size_t group;      /* columns that share scale and zero: a multiple of 16, 16 to 256. Not read
                          with 16 bits, which have no groups */
    bool rotated;      /* the codes are those of x R (rotate_private.h); not with 16 bits */
    bool nf4;          /* CLPRUNE_VALUES_NF4, with 4 bits in groups of 64; not rotated */
} clprune__quantised_desc;

/* A quantised rows x cols matrix: element c of a row is zero + scale * code, rounded once to fp32,
 * with scale and zero of group c / group of its row. Both parts are matrices of 4-byte words:
 *
 *     codes   rows x 16-code units of bits / 2 words; code i of a unit starts at bit i * bits,
 *             counted from bit 0 of its first word; a row is padded to whole units with codes of 0
 *     groups  rows x ceil(cols / group): span in the lower 16 bits, 8 of exponent and 8 of mantissa
 *             of an fp32; zero in the upper, bf16
 *
 * Quantising a group: magnitudes below 2^-100 count as 0, finite ones above 2^126 as 2^126. zero =
 * the least value `low`, rounded up to bf16 if (zero - low) * (2^bits - 1) <= high - low, else
 * rounded down. span = the largest value `high` - zero, rounded down to 9 bits. scale = span * (1 /
 * (2^bits - 1), rounded down); below 2^-120 it is 0. The codes in use are those from the first that
 * is read as no less than `low` on, or the last if there is none. None is read as more than `high`.
 * With q = (x - zero) / scale, limited to the codes in use, the code is the nearest integer, ties
 * to even, or at random floor(q) or floor(q) + 1, the latter with probability q - floor(q), which
 * is unbiased. If no magnitude was changed, no limit met and e = 2^-14 * scale + 2^-23 * max(|x|,
 * |zero|),
 *
 *     nearest     |read - x| <= scale / 2 + e
 *     stochastic  |read - x| <  scale + e,  and the mean over seeds is x +- e
 *
 * A group with an Inf or a NaN reads as NaN throughout. With 16 bits an element is x rounded to the
 * nearest bf16, ties to even, as products of bf16 round it on CPUs: magnitudes below 2^-126 are 0.
 * At a limit |read - x| <= max(scale, (high - low) / (2^bits - 1)) + e. Equal values need not be
 * kept exactly: they are read as up to 2^-15 of them too small.
 *
 * If `rotated`, all this holds of x R in place of x, but zero is always rounded down and the span
 * up, so that all values lie between the first code, 0, and the last; and magnitudes of x above
 * 2^118 are taken for 2^118. Reading gives q R^T, which is linear in q, so unbiased where q is; its
 * errors have the same sum of squares as those of q. An Inf or a NaN in x makes its group read as
 * NaN.
 *
 * With `nf4` an element is scale * level[code], the groups of each 256 * 64 columns are one word,
 * as that of a group of 8 bits, and a byte for each scale: cl/codes/quantise_nf4.cl. */
typedef struct clprune__quantised {
    clprune__quantised_desc desc;
    clprune_mat codes, groups;
} clprune__quantised;

/* Sets *words to the 4-byte words that a quantised matrix takes: first the codes, then the groups.
 * Errors: INVALID_ARGUMENT (bits, group), SIZE_OVERFLOW. */
clprune_status clprune__quantised_words(
    clprune_context *context, const clprune__quantised_desc *desc, size_t *words);

/* The quantised matrix that begins `offset` words into a buffer. clprune__quantised_words has
 * accepted *desc. */
clprune__quantised clprune__quantised_of(
    const clprune__quantised_desc *desc, cl_mem buffer, size_t offset);

/* Fails for a matrix of bf16 unless its columns are whole units of 16, and its rows begin at words.
 */
clprune_status clprune__check_units(clprune_context *context, const char *name, clprune_mat mat);

/* A matrix of bf16 as a quantised one of 16 bits, one of codes as what it is. Fails as
 * clprune__check_units. */
clprune_status clprune__quantised_view(
    clprune_context *context, const char *name, clprune_mat mat, clprune__quantised *q);

/* Codes of 16 bits as a matrix, whose rows may end with a part of a unit. */
clprune_mat clprune__quantised_pairs(const clprune__quantised *q);

/* The same of any q: CLPRUNE_NO_MAT for other bits, or rows of no whole units. */
clprune_mat clprune__quantised_mat(const clprune__quantised *q);

/* Rows [first, first + rows). */
clprune__quantised clprune__quantised_rows(const clprune__quantised *q, size_t first, size_t rows);

/* q = x. x: rows x cols, apart from q. seed: NULL rounds to the nearest; else stochastic, by a hash
 * of *seed, sample and position in the sample. Row 0 of x is the first row of sample `first`, and a
 * sample has sample_rows rows (> 0, sample_rows * cols < 2^32); any split of a batch gives the same
 * codes. With nf4 the seed is NULL. */
clprune_status clprune__quantise(clprune_context *context, const uint64_t *seed, size_t sample_rows,
    size_t first, clprune_mat x, const clprune__quantised *q, cl_event *event);

/* y = q, or q R^T if q is rotated. y: rows x cols, apart from q. */
clprune_status clprune__dequantise(
    clprune_context *context, const clprune__quantised *q, clprune_mat y, cl_event *event);

/* y = x + q (or q R^T) or, unless ls is CLPRUNE_NO_MAT, x + ls * q, with the bits of
 * clprune_layerscale_forward of a dense q. x, y: rows x cols, y apart from q, y may be x. ls: 1 x
 * cols. */
clprune_status clprune__dequantise_add(clprune_context *context, const clprune__quantised *q,
    clprune_mat x, clprune_mat ls, clprune_mat y, cl_event *event);

/* Fails unless bits, group and both parts are legal. */
clprune_status clprune__check_quantised(
    clprune_context *context, const char *name, const clprune__quantised *q);

/* Fails if `mat` overlaps a part of q. */
clprune_status clprune__check_quantised_apart(
    clprune_context *context, const char *name, clprune_mat mat, const clprune__quantised *q);

/* Appends the defines of quantise.clh. */
void clprune__quantised_defines(const clprune__quantised *q, clprune__defines *defines);

/* Kernel parameters QUANTISED_IN(name) or QUANTISED_OUT(name). */
void clprune__arg_quantised(clprune__launch *launch, const clprune__quantised *q);

#endif
