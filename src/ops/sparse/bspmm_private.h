/* Shared by the kernel families of the block-sparse products: plans, scratch, common kernel
 * arguments. */
#ifndef CLPRUNE_OPS_BSPMM_PRIVATE_H
#define CLPRUNE_OPS_BSPMM_PRIVATE_H

#include "clprune/bspmm.h"
#include "ops/sparse/bsr_private.h"
#include "runtime/launch/launch.h"

/* The plan of a product. It is summed in `splits` partial results of panels x inner x panel
 * floats. */
typedef struct clprune__bspmm_plan {
    size_t vectors, tile; /* vector kernels: V, and CB (tn) or P (nt); for GPUs tile is CT */
    size_t panel, panels; /* outputs of a panel; ceil(outputs / panel) */
    size_t inner;         /* columns (tn, padded) or rows (nt) of a panel */
    size_t splits;        /* the batch is cut into this many runs of samples */
    size_t segment;       /* rows of a segment of the column lists */
    size_t segment_most;  /* bound of `segment` in the program (SEG); independent of `rows` */
    size_t segments;      /* of a sample */
    size_t panel_run;     /* vector kernels of tn: panels that a group takes in turn */
    size_t ahead;         /* vector kernels: padding of the lists, for prefetches */
    size_t lanes, teams;  /* tiled and mma kernels: work-items of a team, teams of a group */
    size_t slots;         /* tn, tiled and mma: tiles of a team */
    size_t groups;        /* tiled and mma kernels: groups for a panel and a split */
    bool listless;        /* the product makes its own lists from the index */
    bool direct;          /* vector kernels of convolutions: write dw themselves, no finish */
} clprune__bspmm_plan;

/* The scratch of a product. */
typedef struct clprune__bspmm_scratch {
    clprune__region starts, entries; /* uint, uint2 */
    clprune__region partial;         /* float */
    clprune__region values;          /* in fp32; kernels of bf16: as stored */
    clprune__region scales;          /* kernels of bf16: of scaled values */
    clprune__index index;
    bool even_rows; /* joined samples: every block row keeps the same number of blocks, and
                       index.crow is not read */
} clprune__bspmm_scratch;

/* The operands of a launch. */
typedef struct clprune__bspmm_operands {
    clprune_mat dy;
    size_t outputs;
    const clprune_bsr *xs;
    const clprune_bsr_sizes *sizes;
    const clprune__bspmm_scratch *scratch;
    /* Of tn's tiled kernel, if the rows are pixels of a convolution: sets the parameters that
     * describe them, from `pixels`. Else NULL. */
    void (*arg_pixels)(clprune__launch *launch, const void *pixels);
    const void *pixels;
    size_t taps; /* of such a convolution */
} clprune__bspmm_operands;

/* Floor: bspmm_shape.c. */

/* Vector kernels run a multiple of this many groups: most CPUs have a multiple of 4 compute
 * units. */
enum { CLPRUNE__EVEN_GROUPS = 4 };

/* The largest divisor of n that is at most `limit`. */
size_t clprune__largest_divisor(size_t n, size_t limit);

/* The number of 16-wide vectors, V, a multiple of `multiple`, of a register tile of `tile` rows
 * that wastes least on `outputs` columns. It counts the padding beyond the columns, the loads
 * beside the tile * V multiplications and, from `wanted` panels on, compute units that idle while
 * the last panels run. tile * V <= accumulators unless V is `multiple`. */
size_t clprune__choose_vectors(
    size_t outputs, size_t tile, size_t accumulators, size_t wanted, size_t multiple);

/* The number of parts, 1 to `most`, that a vector kernel's sum is cut into so that there are
 * `wanted` groups. It does not depend on the number of compute units, so neither do results. */
size_t clprune__vector_splits(size_t wanted, size_t groups, size_t most);

/* Joins samples of one block row each, as those of a plain MLP, whose lists would have an entry or
 * none. Values and columns of `run` consecutive samples are those of one sample of `run` block
 * rows, which products multiply faster. The number of joined samples is enough for a CPU and does
 * not depend on its compute units. Other matrices stay as they are. */
void clprune__join_samples(clprune_bsr *xs, clprune_bsr_sizes *sizes);

