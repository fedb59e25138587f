#include "clprune/token_linear.h"

#include <stdlib.h>

#include "core/checked.h"
#include "nn/bias.h"
#include "nn/column_sum.h"
#include "nn/kept_input.h"
#include "runtime/check.h"

struct clprune_token_linear {
    clprune_context *context;
    clprune_token_linear_desc desc;
    clprune__kept_input input;
};

clprune_status clprune_token_linear_create(
    clprune_context *context, const clprune_token_linear_desc *desc, clprune_token_linear **layer)
{
    clprune_status status = CLPRUNE_SUCCESS;
    REQUIRE(layer != NULL, CLPRUNE_INVALID_ARGUMENT, "layer is NULL");
    *layer = NULL;
    REQUIRE(context != NULL && desc != NULL, CLPRUNE_INVALID_ARGUMENT, "context or desc is NULL");
    clprune__kept_input input = {desc->in, desc->features, desc->block, desc->sparsity, desc->norm,
        desc->criterion, desc->value_type, desc->index_type};
    TRY(clprune__kept_input_check(context, &input));
    clprune_token_linear *made = malloc(sizeof *made);
    REQUIRE(made != NULL, CLPRUNE_OUT_OF_HOST_MEMORY, "no memory for the layer");
    made->context = context;
    made->desc = *desc;
    made->input = input;
    *layer = made;
done:
    return status;
}

void clprune_token_linear_destroy(clprune_token_linear *layer)
{
    free(layer);
}

clprune_status clprune_token_linear_saved_create(
    clprune_token_linear *layer, size_t batch, const char *name, clprune_saved **saved)
{
    if (saved != NULL)
        *saved = NULL;
    if (layer == NULL)
        return clprune__fail(
            NULL, CLPRUNE_INVALID_ARGUMENT, __FILE__, __LINE__, "layer != NULL", "layer is NULL");
    return clprune__kept_input_create(layer->context, &layer->input, batch, name, saved);
}

/* The rows of x and of y for `batch` samples. */
static bool batch_rows(
    const clprune_token_linear_desc *desc, size_t batch, size_t *x_rows, size_t *y_rows)
{
    return clprune__mul(batch, desc->in, x_rows) && clprune__mul(batch, desc->out, y_rows);
}

/* The first sample of a batch of `rows` rows each: operand 0 of a batched product. */
static clprune_mat first_sample(clprune_mat mat, size_t batch, size_t rows)
{
    return clprune_mat_rows(mat, 0, batch > 0 ? rows : 0);
}

clprune_status clprune_token_linear_forward(clprune_token_linear *layer, size_t batch,
    clprune_mat x, clprune_mat w, clprune_mat b, clprune_mat y, clprune_saved *saved,
    cl_event *event)
{
    clprune_status status = CLPRUNE_SUCCESS;
    clprune_context *context = layer != NULL ? layer->context : NULL;
    size_t x_rows, y_rows;
    REQUIRE(layer != NULL, CLPRUNE_INVALID_ARGUMENT, "layer is NULL");
    const clprune_token_linear_desc *desc = &layer->desc;
    REQUIRE(batch_rows(desc, batch, &x_rows, &y_rows), CLPRUNE_SIZE_OVERFLOW, "%zu samples", batch);
    TRY(clprune__check_mat(context, "x", x, x_rows, desc->features));
    TRY(clprune__check_mat(context, "w", w, desc->out, desc->in));
    TRY(clprune__check_mat(context, "y", y, y_rows, desc->features));
    TRY(clprune__check_apart(context, "y", y, "x", x));
    if (b.buffer != NULL)
        TRY(clprune__check_mat(context, "b", b, 1, desc->out));
    if (saved != NULL) {
        TRY(clprune__kept_input_check_saved(context, &layer->input, batch, saved));
        TRY(clprune_saved_store(saved, batch, x, NULL));
    }
    if (batch == 0) {
        TRY(clprune__empty_event(context, event));
        goto done;
    }
    TRY(clprune__product_tokens(context, batch, x, w, b, y, event));
done:
    return status;
}

clprune_status clprune_token_linear_backward(clprune_token_linear *layer, size_t batch,
    const clprune_saved *saved, clprune_mat dy, clprune_mat w, clprune_mat dx, clprune_mat dw,
    clprune_mat db, cl_event *event)
{
    clprune_status status = CLPRUNE_SUCCESS;
    clprune_context *context = layer != NULL ? layer->context : NULL;
    size_t x_rows, y_rows;
    REQUIRE(layer != NULL, CLPRUNE_INVALID_ARGUMENT, "layer is NULL");
    const clprune_token_linear_desc *desc = &layer->desc;
    const bool want_dx = dx.buffer != NULL, want_dw = dw.buffer != NULL,
               want_db = db.buffer != NULL;
    REQUIRE(batch_rows(desc, batch, &x_rows, &y_rows), CLPRUNE_SIZE_OVERFLOW, "%zu samples", batch);
    TRY(clprune__check_mat(context, "dy", dy, y_rows, desc->features));
    if (want_dx) {
        TRY(clprune__check_mat(context, "w", w, desc->out, desc->in));
        TRY(clprune__check_mat(context, "dx", dx, x_rows, desc->features));
    }
    if (want_dw) {
        TRY(clprune__check_mat(context, "dw", dw, desc->out, desc->in));
        TRY(clprune__kept_input_check_saved(context, &layer->input, batch, saved));
    }
    if (want_db)
        TRY(clprune__check_mat(context, "db", db, 1, desc->out));
    TRY(clprune__check_gradients_apart(context, dy, w, dx, dw, db));

    /* The forward pass was y_n = w * x_n + b * 1^T, so: db = sum over n of dy_n * 1 ... */
    if (want_db)
        TRY(clprune__token_bias_grad(
            context, batch, desc->out, dy, db, want_dw || want_dx ? NULL : event));
    /* ... dw = sum over n of dy_n * x_n^T, from the kept x ... */
    if (want_dw)
        TRY(clprune_saved_product_nt(context, batch, dy, saved, dw, want_dx ? NULL : event));
    /* ... and dx_n = w^T * dy_n. */
    if (want_dx && batch > 0)
        TRY(clprune_gemm_batched(context, batch, true, false, 1.0f, 0.0f, w, 0,
            first_sample(dy, batch, desc->out), desc->out * dy.ld,
            first_sample(dx, batch, desc->in), desc->in * dx.ld, event));
    if ((!want_db && !want_dw && !want_dx) || (want_dx && batch == 0))
        TRY(clprune__empty_event(context, event));
done:
    return status;
}
