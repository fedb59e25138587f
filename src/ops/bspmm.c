#include "clprune/bspmm.h"

#include <stdio.h>

#include "core/checked.h"
#include "ops/bsr_private.h"
#include "ops/gemm_private.h"
#include "runtime/check.h"
#include "runtime/context_private.h"
#include "runtime/launch.h"

/* Most rows of a segment: a panel of so many rows of dy stays near the core of a CPU. */
#define MAX_SEGMENT_ROWS 256
/* Columns of dy that nt holds transposed at a time. */
#define CHUNK_COLS 32
/* Outputs of a group of the tiled kernels, and its widest tile. */
#define TILED_PANEL 64
#define TILED_COLS  16
/* Groups that keep one compute unit busy to the end; tn's vector kernel has equal ones. */
#define GROUPS_PER_UNIT    8
#define TN_GROUPS_PER_UNIT 4
/* Bytes of a panel of dy beside which values and results fit a CPU's first-level cache, and of the
 * partial results that its second-level cache holds. */
#define PANEL_BYTES   (40 << 10)
#define RESULTS_BYTES (768 << 10)
/* Rows between the prefetch of a value and its use; list entries to spare for it. */
#define AHEAD 32

/* A product that is summed in `splits` partial results of panels x inner x panel floats. */
typedef struct partial_plan {
    size_t vectors, tile; /* of the vector kernels: V, and CB (tn) or P (nt) */
    size_t panel, panels; /* outputs of a panel; ceil(outputs / panel) */
    size_t inner;         /* columns (tn, padded) or rows (nt) of a panel */
    size_t splits;        /* the batch is cut into this many runs of samples */
    size_t segment;       /* rows of a segment of the column lists */
    size_t segments;      /* of a sample; 0: no column lists are made */
    size_t panel_run;     /* of tn's vector kernel: panels that a group takes in turn */
} partial_plan;

/* The scratch of a product; offsets in elements of each part. */
typedef struct product_scratch {
    cl_mem starts, entries, partial;
    size_t starts_offset, entries_offset, partial_offset;
} product_scratch;

static size_t largest_divisor(size_t n, size_t limit)
{
    for (size_t d = clprune__min(n, limit); d > 1; d--)
        if (n % d == 0)
            return d;
    return 1;
}

/* Runs of samples, so that there are groups enough for every compute unit. */
static size_t choose_splits(size_t wanted, size_t groups, size_t batch)
{
    return clprune__max(1, clprune__min(batch, clprune__ceil_div(wanted, clprune__max(groups, 1))));
}

static clprune_status take_scratch(clprune_context *context, const clprune_bsr *xs,
    const clprune_bsr_sizes *sizes, const partial_plan *plan, product_scratch *scratch)
{
    clprune_status status = CLPRUNE_SUCCESS;
    const clprune_bsr_desc *desc = &xs->desc;
    size_t starts, entries, partial;
    const size_t listed = plan->segments > 0 ? desc->keep : 0;
    const bool fits = clprune__mul3(desc->batch, plan->segments, sizes->block_cols + 1, &starts) &&
                      clprune__mul(starts, sizeof(cl_uint), &starts) &&
                      clprune__mul3(desc->batch, listed, desc->block.rows, &entries) &&
                      clprune__add(entries, AHEAD, &entries) &&
                      clprune__mul(entries, sizeof(cl_uint2), &entries) &&
                      clprune__mul3(plan->splits, plan->panels, plan->inner, &partial) &&
                      clprune__mul3(partial, plan->panel, sizeof(float), &partial);
    REQUIRE(fits, CLPRUNE_SIZE_OVERFLOW, "scratch of a product with %zu splits", plan->splits);
    TRY(clprune__scratch_take(context, starts, &scratch->starts, &scratch->starts_offset));
    TRY(clprune__scratch_take(context, entries, &scratch->entries, &scratch->entries_offset));
    TRY(clprune__scratch_take(context, partial, &scratch->partial, &scratch->partial_offset));
    scratch->starts_offset /= sizeof(cl_uint);
    scratch->entries_offset /= sizeof(cl_uint2);
    scratch->partial_offset /= sizeof(float);
done:
    return status;
}

