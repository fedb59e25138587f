#include "ref/linear_ref.h"

/* Feature i of row p in sample n of a tensor with `side` features. */
static size_t at(const linear_ref *r, size_t side, size_t n, size_t p, size_t i)
{
    return r->tokens ? (n * side + i) * r->rows + p : (n * r->rows + p) * side + i;
}

/* A result of the size of x or y, which have so many features. */
static gemm_ref begin(const linear_ref *r, size_t side)
{
    return r->tokens ? gemm_ref_begin(r->batch * side, r->rows)
                     : gemm_ref_begin(r->batch * r->rows, side);
}

/* y = x w^T and its gradients: of x, w and y one is NULL, and gets the products of the others. */
static void add_products(
    gemm_ref *to, const linear_ref *r, const float *x, const float *w, const float *y)
{
    x = x == NULL ? NULL : gemm_ref_operands(x, r->batch * r->rows * r->in);
    w = w == NULL ? NULL : gemm_ref_operands(w, r->out * r->in);
    y = y == NULL ? NULL : gemm_ref_operands(y, r->batch * r->rows * r->out);
    for (size_t n = 0; n < r->batch; n++)
        for (size_t p = 0; p < r->rows; p++)
            for (size_t o = 0; o < r->out; o++)
                for (size_t i = 0; i < r->in; i++) {
                    const size_t in_x = at(r, r->in, n, p, i), in_w = o * r->in + i;
                    const size_t in_y = at(r, r->out, n, p, o);
                    if (x == NULL)
                        gemm_ref_term(to, in_x, (double)w[in_w] * (double)y[in_y]);
                    else if (w == NULL)
                        gemm_ref_term(to, in_w, (double)x[in_x] * (double)y[in_y]);
                    else
                        gemm_ref_term(to, in_y, (double)x[in_x] * (double)w[in_w]);
                }
}

gemm_ref linear_ref_forward(const linear_ref *r, const float *x, const float *w, const float *b)
{
    gemm_ref y = begin(r, r->out);
    add_products(&y, r, x, w, NULL);
    for (size_t i = 0; b != NULL && i < y.m * y.n; i++)
        gemm_ref_term(&y, i, (double)b[r->tokens ? i / r->rows % r->out : i % r->out]);
    y.terms = r->in + (b != NULL);
    gemm_ref_end(&y, 1, 0, NULL);
    return y;
}

gemm_ref linear_ref_dx(
    const linear_ref *r, const float *dy, const float *w, float beta, const float *old)
{
    gemm_ref dx = begin(r, r->in);
    add_products(&dx, r, NULL, w, dy);
    dx.terms = r->out;
    gemm_ref_end(&dx, 1, beta, old);
    return dx;
}

gemm_ref linear_ref_dw(const linear_ref *r, const float *dy, const float *xs)
{
    gemm_ref dw = gemm_ref_begin(r->out, r->in);
    add_products(&dw, r, xs, NULL, dy);
    dw.terms = r->batch * r->rows;
    gemm_ref_end(&dw, 1, 0, NULL);
    return dw;
}

gemm_ref linear_ref_db(const linear_ref *r, const float *dy)
{
    gemm_ref db = gemm_ref_begin(1, r->out);
    for (size_t i = 0; i < r->batch * r->rows * r->out; i++)
        gemm_ref_term(&db, r->tokens ? i / r->rows % r->out : i % r->out, (double)dy[i]);
    db.terms = r->batch * r->rows;
    gemm_ref_end(&db, 1, 0, NULL);
    return db;
}
