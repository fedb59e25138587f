/* BSpMM nt for CPUs in bf16: as bspmm_nt_vector.cl, with dy and xs rounded to bf16 and sums in fp32.
 *
 *     partial[split][Q][p][i] = sum over the samples n of `split` and the columns c that row p keeps
 *                               of  dy[n * outputs + Q * PANEL + i][c] * xs_n[p][c]
 *
 * Pairs are neighbouring columns of a block; where BC is odd its last column is paired with zero. The words of
 * kept rows lie in the order of the lists, whose lengths are multiples of P (bspmm_index_words.cl). A group packs the
 * words of dy, transposed, for BLOCKS block columns at a time, or for CHUNK columns of one block, and then takes the
 * entries of these lists P at a time, in one loop. A panel of partial has a row behind the sample's last one, for the
 * entries that fill lists.
 *
 * Local memory: BLOCKS * (CHUNK + 1) / 2 * PANEL * 4 bytes; if BC is odd, also BLOCKS * CHUNK * 64. P * V
 * accumulators. V: 1 to 8. CHUNK: BC, or less and even, and BLOCKS 1. */
#include "prelude/pairs.clh"
#include "prelude/tile16.clh"
#if !defined(P) || !defined(BC) || !defined(BR) || !defined(SEG) || !defined(CHUNK) || !defined(BLOCKS)
#error "bspmm_nt_bf16_vector.cl needs P, BC, BR, SEG, CHUNK and BLOCKS"
#endif
#if BLOCKS > 1 ? CHUNK != BC : CHUNK < BC && CHUNK % 2 != 0
#error "CHUNK must be BC, or even and BLOCKS 1"
#endif
#define W           ((BC + 1) / 2)
#define CHUNK_WORDS ((CHUNK + 1) / 2)
#define COLUMNS     (BLOCKS * CHUNK)


#if BC % 2 == 0 || BLOCKS == 1
#define PANEL_WORDS   ((COLUMNS + 31) / 32 * 16) /* whole squares of 16 words */
#define COLUMN_FLOATS 16                         /* not used */
/* panel[c / 2][i] = columns c and c + 1 of row i of dy, for even c < whole; zero from column `width` and from row
 * `rows` on. */
static inline void pack_panel(local uint *panel, local float *columns, global const float *dy, const ulong ld,
    const uint whole, const uint width, const uint rows)
{
    for (uint i = 0; i < PANEL; i += 16)
        for (uint c = 0; c < whole; c += 32) {
            local float *to = (local float *)panel + c / 2 * PANEL + i;
            global const float *from = dy + i * ld + c;
            float16 words[16];
            if (c + 32 <= width && i + 16 <= rows) {
                UNROLLED(v, 16) {
                    global const float *row = from + HALF_ROW(v % 8) * ld + v / 8 * 16;
                    words[v] = as_float16(round32(LOAD16(row), LOAD16(row + 4 * ld)));
                }
                store_transposed_halves(words, to, PANEL);
                continue;
            }
            for (uint v = 0; v < 16; v++) {
                const uint r = HALF_ROW(v % 8), left = left_of(width, c + v / 8 * 16);
                global const float *row = from + r * ld + v / 8 * 16;
                words[v] = as_float16(round32(first16(row, i + r < rows ? left : 0),
                    first16(row + 4 * ld, i + r + 4 < rows ? left : 0)));
            }
            store_transposed_halves(words, to, PANEL);
        }
}
#else
#define PANEL_WORDS   (BLOCKS * W)
#define COLUMN_FLOATS ((COLUMNS + 15) / 16 * 256)
/* panel[b * W + w][i] = columns 2 w and 2 w + 1 of block b of row i of dy, likewise. */
static inline void pack_panel(local uint *panel, local float *columns, global const float *dy, const ulong ld,
    const uint whole, const uint width, const uint rows)
{
    for (uint i = 0; i < PANEL; i += 16) {
        for (uint c = 0; c < whole; c += 16) {
            float16 square[16];
            UNROLLED(r, 16)
                square[r] = first16(dy + (i + r) * ld + c, left_of(i + r < rows ? width : 0, c));
            store_transposed16(square, columns + c * 16, 16);
        }
        for (uint b = 0; b * BC < whole; b++)
            for (uint w = 0; w < W; w++) {
                const uint c = b * BC + 2 * w;
                const float16 low = *(local const float16 *)(columns + c * 16);
                const float16 high =
                    2 * w + 1 < BC ? *(local const float16 *)(columns + (c + 1) * 16) : (float16)(0.0f);
                *(local uint16 *)(panel + (b * W + w) * PANEL + i) = round_pairs(low, high);
            }
    }
}
#endif

/* The lines of dy that the next panel reads, PANEL rows of LINES; the first `done` are prefetched. */
#define LINES ((COLUMNS + LINE - 1) / LINE)
typedef struct next_panel {
    global const float *dy;
    ulong ld;
    uint done;
} next_panel;