static void arg_starts(clprune__launch *launch, const product_scratch *scratch)
{
    clprune__arg_ulong(launch, scratch->starts_offset);
    clprune__arg_mem(launch, scratch->starts);
    clprune__arg_ulong(launch, scratch->entries_offset);
    clprune__arg_mem(launch, scratch->entries);
}

static void arg_partial(clprune__launch *launch, const product_scratch *scratch)
{
    clprune__arg_ulong(launch, scratch->partial_offset);
    clprune__arg_mem(launch, scratch->partial);
}

/* Enqueues bspmm_lists: the kept blocks by block column. */
static clprune_status list_columns(clprune_context *context, const clprune_bsr *xs,
    const clprune_bsr_sizes *sizes, const partial_plan *plan, const product_scratch *scratch)
{
    clprune_status status = CLPRUNE_SUCCESS;
    const size_t local = clprune__group_size(context, 64);
    const size_t global = xs->desc.batch * plan->segments * local;
    char defines[96];
    (void)snprintf(defines, sizeof defines, "-DLOCAL=%u -DBR=%zu -DSEG=%zu", (unsigned)local,
        xs->desc.block.rows, plan->segment);
    clprune__launch launch;
    TRY(clprune__launch_begin(context, CLPRUNE__BSPMM_LISTS, defines, &launch));
    clprune__arg_ulong(&launch, xs->desc.rows);
    clprune__arg_ulong(&launch, sizes->block_cols);
    clprune__arg_ulong(&launch, sizes->block_rows);
    clprune__arg_ulong(&launch, plan->segments);
    clprune__arg_ulong(&launch, xs->desc.keep);
    clprune__arg_mem(&launch, xs->crow);
    clprune__arg_mem(&launch, xs->col);
    arg_starts(&launch, scratch);
    TRY(clprune__launch_enqueue(&launch, 1, &global, &local, NULL));
done:
    return status;
}

/* Enqueues bspmm_finish: dw = alpha * (sum of the partial results) + beta * dw. A plan without
 * splits scales dw. */
static clprune_status finish(clprune_context *context, const partial_plan *plan, float alpha,
    float beta, const product_scratch *scratch, clprune_mat dw, cl_event *event)
{
    clprune_status status = CLPRUNE_SUCCESS;
    enum { STRIP = 16, COLS = 64 };
    const size_t local[2] = {clprune__group_size(context, 32), 1};
    const size_t global[2] = {
        clprune__ceil_div(dw.rows, STRIP) * local[0], clprune__ceil_div(dw.cols, COLS)};
    char defines[128];
    (void)snprintf(defines, sizeof defines,
        "-DLOCAL=%u -DPANEL=%zu -DSTRIP=%d -DCOLS=%d -DREAD_DW=%d", (unsigned)local[0], plan->panel,
        STRIP, COLS, beta != 0.0f);
    clprune__launch launch;
    TRY(clprune__launch_begin(context, CLPRUNE__BSPMM_FINISH, defines, &launch));
    clprune__arg_ulong(&launch, dw.rows);
    clprune__arg_ulong(&launch, dw.cols);
    clprune__arg_ulong(&launch, plan->inner);
    clprune__arg_ulong(&launch, plan->panels);
    clprune__arg_ulong(&launch, plan->splits);
    clprune__arg_float(&launch, alpha);
    clprune__arg_float(&launch, beta);
    arg_partial(&launch, scratch);
    clprune__arg_mat(&launch, dw);
    TRY(clprune__launch_enqueue(&launch, 2, global, local, event));
done:
    return status;
}

/* dw = beta * dw, where there is nothing to sum. */
static clprune_status scale_only(
    clprune_context *context, float beta, clprune_mat dw, cl_event *event)
{
    clprune_status status = CLPRUNE_SUCCESS;
    clprune__scratch_mark mark = clprune__scratch_begin(context);
    if (beta == 0.0f) {
        TRY(clprune_mat_fill(context, 0.0f, dw, event));
        goto done;
    }
    const partial_plan nothing = {.panel = 16, .panels = 0, .inner = 0, .splits = 0};
    product_scratch scratch = {0};
    TRY(clprune__scratch_take(context, 1, &scratch.partial, &scratch.partial_offset));
    TRY(finish(context, &nothing, 0.0f, beta, &scratch, dw, event));
done:
    clprune__scratch_end(context, mark);
    return status;
}

