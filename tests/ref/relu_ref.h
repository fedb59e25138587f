/* Reference of ReLU. Masks: one bool an element. */
#ifndef CLPRUNE_RELU_REF_H
#define CLPRUNE_RELU_REF_H

#include <stdbool.h>
#include <stddef.h>

/* y = max(x, 0), NaN for NaN; positive: where the gradient passes. */
void relu_ref_forward(size_t count, const double *x, double *y, bool *positive);
void relu_ref_backward(size_t count, const double *dy, const bool *positive, double *dx);

#endif
