/* Dense product for CPUs: c_i = alpha * op(a_i) * op(b_i) + beta * c_i for each sample i of a batch.
 *
 *     op(a)[r][k] = a[r][k], or a[k][r] with TRANSPOSE_A       m x inner
 *     op(b)[k][j] = b[k][j], or b[j][k] with TRANSPOSE_B       inner x n
 *
 *          op(b), depth rows                c
 *        +------+-------+------+        +--------------+
 *        |      | panel |      |        | MR rows x    |   MR * V registers of 16
 *        |      |(local)|      |        | PANEL = 16 V |
 *        +------+-------+------+        +--------------+
 *
 * One work-item a group; group (g, R, i) computes the panels [g * panel_run, (g + 1) * panel_run) of the
 * rows [R * row_run, (R + 1) * row_run) of sample i; row_run <= MC, whole tiles. It takes the inner size
 * `depth` <= KC at a time, so that this part of op(a) stays in the second-level cache. For each panel it
 * packs this part of op(b) into local memory, then multiplies MR rows at a time and prefetches the next
 * panel meanwhile. A transposed a is packed too, because the stride between its columns would map them to
 * few sets of a cache. The inner sum runs in order within a depth, the depths in order. With beta = 0, c is
 * not read. bias_of 1 adds bias[j] to column j, 2 adds bias[r] to row r of each sample, 0 nothing.
 *
 * With NORM, scores[r * ceil(inner / BC) + i] = norm of block i (BC columns) of row r of a. The groups with
 * the first panel write them, just after they multiplied the row. BC divides depth, or depth is inner; a is
 * not transposed, and the batch is 1.
 *
 * With BITS and GROUP b is quantised (quantise.clh): stride_b counts its rows, and panels are dequantised
 * as they are packed.
 *
 * Local memory: KC * PANEL * 4 bytes, with TRANSPOSE_A also KC * MC * 4. MR * V accumulators. MR divides
 * MC; with TRANSPOSE_A 16 divides it too. */
#include "prelude/score.clh"
#include "prelude/quantise_panel.clh"
#include "prelude/product_tile.clh"
#if !defined(KC) || !defined(MC) || !defined(TRANSPOSE_A) || !defined(TRANSPOSE_B)
#error "gemm_vector.cl needs KC, MC, TRANSPOSE_A and TRANSPOSE_B"
#endif
#if defined(NORM) && TRANSPOSE_A
#error "gemm_vector.cl scores the rows of a that is not transposed"
#endif
#if MC % MR != 0 || (TRANSPOSE_A && MC % 16 != 0)
#error "MR must divide MC, and with TRANSPOSE_A so must 16"
#endif

/* local panel[k][j] = 0 for `depth` rows, from column `width` / 16 * 16 on; COPY_PANEL then writes those
 * below `width`. */
static inline void pad_panel(local float *panel, const uint depth, const uint width)
{
    for (uint k = 0; k < depth && width < PANEL; k++)
        for (uint j = width / 16 * 16; j < PANEL; j += 16)
            *(local float16 *)(panel + k * PANEL + j) = (float16)(0.0f);
}

/* How op(b) is read; quantise_panel.clh has the same macros for codes. B_PANEL points to element (k,
 * column), to prefetch it: n elements of a row are B_WORDS(n) words. COPY_PANEL fills local panel with
 * `depth` rows of `width` elements of op(b), from row k and `column` on. */
#ifndef BITS
#define GEMM_VECTOR        gemm_vector
#define B_IN               MAT_IN_RESTRICT(b)
#define B_PANEL(k, column) (b_buffer + (TRANSPOSE_B ? (column)*b_ld + (k) : (k)*b_ld + (column)))
#define B_WORDS(n)         (n)
#if TRANSPOSE_B
#define COPY_PANEL(k, column, depth, width)                                                        \
    copy_transposed(panel, PANEL, B_PANEL(k, column), b_ld, width, depth)
#else
#define COPY_PANEL(k, column, depth, width)                                                        \
    copy_rows(panel, PANEL, B_PANEL(k, column), b_ld, depth, width)
#endif
#endif

#ifdef NORM
#define SCORES_OUT , REGION_OUT(float, scores)
#else
#define SCORES_OUT
#endif

#if TRANSPOSE_A
#define A_SPACE      local
#define A_AT(r, k)   a[(k)*MC + (r)]
#define A_TILE(r, k) (a_block + (r))
#else
#define A_SPACE      global
#define A_AT(r, k)   a_row[r][k]
#define A_TILE(r, k) (a_buffer + (r)*a_ld + (k))
#endif

