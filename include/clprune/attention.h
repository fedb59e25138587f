/* Attention with several heads (arXiv 1706.03762). For each sample, head and query i:
 *
 *     y[i] = sum_j p[i][j] * v[j],
 *     p[i] = softmax over the keys j of q[i] . k[j] / sqrt(e) + bias[i][j]
 *
 * Neither p nor the scores are ever in memory: the forward pass runs a softmax along the keys
 * (arXiv 2205.14135), and the backward pass makes p again from q and k. So q, k and v are all that
 * must be kept, and may be restored from codes: gradients are those at the restored values. */
#ifndef CLPRUNE_ATTENTION_H
#define CLPRUNE_ATTENTION_H

#include <stdbool.h>
#include <stdint.h>

#include "clprune/matrix.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Zero-initialise, then set the fields that you need. */
typedef struct clprune_attention_desc {
    size_t rows;     /* tokens of a sample, up to 2^31 - 1 */
    size_t heads;    /* of q */
    size_t kv_heads; /* of k and v, a divisor of heads: heads / kv_heads heads of q, side by side,
                        read the same head of k and v. 0: heads */
    size_t cols;     /* e, features of a head, up to 512 */
    size_t queries;  /* of each sample only the first so many rows are queries; 0: all rows */
    bool causal;     /* query i sees the keys 0 to past + i; else all */
    float rate;    /* of dropout of p, in [0, 1), good to 2^-32: p[i][j] becomes 0 or p[i][j] / (1 -
                      rate) */
    uint64_t seed; /* of dropout: another one for each step and layer, the same in both passes */
    size_t first;  /* number of the first sample, for dropout and lengths: samples in several calls
                      are as in one */
    clprune_ints lengths; /* first + batch of them, or none: of sample n of the call only the first
                       lengths[first + n] keys count, as if it had no others; queries stay. Above
                       keys means keys; 0 and below mean no keys, y and gradients of 0 */
    size_t keys; /* rows of k and v of a sample, up to 2^31 - 1; 0: rows. Others than rows are
                    cross-attention, or a cache that has the keys of earlier tokens */
    size_t past; /* with causal: tokens before the first query, past + rows up to 2^31 - 1. Forward
                    passes do not read keys from past + queries on: a cache may have more room */
    clprune_mat bias; /* what is added to the scores, or CLPRUNE_NO_MAT: (n * heads * keys) x rows;
                         that of head h, query i and key j of sample s is element (((first + s) % n
                         * heads + h) * keys + j, i). Finite: -1e4 hides a key as -infinity would */
    float cap; /* scores q[i] . k[j] / sqrt(e) become cap * tanh(score / cap) before bias is added,
                  as in Gemma 2; 0: they stay */
    clprune_ints starts; /* (first + batch) * rows of them, or none: query i of sample n of the call
                            sees no key before element (first + n) * rows + i, which is 0 to i, and
                            not below those of earlier queries: several sequences in one sample,
                            which do not see each other. With causal; not with keys, past or bias */
    uint64_t reserved[2]; /* zeros */
} clprune_attention_desc;

/* q: (batch * rows) x (heads * e), y: (batch * queries) x (heads * e), k, v: (batch * keys) x
 * (kv_heads * e), heads side by side. Windows of one matrix serve, as the three parts of a product.
 * y must not overlap the others. Keys and values beyond a length are not read. A NaN or an infinity
 * in k or v may make all queries of its sample and head NaN, one in q its own. Errors: INVALID_SIZE
 * (desc), INVALID_ARGUMENT (rate, cap; past or starts without causal; starts with keys, past or
 * bias). */
CLPRUNE_API clprune_status clprune_attention_forward(clprune_context *context,
    const clprune_attention_desc *desc, size_t batch, clprune_mat q, clprune_mat k, clprune_mat v,
    clprune_mat y, cl_event *event);

/* The gradients dq, dk, dv of the q, k, v that are given, from dy, shaped as y:
 *     dv[j] = sum_i p[i][j] dy[i],     dp[i][j] = dy[i] . v[j]
 *     ds[i][j] = p[i][j] * (dp[i][j] - sum_l p[i][l] dp[i][l]) / sqrt(e)
 *     dq[i] = sum_j ds[i][j] k[j],     dk[j] = sum_i ds[i][j] q[i]
 * and with a cap ds also has the factor 1 - tanh(score / cap)^2. dq of rows that are no queries is
 * 0, and so are dk and dv of keys that no query sees. Outputs must not overlap inputs nor each
 * other. Sums run in a fixed order. Takes scratch of 2 * batch * heads * rows floats. */
CLPRUNE_API clprune_status clprune_attention_backward(clprune_context *context,
    const clprune_attention_desc *desc, size_t batch, clprune_mat q, clprune_mat k, clprune_mat v,
    clprune_mat dy, clprune_mat dq, clprune_mat dk, clprune_mat dv, cl_event *event);

/* The gradient of desc->bias, shaped as it: the sum of sqrt(e) * ds, without the cap's factor,
 * over the samples that have it; 0 for rows that are no queries. dbias must not overlap the others.
 * Makes p once more. Takes scratch of up to 8 such matrices, with rows rounded up. Errors:
 * INVALID_SIZE (no bias). */
CLPRUNE_API clprune_status clprune_attention_backward_bias(clprune_context *context,
    const clprune_attention_desc *desc, size_t batch, clprune_mat q, clprune_mat k, clprune_mat v,
    clprune_mat dy, clprune_mat dbias, cl_event *event);

#ifdef __cplusplus
}
#endif
#endif
