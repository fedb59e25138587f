#include "clprune/bsr.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/checked.h"
#include "ops/sparse/bsr_private.h"
#include "runtime/context/check.h"
#include "runtime/context/context_private.h"
#include "runtime/launch/launch.h"
#include "runtime/launch/rowwise.h"

static const clprune__kernel_def bsr_pack_kernel = {"sparse/bsr_pack.cl", "bsr_pack"};
static const clprune__kernel_def bsr_unpack_kernel = {"sparse/bsr_pack.cl", "bsr_unpack"};

size_t clprune_keep_count(size_t blocks, float sparsity)
{
    if (!(sparsity >= 0.0f && sparsity <= 1.0f))
        return blocks;
    /* 0.7f is 0.69999998..., but 0.7 was meant. So take the shortest decimal that reads back as the
     * float, parts / scale, in exact integers; nine digits suffice in practice. */
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

size_t clprune__value_bytes(clprune_value_type type)
{
    static const size_t bytes[] = {4, 2, 2, 1, 1};
    return bytes[type];
}

size_t clprune__block_values(clprune_value_type type, clprune_block block)
{
    const size_t elements = block.rows * block.cols;
    return type == CLPRUNE_VALUES_INT4 ? clprune__ceil_div(elements, 2) : elements;
}

bool clprune__is_scaled(clprune_value_type type)
{
    return type == CLPRUNE_VALUES_INT8 || type == CLPRUNE_VALUES_INT4;
}

bool clprune__is_index_type(clprune_index_type type)
{
    return type == CLPRUNE_INDEX_INT32 || type == CLPRUNE_INDEX_BITMAP ||
           type == CLPRUNE_INDEX_SMALLEST;
}

static clprune_index_type choose_index(const clprune_bsr_desc *desc, const clprune_bsr_sizes *sizes)
{
    if (desc->index_type != CLPRUNE_INDEX_SMALLEST)
        return desc->index_type;
    /* Bytes of one sample; no overflow, with at most 2^31 - 1 blocks and block rows. */
    const uint64_t ints = ((uint64_t)sizes->block_rows + 1 + desc->keep) * sizeof(int32_t);
    return clprune__bitmap_bytes(sizes->blocks) < ints ? CLPRUNE_INDEX_BITMAP : CLPRUNE_INDEX_INT32;
}

static clprune_status check_types(clprune_context *context, const clprune_bsr_desc *desc)
{
    clprune_status status = CLPRUNE_SUCCESS;
    REQUIRE((unsigned)desc->value_type <= CLPRUNE_VALUES_INT4, CLPRUNE_INVALID_ARGUMENT,
        "value_type is %d, expected a clprune_value_type", (int)desc->value_type);
    REQUIRE(clprune__is_index_type(desc->index_type), CLPRUNE_INVALID_ARGUMENT,
        "index_type is %d, expected a clprune_index_type", (int)desc->index_type);
done:
    return status;
}

/* Of a block: kernels count its elements, rounded up to whole vectors, in 31 bits. */
#define MOST_ELEMENTS ((size_t)1 << 30)

clprune_status clprune__check_bsr_desc(
    clprune_context *context, const clprune_bsr_desc *desc, clprune_bsr_sizes *sizes)
{
    clprune_status status = CLPRUNE_SUCCESS;
    REQUIRE(desc != NULL && sizes != NULL, CLPRUNE_INVALID_ARGUMENT, "desc or sizes is NULL");
    *sizes = (clprune_bsr_sizes){0};
    clprune_bsr_sizes s;
    size_t kept, kept_rows, elements, dense;
    TRY(clprune__check_reserved(context, "desc", desc->reserved, sizeof desc->reserved));
    REQUIRE(desc->block.rows > 0 && desc->block.cols > 0, CLPRUNE_INVALID_ARGUMENT,
        "block is %zu x %zu, expected sides of at least 1", desc->block.rows, desc->block.cols);
    REQUIRE(
        clprune__mul(desc->block.rows, desc->block.cols, &elements) && elements <= MOST_ELEMENTS,
        CLPRUNE_SIZE_OVERFLOW, "block is %zu x %zu, expected at most 2^30 elements",
        desc->block.rows, desc->block.cols);
    s.block_rows = clprune__ceil_div(desc->rows, desc->block.rows);
    s.block_cols = clprune__ceil_div(desc->cols, desc->block.cols);
    REQUIRE(clprune__mul(s.block_rows, s.block_cols, &s.blocks) && s.blocks <= INT_MAX &&
                s.block_rows < INT_MAX,
        CLPRUNE_SIZE_OVERFLOW, "%zu x %zu blocks in a sample, expected at most 2^31 - 1",
        s.block_rows, s.block_cols);
    REQUIRE(desc->keep <= s.blocks, CLPRUNE_INVALID_ARGUMENT,
        "keep is %zu, expected at most the %zu blocks", desc->keep, s.blocks);
    TRY(check_types(context, desc));
    s.index_type = choose_index(desc, &s);
    const bool scaled = clprune__is_scaled(desc->value_type);
    const bool bitmap = s.index_type == CLPRUNE_INDEX_BITMAP;
    const bool fits =
        clprune__mul(desc->batch, desc->keep, &kept) &&
        clprune__mul(desc->keep, desc->block.rows, &kept_rows) &&
        clprune__mul3(kept, desc->block.rows, desc->block.cols, &elements) &&
        clprune__mul3(kept, clprune__block_values(desc->value_type, desc->block),
            clprune__value_bytes(desc->value_type), &s.values_bytes) &&
        clprune__mul3(desc->batch, s.block_rows + 1, bitmap ? 0 : sizeof(int32_t), &s.crow_bytes) &&
        clprune__mul(kept, bitmap ? 0 : sizeof(int32_t), &s.col_bytes) &&
        clprune__mul(desc->batch, bitmap ? clprune__bitmap_bytes(s.blocks) : 0, &s.bitmap_bytes) &&
        clprune__mul(kept, scaled ? sizeof(uint16_t) : 0, &s.scales_bytes) &&
        clprune__add(s.values_bytes, s.crow_bytes, &s.total_bytes) &&
        clprune__add(s.total_bytes, s.col_bytes, &s.total_bytes) &&
        clprune__add(s.total_bytes, s.bitmap_bytes, &s.total_bytes) &&
        clprune__add(s.total_bytes, s.scales_bytes, &s.total_bytes) &&
        clprune__mul3(desc->batch, desc->rows, desc->cols, &dense) &&
        clprune__mul(dense, sizeof(float), &s.dense_bytes);
    REQUIRE(fits && kept_rows <= UINT32_MAX, CLPRUNE_SIZE_OVERFLOW,
        "%zu samples of %zu x %zu with %zu blocks of %zu x %zu overflow size_t, or 2^32 kept rows",
        desc->batch, desc->rows, desc->cols, desc->keep, desc->block.rows, desc->block.cols);
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

/* The sizes of samples [0, first + batch), which precede the end of `bsr` in its buffers. */
static clprune_status sizes_to_end(
    clprune_context *context, const clprune_bsr *bsr, clprune_bsr_sizes *sizes)
{
    clprune_status status = CLPRUNE_SUCCESS;
    clprune_bsr_desc desc = bsr->desc;
    REQUIRE(clprune__add(bsr->first, desc.batch, &desc.batch), CLPRUNE_SIZE_OVERFLOW,
        "%zu samples from sample %zu overflow size_t", bsr->desc.batch, bsr->first);
    TRY(clprune__check_bsr_desc(context, &desc, sizes));
done:
    return status;
}

enum { BSR_PARTS = 5 };

/* A part of a matrix; bytes.count is 0 where the matrix has no such part. */
typedef struct bsr_part {
    const char *name;
    clprune__bytes bytes;
    size_t align; /* bytes */
} bsr_part;

static void list_parts(
    const clprune_bsr *bsr, const clprune_bsr_sizes *sizes, bsr_part parts[BSR_PARTS])
{
    const clprune_bsr_offsets *offset = &bsr->offset;
    const bsr_part all[BSR_PARTS] = {
        {"bsr.values", {bsr->values, offset->values, sizes->values_bytes},
            clprune__value_bytes(bsr->desc.value_type)},
        {"bsr.scales", {bsr->scales, offset->scales, sizes->scales_bytes}, sizeof(uint16_t)},
        {"bsr.crow", {bsr->crow, offset->crow, sizes->crow_bytes}, sizeof(int32_t)},
        {"bsr.col", {bsr->col, offset->col, sizes->col_bytes}, sizeof(int32_t)},
        {"bsr.bitmap", {bsr->bitmap, offset->bitmap, sizes->bitmap_bytes}, 1}};
    memcpy(parts, all, sizeof all);
}

static clprune_status check_part(clprune_context *context, const bsr_part *part)
{
    clprune_status status = CLPRUNE_SUCCESS;
    const clprune__bytes bytes = part->bytes;
    size_t end;
    if (bytes.count == 0)
        goto done;
    REQUIRE(bytes.begin % part->align == 0, CLPRUNE_INVALID_ARGUMENT,
        "%s begins at byte %zu, expected a multiple of %zu", part->name, bytes.begin, part->align);
    REQUIRE(clprune__add(bytes.begin, bytes.count, &end), CLPRUNE_SIZE_OVERFLOW,
        "%s begins at byte %zu and its end overflows size_t", part->name, bytes.begin);
    TRY(clprune__check_buffer(context, part->name, bytes.buffer, end, 1));
done:
    return status;
}

clprune_status clprune__check_bsr(
    clprune_context *context, const clprune_bsr *bsr, clprune_bsr_sizes *sizes)
{
    clprune_status status = CLPRUNE_SUCCESS;
    clprune_bsr_sizes end;
    bsr_part parts[BSR_PARTS];
    REQUIRE(context != NULL, CLPRUNE_INVALID_ARGUMENT, "context is NULL");
    REQUIRE(bsr != NULL, CLPRUNE_INVALID_ARGUMENT, "bsr is NULL");
    TRY(clprune__check_reserved(context, "bsr", bsr->reserved, sizeof bsr->reserved));
    TRY(clprune__check_bsr_desc(context, &bsr->desc, sizes));
    TRY(sizes_to_end(context, bsr, &end));
    list_parts(bsr, &end, parts);
    for (int i = 0; i < BSR_PARTS; i++)
        TRY(check_part(context, &parts[i]));
    for (int i = 1; i < BSR_PARTS; i++)
        for (int k = 0; k < i; k++)
            TRY(clprune__check_bytes_apart(
                context, parts[i].name, parts[i].bytes, parts[k].name, parts[k].bytes));
done:
    return status;
}

clprune_status clprune__check_bsr_apart(
    clprune_context *context, const char *name, clprune__bytes bytes, const clprune_bsr *bsr)
{
    clprune_status status = CLPRUNE_SUCCESS;
    clprune_bsr_sizes end;
    bsr_part parts[BSR_PARTS];
    TRY(sizes_to_end(context, bsr, &end));
    list_parts(bsr, &end, parts);
    for (int i = 0; i < BSR_PARTS; i++)
        TRY(clprune__check_bytes_apart(context, name, bytes, parts[i].name, parts[i].bytes));
done:
    return status;
}

clprune_status clprune__check_bsr_dense(clprune_context *context, const clprune_bsr *bsr,
    const char *name, clprune_mat mat, clprune_bsr_sizes *sizes)
{
    clprune_status status = CLPRUNE_SUCCESS;
    TRY(clprune__check_bsr(context, bsr, sizes));
    const clprune_bsr_desc *desc = &bsr->desc;
    TRY(clprune__check_mat(context, name, mat, desc->batch * desc->rows, desc->cols));
    TRY(clprune__check_bsr_apart(context, name, clprune__bytes_of(mat), bsr));
done:
    return status;
}

clprune_status clprune_bsr_create(clprune_context *context, clprune_memory_category category,
    const char *name, const clprune_bsr_desc *desc, clprune_bsr *bsr)
{
    clprune_bsr made = {.desc = desc != NULL ? *desc : (clprune_bsr_desc){0}}; /* may be in *bsr */
    ENTER_CREATE(context, bsr);
    clprune_status status = CLPRUNE_SUCCESS;
    clprune_bsr_sizes sizes;
    REQUIRE(bsr != NULL, CLPRUNE_INVALID_ARGUMENT, "bsr is NULL");
    REQUIRE(context != NULL && name != NULL, CLPRUNE_INVALID_ARGUMENT, "context or name is NULL");
    TRY(clprune__check_bsr_desc(context, desc != NULL ? &made.desc : NULL, &sizes));
    const bool bitmap = sizes.index_type == CLPRUNE_INDEX_BITMAP;
    const struct {
        const char *suffix;
        bool used;
        size_t bytes;
        cl_mem *buffer;
    } part[BSR_PARTS] = {{"values", true, sizes.values_bytes, &made.values},
        {"crow", !bitmap, sizes.crow_bytes, &made.crow},
        {"col", !bitmap, sizes.col_bytes, &made.col},
        {"bitmap", bitmap, sizes.bitmap_bytes, &made.bitmap},
        {"scales", clprune__is_scaled(made.desc.value_type), sizes.scales_bytes, &made.scales}};
    for (int i = 0; i < BSR_PARTS; i++) {
        char full[256];
        if (!part[i].used)
            continue;
        (void)snprintf(full, sizeof full, "%.240s.%s", name, part[i].suffix);
        TRY(clprune_buffer_create(context, category, full, part[i].bytes, part[i].buffer));
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
    clprune_buffer_release(context, bsr->values);
    clprune_buffer_release(context, bsr->crow);
    clprune_buffer_release(context, bsr->col);
    clprune_buffer_release(context, bsr->scales);
    clprune_buffer_release(context, bsr->bitmap);
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
    clprune_status status = CLPRUNE_SUCCESS;
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
    clprune__arg_ulong(launch, desc->rows);
    clprune__arg_ulong(launch, desc->cols);
    clprune__arg_ulong(launch, sizes->block_rows);
    clprune__arg_ulong(launch, run);
    clprune__arg_ulong(launch, desc->keep);
done:
    return status;
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
    clprune_status status = CLPRUNE_SUCCESS;
    clprune__index index;
    const clprune__scratch_mark mark = clprune__scratch_begin(context);
    TRY(clprune__bsr_write_index(context, mask, bsr, sizes, &index));
    if (bsr->desc.keep == 0) {
        TRY(clprune__empty_event(context, event));
        goto done;
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
    TRY(clprune__launch_enqueue(&launch, 1, &global, &local, event));
done:
    clprune__scratch_end(context, mark);
    return status;
}

clprune_status clprune_bsr_pack(
    clprune_context *context, clprune_mat x, cl_mem mask, const clprune_bsr *bsr, cl_event *event)
{
    ENTER(context);
    clprune_status status = CLPRUNE_SUCCESS;
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
    TRY(clprune__bsr_pack(context, x, NULL, (clprune__region){mask, 0}, NULL, bsr, &sizes, event));
done:
    return status;
}

clprune_status clprune_bsr_unpack(
    clprune_context *context, const clprune_bsr *bsr, clprune_mat y, cl_event *event)
{
    ENTER(context);
    clprune_status status = CLPRUNE_SUCCESS;
    clprune_bsr_sizes sizes;
    clprune__index index;
    const clprune__scratch_mark mark = clprune__scratch_begin(context);
    TRY(clprune__check_bsr_dense(context, bsr, "y", y, &sizes));
    const clprune_bsr_desc *desc = &bsr->desc;
    if (desc->keep == 0) {
        TRY(clprune_mat_fill(context, 0.0f, y, event));
        goto done;
    }
    TRY(clprune__bsr_read_index(context, bsr, &sizes, &index));
    size_t global, local;
    clprune__launch launch;
    TRY(begin_block_rows(
        context, &bsr_unpack_kernel, false, false, bsr, &sizes, &launch, &global, &local));
    arg_values(&launch, bsr);
    clprune__arg_index(&launch, &index);
    clprune__arg_mat(&launch, y);
    TRY(clprune__launch_enqueue(&launch, 1, &global, &local, event));
done:
    clprune__scratch_end(context, mark);
    return status;
}
