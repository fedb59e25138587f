/* The index types of BSR: bytes by hand, the same results with each type, any marks, refusals. */
#include "support/test_packed.h"

/* Two samples of 3 x 4 blocks, the last column of which overhangs; 5 blocks are kept:
 *
 *     sample 0   X . X .    sample 1   . . . .
 *                . . . .               X X X X
 *                X X . X               . . . X
 *
 * Block i is bit i: 0, 2, 8, 9, 11 and 4, 5, 6, 7, 11. */
static const clprune_bsr_desc golden = {2, 3, 15, {1, 4}, 5};
static const unsigned char golden_mask[24] = {
    1, 0, 1, 0, 0, 0, 0, 0, 1, 1, 0, 1, 0, 0, 0, 0, 1, 1, 1, 1, 0, 0, 0, 1};
static const int32_t golden_crow[8] = {0, 2, 2, 5, 0, 0, 4, 5};
static const int32_t golden_col[10] = {0, 2, 0, 1, 3, 0, 1, 2, 3, 3};
static const unsigned char golden_bitmap[4] = {0x05, 0x0b, 0xf0, 0x08};

static void bytes_by_hand(NO_ROW)
{
    clprune_context *context = test_context();
    test_mat dx = test_mat_make(6, 15, 1, test_new_normal(11, 2 * 3 * 15));
    test_buf mask = test_buf_make(24, golden_mask), second = test_buf_make(12, golden_mask + 12);
    for (int index = 0; index < TEST_INDEXES; index++) {
        test_bsr all = test_bsr_make(test_with_index(golden, test_index_types[index]));
        test_bsr parts = test_bsr_make(all.bsr.desc);
        const clprune_bsr zero = clprune_bsr_samples(&parts.bsr, 0, 1);
        const clprune_bsr one = clprune_bsr_samples(&parts.bsr, 1, 1);
        TEST_OK(clprune_bsr_pack(context, dx.mat, mask.buffer, &all.bsr, NULL));
        /* One after the other, each alone: what lies beside must not change. */
        TEST_OK(
            clprune_bsr_pack(context, clprune_mat_rows(dx.mat, 3, 3), second.buffer, &one, NULL));
        TEST_OK(
            clprune_bsr_pack(context, clprune_mat_rows(dx.mat, 0, 3), mask.buffer, &zero, NULL));
        for (int i = 0; i < 2; i++) {
            const test_bsr *bsr = i == 0 ? &all : &parts;
            const bool bitmap = test_index_types[index] == CLPRUNE_INDEX_BITMAP;
            const char *name = i == 0 ? "whole" : "apart";
            test_same_part(&bsr->bitmap, bitmap ? 4 : 0, golden_bitmap, "bitmap", name);
            test_same_part(&bsr->crow, bitmap ? 0 : 32, golden_crow, "crow", name);
            test_same_part(&bsr->col, bitmap ? 0 : 40, golden_col, "col", name);
        }
    }
}

/* Rows of blocks that share bytes, whole bytes, one column, blocks of several rows, more block rows
 * than work-items of a group, all and nothing kept. The first has values of every type; blocks,
 * outputs and types are those of test_bsr_values, so that the programs are too. */
static const struct same_row {
    clprune_bsr_desc desc;
    size_t outputs;
} same_rows[] = {
    {{3, 20, 96, {1, 16}, 50}, 40},
    {{3, 9, 256, {1, 16}, 37, CLPRUNE_VALUES_FP16}, 40},
    {{3, 90, 41, {1, 4}, 301, CLPRUNE_VALUES_INT8}, 17},
    {{2, 21, 5, {1, 16}, 8, CLPRUNE_VALUES_BF16}, 40},
    {{3, 11, 33, {3, 7}, 12, CLPRUNE_VALUES_INT4}, 21},
    {{2, 17, 37, {16, 16}, 6, CLPRUNE_VALUES_INT8}, 9},
    {{2, 5, 13, {1, 1}, 65, CLPRUNE_VALUES_FP16}, 5},
    {{2, 9, 21, {1, 5}, 0}, 5},
};

enum { VALUE_TYPES = CLPRUNE_VALUES_INT4 + 1 };

/* Every type, SMALLEST among them, gives the bits of INT32: of the whole and of its last samples.
 */
