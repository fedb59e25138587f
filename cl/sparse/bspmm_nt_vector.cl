/* BSpMM nt for CPUs: partial sums of dy_n * xs_n^T; the blocks of xs lie along the reduction.
 *
 *     partial[split][Q][p][i] = sum over the samples n of `split` and the columns c that row p keeps
 *                               of  dy[n * outputs + Q * PANEL + i][c] * xs_n[p][c]
 *
 * Q counts panels of PANEL = 16 * V rows of dw. One work-item a group; group (Q, split).
 *
 *       dy_n^T, CHUNK columns          xs_n, block column j         partial
 *     c +-------------------+     p -> |kept| x x x x x|        +----------------+
 *       | panel (local),    |     p'-> |kept| x x x x x|        | P rows x PANEL |  in registers
 *       | PANEL outputs wide|          +----+                   +----------------+
 *       +-------------------+
 *
 * For each block column the panel of dy is transposed into local memory. The rows that keep the column
 * are then taken P at a time, gathered into a register tile; the last ones one by one. The values of a
 * column are scattered over the sample, so those of the entry AHEAD places later are prefetched:
 * `entries` has AHEAD elements behind the last entry.
 *
 * Local memory: CHUNK * PANEL * 4 bytes. P * V accumulators. V: 1 to 8. CHUNK: 1 to BC. */
#include "prelude/panel.clh"
#include "prelude/tile16.clh"
#if !defined(P) || !defined(BC) || !defined(BR) || !defined(SEG) || !defined(CHUNK) || !defined(AHEAD)
#error "bspmm_nt_vector.cl needs P, BC, BR, SEG, CHUNK and AHEAD"
#endif

/* local panel[c][i] = dy[i][c] for `count` columns, zero beyond the last output. */
static inline void load_transposed(local float *panel, global const float *dy, const ulong ld,
    const uint count, const ulong outputs)
{
    const uint inside = (uint)min((ulong)PANEL, outputs);
    copy_transposed(panel, PANEL, dy, ld, inside, count);
    for (uint c = 0; c < count; c++)
        for (uint i = inside; i < PANEL; i++)
            panel[c * PANEL + i] = 0.0f;
}

/* Prefetches the values of a later entry. */
static inline void fetch_values(const uint2 entry, global const float *x)
{
#pragma unroll
    for (int c = 0; c < CHUNK; c += LINE)
        PREFETCH(x + (ulong)entry.y * BC + c);
}

/* COUNT rows of partial += their `width` kept values times the panel. */
#define MULTIPLY_ROWS(COUNT)                                                                       \
    do {                                                                                           \
        float16 sum[COUNT][V];                                                                     \
        FOR_TILE(COUNT, r, h)                                                                      \
            sum[r][h] = LOAD16(partial + entry[r].x * PANEL + 16 * h);                             \
        for (uint c = 0; c < width; c++) {                                                         \
            float16 d[V];                                                                          \
            FOR_VECTORS_OF_ROW(h)                                                                  \
                d[h] = vload16(h, panel + c * PANEL);                                              \
            FOR_TILE(COUNT, r, h)                                                                  \
                sum[r][h] = fma((float16)(x[(ulong)entry[r].y * BC + c]), d[h], sum[r][h]);        \
        }                                                                                          \
        FOR_TILE(COUNT, r, h)                                                                      \
            STORE16(sum[r][h], partial + entry[r].x * PANEL + 16 * h);                             \
    } while (0)

/* partial += the panel times the kept values of entries [e, end), whose rows are those of `partial`. */
static inline void multiply_entries(local const float *restrict panel, const uint width,
    global const uint2 *restrict entries, uint e, const uint end, global const float *restrict x,
    global float *restrict partial)
{
    for (; e + P <= end; e += P) {
        uint2 entry[P];
        UNROLLED(r, P) {
            entry[r] = entries[e + r];
            fetch_values(entries[e + r + AHEAD], x);
        }
        MULTIPLY_ROWS(P);
    }
    for (; e < end; e++) {
        fetch_values(entries[e + AHEAD], x);
        const uint2 entry[1] = {entries[e]};
        MULTIPLY_ROWS(1);
    }
}

KERNEL_OF(1) bspmm_nt_vector(const ulong batch, const ulong rows, const ulong cols,
    const ulong outputs, const ulong block_cols, const ulong segments, const ulong keep,
    MAT_IN_RESTRICT(dy), REGION_IN(float, values), REGION_IN(uint, starts),
    REGION_IN(uint2, entries), REGION_OUT(float, partial))
{
    LOCAL_FLOATS(panel, CHUNK * PANEL);
    const ulong first_output = get_group_id(0) * PANEL;
    const ulong split = get_group_id(1), splits = get_num_groups(1);
    values += values_offset;
    starts += starts_offset;
    entries += entries_offset;
    partial += partial_offset + (split * get_num_groups(0) + get_group_id(0)) * rows * PANEL;
    for (ulong i = 0; i < rows * V; i++)
        vstore16((float16)(0.0f), i, partial);

    for (ulong n = split * batch / splits; n < (split + 1) * batch / splits; n++) {
        global const uint2 *sample_entries = entries + n * keep * BR;
        for (ulong j = 0; j < block_cols; j++)
            for (ulong offset = 0; offset < BC && j * BC + offset < cols; offset += CHUNK) {
                const ulong column = j * BC + offset;
                const uint width =
                    (uint)min(min((ulong)CHUNK, (ulong)BC - offset), cols - column);
                global const float *x = values + n * keep * BR * BC + offset;
                load_transposed(panel, ROW(dy, n * outputs + first_output) + column, dy_ld, width,
                    outputs - first_output);
                for (ulong s = 0; s < segments; s++) {
                    global const uint *column_start =
                        starts + (n * segments + s) * (block_cols + 1) + j;
                    multiply_entries(panel, width, sample_entries, column_start[0], column_start[1], x,
                        partial + s * SEG * PANEL);
                }
            }
    }
}
