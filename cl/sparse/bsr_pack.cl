/* values[n][k][r][c] = x[n * rows + I * BR + r][col[n][k] * BC + c], zero beyond the edges, narrowed
 * to the value type (bsr_values.clh). Sample n of x is sample n of values, scales, crow and col from
 * their offsets on.
 *
 * With `groups` groups a sample, group g takes `run` block rows from I = g % groups * run on of sample n =
 * g / groups, and copies their blocks crow[n][I] <= k < crow[n][I + 1]. On CPUs (LOCAL 1) a block's rows
 * are copied in vectors of VW; on GPUs the work-items take consecutive values. With INT8 and INT4 they
 * first take blocks in turn, for their scales. With INT4 VW is 1 where BC is odd. No local memory.
 *
 * With CENTRED each sample's row of `centre` is subtracted from x first: see centre.clh.
 * With WEIGHTED a block is scaled by max(1, thresholds[n] / its score): see weight.clh.
 *
 * bsr_unpack writes the kept blocks back to y, and zeros elsewhere. */
#include "sparse/weight.clh"
#include "prelude/centre.clh"
#if !defined(LOCAL) || !defined(BR) || !defined(BC)
#error "bsr_pack.cl needs LOCAL, BR and BC"
#endif
#define BLOCK STORED_OF(BR * BC)
#define AHEAD 4 /* block rows from a block's prefetch to its copy, on CPUs */
/* On GPUs a group takes one block row: run is 1. */
#if LOCAL > 1
#define RUN            1
#define RUN_END(first) ((first) + 1)
#else
#define RUN            run
#define RUN_END(first) min((first) + run, block_rows)
#endif

/* Copies `width` floats, times weight, to a row of a block that starts with element `first`, and pads
 * with zeros to BC. */
static inline void copy_row(global const float *from, global const float *centre, const uint width,
    const float weight, const float scale, global stored *to, const uint first)
{
    uint c = 0;
    for (; c + VW <= width; c += VW)
        STORE_CODES(NARROW(weighted_vec(LESS_VEC(LOAD(from + c), centre, c), weight), scale), to,
            first + c);
    for (; c < width; c++)
        SET_CODE(to, first + c, narrow(weighted(LESS(from[c], centre, c), weight), scale));
    for (; c < BC; c++)
        SET_CODE(to, first + c, 0);
}

#if SCALED
/* The scale of a block. Magnitudes compare as integers in the same order, with Inf and then NaN last. */
static inline ushort block_scale(global const float *x, const ulong ld, global const float *centre,
    const uint height, const uint width, const float weight)
{
    uint largest = 0;
    for (uint r = 0; r < height; r++, x += ld) {
        uint c = 0;
#if VW > 1
        JOIN(uint, VW) sizes = (JOIN(uint, VW))(0);
        for (; c + VW <= width; c += VW)
            sizes = max(sizes,
                JOIN(as_uint, VW)(weighted_vec(LESS_VEC(LOAD(x + c), centre, c), weight)) &
                    0x7fffffffu);
        uint lane[VW];
        JOIN(vstore, VW)(sizes, 0, lane);
        for (uint i = 0; i < VW; i++)
            largest = max(largest, lane[i]);
#endif
        for (; c < width; c++)
            largest = max(largest, as_uint(weighted(LESS(x[c], centre, c), weight)) & 0x7fffffffu);
    }
    return narrow_scale(as_float(largest) * (1.0f / LARGEST));
}
#endif

