/* Gradients of a convolution and its batch norm, without storing the output of the convolution. */
#include "clprune/batch_norm.h"
#include "runtime/context/check.h"
#include "runtime/launch/rowwise.h"

static const clprune__kernel_def batch_norm_product_kernel = {
    "norm/batch_norm_product.cl", "batch_norm_product"};

/* Forward: y = relu(gamma * (x - mean) * inv + beta), x = patches * w^T. */
clprune_status clprune_batch_norm_backward_product(clprune_context *context, size_t rows,
    float beta, const clprune_batch_norm *bn, const clprune_batch_norm_products *in, clprune_mat dw,
    clprune_mat dgamma, cl_event *event)
{
    ENTER_CONTEXT(context);
    REQUIRE(bn != NULL, CLPRUNE_INVALID_ARGUMENT, "bn is NULL");
    enum { INPUTS = 7, ALL = 9 };
    REQUIRE(in != NULL, CLPRUNE_INVALID_ARGUMENT, "in is NULL");
    const size_t channels = in->w.rows, cols = in->w.cols;
    const clprune__operand operands[ALL] = {{"mean", bn->mean, 1, channels},
        {"inv", bn->inv, 1, channels}, {"gamma", bn->gamma, 1, channels},
        {"w", in->w, channels, cols}, {"patch_sum", in->patch_sum, 1, cols},
        {"x_product", in->x_product, channels, cols}, {"dz_sum", in->dz_sum, 1, channels},
        {"dw", dw, channels, cols}, {"dgamma", dgamma, 1, channels}};
    TRY(clprune__check_operands(context, operands, INPUTS, ALL));
    clprune__rowwise plan = clprune__team_plan(context, channels, cols);
    clprune__launch launch;
    TRY(clprune__rowwise_begin(context, &batch_norm_product_kernel, &plan, &launch));
    ARG_FLOATS(&launch, rows > 0 ? 1 / (float)rows : 0.0f, beta);
    for (size_t i = 0; i < ALL; i++)
        clprune__arg_mat(&launch, operands[i].mat);
    return clprune__rowwise_end(&launch, &plan, event);
}
