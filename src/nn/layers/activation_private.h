/* The passes of clprune/relu.h, gelu.h and gelu_code.h within a call: the caller has entered the
 * context. */
#ifndef CLPRUNE_NN_ACTIVATION_PRIVATE_H
#define CLPRUNE_NN_ACTIVATION_PRIVATE_H

#include "clprune/gelu_code.h"
#include "clprune/relu.h"

clprune_status clprune__relu_forward(clprune_context *context, clprune_mat x, clprune_mat b,
    clprune_mat y, clprune_mat mask, cl_event *event);
clprune_status clprune__relu_backward(clprune_context *context, float beta, clprune_mat dy,
    clprune_mat mask, clprune_mat dx, clprune_mat db, cl_event *event);

clprune_status clprune__gelu_forward(
    clprune_context *context, clprune_mat h, clprune_mat b, clprune_mat g, cl_event *event);
clprune_status clprune__gelu_backward(clprune_context *context, float beta, clprune_mat h,
    clprune_mat dg, clprune_mat dh, clprune_mat db, cl_event *event);

clprune_status clprune__gelu_code_forward(clprune_context *context, unsigned bits, clprune_mat h,
    clprune_mat b, clprune_mat g, clprune_mat codes, cl_event *event);
clprune_status clprune__gelu_code_backward(clprune_context *context, unsigned bits, float beta,
    clprune_mat dg, clprune_mat codes, clprune_mat dh, clprune_mat db, cl_event *event);

#endif
