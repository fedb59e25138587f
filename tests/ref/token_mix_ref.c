#include "ref/token_mix_ref.h"

#include <string.h>

#include "support/test_owned.h"

/* n = alpha * x + beta and t = w n + b 1^T of each sample. */
static void branch(const token_mix_ref *in, double *n, double *t)
{
    const size_t p = in->tokens, d = in->cols;
    for (size_t i = 0; i < in->batch * p * d; i++)
        n[i] = in->alpha[i % d] * in->x[i] + in->beta[i % d];
    for (size_t r = 0; r < in->batch * p; r++)
        for (size_t c = 0; c < d; c++) {
            const double *sample = n + r / p * p * d;
            t[r * d + c] = in->b[r % p];
            for (size_t q = 0; q < p; q++)
                t[r * d + c] += in->w[r % p * p + q] * sample[q * d + c];
        }
}

void token_mix_ref_forward(const token_mix_ref *in, double *y)
{
    const size_t count = in->batch * in->tokens * in->cols;
    double *n = test_doubles(count), *t = test_doubles(count);
    branch(in, n, t);
    for (size_t i = 0; i < count; i++)
        y[i] = in->x[i] + in->ls[i % in->cols] * t[i];
}

void token_mix_ref_backward(const token_mix_ref *in, token_mix_ref_grads out)
{
    const size_t p = in->tokens, d = in->cols, count = in->batch * p * d;
    double *n = test_doubles(count), *t = test_doubles(count);
    double *dt = test_doubles(count), *dn = test_doubles(count);
    branch(in, n, t);
    memset(out.dls, 0, d * sizeof(double));
    memset(out.dalpha, 0, d * sizeof(double));
    memset(out.dbeta, 0, d * sizeof(double));
    memset(out.dw, 0, p * p * sizeof(double));
    memset(out.db, 0, p * sizeof(double));
    for (size_t i = 0; i < count; i++) {
        dt[i] = in->ls[i % d] * in->dy[i];
        out.dls[i % d] += t[i] * in->dy[i];
        out.db[i / d % p] += dt[i];
    }
    for (size_t r = 0; r < in->batch * p; r++)
        for (size_t q = 0; q < p; q++)
            for (size_t c = 0; c < d; c++) {
                const size_t other = (r / p * p + q) * d + c;
                out.dw[r % p * p + q] += dt[r * d + c] * n[other];
                dn[other] += in->w[r % p * p + q] * dt[r * d + c];
            }
    for (size_t i = 0; i < count; i++) {
        out.dalpha[i % d] += in->x[i] * dn[i];
        out.dbeta[i % d] += dn[i];
        out.dx[i] = in->dy[i] + in->alpha[i % d] * dn[i];
    }
}
