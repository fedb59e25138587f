/* BSR matrices: creation, packing and unpacking. */
#include "clprune/bsr.h"

#include <stdio.h>

#include "core/checked.h"
#include "ops/sparse/bsr_private.h"
#include "runtime/context/check.h"
#include "runtime/context/context_private.h"
#include "runtime/launch/launch.h"
#include "runtime/launch/rowwise.h"
#include "runtime/memory/ledger.h"
#include "runtime/memory/matrix_private.h"

static const clprune__kernel_def bsr_pack_kernel = {"sparse/bsr_pack.cl", "bsr_pack"};
static const clprune__kernel_def bsr_unpack_kernel = {"sparse/bsr_pack.cl", "bsr_unpack"};

clprune_status clprune_bsr_create(clprune_context *context, clprune_memory_category category,
    const char *name, const clprune_bsr_desc *desc, clprune_bsr *bsr)
{
    clprune_bsr made = {.desc = desc != NULL ? *desc : (clprune_bsr_desc){0}}; /* may be in *bsr */
    ENTER_CREATE(context, bsr);
    clprune_status status = CLPRUNE_SUCCESS;
    clprune_bsr_sizes sizes;
    REQUIRE_DONE(bsr != NULL, CLPRUNE_INVALID_ARGUMENT, "bsr is NULL");
    REQUIRE_DONE(
        context != NULL && name != NULL, CLPRUNE_INVALID_ARGUMENT, "context or name is NULL");
    TRY_DONE(clprune__check_bsr_desc(context, desc != NULL ? &made.desc : NULL, &sizes));
    const bool bitmap = sizes.index_type == CLPRUNE_INDEX_BITMAP;
    const struct {
        const char *suffix;
        bool used;
        size_t bytes;
        cl_mem *buffer;
    } parts[] = {{"values", true, sizes.values_bytes, &made.values},
        {"crow", !bitmap, sizes.crow_bytes, &made.crow},
        {"col", !bitmap, sizes.col_bytes, &made.col},
        {"bitmap", bitmap, sizes.bitmap_bytes, &made.bitmap},
        {"scales", clprune__is_scaled(made.desc.value_type), sizes.scales_bytes, &made.scales}};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        char full[256];
        if (!parts[i].used)
            continue;
        (void)snprintf(full, sizeof full, "%.240s.%s", name, parts[i].suffix);
        TRY_DONE(clprune__buffer_create(context, category, full, parts[i].bytes, parts[i].buffer));
    }
    made.desc.index_type = sizes.index_type;
    *bsr = made;
done:
    if (status != CLPRUNE_SUCCESS)
        clprune_bsr_destroy(context, &made);
    return status;
}

void clprune_bsr_destroy(clprune_context *context, clprune_bsr *bsr)
{
    ENTER_QUIETLY(context);
    if (bsr == NULL)
        return;
    clprune__buffer_release(context, bsr->values);
    clprune__buffer_release(context, bsr->crow);
    clprune__buffer_release(context, bsr->col);
    clprune__buffer_release(context, bsr->scales);
    clprune__buffer_release(context, bsr->bitmap);
    *bsr = (clprune_bsr){0};
}

/* Floats of x that a group takes on CPUs; beginning a group costs as much as reading some cache
 * lines. */
enum { GROUP_FLOATS = 4096 };

size_t clprune__block_row_run(size_t local, const clprune_bsr_desc *desc)
{
    return local > 1
               ? 1
               : clprune__max(1, GROUP_FLOATS / desc->block.rows / clprune__max(desc->cols, 1));
}

/* Begins a launch of bsr_pack.cl, whose groups take a run of block rows each, and sets the
 * arguments that both entries share. */
static clprune_status begin_block_rows(clprune_context *context, const clprune__kernel_def *def,
    bool weighted, bool centred, const clprune_bsr *bsr, const clprune_bsr_sizes *sizes,
    clprune__launch *launch, size_t *global, size_t *local)
{
    const clprune_bsr_desc *desc = &bsr->desc;
    *local = clprune__group_size(context, 64);
    const size_t run = clprune__block_row_run(*local, desc);
    *global = desc->batch * clprune__ceil_div(sizes->block_rows, run) * *local;
    const bool vector = context->kernels == CLPRUNE_KERNELS_VECTOR;
    const bool halves = desc->value_type == CLPRUNE_VALUES_INT4 && desc->block.cols % 2 != 0;
    const size_t width = halves ? 1 : vector ? clprune__row_vector(desc->block.cols) : 4;
    clprune__defines defines = {0};
    clprune__define(&defines, "LOCAL", *local);
    clprune__value_defines(desc->value_type, width, &defines);
    clprune__define(&defines, "BR", desc->block.rows);
    clprune__define(&defines, "BC", desc->block.cols);
    if (weighted)
        clprune__define(&defines, "WEIGHTED", 1);
    if (centred)
        clprune__define(&defines, "CENTRED", 1);
    TRY(clprune__launch_begin(context, def, &defines, launch));
    launch->least_group = 1;
    ARG_ULONGS(launch, desc->rows, desc->cols, sizes->block_rows, run, desc->keep);
    return CLPRUNE_SUCCESS;
}

