/* The products on CPUs in bf16: operands are rounded to pairs of bf16, sums are fp32. */
#include "core/checked.h"
#include "ops/device/ops_state.h"
#include "ops/products/gemm_private.h"
#include "ops/sparse/bspmm_private.h"
#include "runtime/context/context_private.h"
#include "runtime/context/fail.h"

static const clprune__kernel_def bspmm_pairs_kernel = {"sparse/bspmm_pairs.cl", "bspmm_pairs"};
static const clprune__kernel_def bspmm_index_pairs_kernel = {
    "sparse/bspmm_index_pairs.cl", "bspmm_index_pairs"};
static const clprune__kernel_def bspmm_index_words_kernel = {
    "sparse/bspmm_index_words.cl", "bspmm_index_words"};
static const clprune__kernel_def bspmm_tn_bf16_kernel = {
    "sparse/bspmm_tn_bf16_vector.cl", "bspmm_tn_bf16"};
static const clprune__kernel_def bspmm_nt_bf16_kernel = {
    "sparse/bspmm_nt_bf16_vector.cl", "bspmm_nt_bf16"};

/* Bytes of a bf16; those of a pair are a float's. */
enum { BF16_BYTES = 2 };

/* Words of a sample that stay in a second-level cache beside the results. */
enum { NEAR_WORDS = 1 << 15 };

/* Panels that a group takes in turn: the most that results_bytes allow and that leave a multiple of
 * CLPRUNE__EVEN_GROUPS groups, as all panels are equal work; else one. */
static size_t choose_panel_run(const clprune__bspmm_plan *plan, size_t results_bytes)
{
    const size_t most = results_bytes / (plan->inner * plan->panel * sizeof(float));
    for (size_t run = clprune__min(plan->panels, most); run > 1; run--)
        if (plan->panels % run == 0 && plan->panels / run % CLPRUNE__EVEN_GROUPS == 0)
            return run;
    return 1;
}

clprune__bspmm_plan clprune__plan_tn_bf16(const clprune_context *context, const clprune_bsr *xs,
    const clprune_bsr_sizes *sizes, size_t outputs)
{
    const size_t bc = xs->desc.block.cols, rows = xs->desc.rows;
    const clprune__tuning *tuning = &context->ops->tuning;
    clprune__bspmm_plan plan = {.inner = sizes->block_cols * bc, .listless = true};
    plan.tile = clprune__largest_divisor(
        bc, clprune__min(tuning->bspmm_tn_bf16.tile_columns, tuning->bspmm_tn_bf16.accumulators));
    plan.vectors = clprune__choose_vectors(
        outputs, plan.tile, tuning->bspmm_tn_bf16.accumulators, tuning->bspmm_tn_bf16.groups, 2);
    plan.panel = 16 * plan.vectors;
    plan.panels = clprune__ceil_div(outputs, plan.panel);
    const size_t fits =
        clprune__panel_rows(context, tuning->bspmm_tn_bf16.segment_rows, plan.panel / 2);
    const size_t near =
        clprune__max(1, tuning->bspmm_tn_bf16.panel_bytes / (plan.panel * BF16_BYTES));
    plan.segment_most = clprune__min(fits, near);
    plan.segment = clprune__ceil_div(rows, clprune__ceil_div(rows, plan.segment_most));
    plan.segments = clprune__ceil_div(rows, plan.segment);
    plan.panel_run = choose_panel_run(&plan, tuning->bspmm_tn_bf16.results_bytes);
    const size_t groups = clprune__ceil_div(plan.panels, plan.panel_run);
    plan.splits = clprune__vector_splits(tuning->bspmm_tn_bf16.groups, groups, xs->desc.batch);
    return plan;
}