/* tn's vector kernel: panels of dy that fit the first-level cache; a group takes several of them in
 * turn where there are groups enough, and their results fit the second-level cache. */
static partial_plan plan_tn_vector(const clprune_context *context, const clprune_bsr *xs,
    const clprune_bsr_sizes *sizes, size_t outputs)
{
    const size_t bc = xs->desc.block.cols, rows = xs->desc.rows;
    const size_t wanted = (size_t)context->compute_units * TN_GROUPS_PER_UNIT;
    partial_plan plan = {.inner = sizes->block_cols * bc};
    plan.tile = largest_divisor(bc, 8);
    plan.vectors = clprune__choose_vectors(outputs, plan.tile);
    plan.panel = 16 * plan.vectors;
    plan.panels = clprune__ceil_div(outputs, plan.panel);
    const size_t fits = clprune__panel_rows(context, MAX_SEGMENT_ROWS, plan.panel);
    const size_t near = clprune__max(1, PANEL_BYTES / (plan.panel * sizeof(float)));
    plan.segment = clprune__ceil_div(rows, clprune__ceil_div(rows, clprune__min(fits, near)));
    plan.segments = clprune__ceil_div(rows, plan.segment);
    const size_t results = plan.inner * plan.panel * sizeof(float);
    plan.panel_run = clprune__max(1, clprune__min(plan.panels / wanted, RESULTS_BYTES / results));
    plan.splits =
        choose_splits(wanted, clprune__ceil_div(plan.panels, plan.panel_run), xs->desc.batch);
    return plan;
}

static partial_plan plan_tn_tiled(const clprune_context *context, const clprune_bsr *xs,
    const clprune_bsr_sizes *sizes, size_t outputs)
{
    const size_t bc = xs->desc.block.cols;
    partial_plan plan = {.inner = sizes->block_cols * bc};
    plan.tile = clprune__min(bc, TILED_COLS);
    plan.panel = TILED_PANEL;
    plan.panels = clprune__ceil_div(outputs, plan.panel);
    plan.splits = choose_splits((size_t)context->compute_units * GROUPS_PER_UNIT,
        plan.panels * sizes->block_cols * clprune__ceil_div(bc, plan.tile), xs->desc.batch);
    plan.segment = MAX_SEGMENT_ROWS;
    plan.segments = clprune__ceil_div(xs->desc.rows, plan.segment);
    return plan;
}

/* The arguments that the two kernels of tn share, in two runs. */
static void arg_tn_sizes(clprune__launch *launch, const partial_plan *plan, clprune_mat dy,
    const clprune_bsr *xs, const clprune_bsr_sizes *sizes)
{
    clprune__arg_ulong(launch, xs->desc.batch);
    clprune__arg_ulong(launch, xs->desc.rows);
    clprune__arg_ulong(launch, dy.cols);
    clprune__arg_ulong(launch, sizes->block_cols);
    clprune__arg_ulong(launch, plan->segments);
    clprune__arg_ulong(launch, xs->desc.keep);
}

static void arg_tn_operands(
    clprune__launch *launch, clprune_mat dy, const clprune_bsr *xs, const product_scratch *scratch)
{
    clprune__arg_mat(launch, dy);
    clprune__arg_mem(launch, xs->values);
    arg_starts(launch, scratch);
    arg_partial(launch, scratch);
}

