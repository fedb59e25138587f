/* Values of matrices from and to the host; those of matrices of codes go through scratch. */
#include "core/checked.h"
#include "ops/codes/quantise_private.h"
#include "runtime/context/check.h"
#include "runtime/context/context_private.h"
#include "runtime/memory/matrix_private.h"
#include "runtime/memory/scratch.h"

/* Between the host and a matrix of bf16 or codes; `from` NULL: to `to`. */
static clprune_status move(clprune_context *context, clprune_mat mat, const float *from, float *to)
{
    SCRATCH_SCOPE(context);
    clprune__quantised q;
    clprune_mat dense;
    REQUIRE(mat.rows == 0 || mat.cols == 0 || from != NULL || to != NULL, CLPRUNE_INVALID_ARGUMENT,
        "host is NULL");
    TRY(clprune__check_mat_any(context, "mat", mat, mat.rows, mat.cols));
    TRY(clprune__quantised_view(context, "mat", mat, &q));
    const size_t most = clprune__rows_coded(mat);
    TRY(clprune__scratch_mat(context, most, mat.cols, &dense));
    for (size_t first = 0; first < mat.rows; first += most) {
        const size_t rows = clprune__min(most, mat.rows - first);
        const clprune__quantised part = clprune__quantised_rows(&q, first, rows);
        const clprune_mat values = clprune_mat_rows(dense, 0, rows);
        if (from == NULL)
            TRY(clprune__dequantise(context, &part, values, NULL));
        TRY(from != NULL ? clprune__mat_write(context, values, from + first * mat.cols)
                         : clprune__mat_read(context, values, to + first * mat.cols));
        if (from != NULL)
            TRY(clprune__quantise(context, NULL, rows, 0, values, &part, NULL));
    }
    return CLPRUNE_SUCCESS;
}

clprune_status clprune_mat_write(clprune_context *context, clprune_mat mat, const float *host)
{
    ENTER(context);
    return mat.type == CLPRUNE_VALUES_BF16 || clprune__code_bits(mat) > 0
               ? move(context, mat, host, NULL)
               : clprune__mat_write(context, mat, host);
}

clprune_status clprune_mat_read(clprune_context *context, clprune_mat mat, float *host)
{
    ENTER(context);
    for (clprune__watch *watch = context != NULL ? context->watches : NULL; watch != NULL;
         watch = watch->next)
        if (watch->pending) {
            watch->pending = false;
            TRY(watch->look(watch->user));
        }
    return clprune__code_bits(mat) > 0 ? move(context, mat, NULL, host)
                                       : clprune__mat_read(context, mat, host);
}
