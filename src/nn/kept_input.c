#include "nn/kept_input.h"

#include "nn/saved_private.h"
#include "runtime/check.h"

clprune_status clprune__kept_input_check(clprune_context *context, clprune__kept_input *input)
{
    clprune_status status = CLPRUNE_SUCCESS;
    REQUIRE(input->sparsity >= 0.0f && input->sparsity <= 1.0f, CLPRUNE_INVALID_ARGUMENT,
        "sparsity is %g, expected 0 to 1", (double)input->sparsity);
    REQUIRE((input->block.rows == 0) == (input->block.cols == 0), CLPRUNE_INVALID_ARGUMENT,
        "a block of %zu x %zu", input->block.rows, input->block.cols);
    REQUIRE((unsigned)input->norm <= CLPRUNE_NORM_MAX, CLPRUNE_INVALID_ARGUMENT, "norm is %d",
        (int)input->norm);
    REQUIRE((unsigned)input->criterion <= CLPRUNE_CRITERION_SAMPLED, CLPRUNE_INVALID_ARGUMENT,
        "criterion is %d", (int)input->criterion);
    REQUIRE((unsigned)input->value_type <= CLPRUNE_VALUES_INT8, CLPRUNE_INVALID_ARGUMENT,
        "value type is %d", (int)input->value_type);
    REQUIRE((unsigned)input->index_type <= CLPRUNE_INDEX_SMALLEST, CLPRUNE_INVALID_ARGUMENT,
        "index type is %d", (int)input->index_type);
    if (input->block.rows == 0)
        input->block = (clprune_block){1, 16};
done:
    return status;
}

clprune_status clprune__kept_input_create(clprune_context *context,
    const clprune__kept_input *input, size_t batch, const char *name, clprune_saved **saved)
{
    const bool dense = input->sparsity == 0.0f && input->value_type == CLPRUNE_VALUES_FP32;
    const clprune_saved_desc desc = {.form = dense ? CLPRUNE_SAVED_DENSE : CLPRUNE_SAVED_PRUNED,
        .batch = batch,
        .rows = input->rows,
        .cols = input->cols,
        .block = input->block,
        .sparsity = input->sparsity,
        .norm = input->norm,
        .criterion = input->criterion,
        .value_type = input->value_type,
        .index_type = input->index_type};
    return clprune_saved_create(context, name, &desc, saved);
}

clprune_status clprune__kept_input_check_saved(clprune_context *context,
    const clprune__kept_input *input, size_t batch, const clprune_saved *saved)
{
    clprune_status status = CLPRUNE_SUCCESS;
    REQUIRE(saved != NULL, CLPRUNE_INVALID_ARGUMENT, "saved is NULL");
    const clprune_saved_desc desc = clprune__saved_desc(saved);
    REQUIRE(desc.rows == input->rows && desc.cols == input->cols, CLPRUNE_INVALID_SIZE,
        "saved holds samples of %zu x %zu, expected %zu x %zu", desc.rows, desc.cols, input->rows,
        input->cols);
    REQUIRE(batch <= desc.batch, CLPRUNE_INVALID_SIZE, "saved: %zu samples, with room for %zu",
        batch, desc.batch);
done:
    return status;
}

clprune_status clprune__check_gradients_apart(clprune_context *context, clprune_mat dy,
    clprune_mat w, clprune_mat dx, clprune_mat dw, clprune_mat db)
{
    enum { INPUTS = 2, ALL = 5 };
    const clprune__operand operands[ALL] = {{"dy", dy, dy.rows, dy.cols}, {"w", w, w.rows, w.cols},
        {"dx", dx, dx.rows, dx.cols}, {"dw", dw, dw.rows, dw.cols}, {"db", db, db.rows, db.cols}};
    return clprune__check_operands(context, operands, INPUTS, ALL);
}
