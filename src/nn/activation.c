#include "clprune/activation.h"

#include "clprune/gelu.h"
#include "clprune/gelu_code.h"
#include "clprune/relu.h"
#include "core/checked.h"
#include "nn/form.h"
#include "nn/saved_private.h"
#include "runtime/check.h"
#include "runtime/scratch.h"

/* Fails where the form keeps another function's derivative; *sample: the shape of a sample. */
static clprune_status check(clprune_context *context, clprune_activation activation,
    const clprune_saved *saved, clprune_saved_info *info)
{
    clprune_status status = CLPRUNE_SUCCESS;
    TRY(clprune__saved_check(context, saved, 0, 0, 0));
    *info = clprune_saved_describe(saved);
    REQUIRE(info->keep.form != (activation == CLPRUNE_ACTIVATION_RELU ? CLPRUNE_FORM_GELU_CODE
                                                                      : CLPRUNE_FORM_MASK),
        CLPRUNE_INVALID_ARGUMENT,
        "saved has form %s, which keeps the derivative of another activation",
        clprune_form_name(info->keep.form));
done:
    return status;
}

static clprune_status check_activation(clprune_context *context, clprune_activation activation)
{
    clprune_status status = CLPRUNE_SUCCESS;
    REQUIRE(activation == CLPRUNE_ACTIVATION_RELU || activation == CLPRUNE_ACTIVATION_GELU,
        CLPRUNE_INVALID_ARGUMENT, "activation is %d, expected a clprune_activation",
        (int)activation);
done:
    return status;
}

clprune_status clprune_activation_forward(clprune_context *context, clprune_activation activation,
    size_t first, size_t count, clprune_mat x, clprune_mat b, clprune_mat y, clprune_saved *saved,
    cl_event *event)
{
    ENTER(context);
    clprune_status status = CLPRUNE_SUCCESS;
    clprune_saved_info info = {0};
    TRY(check_activation(context, activation));
    if (saved != NULL) {
        TRY(check(context, activation, saved, &info));
        REQUIRE(first <= info.batch && count <= info.batch - first, CLPRUNE_INVALID_SIZE,
            "samples: %zu from sample %zu, but the store holds %zu", count, first, info.batch);
        TRY(clprune__check_mat(context, "x", x, count * info.rows, info.cols));
    }
    const bool relu = activation == CLPRUNE_ACTIVATION_RELU;
    const bool fused = saved != NULL && (info.keep.form == CLPRUNE_FORM_GELU_CODE ||
                                            info.keep.form == CLPRUNE_FORM_MASK);
    cl_event *last = saved == NULL || fused ? event : NULL;
    if (relu)
        TRY(clprune_relu_forward(context, x, b, y,
            fused ? clprune_saved_mask(saved, first, count) : CLPRUNE_NO_MAT, last));
    else if (fused)
        TRY(clprune_gelu_code_forward(
            context, info.keep.bits, x, b, y, clprune_saved_codes(saved, first, count), last));
    else
        TRY(clprune_gelu_forward(context, x, b, y, last));
    if (saved != NULL && !fused) {
        REQUIRE(relu || !clprune__same_mat(x, y), CLPRUNE_INVALID_ARGUMENT,
            "y is x, but a store of form %s keeps x; use another matrix for y",
            clprune_form_name(info.keep.form));
        TRY(clprune_saved_store(saved, first, count, relu ? y : x, event));
    }
done:
    return status;
}

/* The backward pass of samples that lie in `kept`, dense: y (ReLU) or x + b (GELU). */
static clprune_status backward_dense(clprune_context *context, clprune_activation activation,
    float beta, clprune_mat kept, clprune_mat dy, clprune_mat dx, clprune_mat db, cl_event *event)
{
    clprune_status status = CLPRUNE_SUCCESS;
    const clprune__scratch_mark mark = clprune__scratch_begin(context);
    if (activation == CLPRUNE_ACTIVATION_GELU) {
        TRY(clprune_gelu_backward(context, beta, kept, dy, dx, db, event));
        goto done;
    }
    clprune_relu_mask_sizes sizes;
    clprune_mat bits, again;
    status = clprune_relu_mask_size_query(kept.rows, kept.cols, &sizes);
    REQUIRE(status == CLPRUNE_SUCCESS, status, "%s", clprune_last_error(NULL));
    TRY(clprune__scratch_mat(context, kept.rows, sizes.cols, &bits));
    TRY(clprune__scratch_mat(context, kept.rows, kept.cols, &again));
    TRY(clprune_relu_forward(context, kept, CLPRUNE_NO_MAT, again, bits, NULL));
    TRY(clprune_relu_backward(context, beta, dy, bits, dx, db, event));
done:
    clprune__scratch_end(context, mark);
    return status;
}

/* Forward: y = f(x + b), and the store has what its form keeps of x + b or y. */
clprune_status clprune_activation_backward(clprune_context *context, clprune_activation activation,
    size_t first, size_t count, float beta, const clprune_saved *saved, clprune_mat dy,
    clprune_mat dx, clprune_mat db, cl_event *event)
{
    ENTER(context);
    clprune_status status = CLPRUNE_SUCCESS;
    clprune__scratch_mark mark = {0, 0};
    bool open = false;
    clprune_saved_info info;
    TRY(check_activation(context, activation));
    TRY(check(context, activation, saved, &info));
    REQUIRE(first <= info.batch && count <= info.batch - first, CLPRUNE_INVALID_SIZE,
        "samples: %zu from sample %zu, but the store holds %zu", count, first, info.batch);
    TRY(clprune__check_mat(context, "dy", dy, count * info.rows, info.cols));
    TRY(clprune__check_mat(context, "dx", dx, count * info.rows, info.cols));
    if (info.keep.form == CLPRUNE_FORM_GELU_CODE) {
        TRY(clprune_gelu_code_backward(context, beta, info.keep.bits, dy,
            clprune_saved_codes(saved, first, count), dx, db, event));
        goto done;
    }
    if (info.keep.form == CLPRUNE_FORM_MASK) {
        TRY(clprune_relu_backward(
            context, beta, dy, clprune_saved_mask(saved, first, count), dx, db, event));
        goto done;
    }
    const bool dense = info.keep.form == CLPRUNE_FORM_DENSE;
    const size_t step =
        dense ? clprune__max(count, 1) : clprune__chunk_samples(info.rows * info.cols, count);
    clprune_mat room = CLPRUNE_NO_MAT;
    mark = clprune__scratch_begin(context);
    open = true;
    if (!dense)
        TRY(clprune__scratch_mat(context, step * info.rows, info.cols, &room));
    size_t at = 0;
    do {
        const size_t n = clprune__min(step, count - at), rows = n * info.rows;
        const clprune_mat kept =
            dense ? clprune_saved_dense(saved, first + at, n) : clprune_mat_rows(room, 0, rows);
        const float part_beta = at == 0 ? beta : 1.0f;
        if (!dense)
            TRY(clprune_saved_restore(saved, first + at, n, kept, NULL));
        TRY(backward_dense(context, activation, part_beta, kept,
            clprune_mat_rows(dy, at * info.rows, rows), clprune_mat_rows(dx, at * info.rows, rows),
            db, at + n == count ? event : NULL));
        at += n;
    } while (at < count);
done:
    if (open)
        clprune__scratch_end(context, mark);
    return status;
}
