#include "ref/conv_ref.h"

#include "support/test_owned.h"

void conv_ref_settle(conv_ref *r)
{
    const size_t size[2] = {r->height, r->width};
    size_t out[2];
    for (int i = 0; i < 2; i++)
        out[i] =
            (size[i] + 2 * r->padding[i] - r->dilation[i] * (r->kernel[i] - 1) - 1) / r->stride[i] +
            1;
    r->out_height = out[0];
    r->out_width = out[1];
}

/* The row of x under tap (a, b) of result (n, i, j), or -1 outside. */
static long pixel(const conv_ref *r, size_t n, size_t i, size_t j, size_t a, size_t b)
{
    const long y = (long)(i * r->stride[0] + a * r->dilation[0]) - (long)r->padding[0];
    const long x = (long)(j * r->stride[1] + b * r->dilation[1]) - (long)r->padding[1];
    if (y < 0 || x < 0 || y >= (long)r->height || x >= (long)r->width)
        return -1;
    return ((long)n * (long)r->height + y) * (long)r->width + x;
}

/* (batch * out_height * out_width) x (taps * in): the pixels under the taps, 0 outside. */
static float *unfold(const conv_ref *r, const float *x)
{
    const size_t taps = r->kernel[0] * r->kernel[1];
    float *to = test_alloc(r->batch * r->out_height * r->out_width * taps * r->in * sizeof *to);
    size_t row = 0;
    for (size_t n = 0; n < r->batch; n++)
        for (size_t i = 0; i < r->out_height; i++)
            for (size_t j = 0; j < r->out_width; j++, row++)
                for (size_t t = 0; t < taps; t++) {
                    const long from = pixel(r, n, i, j, t / r->kernel[1], t % r->kernel[1]);
                    for (size_t c = 0; from >= 0 && c < r->in; c++)
                        to[(row * taps + t) * r->in + c] = x[(size_t)from * r->in + c];
                }
    return to;
}

static size_t results(const conv_ref *r)
{
    return r->batch * r->out_height * r->out_width;
}

/* Element of w without groups that element e of w is. */
static size_t spread(const conv_ref *r, size_t e)
{
    const size_t taps = r->kernel[0] * r->kernel[1], groups = r->groups > 0 ? r->groups : 1;
    const size_t in = r->in / groups, o = e / (taps * in), t = e / in % taps, c = e % in;
    return (o * taps + t) * r->in + o / (r->out / groups) * in + c;
}

static size_t weights(const conv_ref *r)
{
    return r->out * r->kernel[0] * r->kernel[1] * (r->in / (r->groups > 0 ? r->groups : 1));
}

static const float *without_groups(const conv_ref *r, const float *w)
{
    float *to = test_alloc(r->out * r->kernel[0] * r->kernel[1] * r->in * sizeof *to);
    for (size_t e = 0; e < weights(r); e++)
        to[spread(r, e)] = w[e];
    return to;
}

static float (*begin_operands(const conv_ref *r))(float)
{
    float (*const operand)(float) = gemm_ref_operand;
    if (r->fp32)
        gemm_ref_operand = NULL;
    return operand;
}

gemm_ref conv_ref_forward(const conv_ref *r, const float *x, const float *w, const float *b)
{
    float (*const operand)(float) = begin_operands(r);
    gemm_ref ref = gemm_ref_begin(results(r), r->out);
    float *unfolded = unfold(r, x);
    gemm_ref_add(
        &ref, false, true, r->kernel[0] * r->kernel[1] * r->in, unfolded, without_groups(r, w));
    if (b != NULL)
        gemm_ref_add_row(&ref, b);
    gemm_ref_end(&ref, 1.0f, 0.0f, NULL);
    gemm_ref_operand = operand;
    return ref;
}

gemm_ref conv_ref_dw(const conv_ref *r, const float *dy, const float *x)
{
    float (*const operand)(float) = begin_operands(r);
    gemm_ref ref = gemm_ref_begin(r->out, r->kernel[0] * r->kernel[1] * r->in);
    float *unfolded = unfold(r, x);
    gemm_ref_add(&ref, true, false, results(r), dy, unfolded);
    gemm_ref_end(&ref, 1.0f, 0.0f, NULL);
    gemm_ref_operand = operand;
    ref.n = weights(r) / r->out;
    for (size_t e = 0; e < weights(r); e++) { /* spread(e) >= e */
        ref.want[e] = ref.want[spread(r, e)];
        ref.bound[e] = ref.bound[spread(r, e)];
    }
    return ref;
}

gemm_ref conv_ref_db(const conv_ref *r, const float *dy)
{
    gemm_ref ref = gemm_ref_begin(1, r->out);
    for (size_t row = 0; row < results(r); row++)
        gemm_ref_add_row(&ref, dy + row * r->out);
    gemm_ref_end(&ref, 1.0f, 0.0f, NULL);
    return ref;
}

gemm_ref conv_ref_dx(
    const conv_ref *r, const float *dy, const float *w, float beta, const float *old)
{
    const size_t taps = r->kernel[0] * r->kernel[1];
    gemm_ref ref = gemm_ref_begin(r->batch * r->height * r->width, r->in);
    size_t row = 0;
    float (*const operand)(float) = begin_operands(r);
    dy = gemm_ref_operands(dy, results(r) * r->out);
    w = gemm_ref_operands(without_groups(r, w), r->out * taps * r->in);
    for (size_t n = 0; n < r->batch; n++)
        for (size_t i = 0; i < r->out_height; i++)
            for (size_t j = 0; j < r->out_width; j++, row++)
                for (size_t t = 0; t < taps; t++) {
                    const long to = pixel(r, n, i, j, t / r->kernel[1], t % r->kernel[1]);
                    for (size_t c = 0; to >= 0 && c < r->in; c++)
                        for (size_t o = 0; o < r->out; o++)
                            gemm_ref_term(&ref, (size_t)to * r->in + c,
                                (double)dy[row * r->out + o] *
                                    (double)w[(o * taps + t) * r->in + c]);
                }
    ref.terms = taps * r->out;
    gemm_ref_end(&ref, 1.0f, beta, old);
    gemm_ref_operand = operand;
    return ref;
}
