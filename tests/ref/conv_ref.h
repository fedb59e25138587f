/* Reference of convolutions: unfolded images and plain loops in double, from the formulas of
 * clprune/conv2d.h; with groups, of weights that are 0 between them. Results as in gemm_ref; images
 * are channels last, dense. */
#ifndef CLPRUNE_CONV_REF_H
#define CLPRUNE_CONV_REF_H

#include <stdbool.h>

#include "ref/gemm_ref.h"

typedef struct conv_ref {
    size_t batch, in, out;
    size_t height, width;                                 /* of x */
    size_t kernel[2], stride[2], padding[2], dilation[2]; /* vertical, horizontal */
    size_t out_height, out_width;                         /* of y; conv_ref_settle fills them in */
    size_t groups;                                        /* 0: 1 */
    bool fp32;                                            /* operands are not rounded */
} conv_ref;

void conv_ref_settle(conv_ref *r);

gemm_ref conv_ref_forward(const conv_ref *r, const float *x, const float *w, const float *b);
gemm_ref conv_ref_dw(const conv_ref *r, const float *dy, const float *x);
gemm_ref conv_ref_db(const conv_ref *r, const float *dy);
/* + beta * old */
gemm_ref conv_ref_dx(
    const conv_ref *r, const float *dy, const float *w, float beta, const float *old);

#endif
