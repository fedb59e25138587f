/* nn on CPUs: panels of w, and xs by lists of kept rows or by strips of rows. Any plan gives the
 * same bits, so plans depend on the device's compute units. */
#include "core/checked.h"
#include "ops/device/ops_state.h"
#include "ops/products/gemm_private.h"
#include "ops/sparse/bspmm_private.h"
#include "runtime/context/context_private.h"
#include "runtime/context/fail.h"

static const clprune__kernel_def bspmm_panels_kernel = {
    "sparse/bspmm_nn_vector.cl", "bspmm_panels"};
static const clprune__kernel_def bspmm_nn_lists_kernel = {
    "sparse/bspmm_nn_vector.cl", "bspmm_nn_lists"};
static const clprune__kernel_def bspmm_nn_strips_kernel = {
    "sparse/bspmm_nn_vector.cl", "bspmm_nn_strips"};

/* TILE_ROWS: fewer where a tile would have less than two vectors. PACKED_COLUMNS: columns of xs
 * whose part of w a group packs. GROUPS_PER_UNIT: groups that keep a compute unit busy to the end.
 * LIST_BYTES, STRIP_BYTES: of w, in the first-level cache; a list's rows of sums are there too.
 * LEAST_SEGMENT: lists of shorter segments would mostly fill tiles. STRIP_ROWS: of a group. */
enum {
    TILE_ROWS = 4,
    PACKED_COLUMNS = 64,
    GROUPS_PER_UNIT = 4,
    LIST_BYTES = 24 << 10,
    STRIP_BYTES = 32 << 10,
    LEAST_SEGMENT = 32,
    STRIP_ROWS = 192
};

/* A product: operands, and what both ways share. */
typedef struct product {
    float alpha, beta;
    const clprune_bsr *xs;
    const clprune_bsr_sizes *sizes;
    clprune_mat w, y;
    cl_event *event;
    size_t width;             /* units of a row of a block: columns or pairs of columns */
    clprune__bspmm_plan plan; /* tile: its rows */
    clprune__region units, panels;
    clprune__index index;
} product;

/* Parts that each of `runs` runs of rows is cut into, so that there are enough groups. */
static size_t wanted_parts(
    const clprune_context *context, const clprune__bspmm_plan *plan, size_t runs)
{
    return clprune__ceil_div(GROUPS_PER_UNIT * clprune__max(1, context->facts.compute_units),
        clprune__max(1, plan->panels * runs));
}

static size_t most_tile_rows(const clprune_context *context)
{
    return clprune__max(1, clprune__min(TILE_ROWS, context->ops->tuning.bspmm_nt.accumulators / 2));
}

/* Tiles of `rows` rows. */
static void plan_panels(const clprune_context *context, product *p, size_t rows)
{
    p->plan.tile = rows;
    p->plan.vectors = clprune__choose_vectors(
        p->w.cols, rows, context->ops->tuning.bspmm_nt.accumulators, SIZE_MAX, 1);
    p->plan.panel = 16 * p->plan.vectors;
    p->plan.panels = clprune__ceil_div(p->w.cols, p->plan.panel);
}

/* Takes units and index of xs, and enqueues bspmm_panels. */
static clprune_status take_operands(clprune_context *context, product *p)
{
    const clprune__bspmm_plan *plan = &p->plan;
    const size_t bc = p->xs->desc.block.cols, block_cols = p->sizes->block_cols;
    const size_t run = clprune__max(1, PACKED_COLUMNS / bc);
    const size_t local[2] = {1, 1}, global[2] = {plan->panels, clprune__ceil_div(block_cols, run)};
    const bool pairs = context->ops->pairs != CLPRUNE__PAIRS_NONE;
    size_t units;
    TRY((pairs ? clprune__bsr_words : clprune__bsr_values)(context, p->xs, &p->units));
    TRY(clprune__bsr_read_index(context, p->xs, p->sizes, &p->index));
    REQUIRE(clprune__mul3(plan->panels, plan->panel, block_cols, &units) &&
                clprune__mul(units, p->width, &units),
        CLPRUNE_SIZE_OVERFLOW, "the panels of w, %zu x %zu, overflow size_t", p->w.rows, p->w.cols);
    TRY(clprune__scratch_array(context, units, sizeof(cl_uint), &p->panels));
    clprune__defines defines = {0};
    clprune__define(&defines, "BF16", context->ops->pairs);
    clprune__define(&defines, "V", plan->vectors);
    clprune__define(&defines, "BC", bc);
    clprune__launch launch;
    TRY(clprune__launch_begin(context, &bspmm_panels_kernel, &defines, &launch));
    ARG_ULONGS(&launch, p->w.rows, p->w.cols, block_cols, run);
    clprune__arg_mat(&launch, p->w);
    clprune__arg_region(&launch, p->panels);
    return clprune__launch_enqueue(&launch, 2, global, local, NULL);
}

/* The defines of both kernels. */
static clprune__defines defines_of(const clprune_context *context, const product *p)
{
    clprune__defines defines = {0};
    clprune__define(&defines, "BF16", context->ops->pairs);
    clprune__define(&defines, "V", p->plan.vectors);
    clprune__define(&defines, "BR", p->xs->desc.block.rows);
    clprune__define(&defines, "BC", p->xs->desc.block.cols);
    return defines;
}