static void same_bits(void **state)
{
    const struct same_row *row = *state;
    const int own = (int)row->desc.value_type;
    const bool every = row == same_rows;
    for (int type = every ? 0 : own; type < (every ? VALUE_TYPES : own + 1); type++) {
        clprune_bsr_desc d = row->desc;
        d.value_type = (clprune_value_type)type;
        packed wide = pack(d, 41, NULL);
        for (int index = 1; index <= TEST_INDEXES; index++) {
            packed narrow = pack(test_with_index(d, test_index_types[index]), 41, NULL);
            for (size_t first = 0; first < 2; first++) {
                const clprune_bsr want = clprune_bsr_samples(&wide.bsr.bsr, first, d.batch);
                const clprune_bsr got = clprune_bsr_samples(&narrow.bsr.bsr, first, d.batch);
                test_validates(&got, NULL);
                same_results(results_of(&got, row->outputs), results_of(&want, row->outputs),
                    test_text(
                        "%s, values %d, from sample %zu on", test_index_names[index], type, first));
            }
        }
    }
}

/* Ways to break a good bitmap of `golden`; the four bits behind a sample's 12 blocks are padding.
 */
static const struct break_row {
    const char *name;
    size_t at;
    unsigned char value;
    const char *part;
} break_rows[] = {
    {"one too few", 0, 0x04, "bitmap[0] marks 4 blocks, expected 5"},
    {"one too many", 3, 0x09, "bitmap[1] marks 6 blocks, expected 5"},
    {"none", 2, 0x00, "bitmap[1] marks 1 blocks"},
    {"the first padding bit", 1, 0x1b, "bitmap[0] has bit 12 set, but a sample has 12 blocks"},
    {"the last padding bit, and the count is right", 3, 0x80, "bitmap[1] has bit 15 set"},
};

static void broken_bitmaps(void **state)
{
    const struct break_row *row = *state;
    const clprune_bsr_desc d = test_with_index(golden, CLPRUNE_INDEX_BITMAP);
    unsigned char *bitmap = test_copy(4, golden_bitmap);
    test_index_validates(d, NULL, NULL, bitmap, NULL);
    bitmap[row->at] = row->value;
    test_bsr bsr = test_bsr_holding(d, NULL, NULL, NULL, bitmap);
    const size_t sample = row->at / 2;
    const clprune_bsr other = clprune_bsr_samples(&bsr.bsr, 1 - sample, 1);
    const clprune_bsr own = clprune_bsr_samples(&bsr.bsr, sample, 1);
    test_validates(&bsr.bsr, row->part);
    test_validates(&other, NULL);
    test_validates(&own, "bitmap[0]");
}

/* Blocks in rows of fewer and more than eight, more block rows than work-items of a group, one
 * block row as in a plain MLP, whose samples are joined, and none or all kept. */
static const struct same_row marked_rows[] = {
    {{3, 70, 80, {1, 16}, 9}, 40},
    {{3, 9, 256, {1, 16}, 37, CLPRUNE_VALUES_INT8}, 40},
    {{512, 1, 64, {1, 16}, 2}, 40},
    {{2, 5, 13, {1, 1}, 40, CLPRUNE_VALUES_FP16}, 5},
    {{3, 11, 33, {3, 7}, 0, CLPRUNE_VALUES_INT4}, 21},
    {{2, 17, 37, {16, 16}, 6, CLPRUNE_VALUES_INT8}, 9},
};

enum { MARKS = 7 };

/* How many blocks of a sample are marked. */
static size_t marked_blocks(int marks, size_t keep, size_t blocks)
{
    const size_t counts[MARKS] = {
        0, blocks, keep + 1, keep > 0 ? keep - 1 : 0, keep / 2, (keep + blocks) / 2, keep};
    return counts[marks] < blocks ? counts[marks] : blocks;
}

/* The blocks that are kept where `mask` marks more or fewer: of more the first `keep`, beside fewer
 * the first unmarked ones. */
static unsigned char *kept_of(const bsr_ref *ref, const unsigned char *mask)
{
    unsigned char *kept = test_alloc(ref->batch * ref->blocks);
    for (size_t n = 0; n < ref->batch; n++) {
        const unsigned char *m = mask + n * ref->blocks;
        unsigned char *k = kept + n * ref->blocks;
        size_t room = ref->keep;
        for (int marked = 1; marked >= 0; marked--)
            for (size_t i = 0; i < ref->blocks && room > 0; i++)
                if ((m[i] != 0) == marked) {
                    k[i] = 1;
                    room--;
                }
    }
    return kept;
}

