/* Implicit product of a convolution for GPUs. conv_vector.cl has the formula and the arguments; here w is
 * not packed, and r counts the grid's pixels image by image, row by row.
 *
 * Group I * panels + J, panels = ceil(n / TILE), computes A_TILE grid pixels from I * A_TILE on, in TILE channels
 * from J * TILE on; one dimension, because some GPUs take at most 65535 groups along the others. gemm_tile.clh
 * has the tiles. The sum runs over the taps, and for each over the channels, DEPTH at a time. Both tiles are
 * double-buffered: while one is multiplied, the next is in flight to registers. Pixels outside of the image
 * and channels beyond the last are zeros.
 *
 * Local memory: 2 * DEPTH * (A_TILE + TILE) * 4 bytes. FV, WV 4: rows of `from` or of the weights of a tap begin
 * at multiples of 16 bytes and have a multiple of 4 elements; else 1. BACK: 0 or 1. */
#include "conv/gather.clh"
#include "prelude/gemm_tile.clh"
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

/* Channels of the source pixel of this work-item's row. */
#define READ_A(at)                                                                                 \
    do {                                                                                           \
        const uint i = (uint)(top + (int)at.y * tap_step_y);                                       \
        const uint j = (uint)(left + (int)at.x * tap_step_x);                                      \
        const bool inside = i < source_height && j < source_width;                                 \
        const ulong pixel = (image * source_height + (inside ? i : 0)) * source_width + (inside ? j : 0);\
        const uint c = at.c + ALONG(A_TILE);                                                       \
        global const float *row = ROW(from, pixel) + c;                                            \
        a_read[0] = read_four(row, inside && (A_TILE == LOCAL || k > c) ? k - c : 0, FV);          \
        if (READS_OF(A_TILE) == 2)                                                                 \
            a_read[1] = read_four(row + 4, inside && k > c + 4 ? k - c - 4 : 0, FV);               \
    } while (0)

#define TAP(at)                                                                                    \
    ((weight_y + at.y * weight_step_y) * kernel_width + weight_x + at.x * weight_step_x)
#if BACK
#define READ_B(at)                                                                                 \
    for (uint i = 0; i < READS_OF(TILE); i++) {                                                    \
        const uint c = at.c + DOWN(TILE) + 4 * i;                                                  \
        const uint column = min(first_column + (uint)ACROSS(TILE), n);                             \
        b_read[i] = read_four(                                                                     \
            ROW(w, c) + (ulong)TAP(at) * n + column, c < k ? n - column : 0, WV);                  \
    }
#else
#define READ_B(at)                                                                                 \
    do {                                                                                           \
        const uint column = min(first_column + (uint)get_local_id(0), n - 1);                      \
        global const float *row = ROW(w, column) + (ulong)TAP(at) * k + at.c;                      \
        b_read[0] = read_four(row, k - at.c, WV);                                                  \
        b_read[1] = read_four(row + 4, k > at.c + 4 ? k - at.c - 4 : 0, WV);                       \
    } while (0)
#endif
#define READ(step)                                                                                 \
    do {                                                                                           \
        READ_A(next);                                                                           \
        READ_B(next);                                                                           \
        advance(&next, k, taps_x);                                                              \
    } while (0)
#define WRITE(t)                                                                                   \
    write_part(true, a_tile + (t)*SIZE_OF(A_TILE), A_TILE, a_read),                                \
        write_part(!BACK, b_tile + (t)*SIZE_OF(TILE), TILE, b_read)

KERNEL_OF(LOCAL) conv_tiled(const ulong rows_all, const uint n, const uint k, const uint taps,
    GATHER_PARAMETERS, const uint kernel_width, const uint weight_y, const uint weight_x,
    const uint weight_step_y, const uint weight_step_x, const float beta, const uint has_bias,
    MAT_IN_RESTRICT(from), MAT_IN_RESTRICT(w), MAT_IN_RESTRICT(bias), MAT_OUT_RESTRICT(to))
{
    DECLARE_TILES
    const uint group = (uint)get_group_id(0), panels = (n + TILE - 1) / TILE;
    const ulong first_row = (ulong)(group / panels) * A_TILE;
    const uint first_column = group % panels * TILE;
    const uint y = get_local_id(0) / 8, x = get_local_id(0) % 8;
    const ulong mine = min(first_row + MINE(A_TILE), rows_all - 1);
    const ulong image = mine / grid_width / grid_height;
    const int top = (int)((uint)(mine / grid_width % grid_height) * step_y) + first_y;
    const int left = (int)((uint)(mine % grid_width) * step_x) + first_x;
    const gather g = GATHER;
    place next = {0, 0, 0}; /* to read */
    const ulong steps = (ulong)taps * ((k + DEPTH - 1) / DEPTH);
    if (steps > 0) {
        SUM_TILES(0ul, steps, 1, y, x)
    }
    UNROLLED(r, ROWS) {
        const ulong row = first_row + r / 4 * 32 + 4 * y + r % 4;
        if (row >= rows_all)
            continue;
        const uint u = (uint)(row / grid_width % grid_height), v = (uint)(row % grid_width);
        global float *out = ROW(to, result_pixel(g, row / grid_width / grid_height, u, v));
        UNROLLED(h, 2) {
            const uint column = first_column + 32 * h + 4 * x;
            float part[4];
            vstore4(sum[r][h], 0, part);
            for (uint i = 0; i < 4 && column + i < n; i++) {
                if (has_bias)
                    part[i] += AT(bias, 0, column + i);
                if (beta != 0.0f)
                    part[i] = fma(beta, out[column + i], part[i]);
                out[column + i] = part[i];
            }
        }
    }
}
