/* BSR matrices with an index of each type, against the reference. */
#ifndef CLPRUNE_TEST_INDEX_H
#define CLPRUNE_TEST_INDEX_H

#include "ref/bsr_ref.h"
#include "support/test.h"

/* The number of index types; SMALLEST is not counted. */
enum { TEST_INDEXES = 2 };

static const clprune_index_type test_index_types[TEST_INDEXES + 1] = {
    CLPRUNE_INDEX_INT32, CLPRUNE_INDEX_BITMAP, CLPRUNE_INDEX_SMALLEST};
static const char *const test_index_names[TEST_INDEXES + 1] = {"int32", "bitmap", "smallest"};

static inline clprune_bsr_desc test_with_index(clprune_bsr_desc desc, clprune_index_type type)
{
    desc.index_type = type;
    return desc;
}

static inline bsr_ref bsr_ref_of(clprune_bsr_desc d)
{
    return bsr_ref_make(d.batch, d.rows, d.cols, d.block.rows, d.block.cols, d.keep);
}

static inline void test_same_part(
    const test_buf *part, size_t bytes, const void *want, const char *what, const char *name)
{
    assert_int_equal(part->bytes, bytes);
    test_same_bytes(what, bytes, test_buf_get(part, what), want, "%s", name);
}

/* Fails unless the index of `bsr` is that of `ref`, to the byte. */
static inline void test_same_index(const test_bsr *bsr, const bsr_ref *ref, const char *name)
{
    bsr_ref_index want = bsr_ref_index_make(ref, bsr->bsr.desc.index_type == CLPRUNE_INDEX_BITMAP);
    test_same_part(&bsr->crow, want.crow_bytes, want.crow, "crow", name);
    test_same_part(&bsr->col, want.col_bytes, want.col, "col", name);
    test_same_part(&bsr->bitmap, want.bitmap_bytes, want.bitmap, "bitmap", name);
}

/* The same for the values too, which are fp32. */
static inline void test_same_bsr(const test_bsr *bsr, const bsr_ref *ref, const char *name)
{
    test_same_index(bsr, ref, name);
    test_same_floats("values", ref->batch * ref->keep, ref->br * ref->bc,
        test_buf_get(&bsr->values, "values"), ref->values, "%s", name);
    TEST_OK(clprune_bsr_validate(test_context(), &bsr->bsr));
}

/* A BSR matrix of fp32 values that holds what `ref` does. */
static inline test_bsr test_bsr_of(clprune_bsr_desc desc, const bsr_ref *ref)
{
    bsr_ref_index index = bsr_ref_index_make(ref, desc.index_type == CLPRUNE_INDEX_BITMAP);
    return test_bsr_holding(desc, ref->values, index.crow, index.col, index.bitmap);
}

/* A new matrix of the blocks that a criterion keeps of x. */
static inline test_bsr test_pruned(clprune_bsr_desc desc, clprune_norm norm,
    clprune_criterion criterion, uint64_t seed, const test_mat *x)
{
    test_bsr made = test_bsr_make(desc);
    TEST_EVENT(clprune_prune(test_context(), norm, criterion, seed, x->mat, &made.bsr, &event));
    TEST_OK(clprune_bsr_validate(test_context(), &made.bsr));
    return made;
}

/* The dense form, dequantised. */
static inline float *test_unpacked(const clprune_bsr *bsr)
{
    const clprune_bsr_desc d = bsr->desc;
    test_mat y = test_mat_make(d.batch * d.rows, d.cols, 1, NULL);
    TEST_OK(clprune_bsr_unpack(test_context(), bsr, y.mat, NULL));
    return test_mat_get(&y, "y");
}

/* What a criterion keeps of x, dense; the matrix is released. */
static inline float *test_drawn(clprune_bsr_desc desc, clprune_norm norm,
    clprune_criterion criterion, uint64_t seed, const test_mat *x)
{
    const size_t count = desc.batch * desc.rows * desc.cols;
    float *drawn = test_floats(count);
    const size_t mark = test_mark();
    const test_bsr bsr = test_pruned(desc, norm, criterion, seed, x);
    memcpy(drawn, test_unpacked(&bsr.bsr), count * sizeof *drawn);
    test_release(mark);
    return drawn;
}

/* The same matrix with its values in another buffer, *moved, from byte `bytes` on. */
static inline clprune_bsr test_bsr_moved(const test_bsr *b, size_t bytes, test_buf *moved)
{
    unsigned char *values = test_buf_get(&b->values, "values"),
                  *longer = test_alloc(b->values.bytes + bytes);
    memcpy(longer + bytes, values, b->values.bytes);
    *moved = test_buf_make(b->values.bytes + bytes, longer);
    clprune_bsr bsr = b->bsr;
    bsr.values = moved->buffer;
    bsr.offset.values = bytes;
    return bsr;
}

/* A random mask with exactly `marked` marked blocks in each sample; marks are any non-zero byte. */
static inline unsigned char *test_random_marks(uint64_t seed, const bsr_ref *ref, size_t marked)
{
    test_rng rng = {seed};
    unsigned char *mask = test_alloc(ref->batch * ref->blocks);
    for (size_t n = 0; n < ref->batch; n++)
        for (size_t i = 0, left = marked; i < ref->blocks; i++)
            if (test_rng_below(&rng, ref->blocks - i) < left) {
                mask[n * ref->blocks + i] = (unsigned char)(1 + test_rng_below(&rng, 255));
                left--;
            }
    return mask;
}

/* The same with as many marks as blocks are kept. */
static inline unsigned char *test_random_mask(uint64_t seed, const bsr_ref *ref)
{
    return test_random_marks(seed, ref, ref->keep);
}

/* Fails unless a matrix is found valid (part NULL), or broken with `part` in the text. */
static inline void test_validates(const clprune_bsr *bsr, const char *part)
{
    if (part == NULL)
        TEST_OK(clprune_bsr_validate(test_context(), bsr));
    else
        TEST_FAILS(clprune_bsr_validate(test_context(), bsr), CLPRUNE_INVALID_BSR, part);
}

/* The same for a matrix with this index, as in clprune_bsr, and arbitrary values. */
static inline void test_index_validates(
    clprune_bsr_desc desc, const void *crow, const void *col, const void *bitmap, const char *part)
{
    test_bsr bsr = test_bsr_holding(desc, NULL, crow, col, bitmap);
    test_validates(&bsr.bsr, part);
}

/* Fails if a buffer of `bsr` is not as it was made. */
static inline void test_bsr_unchanged(const test_bsr *bsr)
{
    test_buf_unchanged(&bsr->values, "values");
    test_buf_unchanged(&bsr->scales, "scales");
    test_buf_unchanged(&bsr->crow, "crow");
    test_buf_unchanged(&bsr->col, "col");
    test_buf_unchanged(&bsr->bitmap, "bitmap");
}

#endif
