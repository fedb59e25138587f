/* Dense product for CPUs: c_i = alpha * op(a_i) * op(b_i) + beta * c_i for each sample i of a batch.
 *
 *     op(a)[r][k] = a[r][k], or a[k][r] with TRANSPOSE_A       m x inner
 *     op(b)[k][j] = b[k][j], or b[j][k] with TRANSPOSE_B       inner x n
 *
 *          op(b), KC rows                   c
 *        +------+-------+------+        +--------------+
 *        |      | panel |      |        | MR rows x    |   MR * V registers of 16
 *        |      |(local)|      |        | PANEL = 16 V |
 *        +------+-------+------+        +--------------+
 *
 * One work-item a group; group (P, R, i) computes columns P * PANEL .. of rows R * row_range .. of
 * sample i. For each KC of the inner size it packs a panel of op(b) into local memory, then passes
 * over its rows, MR at a time. The inner sum runs in order within a KC, the KCs in order. With
 * beta = 0, c is not read.
 *
 * Local memory: KC * PANEL * 4 bytes. MR * V <= 24. KC: any >= 1, 32 KiB of panel fit most caches. */
#if !defined(V) || !defined(MR) || !defined(KC)
#error "gemm_vector.cl needs V, MR and KC"
#endif
#if !defined(TRANSPOSE_A) || !defined(TRANSPOSE_B)
#error "gemm_vector.cl needs TRANSPOSE_A and TRANSPOSE_B"
#endif
#define PANEL (16 * V)

/* local panel[k][j] = op(b)[k][j] for `depth` rows, zero beyond column `width`. */
inline void load_panel(local float *panel, global const float *b, const ulong ld,
    const uint depth, const uint width)
{
#if TRANSPOSE_B
    for (uint j = 0; j < width; j++)
        for (uint k = 0; k < depth; k++)
            panel[k * PANEL + j] = b[j * ld + k];
    for (uint j = width; j < PANEL; j++)
        for (uint k = 0; k < depth; k++)
            panel[k * PANEL + j] = 0.0f;
#else
    for (uint k = 0; k < depth; k++) {
        global const float *from = b + k * ld;
        local float *to = panel + k * PANEL;
        if (width == PANEL) {
#pragma unroll
            for (int v = 0; v < V; v++)
                vstore16(vload16(v, from), v, to);
        } else {
            for (uint j = 0; j < PANEL; j++)
                to[j] = j < width ? from[j] : 0.0f;
        }
    }
#endif
}

/* tile[r][j] += alpha * sum over depth of op(a)[r][k] * panel[k][j], for `height` <= MR rows; with
 * `first` the old tile is scaled by beta. Rows beyond `height` repeat the last one, unstored. */
inline void multiply_tile(const float alpha, const float beta, const bool first,
    global const float *a, const ulong lda, local const float *panel, const uint depth,
    const uint height, const uint width, global float *tile, const ulong ldc)
{
    global const float *a_row[MR];
    float16 sum[MR][V];
#pragma unroll
    for (uint r = 0; r < MR; r++) {
        a_row[r] = a + min(r, height - 1) * (TRANSPOSE_A ? 1 : lda);
#pragma unroll
        for (int v = 0; v < V; v++)
            sum[r][v] = (float16)(0.0f);
    }
    for (uint k = 0; k < depth; k++) {
        float16 d[V];
#pragma unroll
        for (int v = 0; v < V; v++)
            d[v] = vload16(v, panel + k * PANEL);
#pragma unroll
        for (uint r = 0; r < MR; r++) {
            const float16 value = (float16)(a_row[r][k * (TRANSPOSE_A ? lda : 1)]);
#pragma unroll
            for (int v = 0; v < V; v++)
                sum[r][v] = fma(value, d[v], sum[r][v]);
        }
    }
    const float old = first ? beta : 1.0f;
    if (width == PANEL && height == MR) {
#pragma unroll
        for (uint r = 0; r < MR; r++)
#pragma unroll
            for (int v = 0; v < V; v++) {
                global float *to = tile + r * ldc;
                const float16 scaled = alpha * sum[r][v];
                STORE16(old == 0.0f ? scaled : fma((float16)(old), vload16(v, to), scaled), to + 16 * v);
            }
        return;
    }
    float rows[MR * PANEL];
#pragma unroll
    for (uint r = 0; r < MR; r++)
#pragma unroll
        for (int v = 0; v < V; v++)
            vstore16(alpha * sum[r][v], r * V + v, rows);
    for (uint r = 0; r < height; r++)
        for (uint j = 0; j < width; j++)
            tile[r * ldc + j] = old == 0.0f ? rows[r * PANEL + j]
                                            : fma(old, tile[r * ldc + j], rows[r * PANEL + j]);
}

kernel __attribute__((reqd_work_group_size(1, 1, 1))) void gemm_vector(const ulong m,
    const ulong n, const ulong inner, const ulong row_range, const float alpha, const float beta,
    MAT_IN_RESTRICT(a), const ulong stride_a, MAT_IN_RESTRICT(b), const ulong stride_b,
    MAT_OUT_RESTRICT(c), const ulong stride_c)
{
    local float16 panel_vectors[KC * V]; /* as vectors, for their alignment */
    local float *panel = (local float *)panel_vectors;
    const ulong first_column = get_group_id(0) * PANEL;
    const uint width = (uint)min((ulong)PANEL, n - first_column);
    const ulong first_row = get_group_id(1) * row_range;
    const ulong last_row = min(first_row + row_range, m);
    a_buffer += a_offset + get_group_id(2) * stride_a;
    b_buffer += b_offset + get_group_id(2) * stride_b + first_column * (TRANSPOSE_B ? b_ld : 1);
    c_buffer += c_offset + get_group_id(2) * stride_c + first_column;
    for (ulong k = 0; k < inner; k += KC) {
        const uint depth = (uint)min((ulong)KC, inner - k);
        load_panel(panel, b_buffer + k * (TRANSPOSE_B ? 1 : b_ld), b_ld, depth, width);
        for (ulong r = first_row; r < last_row; r += MR)
            multiply_tile(alpha, beta, k == 0, a_buffer + (TRANSPOSE_A ? k * a_ld + r : r * a_ld + k),
                a_ld, panel, depth, (uint)min((ulong)MR, last_row - r), width,
                c_buffer + r * c_ld, c_ld);
    }
}
