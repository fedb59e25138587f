/* Reference of the cross-entropy of samples with several labels. `*_bound` receives the error bound
 * of fp32. */
#ifndef CLPRUNE_TOKEN_LOSS_REF_H
#define CLPRUNE_TOKEN_LOSS_REF_H

#include <stddef.h>
#include <stdint.h>

/* What each row that counts weighs. */
double token_loss_ref_weight(size_t batch, size_t rows, const int32_t *labels);

/* The sums of `rows` rows' values over the rows of each sample, * weight. row_bound: NULL, exact.
 */
void token_loss_ref_sums(size_t batch, size_t rows, double weight, const double *row,
    const double *row_bound, double *sum, double *bound);

/* What a head reads, and what it writes: arrays of the sizes of clprune/token_loss.h. */
typedef struct token_head_ref {
    size_t batch, rows, cols, vocabulary;
    double smoothing, scale, cap; /* cap 0: none */
    const double *x, *w, *b;      /* b: NULL, none */
    const int32_t *labels;
    double *loss, *loss_bound, *hit, *dx, *dx_bound, *dw, *dw_bound, *db, *db_bound;
} token_head_ref;

void token_head_ref_run(const token_head_ref *h);

#endif
