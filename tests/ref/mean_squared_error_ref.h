/* Reference of the mean squared error. `*_bound` receives the error bound of fp32. */
#ifndef CLPRUNE_MEAN_SQUARED_ERROR_REF_H
#define CLPRUNE_MEAN_SQUARED_ERROR_REF_H

#include <stddef.h>

/* `each`: elements of a sample. */
void mean_squared_error_ref_forward(size_t batch, size_t each, const double *y,
    const double *target, double *loss, double *loss_bound);
void mean_squared_error_ref_backward(size_t batch, size_t each, double scale, const double *y,
    const double *target, double *dy, double *dy_bound);

#endif
