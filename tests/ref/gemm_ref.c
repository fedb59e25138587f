#include "ref/gemm_ref.h"

#include <math.h>

#include "support/test_owned.h"

gemm_ref gemm_ref_begin(size_t m, size_t n)
{
    return (gemm_ref){.m = m, .n = n, .want = test_doubles(m * n), .bound = test_doubles(m * n)};
}

float (*gemm_ref_operand)(float);

float gemm_ref_tf32(float x)
{
    if (!isfinite(x))
        return x;
    int exponent;
    const double fraction = frexp((double)x, &exponent);
    return (float)ldexp(round(ldexp(fraction, 11)), exponent - 11);
}

float gemm_ref_bf16(float x)
{
    if (!isfinite(x))
        return x;
    if (fabsf(x) < 0x1p-126f)
        return copysignf(0, x);
    int exponent;
    const double fraction = frexp((double)x, &exponent);
    return (float)ldexp(rint(ldexp(fraction, 8)), exponent - 8);
}

const float *gemm_ref_operands(const float *x, size_t count)
{
    if (gemm_ref_operand == NULL)
        return x;
    float *rounded = test_floats(count);
    for (size_t i = 0; i < count; i++)
        rounded[i] = gemm_ref_operand(x[i]);
    return rounded;
}

void gemm_ref_term(gemm_ref *ref, size_t i, double term)
{
    ref->want[i] += term;
    ref->bound[i] += fabs(term);
}

void gemm_ref_add(
    gemm_ref *ref, bool transpose_a, bool transpose_b, size_t k, const float *a, const float *b)
{
    a = gemm_ref_operands(a, ref->m * k);
    b = gemm_ref_operands(b, k * ref->n);
    for (size_t r = 0; r < ref->m; r++) {
        for (size_t i = 0; i < k; i++) {
            const double x = transpose_a ? a[i * ref->m + r] : a[r * k + i];
            if (x == 0)
                continue; /* adds nothing to either sum, also where b is not finite */
            for (size_t c = 0; c < ref->n; c++) {
                const float y = transpose_b ? b[c * k + i] : b[i * ref->n + c];
                gemm_ref_term(ref, r * ref->n + c, x * (double)y);
            }
        }
    }
    ref->terms += k;
}

void gemm_ref_add_row(gemm_ref *ref, const float *row)
{
    for (size_t i = 0; i < ref->m * ref->n; i++)
        gemm_ref_term(ref, i, (double)row[i % ref->n]);
    ref->terms++;
}

void gemm_ref_end(gemm_ref *ref, float alpha, float beta, const float *c)
{
    const double terms = (double)(ref->terms + (beta != 0.0f));
    for (size_t i = 0; i < ref->m * ref->n; i++) {
        const double old = beta != 0.0f ? (double)beta * (double)c[i] : 0.0;
        const double result = (double)alpha * ref->want[i] + old;
        const double magnitude = fabs((double)alpha) * ref->bound[i] + fabs(old);
        ref->want[i] = result;
        ref->bound[i] = 2 * sqrt(terms) * 0x1p-24 * magnitude + 0x1p-24 * fabs(result);
    }
}
