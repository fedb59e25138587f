/* Shapes of attention for its tests: sizes of operands, desc, and bounds on tensor cores. */
#ifndef TESTS_TOKENS_ATTENTION_SHAPE_H
#define TESTS_TOKENS_ATTENTION_SHAPE_H

#include "clprune/attention.h"
#include "ref/attention_ref.h"
#include "ref/gemm_ref.h"
#include "support/test_layer.h"

typedef struct shape {
    attention_ref_shape ref;
    size_t gap;
} shape;

LAYER_SIZE(size_q, shape, s->ref.batch * s->ref.rows, s->ref.heads * s->ref.cols, s->gap)
LAYER_SIZE(size_y, shape, s->ref.batch *(s->ref.queries > 0 ? s->ref.queries : s->ref.rows),
    s->ref.heads * s->ref.cols, s->gap)
LAYER_SIZE(size_k, shape, s->ref.batch *(s->ref.keys > 0 ? s->ref.keys : s->ref.rows),
    s->ref.kv_heads * s->ref.cols, s->gap)

/* With lengths and starts in buffers of the test. */
static inline clprune_attention_desc desc_of(const shape *s)
{
    const size_t bytes = (s->ref.first + s->ref.batch) * sizeof(int32_t);
    const test_buf lengths =
        s->ref.lengths != NULL ? test_buf_make(bytes, s->ref.lengths) : (test_buf){.whole = NULL};
    const test_buf starts = s->ref.starts != NULL
                                ? test_buf_make(bytes * s->ref.rows, s->ref.starts)
                                : (test_buf){.whole = NULL};
    return (clprune_attention_desc){.rows = s->ref.rows,
        .heads = s->ref.heads,
        .kv_heads = s->ref.kv_heads == s->ref.heads ? 0 : s->ref.kv_heads,
        .cols = s->ref.cols,
        .queries = s->ref.queries,
        .rate = (float)s->ref.rate,
        .cap = (float)s->ref.cap,
        .seed = s->ref.seed,
        .first = s->ref.first,
        .lengths = test_buf_ints(&lengths),
        .starts = test_buf_ints(&starts),
        .causal = s->ref.causal,
        .keys = s->ref.keys,
        .past = s->ref.past};
}

/* Whether the context under test rounds operands: in vector kernels all, */
static inline bool is_paired(void)
{
    return gemm_ref_operand != NULL &&
           clprune_context_kernels(test_context()) == CLPRUNE_KERNELS_VECTOR;
}

/* on tensor cores those of some heads. */
static inline bool is_rounded(const shape *s)
{
    return is_paired() || (gemm_ref_operand != NULL && s->ref.cols % 16 == 0);
}

/* Rounded operands change as much more than fp32's as their rounding is coarser; the bounds are
 * generous. */
static inline void loosen(const layer_data *d)
{
    if (!is_rounded(d->shape))
        return;
    const double unit = gemm_ref_operand == gemm_ref_bf16 ? 0x1p-9 : 0x1p-12;
    for (size_t i = 0; i < d->count; i++)
        d->bound[i] *= unit / 0x1p-24 / 16;
}

#endif
