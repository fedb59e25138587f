/* clprune_keep: how a tensor is kept from the forward to the backward pass. Stores, linear layers,
 * convolutions and the training programs take it as one value. */
#ifndef CLPRUNE_KEEP_H
#define CLPRUNE_KEEP_H

#include <stdbool.h>

#include "clprune/prune.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The form in which a tensor x is stored. A sample is a rows x cols matrix; x is all samples, one
 * below the other. The means of MEAN, of POOLED and of a centre are sums divided by the number of
 * elements. A mean is finite if its sum is. */
typedef enum clprune_form {
    CLPRUNE_FORM_DENSE = 0,     /* x, in fp32 */
    CLPRUNE_FORM_PRUNED = 1,    /* the kept blocks of each sample, as BSR (clprune/bsr.h) */
    CLPRUNE_FORM_MEAN = 2,      /* the mean of each sample's rows: 1 x cols per sample */
    CLPRUNE_FORM_GELU_CODE = 3, /* GELU's derivative at x, as codes (clprune/activation.h);
                                   restoring gives the derivative, not x */
    CLPRUNE_FORM_QUANTISED = 4, /* codes of 2, 4 or 8 bits, with a scale and a zero per group of
                                   columns, or bf16 */
    CLPRUNE_FORM_POOLED = 5,    /* the means of cells of neighbouring rows */
    CLPRUNE_FORM_MASK = 6 /* one bit per element: whether x is positive (clprune/relu.h); restoring
                             gives 1 or 0 */
} clprune_form;

/* How QUANTISED rounds (x - zero) / scale to a code. */
typedef enum clprune_rounding {
    CLPRUNE_ROUNDING_STOCHASTIC = 0, /* rounds up with probability equal to the fraction: unbiased.
                                        Drawn from the store's seed, the sample and the position */
    CLPRUNE_ROUNDING_NEAREST = 1     /* ties to even */
} clprune_rounding;

/* The means that PRUNED subtracts from x before it prunes, and keeps beside the blocks. Restoring
 * adds them again, and products include them.
 *
 * Use a centre for the input of a convolution between ReLU and batch norm. The mean of such an x is
 * large, but adds almost nothing to dw, because batch norm's dy sums to 0 over the pixels. Without
 * a centre, most of the noise of drawn blocks comes from this mean.
 *
 * Layout: the means, fp32 [batch][1 or cells][cols], rounded up to CLPRUNE_SAVED_ALIGN bytes,
 * before the BSR matrix. */
typedef enum clprune_centre {
    CLPRUNE_CENTRE_NONE = 0,
    CLPRUNE_CENTRE_SAMPLE = 1, /* the mean of each sample's rows, in 4 * cols bytes a sample; its
                                  product takes a sum of dy's rows */
    CLPRUNE_CENTRE_CELLS = 2   /* the means that POOLED keeps, with its `cell` and grid; their
                                  product does 1 / cell^2 of the dense one's work */
} clprune_centre;

