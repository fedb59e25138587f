/* Reference of token pooling: naive loops in double. */
#ifndef CLPRUNE_POOL_REF_H
#define CLPRUNE_POOL_REF_H

#include <stddef.h>

/* The cell of each row of a sample, by walking the grid; a new array of height * width. */
size_t *pool_ref_cells(size_t height, size_t width, size_t cell, size_t *cells);

/* The mean of the rows of each cell in each sample, (batch * cells) x cols, and the error bounds of
 * fp32: new arrays. */
double *pool_ref_means(size_t batch, size_t rows, size_t cols, size_t cells, const size_t *cell_of,
    const float *x, double **bound);

#endif
