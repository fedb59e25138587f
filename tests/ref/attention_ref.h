/* Attention in double precision (clprune/attention.h). */
#ifndef CLPRUNE_ATTENTION_REF_H
#define CLPRUNE_ATTENTION_REF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct attention_ref_shape {
    size_t batch, rows, heads, kv_heads, cols; /* cols: of a head */
    bool causal;
    size_t queries; /* 0: rows */
    double rate;    /* of dropout */
    uint64_t seed;
    size_t first;           /* number of the first sample */
    const int32_t *lengths; /* first + batch of them; NULL: all keys count */
    size_t keys;            /* 0: rows */
    size_t past;            /* causal: query i sees the keys 0 to past + i */
    size_t biases;          /* 0: none */
    double cap;             /* of scores, 0: none */
    const double *bias;     /* (biases * heads * keys) x rows: a row for each key */
    const int32_t *starts;  /* (first + batch) * rows: the first key of each query; NULL: 0 */
} attention_ref_shape;

/* All dense: q (batch * rows) x (heads * cols), y (batch * queries) x (heads * cols), k, v (batch *
 * keys) x (kv_heads * cols). bound: what the rounding of fp32 may change; NULL: not wanted. */
void attention_ref_forward(const attention_ref_shape *s, const double *q, const double *k,
    const double *v, double *y, double *bound);

/* Gradients and their bounds; [0] of q, [1] of k, [2] of v, and with biases [3] of these. */
void attention_ref_backward(const attention_ref_shape *s, const double *q, const double *k,
    const double *v, const double *dy, double *const grads[4], double *const bounds[4]);

#endif
