/* Reference of dense products: naive loops in double, with the error bound of fp32.
 *
 * Matrices are dense and row-major; op(a) is M x K, op(b) is K x N, transposed if the flag is
 * set. */
#ifndef CLPRUNE_GEMM_REF_H
#define CLPRUNE_GEMM_REF_H

#include <stdbool.h>
#include <stddef.h>

/* Element (r, c) of the result is a sum of terms. Collects the sums, the sums of magnitudes and the
 * number of terms. */
typedef struct gemm_ref {
    size_t m, n;
    size_t terms;  /* the same number for each element */
    double *want;  /* M x N: the sums; after gemm_ref_end the results */
    double *bound; /* M x N: the sums of magnitudes; after gemm_ref_end the bounds */
} gemm_ref;

gemm_ref gemm_ref_begin(size_t m, size_t n);

/* If not NULL, it rounds the operands of gemm_ref_add. The fixture sets it to the precision of
 * test_context(). */
extern float (*gemm_ref_operand)(float);

/* `count` operands, rounded if gemm_ref_operand is not NULL. */
const float *gemm_ref_operands(const float *x, size_t count);

/* The nearest TF32, 10 fraction bits, ties away from zero; not of subnormal numbers. */
float gemm_ref_tf32(float x);

/* The nearest bf16, ties to even; subnormal ones are 0, ones above the largest bf16 may be Inf. */
float gemm_ref_bf16(float x);
/* Adds a term to element i; ref->terms is the caller's to count. */
void gemm_ref_term(gemm_ref *ref, size_t i, double term);

/* Adds the K terms of op(a) * op(b). */
void gemm_ref_add(
    gemm_ref *ref, bool transpose_a, bool transpose_b, size_t k, const float *a, const float *b);

/* Adds one term, row[c], to each element (r, c). */
void gemm_ref_add_row(gemm_ref *ref, const float *row);

/* Ends with want = alpha * sum + beta * c (c is not read if beta = 0) and bound = 2 * sqrt(K) *
 * 2^-24 * sum |a||b| + 2^-24 * |want|; beta * c counts as one more term. */
void gemm_ref_end(gemm_ref *ref, float alpha, float beta, const float *c);

#endif
