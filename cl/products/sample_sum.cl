/* dw[r][c] = sum over n < samples of partial[n][r][c] + beta * dw[r][c], for rows x cols results.
 *
 * partial is dense, [samples][rows][cols]. Samples are added in order. With a beta of 0
 * dw is not read.
 *
 * Group r * chunks + g, chunks = ceil(cols / CHUNK), takes columns [g * CHUNK, (g + 1) * CHUNK) of row r;
 * its LOCAL work-items take runs of STRIP vectors of VW columns in turn, so that samples are read in runs. No
 * local memory. LOCAL, CHUNK, STRIP: any >= 1. */
#include "prelude/common.clh"
#if !defined(LOCAL) || !defined(CHUNK) || !defined(STRIP)
#error "sample_sum.cl needs LOCAL, CHUNK and STRIP"
#endif
#define RUN (STRIP * VW)

KERNEL_OF(LOCAL) sample_sum(const ulong samples, const ulong rows, const ulong cols,
    const float beta, REGION_IN(float, partial), MAT_OUT_RESTRICT(dw))
{
    const uint group = (uint)get_group_id(0), chunks = (uint)((cols + CHUNK - 1) / CHUNK);
    const ulong row = group / chunks, chunk = group % chunks, stride = rows * cols;
    const ulong end = min((chunk + 1) * CHUNK, cols);
    ulong c = chunk * CHUNK + get_local_id(0) * RUN;
    for (; c + RUN <= end; c += LOCAL * RUN) {
        global const float *from = partial + partial_offset + row * cols + c;
        vec sum[STRIP];
        UNROLLED(i, STRIP)
            sum[i] = 0;
        for (ulong n = 0; n < samples; n++, from += stride)
            UNROLLED(i, STRIP)
                sum[i] += LOAD(from + i * VW);
        UNROLLED(i, STRIP) {
            global float *to = ROW(dw, row) + c + i * VW;
            STORE(beta != 0 ? fma((vec)(beta), LOAD(to), sum[i]) : sum[i], to);
        }
    }
    for (; c < end; c++) { /* the work-item that reached the end */
        global const float *from = partial + partial_offset + row * cols + c;
        float sum = 0.0f;
        for (ulong n = 0; n < samples; n++, from += stride)
            sum += *from;
        AT(dw, row, c) = beta != 0 ? fma(beta, AT(dw, row, c), sum) : sum;
    }
}
