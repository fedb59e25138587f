/* Memory and buffers that live until the end of their case: the fixture releases them, also after a failure.
 *
 * Everything that support/ and ref/ allocate comes from here. Long loops give memory back early:
 *
 *     for (...) {
 *         const size_t mark = test_mark();
 *         ...
 *         test_release(mark);
 *     }
 */
#ifndef CLPRUNE_TEST_MEMORY_H
#define CLPRUNE_TEST_MEMORY_H

#include <CL/cl.h>
#include <stddef.h>

/* `bytes` bytes of zeros. Aborts without memory. */
void *test_alloc(size_t bytes);

/* `count` zeros. */
double *test_doubles(size_t count);
float *test_floats(size_t count);

/* A copy of `bytes` bytes. */
void *test_copy(size_t bytes, const void *from);

/* The end of the case releases `buffer`, which is not NULL. */
cl_mem test_own(cl_mem buffer);

/* test_release(mark) releases what was made after test_mark() returned `mark`. */
size_t test_mark(void);
void test_release(size_t mark);

#endif
