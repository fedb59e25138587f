#include "clprune/bsr.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/checked.h"
#include "ops/bsr_private.h"
#include "runtime/check.h"
#include "runtime/context_private.h"
#include "runtime/launch.h"

size_t clprune_keep_count(size_t blocks, float sparsity)
{
    if (!(sparsity >= 0.0f && sparsity <= 1.0f))
        return blocks;
    /* 0.7f is 0.69999998..., but 0.7 was meant: the shortest decimal that reads back as the float,
     * parts / scale, in exact integers. Floats in [0, 1] that matter have at most nine digits. */
    for (uint64_t scale = 1; scale <= 1000000000; scale *= 10) {
        const uint64_t parts = (uint64_t)llround((double)sparsity * (double)scale);
        if ((float)((double)parts / (double)scale) != sparsity)
            continue;
        /* floor(parts * blocks / scale + 1/2), split so that no product overflows. */
        const uint64_t whole = blocks / scale, rest = blocks % scale;
        return blocks - (size_t)(parts * whole + (2 * parts * rest + scale) / (2 * scale));
    }
    return blocks - (size_t)floor((double)sparsity * (double)blocks + 0.5);
}

static size_t value_bytes(clprune_value_type type)
{
    static const size_t bytes[] = {4, 2, 2, 1};
    return bytes[type];
}

clprune_status clprune__check_bsr_desc(
    clprune_context *context, const clprune_bsr_desc *desc, clprune_bsr_sizes *sizes)
{
    clprune_status status = CLPRUNE_SUCCESS;
    REQUIRE(desc != NULL && sizes != NULL, CLPRUNE_INVALID_ARGUMENT, "desc or sizes is NULL");
    *sizes = (clprune_bsr_sizes){0};
    clprune_bsr_sizes s;
    REQUIRE(desc->block.rows > 0 && desc->block.cols > 0, CLPRUNE_INVALID_ARGUMENT,
        "a block of %zu x %zu", desc->block.rows, desc->block.cols);
    s.block_rows = clprune__ceil_div(desc->rows, desc->block.rows);
    s.block_cols = clprune__ceil_div(desc->cols, desc->block.cols);
    REQUIRE(clprune__mul(s.block_rows, s.block_cols, &s.blocks) && s.blocks <= INT_MAX &&
                s.block_rows < INT_MAX,
        CLPRUNE_SIZE_OVERFLOW, "%zu x %zu blocks in a sample; indices are int32", s.block_rows,
        s.block_cols);
    REQUIRE(desc->keep <= s.blocks, CLPRUNE_INVALID_ARGUMENT, "keep is %zu of %zu blocks",
        desc->keep, s.blocks);
    REQUIRE((unsigned)desc->value_type <= CLPRUNE_VALUES_INT8, CLPRUNE_INVALID_ARGUMENT,
        "value type is %d", (int)desc->value_type);
    const bool scaled = desc->value_type == CLPRUNE_VALUES_INT8;
    size_t kept, kept_rows, elements, crow, dense;
    const bool fits = clprune__mul(desc->batch, desc->keep, &kept) &&
                      clprune__mul3(desc->keep, desc->block.rows, 1, &kept_rows) &&
                      clprune__mul3(kept, desc->block.rows, desc->block.cols, &elements) &&
                      clprune__mul(elements, value_bytes(desc->value_type), &s.values_bytes) &&
                      clprune__mul(desc->batch, s.block_rows + 1, &crow) &&
                      clprune__mul(crow, sizeof(int32_t), &s.crow_bytes) &&
                      clprune__mul(kept, sizeof(int32_t), &s.col_bytes) &&
                      clprune__mul(kept, scaled ? sizeof(float) : 0, &s.scales_bytes) &&
                      clprune__add(s.values_bytes, s.crow_bytes, &s.total_bytes) &&
                      clprune__add(s.total_bytes, s.col_bytes, &s.total_bytes) &&
                      clprune__add(s.total_bytes, s.scales_bytes, &s.total_bytes) &&
                      clprune__mul3(desc->batch, desc->rows, desc->cols, &dense) &&
                      clprune__mul(dense, sizeof(float), &s.dense_bytes);
    REQUIRE(fits && kept_rows <= UINT32_MAX, CLPRUNE_SIZE_OVERFLOW,
        "%zu samples of %zu x %zu with %zu blocks of %zu x %zu", desc->batch, desc->rows,
        desc->cols, desc->keep, desc->block.rows, desc->block.cols);
    *sizes = s;
done:
    return status;
}

