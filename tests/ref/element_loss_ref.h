/* References of the losses of elements. `*_bound` receives the error bound of fp32. */
#ifndef CLPRUNE_ELEMENT_LOSS_REF_H
#define CLPRUNE_ELEMENT_LOSS_REF_H

#include "clprune/element_loss.h"

/* `each`: elements of a sample. */
void element_loss_ref_forward(const clprune_element_loss *desc, size_t batch, size_t each,
    const double *y, const double *target, double *loss, double *loss_bound);
void element_loss_ref_backward(const clprune_element_loss *desc, size_t batch, size_t each,
    double scale, const double *y, const double *target, double *dy, double *dy_bound);

#endif
