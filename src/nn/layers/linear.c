#include "clprune/linear.h"

#include <stdlib.h>

#include "core/checked.h"
#include "nn/layers/biased_product.h"
#include "nn/layers/layers_private.h"
#include "nn/layers/sums.h"
#include "nn/store/saved_private.h"
#include "runtime/context/check.h"
#include "runtime/memory/scratch.h"

struct clprune_linear {
    clprune_context *context;
    clprune_linear_desc desc; /* desc.keep has its defaults filled in */
};

clprune_status clprune_linear_create(
    clprune_context *context, const clprune_linear_desc *desc, clprune_linear **layer)
{
    ENTER_CREATE(context, layer);
    clprune_keep keep;
    REQUIRE(layer != NULL, CLPRUNE_INVALID_ARGUMENT, "layer is NULL");
    REQUIRE(context != NULL && desc != NULL, CLPRUNE_INVALID_ARGUMENT, "context or desc is NULL");
    REQUIRE(desc->axis == CLPRUNE_AXIS_FEATURES || desc->axis == CLPRUNE_AXIS_ROWS,
        CLPRUNE_INVALID_ARGUMENT, "axis is %d, expected a clprune_axis", (int)desc->axis);
    TRY(clprune__check_reserved(context, "desc", desc->reserved, sizeof desc->reserved));
    TRY(clprune__keep_settle(context, &desc->keep, &keep));
    TRY(clprune__keep_restores(context, &keep));
    clprune_linear *made = malloc(sizeof *made);
    REQUIRE(made != NULL, CLPRUNE_OUT_OF_HOST_MEMORY, "no memory for the layer");
    made->context = context;
    made->desc = *desc;
    made->desc.keep = keep;
    *layer = made;
    return CLPRUNE_SUCCESS;
}

void clprune_linear_destroy(clprune_linear *layer)
{
    ENTER_QUIETLY(layer != NULL ? layer->context : NULL);
    free(layer);
}

clprune_status clprune_linear_saved_create(
    clprune_linear *layer, size_t batch, size_t size, const char *name, clprune_saved **saved)
{
    ENTER_CREATE(layer != NULL ? layer->context : NULL, saved);
    if (layer == NULL)
        return clprune__fail(NULL, CLPRUNE_INVALID_ARGUMENT, __FILE__, __LINE__, "layer is NULL");
    const clprune_linear_desc *desc = &layer->desc;
    const bool features = desc->axis == CLPRUNE_AXIS_FEATURES;
    return clprune__saved_create(layer->context, name, &desc->keep, batch,
        features ? size : desc->in, features ? desc->in : size, saved);
}

bool clprune_linear_takes_bf16(const clprune_context *context)
{
    ENTER_QUIETLY(context);
    return clprune__gemm_reads_bf16(context);
}

/* The shapes of one sample. */
typedef struct sample_sizes {
    size_t x_rows, x_cols, y_rows, y_cols;
} sample_sizes;

/* Sets *s from `mat`, which is x or y of the layer, (batch * rows) x cols. */
static clprune_status size_samples(
    const clprune_linear *layer, size_t batch, const char *name, clprune_mat mat, sample_sizes *s)
{
    clprune_context *context = layer->context;
    const clprune_linear_desc *desc = &layer->desc;
    size_t rows;
    if (desc->axis == CLPRUNE_AXIS_FEATURES) {
        const size_t each = batch > 0 ? mat.rows / batch : 0;
        REQUIRE(each * batch == mat.rows, CLPRUNE_INVALID_SIZE,
            "%s has %zu rows, expected a multiple of the batch, %zu", name, mat.rows, batch);
        *s = (sample_sizes){each, desc->in, each, desc->out};
    } else {
        REQUIRE(clprune__mul(batch, desc->in, &rows) && clprune__mul(batch, desc->out, &rows),
            CLPRUNE_SIZE_OVERFLOW, "the rows of %zu samples overflow size_t", batch);
        *s = (sample_sizes){desc->in, mat.cols, desc->out, mat.cols};
    }
    return CLPRUNE_SUCCESS;
}

clprune_status clprune_linear_forward(clprune_linear *layer, size_t batch, clprune_mat x,
    clprune_mat w, clprune_mat b, clprune_mat y, clprune_saved *saved, cl_event *event)
{
    ENTER_WITH(layer != NULL ? layer->context : NULL, "saved", clprune__saved_context(saved));
    clprune_context *context = layer != NULL ? layer->context : NULL;
    SCRATCH_SCOPE(context);
    sample_sizes s;
    clprune__gemm_scores scores = {.to.buffer = NULL};
    REQUIRE(layer != NULL, CLPRUNE_INVALID_ARGUMENT, "layer is NULL");
    const clprune_linear_desc *desc = &layer->desc;
    const bool features = desc->axis == CLPRUNE_AXIS_FEATURES;
    const bool stores = saved != NULL && batch > 0; /* an empty batch does not change the store */
    TRY(size_samples(layer, batch, "x", x, &s));
    enum { X, W, B, Y, ALL };
    const clprune__operand operands[ALL] = {
        {"x", x, batch * s.x_rows, s.x_cols, .bf16 = !stores && clprune__gemm_reads_bf16(context)},
        {"w", w, desc->out, desc->in, .bf16 = features, .codes = features},
        {"b", b, 1, desc->out, .optional = true},
        {"y", y, batch * s.y_rows, s.y_cols, .bf16 = clprune__gemm_reads_bf16(context)}};
    TRY(clprune__check_operands(context, operands, Y, ALL));
    TRY(clprune__check_units(context, "y", y));
    if (saved != NULL)
        TRY(clprune__saved_fit(context, saved, batch, s.x_rows, s.x_cols, ALL, operands));
    if (features) {
        /* The product comes first: it reads each row of x and can score its blocks meanwhile. */
        if (stores)
            TRY(clprune__saved_scores(saved, batch, &scores));
        TRY(clprune__product_rows(context, x, w, b, y, &scores, stores ? NULL : event));
        if (stores)
            TRY(clprune__saved_store(saved, 0, batch, scores.to, x, event));
    } else {
        if (stores)
            TRY(clprune__saved_store(saved, 0, batch, scores.to, x, NULL));
        if (batch > 0)
            TRY(clprune__product_tokens(context, batch, x, w, b, y, event));
        else
            TRY(clprune__empty_event(context, event));
    }
    return CLPRUNE_SUCCESS;
}