clprune_status clprune_bsr_size_query(const clprune_bsr_desc *desc, clprune_bsr_sizes *sizes)
{
    return clprune__check_bsr_desc(NULL, desc, sizes);
}

clprune_bsr clprune_bsr_samples(const clprune_bsr *bsr, size_t first, size_t count)
{
    clprune_bsr part = {0};
    if (bsr != NULL) {
        part = *bsr;
        first = clprune__min(first, bsr->desc.batch);
        part.first += first;
        part.desc.batch = clprune__min(count, bsr->desc.batch - first);
    }
    return part;
}

/* The sizes of all samples that the buffers of `bsr` hold up to its last one. */
static clprune_status sizes_to_end(
    clprune_context *context, const clprune_bsr *bsr, clprune_bsr_sizes *sizes)
{
    clprune_status status = CLPRUNE_SUCCESS;
    clprune_bsr_desc desc = bsr->desc;
    REQUIRE(clprune__add(bsr->first, desc.batch, &desc.batch), CLPRUNE_SIZE_OVERFLOW,
        "%zu samples from sample %zu on", bsr->desc.batch, bsr->first);
    TRY(clprune__check_bsr_desc(context, &desc, sizes));
done:
    return status;
}

clprune_status clprune__check_bsr(
    clprune_context *context, const clprune_bsr *bsr, clprune_bsr_sizes *sizes)
{
    clprune_status status = CLPRUNE_SUCCESS;
    clprune_bsr_sizes end;
    REQUIRE(context != NULL, CLPRUNE_INVALID_ARGUMENT, "context is NULL");
    REQUIRE(bsr != NULL, CLPRUNE_INVALID_ARGUMENT, "bsr is NULL");
    TRY(clprune__check_bsr_desc(context, &bsr->desc, sizes));
    TRY(sizes_to_end(context, bsr, &end));
    TRY(clprune__check_buffer(context, "bsr.values", bsr->values, end.values_bytes, 1));
    TRY(clprune__check_buffer(context, "bsr.scales", bsr->scales, end.scales_bytes, 1));
    TRY(clprune__check_buffer(context, "bsr.crow", bsr->crow, end.crow_bytes, 1));
    TRY(clprune__check_buffer(context, "bsr.col", bsr->col, end.col_bytes, 1));
done:
    return status;
}

clprune_status clprune__check_bsr_apart(
    clprune_context *context, const char *name, clprune_mat mat, const clprune_bsr *bsr)
{
    clprune_status status = CLPRUNE_SUCCESS;
    clprune_bsr_sizes end;
    TRY(sizes_to_end(context, bsr, &end));
    const struct {
        const char *name;
        cl_mem buffer;
        size_t bytes;
    } part[4] = {{"bsr.values", bsr->values, end.values_bytes},
        {"bsr.scales", bsr->scales, end.scales_bytes}, {"bsr.crow", bsr->crow, end.crow_bytes},
        {"bsr.col", bsr->col, end.col_bytes}};
    for (int i = 0; i < 4; i++)
        TRY(clprune__check_apart(context, name, mat, part[i].name,
            clprune_mat_of(part[i].buffer, 1, clprune__ceil_div(part[i].bytes, sizeof(float)))));
done:
    return status;
}

size_t clprune__group_size(const clprune_context *context, size_t wanted)
{
    return context->kernels == CLPRUNE_KERNELS_VECTOR
               ? 1
               : clprune__min(wanted, context->facts.max_work_group);
}

