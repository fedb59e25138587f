/* Reference of the mean over tokens. `bound` is what fp32 may be off by; NULL where not wanted. */
#ifndef CLPRUNE_TOKEN_MEAN_REF_H
#define CLPRUNE_TOKEN_MEAN_REF_H

#include <stddef.h>

void token_mean_ref_forward(
    size_t batch, size_t tokens, size_t cols, const double *x, double *y, double *bound);
void token_mean_ref_backward(
    size_t batch, size_t tokens, size_t cols, const double *dy, double *dx, double *bound);

#endif
