#include "ref/linear_ref.h"

#include <math.h>

gemm_ref linear_ref_forward(
    size_t m, size_t in, size_t out, const float *x, const float *w, const float *b)
{
    gemm_ref y = gemm_ref_begin(m, out);
    gemm_ref_add(&y, false, true, in, x, w);
    if (b != NULL)
        gemm_ref_add_row(&y, b);
    gemm_ref_end(&y, 1, 0, NULL);
    return y;
}

gemm_ref linear_ref_dx(size_t m, size_t in, size_t out, const float *dy, const float *w)
{
    gemm_ref dx = gemm_ref_begin(m, in);
    gemm_ref_add(&dx, false, false, out, dy, w);
    gemm_ref_end(&dx, 1, 0, NULL);
    return dx;
}

gemm_ref linear_ref_dw(size_t m, size_t in, size_t out, const float *dy, const float *xs)
{
    gemm_ref dw = gemm_ref_begin(out, in);
    gemm_ref_add(&dw, true, false, m, dy, xs);
    gemm_ref_end(&dw, 1, 0, NULL);
    return dw;
}

gemm_ref linear_ref_db(size_t m, size_t out, const float *dy)
{
    gemm_ref db = gemm_ref_begin(1, out);
    for (size_t r = 0; r < m; r++)
        gemm_ref_add_row(&db, dy + r * out);
    gemm_ref_end(&db, 1, 0, NULL);
    return db;
}

/* A view of sample n of a result whose samples are rows x d. */
static gemm_ref sample_of(const gemm_ref *whole, size_t n, size_t rows, size_t d)
{
    gemm_ref view = {.m = rows, .n = d, .want = whole->want + n * rows * d};
    view.bound = whole->bound + n * rows * d;
    return view;
}

gemm_ref token_linear_ref_forward(
    size_t batch, size_t in, size_t out, size_t d, const float *x, const float *w, const float *b)
{
    gemm_ref y = gemm_ref_begin(batch * out, d);
    for (size_t n = 0; n < batch; n++) {
        gemm_ref sample = sample_of(&y, n, out, d);
        gemm_ref_add(&sample, false, false, in, w, x + n * in * d);
        for (size_t i = 0; b != NULL && i < out * d; i++) {
            sample.want[i] += (double)b[i / d];
            sample.bound[i] += fabs((double)b[i / d]);
        }
        y.terms = sample.terms + (b != NULL);
    }
    gemm_ref_end(&y, 1, 0, NULL);
    return y;
}

gemm_ref token_linear_ref_dx(
    size_t batch, size_t in, size_t out, size_t d, const float *dy, const float *w)
{
    gemm_ref dx = gemm_ref_begin(batch * in, d);
    for (size_t n = 0; n < batch; n++) {
        gemm_ref sample = sample_of(&dx, n, in, d);
        gemm_ref_add(&sample, true, false, out, w, dy + n * out * d);
        dx.terms = sample.terms;
    }
    gemm_ref_end(&dx, 1, 0, NULL);
    return dx;
}

gemm_ref token_linear_ref_dw(
    size_t batch, size_t in, size_t out, size_t d, const float *dy, const float *xs)
{
    gemm_ref dw = gemm_ref_begin(out, in);
    for (size_t n = 0; n < batch; n++)
        gemm_ref_add(&dw, false, true, d, dy + n * out * d, xs + n * in * d);
    gemm_ref_end(&dw, 1, 0, NULL);
    return dw;
}

gemm_ref token_linear_ref_db(size_t batch, size_t out, size_t d, const float *dy)
{
    gemm_ref db = gemm_ref_begin(1, out);
    for (size_t i = 0; i < batch * out * d; i++) {
        const size_t q = i / d % out;
        db.want[q] += (double)dy[i];
        db.bound[q] += fabs((double)dy[i]);
    }
    db.terms = batch * d;
    gemm_ref_end(&db, 1, 0, NULL);
    return db;
}
