/* Device buffers that detect writes outside of their contents.
 *
 * A test_mat lies in a larger buffer: 128 canary elements in front, 128 behind, and canaries
 * between its rows if ld > cols. Canaries are NaN, so reading one shows in the result. Their NaN
 * payload is unique, so overwriting one shows, too. A test_buf is a range of bytes between
 * canaries. Both are made on the device under test (test_device.h); failures fail the case. */
#ifndef CLPRUNE_TEST_BUFFER_H
#define CLPRUNE_TEST_BUFFER_H

#include "support/test_device.h"

#define TEST_CANARIES 128

typedef struct test_mat {
    clprune_mat mat;   /* what the library gets */
    uint32_t *written; /* the whole buffer as it was made */
    size_t elements;   /* of the whole buffer */
} test_mat;

/* A rows x cols matrix with ld = cols + gap. `values`, dense, are written into it; NULL leaves it
 * filled with NaN, so that an output element never written shows. */
test_mat test_mat_make(size_t rows, size_t cols, size_t gap, const float *values);

/* The elements as a dense array. Fails if anything outside of them changed. */
float *test_mat_get(const test_mat *m, const char *what);

/* Fails unless every byte is as it was made: for inputs, and outputs of calls that fail. */
void test_mat_unchanged(const test_mat *m, const char *what);

/* The same for several: TEST_UNCHANGED(&x, &dy). */
#define TEST_UNCHANGED(...)                                                                        \
    test_mats_unchanged(#__VA_ARGS__, COUNT_OF(((const test_mat *[]){__VA_ARGS__})),               \
        (const test_mat *[]){__VA_ARGS__})
void test_mats_unchanged(const char *names, size_t count, const test_mat *const *mats);

/* Overwrites the elements (NULL: with NaN); test_mat_unchanged then compares with these. */
void test_mat_set(test_mat *m, const float *values);

typedef struct test_buf {
    cl_mem buffer; /* what the library gets: a sub-buffer of exactly `bytes` */
    cl_mem whole;
    size_t bytes, front; /* front: canary bytes before it */
    unsigned char *written;
} test_buf;

/* `values` are written into it; NULL fills it with 0xA5. */
test_buf test_buf_make(size_t bytes, const void *values);
/* A matrix of all of it, in `whole`: the memory of one in `buffer`, through another handle. */
clprune_mat test_buf_alias(const test_buf *b, size_t rows, size_t cols);
/* All of it as a window of `whole`, which begins behind the canaries. */
clprune_ints test_buf_ints(const test_buf *b);
void *test_buf_get(const test_buf *b, const char *what);
void test_buf_unchanged(const test_buf *b, const char *what);

/* A BSR matrix in test_bufs. */
typedef struct test_bsr {
    clprune_bsr bsr;
    test_buf values, scales, crow, col, bitmap;
} test_bsr;

test_bsr test_bsr_make(clprune_bsr_desc desc);
/* The same with these contents; NULL: filled with 0xA5. */
test_bsr test_bsr_holding(clprune_bsr_desc desc, const float *values, const void *crow,
    const void *col, const void *bitmap);

#endif
