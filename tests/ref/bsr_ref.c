#include "ref/bsr_ref.h"

#include "support/test_owned.h"

bsr_ref bsr_ref_make(size_t batch, size_t rows, size_t cols, size_t br, size_t bc, size_t keep)
{
    bsr_ref ref = {batch, rows, cols, br, bc, keep, (rows + br - 1) / br, (cols + bc - 1) / bc};
    ref.blocks = ref.block_rows * ref.block_cols;
    ref.crow = test_alloc(batch * (ref.block_rows + 1) * sizeof *ref.crow);
    ref.col = test_alloc(batch * keep * sizeof *ref.col);
    ref.values = test_floats(batch * keep * br * bc);
    return ref;
}

void bsr_ref_pack(bsr_ref *ref, const float *x, const unsigned char *mask)
{
    for (size_t n = 0; n < ref->batch; n++) {
        size_t k = 0;
        for (size_t i = 0; i < ref->block_rows; i++) {
            ref->crow[n * (ref->block_rows + 1) + i] = (int32_t)k;
            for (size_t j = 0; j < ref->block_cols; j++) {
                if (mask[n * ref->blocks + i * ref->block_cols + j] == 0)
                    continue;
                ref->col[n * ref->keep + k] = (int32_t)j;
                float *block = ref->values + (n * ref->keep + k) * ref->br * ref->bc;
                for (size_t r = 0; r < ref->br; r++)
                    for (size_t c = 0; c < ref->bc; c++) {
                        const size_t row = i * ref->br + r, column = j * ref->bc + c;
                        block[r * ref->bc + c] = row < ref->rows && column < ref->cols
                                                     ? x[(n * ref->rows + row) * ref->cols + column]
                                                     : 0.0f;
                    }
                k++;
            }
        }
        ref->crow[n * (ref->block_rows + 1) + ref->block_rows] = (int32_t)k;
    }
}

/* Sets the bit of every kept block, one by one. */
static unsigned char *bitmap_of(const bsr_ref *ref, size_t bytes)
{
    unsigned char *bitmap = test_alloc(ref->batch * bytes);
    for (size_t n = 0; n < ref->batch; n++)
        for (size_t i = 0; i < ref->block_rows; i++) {
            const int32_t *crow = ref->crow + n * (ref->block_rows + 1) + i;
            for (int32_t k = crow[0]; k < crow[1]; k++) {
                const size_t block =
                    i * ref->block_cols + (size_t)ref->col[n * ref->keep + (size_t)k];
                bitmap[n * bytes + block / 8] |= (unsigned char)(1 << block % 8);
            }
        }
    return bitmap;
}

bsr_ref_index bsr_ref_index_make(const bsr_ref *ref, bool bitmap)
{
    const size_t bytes = (ref->blocks + 7) / 8;
    if (bitmap)
        return (bsr_ref_index){.bitmap = bitmap_of(ref, bytes), .bitmap_bytes = ref->batch * bytes};
    return (bsr_ref_index){.crow = ref->crow,
        .col = ref->col,
        .crow_bytes = ref->batch * (ref->block_rows + 1) * sizeof *ref->crow,
        .col_bytes = ref->batch * ref->keep * sizeof *ref->col};
}

float *bsr_ref_unpack(const bsr_ref *ref)
{
    float *y = test_floats(ref->batch * ref->rows * ref->cols);
    for (size_t n = 0; n < ref->batch; n++)
        for (size_t i = 0; i < ref->block_rows; i++) {
            const int32_t *crow = ref->crow + n * (ref->block_rows + 1) + i;
            for (int32_t k = crow[0]; k < crow[1]; k++)
                for (size_t e = 0; e < ref->br * ref->bc; e++) {
                    const size_t at = n * ref->keep + (size_t)k;
                    const size_t row = i * ref->br + e / ref->bc;
                    const size_t column = (size_t)ref->col[at] * ref->bc + e % ref->bc;
                    if (row < ref->rows && column < ref->cols)
                        y[(n * ref->rows + row) * ref->cols + column] =
                            ref->values[at * ref->br * ref->bc + e];
                }
        }
    return y;
}

float *bsr_ref_masked(const bsr_ref *ref, const float *x, const unsigned char *mask)
{
    float *y = test_floats(ref->batch * ref->rows * ref->cols);
    for (size_t n = 0; n < ref->batch; n++)
        for (size_t row = 0; row < ref->rows; row++)
            for (size_t column = 0; column < ref->cols; column++) {
                const size_t at = (n * ref->rows + row) * ref->cols + column;
                const size_t block =
                    n * ref->blocks + row / ref->br * ref->block_cols + column / ref->bc;
                y[at] = mask[block] != 0 ? x[at] : 0.0f;
            }
    return y;
}

size_t bsr_ref_keep_count(size_t blocks, uint64_t numerator, uint64_t denominator)
{
    /* Long division of (2 * numerator * blocks + denominator) by 2 * denominator, bit by bit of
     * `blocks`, so that no product overflows: quotient and remainder of numerator * blocks. */
    uint64_t quotient = 0, remainder = 0;
    for (int bit = 63; bit >= 0; bit--) {
        quotient *= 2;
        remainder *= 2;
        if (((uint64_t)blocks >> bit & 1) != 0)
            remainder += numerator;
        quotient += remainder / denominator;
        remainder %= denominator;
    }
    const uint64_t pruned = quotient + (2 * remainder >= denominator);
    return blocks - (size_t)pruned;
}