clprune_status clprune_bsr_create(clprune_context *context, clprune_memory_category category,
    const char *name, const clprune_bsr_desc *desc, clprune_bsr *bsr)
{
    clprune_status status = CLPRUNE_SUCCESS;
    clprune_bsr made = {0};
    clprune_bsr_sizes sizes;
    REQUIRE(bsr != NULL, CLPRUNE_INVALID_ARGUMENT, "bsr is NULL");
    *bsr = made;
    REQUIRE(context != NULL && name != NULL, CLPRUNE_INVALID_ARGUMENT, "context or name is NULL");
    TRY(clprune__check_bsr_desc(context, desc, &sizes));
    const struct {
        const char *suffix;
        size_t bytes;
        cl_mem *buffer;
    } part[4] = {{"values", sizes.values_bytes, &made.values},
        {"crow", sizes.crow_bytes, &made.crow}, {"col", sizes.col_bytes, &made.col},
        {"scales", sizes.scales_bytes, &made.scales}};
    const int parts = desc->value_type == CLPRUNE_VALUES_INT8 ? 4 : 3;
    for (int i = 0; i < parts; i++) {
        char full[256];
        (void)snprintf(full, sizeof full, "%.240s.%s", name, part[i].suffix);
        TRY(clprune_buffer_create(context, category, full, part[i].bytes, part[i].buffer));
    }
    made.desc = *desc;
    *bsr = made;
done:
    if (status != CLPRUNE_SUCCESS)
        clprune_bsr_destroy(context, &made);
    return status;
}

void clprune_bsr_destroy(clprune_context *context, clprune_bsr *bsr)
{
    if (bsr == NULL)
        return;
    clprune_buffer_release(context, bsr->values);
    clprune_buffer_release(context, bsr->crow);
    clprune_buffer_release(context, bsr->col);
    clprune_buffer_release(context, bsr->scales);
    *bsr = (clprune_bsr){0};
}

/* Enqueues bsr_index: crow and col from the mask. */
static clprune_status write_index(clprune_context *context, cl_mem mask, size_t mask_offset,
    const clprune_bsr *bsr, const clprune_bsr_sizes *sizes)
{
    clprune_status status = CLPRUNE_SUCCESS;
    const size_t local = clprune__group_size(context, 64);
    const size_t global = bsr->desc.batch * local;
    char defines[64];
    (void)snprintf(defines, sizeof defines, "-DLOCAL=%u -DALL=%d", (unsigned)local, mask == NULL);
    clprune__launch launch;
    TRY(clprune__launch_begin(context, CLPRUNE__BSR_INDEX, defines, &launch));
    clprune__arg_ulong(&launch, bsr->first);
    clprune__arg_ulong(&launch, sizes->block_rows);
    clprune__arg_ulong(&launch, sizes->block_cols);
    clprune__arg_ulong(&launch, bsr->desc.keep);
    clprune__arg_ulong(&launch, mask_offset);
    clprune__arg_mem(&launch, mask);
    clprune__arg_mem(&launch, bsr->crow);
    clprune__arg_mem(&launch, bsr->col);
    TRY(clprune__launch_enqueue(&launch, 1, &global, &local, NULL));
done:
    return status;
}

/* Begins a launch of bsr_pack.cl, one group a block row, up to the arguments both entries share. */
static clprune_status begin_block_rows(clprune_context *context, clprune__kernel_id id,
    bool weighted, const clprune_bsr *bsr, const clprune_bsr_sizes *sizes, clprune__launch *launch,
    size_t *global, size_t *local)
{
    clprune_status status = CLPRUNE_SUCCESS;
    const clprune_bsr_desc *desc = &bsr->desc;
    *local = clprune__group_size(context, 64);
    *global = desc->batch * sizes->block_rows * *local;
    const bool vector = context->kernels == CLPRUNE_KERNELS_VECTOR;
    char values[32], defines[160];
    clprune__value_defines(desc->value_type, vector ? clprune__row_vector(desc->block.cols) : 4,
        values, sizeof values);
    (void)snprintf(defines, sizeof defines, "-DLOCAL=%u %s -DBR=%zu -DBC=%zu%s", (unsigned)*local,
        values, desc->block.rows, desc->block.cols, weighted ? " -DWEIGHTED=1" : "");
    TRY(clprune__launch_begin(context, id, defines, launch));
    clprune__arg_ulong(launch, bsr->first);
    clprune__arg_ulong(launch, desc->rows);
    clprune__arg_ulong(launch, desc->cols);
    clprune__arg_ulong(launch, sizes->block_rows);
    clprune__arg_ulong(launch, desc->keep);
done:
    return status;
}

