#include "trainer/reduce/reduce_tree.h"

#include <string.h>

enum { SLICE_UNIT = 256, AT_ONCE = 1024 /* floats: sums of a level stay in the first cache */ };

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

reduce_slice reduce_slice_of(size_t count, int ranks, int rank)
{
    const size_t units = count / SLICE_UNIT + (count % SLICE_UNIT != 0), n = (size_t)ranks;
    const size_t most = (units / n + (units % n != 0)) * SLICE_UNIT;
    const size_t first = smaller((size_t)rank * most, count);
    return (reduce_slice){first, smaller(most, count - first)};
}

static void add(const float *a, const float *b, size_t count, float *to)
{
    for (size_t i = 0; i < count; ++i)
        to[i] = a[i] + b[i];
}

void reduce_tree(float *const *parts, int ranks, size_t count, float *to)
{
    if (ranks == 1)
        memmove(to, parts[0], count * sizeof *to);
    for (size_t i = 0; i < count; i += AT_ONCE) {
        const size_t some = smaller(AT_ONCE, count - i);
        for (int step = 1; step < ranks; step *= 2)
            for (int r = 0; r + step < ranks; r += 2 * step)
                add(parts[r] + i, parts[r + step] + i, some,
                    2 * step < ranks ? parts[r] + i : to + i);
    }
}
