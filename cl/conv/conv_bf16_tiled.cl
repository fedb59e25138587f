/* Implicit product of a convolution on tensor cores, of operands that lie in memory as bf16: conv_tiled.cl has its arguments,
 * taps and groups. The inner size is taps * k; its sum runs in order, in fp32. bf16_tile.clh has the tiles, and those of
 * a are gathered:
 *
 *     a[r][t * k + c] = from[source(r, t)][c], in chunks of 8 channels, which lie in one tap each
 *
 * A work-item copies a chunk of two rows, and steps from tap to tap without divisions: behind the last chunk of a tap the
 * next one begins `across` elements on, behind those of a row of taps `down`.
 *
 * k is a multiple of 8, with FEW 0 at least DEPTH; rows of from and w begin at multiples of 16 bytes. At most 15 rows of at
 * most 16 taps. Local memory: 48 KiB, or 36 with M_TILES 2. */
#include "tiles/bf16_tile.clh"
#include "conv/gather_tile.clh"
#if !defined(TV) || !defined(FEW)
#error "conv_bf16_tiled.cl needs TV and FEW"
#endif
#define COPY_TILES(whole, stage)                                                                   \
    copy_sources(&in_flight, &a, tiles + (stage)*STAGE, k, taps_x, across, down);                  \
    copy_part(true, whole, TILE, &in_flight, &b, tiles + (stage)*STAGE + B_AT)

/* What a work-item copies of `from`. */
typedef struct sources {
    global const ushort *from[2]; /* of two rows, the pixel under the first tap */
    uint reach[2];
    long at;        /* from there to the chunk */
    uint c, tap;    /* its channel, and a bit of its tap's row and one of the column */
    uint to;        /* its place in a tile */
    int left;       /* of the inner size */
} sources;

/* `c` becomes a channel of its tap. */
static inline void find_tap(sources *s, const uint k, const uint taps_x, const long across, const long down)
{
#if FEW
    while (s->c >= k) {
#else
    if (s->c >= k) {
#endif
        const uint column = s->tap & 0xffffu;
        const bool last = column >> (taps_x - 1) != 0;
        s->tap = last ? (s->tap & 0xffff0000u) << 1 | 1 : s->tap + column;
        s->at += last ? down : across;
        s->c -= k;
    }
}

INLINED void copy_sources(copies *c, sources *s, local uint4 *tile, const uint k, const uint taps_x,
    const long across, const long down)
{
    UNROLLED(i, 2)
        copy_async(c, tile + s->to + i * LOCAL, s->from[i] + s->at, s->left > 0 && (s->tap & ~s->reach[i]) == 0);
    s->left -= DEPTH;
    s->at += DEPTH;
    s->c += DEPTH;
    find_tap(s, k, taps_x, across, down);
}

KERNEL_OF(LOCAL) conv_bf16_tiled(const ulong rows_all, const uint n, const uint k, const uint taps, const uint inner,
    const long across, const long down, GATHER_PARAMETERS, const float beta, const uint has_bias,
    global const ushort *restrict from_buffer, const ulong from_offset, const ulong from_ld,
    global const ushort *restrict w_buffer, const ulong w_offset, const ulong w_ld, MAT_IN_RESTRICT(bias),
    MAT_OUT_RESTRICT(to))
{
    DECLARE_STAGES
    const gather g = GATHER;
    const uint id = (uint)get_local_id(0);
    const gather_tile here = tile_of_group(rows_all, n, g);

    place_sources(tiles, here, g, taps, from_ld);
    const uint row = id / 4, chunk = id % 4;
    sources a = {.at = 8 * chunk, .c = 8 * chunk, .tap = TAP_BITS(0, 0), .to = 4 * row + (chunk ^ row / 2 % 4)};
    UNROLLED(i, 2) {
        const uint4 place = tiles[row + i * (LOCAL / 4)];
        a.from[i] = from_buffer + from_offset + as_long(place.xy);
        a.reach[i] = place.z;
    }
    a.left = (int)(inner - 8 * chunk);
    part b = begin_part(true, TILE, w_buffer + w_offset, w_ld, here.first_column, n, inner);
    barrier(CLK_LOCAL_MEM_FENCE); /* the table is read */
    if (inner > 0) {
        find_tap(&a, k, taps_x, across, down);
        SUM_STAGES(inner, true, true)
        wait_for_copies(&in_flight, 0); /* of tiles beyond the last one */
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    write_pixels(sum, (local ulong *)tiles, here, g, beta,
        has_bias ? bias_buffer + bias_offset : 0, to_buffer + to_offset, to_ld, n);
}
