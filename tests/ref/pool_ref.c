#include "ref/pool_ref.h"

#include <math.h>

#include "support/test_owned.h"

size_t *pool_ref_cells(size_t height, size_t width, size_t cell, size_t *cells)
{
    size_t *cell_of = test_alloc((height * width + 1) * sizeof *cell_of);
    *cells = 0;
    for (size_t top = 0; top < height; top += cell)
        for (size_t left = 0; left < width; left += cell, (*cells)++)
            for (size_t y = top; y < top + cell && y < height; y++)
                for (size_t x = left; x < left + cell && x < width; x++)
                    cell_of[y * width + x] = *cells;
    return cell_of;
}

double *pool_ref_means(size_t batch, size_t rows, size_t cols, size_t cells, const size_t *cell_of,
    const float *x, double **bound)
{
    double *sum = test_doubles(batch * cells * cols), *size = test_doubles(batch * cells * cols);
    size_t *count = test_alloc(cells * sizeof *count);
    for (size_t r = 0; r < rows; r++)
        count[cell_of[r]]++;
    for (size_t i = 0; i < batch * rows * cols; i++) {
        const size_t row = i / cols, to = row / rows * cells + cell_of[row % rows];
        sum[to * cols + i % cols] += (double)x[i];
        size[to * cols + i % cols] += fabs((double)x[i]);
    }
    for (size_t i = 0; i < batch * cells * cols; i++) {
        const double n = (double)count[i / cols % cells];
        sum[i] /= n;
        size[i] = n * 0x1p-24 * size[i] / n + 0x1p-23 * fabs(sum[i]); /* n - 1 sums, a division */
    }
    *bound = size;
    return sum;
}