/* The parameters that kernels of tn begin with, sizes, and those that they end with, operands. */
void clprune__arg_tn_sizes(clprune__launch *launch, const clprune__bspmm_plan *plan,
    const clprune__bspmm_operands *operands);
void clprune__arg_tn_operands(clprune__launch *launch, const clprune__bspmm_operands *operands);

/* Multiplications of a product of the kept values with `outputs` columns. */
double clprune__bspmm_multiplications(const clprune_bsr *xs, size_t outputs);

/* All parameters of a kernel of nt. */
void clprune__arg_nt(clprune__launch *launch, const clprune__bspmm_plan *plan,
    const clprune__bspmm_operands *operands);

/* bspmm_steps.c. */

/* Takes the scratch of a product with xs, inside of the caller's clprune__scratch_begin. */
clprune_status clprune__bspmm_take_scratch(clprune_context *context, const clprune_bsr *xs,
    const clprune_bsr_sizes *sizes, const clprune__bspmm_plan *plan,
    clprune__bspmm_scratch *scratch);

/* Enqueues bspmm_lists: the kept blocks by block column. */
clprune_status clprune__bspmm_list_columns(clprune_context *context, const clprune_bsr *xs,
    const clprune_bsr_sizes *sizes, const clprune__bspmm_plan *plan,
    const clprune__bspmm_scratch *scratch);

/* Enqueues bspmm_finish: dw = alpha * (sum of the partial results) + beta * dw. Of the plan it
 * reads splits, panels, panel and inner, of the scratch the partial results. */
clprune_status clprune__bspmm_finish(clprune_context *context, const clprune__bspmm_plan *plan,
    float alpha, float beta, const clprune__bspmm_scratch *scratch, clprune_mat dw,
    cl_event *event);

/* bspmm_teams.c, for the tiled and mma kernels. */

/* Rows of a segment: at most `most`, no more than fit local memory at row_bytes each beside
 * fixed_bytes, and at least 1. */
size_t clprune__fitting_rows(
    const clprune_context *context, size_t most, size_t row_bytes, size_t fixed_bytes);

/* Splits of the batch for kernels of plan->panels x plan->groups groups. */
size_t clprune__tiled_splits(const clprune_context *context, const clprune__bspmm_plan *plan,
    size_t groups_per_unit, size_t batch);

/* Columns of a tile: bc if that is at most `most`, else bc cut into equal parts, rounded up to 4 if
 * bc is a multiple of 4. */
size_t clprune__tile_cols(size_t bc, size_t most);

/* Floats of dy that the kernels for GPUs read at once. */
size_t clprune__dy_width(clprune_mat dy);

/* Appends the defines that all kernels for GPUs have: XV, BC, BR, SEG, CT, LANES, TEAMS. */
void clprune__team_defines(const clprune__bspmm_plan *plan, const clprune__bspmm_operands *operands,
    clprune__defines *defines);

/* Enqueues a kernel for GPUs: a group of `teams` teams for each panel, part and split. */
clprune_status clprune__enqueue_teams(clprune__launch *launch, const clprune__bspmm_plan *plan);

/* The engines. */

/* bspmm_tn_vector.cl and bspmm_nt_vector.cl, for CPUs. */
clprune__bspmm_plan clprune__plan_tn_vector(const clprune_context *context, const clprune_bsr *xs,
    const clprune_bsr_sizes *sizes, size_t outputs);
clprune__bspmm_plan clprune__plan_nt_vector(const clprune_context *context, const clprune_bsr *xs,
    const clprune_bsr_sizes *sizes, size_t outputs);
clprune_status clprune__multiply_tn_vector(clprune_context *context,
    const clprune__bspmm_plan *plan, const clprune__bspmm_operands *operands);
clprune_status clprune__multiply_nt_vector(clprune_context *context,
    const clprune__bspmm_plan *plan, const clprune__bspmm_operands *operands);

/* y = alpha * xs * w + beta * y for checked operands, none of whose sizes is 0. bspmm_nn_vector.cl,
 * for CPUs. */