/* Parameters of the kernels that write words: the stored values and the starts of the lists. */
static void arg_stored(
    clprune__launch *launch, const clprune_bsr_desc *desc, const clprune__bspmm_scratch *scratch)
{
    clprune__arg_region(launch, scratch->values);
    if (clprune__is_scaled(desc->value_type))
        clprune__arg_region(launch, scratch->scales);
    clprune__arg_region(launch, scratch->starts);
}

/* Scratch for the pairs of all lists. */
static clprune_status take_pairs(clprune_context *context, const clprune_bsr_desc *desc,
    size_t segments, size_t block_cols, clprune__bspmm_pairs *to)
{
    size_t all, words;
    to->slots = (desc->keep * desc->block.rows + segments * block_cols) / 2 + 1;
    REQUIRE(
        clprune__mul(desc->batch, to->slots, &all) && clprune__mul(all, desc->block.cols, &words),
        CLPRUNE_SIZE_OVERFLOW, "the pairs of %zu samples of %zu kept blocks overflow size_t",
        desc->batch, desc->keep);
    TRY(clprune__scratch_array(context, all, sizeof(cl_uint2), &to->rows));
    return clprune__scratch_array(context, words, sizeof(cl_uint), &to->words);
}

clprune_status clprune__bspmm_list_pairs(clprune_context *context, const clprune_bsr_desc *desc,
    size_t segments, size_t block_cols, size_t zero_row, const clprune__bspmm_scratch *scratch,
    clprune__bspmm_pairs *to)
{
    const size_t local = 1, global = desc->batch * segments;
    TRY(take_pairs(context, desc, segments, block_cols, to));
    clprune__defines defines = {0};
    clprune__word_defines(context, desc, &defines);
    clprune__launch launch;
    TRY(clprune__launch_begin(context, &bspmm_pairs_kernel, &defines, &launch));
    ARG_ULONGS(&launch, block_cols, segments, desc->keep, to->slots);
    clprune__arg_uint(&launch, (cl_uint)zero_row);
    arg_stored(&launch, desc, scratch);
    clprune__arg_region(&launch, scratch->entries);
    clprune__arg_region(&launch, to->rows);
    clprune__arg_region(&launch, to->words);
    return clprune__launch_enqueue(&launch, 1, &global, &local, NULL);
}

/* The lists of tn, from the index, and their pairs. */
static clprune_status pair_index(clprune_context *context, const clprune__bspmm_plan *plan,
    const clprune__bspmm_operands *operands, clprune__bspmm_pairs *to)
{
    const clprune_bsr_desc *desc = &operands->xs->desc;
    const clprune__bspmm_scratch *scratch = operands->scratch;
    const size_t block_cols = operands->sizes->block_cols;
    const size_t local = 1, global = desc->batch * plan->segments;
    TRY(take_pairs(context, desc, plan->segments, block_cols, to));
    clprune__defines defines = {0};
    clprune__word_defines(context, desc, &defines);
    clprune__define(&defines, "EVEN_ROWS", scratch->even_rows);
    clprune__launch launch;
    TRY(clprune__launch_begin(context, &bspmm_index_pairs_kernel, &defines, &launch));
    ARG_ULONGS(&launch, desc->rows, block_cols, operands->sizes->block_rows, plan->segment,
        plan->segments, desc->keep, to->slots);
    clprune__arg_uint(&launch, (cl_uint)plan->segment_most);
    clprune__arg_index(&launch, &scratch->index);
    arg_stored(&launch, desc, scratch);
    clprune__arg_region(&launch, to->rows);
    clprune__arg_region(&launch, to->words);
    return clprune__launch_enqueue(&launch, 1, &global, &local, NULL);
}