clprune_status clprune__bsr_pack_at(clprune_context *context, clprune_mat x, cl_mem mask,
    size_t mask_offset, const clprune__weights *weights, const clprune_bsr *bsr, cl_event *event)
{
    clprune_status status = CLPRUNE_SUCCESS;
    clprune_bsr_sizes sizes;
    TRY(clprune__check_bsr(context, bsr, &sizes));
    const clprune_bsr_desc *desc = &bsr->desc;
    TRY(clprune__check_mat(context, "x", x, desc->batch * desc->rows, desc->cols));
    TRY(clprune__check_bsr_apart(context, "x", x, bsr));
    if (mask == NULL)
        REQUIRE(desc->keep == sizes.blocks, CLPRUNE_INVALID_ARGUMENT,
            "without a mask all %zu blocks are kept, but keep is %zu", sizes.blocks, desc->keep);
    else
        TRY(clprune__check_buffer(
            context, "mask", mask, mask_offset + desc->batch * sizes.blocks, 1));
    TRY(write_index(context, mask, mask_offset, bsr, &sizes));
    if (desc->keep == 0) {
        TRY(clprune__empty_event(context, event));
        goto done;
    }
    size_t global, local;
    clprune__launch launch;
    TRY(begin_block_rows(
        context, CLPRUNE__BSR_PACK, weights != NULL, bsr, &sizes, &launch, &global, &local));
    clprune__arg_mat(&launch, x);
    clprune__arg_mem(&launch, bsr->crow);
    clprune__arg_mem(&launch, bsr->col);
    clprune__arg_mem(&launch, bsr->values);
    if (desc->value_type == CLPRUNE_VALUES_INT8)
        clprune__arg_mem(&launch, bsr->scales);
    if (weights != NULL) {
        clprune__arg_ulong(&launch, sizes.block_cols);
        clprune__arg_ulong(&launch, weights->scores_offset);
        clprune__arg_mem(&launch, weights->scores);
        clprune__arg_ulong(&launch, weights->thresholds_offset);
        clprune__arg_mem(&launch, weights->thresholds);
    }
    TRY(clprune__launch_enqueue(&launch, 1, &global, &local, event));
done:
    return status;
}

clprune_status clprune_bsr_pack(
    clprune_context *context, clprune_mat x, cl_mem mask, const clprune_bsr *bsr, cl_event *event)
{
    return clprune__bsr_pack_at(context, x, mask, 0, NULL, bsr, event);
}

clprune_status clprune_bsr_unpack(
    clprune_context *context, const clprune_bsr *bsr, clprune_mat y, cl_event *event)
{
    clprune_status status = CLPRUNE_SUCCESS;
    clprune_bsr_sizes sizes;
    TRY(clprune__check_bsr(context, bsr, &sizes));
    const clprune_bsr_desc *desc = &bsr->desc;
    TRY(clprune__check_mat(context, "y", y, desc->batch * desc->rows, desc->cols));
    TRY(clprune__check_bsr_apart(context, "y", y, bsr));
    if (desc->keep == 0) {
        TRY(clprune_mat_fill(context, 0.0f, y, event));
        goto done;
    }
    size_t global, local;
    clprune__launch launch;
    TRY(begin_block_rows(
        context, CLPRUNE__BSR_UNPACK, false, bsr, &sizes, &launch, &global, &local));
    clprune__arg_mem(&launch, bsr->values);
    if (desc->value_type == CLPRUNE_VALUES_INT8)
        clprune__arg_mem(&launch, bsr->scales);
    clprune__arg_mem(&launch, bsr->crow);
    clprune__arg_mem(&launch, bsr->col);
    clprune__arg_mat(&launch, y);
    TRY(clprune__launch_enqueue(&launch, 1, &global, &local, event));
done:
    return status;
}

