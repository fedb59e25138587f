/* A step of recurrent layers.
 *
 *     LSTM       i = s(zi + ai), f = s(zf + af), g = tanh(zg + ag), o = s(zo + ao)
 *                c = f * c' + i * g,  h = o * tanh(c)
 *     GRU        r = s(zr + ar), u = s(zu + au), n = tanh(zn + r * an)
 *                h = n + u * (h' - n)
 *     plain      h = f(z + a)
 *     with       s(x) = 1 / (1 + exp(-x)), a + b in place of a with BIAS
 *     backward   dz of the gates, and what reaches h' and c' but not through a
 *
 * Row-wise over the states of a step, N x cols, see rowwise.clh. Row r of z, y (past: that of the step
 * before, [h' c'] or h'), dy and dz is that of sequence r; gate k of z, a, b and dz has the columns from k *
 * cols on. first: there is no step before, past and a are not read. Backward, dz has a; dh and dc have what
 * reaches h and c from the step behind (last: nothing, they are not read), then what reaches h' and c'. Of a
 * GRU dz becomes the gradient of a, and dn that of zn. No local memory. BIAS: 0 or 1. ACTIVATION: of
 * activation.clh, 8 for s, or that of a plain cell, f. */
#if !defined(BIAS) || !defined(ACTIVATION)
#error "recurrent.cl needs BIAS and ACTIVATION"
#endif
#include "prelude/rowwise.clh"
#include "layers/activation.clh"

#define GATE(x, k, r, c)        load_part(ROW(x, r) + (k)*cols + (c), cols - (c), 0)
#define PUT_GATE(v, x, k, r, c) store_part(v, ROW(x, r) + (k)*cols + (c), cols - (c))
#define PAST(k, r, c)           (first ? (vec)(0.0f) : GATE(past, k, r, c))
#if BIAS
#define OF_PAST(a, k, r, c) ((first ? (vec)(0.0f) : GATE(a, k, r, c)) + GATE(b, k, 0, c))
#else
#define OF_PAST(a, k, r, c) (first ? (vec)(0.0f) : GATE(a, k, r, c))
#endif
#define SUM_OF(a, k, r, c) (GATE(z, k, r, c) + OF_PAST(a, k, r, c))
#define REACHES(x, r, c)   (last ? (vec)(0.0f) : GET(x, r, c))

#define sigmoid activation_with_slope

KERNEL_OF(LOCAL) lstm_forward(ROWWISE_SIZES, const uint first, MAT_IN(z), MAT_IN(a), MAT_IN(b), MAT_IN(past),
    MAT_OUT(y))
{
    FOR_ROWS(r)
        FOR_VECTORS(c) {
            vec slope; /* not needed */
            vec state = sigmoid(SUM_OF(a, 0, r, c), &slope) * tanh_with_slope(SUM_OF(a, 2, r, c), &slope);
            state = fma(sigmoid(SUM_OF(a, 1, r, c), &slope), PAST(1, r, c), state);
            PUT_GATE(state, y, 1, r, c);
            PUT(sigmoid(SUM_OF(a, 3, r, c), &slope) * tanh_with_slope(state, &slope), y, r, c);
        }
}

/* Forward: c = f * c' + i * g, h = o * tanh(c). */
KERNEL_OF(LOCAL) lstm_backward(ROWWISE_SIZES, const uint first, const uint last, MAT_IN(z), MAT_IN(b),
    MAT_IN(past), MAT_IN(dy), MAT_OUT(dz), MAT_OUT(dh), MAT_OUT(dc))
{
    FOR_ROWS(r)
        FOR_VECTORS(c) {
            vec di, df, dg, d_o, slope;
            const vec i = sigmoid(SUM_OF(dz, 0, r, c), &di), f = sigmoid(SUM_OF(dz, 1, r, c), &df);
            const vec g = tanh_with_slope(SUM_OF(dz, 2, r, c), &dg);
            const vec o = sigmoid(SUM_OF(dz, 3, r, c), &d_o);
            const vec before = PAST(1, r, c);
            const vec t = tanh_with_slope(fma(f, before, i * g), &slope);
            const vec of_h = GET(dy, r, c) + REACHES(dh, r, c);
            const vec of_c = fma(of_h * o, slope, GATE(dy, 1, r, c) + REACHES(dc, r, c));
            PUT(of_c * g * di, dz, r, c);
            PUT_GATE(of_c * before * df, dz, 1, r, c);
            PUT_GATE(of_c * i * dg, dz, 2, r, c);
            PUT_GATE(of_h * t * d_o, dz, 3, r, c);
            PUT(of_c * f, dc, r, c);
        }
}

KERNEL_OF(LOCAL) gru_forward(ROWWISE_SIZES, const uint first, MAT_IN(z), MAT_IN(a), MAT_IN(b), MAT_IN(past),
    MAT_OUT(y))
{
    FOR_ROWS(r)
        FOR_VECTORS(c) {
            vec slope; /* not needed */
            const vec reset = sigmoid(SUM_OF(a, 0, r, c), &slope), u = sigmoid(SUM_OF(a, 1, r, c), &slope);
            const vec n = tanh_with_slope(fma(reset, OF_PAST(a, 2, r, c), GATE(z, 2, r, c)), &slope);
            PUT(fma(u, PAST(0, r, c) - n, n), y, r, c);
        }
}

/* Forward: n = tanh(zn + r * an), h = n + u * (h' - n). */
KERNEL_OF(LOCAL) gru_backward(ROWWISE_SIZES, const uint first, const uint last, MAT_IN(z), MAT_IN(b),
    MAT_IN(past), MAT_IN(dy), MAT_OUT(dz), MAT_OUT(dh), MAT_OUT(dn))
{
    FOR_ROWS(r)
        FOR_VECTORS(c) {
            vec dr, du, slope;
            const vec reset = sigmoid(SUM_OF(dz, 0, r, c), &dr), u = sigmoid(SUM_OF(dz, 1, r, c), &du);
            const vec an = OF_PAST(dz, 2, r, c);
            const vec n = tanh_with_slope(fma(reset, an, GATE(z, 2, r, c)), &slope);
            const vec of_h = GET(dy, r, c) + REACHES(dh, r, c);
            const vec of_n = (of_h - of_h * u) * slope;
            PUT(of_n * an * dr, dz, r, c);
            PUT_GATE(of_h * (PAST(0, r, c) - n) * du, dz, 1, r, c);
            PUT_GATE(of_n * reset, dz, 2, r, c);
            PUT(of_n, dn, r, c);
            PUT(of_h * u, dh, r, c);
        }
}

KERNEL_OF(LOCAL) plain_forward(ROWWISE_SIZES, const uint first, MAT_IN(z), MAT_IN(a), MAT_IN(b), MAT_IN(past),
    MAT_OUT(y))
{
    FOR_ROWS(r)
        FOR_VECTORS(c) {
            vec slope; /* not needed */
            PUT(activation_with_slope(SUM_OF(a, 0, r, c), &slope), y, r, c);
        }
}

/* Forward: h = f(z + a). dh is only read. */
KERNEL_OF(LOCAL) plain_backward(ROWWISE_SIZES, const uint first, const uint last, MAT_IN(z), MAT_IN(b),
    MAT_IN(past), MAT_IN(dy), MAT_OUT(dz), MAT_OUT(dh), MAT_OUT(unused))
{
    FOR_ROWS(r)
        FOR_VECTORS(c) {
            vec slope;
            activation_with_slope(SUM_OF(dz, 0, r, c), &slope);
            PUT((GET(dy, r, c) + REACHES(dh, r, c)) * slope, dz, r, c);
        }
}
