/* DENSE: x as it is. */
#include "core/checked.h"
#include "nn/form.h"
#include "nn/sums.h"
#include "runtime/check.h"
#include "runtime/scratch.h"

#define SIDE_BY_SIDE ((size_t)8 << 20)

static clprune_mat dense_mat(const clprune__kept *kept, clprune__range range)
{
    clprune_mat all = clprune_mat_of(kept->buffer, kept->batch * kept->rows, kept->cols);
    all.offset = kept->offset / sizeof(float);
    return clprune_mat_rows(all, range.first * kept->rows, range.count * kept->rows);
}

static clprune_status sizes(
    clprune_context *context, const clprune__kept *kept, clprune_saved_sizes *found)
{
    (void)context;
    (void)kept;
    found->bytes = found->values_bytes = found->dense_bytes;
    return CLPRUNE_SUCCESS;
}

static clprune_status copy_unless_same(
    clprune_context *context, clprune_mat from, clprune_mat to, cl_event *event)
{
    if (clprune__same_mat(from, to))
        return clprune__empty_event(context, event);
    return clprune_mat_copy(context, from, to, event);
}

static clprune_status store(clprune_context *context, const clprune__kept *kept,
    clprune__range range, clprune__region scores, clprune_mat x, cl_event *event)
{
    (void)scores;
    return copy_unless_same(context, x, dense_mat(kept, range), event);
}

static clprune_status restore(clprune_context *context, const clprune__kept *kept,
    clprune__range range, clprune_mat x, cl_event *event)
{
    return copy_unless_same(context, dense_mat(kept, range), x, event);
}

static clprune_status product_tn(clprune_context *context, const clprune__kept *kept,
    clprune__range range, float beta, clprune_mat dy, clprune_mat dw, cl_event *event)
{
    return clprune_gemm(context, true, false, 1.0f, beta, dy, dense_mat(kept, range), dw, event);
}

/* Samples whose products are made in one launch and then added up, as one sample alone is too small
 * for a device, or not worth a launch. At most as many as fit SIDE_BY_SIDE bytes of scratch, at
 * least 1; 1 if rows of dw have gaps. */
static size_t side_by_side(size_t batch, clprune_mat dw)
{
    const size_t bytes = dw.rows * dw.cols * sizeof(float);
    if (bytes == 0 || dw.ld != dw.cols)
        return 1;
    return clprune__max(1, clprune__min(batch, SIDE_BY_SIDE / bytes));
}

clprune_status clprune__dense_product_nt(clprune_context *context, size_t batch, float beta,
    clprune_mat dy, clprune_mat x, clprune_mat dw, cl_event *event)
{
    clprune_status status = CLPRUNE_SUCCESS;
    const clprune__scratch_mark mark = clprune__scratch_begin(context);
    TRY(clprune__check_mat(context, "dy", dy, batch * dw.rows, dy.cols));
    if (batch == 0) { /* an empty sum */
        TRY(clprune_gemm(context, false, true, 1.0f, beta, (clprune_mat){.rows = dw.rows},
            (clprune_mat){.rows = dw.cols}, dw, event));
        goto done;
    }
    const size_t run = side_by_side(batch, dw);
    clprune_mat products = CLPRUNE_NO_MAT;
    if (run > 1)
        TRY(clprune__scratch_mat(context, run, dw.rows * dw.cols, &products));
    for (size_t n = 0; n < batch; n += run) {
        const size_t count = clprune__min(run, batch - n);
        const clprune_mat dy_n = clprune_mat_rows(dy, n * dw.rows, dw.rows);
        const clprune_mat x_n = clprune_mat_rows(x, n * dw.cols, dw.cols);
        cl_event *last = n + count == batch ? event : NULL;
        if (run == 1) {
            TRY(clprune_gemm(
                context, false, true, 1.0f, n == 0 ? beta : 1.0f, dy_n, x_n, dw, last));
            continue;
        }
        const clprune_mat first = {products.buffer, products.offset, dw.rows, dw.cols, dw.cols};
        TRY(clprune_gemm_batched(context, count, false, true, 1.0f, 0.0f, dy_n, dw.rows * dy.ld,
            x_n, dw.cols * x.ld, first, products.cols, NULL));
        const clprune_mat sum = {dw.buffer, dw.offset, 1, products.cols, products.cols};
        TRY(clprune__column_sums_final(
            context, n == 0 ? beta : 1.0f, count, products, 1, &sum, last));
    }
done:
    clprune__scratch_end(context, mark);
    return status;
}

static clprune_status product_nt(clprune_context *context, const clprune__kept *kept,
    clprune__range range, float beta, clprune_mat dy, clprune_mat dw, cl_event *event)
{
    return clprune__dense_product_nt(
        context, range.count, beta, dy, dense_mat(kept, range), dw, event);
}

static clprune_status product_conv(clprune_context *context, const clprune__kept *kept,
    clprune__range range, const clprune__conv *conv, float beta, clprune_mat dy, clprune_mat dw,
    cl_event *event)
{
    return clprune__conv_dw(context, conv, beta, dense_mat(kept, range), dy, dw, event);
}

const clprune__form clprune__form_dense = {.name = "dense",
    .sizes = sizes,
    .mat = dense_mat,
    .store = store,
    .restore = restore,
    .product_tn = product_tn,
    .product_nt = product_nt,
    .product_conv = product_conv};