clprune_status clprune__multiply_nn_vector(clprune_context *context, float alpha, float beta,
    const clprune_bsr *xs, const clprune_bsr_sizes *sizes, clprune_mat w, clprune_mat y,
    cl_event *event);

/* bspmm_tn_bf16_vector.cl and bspmm_nt_bf16_vector.cl, for CPUs: context->ops->pairs is not NONE.
 * Of the scratch they read values and scales as stored. */
clprune__bspmm_plan clprune__plan_tn_bf16(const clprune_context *context, const clprune_bsr *xs,
    const clprune_bsr_sizes *sizes, size_t outputs);
clprune__bspmm_plan clprune__plan_nt_bf16(const clprune_context *context, const clprune_bsr *xs,
    const clprune_bsr_sizes *sizes, size_t outputs);
/* Defines CB of a kernel of lists in bf16, tn or of a convolution, and AMX where list_amx.clh
 * serves: whole tiles of columns, and room for a list's beside the panel. */
void clprune__bspmm_define_amx(const clprune_context *context, const clprune__bspmm_plan *plan,
    const clprune_bsr_desc *desc, clprune__defines *defines);
clprune_status clprune__multiply_tn_bf16(clprune_context *context, const clprune__bspmm_plan *plan,
    const clprune__bspmm_operands *operands);
clprune_status clprune__multiply_nt_bf16(clprune_context *context, const clprune__bspmm_plan *plan,
    const clprune__bspmm_operands *operands);

/* The pairs of kept rows of a sample's lists (bspmm_pairs.cl); some slots remain unused. */
typedef struct clprune__bspmm_pairs {
    size_t slots; /* of a sample */
    clprune__region rows, words;
} clprune__bspmm_pairs;

/* Takes scratch for the pairs of the lists in `scratch`, whose values and scales are as stored, and
 * enqueues bspmm_pairs. zero_row stands for a second row that is missing. */
clprune_status clprune__bspmm_list_pairs(clprune_context *context, const clprune_bsr_desc *desc,
    size_t segments, size_t block_cols, size_t zero_row, const clprune__bspmm_scratch *scratch,
    clprune__bspmm_pairs *to);

/* bspmm_tn_tiled.cl and bspmm_nt_tiled.cl, for GPUs. */
clprune__bspmm_plan clprune__plan_tn_tiled(const clprune_context *context, const clprune_bsr *xs,
    const clprune_bsr_sizes *sizes, size_t outputs);
clprune__bspmm_plan clprune__plan_nt_tiled(const clprune_context *context, const clprune_bsr *xs,
    const clprune_bsr_sizes *sizes, size_t outputs);
clprune_status clprune__multiply_tn_tiled(clprune_context *context, const clprune__bspmm_plan *plan,
    const clprune__bspmm_operands *operands);
clprune_status clprune__multiply_nt_tiled(clprune_context *context, const clprune__bspmm_plan *plan,
    const clprune__bspmm_operands *operands);

/* bspmm_tn_mma.cl and bspmm_nt_mma.cl, for tensor cores: context->ops->precision is not FP32. */
clprune__bspmm_plan clprune__plan_tn_mma(const clprune_context *context, const clprune_bsr *xs,
    const clprune_bsr_sizes *sizes, size_t outputs);
clprune__bspmm_plan clprune__plan_nt_mma(const clprune_context *context, const clprune_bsr *xs,
    const clprune_bsr_sizes *sizes, size_t outputs);
clprune_status clprune__multiply_tn_mma(clprune_context *context, const clprune__bspmm_plan *plan,
    const clprune__bspmm_operands *operands);
clprune_status clprune__multiply_nt_mma(clprune_context *context, const clprune__bspmm_plan *plan,
    const clprune__bspmm_operands *operands);

/* Roof: bspmm.c. As clprune_bspmm_tn and clprune_bspmm_nt, within a call. */
clprune_status clprune__bspmm_tn(clprune_context *context, float alpha, float beta, clprune_mat dy,
    const clprune_bsr *xs, clprune_mat dw, cl_event *event);
clprune_status clprune__bspmm_nt(clprune_context *context, float alpha, float beta, clprune_mat dy,
    const clprune_bsr *xs, clprune_mat dw, cl_event *event);

#endif
