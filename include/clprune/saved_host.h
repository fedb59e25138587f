/* clprune_saved_store, _restore and _product_tn for tensors in host memory. Each call wraps the
 * memory (clprune/wrap.h); on CPU devices, aligned memory is not copied.
 *
 * Matrices are row-major; ld is the number of elements from one row to the next, at least the
 * columns. The calls block: on return the results are in host memory, and the caller may use all
 * arguments again. Errors as for these functions and for clprune_mat_wrap. */
#ifndef CLPRUNE_SAVED_HOST_H
#define CLPRUNE_SAVED_HOST_H

#include "clprune/saved.h"
#include "clprune/wrap.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Stores x, (count * rows) x cols, as samples [first, first + count). */
CLPRUNE_API clprune_status clprune_saved_store_host(
    clprune_saved *saved, size_t first, size_t count, const float *x, size_t x_ld);

/* Restores samples [first, first + count) to x, (count * rows) x cols. */
CLPRUNE_API clprune_status clprune_saved_restore_host(
    const clprune_saved *saved, size_t first, size_t count, float *x, size_t x_ld);

/* dw = sum_n dy_n^T * x_n + beta * dw, summed over samples [first, first + count) of the stored x.
 * dy: (count * rows) x o; dw: o x cols, must not overlap dy; beta = 0 never reads it. */
CLPRUNE_API clprune_status clprune_saved_product_tn_host(const clprune_saved *saved, size_t first,
    size_t count, size_t o, float beta, const float *dy, size_t dy_ld, float *dw, size_t dw_ld);

#ifdef __cplusplus
}
#endif
#endif
