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
    clprune_status status = CLPRUNE_SUCCESS;
    const struct {
        const char *name;
        clprune_mat mat;
    } part[5] = {{"dy", dy}, {"w", w}, {"dx", dx}, {"dw", dw}, {"db", db}};
    for (int output = 2; output < 5; output++)
        for (int other = 0; other < output; other++)
            TRY(clprune__check_apart(
                context, part[output].name, part[output].mat, part[other].name, part[other].mat));
done:
    return status;
}