static clprune_status multiply_tn_vector(clprune_context *context, const partial_plan *plan,
    clprune_mat dy, const clprune_bsr *xs, const clprune_bsr_sizes *sizes,
    const product_scratch *scratch)
{
    clprune_status status = CLPRUNE_SUCCESS;
    const clprune_block block = xs->desc.block;
    const size_t local[2] = {1, 1};
    const size_t global[2] = {clprune__ceil_div(plan->panels, plan->panel_run), plan->splits};
    char defines[128];
    (void)snprintf(defines, sizeof defines,
        "-DV=%zu -DCB=%zu -DBC=%zu -DBR=%zu -DSEG=%zu -DAHEAD=%d", plan->vectors, plan->tile,
        block.cols, block.rows, plan->segment, AHEAD);
    clprune__launch launch;
    TRY(clprune__launch_begin(context, CLPRUNE__BSPMM_TN_VECTOR, defines, &launch));
    arg_tn_sizes(&launch, plan, dy, xs, sizes);
    clprune__arg_ulong(&launch, plan->panels);
    clprune__arg_ulong(&launch, plan->panel_run);
    arg_tn_operands(&launch, dy, xs, scratch);
    TRY(clprune__launch_enqueue(&launch, 2, global, local, NULL));
done:
    return status;
}

static clprune_status multiply_tn_tiled(clprune_context *context, const partial_plan *plan,
    clprune_mat dy, const clprune_bsr *xs, const clprune_bsr_sizes *sizes,
    const product_scratch *scratch)
{
    clprune_status status = CLPRUNE_SUCCESS;
    const clprune_block block = xs->desc.block;
    const size_t local[3] = {TILED_PANEL, 1, 1};
    const size_t global[3] = {plan->panels * TILED_PANEL,
        sizes->block_cols * clprune__ceil_div(block.cols, plan->tile), plan->splits};
    char defines[128];
    (void)snprintf(defines, sizeof defines, "-DBC=%zu -DBR=%zu -DSEG=%zu -DCT=%zu", block.cols,
        block.rows, plan->segment, plan->tile);
    clprune__launch launch;
    TRY(clprune__launch_begin(context, CLPRUNE__BSPMM_TN_TILED, defines, &launch));
    arg_tn_sizes(&launch, plan, dy, xs, sizes);
    arg_tn_operands(&launch, dy, xs, scratch);
    TRY(clprune__launch_enqueue(&launch, 3, global, local, NULL));
done:
    return status;
}

clprune_status clprune_bspmm_tn(clprune_context *context, float alpha, float beta, clprune_mat dy,
    const clprune_bsr *xs, clprune_mat dw, cl_event *event)
{
    clprune_status status = CLPRUNE_SUCCESS;
    clprune_bsr_sizes sizes;
    clprune__scratch_mark mark = {0, 0};
    bool open = false;
    TRY(clprune__check_bsr(context, xs, &sizes));
    TRY(clprune__check_mat(context, "dy", dy, xs->desc.batch * xs->desc.rows, dy.cols));
    TRY(clprune__check_mat(context, "dw", dw, dy.cols, xs->desc.cols));
    TRY(clprune__check_apart(context, "dw", dw, "dy", dy));
    TRY(clprune__check_bsr_apart(context, "dw", dw, xs, &sizes));
    if (xs->desc.batch == 0 || xs->desc.keep == 0 || dw.rows == 0 || dw.cols == 0)
        return scale_only(context, beta, dw, event);
    const bool vector = context->kernels == CLPRUNE_KERNELS_VECTOR;
    const partial_plan plan = vector ? plan_tn_vector(context, xs, &sizes, dy.cols)
                                     : plan_tn_tiled(context, xs, &sizes, dy.cols);
    mark = clprune__scratch_begin(context);
    open = true;
    product_scratch scratch;
    TRY(take_scratch(context, xs, &sizes, &plan, &scratch));
    TRY(list_columns(context, xs, &sizes, &plan, &scratch));
    TRY(vector ? multiply_tn_vector(context, &plan, dy, xs, &sizes, &scratch)
               : multiply_tn_tiled(context, &plan, dy, xs, &sizes, &scratch));
    TRY(finish(context, &plan, alpha, beta, &scratch, dw, event));
done:
    if (open)
        clprune__scratch_end(context, mark);
    return status;
}

