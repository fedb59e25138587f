/* Implicit product of a convolution for GPUs. conv_vector.cl has the arguments; here taps and channels are one
 * inner size, r counts the grid's pixels image by image, row by row, and w has a row for each result:
 *
 *     to[result(r)][j] = bias[j] + sum over i < inner of a[r][i] * w[j][i]
 *     a[r][t * k + c]  = from[source(r, t)][c], zeros outside of the image and for t >= taps
 *
 *           tap 0        tap 1        tap 2              inner, a multiple of DEPTH
 *         +------------+------------+------------+- ... -+---+
 *     a[r]| k channels | k channels | k channels |       | 0 |    a step takes DEPTH terms
 *         +-------|----+--|---------|------------+- ... -+---+    of one tap or of several
 *           step 0  step 1   step 2
 *
 * With SLICED the sum runs over slices of as many channels, and for each over the taps, so that taps read again what is
 * still in the first-level cache; a step then has one tap, and i still counts the columns of w.
 *
 * source(r, t) begins at pixel(r) + tap(t). The taps lie in a table; a row of the
 * tile has pixel(r), and a bit for each tap row and tap column that it reaches inside the image. With its terms
 * of the row, a work-item steps from tap to tap without divisions.
 *
 * Group I * panels + J, panels = ceil(n / TILE), computes A_TILE grid pixels from I * A_TILE on, in TILE channels
 * from J * TILE on; one dimension, because some GPUs take at most 65535 groups along the others. gemm_tile.clh
 * has the tiles, double-buffered: while one is multiplied, the next is in flight to registers.
 *
 * Local memory: 2 * (TILE_SIZE(A_TILE) + TILE_SIZE(TILE)) + TAPS + 1 vectors of 16 bytes.
 * TAPS    at least `taps`, in at most 15 rows of at most 16
 * FV      4: rows of `from` begin at multiples of 16 bytes, and k is a multiple of 4; else 1
 * SLICED  0, or with FV 4 a multiple of DEPTH that divides k
 * TV      4: so do those of `to`, and the bias, and n is one; else 1
 * w begins at a multiple of 16 bytes and so do its rows, of at least `inner` elements. */
#include "tiles/gemm_tile.clh"
#include "conv/gather_tile.clh"
#if !defined(FV) || !defined(TV) || !defined(TAPS) || !defined(SLICED)
#error "conv_tiled.cl needs FV, TV, TAPS and SLICED"
#endif
#define PARTS  (4 / FV)    /* of four terms, which lie in taps of their own */
#define NO_TAP 0x80000000u /* a bit that no pixel has */

/* A term of the sum. */
typedef struct term {
    uint tap, c;
} term;

#if SLICED
/* The step behind: the next DEPTH channels of the slice, else the next tap's, else the next slice. */
static inline term advance(term at, const uint taps)
{
    at.c += DEPTH;
    if (at.c % SLICED == 0) {
        at.tap++;
        at.c -= at.tap < taps ? SLICED : 0;
        at.tap = at.tap < taps ? at.tap : 0;
    }
    return at;
}
#else
/* The term DEPTH = by.tap * k + by.c behind. */
static inline term advance(const term at, const term by, const uint k)
{
    const uint c = at.c + by.c, beyond = c >= k ? 1 : 0;
    const term next = {at.tap + by.tap + beyond, beyond ? c - k : c};
    return next;
}
#endif

/* The source of each row of the tile under one tap: `part` of vector v. */
static inline void read_rows(float4 *read, const uint v, const uint part, const uint4 tap, const uint c,
    global const char *const *pixels, const uint *reach)
{
    const ulong offset = as_ulong(tap.xy) + (ulong)c * sizeof(float);
    UNROLLED(s, ALONG_ROWS(A_TILE)) {
        const bool inside = (tap.z & ~reach[s]) == 0;
        float4 *to = read + s * ALONG_VECTORS(A_TILE) + v;
#if FV == 4
        *to = inside ? *(global const float4 *)(pixels[s] + offset) : (float4)(0.0f);
#else
        ((float *)to)[part] = inside ? *(global const float *)(pixels[s] + offset) : 0.0f;
#endif
    }
}

