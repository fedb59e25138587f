#include "ref/affine_ref.h"

#include "support/test_compare.h"

void affine_ref_forward(size_t rows, size_t cols, const double *x, const double *alpha,
    const double *beta, double *y, double *bound)
{
    for (size_t r = 0; r < rows; r++) {
        for (size_t c = 0; c < cols; c++) {
            const double product = alpha[c] * x[r * cols + c];
            y[r * cols + c] = product + beta[c];
            if (bound != NULL)
                bound[r * cols + c] = test_bound(2, fabs(product) + fabs(beta[c]), y[r * cols + c]);
        }
    }
}

void affine_ref_dx(size_t rows, size_t cols, const double *alpha, const double *dy,
    const double *before, double *dx, double *bound)
{
    for (size_t r = 0; r < rows; r++) {
        for (size_t c = 0; c < cols; c++) {
            const size_t i = r * cols + c;
            const double old = before != NULL ? before[i] : 0;
            dx[i] = old + alpha[c] * dy[i];
            if (bound != NULL)
                bound[i] = test_bound(2, fabs(alpha[c] * dy[i]) + fabs(old), dx[i]);
        }
    }
}

void affine_ref_dalpha(
    size_t rows, size_t cols, const double *x, const double *dy, double *dalpha, double *bound)
{
    for (size_t c = 0; c < cols; c++) {
        double sum = 0, size = 0;
        for (size_t r = 0; r < rows; r++) {
            sum += x[r * cols + c] * dy[r * cols + c];
            size += fabs(x[r * cols + c] * dy[r * cols + c]);
        }
        dalpha[c] = sum;
        if (bound != NULL)
            bound[c] = test_bound(rows, size, sum);
    }
}

void affine_ref_dbeta(size_t rows, size_t cols, const double *dy, double *dbeta, double *bound)
{
    for (size_t c = 0; c < cols; c++) {
        double sum = 0, size = 0;
        for (size_t r = 0; r < rows; r++) {
            sum += dy[r * cols + c];
            size += fabs(dy[r * cols + c]);
        }
        dbeta[c] = sum;
        if (bound != NULL)
            bound[c] = test_bound(rows, size, sum);
    }
}

void affine_ref_product(size_t rows, size_t cols, const double *alpha, const double *beta,
    const double *centre, const double *product, const double *sums, double *dw, double *bound)
{
    for (size_t i = 0; i < rows * cols; i++) {
        const size_t c = i % cols;
        const double sum = sums[i / cols], scaled = alpha[c] * product[i];
        dw[i] = scaled + (beta[c] + alpha[c] * centre[c]) * sum;
        const double size = fabs(scaled) + (fabs(beta[c]) + fabs(alpha[c] * centre[c])) * fabs(sum);
        if (bound != NULL)
            bound[i] = test_bound(3, size, dw[i]);
    }
}

void affine_ref_product_dalpha(size_t rows, size_t cols, const double *w, const double *centre,
    const double *product, const double *sums, double *dalpha, double *bound)
{
    for (size_t c = 0; c < cols; c++) {
        double sum = 0, size = 0;
        for (size_t r = 0; r < rows; r++) {
            const double shift = centre[c] * sums[r], p = product[r * cols + c];
            sum += w[r * cols + c] * (p + shift);
            size += fabs(w[r * cols + c]) * (fabs(p) + fabs(shift));
        }
        dalpha[c] = sum;
        if (bound != NULL)
            bound[c] = test_bound(2 * rows, size, sum);
    }
}

void affine_ref_product_dbeta(
    size_t rows, size_t cols, const double *w, const double *sums, double *dbeta, double *bound)
{
    for (size_t c = 0; c < cols; c++) {
        double sum = 0, size = 0;
        for (size_t r = 0; r < rows; r++) {
            sum += w[r * cols + c] * sums[r];
            size += fabs(w[r * cols + c] * sums[r]);
        }
        dbeta[c] = sum;
        if (bound != NULL)
            bound[c] = test_bound(rows, size, sum);
    }
}
