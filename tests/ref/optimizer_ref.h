/* Reference of the optimizers: one step of one tensor. */
#ifndef CLPRUNE_OPTIMIZER_REF_H
#define CLPRUNE_OPTIMIZER_REF_H

#include <stddef.h>
#include <stdint.h>

#include "clprune/optimizer.h"

/* In: the gradient g, and p, m, v before step t (from 1). Out: p, m, v after it, and their error
 * bounds in fp32. SGD has no m; without momentum no v. */
typedef struct optimizer_ref {
    size_t count;
    double *g, *p, *m, *v;
    double *p_bound, *m_bound, *v_bound;
} optimizer_ref;

/* Of these values, in new arrays; m and v begin with zeros where they are NULL. */
optimizer_ref optimizer_ref_make(
    size_t count, const float *g, const float *p, const float *m, const float *v);

void optimizer_ref_step(const clprune_optimizer_desc *desc, uint64_t t, double lr, int decay,
    const optimizer_ref *tensor);

#endif
