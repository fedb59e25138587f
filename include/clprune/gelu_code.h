/* GELU whose derivative is kept as a code of 2, 4 or 8 bits an element.
 *
 * The backward pass of GELU needs only its slope s(h) = Phi(h) + h * phi(h), which lies in
 * [-0.129, 1.129]: dh = dg * s(h). In place of h in fp32 the forward pass keeps the number of one
 * of 4, 16 or 256 levels, the one nearest to s(h); the backward pass multiplies by that level. The
 * levels are those of Lloyd and Max: the mean square of s(h) - level is least for h ~ N(0, sigma^2)
 * with log sigma uniform from log 1/2 to log 2 (tools/fit_gelu_code.py). Measured for N(0, 1):
 *
 *     bits   mean square   its root   largest error, for any h
 *        2      8.03e-3      0.090      0.182
 *        4      4.67e-4      0.022      0.046
 *        8      1.76e-6      0.0013     0.0028
 *
 * The code is a function of h: dh is not unbiased for a given h, only small in error. An infinite h
 * gets the code nearest to its slope, 0 or 1; NaN gets code 0: it stays visible in g, not in dh. */
#ifndef CLPRUNE_GELU_CODE_H
#define CLPRUNE_GELU_CODE_H

#include <stdbool.h>

#include "clprune/matrix.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Codes are kept in a clprune_mat of M rows whose elements are 4 bytes of codes, not floats: the
 * first code of a byte is in its lowest bits, and a row is padded with zero bits to whole elements.
 * clprune_mat_create makes one, clprune_mat_rows takes rows of it. */
typedef struct clprune_gelu_code_sizes {
    size_t cols;  /* of the matrix of codes: ceil(d * bits / 32) */
    size_t bytes; /* of its M rows */
} clprune_gelu_code_sizes;

/* The codes of an M x d matrix; bits: 2, 4 or 8. On failure *sizes is zeroed. Errors:
 * INVALID_ARGUMENT, SIZE_OVERFLOW. */
CLPRUNE_API clprune_status clprune_gelu_code_size_query(
    size_t rows, size_t cols, unsigned bits, clprune_gelu_code_sizes *sizes);

/* g = h * Phi(h), the bits of clprune_gelu_forward, and the codes of the slopes; with b, of h + b,
 * added on the way. h, g: M x d; g may be h, which else stays as it is. b: 1 x d, apart from all,
 * or CLPRUNE_NO_MAT. codes: M x sizes.cols, apart from all. */
CLPRUNE_API clprune_status clprune_gelu_code_forward(clprune_context *context, unsigned bits,
    clprune_mat h, clprune_mat b, clprune_mat g, clprune_mat codes, cl_event *event);

/* dh = dg * level, and in the same pass over memory db[c] = sum_r dh[r][c] + beta * db[c], the
 * bias gradient of the layer that made h. With beta 0 db is not read. dg, dh: M x d; dh may be dg.
 * codes: as clprune_gelu_code_forward wrote them, with the same bits; M x sizes.cols. db: 1 x d, or
 * CLPRUNE_NO_MAT to skip it. dh and db lie apart from codes, and db from all. Sums run in a fixed
 * order. */
CLPRUNE_API clprune_status clprune_gelu_code_backward(clprune_context *context, float beta,
    unsigned bits, clprune_mat dg, clprune_mat codes, clprune_mat dh, clprune_mat db,
    cl_event *event);

#ifdef __cplusplus
}
#endif
#endif
