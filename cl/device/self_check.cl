/* The kernel of clprune__self_check, run before any other kernel of a device: a few results of each kind
 * that the other kernels need, from the N x N matrix x. One group; work-item w takes elements i = w,
 * w + LOCAL, ... of each part. The parts of `result`, of N * N floats with i = r * N + c; LOOP is one float:
 *
 *     TRANSPOSE   2 x[c][r] + 1, transposed in local memory after a barrier
 *     PRODUCTS    sum over k < n of x[r][k] * x[c][k], in vectors of VW, added up across the vector
 *     FUNCTIONS   exp(v), erf(v), sqrt(|v|), log(|v| + 1) of v = x[r][c], one for each quarter of the part
 *     DRAWS       bits 24 to 47 of (i + 1) times a constant of 64 bits
 *     LOOP        the high 24 bits of state = 1664525 * state + 1013904223 after n * 8192 steps from 1. Mesa
 *                 22.3 leaves a kernel's loops after 65535 steps in total
 *
 * n = N is an argument, so that compilers cannot unroll the loops. Local memory: N * N floats. LOCAL: any
 * >= 1. */
#include "prelude/common.clh"
#if !defined(LOCAL) || !defined(VW)
#error "self_check.cl needs LOCAL and VW"
#endif
#define N    16
#define PART (N * N)

KERNEL_OF(LOCAL) self_check(const uint n, global const float *restrict x,
    global float *restrict result)
{
    local float tile[PART];
    for (uint i = get_local_id(0); i < PART; i += LOCAL)
        tile[i] = x[i];
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint i = get_local_id(0); i < PART; i += LOCAL) {
        result[i] = fma(tile[i % N * N + i / N], 2.0f, 1.0f);
        vec sum = 0;
        for (uint k = 0; k < n; k += VW)
            sum += LOAD(x + i / N * N + k) * LOAD(x + i % N * N + k);
        result[PART + i] = SUM(sum);
        const float v = x[i];
        result[2 * PART + i] = i < PART / 4   ? exp(v)
                               : i < PART / 2 ? erf(v)
                               : i < PART / 4 * 3 ? sqrt(fabs(v))
                                            : log(fabs(v) + 1.0f);
        result[3 * PART + i] = (float)(uint)((ulong)(i + 1) * 0x9e3779b97f4a7c15ul >> 24 & 0xffffff);
    }
    if (get_local_id(0) == 0) {
        uint state = 1;
        for (uint i = 0; i < n * 8192; i++)
            state = state * 1664525u + 1013904223u;
        result[4 * PART] = (float)(state >> 8);
    }
}
