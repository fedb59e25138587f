/* Implicit product of a convolution for GPUs. conv_vector.cl has the formula and the arguments; here w is
 * not packed, and r counts the grid's pixels image by image, row by row.
 *
 * Group I * panels + J, panels = ceil(n / TILE), computes A_TILE grid pixels from I * A_TILE on, in TILE channels
 * from J * TILE on; one dimension, because some GPUs take at most 65535 groups along the others. gemm_tile.clh
 * has the tiles. The sum runs over the taps, and for each over the channels, DEPTH at a time. Both tiles are
 * double-buffered: while one is multiplied, the next is in flight to registers. Pixels outside of the image
 * and channels beyond the last are zeros.
 *
 * Local memory: 2 * (TILE_SIZE(A_TILE) + TILE_SIZE(TILE)) * 16 bytes. FV, WV 4: rows of `from` or of the
 * weights of a tap begin at multiples of 16 bytes and have a multiple of 4 elements; else 1. BACK: 0 or 1. */
#include "conv/gather.clh"
#include "tiles/gemm_tile.clh"
#if !defined(BACK) || !defined(FV) || !defined(WV)
#error "conv_tiled.cl needs BACK, FV and WV"
#endif

/* A step of the sum: DEPTH channels of a tap. */
typedef struct place {
    uint y, x, c; /* tap, first channel */
} place;

static inline void advance(place *at, const uint k, const uint taps_x)
{
    at->c += DEPTH;
    if (at->c < k)
        return;
    at->c = 0;
    if (++at->x == taps_x) {
        at->x = 0;
        at->y++;
    }
}

/* The source pixels of this work-item's rows. */
#define READ_A(at)                                                                                 \
    UNROLLED(s, ALONG_ROWS(A_TILE)) {                                                              \
        const uint i = (uint)(top[s] + (int)at.y * tap_step_y);                                    \
        const uint j = (uint)(left[s] + (int)at.x * tap_step_x);                                   \
        const bool inside = i < source_height && j < source_width;                                 \
        const ulong pixel =                                                                        \
            (image[s] * source_height + (inside ? i : 0)) * source_width + (inside ? j : 0);       \
        UNROLLED(v, ALONG_VECTORS(A_TILE)) {                                                       \
            const uint c = at.c + ALONG_K(A_TILE, v);                                              \
            a_read[s * ALONG_VECTORS(A_TILE) + v] =                                                \
                read_four(ROW(from, pixel) + c, inside ? LEFT(k, c) : 0, FV);                      \
        }                                                                                          \
    }

#define TAP(at)                                                                                    \
    ((weight_y + at.y * weight_step_y) * kernel_width + weight_x + at.x * weight_step_x)
#if BACK
#define READ_B(at)                                                                                 \
    UNROLLED(i, READS(TILE)) {                                                                     \
        const uint c = at.c + ACROSS_K(TILE, i), column = min(first_column + ACROSS_X(TILE), n);   \
        b_read[i] = read_four(                                                                     \
            ROW(w, c) + (ulong)TAP(at) * n + column, c < k ? n - column : 0, WV);                  \
    }
#else
#define READ_B(at)                                                                                 \
    UNROLLED(i, ALONG_ROWS(TILE))                                                                  \
        UNROLLED(v, ALONG_VECTORS(TILE)) {                                                         \
            const uint c = at.c + ALONG_K(TILE, v);                                                \
            const uint column = min(first_column + ALONG_ROW(TILE, i), n - 1);                     \
            b_read[i * ALONG_VECTORS(TILE) + v] =                                                  \
                read_four(ROW(w, column) + (ulong)TAP(at) * k + c, LEFT(k, c), WV);                \
        }
#endif
#define READ(step)                                                                                 \
    do {                                                                                           \
        READ_A(next);                                                                              \
        READ_B(next);                                                                              \
        advance(&next, k, taps_x);                                                              \
    } while (0)
KERNEL_OF(LOCAL) conv_tiled(const ulong rows_all, const uint n, const uint k, const uint taps,
    GATHER_PARAMETERS, const uint kernel_width, const uint weight_y, const uint weight_x,
    const uint weight_step_y, const uint weight_step_x, const float beta, const uint has_bias,
    MAT_IN_RESTRICT(from), MAT_IN_RESTRICT(w), MAT_IN_RESTRICT(bias), MAT_OUT_RESTRICT(to))
{
    DECLARE_TILES
    const uint group = (uint)get_group_id(0), panels = (n + TILE - 1) / TILE;
    const ulong first_row = (ulong)(group / panels) * A_TILE;
    const uint first_column = group % panels * TILE;
    ulong image[ALONG_ROWS(A_TILE)];
    int top[ALONG_ROWS(A_TILE)], left[ALONG_ROWS(A_TILE)];
    UNROLLED(i, ALONG_ROWS(A_TILE)) {
        const ulong mine = min(first_row + ALONG_ROW(A_TILE, i), rows_all - 1);
        image[i] = mine / grid_width / grid_height;
        top[i] = (int)((uint)(mine / grid_width % grid_height) * step_y) + first_y;
        left[i] = (int)((uint)(mine % grid_width) * step_x) + first_x;
    }
    const gather g = GATHER;
    place next = {0, 0, 0}; /* to read */
    const ulong steps = (ulong)taps * ((k + DEPTH - 1) / DEPTH);
    if (steps > 0) {
        SUM_TILES(0ul, steps, 1, true, !BACK)
    }
    UNROLLED(r, RESULTS) {
        const ulong row = first_row + RESULT_ROW(r);
        if (row >= rows_all)
            continue;
        const uint u = (uint)(row / grid_width % grid_height), v = (uint)(row % grid_width);
        global float *out = ROW(to, result_pixel(g, row / grid_width / grid_height, u, v));
        UNROLLED(h, RESULT_PARTS) {
            const uint column = first_column + RESULT_COLUMN(h);
            float part[RESULT_WIDTH];
            JOIN(vstore, RESULT_WIDTH)(get_result(sum, r, h), 0, part);
            for (uint i = 0; i < RESULT_WIDTH && column + i < n; i++) {
                if (has_bias)
                    part[i] += AT(bias, 0, column + i);
                if (beta != 0.0f)
                    part[i] = fma(beta, out[column + i], part[i]);
                out[column + i] = part[i];
            }
        }
    }
}
