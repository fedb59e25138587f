/* MASK: one bit an element, set where x is positive or NaN; see clprune/relu.h. */
#include "clprune/relu.h"
#include "nn/layers/activation_private.h"
#include "nn/store/packed_form.h"

static clprune_status sizes(size_t rows, size_t cols, unsigned bits, size_t *words, size_t *bytes)
{
    clprune_relu_mask_sizes mask;
    const clprune_status status = clprune_relu_mask_size_query(rows, cols, &mask);
    (void)bits;
    *words = mask.cols;
    *bytes = mask.bytes;
    return status;
}

static clprune_status forward(clprune_context *context, unsigned bits, clprune_mat x, clprune_mat y,
    clprune_mat packed, cl_event *event)
{
    (void)bits;
    return clprune__relu_forward(
        context, CLPRUNE_ACTIVATION_RELU, x, CLPRUNE_NO_MAT, y, packed, event);
}

static clprune_status backward(
    clprune_context *context, unsigned bits, clprune_mat packed, clprune_mat dx, cl_event *event)
{
    (void)bits;
    return clprune__relu_backward(context, 0.0f, dx, packed, dx, CLPRUNE_NO_MAT, event);
}

static const clprune__packing packing = {sizes, forward, backward};

const clprune__form clprune__form_mask = {.name = "mask",
    .sizes = clprune__packed_sizes,
    .mat = clprune__packed_mat,
    .store = clprune__packed_store,
    .restore = clprune__packed_restore,
    .packing = &packing};
