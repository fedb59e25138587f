/* Logits that are bounded.
 *
 *     forward    x[r][c] = cap * tanh(x[r][c] / cap)
 *     backward   dy[r][c] *= 1 - (y[r][c] / cap)^2, y as forward has written it
 *
 * Row-wise, see rowwise.clh. No local memory. ACTIVATION: 4, for activation.clh. */
#include "prelude/rowwise.clh"
#include "layers/activation.clh"

#if ACTIVATION != 4
#error "logit_cap.cl needs ACTIVATION 4"
#endif

KERNEL_OF(LOCAL) logit_cap_forward(ROWWISE_SIZES, const float cap, MAT_OUT(x))
{
    FOR_ROWS(r)
        FOR_VECTORS(c) {
            vec slope; /* not needed */
            PUT(cap * activation_with_slope(GET(x, r, c) / cap, &slope), x, r, c);
        }
}

/* Forward: y = cap * tanh(x / cap). */
KERNEL_OF(LOCAL) logit_cap_backward(ROWWISE_SIZES, const float cap, MAT_IN(y), MAT_OUT(dy))
{
    FOR_ROWS(r)
        FOR_VECTORS(c) {
            const vec part = GET(y, r, c) / cap;
            PUT(GET(dy, r, c) * fma(-part, part, (vec)(1.0f)), dy, r, c);
        }
}
