#include "ref/batch_norm_ref.h"

#include "support/test_compare.h"

void batch_norm_ref_moments(size_t rows, size_t cols, const double *x, double *mean, double *m2)
{
    for (size_t c = 0; c < cols; c++) {
        double sum = 0, squares = 0;
        for (size_t r = 0; r < rows; r++)
            sum += x[r * cols + c];
        mean[c] = rows > 0 ? sum / (double)rows : 0;
        for (size_t r = 0; r < rows; r++)
            squares += (x[r * cols + c] - mean[c]) * (x[r * cols + c] - mean[c]);
        m2[c] = squares;
    }
}

/* If the means of the parts are off by `off`, m2 is off by 2 off sum |part's mean - mean| and by
 * off^2 per row, besides the rounding of its sum. Means of parts are merged up to rows / 8
 * times. */
void batch_norm_ref_moments_bound(
    size_t rows, size_t cols, const double *x, double *mean_bound, double *m2_bound)
{
    const double count = rows > 0 ? (double)rows : 1;
    for (size_t c = 0; c < cols; c++) {
        double most = 0, sum = 0, squares = 0;
        for (size_t r = 0; r < rows; r++) {
            sum += x[r * cols + c];
            most = fmax(most, fabs(x[r * cols + c]));
        }
        for (size_t r = 0; r < rows; r++) {
            const double d = x[r * cols + c] - sum / count;
            squares += d * d;
        }
        const double off = 0x1p-24 * (4 + sqrt(count / 8)) * most;
        mean_bound[c] = off + 0x1p-24 * fabs(sum / count);
        m2_bound[c] = 2 * off * sqrt(count * squares) + count * off * off +
                      test_bound(rows, squares, squares);
    }
}

void batch_norm_ref_z(const batch_norm_ref *bn, size_t rows, const double *x,
    const double *residual, double *z, double *bound)
{
    for (size_t i = 0; i < rows * bn->cols; i++) {
        const size_t c = i % bn->cols;
        const double scaled = bn->gamma[c] * (x[i] - bn->mean[c]) * bn->inv[c];
        const double other = residual != NULL ? residual[i] : 0;
        z[i] = scaled + bn->beta[c] + other;
        if (bound != NULL)
            bound[i] = test_bound(4, fabs(scaled) + fabs(bn->beta[c]) + fabs(other), z[i]);
    }
}

void batch_norm_ref_sums(const batch_norm_ref *bn, size_t rows, const double *x, const double *dz,
    double *dbeta, double *dgamma, double *bound)
{
    for (size_t c = 0; c < bn->cols; c++) {
        double plain = 0, scaled = 0, plain_size = 0, scaled_size = 0;
        for (size_t r = 0; r < rows; r++) {
            const size_t i = r * bn->cols + c;
            const double xhat = (x[i] - bn->mean[c]) * bn->inv[c];
            plain += dz[i];
            scaled += dz[i] * xhat;
            plain_size += fabs(dz[i]);
            scaled_size += fabs(dz[i] * xhat);
        }
        dbeta[c] = plain;
        dgamma[c] = scaled;
        if (bound != NULL) {
            bound[c] = test_bound(rows, plain_size, plain);
            bound[bn->cols + c] = test_bound(rows + 2, scaled_size, scaled);
        }
    }
}

void batch_norm_ref_dx(const batch_norm_ref *bn, size_t count, size_t rows, const double *x,
    const double *dz, const double *dbeta, const double *dgamma, double *dx, double *bound)
{
    for (size_t i = 0; i < rows * bn->cols; i++) {
        const size_t c = i % bn->cols;
        const double xhat = (x[i] - bn->mean[c]) * bn->inv[c], rise = bn->gamma[c] * bn->inv[c];
        const double offset = dbeta[c] / (double)count, slope = xhat * dgamma[c] / (double)count;
        dx[i] = rise * (dz[i] - offset - slope);
        if (bound != NULL)
            bound[i] =
                test_bound(8, fabs(rise) * (fabs(dz[i]) + fabs(offset) + fabs(slope)), dx[i]);
    }
}
