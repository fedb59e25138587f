#include "core/checked.h"
#include "ops/device/ops_state.h"
#include "ops/sparse/bsr_private.h"
#include "runtime/context/context_private.h"
#include "runtime/context/fail.h"
#include "runtime/launch/launch.h"
#include "runtime/launch/rowwise.h"

static const clprune__kernel_def bsr_widen_kernel = {"sparse/bsr_widen.cl", "bsr_widen"};
static const clprune__kernel_def bspmm_words_kernel = {
    "sparse/bspmm_index_words.cl", "bspmm_words"};

clprune__region clprune__bsr_values_region(const clprune_bsr *bsr)
{
    const clprune_bsr_desc *desc = &bsr->desc;
    const size_t before =
        bsr->first * desc->keep * clprune__block_values(desc->value_type, desc->block);
    const size_t size = clprune__value_bytes(desc->value_type);
    return (clprune__region){bsr->values, bsr->offset.values / size + before, size,
        desc->batch * desc->keep * clprune__block_values(desc->value_type, desc->block)};
}

clprune__region clprune__bsr_scales_region(const clprune_bsr *bsr)
{
    const size_t size = sizeof(uint16_t);
    return (clprune__region){bsr->scales, bsr->offset.scales / size + bsr->first * bsr->desc.keep,
        size, bsr->desc.batch * bsr->desc.keep};
}

size_t clprune__row_vector(size_t cols)
{
    return cols >= 16 ? 16 : cols >= 4 ? 4 : 1;
}

void clprune__value_defines(clprune_value_type type, size_t width, clprune__defines *defines)
{
    clprune__define(defines, "VALUES", type);
    clprune__define(defines, "VW", width);
}

void clprune__word_defines(
    const clprune_context *context, const clprune_bsr_desc *desc, clprune__defines *defines)
{
    const size_t bc = desc->block.cols;
    clprune__define(defines, "BF16", context->ops->pairs);
    clprune__value_defines(desc->value_type, bc % 16 == 0 ? 16 : bc % 4 == 0 ? 4 : 1, defines);
    clprune__define(defines, "BC", bc);
    clprune__define(defines, "BR", desc->block.rows);
}

/* Elements that a group of a vector kernel reads. */
enum { GROUP_ELEMENTS = 16384 };

/* Enqueues bsr_widen, in groups of some thousand elements. */
static clprune_status widen(
    clprune_context *context, const clprune_bsr *bsr, size_t block, clprune__region widened)
{
    const bool vector = context->kernels == CLPRUNE_KERNELS_VECTOR;
    const size_t blocks = bsr->desc.batch * bsr->desc.keep;
    const size_t run = clprune__max(1, (vector ? GROUP_ELEMENTS : 1024) / block);
    const size_t local = clprune__group_size(context, 64);
    const size_t global = clprune__ceil_div(blocks, run) * local;
    clprune__defines defines = {0};
    clprune__define(&defines, "LOCAL", local);
    clprune__value_defines(bsr->desc.value_type, vector ? clprune__row_vector(block) : 1, &defines);
    clprune__define(&defines, "BLOCK", block);
    clprune__launch launch;
    TRY(clprune__launch_begin(context, &bsr_widen_kernel, &defines, &launch));
    launch.least_group = 1;
    ARG_ULONGS(&launch, blocks, run);
    clprune__arg_region(&launch, clprune__bsr_values_region(bsr));
    if (clprune__is_scaled(bsr->desc.value_type))
        clprune__arg_region(&launch, clprune__bsr_scales_region(bsr));
    clprune__arg_region(&launch, widened);
    return clprune__launch_enqueue(&launch, 1, &global, &local, NULL);
}

clprune_status clprune__bsr_values(
    clprune_context *context, const clprune_bsr *bsr, clprune__region *values)
{
    const clprune_bsr_desc *desc = &bsr->desc;
    const size_t block = desc->block.rows * desc->block.cols;
    size_t count;
    if (desc->value_type == CLPRUNE_VALUES_FP32) {
        *values = clprune__bsr_values_region(bsr);
        return CLPRUNE_SUCCESS;
    }
    REQUIRE(clprune__mul(desc->batch * desc->keep, block, &count), CLPRUNE_SIZE_OVERFLOW,
        "%zu samples of %zu widened blocks overflow size_t", desc->batch, desc->keep);
    TRY(clprune__scratch_array(context, count, sizeof(float), values));
    return widen(context, bsr, block, *values);
}

clprune_status clprune__bsr_words(
    clprune_context *context, const clprune_bsr *bsr, clprune__region *words)
{
    const clprune_bsr_desc *desc = &bsr->desc;
    const clprune_block block = desc->block;
    const size_t width = clprune__ceil_div(block.cols, 2), blocks = desc->batch * desc->keep;
    const size_t run = clprune__max(1, GROUP_ELEMENTS / (block.rows * block.cols));
    const size_t local = 1, global = clprune__ceil_div(blocks, run);
    size_t count;
    REQUIRE(clprune__mul(blocks, block.rows * width, &count), CLPRUNE_SIZE_OVERFLOW,
        "the pairs of %zu samples of %zu kept blocks overflow size_t", desc->batch, desc->keep);
    TRY(clprune__scratch_array(context, count, sizeof(cl_uint), words));
    clprune__defines defines = {0};
    clprune__word_defines(context, desc, &defines);
    clprune__launch launch;
    TRY(clprune__launch_begin(context, &bspmm_words_kernel, &defines, &launch));
    ARG_ULONGS(&launch, blocks, run);
    clprune__arg_region(&launch, clprune__bsr_values_region(bsr));
    if (clprune__is_scaled(desc->value_type))
        clprune__arg_region(&launch, clprune__bsr_scales_region(bsr));
    clprune__arg_region(&launch, *words);
    return clprune__launch_enqueue(&launch, 1, &global, &local, NULL);
}
