/* The probe of clprune__mma_open: c += a * b by one warp. `data` has a: 16 M_TILES x MMA_K, then
 * b: MMA_K x 8 N_TILES, then c: 16 M_TILES x 8 N_TILES. Lanes hold the fragments of mma.clh. */
#include "prelude/mma.clh"

/* Register r of an operand. x: the lane's row of a or column of b, whose elements lie `step` floats apart. */
static inline uint operand(global const float *x, const uint step, const uint r, const uint t)
{
#if PRECISION == 1
    return mma_round(x[MMA_KEY(r, t) * step]);
#else
    return mma_pack(x[MMA_KEY(2 * r, t) * step], x[MMA_KEY(2 * r + 1, t) * step]);
#endif
}

KERNEL_OF(32) mma_probe(global float *data)
{
    MMA_LOCAL(1)
    const uint lane = get_local_id(0), g = lane / 4, t = lane % 4, cols = 8 * N_TILES;
    global float *b_from = data + 16 * M_TILES * MMA_K, *c = b_from + MMA_K * cols;
    uint4 a[M_TILES];
    uint2 b[N_TILES];
    float4 sum[M_TILES * N_TILES];
    UNROLLED(i, M_TILES) {
        global const float *x = data + (16 * i + g) * MMA_K, *lower = x + 8 * MMA_K;
        a[i] = (uint4)(operand(x, 1, 0, t), operand(lower, 1, 0, t), operand(x, 1, 1, t),
            operand(lower, 1, 1, t));
    }
    UNROLLED(j, N_TILES) {
        global const float *x = b_from + 8 * j + g;
        b[j] = (uint2)(operand(x, cols, 0, t), operand(x, cols, 1, t));
    }
    UNROLLED(i, M_TILES * N_TILES) {
        global const float *x = c + (16 * (i / N_TILES) + g) * cols + 8 * (i % N_TILES) + 2 * t;
        sum[i] = (float4)(x[0], x[1], x[8 * cols], x[8 * cols + 1]);
    }
    mma_tiles(sum, a, b, lane, mma_words);
    UNROLLED(i, M_TILES * N_TILES) {
        global float *to = c + (16 * (i / N_TILES) + g) * cols + 8 * (i % N_TILES) + 2 * t;
        to[0] = sum[i].x, to[1] = sum[i].y, to[8 * cols] = sum[i].z, to[8 * cols + 1] = sum[i].w;
    }
}
