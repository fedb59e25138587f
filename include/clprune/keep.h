/* How a tensor is kept from the forward to the backward pass: one value that saved activations,
 * linear layers and training programs hold and pass on whole. */
#ifndef CLPRUNE_KEEP_H
#define CLPRUNE_KEEP_H

#include "clprune/prune.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What is stored of a tensor x. A sample of x is a matrix of rows x cols; x is all samples, one
 * below the other. */
typedef enum clprune_form {
    CLPRUNE_FORM_DENSE = 0,     /* x, in fp32 */
    CLPRUNE_FORM_PRUNED = 1,    /* the kept blocks of each sample, as BSR (clprune/bsr.h) */
    CLPRUNE_FORM_MEAN = 2,      /* the mean of each sample's rows: 1 x cols a sample */
    CLPRUNE_FORM_GELU_CODE = 3, /* GELU's derivative at x, as codes (clprune/gelu_code.h); restoring
                                   gives the derivative, not x */
    CLPRUNE_FORM_QUANTISED = 4, /* codes of 2, 4 or 8 bits with a scale and a zero for each group of
                                   columns */
    CLPRUNE_FORM_POOLED = 5,    /* the means of cells of neighbouring rows */
    CLPRUNE_FORM_MASK = 6 /* whether x is positive, one bit an element (clprune/relu.h); restoring
                             gives 1 or 0 */
} clprune_form;

/* How QUANTISED rounds (x - zero) / scale to a code. */
typedef enum clprune_rounding {
    CLPRUNE_ROUNDING_STOCHASTIC = 0, /* up with a probability of the fraction: unbiased. Drawn from
                                        the store's seed, sample and position */
    CLPRUNE_ROUNDING_NEAREST = 1     /* ties to even */
} clprune_rounding;

/* QUANTISED. An element is zero + scale * code, of its group: 1 x `group` columns, the last of a
 * row may be shorter. zero is the least value of the group, rounded down to bf16; scale = (largest
 * - zero) / (2^bits - 1), rounded up to bf16, which makes it at most 1 + 2^-7 times as large. The
 * error of an element is at most scale / 2 (nearest) or below scale (stochastic), beside the
 * rounding of fp32. Magnitudes below 2^-100 count as 0, finite ones above 2^126 as 2^126. A NaN or
 * Inf makes its whole group NaN when read. Both products read the codes; there is no dense copy.
 * Layout, in 32-bit words:
 *
 *     codes   [batch * rows][ceil(cols / 16) * bits / 2]   code c from bit c * bits of its row on
 *     groups  [batch * rows][ceil(cols / group)]           scale in the lower 16 bits, then zero
 */

/* POOLED (token pooling, arXiv 2409.11902). Row y * grid_width + x of a sample is place (y, x) of a
 * grid. The mean of each cell of cell x cell places stands for its rows; cells at the lower and
 * right edges average what they hold. tn sums dy over cells instead of upsampling, nt makes one
 * column a cell: cell^2 less work than the dense product. Layout: fp32 [batch][cells][cols], cells
 * numbered along the rows of the grid. */

/* Zero-initialise, then set what the form reads: zeros mean DENSE. Settings that a form does not
 * read are ignored. */
typedef struct clprune_keep {
    clprune_form form;
    float sparsity;                /* PRUNED: in [0, 1]; of each sample round-half-up(sparsity *
                                      blocks) blocks are pruned */
    clprune_block block;           /* PRUNED: {0, 0} means {1, 16} */
    clprune_norm norm;             /* PRUNED */
    clprune_criterion criterion;   /* PRUNED */
    clprune_value_type value_type; /* PRUNED: of the kept blocks */
    clprune_index_type index_type; /* PRUNED: SMALLEST where memory counts */
    unsigned bits;                 /* GELU_CODE, QUANTISED: 2, 4 or 8 */
    unsigned group;                /* QUANTISED: a multiple of 16, 16 to 256; 0 means 64 */
    clprune_rounding rounding;     /* QUANTISED */
    unsigned cell;                 /* POOLED: places of a cell's side, at least 1 */
    unsigned grid_height;          /* POOLED: grid_height * grid_width = rows of a sample; both */
    unsigned grid_width;           /* 0: the rows lie in one line, cells are runs of `cell` rows */
    uint64_t reserved[2];          /* zeros */
} clprune_keep;

/* "dense", "pruned", ...; "unknown" outside the list. */
CLPRUNE_API const char *clprune_form_name(clprune_form form);

#ifdef __cplusplus
}
#endif
#endif
