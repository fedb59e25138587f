#include "runtime/memory/scratch.h"

#include "core/checked.h"
#include "runtime/context/context_private.h"
#include "runtime/context/fail.h"
#include "runtime/memory/ledger.h"
#include "runtime/memory/transfer.h"

clprune__scratch_mark clprune__scratch_begin(clprune_context *context)
{
    if (context == NULL)
        return (clprune__scratch_mark){0, 0};
    const clprune__scratch *scratch = context->scratch;
    const size_t used = scratch->open > 0 ? scratch->chunk[scratch->open - 1].used : 0;
    return (clprune__scratch_mark){scratch->open, used};
}

/* A chunk in the arena is kept: to release it would free nothing, and its place is given once. */
static bool is_idle(const clprune__scratch_chunk *chunk)
{
    return chunk->used == 0 && chunk->size > 0 && !chunk->placed;
}

/* Releases the chunks of which nothing is borrowed. Those before the last open one leave an empty
 * entry, since marks count entries. */
static void release_idle(clprune_context *context)
{
    clprune__scratch *scratch = context->scratch;
    for (size_t i = 0; i < scratch->chunks; i++)
        if (is_idle(&scratch->chunk[i])) {
            clprune__buffer_release(context, scratch->chunk[i].buffer);
            scratch->chunk[i] = (clprune__scratch_chunk){0};
        }
    while (scratch->chunks > scratch->open && scratch->chunk[scratch->chunks - 1].size == 0)
        scratch->chunks--;
}

/* The joint size of all chunks; 0: they stay apart. */
static size_t joint_size(const clprune_context *context)
{
    const clprune__scratch *scratch = context->scratch;
    const uint64_t most = context->facts.max_allocation; /* 0: a dry context was not told */
    size_t joint = 0;
    for (size_t i = 0; i < scratch->chunks; i++)
        joint += scratch->chunk[i].size;
    return scratch->apart || (most > 0 && joint > most) ? 0 : joint;
}

/* Releases all idle chunks and remembers their joint size for the next first chunk. */
static void merge(clprune_context *context)
{
    clprune__scratch *scratch = context->scratch;
    scratch->reserve = clprune__max(scratch->reserve, joint_size(context));
    release_idle(context);
}

void clprune__scratch_end(clprune_context *context, clprune__scratch_mark mark)
{
    if (context == NULL)
        return;
    clprune__scratch *scratch = context->scratch;
    while (scratch->open > mark.chunks)
        scratch->chunk[--scratch->open].used = 0;
    if (scratch->open > 0)
        scratch->chunk[scratch->open - 1].used = mark.used;
    else if (scratch->chunks > 1 && (scratch->chunk[0].placed || joint_size(context) > 0 ||
                                        scratch->chunks > CLPRUNE__SCRATCH_KEPT))
        merge(context);
}

void clprune__scratch_leave(const clprune__scratch_scope *scope)
{
    clprune__scratch_end(scope->context, scope->mark);
}

static bool has_idle(const clprune__scratch *scratch)
{
    for (size_t i = 0; i < scratch->chunks; i++)
        if (is_idle(&scratch->chunk[i]))
            return true;
    return false;
}

/* Creates a buffer for a chunk, where a refusal is no failure of the call. */
static clprune_status try_chunk(clprune_context *context, size_t size, cl_mem *buffer)
{
    context->quiet = true;
    const clprune_status status = clprune__buffer_create(
        context, CLPRUNE_MEMORY_WORKSPACE, CLPRUNE__SCRATCH_NAME, size, buffer);
    context->quiet = false;
    return status;
}

/* Opens a chunk with room for `bytes`: one allocated earlier, or a new one. */
static clprune_status open_chunk(clprune_context *context, size_t bytes)
{
    clprune__scratch *scratch = context->scratch;
    for (size_t i = scratch->open; i < scratch->chunks; i++)
        if (scratch->chunk[i].size >= bytes) {
            scratch->open = i + 1;
            return CLPRUNE_SUCCESS;
        }
    if (scratch->open == 0) /* a larger chunk replaces the idle ones, which are too small */
        merge(context);
    const size_t needed = clprune__round_up(bytes, CLPRUNE__SCRATCH_ALIGN);
    size_t size = scratch->chunks == 0 ? clprune__max(needed, scratch->reserve) : needed;
    cl_mem buffer = NULL;
    if (size > needed || has_idle(scratch)) {
        clprune_status status = CLPRUNE_OUT_OF_DEVICE_MEMORY;
        if (scratch->chunks < CLPRUNE__SCRATCH_CHUNKS)
            status = try_chunk(context, size, &buffer);
        if (status == CLPRUNE_OUT_OF_DEVICE_MEMORY) {
            /* The remembered size no longer fits, or idle chunks take the room; what is needed now
             * may fit. */
            release_idle(context);
            scratch->apart = scratch->apart || size > needed;
            scratch->reserve = 0;
            size = needed;
        }
    }
    REQUIRE(scratch->chunks < CLPRUNE__SCRATCH_CHUNKS, CLPRUNE_INTERNAL_ERROR,
        "more than %d scratch chunks are open", CLPRUNE__SCRATCH_CHUNKS);
    if (buffer == NULL)
        TRY(clprune__buffer_create(
            context, CLPRUNE_MEMORY_WORKSPACE, CLPRUNE__SCRATCH_NAME, size, &buffer));
    const bool placed = clprune__ledger_next(context->ledger, buffer, NULL)->placed;
    scratch->chunk[scratch->chunks] = (clprune__scratch_chunk){buffer, size, 0, placed};
    scratch->open = ++scratch->chunks;
    return CLPRUNE_SUCCESS;
}

