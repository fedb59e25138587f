/* The norms of blocks. */
#include "core/checked.h"
#include "ops/prune/prune_private.h"
#include "runtime/context/fail.h"
#include "runtime/launch/launch.h"
#include "runtime/launch/rowwise.h"

static const clprune__kernel_def prune_score_kernel = {"prune/prune_score.cl", "prune_score"};

void clprune__score_defines(
    clprune_norm norm, clprune_block block, size_t local, clprune__defines *defines)
{
    clprune__define(defines, "LOCAL", local);
    clprune__define(defines, "VW", clprune__row_vector(block.cols));
    clprune__define(defines, "BR", block.rows);
    clprune__define(defines, "BC", block.cols);
    clprune__define(defines, "NORM", norm);
}

clprune_status clprune__prune_score(clprune_context *context, clprune_norm norm,
    const clprune_bsr_desc *desc, const clprune_bsr_sizes *sizes, clprune_mat x,
    const clprune_mat *centre, clprune__region scores, cl_event *event)
{
    const size_t local = clprune__group_size(context, 32);
    const size_t run = clprune__block_row_run(local, desc);
    const size_t groups = desc->batch * clprune__ceil_div(sizes->block_rows, run);
    const size_t global = sizes->blocks > 0 ? groups * local : 0;
    clprune__defines defines = {0};
    clprune__score_defines(norm, desc->block, local, &defines);
    if (centre != NULL)
        clprune__define(&defines, "CENTRED", 1);
    clprune__launch launch;
    TRY(clprune__launch_begin(context, &prune_score_kernel, &defines, &launch));
    launch.least_group = 1;
    ARG_ULONGS(&launch, desc->rows, desc->cols, sizes->block_rows, run, sizes->block_cols);
    clprune__arg_mat(&launch, x);
    if (centre != NULL)
        clprune__arg_mat(&launch, *centre);
    clprune__arg_region(&launch, scores);
    return clprune__launch_enqueue(&launch, 1, &global, &local, event);
}
