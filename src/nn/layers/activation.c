#include "clprune/activation.h"

#include "nn/layers/activation_private.h"
#include "nn/store/chunks.h"
#include "nn/store/saved_private.h"
#include "runtime/context/check.h"
#include "runtime/memory/scratch.h"

/* ReLU and ReLU6, whose stores keep y. */
static bool is_relu(clprune_activation f)
{
    return f == CLPRUNE_ACTIVATION_RELU || f == CLPRUNE_ACTIVATION_RELU6;
}

/* Whether the levels of GELU_CODE are for its derivative. */
static bool has_codes(clprune_activation f)
{
    return f >= CLPRUNE_ACTIVATION_GELU && f <= CLPRUNE_ACTIVATION_TANH;
}

/* Fails unless the store holds the samples of `range`, and if its form keeps the derivative of the
 * other activation. */
static clprune_status check(clprune_context *context, clprune_activation activation,
    const clprune_saved *saved, clprune__range range, const clprune__kept **kept)
{
    TRY(clprune__saved_check_range(context, saved, range));
    *kept = clprune__saved_kept(saved);
    const clprune_form form = (*kept)->keep.form;
    REQUIRE((form != CLPRUNE_FORM_GELU_CODE || has_codes(activation)) &&
                (form != CLPRUNE_FORM_MASK || is_relu(activation)),
        CLPRUNE_INVALID_ARGUMENT,
        "saved has form %s, which keeps the derivative of another activation", (*kept)->form->name);
    return CLPRUNE_SUCCESS;
}

static clprune_status check_activation(clprune_context *context, clprune_activation activation)
{
    REQUIRE(activation >= CLPRUNE_ACTIVATION_RELU && activation <= CLPRUNE_ACTIVATION_RECIPROCAL,
        CLPRUNE_INVALID_ARGUMENT, "activation is %d, expected a clprune_activation",
        (int)activation);
    return CLPRUNE_SUCCESS;
}

/* Whether the activation writes the store in its own pass. */
static bool is_fused(const clprune__kept *kept)
{
    return kept->form->packing != NULL;
}

static bool is_dense(const clprune__kept *kept)
{
    return kept->keep.form == CLPRUNE_FORM_DENSE;
}

/* Checks that nothing is overwritten before it is stored (x of GELU, y of ReLU), and that x, b and
 * y do not overlap the store, unless it is DENSE and the matrix that it keeps is its samples. */
static clprune_status check_memory(clprune_context *context, bool relu, const clprune_saved *saved,
    clprune__range range, clprune_mat x, clprune_mat b, clprune_mat y)
{
    const clprune__kept *kept = clprune__saved_kept(saved);
    if (!relu && !is_fused(kept)) {
        REQUIRE(!clprune__same_mat(x, y), CLPRUNE_INVALID_ARGUMENT,
            "y is x, but a store of form %s keeps x; use another matrix for y", kept->form->name);
        TRY(clprune__check_apart(context, "y", y, "x", x));
    }
    const clprune_mat own = is_dense(kept) ? kept->form->mat(kept, range) : CLPRUNE_NO_MAT;
    const bool in_own = clprune__same_mat(relu ? y : x, own); /* false unless DENSE */
    if (!in_own || !relu)
        TRY(clprune__saved_check_apart(context, saved, "y", y));
    if (!in_own || !clprune__same_mat(x, own))
        TRY(clprune__saved_check_apart(context, saved, "x", x));
    return clprune__saved_check_apart(context, saved, "b", b);
}

