/* dw[r][c] = alpha * sum over splits of partial[split][r / PANEL][c][r % PANEL] + beta * dw[r][c].
 *
 * partial is [splits][panels][inner][PANEL], inner >= cols. Splits are added in order, so the result
 * does not depend on which group finished first. With a beta of 0 dw is not read.
 *
 * Group h * ceil(rows / STRIP) + g takes rows [g * STRIP, (g + 1) * STRIP) and columns
 * [h * COLS, (h + 1) * COLS); its LOCAL work-items take columns in turn, each a vector of STRIP partial
 * sums. LOCAL 1 needs STRIP 16 and 1 KiB of local memory; else none. STRIP divides
 * PANEL, and 4 divides STRIP; rows of partial begin at multiples of 16 bytes. */
#include "prelude/panel.clh"
#if !defined(LOCAL) || !defined(PANEL) || !defined(STRIP) || !defined(COLS)
#error "bspmm_finish.cl needs LOCAL, PANEL, STRIP and COLS"
#endif
#if LOCAL == 1 && STRIP != 16
#error "a single work-item takes strips of 16"
#endif
#if PANEL % STRIP != 0 || STRIP % 4 != 0
#error "STRIP must divide PANEL, and 4 STRIP"
#endif

KERNEL_OF(LOCAL) bspmm_finish(const ulong rows, const ulong cols, const ulong inner,
    const ulong panels, const ulong splits, const float alpha, const float beta,
    REGION_IN(float, partial), MAT_OUT_RESTRICT(dw))
{
    const uint group = (uint)get_group_id(0), strips = (uint)((rows - 1) / STRIP + 1);
    const ulong first = (ulong)(group % strips) * STRIP;
    const ulong first_column = (ulong)(group / strips) * COLS;
    const uint count = (uint)min((ulong)STRIP, rows - first);
    const ulong last_column = min(first_column + COLS, cols);
    partial += partial_offset + first / PANEL * inner * PANEL + first % PANEL;
    ulong c = first_column + get_local_id(0);
#if LOCAL == 1
    /* STRIP x 16 results at a time, so that rows of dw are written 16 floats at once. */
    local float16 columns[16];
    for (; c + 16 <= last_column; c += 16) {
        float16 sum[16];
        ROLLED for (uint k = 0; k < 16; k++) {
            sum[k] = (float16)(0.0f);
            ROLLED for (ulong s = 0; s < splits; s++)
                sum[k] += vload16(0, partial + (s * panels * inner + c + k) * PANEL);
        }
        store_transposed16(sum, (local float *)columns, 16);
        ROLLED for (uint i = 0; i < count; i++) {
            float16 row = columns[i] * alpha;
            if (beta != 0)
                row = fma((float16)(beta), vload16(0, &AT(dw, first + i, c)), row);
            STORE16(row, &AT(dw, first + i, c));
        }
    }
#endif
    for (; c < last_column; c += LOCAL) {
        float4 sum[STRIP / 4];
        UNROLLED(k, STRIP / 4)
            sum[k] = (float4)(0.0f);
        global const float *from = partial + c * PANEL;
        for (ulong s = 0; s < splits; s++, from += panels * inner * PANEL)
            UNROLLED(k, STRIP / 4)
                sum[k] += *(global const float4 *)(from + 4 * k);
        float result[STRIP];
        UNROLLED(k, STRIP / 4)
            vstore4(alpha * sum[k], k, result);
        UNROLLED(i, STRIP)
            if (i < count) {
                global float *to = &AT(dw, first + i, c);
                *to = beta != 0 ? fma(beta, *to, result[i]) : result[i];
            }
    }
}
