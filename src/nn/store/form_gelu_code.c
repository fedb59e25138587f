/* GELU_CODE: GELU's derivative at x, as codes; see clprune/activation.h. */
#include "nn/layers/activation_private.h"
#include "nn/store/packed_form.h"
#include "runtime/context/fail.h"

static clprune_status settle(clprune_context *context, clprune_keep *keep)
{
    REQUIRE(keep->bits == 2 || keep->bits == 4 || keep->bits == 8, CLPRUNE_INVALID_ARGUMENT,
        "bits is %u, expected 2, 4 or 8", keep->bits);
    return CLPRUNE_SUCCESS;
}

static clprune_status sizes(size_t rows, size_t cols, unsigned bits, size_t *words, size_t *bytes)
{
    return clprune__gelu_code_sizes(NULL, rows, cols, bits, words, bytes);
}

static clprune_status forward(clprune_context *context, unsigned bits, clprune_mat x, clprune_mat y,
    clprune_mat packed, cl_event *event)
{
    return clprune__gelu_code_forward(
        context, CLPRUNE_ACTIVATION_GELU, bits, x, CLPRUNE_NO_MAT, y, packed, event);
}

static clprune_status backward(
    clprune_context *context, unsigned bits, clprune_mat packed, clprune_mat dx, cl_event *event)
{
    return clprune__gelu_code_backward(context, bits, 0.0f, dx, packed, dx, CLPRUNE_NO_MAT, event);
}

static const clprune__packing packing = {sizes, forward, backward};

const clprune__form clprune__form_gelu_code = {.name = "gelu code",
    .settle = settle,
    .sizes = clprune__packed_sizes,
    .mat = clprune__packed_mat,
    .store = clprune__packed_store,
    .restore = clprune__packed_restore,
    .packing = &packing};
