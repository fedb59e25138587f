/* Quantised matrices of rotated rows: codes, groups = x R. rotate.clh has R, whose blocks lie in groups; quantise.cl
 * says how the rotated values are coded, and the sizes.
 *
 * Every device computes the same codes: magnitudes above MOST_ROTATED count as that, so that no sum overflows, and
 * those below LEAST as 0, before the rotation and after it. A group with an Inf or a NaN in x reads as NaN.
 *
 * Work-group i takes rows [i * run, (i + 1) * run), its LOCAL work-items take groups of columns in turn. No local
 * memory. LOCAL: any >= 1. BLOCK: divides GROUP. */
#include "prelude/encode.clh"
#include "prelude/rotate.clh"
#ifndef LOCAL
#error "quantise_rotated.cl needs LOCAL"
#endif
#define GROUP_UNITS  (GROUP / 16)
#define MOST_ROTATED 0x1p118f

/* 16 values as they are rotated. Lanes of *endless become true for those that are not finite. */
static inline float16 to_rotate(float16 x, int16 *endless)
{
    *endless |= !(fabs(x) < INFINITY);
    x = fabs(x) < LEAST ? (float16)(0.0f) : x;
    x = x < MOST_ROTATED ? x : (float16)(MOST_ROTATED);
    return x > -MOST_ROTATED ? x : (float16)(-MOST_ROTATED);
}

/* The word of a group of finite values from `low` to `high`, whose codes reach all of them: zero is `low` rounded down,
 * and the span is rounded up. What is read is rotated back, so that a range of it would bound nothing. */
static inline uint covering_word(const float low, const float high)
{
    const uint bits = as_uint(low), zero = (low < 0.0f ? bits + 0xffffu : bits) & 0xffff0000u;
    const uint span = (as_uint(high - as_float(zero)) + 0x7fffu) & 0xffff8000u;
    return as_float(span) * ONE_STEP < LEAST_SCALE ? zero : zero | span >> 15;
}

/* The word and the codes of a whole group, which begins at x. position: the index of its first value. */
static inline uint code_whole(global const float *x, const uint position, const uint key,
    const uint sample, global uint *codes)
{
    float16 v[GROUP_UNITS], low = INFINITY, high = -INFINITY;
    int16 endless = 0;
    UNROLLED(i, GROUP_UNITS)
        v[i] = to_rotate(LOAD16(x + 16 * i), &endless);
    UNROLLED(i, GROUP / BLOCK)
        ROTATE_BLOCK(v + i * BLOCK_UNITS, BLOCK_UNITS, false);
    UNROLLED(i, GROUP_UNITS) {
        v[i] = bounded(v[i]);
        low = v[i] < low ? v[i] : low;
        high = v[i] > high ? v[i] : high;
    }
    const uint word = any(endless) ? NOT_FINITE : covering_word(least16(low), -least16(-high));
    const float zero = ZERO_OF(word), inverse = inverse_of(word);
    UNROLLED(i, GROUP_UNITS)
        store_unit(rounded(in_codes(v[i], zero, inverse, 0.0f), position + 16 * i, key, sample),
            codes + WORDS(16 * i));
    return word;
}

/* Twice through a group of `count` < GROUP columns: `code` false for its least and largest value, true for its codes
 * under them. */
typedef struct rest {
    global const float *x;
    global uint *codes;
    float16 low, high;
    int16 endless;
    float zero, inverse;
    uint count, position, key, sample;
} rest;

/* Values or codes of columns at .. of the group, a vector that is rotated or the last count % 16 columns. */
static inline void add_vector(rest *r, const bool code, float16 v, const uint at)
{
    const uint16 lane = (uint16)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    v = bounded(v);
    if (!code) {
        r->low = v < r->low ? v : r->low;
        r->high = v > r->high ? v : r->high;
        return;
    }
    const uint16 coded = rounded(
        in_codes(v, r->zero, r->inverse, 0.0f), r->position + at, r->key, r->sample);
    store_unit(at + lane < r->count ? coded : (uint16)(0), r->codes + WORDS(at));
}

#define ADD_BLOCK(c, units)                                                                        \
    do {                                                                                           \
        float16 v[units];                                                                          \
        UNROLLED(i, units)                                                                         \
            v[i] = to_rotate(LOAD16(r->x + (c) + 16 * i), &r->endless);                            \
        ROTATE_BLOCK(v, units, false);                                                             \
        UNROLLED(i, units)                                                                         \
            add_vector(r, code, v[i], (c) + 16 * i);                                               \
    } while (0)

static inline void add_blocks(rest *r, const bool code)
{
    const uint whole = r->count / BLOCK * BLOCK, last = r->count / 16 * 16;
    for (uint c = 0; GROUP > BLOCK && c < whole; c += BLOCK)
        ADD_BLOCK(c, BLOCK_UNITS);
    EACH_NARROWER(whole, r->count - whole, ADD_BLOCK)
    if (last < r->count)
        add_vector(r, code, to_rotate(load_part(r->x + last, r->count - last, r->x[last]), &r->endless), last);
}

/* As code_whole, of a group of `count` < GROUP columns. */
static inline uint code_rest(global const float *x, const uint count, const uint position,
    const uint key, const uint sample, global uint *codes)
{
    rest r = {x, codes, INFINITY, -INFINITY, 0, 0, 0, count, position, key, sample};
    add_blocks(&r, false);
    const uint word = any(r.endless) ? NOT_FINITE : covering_word(least16(r.low), -least16(-r.high));
    r.zero = ZERO_OF(word), r.inverse = inverse_of(word);
    add_blocks(&r, true);
    return word;
}

KERNEL_OF(LOCAL) quantise_rotated(const ulong run, const ulong rows, const ulong cols,
    const ulong sample_rows, const ulong first_sample, const ulong seed, MAT_IN_RESTRICT(x),
    QUANTISED_OUT(q))
{
    const ulong groups = (cols + GROUP - 1) / GROUP;
    const ulong first = get_group_id(0) * run, last = min(first + run, rows);
    const ulong count = first < last ? (last - first) * groups : 0;
    for (ulong i = get_local_id(0); i < count; i += LOCAL) {
        const ulong row = first + i / groups, group = i % groups, c = group * GROUP;
        const uint sample = draw_sample(seed, first_sample + row / sample_rows);
        const uint position = (uint)(row % sample_rows * cols + c), key = mix(sample);
        global const float *from = ROW(x, row) + c;
        global uint *codes = q_codes + q_codes_offset + row * q_ld + WORDS(c);
        (q_groups + q_groups_offset + row * q_groups_ld)[group] =
            cols - c >= GROUP ? code_whole(from, position, key, sample, codes)
                              : code_rest(from, (uint)(cols - c), position, key, sample, codes);
    }
}