static clprune_status by_lists(clprune_context *context, product *p)
{
    const clprune__tuning *tuning = &context->ops->tuning;
    clprune__bspmm_plan *plan = &p->plan;
    clprune_bsr joined = *p->xs;
    clprune_bsr_sizes sizes = *p->sizes;
    clprune__join_samples(&joined, &sizes);
    const clprune_bsr_desc *desc = &joined.desc;
    plan_panels(context, p, most_tile_rows(context));
    plan->ahead = tuning->bspmm_nt.ahead;
    plan->segment_most = clprune__panel_rows(context, tuning->bspmm_nt.segment_rows, plan->panel);
    plan->segments = clprune__max(clprune__ceil_div(desc->rows, plan->segment_most),
        clprune__min(wanted_parts(context, plan, desc->batch),
            clprune__ceil_div(desc->rows, LEAST_SEGMENT)));
    plan->segment = clprune__ceil_div(desc->rows, plan->segments);
    plan->segments = clprune__ceil_div(desc->rows, plan->segment);
    const size_t near = clprune__max(1, LIST_BYTES / (plan->panel * sizeof(float)));
    const size_t local[2] = {1, 1}, global[2] = {plan->panels, desc->batch * plan->segments};
    TRY(take_operands(context, p));
    clprune__bspmm_scratch lists = {
        .index = p->index, .even_rows = sizes.block_rows != p->sizes->block_rows};
    TRY(clprune__bspmm_take_scratch(context, &joined, &sizes, plan, &lists));
    TRY(clprune__bspmm_list_columns(context, &joined, &sizes, plan, &lists));
    clprune__defines defines = defines_of(context, p);
    clprune__define(&defines, "P", plan->tile);
    clprune__define(&defines, "SEG", plan->segment_most);
    clprune__define(&defines, "CHUNK", clprune__min(p->width, near));
    clprune__define(&defines, "AHEAD", plan->ahead);
    clprune__launch launch;
    TRY(clprune__launch_begin(context, &bspmm_nn_lists_kernel, &defines, &launch));
    ARG_ULONGS(&launch, desc->rows, p->w.cols, sizes.block_cols, plan->segment, plan->segments,
        desc->keep);
    ARG_FLOATS(&launch, p->alpha, p->beta);
    clprune__arg_region(&launch, p->units);
    clprune__arg_region(&launch, lists.starts);
    clprune__arg_region(&launch, lists.entries);
    clprune__arg_region(&launch, p->panels);
    clprune__arg_mat(&launch, p->y);
    return clprune__launch_enqueue(&launch, 2, global, local, p->event);
}

static clprune_status by_strips(clprune_context *context, product *p)
{
    const clprune_bsr_desc *desc = &p->xs->desc;
    const size_t br = desc->block.rows;
    plan_panels(context, p,
        clprune__ceil_div(br, clprune__ceil_div(br, most_tile_rows(context)))); /* equal strips */
    const clprune__bspmm_plan *plan = &p->plan;
    size_t strips;
    REQUIRE(clprune__mul3(
                desc->batch, p->sizes->block_rows, clprune__ceil_div(br, plan->tile), &strips),
        CLPRUNE_SIZE_OVERFLOW, "the rows of %zu samples overflow size_t", desc->batch);
    const size_t most = clprune__panel_rows(
        context, STRIP_ROWS / plan->tile, plan->tile * plan->panel + sizeof(cl_ulong));
    const size_t run =
        clprune__ceil_div(strips, clprune__max(clprune__ceil_div(strips, most),
                                      clprune__min(strips, wanted_parts(context, plan, 1))));
    const size_t near = STRIP_BYTES / (p->width * plan->panel * sizeof(float));
    const size_t local[2] = {1, 1}, global[2] = {plan->panels, clprune__ceil_div(strips, run)};
    TRY(take_operands(context, p));
    clprune__defines defines = defines_of(context, p);
    clprune__define(&defines, "MR", plan->tile);
    clprune__define(&defines, "SEG", most);
    clprune__define(&defines, "BLOCKS", clprune__max(1, near));
    clprune__launch launch;
    TRY(clprune__launch_begin(context, &bspmm_nn_strips_kernel, &defines, &launch));
    ARG_ULONGS(&launch, desc->batch, desc->rows, p->w.cols, p->sizes->block_rows,
        p->sizes->block_cols, desc->keep, run);
    ARG_FLOATS(&launch, p->alpha, p->beta);
    clprune__arg_region(&launch, p->units);
    clprune__arg_index(&launch, &p->index);
    clprune__arg_region(&launch, p->panels);
    clprune__arg_mat(&launch, p->y);
    return clprune__launch_enqueue(&launch, 2, global, local, p->event);
}

/* Rows of a block share their columns, so a strip of them loads each row of w once; lists gather
 * rows that do. But an entry of a list loads and stores its row of results, which does not pay for
 * one or two units. Long blocks do not fit a strip's cache. */
clprune_status clprune__multiply_nn_vector(clprune_context *context, float alpha, float beta,
    const clprune_bsr *xs, const clprune_bsr_sizes *sizes, clprune_mat w, clprune_mat y,
    cl_event *event)
{
    enum { FEW_UNITS = 2, MANY_UNITS = 64 };
    const clprune_block block = xs->desc.block;
    const bool pairs = context->ops->pairs != CLPRUNE__PAIRS_NONE;
    product p = {alpha, beta, xs, sizes, w, y, event,
        .width = pairs ? clprune__ceil_div(block.cols, 2) : block.cols};
    const bool lists = block.rows == 1 ? p.width > FEW_UNITS : p.width > MANY_UNITS;
    return (lists ? by_lists : by_strips)(context, &p);
}
