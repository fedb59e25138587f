#include "support/test_owned.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

typedef struct owned {
    void (*undo)(void *of, void *what);
    void *of, *what;
} owned;

static owned *all;
static size_t count, capacity;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void test_later(void (*undo)(void *of, void *what), void *of, void *what)
{
    (void)pthread_mutex_lock(&lock);
    if (count == capacity) {
        capacity = capacity == 0 ? 256 : 2 * capacity;
        all = realloc(all, capacity * sizeof *all);
        if (all == NULL)
            abort();
    }
    all[count++] = (owned){undo, of, what};
    (void)pthread_mutex_unlock(&lock);
}

void test_end(void *object)
{
    for (size_t i = count; i-- > 0;) {
        const owned one = all[i];
        if (one.of != object && one.what != object)
            continue;
        count--;
        memmove(all + i, all + i + 1, (count - i) * sizeof *all);
        one.undo(one.of, one.what);
    }
}

TEST_UNDO(free_memory, free(what))

void *test_alloc(size_t bytes)
{
    void *memory = calloc(bytes > 0 ? bytes : 1, 1);
    if (memory == NULL)
        abort();
    test_later(free_memory, NULL, memory);
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

TEST_UNDO(release_buffer, (void)clReleaseMemObject(what))

cl_mem test_own(cl_mem buffer)
{
    test_later(release_buffer, NULL, buffer);
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
        last.undo(last.of, last.what);
    }
    if (count == 0) {
        free(all);
        all = NULL;
        capacity = 0;
    }
}