void clprune__bspmm_define_amx(const clprune_context *context, const clprune__bspmm_plan *plan,
    const clprune_bsr_desc *desc, clprune__defines *defines)
{
    enum { COLUMNS = 16, KIB = 1024 };
    const size_t bytes = (plan->segment_most + 1) * plan->panel * BF16_BYTES + /* dy */
                         (plan->segment_most / 32 + 9) * KIB +                 /* a list */
                         (plan->direct ? (16 * plan->panel + 256) * sizeof(float) : 0);
    const bool amx = context->ops->amx != CLPRUNE__AMX_NONE && desc->block.cols % COLUMNS == 0 &&
                     bytes < context->facts.local_memory;
    if (amx)
        clprune__define(defines, "AMX", context->ops->amx);
    clprune__define(defines, "CB", amx ? COLUMNS : plan->tile);
}

clprune_status clprune__multiply_tn_bf16(clprune_context *context, const clprune__bspmm_plan *plan,
    const clprune__bspmm_operands *operands)
{
    const clprune_bsr_desc *desc = &operands->xs->desc;
    const clprune__bspmm_scratch *scratch = operands->scratch;
    const size_t local[2] = {1, 1};
    const size_t global[2] = {clprune__ceil_div(plan->panels, plan->panel_run), plan->splits};
    clprune__bspmm_pairs kept;
    TRY(pair_index(context, plan, operands, &kept));
    clprune__defines defines = {0};
    clprune__define(&defines, "BF16", context->ops->pairs);
    clprune__define(&defines, "V", plan->vectors);
    clprune__bspmm_define_amx(context, plan, desc, &defines);
    clprune__define(&defines, "BC", desc->block.cols);
    clprune__define(&defines, "SEG", plan->segment_most);
    clprune__define(&defines, "FETCH", kept.slots * desc->block.cols > NEAR_WORDS);
    clprune__launch launch;
    TRY(clprune__launch_begin(context, &bspmm_tn_bf16_kernel, &defines, &launch));
    ARG_ULONGS(&launch, desc->batch, desc->rows, operands->outputs, operands->sizes->block_cols,
        plan->segment, plan->segments, kept.slots, plan->panels, plan->panel_run);
    clprune__arg_mat(&launch, operands->dy);
    clprune__arg_region(&launch, scratch->starts);
    clprune__arg_region(&launch, kept.rows);
    clprune__arg_region(&launch, kept.words);
    clprune__arg_region(&launch, scratch->partial);
    return clprune__launch_enqueue(&launch, 2, global, local, NULL);
}

clprune__bspmm_plan clprune__plan_nt_bf16(const clprune_context *context, const clprune_bsr *xs,
    const clprune_bsr_sizes *sizes, size_t outputs)
{
    (void)sizes;
    const clprune__tuning *tuning = &context->ops->tuning;
    clprune__bspmm_plan plan = {
        .inner = xs->desc.rows + 1, .tile = tuning->bspmm_nt_bf16.tile_rows, .listless = true};
    plan.vectors = clprune__choose_vectors(
        outputs, plan.tile, tuning->bspmm_nt_bf16.accumulators, tuning->bspmm_nt_bf16.groups, 1);
    /* Narrow tiles are higher: few accumulators would wait for each other's sums. */
    plan.tile = clprune__max(
        plan.tile, clprune__min(2 * plan.tile, tuning->bspmm_nt_bf16.accumulators / plan.vectors));
    plan.panel = 16 * plan.vectors;
    plan.panels = clprune__ceil_div(outputs, plan.panel);
    plan.splits = clprune__vector_splits(tuning->bspmm_nt_bf16.groups, plan.panels, xs->desc.batch);
    plan.segment = plan.segment_most = tuning->bspmm_nt_bf16.segment_rows;
    plan.segments = clprune__ceil_div(xs->desc.rows, plan.segment);
    return plan;
}

/* The lists of nt, from the index, and the words of their rows; `slots` of a sample. */
typedef struct word_lists {
    size_t slots;
    clprune__region entries, words;
} word_lists;