/* A mask may mark any number of blocks: what is packed is a good matrix of `keep` blocks. A broken
 * bitmap is read in the same way. */
static void any_marks(void **state)
{
    const struct same_row *row = *state;
    clprune_bsr_desc d = row->desc;
    if (test_small())
        d.batch = d.batch < 40 ? d.batch : 40;
    bsr_ref ref = bsr_ref_of(d);
    const size_t blocks = d.batch * ref.blocks, row_bytes = (ref.blocks + 7) / 8;
    float *x = test_new_normal(61, d.batch * d.rows * d.cols);
    test_mat dx = test_mat_make(d.batch * d.rows, d.cols, 1, x);
    for (int marks = 0; marks < MARKS; marks++) {
        const size_t marked = marked_blocks(marks, d.keep, ref.blocks);
        unsigned char *mask = test_random_marks(100 + (uint64_t)marks, &ref, marked);
        unsigned char *bits = test_alloc(d.batch * row_bytes);
        for (size_t i = 0; i < blocks; i++)
            if (mask[i] != 0)
                bits[i / ref.blocks * row_bytes + i % ref.blocks / 8] |=
                    (unsigned char)(1 << i % ref.blocks % 8);
        bsr_ref_pack(&ref, x, kept_of(&ref, mask));
        test_buf dmask = test_buf_make(blocks, mask),
                 broken = test_buf_make(d.batch * row_bytes, bits);
        results want;
        for (int index = 0; index < TEST_INDEXES; index++) {
            const char *name = test_text("%s, marks %d", test_index_names[index], marks);
            test_bsr made = test_bsr_make(test_with_index(d, test_index_types[index]));
            TEST_OK(clprune_bsr_pack(test_context(), dx.mat, dmask.buffer, &made.bsr, NULL));
            test_same_index(&made, &ref, name);
            test_validates(&made.bsr, NULL);
            const results got = results_of(&made.bsr, row->outputs);
            if (index == 0)
                want = got;
            same_results(got, want, name);
            if (test_index_types[index] == CLPRUNE_INDEX_BITMAP) {
                made.bsr.bitmap = broken.buffer;
                same_results(results_of(&made.bsr, row->outputs), want, name);
            }
        }
        test_buf_unchanged(&broken, "the bitmap");
    }
}

/* test_invalid_many.c has the int32 index. */
static void bad_parts(NO_ROW)
{
    test_bsr b = test_bsr_make(test_with_index(golden, CLPRUNE_INDEX_BITMAP));
    test_mat y = test_mat_make(6, 15, 0, NULL);
    clprune_mat over = y.mat;
    over.offset = 0;
    clprune_bsr bad = b.bsr;
    bad.bitmap = NULL;
    unpack_fails(&bad, y.mat, CLPRUNE_INVALID_ARGUMENT, "bitmap");
    bad.bitmap = y.mat.buffer;
    unpack_fails(&bad, over, CLPRUNE_INVALID_ARGUMENT, "overlaps");
    bad = b.bsr;
    bad.first = 1;
    bad.values = y.mat.buffer;
    unpack_fails(&bad, y.mat, CLPRUNE_INVALID_SIZE, "bitmap");
    bad.desc.index_type = (clprune_index_type)9;
    unpack_fails(&bad, y.mat, CLPRUNE_INVALID_ARGUMENT, "index_type");
    test_mat_unchanged(&y, "outputs of refused calls");
}

int main(void)
{
    test_list list = {0};
    test_add(&list, bytes_by_hand, NULL, "bytes by hand");
    for (size_t i = 0; i < COUNT_OF(same_rows); i++)
        test_add(&list, same_bits, &same_rows[i], "same bits: %zux%zu of %zu x %zu",
            same_rows[i].desc.block.rows, same_rows[i].desc.block.cols, same_rows[i].desc.rows,
            same_rows[i].desc.cols);
    TEST_ADD_EACH(&list, broken_bitmaps, break_rows, "validate: %s");
    for (size_t i = 0; i < COUNT_OF(marked_rows); i++)
        test_add(&list, any_marks, &marked_rows[i], "any marks: %zux%zu of %zu x %zu",
            marked_rows[i].desc.block.rows, marked_rows[i].desc.block.cols,
            marked_rows[i].desc.rows, marked_rows[i].desc.cols);
    test_add(&list, bad_parts, NULL, "bad parts");
    return test_run_on_devices("bsr index", &list);
}
