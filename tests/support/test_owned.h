/* What lives until the end of its case: memory, buffers, and objects of test_objects.h. The fixture
 * releases them, the last one first, also after a failure.
 *
 * Everything that support/ and ref/ allocate comes from here. Long loops give memory back early:
 *
 *     for (...) {
 *         const size_t mark = test_mark();
 *         ...
 *         test_release(mark);
 *     }
 */
#ifndef CLPRUNE_TEST_OWNED_H
#define CLPRUNE_TEST_OWNED_H

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

/* The end of the case calls undo(of, what). */
void test_later(void (*undo)(void *of, void *what), void *of, void *what);

/* Defines such a function, in which `of` or `what` may be unused. */
#define TEST_UNDO(name, call)                                                                      \
    static inline void name(void *of, void *what)                                                  \
    {                                                                                              \
        (void)of;                                                                                  \
        (void)what;                                                                                \
        call;                                                                                      \
    }

/* Undoes now what was to be undone later with this object as `of` or `what`: a context goes with
 * all that was made in it. */
void test_end(void *object);

/* test_release(mark) releases what was made after test_mark() returned `mark`. */
size_t test_mark(void);
void test_release(size_t mark);

#endif
