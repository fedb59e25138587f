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
    CLPRUNE_FORM_DENSE = 0,    /* x, in fp32 */
    CLPRUNE_FORM_PRUNED = 1,   /* the kept blocks of each sample, as BSR (clprune/bsr.h) */
    CLPRUNE_FORM_MEAN = 2,     /* the mean of each sample's rows: 1 x cols a sample */
    CLPRUNE_FORM_GELU_CODE = 3 /* GELU's derivative at x, as codes (clprune/gelu_code.h); restoring
                                  gives the derivative, not x */
} clprune_form;

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
    unsigned bits;                 /* GELU_CODE: 2, 4 or 8 */
    uint64_t reserved[4];          /* zeros */
} clprune_keep;

/* "dense", "pruned", ...; "unknown" outside the list. */
CLPRUNE_API const char *clprune_form_name(clprune_form form);

#ifdef __cplusplus
}
#endif
#endif