static inline void fetch_lines(next_panel *next, const uint count)
{
    const uint end = min(next->done + count, (uint)(PANEL * LINES));
    for (; next->done < end; next->done++)
        PREFETCH_FAR(next->dy + next->done / LINES * next->ld + next->done % LINES * LINE);
}

/* Prefetches the words of a later tile, which may have left the near caches. Those of neighbouring rows touch, unless
 * CHUNK is less than BC. */
enum { AHEAD = (127 + CHUNK_WORDS) / CHUNK_WORDS }; /* tiles */
static inline void fetch_words(global const uint *words)
{
    enum { RUNS = CHUNK == BC ? 1 : P, RUN = CHUNK == BC ? P * W : CHUNK_WORDS };
    UNROLLED(r, RUNS)
        UNROLLED(i, (RUN + LINE - 1) / LINE)
            PREFETCH(words + (AHEAD * P + r) * W + i * LINE);
}

/* partial += the products of entries [e, end) and the first `count` words of each block of the panel, whose first block
 * is first_block. With each tile, `lines` of the next panel are prefetched. Rows of partial are loaded last: the loads
 * would wait for the stores of the tile before. */
static inline void multiply_entries(local const uint *restrict panel, const uint first_block, const uint count,
    global const uint2 *restrict entries, uint e, const uint end, global const uint *restrict x,
    global float *restrict partial, next_panel *next, const uint lines)
{
    for (; e < end; e += P) {
        local const uint *from = panel + (entries[e].y - first_block) * (CHUNK_WORDS * PANEL);
        global const uint *words = x + (ulong)e * W;
        float16 sum[P][V];
        fetch_words(words);
        fetch_lines(next, lines);
        FOR_TILE(P, r, h)
            sum[r][h] = (float16)(0.0f);
        for (uint w = 0; w < count; w++) {
            uint16 d[V];
            FOR_VECTORS_OF_ROW(h)
                d[h] = *(local const uint16 *)(from + w * PANEL + 16 * h);
            FOR_TILE(P, r, h)
                sum[r][h] = add_pairs(sum[r][h], (uint16)(words[r * W + w]), d[h]);
        }
        UNROLLED(r, P) {
            global float *to = partial + (ulong)entries[e + r].x * PANEL;
            FOR_VECTORS_OF_ROW(h)
                STORE16(LOAD16(to + 16 * h) + sum[r][h], to + 16 * h);
        }
    }
}

KERNEL_OF(1) bspmm_nt_bf16(const ulong batch, const ulong rows, const ulong cols,
    const ulong outputs, const ulong block_cols, const ulong segments, const ulong keep,
    const ulong slots, MAT_IN_RESTRICT(dy), REGION_IN(uint, words), REGION_IN(uint, starts),
    REGION_IN(uint2, entries), REGION_OUT(float, partial))
{
    LOCAL_FLOATS(panel_floats, PANEL_WORDS * PANEL);
    LOCAL_FLOATS(columns, COLUMN_FLOATS);
    local uint *panel = (local uint *)panel_floats;
    const ulong first_output = get_group_id(0) * PANEL;
    const ulong split = get_group_id(1), splits = get_num_groups(1);
    const uint inside = (uint)min((ulong)PANEL, outputs - first_output);
    words += words_offset;
    starts += starts_offset;
    entries += entries_offset;
    partial += partial_offset + (split * get_num_groups(0) + get_group_id(0)) * (rows + 1) * PANEL;
    /* Of a panel, so that its tiles fetch the next one. */
    const uint lines = (uint)(PANEL * LINES * P * block_cols / (BLOCKS * keep * BR)) + 1;
    for (ulong i = 0; i < (rows + 1) * V; i++)
        STORE16((float16)(0.0f), partial + 16 * i);

    for (ulong n = split * batch / splits; n < (split + 1) * batch / splits; n++)
        for (ulong j = 0; j < block_cols; j += BLOCKS)
            for (uint offset = 0; offset < BC && j * BC + offset < cols; offset += CHUNK) {
                const ulong column = j * BC + offset;
                const ulong last = min(j + BLOCKS, block_cols);
                const uint whole = BLOCKS == 1 ? min((uint)CHUNK, BC - offset) : (uint)(last - j) * BC;
                const uint width = (uint)min((ulong)whole, cols - column);
                global const float *top = ROW(dy, n * outputs + first_output);
                pack_panel(panel, columns, top + column, dy_ld, whole, width, inside);
                const bool more = column + whole < cols; /* else the next sample */
                next_panel next = {more ? top + column + whole : top + outputs * dy_ld, dy_ld, 0};
                for (ulong s = 0; s < segments; s++) {
                    global const uint *list = starts + (n * segments + s) * (block_cols + 1);
                    multiply_entries(panel, (uint)j, BLOCKS == 1 ? (whole + 1) / 2 : W, entries + n * slots, list[j],
                        list[last], words + n * slots * W + offset / 2, partial + s * SEG * PANEL, &next, lines);
                }
            }
}
