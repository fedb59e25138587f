/* Reference of GELU. `bound` receives the error bound that the kernels promise in fp32. */
#ifndef CLPRUNE_GELU_REF_H
#define CLPRUNE_GELU_REF_H

#include <stddef.h>

void gelu_ref_forward(size_t count, const double *h, double *g, double *bound);
void gelu_ref_backward(size_t count, const double *h, const double *dg, double *dh, double *bound);

#endif
