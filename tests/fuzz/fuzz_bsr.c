/* clprune_bsr_validate: eight bytes of shape, then what the device's buffers hold. No device is
 * needed: reads of a dry context are answered from the input. Of what is accepted, an independent
 * walk finds each block in range and none twice. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "clprune/clprune.h"
#include "fuzz/fuzz.h"
#include "runtime/context/context_private.h"
#include "runtime/launch/backend.h"

static fuzz_input held; /* by the buffer; zeros follow */

static uint8_t byte_at(size_t i)
{
    return i < held.size ? held.data[i] : 0;
}

static clprune_status read_held(clprune_context *context, const clprune__rect *rect, void *host)
{
    (void)context;
    for (size_t i = 0; i < rect->rows; ++i)
        for (size_t k = 0; k < rect->row_bytes; ++k)
            ((uint8_t *)host)[i * rect->row_bytes + k] =
                byte_at(rect->offset + i * rect->pitch + k);
    return CLPRUNE_SUCCESS;
}

static int32_t word_at(size_t byte)
{
    uint8_t bytes[4];
    int32_t word;
    for (size_t i = 0; i < 4; ++i)
        bytes[i] = byte_at(byte + i);
    memcpy(&word, bytes, 4);
    return word;
}

/* Counts the blocks of a sample by either index; each is marked in `seen` once. */
static size_t count_blocks(const clprune_bsr *bsr, const clprune_bsr_sizes *sizes, size_t sample)
{
    bool seen[4096] = {false};
    size_t count = 0;
    const size_t n = bsr->first + sample;
    if (sizes->index_type == CLPRUNE_INDEX_BITMAP) {
        const size_t bytes = sizes->bitmap_bytes / bsr->desc.batch;
        for (size_t i = 0; i < 8 * bytes; ++i)
            if (byte_at(bsr->offset.bitmap + n * bytes + i / 8) >> i % 8 & 1) {
                FUZZ_CHECK(i < sizes->blocks);
                ++count;
            }
        return count;
    }
    for (size_t row = 0; row < sizes->block_rows; ++row) {
        const size_t crow = bsr->offset.crow + 4 * (n * (sizes->block_rows + 1) + row);
        for (int32_t k = word_at(crow); k < word_at(crow + 4); ++k) {
            const int32_t col = word_at(bsr->offset.col + 4 * (n * bsr->desc.keep + (size_t)k));
            FUZZ_CHECK(col >= 0 && (size_t)col < sizes->block_cols);
            const size_t block = row * sizes->block_cols + (size_t)col;
            FUZZ_CHECK(block < sizeof seen && !seen[block]);
            seen[block] = true;
            ++count;
        }
    }
    return count;
}

void fuzz_target(fuzz_input in)
{
    static clprune_context *context = NULL;
    static clprune__backend live;
    static cl_mem buffer;
    enum { ROOM = 1 << 16 };
    if (context == NULL) {
        FUZZ_CHECK(clprune_context_create_dry(NULL, NULL, &context) == CLPRUNE_SUCCESS);
        FUZZ_CHECK(clprune_buffer_create(context, CLPRUNE_MEMORY_INPUT, "held", ROOM, &buffer) ==
                   CLPRUNE_SUCCESS);
        live = *context->backend;
        live.runs = true;
        live.read = read_held;
        context->backend = &live;
    }
    const uint8_t a = fuzz_byte(&in), b = fuzz_byte(&in);
    clprune_bsr bsr = {.desc = {.batch = 1 + a % 3,
                           .rows = fuzz_byte(&in) % 64,
                           .cols = fuzz_byte(&in) % 64,
                           .block = {1 + b % 4, 1 + b / 4 % 4},
                           .keep = fuzz_word(&in, 4096),
                           .value_type = (clprune_value_type)(a / 4 % 5),
                           .index_type = (clprune_index_type)(a / 32 % 4)},
        .values = buffer,
        .crow = buffer,
        .col = buffer,
        .scales = buffer,
        .bitmap = buffer,
        .first = b / 16 % 2};
    clprune_bsr_sizes sizes;
    (void)fuzz_word(&in, 0);
    held = in;
    if (clprune_bsr_size_query(&bsr.desc, &sizes) != CLPRUNE_SUCCESS)
        return;
    /* index, scales, values: apart from each other, in parts of two samples more than needed */
    const size_t samples = bsr.desc.batch + bsr.first;
    const size_t room = samples * (sizes.bitmap_bytes + sizes.crow_bytes + sizes.col_bytes);
    bsr.offset.col = samples * sizes.crow_bytes;
    bsr.offset.scales = room + room % 2;
    bsr.offset.values = (bsr.offset.scales + samples * sizes.scales_bytes + 3) / 4 * 4;
    const clprune_status status = clprune_bsr_validate(context, &bsr);
    if (status == CLPRUNE_SUCCESS) {
        for (size_t n = 0; n < bsr.desc.batch; ++n)
            FUZZ_CHECK(count_blocks(&bsr, &sizes, n) == bsr.desc.keep);
    } else {
        FUZZ_CHECK(status == CLPRUNE_INVALID_BSR || status == CLPRUNE_INVALID_SIZE);
        fuzz_check_text(clprune_last_error(context), NULL);
    }
}
