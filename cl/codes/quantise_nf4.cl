/* Matrices of NF4, from x: codes, groups = x; nf4.clh has the layout.
 *
 * A group's scale is its largest magnitude, which becomes a code of 8 bits, rounded to the nearest. A code of the group is
 * the level nearest to x / that scale as it is read; of two, the lower. If a value is not finite, all of its NF4_SCALES groups
 * read as NaN. Limits of magnitudes are those of quantise.cl.
 *
 * Work-group i takes rows [i * run, (i + 1) * run), its LOCAL work-items take groups of columns in turn. BITS 8 and GROUP 256
 * are those of the scales. Local memory: NF4_SCALES floats. LOCAL: any >= 1. */
#include "prelude/encode.clh"
#if !defined(LOCAL) || BITS != 8
#error "quantise_nf4.cl needs LOCAL and BITS 8"
#endif

/* The largest magnitude of the first `left` elements of a group; NaN if one is not finite. */
static inline float peak_of(global const float *x, const ulong left)
{
    float16 most = 0.0f;
    int16 endless = 0;
    for (uint c = 0; c < NF4_GROUP && c < left; c += 16) {
        const float16 v = load_unit(x + c, left - c), size = fabs(bounded(v));
        endless |= !(fabs(v) < INFINITY);
        most = size > most ? size : most;
    }
    return any(endless) ? NAN : -least16(-most);
}

/* The word of the scales of `count` groups. */
static inline uint word_of(local const float *peaks, const uint count)
{
    float low = INFINITY, high = 0.0f;
    bool finite = true;
    for (uint i = 0; i < count; i++) {
        finite &= peaks[i] < INFINITY;
        low = peaks[i] < low ? peaks[i] : low;
        high = peaks[i] > high ? peaks[i] : high;
    }
    return finite ? group_word(low, high) : NOT_FINITE;
}

/* The code of a scale. */
static inline uint scale_code(const float peak, const uint word)
{
    const float code = (peak - ZERO_OF(word)) * inverse_of(word);
    return as_uint((code > 0.0f ? min(code, (float)LEVELS) : 0.0f) + 0x1p23f) & 0xffu;
}

/* The code of level i + 1 is that of values above their mean. */
#define ABOVE(a, b) ((t > (float16)(0.5f * (a + b))) & (int16)(1))
static inline uint16 nearest_levels(const float16 t)
{
    return as_uint16(ABOVE(NF4_0, NF4_1) + ABOVE(NF4_1, NF4_2) + ABOVE(NF4_2, NF4_3) + ABOVE(NF4_3, NF4_4) +
                     ABOVE(NF4_4, NF4_5) + ABOVE(NF4_5, NF4_6) + ABOVE(NF4_6, NF4_7) + ABOVE(NF4_7, NF4_8) +
                     ABOVE(NF4_8, NF4_9) + ABOVE(NF4_9, NF4_10) + ABOVE(NF4_10, NF4_11) +
                     ABOVE(NF4_11, NF4_12) + ABOVE(NF4_12, NF4_13) + ABOVE(NF4_13, NF4_14) +
                     ABOVE(NF4_14, NF4_15));
}

/* The codes of the first `left` elements of a group. */
static inline void code_group(
    global const float *x, const ulong left, const float scale, global uint *codes)
{
    const uint16 lane = (uint16)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    const float inverse = scale > 0.0f ? reciprocal(scale) : 0.0f;
    for (uint c = 0; c < NF4_GROUP && c < left; c += 16) {
        const uint16 code = nearest_levels(bounded(load_unit(x + c, left - c)) * inverse);
        const uint there = (uint)min((ulong)16, left - c);
        vstore2(as_uint2(join_pairs(lane < there ? code : (uint16)(0), 4)), 0, codes + c / 8);
    }
}

KERNEL_OF(LOCAL) quantise_nf4(const ulong run, const ulong rows, const ulong cols,
    MAT_IN_RESTRICT(x), QUANTISED_OUT(q))
{
    LOCAL_FLOATS(peaks, NF4_SCALES);
    const ulong groups = (cols + NF4_GROUP - 1) / NF4_GROUP;
    const ulong first = get_group_id(0) * run, last = min(first + run, rows);
    for (ulong row = first; row < last; row++)
        for (ulong group = 0; group < groups; group += NF4_SCALES) {
            const uint count = (uint)min((ulong)NF4_SCALES, groups - group);
            const ulong left = cols - group * NF4_GROUP;
            global const float *from = ROW(x, row) + group * NF4_GROUP;
            global uint *codes = q_codes + q_codes_offset + row * q_ld + group * (NF4_GROUP / 8);
            global uint *block = q_groups + q_groups_offset + row * q_groups_ld +
                                 group / NF4_SCALES * NF4_BLOCK;
            for (uint i = get_local_id(0); i < count; i += LOCAL)
                peaks[i] = peak_of(from + i * NF4_GROUP, left - i * NF4_GROUP);
            barrier(CLK_LOCAL_MEM_FENCE);
            const uint word = word_of(peaks, count);
            if (get_local_id(0) == 0)
                *block = word;
            for (uint i = 4 * get_local_id(0); i < count; i += 4 * LOCAL) {
                uint four = 0;
                for (uint k = i; k < min(i + 4, count); k++)
                    four |= scale_code(peaks[k], word) << (k % 4 * 8);
                block[1 + i / 4] = four;
            }
            for (uint i = get_local_id(0); i < count; i += LOCAL)
                code_group(from + i * NF4_GROUP, left - i * NF4_GROUP,
                    VALUES(, scale_code(peaks[i], word), word), codes + i * (NF4_GROUP / 8));
            barrier(CLK_LOCAL_MEM_FENCE);
        }
}
