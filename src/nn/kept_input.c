#include "nn/kept_input.h"

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
    if (input->block.rows == 0)
        input->block = (clprune_block){1, 16};
done:
    return status;
}

clprune_status clprune__kept_input_create(clprune_context *context,
    const clprune__kept_input *input, size_t batch, const char *name, clprune_saved **saved)
{
    const clprune_saved_desc desc = {
        .form = input->sparsity > 0.0f ? CLPRUNE_SAVED_PRUNED : CLPRUNE_SAVED_DENSE,
        .batch = batch,
        .rows = input->rows,
        .cols = input->cols,
        .block = input->block,
        .sparsity = input->sparsity,
        .norm = input->norm};
    return clprune_saved_create(context, name, &desc, saved);
}
