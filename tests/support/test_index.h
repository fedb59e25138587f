/* The index of a BSR matrix in each of its forms, against the reference. */
#ifndef CLPRUNE_TEST_INDEX_H
#define CLPRUNE_TEST_INDEX_H

#include <stdlib.h>

#include "ref/bsr_ref.h"
#include "support/test_buffer.h"
#include "support/test_compare.h"

enum { TEST_INDEXES = CLPRUNE_INDEX_SMALLEST }; /* the forms that there are */

static const char *const test_index_names[] = {"int32", "int16", "bitmap", "smallest"};

static inline clprune_bsr_desc test_with_index(clprune_bsr_desc desc, int index)
{
    desc.index_type = (clprune_index_type)index;
    return desc;
}

static inline void test_same_part(
    const test_buf *part, size_t bytes, const void *want, const char *what, const char *name)
{
    assert_int_equal(part->bytes, bytes);
    void *got = test_buf_get(part, what);
    test_same_bytes(what, bytes, got, want, "%s", name);
    free(got);
}

/* Fails unless the index of `bsr` is that of `ref`, to the byte. */
static inline void test_same_index(const test_bsr *bsr, const bsr_ref *ref, const char *name)
{
    bsr_ref_index want = bsr_ref_index_make(ref, (int)bsr->bsr.desc.index_type);
    test_same_part(&bsr->crow, want.crow_bytes, want.crow, "crow", name);
    test_same_part(&bsr->col, want.col_bytes, want.col, "col", name);
    test_same_part(&bsr->bitmap, want.bitmap_bytes, want.bitmap, "bitmap", name);
    bsr_ref_index_free(&want);
}

/* A BSR matrix of fp32 values that holds what `ref` does. */
static inline test_bsr test_bsr_of(clprune_bsr_desc desc, const bsr_ref *ref)
{
    bsr_ref_index index = bsr_ref_index_make(ref, (int)desc.index_type);
    const size_t elements = ref->batch * ref->keep * ref->br * ref->bc;
    test_bsr b = {.values = test_buf_make(elements * sizeof(float), ref->values),
        .crow = test_buf_make(index.crow_bytes, index.crow),
        .col = test_buf_make(index.col_bytes, index.col),
        .bitmap = test_buf_make(index.bitmap_bytes, index.bitmap)};
    b.bsr =
        (clprune_bsr){desc, b.values.buffer, b.crow.buffer, b.col.buffer, NULL, b.bitmap.buffer};
    bsr_ref_index_free(&index);
    return b;
}

/* Fails if a buffer of `bsr` is not as it was made. */
static inline void test_bsr_unchanged(const test_bsr *bsr)
{
    test_buf_unchanged(&bsr->values, "values");
    test_buf_unchanged(&bsr->crow, "crow");
    test_buf_unchanged(&bsr->col, "col");
    test_buf_unchanged(&bsr->bitmap, "bitmap");
}

#endif