/* dx_n = w^T * dy_n */
static clprune_status back_through_rows(clprune_linear *layer, size_t batch, float dx_beta,
    clprune_mat dy, clprune_mat w, clprune_mat dx, cl_event *event)
{
    const clprune_linear_desc *desc = &layer->desc;
    if (batch == 0)
        return clprune__empty_event(layer->context, event);
    return clprune__gemm_batched(layer->context, batch, true, false, 1.0f, dx_beta, w, 0,
        clprune_mat_rows(dy, 0, desc->out), desc->out * dy.ld, clprune_mat_rows(dx, 0, desc->in),
        desc->in * dx.ld, event);
}

clprune_status clprune_linear_backward(clprune_linear *layer, size_t batch,
    const clprune_saved *saved, clprune_mat dy, clprune_mat w, const clprune_grads *grads,
    cl_event *event)
{
    ENTER_WITH(layer != NULL ? layer->context : NULL, "saved", clprune__saved_context(saved));
    return clprune__linear_backward(layer, (clprune__range){0, batch}, saved, dy, w, grads, event);
}

clprune_status clprune__linear_backward(clprune_linear *layer, clprune__range range,
    const clprune_saved *saved, clprune_mat dy, clprune_mat w, const clprune_grads *grads,
    cl_event *event)
{
    clprune_context *context = layer != NULL ? layer->context : NULL;
    const size_t batch = range.count;
    SCRATCH_SCOPE(context);
    sample_sizes s;
    REQUIRE(layer != NULL, CLPRUNE_INVALID_ARGUMENT, "layer is NULL");
    const clprune_linear_desc *desc = &layer->desc;
    const bool features = desc->axis == CLPRUNE_AXIS_FEATURES;
    REQUIRE(grads != NULL, CLPRUNE_INVALID_ARGUMENT, "grads is NULL");
    const clprune_mat dx = grads->dx, dw = grads->dw, db = grads->db;
    const float beta = grads->beta, dx_beta = grads->dx_beta;
    const bool want_dx = !clprune__is_absent(dx), want_dw = !clprune__is_absent(dw),
               want_db = !clprune__is_absent(db);
    TRY(size_samples(layer, batch, "dy", dy, &s));
    enum { DY, W, DX, DW, DB, ALL };
    const clprune__operand operands[ALL] = {
        {"dy", dy, batch * s.y_rows, s.y_cols,
            .bf16 = features && clprune__gemm_reads_bf16_dy(context)},
        {"w", w, desc->out, desc->in, .optional = !want_dx, .bf16 = features, .codes = features},
        {"dx", dx, batch * s.x_rows, s.x_cols, .optional = true},
        {"dw", dw, desc->out, desc->in, .optional = true},
        {"db", db, 1, desc->out, .optional = true}};
    TRY(clprune__check_operands(context, operands, DX, ALL));
    if (want_dw)
        TRY(clprune__saved_check(context, saved, range, s.x_rows, s.x_cols));
    REQUIRE(dy.type == CLPRUNE_VALUES_FP32 || !want_dw || clprune__saved_reads_bf16(saved),
        CLPRUNE_INVALID_ARGUMENT, "dy is of bf16, but products of saved read it in fp32 alone");
    for (size_t i = DX; i < ALL && saved != NULL; i++)
        TRY(clprune__saved_check_apart(context, saved, operands[i].name, operands[i].mat));

    /* Forward: y = x * w^T + 1 * b, or y_n = w * x_n + b^T * 1. So: db = the sums of dy ... */
    cl_event *last = want_dw || want_dx ? NULL : event;
    if (want_db && features)
        TRY(clprune__column_sum(context, beta, dy, db, last));
    else if (want_db)
        TRY(clprune__token_bias_grad(context, beta, batch, desc->out, dy, db, last));
    clprune_mat rounded = dy;
    if (features && want_dw && want_dx && clprune__gemm_reads_bf16(context) &&
        clprune__saved_reads_bf16(saved))
        TRY(clprune__gemm_round(context, dy, desc->in, &rounded));
    /* ... dw = dy^T * x, or sum over n of dy_n * x_n^T, from the kept x ... */
    last = want_dx ? NULL : event;
    if (want_dw && batch == 0) /* the store may have another shape */
        TRY(clprune__scale(context, beta, dw, last));
    else if (want_dw)
        TRY(clprune__saved_product(saved, range, !features, beta, rounded, dw, last));
    /* ... and dx = dy * w, or dx_n = w^T * dy_n. */
    if (want_dx && features)
        TRY(clprune__gemm_single(context, false, false, 1.0f, dx_beta, rounded, w, dx, event));
    else if (want_dx)
        TRY(back_through_rows(layer, batch, dx_beta, dy, w, dx, event));
    if (!want_db && !want_dw && !want_dx)
        TRY(clprune__empty_event(context, event));
    return CLPRUNE_SUCCESS;
}