clprune_status clprune_activation_forward(clprune_context *context, clprune_activation activation,
    size_t first, size_t count, clprune_mat x, clprune_mat b, clprune_mat y, clprune_saved *saved,
    cl_event *event)
{
    ENTER_WITH(context, "saved", clprune__saved_context(saved));
    const clprune__kept *kept = NULL;
    const clprune__range range = {first, count};
    TRY(check_activation(context, activation));
    if (saved != NULL) {
        TRY(check(context, activation, saved, range, &kept));
        const clprune__operand both[] = {
            {"x", x, count * kept->rows, kept->cols, .bf16 = is_fused(kept)}, /* else stored */
            {"y", y, count * kept->rows, kept->cols, .bf16 = true}};
        TRY(clprune__check_operands(context, both, 2, 2));
        if (!clprune__is_absent(b))
            TRY(clprune__check_mat(context, "b", b, 1, kept->cols));
    }
    const bool relu = is_relu(activation);
    const bool fused = saved != NULL && is_fused(kept);
    if (saved != NULL)
        TRY(check_memory(context, relu, saved, range, x, b, y));
    const clprune_mat packed = fused ? kept->form->mat(kept, range) : CLPRUNE_NO_MAT;
    cl_event *last = saved == NULL || fused ? event : NULL;
    if (relu)
        TRY(clprune__relu_forward(context, activation, x, b, y, packed, last));
    else if (fused)
        TRY(clprune__gelu_code_forward(
            context, activation, kept->keep.bits, x, b, y, packed, last));
    else
        TRY(clprune__gelu_forward(context, activation, x, b, y, last));
    if (saved != NULL && !fused)
        TRY(clprune__saved_store(saved, first, count, (clprune__region){0}, relu ? y : x, event));
    return CLPRUNE_SUCCESS;
}

/* The backward pass of ReLU from y, which is written once more, to `again`; that may be y. */
static clprune_status backward_relu(clprune_context *context, clprune_activation f, float beta,
    clprune_mat y, clprune_mat again, clprune_mat dy, clprune_mat dx, clprune_mat db,
    cl_event *event)
{
    SCRATCH_SCOPE(context);
    clprune_relu_mask_sizes sizes;
    clprune_mat bits;
    const clprune_status status = clprune_relu_mask_size_query(y.rows, y.cols, &sizes);
    REQUIRE(status == CLPRUNE_SUCCESS, status, "%s", clprune_last_error(NULL));
    TRY(clprune__scratch_mat(context, y.rows, sizes.cols, &bits));
    TRY(clprune__relu_forward(context, f, y, CLPRUNE_NO_MAT, again, bits, NULL));
    return clprune__relu_backward(context, beta, dy, bits, dx, db, event);
}

/* The backward pass of y (ReLU) or x + b (others), some samples at a time: DENSE in place, other
 * forms restored to scratch, or to a y of fp32, which becomes f(x + b), unless it is absent. */
static clprune_status backward_chunks(clprune_context *context, clprune_activation activation,
    clprune__range range, float beta, const clprune_saved *saved, clprune_mat dy, clprune_mat y,
    clprune_mat dx, clprune_mat db, cl_event *event)
{
    const clprune__kept *store = clprune__saved_kept(saved);
    const bool again = !clprune__is_absent(y);
    SCRATCH_SCOPE(context);
    clprune__chunks chunks;
    TRY(clprune__chunks_begin(context, store->rows, store->cols, range, &chunks));
    while (clprune__chunks_next(&chunks)) {
        const size_t first = chunks.range.first, count = chunks.range.count;
        const clprune_mat part_y = again ? clprune__chunk_of(&chunks, y, store->rows) : y;
        const clprune_mat room = again && y.type == CLPRUNE_VALUES_FP32 ? part_y : chunks.room;
        const clprune_mat kept =
            is_dense(store) && !again ? store->form->mat(store, chunks.range) : room;
        const clprune_mat part_dy = clprune__chunk_of(&chunks, dy, store->rows);
        const clprune_mat part_dx = clprune__chunk_of(&chunks, dx, store->rows);
        const float part_beta = chunks.before == 0 ? beta : 1.0f;
        cl_event *last = chunks.last ? event : NULL;
        TRY(clprune__saved_restore(saved, first, count, kept, NULL)); /* DENSE: a no-op */
        if (is_relu(activation))
            TRY(backward_relu(
                context, activation, part_beta, kept, room, part_dy, part_dx, db, last));
        else
            TRY(clprune__gelu_backward(
                context, activation, part_beta, again, kept, part_dy, part_y, part_dx, db, last));
    }
    return CLPRUNE_SUCCESS;
}

/* The same from rotated codes, which are restored to y or, if it is absent, to dx. */
static clprune_status backward_rotated(clprune_context *context, clprune_activation activation,
    clprune__range range, float beta, const clprune_saved *saved, clprune_mat dy, clprune_mat y,
    clprune_mat dx, clprune_mat db, cl_event *event)
{
    const bool again = !clprune__is_absent(y);
    const clprune_mat h = again ? y : dx;
    bool same;
    TRY(clprune__is_in_place(context, h, dy, &same));
    if (same || h.type == CLPRUNE_VALUES_BF16)
        return backward_chunks(context, activation, range, beta, saved, dy, y, dx, db, event);
    TRY(clprune__saved_restore(saved, range.first, range.count, h, NULL));
    return clprune__gelu_backward(context, activation, beta, again, h, dy, y, dx, db, event);
}

