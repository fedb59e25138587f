/* Quantised matrices, from x: codes, groups = x. quantise.clh has the layout, src/ops/codes/quantise_private.h the
 * rounding, dequantise.cl the way back.
 *
 * What a code of a group is read as lies between the group's least and largest value (encode.clh). The code of x is q = (x - zero) / scale, rounded to the nearest integer, or
 * with STOCHASTIC 1 to one of its two neighbours: up where u < q - floor(q), with u in [0, 1) a hash
 * of seed, sample and position in the sample (draw.clh). There are `sample_rows` rows in a sample; row
 * 0 of x is the first row of sample `first_sample`.
 *
 * Every device computes the same codes: all sums, products and fma are of normal numbers, and the
 * reciprocal is corrected to its last bit. Work-group i takes rows [i * run, (i + 1) * run), its LOCAL
 * work-items take groups of columns in turn. No local memory. LOCAL: any >= 1. */
#include "prelude/encode.clh"
#if !defined(LOCAL)
#error "quantise.cl needs LOCAL"
#endif

/* The word of the group of columns [first, last) of row x. */
static inline uint word_of(global const float *x, const ulong first, const ulong last)
{
    float16 low = INFINITY, high = -INFINITY;
    int16 endless = 0; /* NaN too. A sum of v * 0 would do, but LLVM 18 in PoCL 6 aborts on it */
    UNROLLED(i, GROUP / 16) {
        const ulong c = first + 16 * i;
        if (c < last) {
            const float16 v = load_unit(x + c, last - c), limited = bounded(v);
            endless |= !(fabs(v) < INFINITY);
            low = limited < low ? limited : low;
            high = limited > high ? limited : high;
        }
    }
    return any(endless) ? NOT_FINITE : group_word(least16(low), -least16(-high));
}

/* The word of a whole group, which begins at x, if bounded() changes none of its values; else lanes of *changed
 * become true. */
static inline uint word_of_whole(global const float *x, int16 *changed)
{
    float16 low = INFINITY, high = -INFINITY;
    UNROLLED(i, GROUP / 16) {
        const float16 v = LOAD16(x + 16 * i);
        *changed |= bounded(v) != v;
        low = v < low ? v : low;
        high = v > high ? v : high;
    }
    return group_word(least16(low), -least16(-high));
}

/* The first code that the group of columns [first, last) of row x uses. */
static inline float first_of(global const float *x, const ulong first, const ulong last,
    const uint word, const float inverse)
{
    if (!zero_is_below(word))
        return 0.0f;
    float16 low = INFINITY;
    for (ulong c = first; c < last; c += 16) {
        const float16 v = bounded(load_unit(x + c, last - c));
        low = v < low ? v : low;
    }
    return first_code(word, least16(low), inverse);
}

/* The codes of that group. position: the index of x[0] in its sample. */
static inline void code_group(global const float *x, const ulong first, const ulong last,
    const ulong position, const uint key, const uint sample, const uint word, global uint *codes)
{
    const float zero = ZERO_OF(word), inverse = inverse_of(word);
    const float least = first_of(x, first, last, word, inverse);
    const uint16 lane = (uint16)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    UNROLLED(i, GROUP / 16) {
        const ulong c = first + 16 * i;
        if (c < last) {
            const float16 v = bounded(load_unit(x + c, last - c));
            const uint16 code =
                rounded(in_codes(v, zero, inverse, least), (uint)(position + c), key, sample);
            const uint left = (uint)min((ulong)16, last - c);
            store_unit(lane < left ? code : (uint16)(0), codes + WORDS(c));
        }
    }
}

/* The codes of a whole group, which begins at x, if bounded() changes none of its values. position: the index of its
 * first value. */
static inline void code_whole_group(global const float *x, const uint position, const uint key,
    const uint sample, const uint word, global uint *codes)
{
    const float zero = ZERO_OF(word), inverse = inverse_of(word);
    const float least = first_of(x, 0, GROUP, word, inverse);
    UNROLLED(i, GROUP / 16)
        store_unit(rounded(in_codes(LOAD16(x + 16 * i), zero, inverse, least), position + 16 * i,
                       key, sample),
            codes + WORDS(16 * i));
}

KERNEL_OF(LOCAL) quantise(const ulong run, const ulong rows, const ulong cols,
    const ulong sample_rows, const ulong first_sample, const ulong seed, MAT_IN_RESTRICT(x),
    QUANTISED_OUT(q))
{
    const ulong groups = (cols + GROUP - 1) / GROUP;
    const ulong first = get_group_id(0) * run, last = min(first + run, rows);
#if LOCAL == 1
    /* Sample and row are counted, which saves a division for each group; a row's words come first, since a
     * group's codes wait for its word. */
    ulong at = first % sample_rows, number = first_sample + first / sample_rows;
    const ulong whole = cols / GROUP; /* groups */
    uint sample = draw_sample(seed, number), key = mix(sample);
    for (ulong row = first; row < last; row++, at++) {
        global const float *from = ROW(x, row);
        global uint *words = q_groups + q_groups_offset + row * q_groups_ld;
        if (at == sample_rows) {
            at = 0;
            sample = draw_sample(seed, ++number);
            key = mix(sample);
        }
        global uint *codes = q_codes + q_codes_offset + row * q_ld;
        int16 changed = 0;
        for (ulong group = 0; group < whole; group++)
            words[group] = word_of_whole(from + group * GROUP, &changed);
        const ulong plain = any(changed) ? 0 : whole; /* groups */
        for (ulong group = plain; group < groups; group++)
            words[group] = word_of(from, group * GROUP, min((group + 1) * GROUP, cols));
        for (ulong group = 0; group < plain; group++)
            code_whole_group(from + group * GROUP, (uint)(at * cols + group * GROUP), key, sample,
                words[group], codes + WORDS(group * GROUP));
        for (ulong group = plain; group < groups; group++)
            code_group(from, group * GROUP, min((group + 1) * GROUP, cols), at * cols, key, sample,
                words[group], codes);
    }
#else
    const ulong count = (last - first) * groups;
    for (ulong i = get_local_id(0); i < count; i += LOCAL) {
        const ulong row = first + i / groups, group = i % groups;
        const ulong begin = group * GROUP, end = min(begin + GROUP, cols);
        const uint sample = draw_sample(seed, first_sample + row / sample_rows);
        const uint word = word_of(ROW(x, row), begin, end);
        (q_groups + q_groups_offset + row * q_groups_ld)[group] = word;
        code_group(ROW(x, row), begin, end, row % sample_rows * cols, mix(sample), sample, word,
            q_codes + q_codes_offset + row * q_ld);
    }
#endif
}
