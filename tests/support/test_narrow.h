/* Matrices of bf16 for tests. */
#ifndef TEST_NARROW_H
#define TEST_NARROW_H

#include <string.h>

#include "support/test_layer.h"

enum { GUARD = 7 }; /* elements around a matrix of bf16, which stay as they are */
static const uint16_t untouched = 0xbeef;

/* To the nearest, ties to even; subnormal numbers become 0. */
static inline uint16_t round_bf16(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    if ((bits & 0x7fffffffu) < 0x00800000u)
        return (uint16_t)(bits >> 16 & 0x8000u);
    return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

static inline float widen(uint16_t x)
{
    const uint32_t bits = (uint32_t)x << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* A matrix of bf16 with ld = cols + gap, in a buffer of its own. */
typedef struct narrow {
    clprune_mat mat;
    size_t elements;
} narrow;

static inline narrow narrow_make(size_t rows, size_t cols, size_t gap, const float *values)
{
    const size_t ld = cols + gap, elements = (rows * ld + 2 * GUARD + 1) / 2 * 2;
    uint16_t *host = test_alloc(elements * sizeof *host);
    for (size_t i = 0; i < elements; i++)
        host[i] = untouched;
    for (size_t i = 0; values != NULL && i < rows * cols; i++)
        host[GUARD + 1 + i / cols * ld + i % cols] = round_bf16(values[i]);
    float *words = test_alloc(elements / 2 * sizeof *words);
    memcpy(words, host, elements * sizeof *host);
    const clprune_mat all = test_new_mat(test_context(), 1, elements / 2);
    TEST_OK(clprune_mat_write(test_context(), all, words));
    return (narrow){{all.buffer, GUARD + 1, rows, cols, ld, CLPRUNE_VALUES_BF16}, elements};
}

/* Fails unless `n` has the rounded values of `want`, and nothing around them was written. */
static inline void check_rounded(const char *what, const narrow *n, const test_mat *want)
{
    const float *floats = test_mat_get(want, what);
    float *words = test_alloc(n->elements / 2 * sizeof *words);
    TEST_OK(
        clprune_mat_read(test_context(), clprune_mat_of(n->mat.buffer, 1, n->elements / 2), words));
    const uint16_t *got = (const uint16_t *)words;
    for (size_t i = 0; i < n->elements; i++) {
        const size_t at = i - n->mat.offset, row = at / n->mat.ld, col = at % n->mat.ld;
        const bool inside = i >= n->mat.offset && row < n->mat.rows && col < n->mat.cols;
        const uint16_t expected = inside ? round_bf16(floats[row * n->mat.cols + col]) : untouched;
        if (got[i] != expected)
            fail_msg("%s: element %zu (row %zu, column %zu) is %04x, expected %04x", what, i, row,
                col, got[i], expected);
    }
}

/* `count` values, some of them subnormal, halfway between two bf16, or 0. */
static inline float *values_of(uint64_t seed, size_t count)
{
    float *x = test_new_normal(seed, count);
    for (size_t i = 0; i < count; i += 5)
        x[i] = i % 3 == 0 ? 0x1p-130f : i % 3 == 1 ? 1 + 0x1p-8f : 0;
    return x;
}

static inline float *rounded(float *x, size_t count)
{
    for (size_t i = 0; i < count; i++)
        x[i] = widen(round_bf16(x[i]));
    return x;
}

#endif