/* The rules of one sample's indices; texts name the sample and the entry. */
static clprune_status validate_sample(clprune_context *context, size_t n, const int32_t *crow,
    const int32_t *col, const clprune_bsr_sizes *sizes, size_t keep)
{
    clprune_status status = CLPRUNE_SUCCESS;
    REQUIRE(crow[0] == 0, CLPRUNE_INVALID_BSR, "crow[%zu][0] is %d, expected 0", n, (int)crow[0]);
    for (size_t i = 0; i < sizes->block_rows; i++)
        REQUIRE(crow[i] <= crow[i + 1] && crow[i + 1] >= 0 && (size_t)crow[i + 1] <= keep,
            CLPRUNE_INVALID_BSR, "crow[%zu][%zu] is %d after %d, with %zu blocks kept", n, i + 1,
            (int)crow[i + 1], (int)crow[i], keep);
    REQUIRE((size_t)crow[sizes->block_rows] == keep, CLPRUNE_INVALID_BSR,
        "crow[%zu][%zu] is %d, expected keep = %zu", n, sizes->block_rows,
        (int)crow[sizes->block_rows], keep);
    for (size_t i = 0; i < sizes->block_rows; i++)
        for (int32_t k = crow[i]; k < crow[i + 1]; k++) {
            REQUIRE(col[k] >= 0 && (size_t)col[k] < sizes->block_cols, CLPRUNE_INVALID_BSR,
                "col[%zu][%d] is %d, of %zu block columns", n, (int)k, (int)col[k],
                sizes->block_cols);
            REQUIRE(k == crow[i] || col[k - 1] < col[k], CLPRUNE_INVALID_BSR,
                "col[%zu][%d] is %d after %d: not ascending in block row %zu", n, (int)k,
                (int)col[k], (int)col[k - 1], i);
        }
done:
    return status;
}

/* `bytes` of a buffer from `offset` on, as a new array. */
static clprune_status read_back(
    clprune_context *context, cl_mem buffer, size_t offset, size_t bytes, void **host)
{
    clprune_status status = CLPRUNE_SUCCESS;
    *host = malloc(clprune__max(bytes, 1));
    REQUIRE(*host != NULL, CLPRUNE_OUT_OF_HOST_MEMORY, "%zu bytes", bytes);
    if (bytes > 0)
        TRY_CL(clEnqueueReadBuffer(
            context->queue, buffer, CL_TRUE, offset, bytes, *host, 0, NULL, NULL));
done:
    return status;
}

clprune_status clprune_bsr_validate(clprune_context *context, const clprune_bsr *bsr)
{
    clprune_status status = CLPRUNE_SUCCESS;
    int32_t *crow = NULL, *col = NULL;
    float *scales = NULL;
    clprune_bsr_sizes sizes;
    TRY(clprune__check_bsr(context, bsr, &sizes));
    const size_t keep = bsr->desc.keep;
    TRY(read_back(context, bsr->crow, bsr->first * (sizes.block_rows + 1) * sizeof *crow,
        sizes.crow_bytes, (void **)&crow));
    TRY(read_back(
        context, bsr->col, bsr->first * keep * sizeof *col, sizes.col_bytes, (void **)&col));
    TRY(read_back(context, bsr->scales, bsr->first * keep * sizeof *scales, sizes.scales_bytes,
        (void **)&scales));
    for (size_t n = 0; n < bsr->desc.batch; n++)
        TRY(validate_sample(
            context, n, crow + n * (sizes.block_rows + 1), col + n * keep, &sizes, keep));
    for (size_t i = 0; i < sizes.scales_bytes / sizeof *scales; i++)
        REQUIRE(scales[i] >= 0.0f && isfinite(scales[i]), CLPRUNE_INVALID_BSR,
            "scales[%zu][%zu] is %g", i / keep, i % keep, (double)scales[i]);
done:
    free(crow);
    free(col);
    free(scales);
    return status;
}