/* QUANTISED, 2 to 8 bits. A group is 1 x `group` columns of a row; the last group of a row may be
 * shorter. An element is zero + scale * code with its group's zero and scale. zero is a bf16
 * next to the group's least value: above it, if that is less than a step away, else below. scale is
 * span / (2^bits - 1), where span is largest - zero, rounded down to 9 significant bits. No element
 * is read as less than the group's least value or more than its largest, except in groups that no
 * code lies in, as of equal values: those are up to 2^-15 of the value too small. Apart from fp32
 * rounding, the error of an element between two codes in use is at most scale / 2 (nearest) or
 * below scale (stochastic, unbiased); an element beyond the first or the last one takes that, at
 * most a step away. Magnitudes below 2^-100 count as 0, finite ones
 * above 2^126 as 2^126. A NaN or Inf makes its whole group read as NaN. Both products read the
 * codes without a dense copy. A sample has fewer than 2^32 elements: SIZE_OVERFLOW. Layout, in
 * 32-bit words:
 *
 *     codes   [batch * rows][ceil(cols / 16) * bits / 2]   code c starts at bit c * bits of its row
 *     groups  [batch * rows][ceil(cols / group)]           span in the lower 16 bits, 8 of exponent
 *                                                         and 8 of mantissa, zero above
 *
 * With `rotate`, rows are multiplied by an orthogonal matrix before they are coded, and what is
 * read by its transpose: a column of large values, which takes most of the range of its group, is
 * spread over its block and no longer harms the others. Blocks have the width of the largest power
 * of two that divides `group`; the rest of a row has narrower ones, down to 16 columns, and up to
 * 15 columns that stay as they are. Each is signs, then a normalised Hadamard matrix. zero is then
 * rounded down and the span up, so that the codes reach all values and each element is unbiased;
 * it may be read out of its group's range. The bound of an element's error does not hold; the sum
 * of squares of a block's errors is that of its codes. Magnitudes above 2^118 count as 2^118.
 * Product tn reads the codes as they are and rotates dw, with beta the old one, too: it is rounded
 * relative to its blocks, and a NaN or an infinity there fills its block. What else reads a store
 * restores it first.
 *
 * With 16 bits an element is x rounded to the nearest bf16, ties to even; magnitudes below 2^-126
 * are 0, and NaN stays NaN. There are codes only: group and rounding are not read, and `rotate` is
 * refused. Products with precision bf16 (clprune/context.h) round a dense x in the same way. On
 * CPUs a gradient of weights has the same bits from such a store as from a dense one, but for
 * convolutions of kernels wider than a pixel with at most 15 input channels, whose sums have
 * another order. */

/* POOLED (token pooling, arXiv 2409.11902). Row y * grid_width + x of a sample is place (y, x) of a
 * grid, which is cut into cells of cell x cell places. Each row is replaced by the mean of its
 * cell; cells at the lower and right edges may be smaller. Product tn sums dy over each cell
 * instead of upsampling, nt computes one column per cell: both do 1 / cell^2 of the dense product's
 * work. Layout: fp32 [batch][cells][cols], cells numbered along the rows of the grid. */

/* Zero-initialise, then set the fields that the form reads. All zeros mean DENSE. Fields that the
 * form does not read are ignored. With PRUNED, zeros mean the blocks of 1 x 16 of largest l2 norm,
 * values in fp32, INT32 indices; set criterion = SAMPLED for unbiased weight gradients. The API
 * guide (README.md here) says which form to take. */
typedef struct clprune_keep {
    clprune_form form;
    float sparsity;                /* PRUNED: in [0, 1]; prunes round-half-up(sparsity * blocks)
                                      blocks of each sample, which may be all: 0.7 of 1 */
    clprune_block block;           /* PRUNED: {0, 0} means {1, 16} */
    clprune_norm norm;             /* PRUNED */
    clprune_criterion criterion;   /* PRUNED */
    clprune_value_type value_type; /* PRUNED: type of the kept values */
    clprune_index_type index_type; /* PRUNED: how block positions are stored */
    unsigned bits;                 /* GELU_CODE: 2, 4 or 8; QUANTISED: also 16 */
    unsigned group;                /* QUANTISED: a multiple of 16, 16 to 256; 0 means 64 */
    clprune_rounding rounding;     /* QUANTISED */
    unsigned cell;                 /* POOLED, CENTRE_CELLS: side of a cell, at least 1 */
    unsigned grid_height;          /* POOLED, CENTRE_CELLS: grid_height * grid_width = rows of a
                                      sample; if both are 0, a cell is a run of `cell` rows */
    unsigned grid_width;
    clprune_centre centre; /* PRUNED */
    bool rotate;           /* QUANTISED, 2 to 8 bits */
    uint64_t reserved[2];  /* zeros */
} clprune_keep;

/* "dense", "pruned", ...; "unknown" outside the list. */
CLPRUNE_API const char *clprune_form_name(clprune_form form);

#ifdef __cplusplus
}
#endif
#endif
