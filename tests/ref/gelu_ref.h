/* Reference of GELU. `bound` receives the error bound that the kernels promise in fp32. */
#ifndef CLPRUNE_GELU_REF_H
#define CLPRUNE_GELU_REF_H

#include <stddef.h>

#include "clprune/activation.h"

void gelu_ref_forward(size_t count, const double *h, double *g, double *bound);
void gelu_ref_backward(size_t count, const double *h, const double *dg, double *dh, double *bound);

/* The same of any activation but ReLU and ReLU6; and both of one number, in double. */
void activation_ref_forward(
    clprune_activation f, size_t count, const double *h, double *g, double *bound);
void activation_ref_backward(clprune_activation f, size_t count, const double *h, const double *dg,
    double *dh, double *bound);
double activation_ref(clprune_activation f, double h, double *slope);

#endif