static partial_plan plan_nt(const clprune_context *context, const clprune_bsr *xs, size_t outputs)
{
    partial_plan plan = {.inner = xs->desc.rows};
    size_t groups;
    if (context->kernels == CLPRUNE_KERNELS_VECTOR) {
        plan.tile = 4;
        plan.vectors = clprune__choose_vectors(outputs, plan.tile);
        plan.panel = 16 * plan.vectors;
        plan.panels = groups = clprune__ceil_div(outputs, plan.panel);
    } else {
        plan.panel = TILED_PANEL;
        plan.panels = clprune__ceil_div(outputs, plan.panel);
        groups = plan.panels * xs->desc.rows;
    }
    plan.splits =
        choose_splits((size_t)context->compute_units * GROUPS_PER_UNIT, groups, xs->desc.batch);
    plan.segment = MAX_SEGMENT_ROWS; /* here only the rows of a list entry count from its start */
    if (context->kernels == CLPRUNE_KERNELS_VECTOR) /* the tiled kernel walks the rows itself */
        plan.segments = clprune__ceil_div(xs->desc.rows, plan.segment);
    return plan;
}

static clprune_status multiply_nt_vector(clprune_context *context, const partial_plan *plan,
    clprune_mat dy, size_t outputs, const clprune_bsr *xs, const clprune_bsr_sizes *sizes,
    const product_scratch *scratch)
{
    clprune_status status = CLPRUNE_SUCCESS;
    const clprune_block block = xs->desc.block;
    char defines[128];
    (void)snprintf(defines, sizeof defines,
        "-DV=%zu -DP=%zu -DBC=%zu -DBR=%zu -DSEG=%zu -DCHUNK=%zu", plan->vectors, plan->tile,
        block.cols, block.rows, plan->segment, clprune__min(block.cols, CHUNK_COLS));
    const size_t local[2] = {1, 1}, global[2] = {plan->panels, plan->splits};
    clprune__launch launch;
    TRY(clprune__launch_begin(context, CLPRUNE__BSPMM_NT_VECTOR, defines, &launch));
    clprune__arg_ulong(&launch, xs->desc.batch);
    clprune__arg_ulong(&launch, xs->desc.rows);
    clprune__arg_ulong(&launch, xs->desc.cols);
    clprune__arg_ulong(&launch, outputs);
    clprune__arg_ulong(&launch, sizes->block_cols);
    clprune__arg_ulong(&launch, plan->segments);
    clprune__arg_ulong(&launch, xs->desc.keep);
    clprune__arg_mat(&launch, dy);
    clprune__arg_mem(&launch, xs->values);
    arg_starts(&launch, scratch);
    arg_partial(&launch, scratch);
    TRY(clprune__launch_enqueue(&launch, 2, global, local, NULL));
done:
    return status;
}

static clprune_status multiply_nt_tiled(clprune_context *context, const partial_plan *plan,
    clprune_mat dy, size_t outputs, const clprune_bsr *xs, const clprune_bsr_sizes *sizes,
    const product_scratch *scratch)
{
    clprune_status status = CLPRUNE_SUCCESS;
    char defines[64];
    (void)snprintf(
        defines, sizeof defines, "-DBC=%zu -DBR=%zu", xs->desc.block.cols, xs->desc.block.rows);
    const size_t local[3] = {TILED_PANEL, 1, 1};
    const size_t global[3] = {plan->panels * TILED_PANEL, xs->desc.rows, plan->splits};
    clprune__launch launch;
    TRY(clprune__launch_begin(context, CLPRUNE__BSPMM_NT_TILED, defines, &launch));
    clprune__arg_ulong(&launch, xs->desc.batch);
    clprune__arg_ulong(&launch, xs->desc.rows);
    clprune__arg_ulong(&launch, xs->desc.cols);
    clprune__arg_ulong(&launch, outputs);
    clprune__arg_ulong(&launch, sizes->block_rows);
    clprune__arg_ulong(&launch, xs->desc.keep);
    clprune__arg_mat(&launch, dy);
    clprune__arg_mem(&launch, xs->values);
    clprune__arg_mem(&launch, xs->crow);
    clprune__arg_mem(&launch, xs->col);
    arg_partial(&launch, scratch);
    TRY(clprune__launch_enqueue(&launch, 3, global, local, NULL));
done:
    return status;
}

