/* Dense product of bf16 for CPUs: as gemm_vector.cl, with op(a) and op(b) rounded to bf16 and sums in fp32.
 *
 *        a_block: pairs of op(a)       panel: pairs of op(b)          c
 *          +-----------------+          +-------+               +--------------+
 *          | MC rows         |          |       | KC / 2        | MR rows x    |   MR * V registers of 16
 *          +-----------------+          +-------+               | PANEL = 16 V |
 *                                                               +--------------+
 *
 * A group takes the inner size `depth` <= KC at a time, an even number but for the last: it packs its rows of
 * op(a), then panel after panel of op(b). While it multiplies a tile it prefetches what it packs next, a line
 * every few pairs: of many at once, CPUs drop some. An odd end is padded with zero. The groups, the order of sums,
 * bias_of, NORM, BITS and GROUP are those of gemm_vector.cl. With A_BF16 a is of bf16, not transposed; it is copied.
 * With C_BF16 c is of bf16, inner is at most `depth`, beta 0. With AMX, 1 or 2, tiles are those of amx.clh: MR is 32,
 * and the ends of op(a) and op(b) are padded with zeros to 16 pairs.
 *
 * Local memory: (PANELS * PANEL + MC) * KC * 2 bytes. MR * V accumulators. MR divides MC, 32 divides KC; with
 * TRANSPOSE_A 16 divides MC. */
#include "prelude/score.clh"
#include "prelude/pairs.clh"
#include "prelude/product_tile.clh"
#ifndef AMX
#define AMX 0
#endif
#if AMX
#include "amx/amx.clh"
#endif
#if !defined(KC) || !defined(MC) || !defined(TRANSPOSE_A) || !defined(TRANSPOSE_B)
#error "gemm_bf16_vector.cl needs KC, MC, TRANSPOSE_A and TRANSPOSE_B"
#endif
#if MC % MR != 0 || KC % 32 != 0 || (TRANSPOSE_A && MC % 16 != 0)
#error "MR must divide MC, 32 KC, and with TRANSPOSE_A 16 MC"
#endif
#include "products/gemm_bf16_panel.clh"

#ifndef A_BF16
#define A_BF16 0
#endif
#if A_BF16
typedef ushort a_element;
#else
typedef float a_element;
#endif
#if A_BF16 && (TRANSPOSE_A || defined(NORM))
#error "a of bf16 is neither transposed nor scored"
#endif

/* Pair k of row r of the packed op(a) is a_block[r * A_ROW + k * A_STEP]; with AMX tiles of 16 x 16 pairs lie one behind
 * the other, those of 16 rows together, and A_ROW is of whole tiles. A_PLACE(r, k): where 16 pairs of a row are. */
#if AMX
#define A_ROW         (KC / 2)
#define A_PLACE(r, k) ((r) / 16 * (16 * A_ROW) + (k) / 32 * AMX_TILE + (r) % 16 * 16)
#elif TRANSPOSE_A
#define A_ROW  1
#define A_STEP MC
#else
#define A_ROW         (KC / 2)
#define A_STEP        1
#define A_PLACE(r, k) ((r) * A_ROW + (k) / 2)
#endif

static inline void pack_a(
    local uint *to, global const a_element *a, const ulong ld, const uint depth, const uint rows)
{
#if A_BF16
    for (uint r = 0; r < rows; r++, a += ld)
        for (uint k = 0; k < depth; k += 32)
            *(local uint16 *)(to + A_PLACE(r, k)) = words16(a + k, depth - k);
#elif TRANSPOSE_A && AMX
    amx_pack_columns(to, 16 * A_ROW, a, ld, depth, rows);
#elif TRANSPOSE_A
    for (uint k = 0; k < depth; k += 2, a += 2 * ld)
        for (uint r = 0; r < rows; r += 16) {
            const float16 low = first16(a + r, rows - r);
            const float16 high = first16(a + ld + r, k + 1 < depth ? rows - r : 0);
            *(local uint16 *)(to + k / 2 * MC + r) = round_pairs(low, high);
        }
#else
    for (uint r = 0; r < rows; r++, a += ld)
        for (uint k = 0; k < depth; k += 32)
            *(local uint16 *)(to + A_PLACE(r, k)) = round_first32(a + k, depth - k);
#endif
}

#ifdef NORM
#define SCORES_OUT , REGION_OUT(float, scores)
#else
#define SCORES_OUT
#endif

