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

static inline uint16 codes_of(const float16 v, const float zero, const float inverse,
    const uint position, const uint key, const uint sample)
{
    float16 q = (v - zero) * inverse;
    return rounded(q < (float)LEVELS ? q : (float16)((float)LEVELS), position, key, sample);
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
        rotate_block(v + i * BLOCK_UNITS, false);
    UNROLLED(i, GROUP_UNITS) {
        v[i] = bounded(v[i]);
        low = v[i] < low ? v[i] : low;
        high = v[i] > high ? v[i] : high;
    }
    const uint word = any(endless) ? 0x7fc0u : group_word(least16(low), -least16(-high));
    const float zero = ZERO_OF(word), inverse = inverse_of(word);
    UNROLLED(i, GROUP_UNITS)
        store_unit(codes_of(v[i], zero, inverse, position + 16 * i, key, sample), codes + WORDS(16 * i));
    return word;
}

/* The same of a group of `count` < GROUP columns. */
static inline uint code_rest(global const float *x, const uint count, const uint position,
    const uint key, const uint sample, global uint *codes)
{
    float16 v[GROUP_UNITS], low = INFINITY, high = -INFINITY;
    int16 endless = 0;
    const uint whole = count / BLOCK * BLOCK, units = (count + 15) / 16;
    for (uint i = 0; i < units; i++)
        v[i] = to_rotate(load_part(x + 16 * i, count - 16 * i, x[16 * i]), &endless);
    for (uint c = 0; c < whole; c += BLOCK)
        rotate_block(v + c / 16, false);
    rotate_rest(v + whole / 16, count - whole, false);
    for (uint i = 0; i < units; i++) {
        v[i] = bounded(v[i]);
        low = v[i] < low ? v[i] : low;
        high = v[i] > high ? v[i] : high;
    }
    const uint word = any(endless) ? 0x7fc0u : group_word(least16(low), -least16(-high));
    const float zero = ZERO_OF(word), inverse = inverse_of(word);
    const uint16 lane = (uint16)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    for (uint i = 0; i < units; i++) {
        const uint16 code = codes_of(v[i], zero, inverse, position + 16 * i, key, sample);
        store_unit(16 * i + lane < count ? code : (uint16)(0), codes + WORDS(16 * i));
    }
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
