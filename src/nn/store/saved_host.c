#include <string.h>

#include "clprune/saved_host.h"

#include "nn/store/saved_private.h"
#include "runtime/context/check.h"
#include "runtime/context/context_private.h"
#include "runtime/memory/wrap.h"

/* The rows and columns of samples [first, first + count). Checks the range before wrapping,
 * which may read the caller's array: it ends with these samples. */
static clprune_status measure(clprune_context *context, const clprune_saved *saved, size_t first,
    size_t count, size_t *rows, size_t *cols)
{
    TRY(clprune__saved_check_range(context, saved, (clprune__range){first, count}));
    const clprune__kept *kept = clprune__saved_kept(saved);
    *rows = count * kept->rows;
    *cols = kept->cols;
    return CLPRUNE_SUCCESS;
}

/* Ends a call: returns the memory to the host, also on failure, with the results only on success.
 * The first error counts, and its text. */
static clprune_status unwrap(clprune_context *context, clprune_mat *mat, clprune_status status)
{
    if (mat->buffer == NULL)
        return status;
    if (status == CLPRUNE_SUCCESS)
        return clprune__mat_unwrap(context, mat->buffer);
    char text[CLPRUNE__ERROR_TEXT];
    strcpy(text, clprune__error_text(context));
    clprune__wrap_keep_host(context, *mat);
    (void)clprune__mat_unwrap(context, mat->buffer);
    strcpy(clprune__error_text(context), text);
    return status;
}

/* Drops const: memory wrapped for READ is not written. */
static float *readable(const float *host)
{
    return (float *)(uintptr_t)host;
}

clprune_status clprune_saved_store_host(
    clprune_saved *saved, size_t first, size_t count, const float *x, size_t x_ld)
{
    clprune_context *context = clprune__saved_context(saved);
    ENTER(context);
    clprune_status status = CLPRUNE_SUCCESS;
    clprune_mat mat = CLPRUNE_NO_MAT;
    size_t rows, cols;
    TRY_DONE(measure(context, saved, first, count, &rows, &cols));
    TRY_DONE(clprune__mat_wrap(context, readable(x), rows, cols, x_ld, CLPRUNE_ACCESS_READ, &mat));
    TRY_DONE(clprune__saved_store(saved, first, count, (clprune__region){0}, mat, NULL));
done:
    return unwrap(context, &mat, status);
}

clprune_status clprune_saved_restore_host(
    const clprune_saved *saved, size_t first, size_t count, float *x, size_t x_ld)
{
    clprune_context *context = clprune__saved_context(saved);
    ENTER(context);
    clprune_status status = CLPRUNE_SUCCESS;
    clprune_mat mat = CLPRUNE_NO_MAT;
    size_t rows, cols;
    TRY_DONE(measure(context, saved, first, count, &rows, &cols));
    TRY_DONE(clprune__mat_wrap(context, x, rows, cols, x_ld, CLPRUNE_ACCESS_WRITE, &mat));
    TRY_DONE(clprune__saved_restore(saved, first, count, mat, NULL));
done:
    return unwrap(context, &mat, status);
}

clprune_status clprune_saved_product_tn_host(const clprune_saved *saved, size_t first, size_t count,
    size_t o, float beta, const float *dy, size_t dy_ld, float *dw, size_t dw_ld)
{
    clprune_context *context = clprune__saved_context(saved);
    ENTER(context);
    clprune_status status = CLPRUNE_SUCCESS;
    clprune_mat in = CLPRUNE_NO_MAT, out = CLPRUNE_NO_MAT;
    size_t rows, cols;
    TRY_DONE(measure(context, saved, first, count, &rows, &cols));
    TRY_DONE(clprune__mat_wrap(context, readable(dy), rows, o, dy_ld, CLPRUNE_ACCESS_READ, &in));
    TRY_DONE(clprune__mat_wrap(context, dw, o, cols, dw_ld,
        beta != 0.0f ? CLPRUNE_ACCESS_READ_WRITE : CLPRUNE_ACCESS_WRITE, &out));
    TRY_DONE(
        clprune__saved_multiply(saved, (clprune__range){first, count}, false, beta, in, out, NULL));
done:
    status = unwrap(context, &in, status);
    return unwrap(context, &out, status);
}
