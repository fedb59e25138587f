/* GELU: g = h * Phi(h), Phi the normal distribution function; or another activation (activation.clh).
 *
 *     forward    g[r][c]  = h * Phi(h);  with BIAS h becomes h + b first, in memory too
 *     backward   dh[r][c] = dg[r][c] * (Phi(h) + h * phi(h))
 *                sum 0 of the columns, with SUMS = 1: dh[r][c]
 *                with AGAIN also g, as in the forward pass
 *                with BITS h is quantised (quantise.clh); gelu_backward_quantised
 *     with       h = h[r][c],  b = b[c],  phi(h) = exp(-h^2 / 2) / sqrt(2 pi)
 *
 * Row-wise, see rowwise.clh; forward h is a source, g and dh are results of narrow.clh. g may be h; dh may be dg, or h
 * without AGAIN. No local memory. Errors: of g at most 4 * 2^-24 * |h| and at most 8 * 2^-24 * |exact g|; of the slope at most 4 * 2^-24.
 * g(-Inf) = -0, g(Inf) = Inf; the slopes there are 0 and 1. BIAS, SUMS, AGAIN: 0 or 1. */
#include "prelude/narrow.clh"
#include "prelude/quantised_part.clh"
#include "layers/activation.clh"
#ifndef BIAS
#define BIAS 0 /* 0: b is not touched */
#endif
#ifndef AGAIN
#define AGAIN 0 /* 0: g is not touched */
#endif

#if BF16_IN /* without BIAS */
#define MAT_H    MAT_SOURCE(h)
#define PUT_H(v) (void)(v)
#else
#define MAT_H    MAT_OUT(h)
#define PUT_H(v) PUT(v, h, r, c)
#endif

KERNEL_OF(LOCAL) gelu_forward(ROWWISE_SIZES, MAT_IN_RESTRICT(b), MAT_H, MAT_RESULT(g))
{
    FOR_ROWS(r)
        FOR_VECTORS(c) {
            vec in = GET_SOURCE(h, r, c), slope; /* the slope is not needed */
            if (BIAS) {
                in += GET(b, 0, c);
                PUT_H(in);
            }
            PUT_RESULT(activation_with_slope(in, &slope), g, r, c);
        }
}

#ifdef BITS
#define GELU_BACKWARD gelu_backward_quantised
#define H_IN          QUANTISED_IN(h)
#define GET_H(r, c)   GET_QUANTISED(h, r, c)
#else
#define GELU_BACKWARD gelu_backward
#define H_IN          MAT_IN(h)
#define GET_H(r, c)   GET(h, r, c)
#endif

/* Forward: g = h * Phi(h), so dh = dg * (Phi(h) + h * Phi'(h)). */
#if defined(BITS) && BITS <= 4 && GROUP > 16 && LOCAL == 1 && VW == 16 && defined(__AVX512F__)
/* A group has at most 16 values: g and the slope of each are computed once, then looked up by the codes. */
static inline vec look_up(const vec table, const uint16 codes)
{
    vec found;
    __asm__("vpermps %1, %2, %0" : "=v"(found) : "v"(table), "v"(codes));
    return found;
}

KERNEL_OF(LOCAL) GELU_BACKWARD(ROWWISE_SIZES, H_IN, MAT_IN(dg), MAT_RESULT(g), MAT_RESULT(dh),
    MAT_OUT(partial))
{
    const uint16 all_codes = (uint16)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    FOR_STRIPS
        for (ulong first = 0; first < cols; first += GROUP) {
            vec sum[GROUP / 16];
            UNROLLED(i, GROUP / 16) {
                const ulong c = first + 16 * i;
                sum[i] = c < cols ? SUM_SO_FAR(0, c) : (vec)(0.0f);
            }
            FOR_STRIP_ROWS(r) {
                const quantised row = QUANTISED(h, r);
                vec slopes;
                const vec values = activation_with_slope(
                    VALUES(16, all_codes, GROUP_WORD(row.groups, first)), &slopes);
                UNROLLED(i, GROUP / 16) {
                    const ulong c = first + 16 * i;
                    if (c < cols) {
                        const uint16 codes = codes_of_unit(row.codes + WORDS(c));
                        const vec gradient = GET(dg, r, c) * look_up(slopes, codes);
                        sum[i] += gradient;
                        if (AGAIN)
                            PUT_RESULT(look_up(values, codes), g, r, c);
                        PUT_RESULT(gradient, dh, r, c);
                    }
                }
            }
            UNROLLED(i, GROUP / 16) {
                const ulong c = first + 16 * i;
                if (c < cols)
                    KEEP_SUM(sum[i], 0, c);
            }
        }
}
#else
KERNEL_OF(LOCAL) GELU_BACKWARD(ROWWISE_SIZES, H_IN, MAT_IN(dg), MAT_RESULT(g), MAT_RESULT(dh),
    MAT_OUT(partial))
{
    FOR_STRIPS
        FOR_VECTORS(c) {
            vec sum = SUM_SO_FAR(0, c);
            FOR_STRIP_ROWS(r) {
                vec slope;
                const vec value = activation_with_slope(GET_H(r, c), &slope);
                const vec gradient = GET(dg, r, c) * slope;
                sum += gradient;
                if (AGAIN)
                    PUT_RESULT(value, g, r, c);
                PUT_RESULT(gradient, dh, r, c);
            }
            KEEP_SUM(sum, 0, c);
        }
}
#endif
