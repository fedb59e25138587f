#include "ref/relu_ref.h"

#include <math.h>

void relu_ref_forward(size_t count, const double *x, double *y, bool *positive)
{
    for (size_t i = 0; i < count; i++) {
        positive[i] = isnan(x[i]) || x[i] > 0;
        y[i] = positive[i] ? x[i] : 0;
    }
}

void relu_ref_backward(size_t count, const double *dy, const bool *positive, double *dx)
{
    for (size_t i = 0; i < count; i++)
        dx[i] = positive[i] ? dy[i] : 0;
}
