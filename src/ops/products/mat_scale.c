/* Products whose sum is empty. */
#include "ops/device/bf16.h"
#include "ops/products/gemm_private.h"
#include "runtime/context/fail.h"
#include "runtime/launch/rowwise.h"
#include "runtime/memory/matrix_private.h"

static const clprune__kernel_def mat_scale_kernel = {"products/fill.cl", "mat_scale"};

clprune_status clprune__scale(clprune_context *context, float beta, clprune_mat c, cl_event *event)
{
    if (beta == 0.0f)
        return clprune__mat_fill(
            context, 0.0f, c.type == CLPRUNE_VALUES_BF16 ? clprune__words_of(c) : c, event);
    const clprune__rowwise plan = clprune__rowwise_plan(context, c.rows, c.cols);
    clprune__launch launch;
    TRY(clprune__rowwise_begin(context, &mat_scale_kernel, &plan, &launch));
    clprune__arg_float(&launch, beta);
    clprune__arg_mat(&launch, c);
    return clprune__rowwise_end(&launch, &plan, event);
}
