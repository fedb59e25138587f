/* The steps before and after the product of a kernel family: scratch, lists of the kept blocks, and
 * the sum of partial results. */
#include "core/checked.h"
#include "ops/sparse/bspmm_private.h"
#include "runtime/context/fail.h"
#include "runtime/launch/rowwise.h"

static const clprune__kernel_def bspmm_lists_kernel = {"sparse/bspmm_lists.cl", "bspmm_lists"};
static const clprune__kernel_def bspmm_finish_kernel = {"sparse/bspmm_finish.cl", "bspmm_finish"};

clprune_status clprune__bspmm_take_scratch(clprune_context *context, const clprune_bsr *xs,
    const clprune_bsr_sizes *sizes, const clprune__bspmm_plan *plan,
    clprune__bspmm_scratch *scratch)
{
    const clprune_bsr_desc *desc = &xs->desc;
    size_t starts, entries, partial;
    const bool fits = clprune__mul3(desc->batch, plan->segments, sizes->block_cols + 1, &starts) &&
                      clprune__mul3(desc->batch, desc->keep, desc->block.rows, &entries) &&
                      clprune__add(entries, plan->ahead, &entries) &&
                      clprune__mul3(plan->splits, plan->panels, plan->inner, &partial) &&
                      clprune__mul(partial, plan->panel, &partial);
    REQUIRE(fits, CLPRUNE_SIZE_OVERFLOW,
        "the scratch of a product with %zu splits overflows size_t", plan->splits);
    TRY(clprune__scratch_array(context, starts, sizeof(cl_uint), &scratch->starts));
    if (!plan->listless)
        TRY(clprune__scratch_array(context, entries, sizeof(cl_uint2), &scratch->entries));
    return clprune__scratch_array(context, partial, sizeof(float), &scratch->partial);
}

clprune_status clprune__bspmm_list_columns(clprune_context *context, const clprune_bsr *xs,
    const clprune_bsr_sizes *sizes, const clprune__bspmm_plan *plan,
    const clprune__bspmm_scratch *scratch)
{
    const size_t local = clprune__group_size(context, 64);
    const size_t global = xs->desc.batch * plan->segments * local;
    clprune__defines defines = {0};
    clprune__define(&defines, "LOCAL", local);
    clprune__define(&defines, "BR", xs->desc.block.rows);
    clprune__define(&defines, "EVEN_ROWS", scratch->even_rows);
    clprune__launch launch;
    TRY(clprune__launch_begin(context, &bspmm_lists_kernel, &defines, &launch));
    launch.least_group = 1;
    ARG_ULONGS(&launch, xs->desc.rows, sizes->block_cols, sizes->block_rows, plan->segment,
        plan->segments, xs->desc.keep);
    clprune__arg_index(&launch, &scratch->index);
    clprune__arg_region(&launch, scratch->starts);
    clprune__arg_region(&launch, scratch->entries);
    return clprune__launch_enqueue(&launch, 1, &global, &local, NULL);
}

clprune_status clprune__bspmm_finish(clprune_context *context, const clprune__bspmm_plan *plan,
    float alpha, float beta, const clprune__bspmm_scratch *scratch, clprune_mat dw, cl_event *event)
{
    enum { COLS = 64 };
    const size_t local = clprune__group_size(context, 64);
    const size_t strip = local == 1 ? 16 : 8;
    const size_t global =
        clprune__ceil_div(dw.rows, strip) * clprune__ceil_div(dw.cols, COLS) * local;
    clprune__defines defines = {0};
    clprune__define(&defines, "LOCAL", local);
    clprune__define(&defines, "PANEL", plan->panel);
    clprune__define(&defines, "STRIP", strip);
    clprune__define(&defines, "COLS", COLS);
    clprune__launch launch;
    TRY(clprune__launch_begin(context, &bspmm_finish_kernel, &defines, &launch));
    launch.least_group = 1;
    ARG_ULONGS(&launch, dw.rows, dw.cols, plan->inner, plan->panels, plan->splits);
    ARG_FLOATS(&launch, alpha, beta);
    clprune__arg_region(&launch, scratch->partial);
    clprune__arg_mat(&launch, dw);
    return clprune__launch_enqueue(&launch, 1, &global, &local, event);
}
