/* The probe of clprune__mma_open: c += a * b by one warp. `data` has a: 16 M_TILES x MMA_K, then
 * b: MMA_K x 8 N_TILES, then c: 16 M_TILES x 8 N_TILES. Lanes hold the fragments of mma.clh, which they read
 * from tiles in local memory as products do (mma_read.clh): a from a tile along the keys and b from one across
 * them, or, if swapped, the other way round. N_TILES 2. */
#include "tiles/mma_read.clh"
#define ROWS    (16 * M_TILES)
#define COLUMNS (8 * N_TILES)
#define ALONG   (STEP_WORDS + 4)                  /* words from row to row of a tile */
#define ACROSS(n) ((n) / PRECISION + 8 / PRECISION)

/* The word of element x and key k; elements lie x_step floats apart, keys k_step. */
static inline uint word_of(global const float *from, const uint x_step, const uint k_step, const uint x,
    const uint k, const bool along)
{
    global const float *low = from + x * x_step + k * k_step;
#if PRECISION == 1
    return mma_round(low[0]);
#else
    return mma_pack(low[0], low[along ? k_step : x_step]);
#endif
}

static inline void fill_tile(local uint *tile, global const float *from, const uint count,
    const uint x_step, const uint k_step, const bool along)
{
    for (uint i = get_local_id(0); i < count * STEP_WORDS; i += 32) {
        const uint x = along ? i / STEP_WORDS : i % (count / PRECISION) * PRECISION;
        const uint k = along ? i % STEP_WORDS * PRECISION : i / (count / PRECISION);
        local uint *to = along ? tile + x * ALONG + k / PRECISION : tile + k * ACROSS(count) + x / PRECISION;
        *to = word_of(from, x_step, k_step, x, k, along);
    }
}

KERNEL_OF(32) mma_probe(global float *data, const uint swapped)
{
    local uint4 a_vectors[ROWS * ALONG / 4], b_vectors[ROWS * ALONG / 4];
    local uint *a_tile = (local uint *)a_vectors, *b_tile = (local uint *)b_vectors;
    const uint lane = get_local_id(0), g = lane / 4, t = lane % 4;
    global float *b_from = data + ROWS * MMA_K, *c = b_from + MMA_K * COLUMNS;
    uint4 a[M_TILES * A_LANES];
    uint2 b[N_TILES * B_LANES];
    float4 sum[M_TILES * N_TILES];
    fill_tile(a_tile, data, ROWS, MMA_K, 1, !swapped);
    fill_tile(b_tile, b_from, COLUMNS, 1, COLUMNS, swapped);
    barrier(CLK_LOCAL_MEM_FENCE);
    UNROLLED(i, M_TILES)
        FOR_MMA(u, A_LANES)
            a[i * A_LANES + u] = swapped ? read_across(A_LANE(lane, u), a_tile, ACROSS(ROWS), 16 * i, 0, false)
                                         : read_along(A_LANE(lane, u), a_tile, ALONG, 16 * i, 0, false);
    FOR_MMA(u, B_LANES) {
        const uint4 two = swapped ? read_along(B_LANE(lane, u), b_tile, ALONG, 0, 0, true)
                                  : read_across(B_LANE(lane, u), b_tile, ACROSS(COLUMNS), 0, 0, true);
        b[u] = two.lo, b[B_LANES + u] = two.hi;
    }
    UNROLLED(i, M_TILES * N_TILES) {
        global const float *x = c + (16 * (i / N_TILES) + g) * COLUMNS + 8 * (i % N_TILES) + 2 * t;
        sum[i] = (float4)(x[0], x[1], x[8 * COLUMNS], x[8 * COLUMNS + 1]);
    }
    mma_tiles(sum, a, b);
    UNROLLED(i, M_TILES * N_TILES) {
        global float *to = c + (16 * (i / N_TILES) + g) * COLUMNS + 8 * (i % N_TILES) + 2 * t;
        to[0] = sum[i].x, to[1] = sum[i].y, to[8 * COLUMNS] = sum[i].z, to[8 * COLUMNS + 1] = sum[i].w;
    }
}
