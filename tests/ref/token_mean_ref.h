/* Reference of the mean over tokens. `bound` receives the error bound of fp32; may be NULL. */
#ifndef CLPRUNE_TOKEN_MEAN_REF_H
#define CLPRUNE_TOKEN_MEAN_REF_H

#include <stddef.h>

void token_mean_ref_forward(
    size_t batch, size_t tokens, size_t cols, const double *x, double *y, double *bound);
void token_mean_ref_backward(
    size_t batch, size_t tokens, size_t cols, const double *dy, double *dx, double *bound);

#endif
