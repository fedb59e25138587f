/* Reference of the linear layers, from the formulas of clprune/linear.h.
 * Results as in gemm_ref; b may be NULL. xs is the kept input in dense form. */
#ifndef CLPRUNE_LINEAR_REF_H
#define CLPRUNE_LINEAR_REF_H

#include "ref/gemm_ref.h"

/* Linear: M tokens in all. */
gemm_ref linear_ref_forward(
    size_t m, size_t in, size_t out, const float *x, const float *w, const float *b);
gemm_ref linear_ref_dx(size_t m, size_t in, size_t out, const float *dy, const float *w);
gemm_ref linear_ref_dw(size_t m, size_t in, size_t out, const float *dy, const float *xs);
gemm_ref linear_ref_db(size_t m, size_t out, const float *dy);

/* Token linear: batch samples of in (out) tokens x d features. */
gemm_ref token_linear_ref_forward(
    size_t batch, size_t in, size_t out, size_t d, const float *x, const float *w, const float *b);
gemm_ref token_linear_ref_dx(
    size_t batch, size_t in, size_t out, size_t d, const float *dy, const float *w);
gemm_ref token_linear_ref_dw(
    size_t batch, size_t in, size_t out, size_t d, const float *dy, const float *xs);
gemm_ref token_linear_ref_db(size_t batch, size_t out, size_t d, const float *dy);

#endif
