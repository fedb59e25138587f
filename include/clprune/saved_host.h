/* Saved activations of host memory, for programs that hold their tensors there: each call wraps the
 * memory (clprune/wrap.h), so nothing is copied on CPU devices where it is aligned.
 *
 * Matrices are row-major; ld is the elements from one row to the next, at least the columns. The
 * calls wait: on return the memory is the caller's again, and results are in it. They are otherwise
 * as clprune_saved_store, _restore and _product_tn. Errors as theirs and clprune_mat_wrap's. */
#ifndef CLPRUNE_SAVED_HOST_H
#define CLPRUNE_SAVED_HOST_H

#include "clprune/saved.h"
#include "clprune/wrap.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Keeps x, (count * rows) x cols, as samples [first, first + count). */
CLPRUNE_API clprune_status clprune_saved_store_host(
    clprune_saved *saved, size_t first, size_t count, const float *x, size_t x_ld);

/* x = what is kept of samples [first, first + count), (count * rows) x cols. */
CLPRUNE_API clprune_status clprune_saved_restore_host(
    const clprune_saved *saved, size_t first, size_t count, float *x, size_t x_ld);

/* dw = sum_n dy_n^T * x_n + beta * dw over samples [first, first + count) of the kept x. dy:
 * (count * rows) x o; dw: o x cols, apart from dy; beta = 0 never reads it. */
CLPRUNE_API clprune_status clprune_saved_product_tn_host(const clprune_saved *saved, size_t first,
    size_t count, float beta, size_t o, const float *dy, size_t dy_ld, float *dw, size_t dw_ld);

#ifdef __cplusplus
}
#endif
#endif
