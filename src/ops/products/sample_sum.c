/* The sum of products that were made side by side. */
#include "core/checked.h"
#include "ops/products/gemm_private.h"
#include "runtime/context/context_private.h"
#include "runtime/launch/rowwise.h"

static const clprune__kernel_def sample_sum_kernel = {"products/sample_sum.cl", "sample_sum"};

/* Columns of a work-group, and vectors of a sample that a work-item reads at once, on CPUs. */
enum { CPU_CHUNK = 2048, CPU_STRIP = 4 };
/* GPUs: a vector of 4 for each work-item. */
enum { GPU_LOCAL = 64, GPU_VECTOR = 4 };

clprune_status clprune__sample_sum(clprune_context *context, float beta, size_t samples,
    clprune_mat products, clprune_mat dw, cl_event *event)
{
    if (dw.ld == dw.cols) /* one long row: fewer tails of vectors */
        dw = (clprune_mat){dw.buffer, dw.offset, 1, products.cols, products.cols, dw.type};
    const bool vector = context->kernels == CLPRUNE_KERNELS_VECTOR;
    const size_t local = clprune__group_size(context, GPU_LOCAL);
    const size_t chunk = vector ? CPU_CHUNK : local * GPU_VECTOR;
    const size_t global = dw.rows * clprune__ceil_div(dw.cols, chunk) * local;
    clprune__defines defines = {0};
    clprune__define(&defines, "LOCAL", local);
    clprune__define(&defines, "CHUNK", chunk);
    clprune__define(&defines, "STRIP", vector ? CPU_STRIP : 1);
    clprune__define(&defines, "VW", vector ? 16 : GPU_VECTOR);
    clprune__launch launch;
    TRY(clprune__launch_begin(context, &sample_sum_kernel, &defines, &launch));
    launch.least_group = 1;
    ARG_ULONGS(&launch, samples, dw.rows, dw.cols);
    clprune__arg_float(&launch, beta);
    clprune__arg_region(&launch, (clprune__region){products.buffer, products.offset, sizeof(float),
                                     products.rows * products.cols});
    clprune__arg_mat(&launch, dw);
    return clprune__launch_enqueue(&launch, 1, &global, &local, event);
}
