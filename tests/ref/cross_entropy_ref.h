/* Reference of softmax cross-entropy. `*_bound` receives the error bound of fp32. */
#ifndef CLPRUNE_CROSS_ENTROPY_REF_H
#define CLPRUNE_CROSS_ENTROPY_REF_H

#include <stddef.h>
#include <stdint.h>

void cross_entropy_ref_forward(size_t batch, size_t classes, double smoothing, const double *logits,
    const int32_t *labels, double *log_p, double *log_p_bound, double *loss, double *loss_bound,
    double *hit);
void cross_entropy_ref_backward(size_t batch, size_t classes, double smoothing, double scale,
    const double *log_p, const int32_t *labels, double *dlogits, double *bound);

#endif