/* Sets values and, if there are any, scales. */
static void arg_values(clprune__launch *launch, const clprune_bsr *bsr)
{
    clprune__arg_region(launch, clprune__bsr_values_region(bsr));
    if (clprune__is_scaled(bsr->desc.value_type))
        clprune__arg_region(launch, clprune__bsr_scales_region(bsr));
}

clprune_status clprune__bsr_pack(clprune_context *context, clprune_mat x, const clprune_mat *centre,
    clprune__region mask, const clprune__weights *weights, const clprune_bsr *bsr,
    const clprune_bsr_sizes *sizes, cl_event *event)
{
    clprune__index index;
    SCRATCH_SCOPE(context);
    TRY(clprune__bsr_write_index(context, mask, bsr, sizes, &index));
    if (bsr->desc.keep == 0) {
        TRY(clprune__empty_event(context, event));
        return CLPRUNE_SUCCESS;
    }
    size_t global, local;
    clprune__launch launch;
    TRY(begin_block_rows(context, &bsr_pack_kernel, weights != NULL, centre != NULL, bsr, sizes,
        &launch, &global, &local));
    clprune__arg_mat(&launch, x);
    if (centre != NULL)
        clprune__arg_mat(&launch, *centre);
    clprune__arg_index(&launch, &index);
    arg_values(&launch, bsr);
    if (weights != NULL) {
        clprune__arg_ulong(&launch, sizes->block_cols);
        clprune__arg_region(&launch, weights->scores);
        clprune__arg_region(&launch, weights->thresholds);
    }
    return clprune__launch_enqueue(&launch, 1, &global, &local, event);
}

clprune_status clprune_bsr_pack(
    clprune_context *context, clprune_mat x, cl_mem mask, const clprune_bsr *bsr, cl_event *event)
{
    ENTER(context);
    clprune_bsr_sizes sizes;
    TRY(clprune__check_bsr_dense(context, bsr, "x", x, &sizes));
    const clprune_bsr_desc *desc = &bsr->desc;
    if (mask == NULL)
        REQUIRE(desc->keep == sizes.blocks, CLPRUNE_INVALID_ARGUMENT,
            "mask is NULL, which keeps all %zu blocks, but keep is %zu", sizes.blocks, desc->keep);
    else {
        const size_t blocks = desc->batch * sizes.blocks;
        TRY(clprune__check_buffer(context, "mask", mask, blocks, 1));
        TRY(clprune__check_bsr_apart(context, "mask", (clprune__bytes){mask, 0, blocks}, bsr));
    }
    return clprune__bsr_pack(
        context, x, NULL, (clprune__region){mask, 0, 1}, NULL, bsr, &sizes, event);
}

clprune_status clprune__bsr_unpack(
    clprune_context *context, const clprune_bsr *bsr, clprune_mat y, cl_event *event)
{
    clprune_bsr_sizes sizes;
    clprune__index index;
    SCRATCH_SCOPE(context);
    TRY(clprune__check_bsr_dense(context, bsr, "y", y, &sizes));
    const clprune_bsr_desc *desc = &bsr->desc;
    if (desc->keep == 0) {
        TRY(clprune__mat_fill(context, 0.0f, y, event));
        return CLPRUNE_SUCCESS;
    }
    TRY(clprune__bsr_read_index(context, bsr, &sizes, &index));
    size_t global, local;
    clprune__launch launch;
    TRY(begin_block_rows(
        context, &bsr_unpack_kernel, false, false, bsr, &sizes, &launch, &global, &local));
    arg_values(&launch, bsr);
    clprune__arg_index(&launch, &index);
    clprune__arg_mat(&launch, y);
    return clprune__launch_enqueue(&launch, 1, &global, &local, event);
}

clprune_status clprune_bsr_unpack(
    clprune_context *context, const clprune_bsr *bsr, clprune_mat y, cl_event *event)
{
    ENTER(context);
    return clprune__bsr_unpack(context, bsr, y, event);
}