/* Forward: y = f(x + b); the store keeps y (ReLU) or x + b (others) in its form. y: NULL, or where
 * it is recomputed. */
static clprune_status backward(clprune_context *context, clprune_activation activation,
    clprune__range range, const clprune_saved *saved, clprune_mat dy, const clprune_mat *again,
    const clprune_grads *grads, cl_event *event)
{
    const clprune__kept *kept;
    const clprune_mat y = again != NULL ? *again : CLPRUNE_NO_MAT;
    TRY(check_activation(context, activation));
    REQUIRE(grads != NULL, CLPRUNE_INVALID_ARGUMENT, "grads is NULL");
    const clprune_mat dx = grads->dx, db = grads->db;
    const float beta = grads->beta;
    REQUIRE(clprune__is_absent(grads->dw) && grads->dx_beta == 0.0f, CLPRUNE_INVALID_ARGUMENT,
        "dw or dx_beta is given, but an activation has no weights and overwrites dx");
    TRY(check(context, activation, saved, range, &kept));
    const size_t rows = range.count * kept->rows, cols = kept->cols;
    enum { DY, Y, DX, DB, ALL };
    const clprune__operand operands[ALL] = {{"dy", dy, rows, cols},
        {"y", y, rows, cols, .optional = again == NULL, .bf16 = true},
        {"dx", dx, rows, cols, .in_place = 1u << DY, .bf16 = true},
        {"db", db, 1, cols, .optional = true}};
    TRY(clprune__check_operands(context, operands, Y, ALL));
    REQUIRE(again == NULL || y.type == dx.type, CLPRUNE_INVALID_ARGUMENT,
        "one of y and dx is of bf16, expected both or none");
    TRY(clprune__saved_check_stored(context, saved, range));
    for (int i = Y; i < ALL; i++)
        TRY(clprune__saved_check_apart(context, saved, operands[i].name, operands[i].mat));
    const clprune_form form = kept->keep.form;
    REQUIRE(again == NULL || !is_fused(kept), CLPRUNE_INVALID_ARGUMENT,
        "y is to be recomputed, but saved has form %s, which keeps the derivative alone",
        kept->form->name);
    if (form == CLPRUNE_FORM_GELU_CODE)
        return clprune__gelu_code_backward(
            context, kept->keep.bits, beta, dy, kept->form->mat(kept, range), dx, db, event);
    if (form == CLPRUNE_FORM_MASK)
        return clprune__relu_backward(
            context, beta, dy, kept->form->mat(kept, range), dx, db, event);
    const bool codes = form == CLPRUNE_FORM_QUANTISED && !is_relu(activation);
    if (codes && kept->keep.rotate)
        return backward_rotated(context, activation, range, beta, saved, dy, y, dx, db, event);
    if (codes) {
        const clprune__quantised h = clprune__kept_quantised(kept, range);
        return clprune__gelu_backward_quantised(
            context, activation, beta, &h, dy, y, dx, db, event);
    }
    if (form == CLPRUNE_FORM_DENSE && !is_relu(activation))
        return clprune__gelu_backward(context, activation, beta, !clprune__is_absent(y),
            kept->form->mat(kept, range), dy, y, dx, db, event);
    return backward_chunks(context, activation, range, beta, saved, dy, y, dx, db, event);
}

clprune_status clprune_activation_backward(clprune_context *context, clprune_activation activation,
    size_t first, size_t count, const clprune_saved *saved, clprune_mat dy,
    const clprune_grads *grads, cl_event *event)
{
    ENTER_WITH(context, "saved", clprune__saved_context(saved));
    return backward(
        context, activation, (clprune__range){first, count}, saved, dy, NULL, grads, event);
}

clprune_status clprune_activation_backward_recompute(clprune_context *context,
    clprune_activation activation, size_t first, size_t count, const clprune_saved *saved,
    clprune_mat dy, clprune_mat y, const clprune_grads *grads, cl_event *event)
{
    ENTER_WITH(context, "saved", clprune__saved_context(saved));
    return backward(
        context, activation, (clprune__range){first, count}, saved, dy, &y, grads, event);
}