/* tile[r][j] = old * tile[r][j] + alpha * sum over depth of op(a)[r][k] * panel[k][j] + the bias, unless it
 * is NULL, for `height` <= MR rows. Rows beyond `height` repeat the last one, or are undefined with
 * TRANSPOSE_A; they are not stored. */
static inline void multiply_tile(const float alpha, const float old, const tile_bias bias,
    A_SPACE const float *a, const ulong lda, local const float *panel, const uint depth, const uint height,
    const uint width, global float *tile, const ulong ldc)
{
    float16 sum[MR][V];
    global float *to[MR];
#if !TRANSPOSE_A
    global const float *a_row[MR];
#endif
    UNROLLED(r, MR) {
        to[r] = tile + min(r, height - 1) * ldc;
#if !TRANSPOSE_A
        a_row[r] = a + min(r, height - 1) * lda;
#endif
    }
    begin_tile(sum, to);
    for (uint k = 0; k < depth; k++) {
        float16 d[V];
        FOR_VECTORS_OF_ROW(h)
            d[h] = vload16(h, panel + k * PANEL);
        FOR_TILE(MR, r, h)
            sum[r][h] = fma((float16)(A_AT(r, k)), d[h], sum[r][h]);
    }
    finish_tile(sum, to, height, width, alpha, old, bias);
}

KERNEL_OF(1) GEMM_VECTOR(const ulong m, const ulong n, const ulong inner, const uint depth,
    const ulong panel_run, const ulong row_run, const float alpha, const float beta,
    MAT_IN_RESTRICT(a), const ulong stride_a, B_IN, const ulong stride_b, MAT_OUT_RESTRICT(c),
    const ulong stride_c,
    MAT_IN_RESTRICT(bias), const uint bias_of SCORES_OUT)
{
    LOCAL_FLOATS(panel, KC * PANEL);
    const ulong first_column = get_group_id(0) * panel_run * PANEL;
    const ulong last_column = min(first_column + panel_run * PANEL, n);
    const ulong first_row = get_group_id(1) * row_run;
    const uint rows = (uint)min(row_run, m - first_row);
    const uint tiles = (rows + MR - 1) / MR;
    a_buffer += a_offset + get_group_id(2) * stride_a + first_row * (TRANSPOSE_A ? 1 : a_ld);
#ifdef BITS
    const quantised b = QUANTISED(b, get_group_id(2) * stride_b);
#else
    b_buffer += b_offset + get_group_id(2) * stride_b;
#endif
    c_buffer += c_offset + get_group_id(2) * stride_c + first_row * c_ld;
#if TRANSPOSE_A
    LOCAL_FLOATS(a_block, KC * MC);
#endif
    for (ulong k = 0; k < inner; k += depth) {
        const uint deep = (uint)min((ulong)depth, inner - k);
        const uint next_rows = ((TRANSPOSE_B ? PANEL : deep) + tiles - 1) / tiles;
#if TRANSPOSE_A
        copy_rows(a_block, MC, a_buffer + k * a_ld, a_ld, deep, rows);
#endif
        for (ulong column = first_column; column < last_column; column += PANEL) {
            const uint width = (uint)min((ulong)PANEL, last_column - column);
            pad_panel(panel, deep, width);
            COPY_PANEL(k, column, deep, width);
            global const float *next = column + PANEL < last_column
                                           ? B_PANEL(k, column + PANEL)
                                           : B_PANEL(k + depth, first_column);
            for (uint r = 0; r < rows; r += MR) {
                fetch_rows(next, b_ld, next_rows, B_WORDS(TRANSPOSE_B ? deep : PANEL));
                next += next_rows * b_ld;
                const tile_bias bias = bias_of_tile(
                    k == 0 ? bias_of : NO_BIAS, bias_buffer + bias_offset, first_row + r, column);
                multiply_tile(alpha, k == 0 ? beta : 1.0f, bias, A_TILE(r, k), a_ld, panel, deep,
                    min((uint)MR, rows - r), width, c_buffer + r * c_ld + column, c_ld);
#ifdef NORM
                for (uint i = r; i < min(r + MR, rows) && column == 0; i++)
                    score_blocks(a_buffer + i * a_ld + k, a_ld, 1, deep, 0, 0,
                        scores + scores_offset + (first_row + i) * ((inner + BC - 1) / BC) + k / BC);
#endif
            }
        }
    }
}