clprune_status clprune__scratch_take(
    clprune_context *context, size_t bytes, cl_mem *buffer, size_t *offset)
{
    clprune__scratch *scratch = context->scratch;
    size_t padded;
    REQUIRE(clprune__add(bytes, CLPRUNE__SCRATCH_ALIGN - 1, &padded), CLPRUNE_SIZE_OVERFLOW,
        "%zu bytes of scratch overflow size_t", bytes);
    /* Zero bytes take one unit, because `used > 0` marks a chunk as borrowed. */
    padded = clprune__max(padded - padded % CLPRUNE__SCRATCH_ALIGN, CLPRUNE__SCRATCH_ALIGN);
    if (scratch->open == 0 ||
        scratch->chunk[scratch->open - 1].size - scratch->chunk[scratch->open - 1].used < padded)
        TRY(open_chunk(context, padded));
    *buffer = scratch->chunk[scratch->open - 1].buffer;
    *offset = scratch->chunk[scratch->open - 1].used;
    scratch->chunk[scratch->open - 1].used += padded;
    scratch->most = clprune__max(scratch->most, clprune__scratch_used(context));
    if (context->poison) /* so that reading unwritten scratch gives NaN */
        TRY(clprune__transfer_poison(context, *buffer, *offset, padded));
    return CLPRUNE_SUCCESS;
}

clprune_status clprune__scratch_reserve(clprune_context *context, size_t bytes)
{
    clprune__scratch *scratch = context->scratch;
    if (bytes == 0 || (scratch->chunks == 1 && scratch->chunk[0].size >= bytes))
        return CLPRUNE_SUCCESS;
    merge(context);
    scratch->reserve = clprune__max(scratch->reserve, bytes);
    TRY(open_chunk(context, bytes));
    scratch->open = 0;
    return CLPRUNE_SUCCESS;
}

size_t clprune__scratch_used(const clprune_context *context)
{
    size_t used = 0;
    for (size_t i = 0; i < context->scratch->open; i++)
        used += context->scratch->chunk[i].used;
    return used;
}

bool clprune__scratch_owns(const clprune_context *context, cl_mem buffer)
{
    const clprune__scratch *scratch = context->scratch;
    for (size_t i = 0; i < scratch->chunks; i++)
        if (scratch->chunk[i].buffer == buffer)
            return true;
    return false;
}

clprune_status clprune__scratch_array(
    clprune_context *context, size_t count, size_t size, clprune__region *array)
{
    size_t bytes;
    REQUIRE(clprune__mul(count, size, &bytes), CLPRUNE_SIZE_OVERFLOW,
        "%zu elements of scratch of %zu bytes overflow size_t", count, size);
    TRY(clprune__scratch_take(context, bytes, &array->buffer, &array->offset));
    array->offset /= size;
    array->size = size;
    array->count = count;
    return CLPRUNE_SUCCESS;
}

clprune_status clprune__scratch_mat(
    clprune_context *context, size_t rows, size_t cols, clprune_mat *mat)
{
    size_t count;
    clprune__region array = {0};
    *mat = CLPRUNE_NO_MAT;
    REQUIRE(clprune__mul(rows, cols, &count), CLPRUNE_SIZE_OVERFLOW,
        "a %zu x %zu scratch matrix overflows size_t", rows, cols);
    TRY(clprune__scratch_array(context, count, sizeof(float), &array));
    *mat = (clprune_mat){array.buffer, array.offset, rows, cols, cols, CLPRUNE_VALUES_FP32};
    return CLPRUNE_SUCCESS;
}

void clprune__scratch_close(clprune_context *context)
{
    clprune__scratch *scratch = context->scratch;
    for (size_t i = 0; i < scratch->chunks; i++)
        clprune__buffer_release(context, scratch->chunk[i].buffer);
    *scratch = (clprune__scratch){0};
}
