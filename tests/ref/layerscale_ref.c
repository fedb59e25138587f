#include "ref/layerscale_ref.h"

#include "support/test_compare.h"

void layerscale_ref_forward(size_t rows, size_t cols, const double *x, const double *t,
    const double *ls, double *y, double *bound)
{
    for (size_t i = 0; i < rows * cols; i++) {
        const double branch = ls[i % cols] * t[i];
        y[i] = x[i] + branch;
        if (bound != NULL)
            bound[i] = test_bound(2, fabs(x[i]) + fabs(branch), y[i]);
    }
}

void layerscale_ref_dt(
    size_t rows, size_t cols, const double *ls, const double *dy, double *dt, double *bound)
{
    for (size_t i = 0; i < rows * cols; i++) {
        dt[i] = ls[i % cols] * dy[i];
        if (bound != NULL)
            bound[i] = test_bound(0, 0, dt[i]);
    }
}

void layerscale_ref_dls(
    size_t rows, size_t cols, const double *t, const double *dy, double *dls, double *bound)
{
    for (size_t c = 0; c < cols; c++) {
        double sum = 0, size = 0;
        for (size_t r = 0; r < rows; r++) {
            sum += t[r * cols + c] * dy[r * cols + c];
            size += fabs(t[r * cols + c] * dy[r * cols + c]);
        }
        dls[c] = sum;
        if (bound != NULL)
            bound[c] = test_bound(rows, size, sum);
    }
}

void layerscale_ref_product(size_t rows, size_t cols, const double *w, const double *b,
    const double *product, const double *sums, double *dls, double *bound)
{
    for (size_t r = 0; r < rows; r++) {
        double sum = b[r] * sums[r], size = fabs(sum);
        for (size_t c = 0; c < cols; c++) {
            sum += w[r * cols + c] * product[r * cols + c];
            size += fabs(w[r * cols + c] * product[r * cols + c]);
        }
        dls[r] = sum;
        if (bound != NULL)
            bound[r] = test_bound(cols + 1, size, sum);
    }
}
