#include "support/test_memory.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* One of the two is set. */
typedef struct owned {
    void *memory;
    cl_mem buffer;
} owned;

static owned *all;
static size_t count, capacity;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void own(owned one)
{
    (void)pthread_mutex_lock(&lock);
    if (count == capacity) {
        capacity = capacity == 0 ? 256 : 2 * capacity;
        all = realloc(all, capacity * sizeof *all);
        if (all == NULL)
            abort();
    }
    all[count++] = one;
    (void)pthread_mutex_unlock(&lock);
}

void *test_alloc(size_t bytes)
{
    void *memory = calloc(bytes > 0 ? bytes : 1, 1);
    if (memory == NULL)
        abort();
    own((owned){.memory = memory});
    return memory;
}

double *test_doubles(size_t size)
{
    return test_alloc(size * sizeof(double));
}

float *test_floats(size_t size)
{
    return test_alloc(size * sizeof(float));
}

void *test_copy(size_t bytes, const void *from)
{
    return memcpy(test_alloc(bytes), from, bytes);
}

cl_mem test_own(cl_mem buffer)
{
    own((owned){.buffer = buffer});
    return buffer;
}

size_t test_mark(void)
{
    return count;
}

void test_release(size_t mark)
{
    while (count > mark) {
        const owned last = all[--count];
        free(last.memory);
        if (last.buffer != NULL)
            (void)clReleaseMemObject(last.buffer);
    }
    if (count == 0) {
        free(all);
        all = NULL;
        capacity = 0;
    }
}
