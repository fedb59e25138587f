/* Shared by the forms of activation functions. GELU_CODE and MASK keep a few bits of each element,
 * in rows of whole 32-bit words. The forward pass of the function writes them; its backward pass
 * multiplies by the derivative that they encode. Such a form is a clprune__packing. */
#ifndef CLPRUNE_NN_PACKED_FORM_H
#define CLPRUNE_NN_PACKED_FORM_H

#include "nn/store/form.h"

/* bits: clprune_keep.bits. */
struct clprune__packing {
    /* The words of a row, and the bytes of all rows; the text of a failure is in
     * clprune_last_error(NULL). */
    clprune_status (*sizes)(size_t rows, size_t cols, unsigned bits, size_t *words, size_t *bytes);

    /* y = the activation of x; packed = the bits kept of it. */
    clprune_status (*forward)(clprune_context *context, unsigned bits, clprune_mat x, clprune_mat y,
        clprune_mat packed, cl_event *event);

    /* dx = dx * derivative. */
    clprune_status (*backward)(clprune_context *context, unsigned bits, clprune_mat packed,
        clprune_mat dx, cl_event *event);
};

/* The functions of a clprune__form with .packing. */
clprune_status clprune__packed_sizes(
    clprune_context *context, const clprune__kept *kept, clprune_saved_sizes *sizes);
clprune_mat clprune__packed_mat(const clprune__kept *kept, clprune__range range);
clprune_status clprune__packed_store(clprune_context *context, const clprune__kept *kept,
    clprune__range range, clprune__region scores, clprune_mat x, cl_event *event);
clprune_status clprune__packed_restore(clprune_context *context, const clprune__kept *kept,
    clprune__range range, clprune_mat x, cl_event *event);

#endif
