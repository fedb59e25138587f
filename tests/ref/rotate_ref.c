#include "ref/rotate_ref.h"

#include <math.h>

size_t rotate_ref_block(size_t group, size_t cols, size_t c, size_t *first)
{
    size_t width = 256;
    while (group % width != 0)
        width /= 2;
    for (*first = 0; width >= 16; *first += width) {
        while (*first + width > cols && width > 8)
            width /= 2;
        if (width >= 16 && c < *first + width)
            return width;
    }
    *first = c;
    return 1;
}

static unsigned bit(size_t i, unsigned k)
{
    return (unsigned)(i >> k) & 1;
}

/* Element (i, j) of the matrix R of a row of `cols` columns. */
static double entry_of(size_t group, size_t cols, size_t i, size_t j)
{
    size_t first, other;
    const size_t width = rotate_ref_block(group, cols, i, &first);
    if (rotate_ref_block(group, cols, j, &other) != width || other != first)
        return 0;
    unsigned minus = 0;
    for (unsigned k = 0; k < 8; k++)
        minus += bit(i - first, k) * bit(j - first, k);
    for (unsigned k = 0; k < 8; k += 2)
        minus += bit(i - first, k) * bit(i - first, k + 1);
    return (minus % 2 == 0 ? 1 : -1) / sqrt((double)width);
}

void rotate_ref(size_t group, size_t rows, size_t cols, int back, const float *from, double *to)
{
    for (size_t c = 0; c < cols; c++) {
        size_t first;
        const size_t width = rotate_ref_block(group, cols, c, &first);
        for (size_t r = 0; r < rows; r++)
            to[r * cols + c] = 0;
        for (size_t k = first; k < first + width; k++) {
            const double entry = back ? entry_of(group, cols, c, k) : entry_of(group, cols, k, c);
            for (size_t r = 0; r < rows; r++)
                to[r * cols + c] += entry * (double)from[r * cols + k];
        }
    }
}
