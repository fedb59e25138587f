#include "clprune/linear.h"

#include <stdlib.h>

#include "core/checked.h"
#include "nn/bias.h"
#include "nn/column_sum.h"
#include "nn/kept_input.h"
#include "nn/saved_private.h"
#include "runtime/check.h"
#include "runtime/scratch.h"

struct clprune_linear {
    clprune_context *context;
    clprune_linear_desc desc;
    clprune__kept_input input;
};

clprune_status clprune_linear_create(
    clprune_context *context, const clprune_linear_desc *desc, clprune_linear **layer)
{
    clprune_status status = CLPRUNE_SUCCESS;
    REQUIRE(layer != NULL, CLPRUNE_INVALID_ARGUMENT, "layer is NULL");
    *layer = NULL;
    REQUIRE(context != NULL && desc != NULL, CLPRUNE_INVALID_ARGUMENT, "context or desc is NULL");
    clprune__kept_input input = {desc->rows, desc->in, desc->block, desc->sparsity, desc->norm,
        desc->criterion, desc->value_type, desc->index_type};
    TRY(clprune__kept_input_check(context, &input));
    clprune_linear *made = malloc(sizeof *made);
    REQUIRE(made != NULL, CLPRUNE_OUT_OF_HOST_MEMORY, "no memory for the layer");
    made->context = context;
    made->desc = *desc;
    made->input = input;
    *layer = made;
done:
    return status;
}

void clprune_linear_destroy(clprune_linear *layer)
{
    free(layer);
}

clprune_status clprune_linear_saved_create(
    clprune_linear *layer, size_t batch, const char *name, clprune_saved **saved)
{
    if (saved != NULL)
        *saved = NULL;
    if (layer == NULL)
        return clprune__fail(
            NULL, CLPRUNE_INVALID_ARGUMENT, __FILE__, __LINE__, "layer != NULL", "layer is NULL");
    return clprune__kept_input_create(layer->context, &layer->input, batch, name, saved);
}

bool clprune_linear_fuses_bias(const clprune_linear *layer)
{
    return layer != NULL && clprune__gemm_fuses_bias(layer->context, 1);
}

clprune_status clprune_linear_forward(clprune_linear *layer, size_t batch, clprune_mat x,
    clprune_mat w, clprune_mat b, clprune_mat y, clprune_saved *saved, cl_event *event)
{
    clprune_status status = CLPRUNE_SUCCESS;
    clprune_context *context = layer != NULL ? layer->context : NULL;
    size_t rows;
    clprune__scratch_mark mark = {0, 0};
    bool open = false;
    clprune__gemm_scores scores = {.to.buffer = NULL};
    REQUIRE(layer != NULL, CLPRUNE_INVALID_ARGUMENT, "layer is NULL");
    const clprune_linear_desc *desc = &layer->desc;
    REQUIRE(clprune__mul(batch, desc->rows, &rows), CLPRUNE_SIZE_OVERFLOW, "%zu samples", batch);
    TRY(clprune__check_mat(context, "x", x, rows, desc->in));
    TRY(clprune__check_mat(context, "w", w, desc->out, desc->in));
    TRY(clprune__check_mat(context, "y", y, rows, desc->out));
    TRY(clprune__check_apart(context, "y", y, "x", x));
    if (b.buffer != NULL)
        TRY(clprune__check_mat(context, "b", b, 1, desc->out));
    if (saved != NULL) {
        TRY(clprune__kept_input_check_saved(context, &layer->input, batch, saved));
        mark = clprune__scratch_begin(context);
        open = true;
        TRY(clprune__saved_scores(saved, batch, &scores));
    }
    TRY(clprune__product_rows(context, x, w, b, y, &scores, saved != NULL ? NULL : event));
    if (saved != NULL)
        TRY(clprune__saved_store(saved, 0, batch, scores.to, x, event));
done:
    if (open)
        clprune__scratch_end(context, mark);
    return status;
}

clprune_status clprune_linear_backward(clprune_linear *layer, size_t batch,
    const clprune_saved *saved, clprune_mat dy, clprune_mat w, clprune_mat dx, clprune_mat dw,
    clprune_mat db, cl_event *event)
{
    clprune_status status = CLPRUNE_SUCCESS;
    clprune_context *context = layer != NULL ? layer->context : NULL;
    size_t rows;
    REQUIRE(layer != NULL, CLPRUNE_INVALID_ARGUMENT, "layer is NULL");
    const clprune_linear_desc *desc = &layer->desc;
    const bool want_dx = dx.buffer != NULL, want_dw = dw.buffer != NULL,
               want_db = db.buffer != NULL;
    REQUIRE(clprune__mul(batch, desc->rows, &rows), CLPRUNE_SIZE_OVERFLOW, "%zu samples", batch);
    TRY(clprune__check_mat(context, "dy", dy, rows, desc->out));
    if (want_dx) {
        TRY(clprune__check_mat(context, "w", w, desc->out, desc->in));
        TRY(clprune__check_mat(context, "dx", dx, rows, desc->in));
    }
    if (want_dw) {
        TRY(clprune__check_mat(context, "dw", dw, desc->out, desc->in));
        TRY(clprune__kept_input_check_saved(context, &layer->input, batch, saved));
    }
    if (want_db)
        TRY(clprune__check_mat(context, "db", db, 1, desc->out));
    TRY(clprune__check_gradients_apart(context, dy, w, dx, dw, db));

    /* The forward pass was y = x * w^T + b, so: db = sum of the rows of dy ... */
    if (want_db)
        TRY(clprune__column_sum(context, false, dy, db, want_dw || want_dx ? NULL : event));
    /* ... dw = dy^T * x, from the kept x ... */
    if (want_dw)
        TRY(clprune_saved_product_tn(context, batch, dy, saved, dw, want_dx ? NULL : event));
    /* ... and dx = dy * w. */
    if (want_dx)
        TRY(clprune_gemm(context, false, false, 1.0f, 0.0f, dy, w, dx, event));
    if (!want_db && !want_dw && !want_dx)
        TRY(clprune__empty_event(context, event));
done:
    return status;
}