static clprune_status list_words(clprune_context *context, const clprune__bspmm_plan *plan,
    const clprune__bspmm_operands *operands, word_lists *to)
{
    const clprune_bsr_desc *desc = &operands->xs->desc;
    const clprune__bspmm_scratch *scratch = operands->scratch;
    const size_t block_cols = operands->sizes->block_cols, filling = plan->tile - 1;
    const size_t local = 1, global = desc->batch * plan->segments;
    size_t all, words;
    to->slots = clprune__round_up(
        desc->keep * desc->block.rows + plan->segments * block_cols * filling, plan->tile);
    REQUIRE(clprune__mul(desc->batch, to->slots, &all) &&
                clprune__mul(all, clprune__ceil_div(desc->block.cols, 2), &words),
        CLPRUNE_SIZE_OVERFLOW, "the pairs of %zu samples of %zu kept blocks overflow size_t",
        desc->batch, desc->keep);
    TRY(clprune__scratch_array(context, all, sizeof(cl_uint2), &to->entries));
    TRY(clprune__scratch_array(context, words, sizeof(cl_uint), &to->words));
    clprune__defines defines = {0};
    clprune__word_defines(context, desc, &defines);
    clprune__define(&defines, "P", plan->tile);
    clprune__launch launch;
    TRY(clprune__launch_begin(context, &bspmm_index_words_kernel, &defines, &launch));
    ARG_ULONGS(&launch, desc->rows, block_cols, operands->sizes->block_rows, plan->segment,
        plan->segments, desc->keep, to->slots);
    clprune__arg_index(&launch, &scratch->index);
    arg_stored(&launch, desc, scratch);
    clprune__arg_region(&launch, to->entries);
    clprune__arg_region(&launch, to->words);
    return clprune__launch_enqueue(&launch, 1, &global, &local, NULL);
}

/* Columns of dy whose words a panel has: of several blocks, or of a part of one. */
typedef struct chunk {
    size_t columns, blocks;
} chunk;

static chunk choose_chunk(
    const clprune_context *context, const clprune__bspmm_plan *plan, size_t bc)
{
    enum { STEP = 32 }; /* whole squares of 16 words */
    const size_t most =
        STEP * clprune__panel_rows(context, context->ops->tuning.bspmm_nt_bf16.chunk_columns / STEP,
                   STEP * (plan->panel + 16));
    if (bc > most)
        return (chunk){most, 1};
    return (chunk){bc, most / bc};
}

clprune_status clprune__multiply_nt_bf16(clprune_context *context, const clprune__bspmm_plan *plan,
    const clprune__bspmm_operands *operands)
{
    const clprune_bsr_desc *desc = &operands->xs->desc;
    const clprune__bspmm_scratch *scratch = operands->scratch;
    const chunk part = choose_chunk(context, plan, desc->block.cols);
    const size_t local[2] = {1, 1}, global[2] = {plan->panels, plan->splits};
    word_lists lists;
    TRY(list_words(context, plan, operands, &lists));
    clprune__defines defines = {0};
    clprune__define(&defines, "BF16", context->ops->pairs);
    clprune__define(&defines, "V", plan->vectors);
    clprune__define(&defines, "P", plan->tile);
    clprune__define(&defines, "BC", desc->block.cols);
    clprune__define(&defines, "BR", desc->block.rows);
    clprune__define(&defines, "SEG", plan->segment_most);
    clprune__define(&defines, "CHUNK", part.columns);
    clprune__define(&defines, "BLOCKS", part.blocks);
    clprune__launch launch;
    TRY(clprune__launch_begin(context, &bspmm_nt_bf16_kernel, &defines, &launch));
    ARG_ULONGS(&launch, desc->batch, desc->rows, desc->cols, operands->outputs,
        operands->sizes->block_cols, plan->segments, desc->keep, lists.slots);
    clprune__arg_mat(&launch, operands->dy);
    clprune__arg_region(&launch, lists.words);
    clprune__arg_region(&launch, scratch->starts);
    clprune__arg_region(&launch, lists.entries);
    clprune__arg_region(&launch, scratch->partial);
    return clprune__launch_enqueue(&launch, 2, global, local, NULL);
}