clprune_status clprune_bspmm_nt(clprune_context *context, float alpha, float beta, clprune_mat dy,
    const clprune_bsr *xs, clprune_mat dw, cl_event *event)
{
    clprune_status status = CLPRUNE_SUCCESS;
    clprune_bsr_sizes sizes;
    clprune__scratch_mark mark = {0, 0};
    bool open = false;
    TRY(clprune__check_bsr(context, xs, &sizes));
    const size_t outputs = dw.rows;
    size_t dy_rows;
    REQUIRE(clprune__mul(xs->desc.batch, outputs, &dy_rows), CLPRUNE_SIZE_OVERFLOW,
        "dy of %zu samples of %zu rows", xs->desc.batch, outputs);
    TRY(clprune__check_mat(context, "dy", dy, dy_rows, xs->desc.cols));
    TRY(clprune__check_mat(context, "dw", dw, outputs, xs->desc.rows));
    TRY(clprune__check_apart(context, "dw", dw, "dy", dy));
    TRY(clprune__check_bsr_apart(context, "dw", dw, xs, &sizes));
    if (xs->desc.batch == 0 || xs->desc.keep == 0 || dw.rows == 0 || dw.cols == 0)
        return scale_only(context, beta, dw, event);
    const bool vector = context->kernels == CLPRUNE_KERNELS_VECTOR;
    const partial_plan plan = plan_nt(context, xs, outputs);
    mark = clprune__scratch_begin(context);
    open = true;
    product_scratch scratch;
    TRY(take_scratch(context, xs, &sizes, &plan, &scratch));
    if (vector) {
        TRY(list_columns(context, xs, &sizes, &plan, &scratch));
        TRY(multiply_nt_vector(context, &plan, dy, outputs, xs, &sizes, &scratch));
    } else {
        TRY(multiply_nt_tiled(context, &plan, dy, outputs, xs, &sizes, &scratch));
    }
    TRY(finish(context, &plan, alpha, beta, &scratch, dw, event));
done:
    if (open)
        clprune__scratch_end(context, mark);
    return status;
}

clprune_status clprune_bspmm_nn(clprune_context *context, float alpha, float beta,
    const clprune_bsr *xs, clprune_mat w, clprune_mat y, cl_event *event)
{
    clprune_status status = CLPRUNE_SUCCESS;
    clprune_bsr_sizes sizes;
    TRY(clprune__check_bsr(context, xs, &sizes));
    const clprune_bsr_desc *desc = &xs->desc;
    TRY(clprune__check_mat(context, "w", w, desc->cols, w.cols));
    TRY(clprune__check_mat(context, "y", y, desc->batch * desc->rows, w.cols));
    TRY(clprune__check_apart(context, "y", y, "w", w));
    TRY(clprune__check_bsr_apart(context, "y", y, xs, &sizes));
    if (desc->keep == 0 || y.rows == 0 || y.cols == 0)
        return scale_only(context, beta, y, event);
    const bool vector = context->kernels == CLPRUNE_KERNELS_VECTOR;
    const size_t local = clprune__group_size(context, 64);
    const size_t global = desc->batch * sizes.block_rows * local;
    char defines[128];
    (void)snprintf(defines, sizeof defines, "-DLOCAL=%u -DVW=%d -DBR=%zu -DBC=%zu -DREAD_Y=%d",
        (unsigned)local, vector ? 16 : 1, desc->block.rows, desc->block.cols, beta != 0.0f);
    clprune__launch launch;
    TRY(clprune__launch_begin(context, CLPRUNE__BSPMM_NN, defines, &launch));
    clprune__arg_ulong(&launch, desc->rows);
    clprune__arg_ulong(&launch, desc->cols);
    clprune__arg_ulong(&launch, w.cols);
    clprune__arg_ulong(&launch, sizes.block_rows);
    clprune__arg_ulong(&launch, desc->keep);
    clprune__arg_float(&launch, alpha);
    clprune__arg_float(&launch, beta);
    clprune__arg_mem(&launch, xs->values);
    clprune__arg_mem(&launch, xs->crow);
    clprune__arg_mem(&launch, xs->col);
    clprune__arg_mat(&launch, w);
    clprune__arg_mat(&launch, y);
    TRY(clprune__launch_enqueue(&launch, 1, &global, &local, event));
done:
    return status;
}
