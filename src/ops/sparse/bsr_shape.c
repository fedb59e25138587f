/* BSR matrices: descriptions, sizes, parts and their checks. */
#include <limits.h>
#include <math.h>
#include <string.h>

#include "core/checked.h"
#include "ops/sparse/bsr_private.h"
#include "runtime/context/check.h"

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
    REQUIRE((unsigned)desc->value_type <= CLPRUNE_VALUES_INT4, CLPRUNE_INVALID_ARGUMENT,
        "value_type is %d, expected a clprune_value_type", (int)desc->value_type);
    REQUIRE(clprune__is_index_type(desc->index_type), CLPRUNE_INVALID_ARGUMENT,
        "index_type is %d, expected a clprune_index_type", (int)desc->index_type);
    return CLPRUNE_SUCCESS;
}

/* Of a block: kernels count its elements, rounded up to whole vectors, in 31 bits. */
#define MOST_ELEMENTS ((size_t)1 << 30)

clprune_status clprune__check_bsr_desc(
    clprune_context *context, const clprune_bsr_desc *desc, clprune_bsr_sizes *sizes)
{
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
    return CLPRUNE_SUCCESS;
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
    clprune_bsr_desc desc = bsr->desc;
    REQUIRE(clprune__add(bsr->first, desc.batch, &desc.batch), CLPRUNE_SIZE_OVERFLOW,
        "%zu samples from sample %zu overflow size_t", bsr->desc.batch, bsr->first);
    return clprune__check_bsr_desc(context, &desc, sizes);
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
    const clprune__bytes bytes = part->bytes;
    size_t end;
    if (bytes.count == 0)
        return CLPRUNE_SUCCESS;
    REQUIRE(bytes.begin % part->align == 0, CLPRUNE_INVALID_ARGUMENT,
        "%s begins at byte %zu, expected a multiple of %zu", part->name, bytes.begin, part->align);
    REQUIRE(clprune__add(bytes.begin, bytes.count, &end), CLPRUNE_SIZE_OVERFLOW,
        "%s begins at byte %zu and its end overflows size_t", part->name, bytes.begin);
    return clprune__check_buffer(context, part->name, bytes.buffer, end, 1);
}

clprune_status clprune__check_bsr(
    clprune_context *context, const clprune_bsr *bsr, clprune_bsr_sizes *sizes)
{
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
    return CLPRUNE_SUCCESS;
}

clprune_status clprune__check_bsr_apart(
    clprune_context *context, const char *name, clprune__bytes bytes, const clprune_bsr *bsr)
{
    clprune_bsr_sizes end;
    bsr_part parts[BSR_PARTS];
    TRY(sizes_to_end(context, bsr, &end));
    list_parts(bsr, &end, parts);
    for (int i = 0; i < BSR_PARTS; i++)
        TRY(clprune__check_bytes_apart(context, name, bytes, parts[i].name, parts[i].bytes));
    return CLPRUNE_SUCCESS;
}

clprune_status clprune__check_bsr_dense(clprune_context *context, const clprune_bsr *bsr,
    const char *name, clprune_mat mat, clprune_bsr_sizes *sizes)
{
    TRY(clprune__check_bsr(context, bsr, sizes));
    const clprune_bsr_desc *desc = &bsr->desc;
    TRY(clprune__check_mat(context, name, mat, desc->batch * desc->rows, desc->cols));
    return clprune__check_bsr_apart(context, name, clprune__bytes_of(mat), bsr);
}