/* As multiply_tile of gemm_vector.cl, for `pairs` pairs. Rows from `height` on are undefined and not stored. */
static inline void multiply_tile(const float alpha, const float old, const tile_bias bias,
    local const uint *a, local const uint *panel, const uint pairs, const uint height, const uint width,
    global result *tile, const ulong ldc, lines_ahead next[2])
{
    float16 sum[MR][V];
    global result *to[MR];
    UNROLLED(r, MR)
        to[r] = tile + min(r, height - 1) * ldc;
    begin_tile(sum, to);
#if AMX
    amx_zero(sum);
    for (uint k = 0; k < pairs; k += AMX_PAIRS, a += AMX_TILE, panel += AMX_PAIRS * PANEL) {
        amx_step(sum, a, 16 * A_ROW, panel, PANEL);
        UNROLLED(i, 4) {
            PREFETCH_FAR(next[i % 2].first);
            PREFETCH_FAR(next[i % 2].second);
            next[i % 2].first += next[i % 2].step;
            next[i % 2].second += next[i % 2].step;
        }
    }
    amx_store(sum);
#else
    for (uint k = 0; k < pairs; k += AHEAD_PAIRS) {
        UNROLLED(i, 2) {
            PREFETCH_FAR(next[i].first);
            PREFETCH_FAR(next[i].second);
            next[i].first += next[i].step;
            next[i].second += next[i].step;
        }
        local const uint *end = panel + min(pairs - k, (uint)AHEAD_PAIRS) * PANEL;
        for (; panel < end; panel += PANEL, a += A_STEP) {
            uint16 d[V];
            FOR_VECTORS_OF_ROW(h)
                d[h] = *(local const uint16 *)(panel + 16 * h);
            FOR_TILE(MR, r, h)
                sum[r][h] = add_pairs(sum[r][h], (uint16)(a[r * A_ROW]), d[h]);
        }
    }
#endif
    finish_tile(sum, to, height, width, alpha, old, bias);
}

KERNEL_OF(1) GEMM_BF16(const ulong m, const ulong n, const ulong inner, const uint depth,
    const ulong panel_run, const ulong row_run, const float alpha, const float beta,
    global const a_element *restrict a_buffer, const ulong a_offset, const ulong a_ld,
    const ulong stride_a, B_IN, const ulong stride_b,
    global result *restrict c_buffer, const ulong c_offset, const ulong c_ld, const ulong stride_c,
    MAT_IN_RESTRICT(bias), const uint bias_of SCORES_OUT)
{
    LOCAL_FLOATS(panel_floats, KC / 2 * PANEL * PANELS);
    LOCAL_FLOATS(a_floats, KC / 2 * MC);
    local uint *panels = (local uint *)panel_floats, *a_block = (local uint *)a_floats;
    const ulong first_column = get_group_id(0) * panel_run * PANEL;
    const ulong last_column = min(first_column + panel_run * PANEL, n);
    const ulong first_row = get_group_id(1) * row_run;
    const uint rows = (uint)min(row_run, m - first_row);
    a_buffer += a_offset + get_group_id(2) * stride_a + first_row * (TRANSPOSE_A ? 1 : a_ld);
#ifdef BITS
    const quantised b = QUANTISED(b, get_group_id(2) * stride_b);
#else
    const b_rows b = {b_buffer + b_offset + get_group_id(2) * stride_b, b_ld};
#endif
    c_buffer += c_offset + get_group_id(2) * stride_c + first_row * c_ld;
    IF(AMX)(amx_begin();)
    const uint tiles = (rows + MR - 1) / MR;
    const uint steps = tiles * (uint)((last_column - first_column + PANEL - 1) / PANEL);
    for (ulong k = 0; k < inner; k += depth) {
        const uint deep = (uint)min((ulong)depth, inner - k);
        global const a_element *next_a = a_buffer + (k + depth) * (TRANSPOSE_A ? a_ld : 1);
        const uint next_rows = k + depth >= inner ? 0 : TRANSPOSE_A ? deep : rows;
        uint step = 0, fetched = 0; /* rows of next_a */
        pack_a(a_block, a_buffer + k * (TRANSPOSE_A ? a_ld : 1), a_ld, deep, rows);
#ifdef NORM
        for (uint r = 0; r < rows && first_column == 0; r++)
            score_blocks(a_buffer + r * a_ld + k, a_ld, 1, deep, 0, 0,
                scores + scores_offset + (first_row + r) * ((inner + BC - 1) / BC) + k / BC);
#endif
        for (ulong column = first_column; column < last_column; column += PANEL) {
            const uint width = (uint)min((ulong)PANEL, last_column - column);
            const uint place = (uint)((column - first_column) / PANEL % PANELS);
            const bool last = column + PANELS * PANEL >= last_column;
            local uint *panel = panels + place * (KC / 2 * PANEL);
            if (place == 0)
                pack_b(panels, b, k, column, deep, (uint)min((ulong)(PANELS * PANEL), last_column - column));
            for (uint r = 0; r < rows; r += MR) {
                global result *tile = c_buffer + r * c_ld + column;
                global const a_element *fetch = next_a + fetched * a_ld;
                const uint until = (uint)((ulong)next_rows * ++step / steps), count = until - fetched;
                const lines_ahead none = {(global const float *)tile, (global const float *)tile, 0};
                lines_ahead next[2] = {none,
                    panel_ahead(b, last ? k + depth : k, last ? first_column + place * PANEL : column + PANELS * PANEL, deep,
                        r / MR, tiles, none)};
                if (count > 0)
                    next[0] = (lines_ahead){(global const float *)fetch,
                        (global const float *)(fetch + (count > 1 ? a_ld : 0)), 16};
                fetched = until;
                const tile_bias bias = bias_of_tile(
                    k == 0 ? bias_of : NO_BIAS, bias_buffer + bias_offset, first_row + r, column);
                multiply_tile(alpha, k == 0 ? beta : 1.0f, bias, a_block + r * A_ROW, panel, (deep + 1) / 2,
                    min((uint)MR, rows - r), width, tile, c_ld, next);
            }
        }
    }
    IF(AMX)(amx_end();)
}
