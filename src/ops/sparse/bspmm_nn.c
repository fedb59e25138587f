/* Dense results from kept blocks. */
#include "clprune/bspmm.h"

#include "ops/products/gemm_private.h"
#include "ops/sparse/bspmm_private.h"
#include "runtime/context/check.h"
#include "runtime/context/context_private.h"
#include "runtime/launch/rowwise.h"

static const clprune__kernel_def bspmm_nn_kernel = {"sparse/bspmm_nn.cl", "bspmm_nn"};

clprune_status clprune_bspmm_nn(clprune_context *context, float alpha, float beta,
    const clprune_bsr *xs, clprune_mat w, clprune_mat y, cl_event *event)
{
    ENTER(context);
    clprune_bsr_sizes sizes;
    SCRATCH_SCOPE(context);
    TRY(clprune__check_bsr(context, xs, &sizes));
    const clprune_bsr_desc *desc = &xs->desc;
    TRY(clprune__check_mat(context, "w", w, desc->cols, w.cols));
    TRY(clprune__check_mat(context, "y", y, desc->batch * desc->rows, w.cols));
    TRY(clprune__check_apart(context, "y", y, "w", w));
    TRY(clprune__check_bsr_apart(context, "y", clprune__bytes_of(y), xs));
    if (alpha == 0.0f || desc->keep == 0 || y.rows == 0 || y.cols == 0)
        return clprune__scale(context, beta, y, event);
    if (context->kernels == CLPRUNE_KERNELS_VECTOR)
        return clprune__multiply_nn_vector(context, alpha, beta, xs, &sizes, w, y, event);
    clprune__region values;
    clprune__index index;
    TRY(clprune__bsr_values(context, xs, &values));
    TRY(clprune__bsr_read_index(context, xs, &sizes, &index));
    const size_t local = clprune__group_size(context, 64);
    const size_t global = desc->batch * sizes.block_rows * local;
    clprune__defines defines = {0};
    clprune__define(&defines, "LOCAL", local);
    clprune__define(&defines, "BR", desc->block.rows);
    clprune__define(&defines, "BC", desc->block.cols);
    clprune__launch launch;
    TRY(clprune__launch_begin(context, &bspmm_nn_kernel, &defines, &launch));
    launch.least_group = 1;
    ARG_ULONGS(&launch, desc->rows, desc->cols, w.cols, sizes.block_rows, desc->keep);
    ARG_FLOATS(&launch, alpha, beta);
    clprune__arg_region(&launch, values);
    clprune__arg_index(&launch, &index);
    ARG_MATS(&launch, w, y);
    clprune__launch_multiplies(
        &launch, CLPRUNE_PRECISION_FP32, clprune__bspmm_multiplications(xs, w.cols));
    return clprune__launch_enqueue(&launch, 1, &global, &local, event);
}