KERNEL_OF(LOCAL) bsr_pack(const ulong rows, const ulong cols, const ulong block_rows,
    const ulong run, const ulong keep, MAT_IN_RESTRICT(x), CENTRE_PARAMETER REGION_IN(int, crow),
    REGION_IN(int, col), REGION_OUT(stored, values)
    IF(SCALED)(COMMA const ulong scales_offset COMMA global ushort *RESTRICT_ALONE scales)
    IF(WEIGHTED)(
        COMMA const ulong block_cols COMMA REGION_IN(float, scores) COMMA REGION_IN(float, thresholds)))
{
    const ulong groups = (block_rows + RUN - 1) / RUN;
    const ulong n = get_group_id(0) / groups;
    const ulong first = get_group_id(0) % groups * RUN;
    const ulong last = RUN_END(first);
    global const float *centre_row = CENTRE_ROW(n);
    crow += crow_offset + n * (block_rows + 1);
    col += col_offset + n * keep;
    values += values_offset + n * keep * BLOCK;
    IF(SCALED)(scales += scales_offset + n * keep;)
#if WEIGHTED
    scores += scores_offset + n * block_rows * block_cols;
    const float threshold = thresholds[thresholds_offset + n];
#define WEIGHT(k) weight_of(scores[block_row * block_cols + col[k]], threshold)
#else
#define WEIGHT(k) 1.0f
#endif
    for (ulong block_row = first; block_row < last; block_row++) {
        const uint height = (uint)min((ulong)BR, rows - block_row * BR);
        global const float *row = ROW(x, n * rows + block_row * BR);
        const ulong begin = (ulong)crow[block_row], end = (ulong)crow[block_row + 1];
#if SCALED
        for (ulong k = begin + get_local_id(0); k < end; k += LOCAL) {
            const ulong c = (ulong)col[k] * BC;
            scales[k] = block_scale(row + c, x_ld, centre_row + c, height,
                (uint)min((ulong)BC, cols - c), WEIGHT(k));
        }
#if LOCAL > 1 /* llvmpipe loses addresses over the barrier of a single work-item */
        barrier(CLK_GLOBAL_MEM_FENCE);
#endif
#endif
#if LOCAL == 1
        const ulong ahead = min(block_row + AHEAD, block_rows - 1);
        for (int k = crow[ahead]; k < crow[ahead + 1]; k++)
            PREFETCH(row + (ahead - block_row) * BR * x_ld + (ulong)col[k] * BC);
        for (ulong k = begin; k < end; k++) {
            const ulong c = (ulong)col[k] * BC;
            const uint width = (uint)min((ulong)BC, cols - c);
            const float weight = WEIGHT(k), scale = SCALE(k);
            for (uint r = 0; r < BR; r++)
                copy_row(row + r * x_ld + c, centre_row + c, r < height ? width : 0, weight, scale,
                    values + k * BLOCK, r * BC);
        }
#else
        for (ulong i = begin * BLOCK + get_local_id(0); i < end * BLOCK; i += LOCAL) {
            const ulong k = i / BLOCK;
            const uint stop = min(PER_VALUE * (uint)(i % BLOCK + 1), (uint)(BR * BC));
            for (uint e = PER_VALUE * (uint)(i % BLOCK); e < stop; e++) {
                const uint r = e / BC;
                const ulong c = (ulong)col[k] * BC + e % BC;
                const float value =
                    r < height && c < cols
                        ? weighted(LESS(row[r * x_ld + c], centre_row, c), WEIGHT(k))
                        : 0.0f;
                SET_CODE(values + k * BLOCK, e, narrow(value, SCALE(k)));
            }
        }
#endif
    }
}

KERNEL_OF(LOCAL) bsr_unpack(const ulong rows, const ulong cols, const ulong block_rows,
    const ulong run, const ulong keep, REGION_IN(stored, values),
    IF(SCALED)(REGION_IN(ushort, scales) COMMA) REGION_IN(int, crow), REGION_IN(int, col),
    global float *RESTRICT_ALONE y_buffer, const ulong y_offset, const ulong y_ld)
{
    const ulong groups = (block_rows + RUN - 1) / RUN;
    const ulong n = get_group_id(0) / groups;
    const ulong first = get_group_id(0) % groups * RUN;
    const ulong last = RUN_END(first);
    crow += crow_offset + n * (block_rows + 1);
    col += col_offset + n * keep;
    values += values_offset + n * keep * BLOCK;
    IF(SCALED)(scales += scales_offset + n * keep;)
    for (ulong block_row = first; block_row < last; block_row++) {
        const ulong height = min((ulong)BR, rows - block_row * BR);
        const ulong begin = (ulong)crow[block_row], end = (ulong)crow[block_row + 1];
        global float *row = ROW(y, n * rows + block_row * BR);
#if LOCAL == 1
        for (ulong r = 0; r < height; r++, row += y_ld) {
            ulong next = 0;
            for (ulong k = begin; k < end; k++) {
                const ulong c = (ulong)col[k] * BC, stop = min(c + BC, cols);
                global const stored *from = values + k * BLOCK;
                ulong e = r * BC;
                const float scale = SCALE(k);
                for (; next < c; next++)
                    row[next] = 0.0f;
                for (; next + VW <= stop; next += VW, e += VW)
                    STORE(WIDEN(LOAD_CODES(from, e), scale), row + next);
                for (; next < stop; next++, e++)
                    row[next] = widen(CODE_AT(from, e), scale);
            }
            for (; next < cols; next++)
                row[next] = 0.0f;
        }
#else
        for (ulong e = get_local_id(0); e < height * cols; e += LOCAL)
            row[e / cols * y_ld + e % cols] = 0.0f;
        barrier(CLK_GLOBAL_MEM_FENCE);
        for (ulong e = begin * BR * BC + get_local_id(0); e < end * BR * BC; e += LOCAL) {
            const ulong k = e / (BR * BC);
            const uint i = (uint)(e % (BR * BC)), r = i / BC;
            const ulong c = (ulong)col[k] * BC + i % BC;
            if (r < height && c < cols)
                row[r * y_ld + c] = widen(CODE_AT(values + k * BLOCK, i), SCALE(k));
        }
#endif
    }
}