#if SLICED
#define READ(step)                                                                                 \
    const uint4 tap = tap_table[next.tap];                                                         \
    UNROLLED(v, ALONG_VECTORS(A_TILE))                                                             \
        read_rows(a_read, v, 0, tap, next.c + ALONG_K(A_TILE, v), pixels, reach);                  \
    READ_WEIGHTS((ulong)next.tap * k + next.c);                                                    \
    next = advance(next, taps)
#else
#define READ(step)                                                                                 \
    UNROLLED(v, ALONG_VECTORS(A_TILE))                                                             \
        UNROLLED(part, PARTS) {                                                                    \
            term *at = next + v * PARTS + part;                                                    \
            read_rows(a_read, v, part, tap_table[min(at->tap, taps)], at->c, pixels, reach);       \
            *at = advance(*at, by, k);                                                             \
        }                                                                                          \
    READ_WEIGHTS(step)
#endif
#define READ_WEIGHTS(from)                                                                         \
    UNROLLED(s, ALONG_ROWS(TILE))                                                                  \
        UNROLLED(v, ALONG_VECTORS(TILE))                                                           \
            b_read[s * ALONG_VECTORS(TILE) + v] =                                                  \
                *(global const float4 *)(weights[s] + (from) + ALONG_K(TILE, v))

KERNEL_OF(LOCAL) conv_tiled(const ulong rows_all, const uint n, const uint k, const uint taps,
    const ulong inner, GATHER_PARAMETERS, const float beta, const uint has_bias,
    MAT_IN_RESTRICT(from), MAT_IN_RESTRICT(w), MAT_IN_RESTRICT(bias), MAT_OUT_RESTRICT(to))
{
    DECLARE_TILES
    local uint4 tap_table[TAPS + 1];
    const gather g = GATHER;
    const uint id = (uint)get_local_id(0);
    const gather_tile here = tile_of_group(rows_all, n, g);

    for (uint t = id; t < taps; t += LOCAL) {
        const uint i = t / taps_x, j = t % taps_x;
        const long offset = (long)((int)i * tap_step_y) * source_width + (int)j * tap_step_x;
        tap_table[t] = (uint4)(
            as_uint2(offset * (long)(from_ld * sizeof(float))), TAP_BITS(i, j), 0);
    }
    if (id == 0)
        tap_table[taps] = (uint4)(0, 0, NO_TAP, 0);
    local uint4 *row_table = (local uint4 *)a_tile;
    place_sources(row_table, here, g, taps, from_ld);
    global const char *pixels[ALONG_ROWS(A_TILE)];
    global const float *weights[ALONG_ROWS(TILE)];
    uint reach[ALONG_ROWS(A_TILE)];
    UNROLLED(s, ALONG_ROWS(A_TILE)) {
        const uint4 row = row_table[ALONG_ROW(A_TILE, s)];
        pixels[s] = (global const char *)(from_buffer + from_offset + as_long(row.xy));
        reach[s] = row.z;
    }
    UNROLLED(s, ALONG_ROWS(TILE))
        weights[s] = ROW(w, min(here.first_column + ALONG_ROW(TILE, s), n - 1));
#if SLICED
    term next = {0, 0}; /* to read */
#else
    const term by = {DEPTH / k, DEPTH % k};
    term next[ALONG_VECTORS(A_TILE) * PARTS]; /* to read */
    UNROLLED(v, ALONG_VECTORS(A_TILE))
        UNROLLED(part, PARTS) {
            const uint i = ALONG_K(A_TILE, v) + part;
            next[v * PARTS + part] = (term){i / k, i % k};
        }
#endif
    barrier(CLK_LOCAL_MEM_FENCE); /* the table of rows is read */
    if (inner > 0) {
        SUM_TILES(0ul, inner, DEPTH, true, true)
    }

    write_pixels(sum, (local ulong *)a_tile, here, g, beta, has_bias ? bias_buffer + bias_offset : 0,
        to_buffer + to_offset, to_ld, n);
}
