#include "nn/tokens/int_range.h"

#include "runtime/context/check.h"
#include "runtime/launch/rowwise.h"

static const clprune__kernel_def int_range_kernel = {"tokens/int_range.cl", "int_range"};

clprune_status clprune__int_range(clprune_context *context, size_t rows, size_t limit,
    int32_t ignored, clprune_ints ints, clprune_ints record, clprune_mat poison)
{
    clprune__rowwise plan = clprune__rowwise_plan(context, 1, 1);
    plan.global = plan.local;
    clprune__launch launch;
    TRY(clprune__launch_begin(context, &int_range_kernel, &plan.defines, &launch));
    launch.least_group = 1;
    ARG_ULONGS(&launch, rows, limit);
    clprune__arg_uint(&launch, (uint32_t)ignored);
    clprune__arg_ints(&launch, ints);
    clprune__arg_ints(&launch, record);
    clprune__arg_mat(&launch, poison);
    return clprune__rowwise_end(&launch, &plan, NULL);
}
