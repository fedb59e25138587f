/* Gated unit.
 *
 *     forward    y[r][c] = f(a) * b
 *     backward   dx[r][c] = dy[r][c] * b * f'(a),  dx[r][cols + c] = dy[r][c] * f(a)
 *     with       a = x[r][c],  b = x[r][cols + c]
 *
 * Row-wise over y, see rowwise.clh; y and dx are results of narrow.clh, with BF16_OUT 2 also the second half of dx. dx may be x. No local memory. ACTIVATION: f,
 * of activation.clh; 3 is SwiGLU's. */
#ifndef ACTIVATION
#error "swiglu.cl needs ACTIVATION"
#endif
#include "prelude/narrow.clh"
#include "layers/activation.clh"

#define GET_B(r, c) load_part(ROW(x, r) + cols + (c), cols - (c), 0)
#if BF16_OUT
#define PUT_B(v, r, c) store_narrow(v, ROW(dx, r) + cols + (c), cols - (c))
#define Y_OUT          MAT_RESULT(y)
#else
#define Y_OUT          MAT_OUT_RESTRICT(y)
#define PUT_B(v, r, c) store_part(v, ROW(dx, r) + cols + (c), cols - (c))
#endif

KERNEL_OF(LOCAL) swiglu_forward(ROWWISE_SIZES, MAT_IN_RESTRICT(x), Y_OUT)
{
    FOR_ROWS(r)
        FOR_VECTORS(c) {
            vec slope; /* not needed */
            PUT_RESULT(activation_with_slope(GET(x, r, c), &slope) * GET_B(r, c), y, r, c);
        }
}

/* Forward: y = f(a) * b. */
KERNEL_OF(LOCAL) swiglu_backward(ROWWISE_SIZES, MAT_IN(x), MAT_IN(dy), MAT_RESULT(dx))
{
    FOR_ROWS(r)
        FOR_VECTORS(c) {
            vec slope;
            const vec d = GET(dy, r, c), b = GET_B(r, c);
            const vec gate = activation_with_slope(GET(x, r, c), &slope);
            PUT_RESULT(d * b * slope, dx, r, c);
            PUT_B(d * gate, r, c);
        }
}
