/* Reference of the linear layers along both axes, from the formulas of clprune/linear.h, by naive
 * loops. Results as in gemm_ref. */
#ifndef CLPRUNE_LINEAR_REF_H
#define CLPRUNE_LINEAR_REF_H

#include "ref/gemm_ref.h"

/* A sample's x is rows x in, its y rows x out; with `tokens` they are in x rows and out x rows. */
typedef struct linear_ref {
    bool tokens;
    size_t batch, rows, in, out;
} linear_ref;

/* b may be NULL. */
gemm_ref linear_ref_forward(const linear_ref *r, const float *x, const float *w, const float *b);
/* + beta * old */
gemm_ref linear_ref_dx(
    const linear_ref *r, const float *dy, const float *w, float beta, const float *old);
/* xs: the kept input in dense form. */
gemm_ref linear_ref_dw(const linear_ref *r, const float *dy, const float *xs);
gemm_ref linear_ref_db(const linear_ref *r, const float *dy);

#endif
