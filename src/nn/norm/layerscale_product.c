/* LayerScale after a linear layer, without storing the output of the linear layer. */
#include "clprune/layerscale.h"
#include "nn/norm/scale_weights.h"
#include "runtime/context/check.h"
#include "runtime/launch/rowwise.h"

static const clprune__kernel_def layerscale_weights_kernel = {
    "norm/layerscale_product.cl", "layerscale_weights"};
static const clprune__kernel_def layerscale_product_kernel = {
    "norm/layerscale_product.cl", "layerscale_product"};

clprune_status clprune_layerscale_weights(
    clprune_context *context, clprune_mat ls, clprune_mat w, clprune_mat scaled, cl_event *event)
{
    ENTER(context);
    return clprune__scale_weights(
        context, &layerscale_weights_kernel, "ls", ls, w.rows, w, scaled, event);
}

/* Forward: y = x + ls * (g * w^T + b). */
clprune_status clprune_layerscale_backward_product(clprune_context *context, float beta,
    clprune_mat w, clprune_mat b, clprune_mat ls, clprune_mat dls, clprune_mat dw, clprune_mat db,
    cl_event *event)
{
    ENTER_CONTEXT(context);
    enum { INPUTS = 3, ALL = 6 };
    const clprune__operand operands[ALL] = {{"w", w, w.rows, w.cols}, {"b", b, 1, w.rows},
        {"ls", ls, 1, w.rows}, {"dls", dls, 1, w.rows}, {"dw", dw, w.rows, w.cols},
        {"db", db, 1, w.rows}};
    TRY(clprune__check_operands(context, operands, INPUTS, ALL));
    const clprune__rowwise plan = clprune__team_plan(context, w.rows, w.cols);
    clprune__launch launch;
    TRY(clprune__rowwise_begin(context, &layerscale_product_kernel, &plan, &launch));
    clprune__arg_float(&launch, beta);
    for (size_t i = 0; i < ALL; i++)
        clprune__arg_mat(&launch, operands[i].mat);
    return clprune__rowwise_end(&launch, &plan, event);
}
