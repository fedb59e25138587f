/* Reference of the rotation before coding, in double, by the definitions of cl/prelude/rotate.clh.
 */
#ifndef CLPRUNE_ROTATE_REF_H
#define CLPRUNE_ROTATE_REF_H

#include <stddef.h>

/* The block that column c of a row of `cols` lies in: *first its first column, the result its
 * width; 1 for columns that stay as they are. */
size_t rotate_ref_block(size_t group, size_t cols, size_t c, size_t *first);

/* to = from R, or from R^T: rows x cols, in double. */
void rotate_ref(size_t group, size_t rows, size_t cols, int back, const float *from, double *to);

#endif
