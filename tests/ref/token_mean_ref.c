#include "ref/token_mean_ref.h"

#include "support/test_compare.h"

void token_mean_ref_forward(
    size_t batch, size_t tokens, size_t cols, const double *x, double *y, double *bound)
{
    for (size_t n = 0; n < batch; n++) {
        for (size_t c = 0; c < cols; c++) {
            double sum = 0, size = 0;
            for (size_t p = 0; p < tokens; p++) {
                sum += x[(n * tokens + p) * cols + c];
                size += fabs(x[(n * tokens + p) * cols + c]);
            }
            y[n * cols + c] = sum / (double)tokens;
            /* Two roundings more: of 1 / tokens and of the product. */
            if (bound != NULL)
                bound[n * cols + c] =
                    test_bound(tokens, size / (double)tokens, 2 * y[n * cols + c]);
        }
    }
}

void token_mean_ref_backward(
    size_t batch, size_t tokens, size_t cols, const double *dy, double *dx, double *bound)
{
    for (size_t n = 0; n < batch; n++)
        for (size_t p = 0; p < tokens; p++)
            for (size_t c = 0; c < cols; c++) {
                const size_t i = (n * tokens + p) * cols + c;
                dx[i] = dy[n * cols + c] / (double)tokens;
                if (bound != NULL)
                    bound[i] = test_bound(0, 0, 2 * dx[i]);
            }
}
