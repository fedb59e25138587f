/* The index of a BSR matrix: written in any form, read as int32 crow and col. */
#include "core/checked.h"
#include "ops/sparse/bsr_private.h"
#include "runtime/context/fail.h"
#include "runtime/launch/rowwise.h"

static const clprune__kernel_def bsr_index_kernel = {"sparse/bsr_index.cl", "bsr_index"};

size_t clprune__bitmap_bytes(size_t blocks)
{
    return clprune__ceil_div(blocks, 8);
}

void clprune__arg_index(clprune__launch *launch, const clprune__index *index)
{
    clprune__arg_region(launch, index->crow);
    clprune__arg_region(launch, index->col);
}

/* What bsr_index.cl reads: the define FROM. */
enum { FROM_MASK = 0, FROM_BITMAP = 1, FROM_ALL = 2 };

/* Scratch for `count` int32 of each sample. */
static clprune_status take_ints(
    clprune_context *context, const clprune_bsr *bsr, size_t count, clprune__region *ints)
{
    size_t all;
    REQUIRE(clprune__mul(bsr->desc.batch, count, &all), CLPRUNE_SIZE_OVERFLOW,
        "%zu samples of %zu indices overflow size_t", bsr->desc.batch, count);
    return clprune__scratch_array(context, all, sizeof(cl_int), ints);
}

/* Where crow and col of the samples of `bsr` lie as int32: in its own buffers, or in scratch. */
static clprune_status place_index(clprune_context *context, const clprune_bsr *bsr,
    const clprune_bsr_sizes *sizes, clprune__index *index)
{
    const size_t rows = sizes->block_rows + 1, keep = bsr->desc.keep;
    const size_t size = sizeof(int32_t);
    const size_t batch = bsr->desc.batch;
    index->crow = (clprune__region){
        bsr->crow, bsr->offset.crow / size + bsr->first * rows, size, batch * rows};
    index->col =
        (clprune__region){bsr->col, bsr->offset.col / size + bsr->first * keep, size, batch * keep};
    if (sizes->index_type == CLPRUNE_INDEX_BITMAP) {
        TRY(take_ints(context, bsr, rows, &index->crow));
        TRY(take_ints(context, bsr, keep, &index->col));
    }
    return CLPRUNE_SUCCESS;
}

/* Enqueues bsr_index. `bitmap` is written, too; none if its buffer is NULL. */
static clprune_status make_index(clprune_context *context, int from, clprune__region mask,
    const clprune_bsr *bsr, const clprune_bsr_sizes *sizes, const clprune__index *index,
    clprune__region bitmap)
{
    const size_t local = clprune__group_size(context, 64);
    const size_t global = bsr->desc.batch * local;
    clprune__defines defines = {0};
    clprune__define(&defines, "LOCAL", local);
    clprune__define(&defines, "FROM", (size_t)from);
    clprune__define(&defines, "TO_BITMAP", bitmap.buffer != NULL);
    clprune__launch launch;
    TRY(clprune__launch_begin(context, &bsr_index_kernel, &defines, &launch));
    launch.least_group = 1;
    ARG_ULONGS(&launch, sizes->block_rows, sizes->block_cols, bsr->desc.keep);
    clprune__arg_region(&launch, mask);
    clprune__arg_index(&launch, index);
    if (bitmap.buffer != NULL)
        clprune__arg_region(&launch, bitmap);
    return clprune__launch_enqueue(&launch, 1, &global, &local, NULL);
}

static const clprune__region none = {0};

static clprune__region bitmap_of(const clprune_bsr *bsr, const clprune_bsr_sizes *sizes)
{
    const size_t bytes = clprune__bitmap_bytes(sizes->blocks);
    return (clprune__region){
        bsr->bitmap, bsr->offset.bitmap + bsr->first * bytes, 1, bsr->desc.batch * bytes};
}

clprune_status clprune__bsr_write_index(clprune_context *context, clprune__region mask,
    const clprune_bsr *bsr, const clprune_bsr_sizes *sizes, clprune__index *index)
{
    const bool bitmap = sizes->index_type == CLPRUNE_INDEX_BITMAP;
    TRY(place_index(context, bsr, sizes, index));
    return make_index(context, mask.buffer == NULL ? FROM_ALL : FROM_MASK, mask, bsr, sizes, index,
        bitmap ? bitmap_of(bsr, sizes) : none);
}

clprune_status clprune__bsr_read_index(clprune_context *context, const clprune_bsr *bsr,
    const clprune_bsr_sizes *sizes, clprune__index *index)
{
    TRY(place_index(context, bsr, sizes, index));
    if (sizes->index_type == CLPRUNE_INDEX_BITMAP)
        TRY(make_index(context, FROM_BITMAP, bitmap_of(bsr, sizes), bsr, sizes, index, none));
    return CLPRUNE_SUCCESS;
}
