#include "trainer/session/gradient_sum.h"

#include <stdlib.h>

#include "trainer/base/try.h"

/* The buffers of the gradients, as rows. The model may have other gradients in them, such as frozen
 * parameters', which are added, too. */
static size_t list_buffers(const clprune_param *params, size_t count, clprune_mat *rows)
{
    size_t buffers = 0;
    for (size_t i = 0; i < count; ++i) {
        const clprune_mat grad = params[i].grad;
        const size_t end = grad.offset + (grad.rows - 1) * grad.ld + grad.cols;
        size_t b = 0;
        while (b < buffers && rows[b].buffer != grad.buffer)
            ++b;
        if (b == buffers)
            rows[buffers++] = clprune_mat_of(grad.buffer, 1, 0);
        if (end > rows[b].cols)
            rows[b].cols = rows[b].ld = end;
    }
    return buffers;
}

clprune_status gradient_sum_open(clprune_context *context, size_t passes,
    const clprune_param *params, size_t count, gradient_sum *sum)
{
    *sum = (gradient_sum){.context = context, .grads = calloc(count + 1, sizeof *sum->grads)};
    if (sum->grads == NULL)
        return CLPRUNE_OUT_OF_HOST_MEMORY;
    sum->buffers = list_buffers(params, count, sum->grads);
    for (size_t level = 0; (passes - 1) >> level != 0; ++level) {
        sum->levels[level] = calloc(sum->buffers + 1, sizeof **sum->levels);
        if (sum->levels[level] == NULL)
            return CLPRUNE_OUT_OF_HOST_MEMORY;
        for (size_t b = 0; b < sum->buffers; ++b)
            TRY(clprune_mat_create(context, CLPRUNE_MEMORY_GRADIENTS, "gradients of passes", 1,
                sum->grads[b].cols, &sum->levels[level][b]));
    }
    return CLPRUNE_SUCCESS;
}

void gradient_sum_close(gradient_sum *sum)
{
    for (size_t level = 0; level < GRADIENT_SUM_LEVELS; ++level) {
        for (size_t b = 0; sum->levels[level] != NULL && b < sum->buffers; ++b)
            clprune_buffer_release(sum->context, sum->levels[level][b].buffer);
        free(sum->levels[level]);
    }
    free(sum->grads);
    *sum = (gradient_sum){0};
}

/* The bits of `index` that are set are the levels in use. */
clprune_status gradient_sum_add(const gradient_sum *sum, clprune_mat part, size_t index, bool last)
{
    size_t b = 0, level = 0;
    while (sum->grads[b].buffer != part.buffer)
        ++b;
    for (; index >> level != 0; ++level) {
        clprune_mat other = part;
        other.buffer = sum->levels[level][b].buffer;
        if ((index >> level & 1) != 0)
            TRY(clprune_add(sum->context, 1.0f, other, 1.0f, part, part, NULL));
        else if (!last)
            break;
    }
    if (last)
        return CLPRUNE_SUCCESS;
    clprune_mat to = part;
    to.buffer = sum->levels[level][b].buffer;
    return clprune_mat_copy(sum->context, part, to, NULL);
}

clprune_status gradient_sum_add_all(const gradient_sum *sum, size_t index, bool last)
{
    for (size_t b = 0; b < sum->buffers; ++b)
        TRY(gradient_sum_add(sum, sum->grads[b], index, last));
    return CLPRUNE_SUCCESS;
}

clprune_status gradient_sum_zero(const gradient_sum *sum)
{
    for (size_t b = 0; b < sum->buffers; ++b)
        TRY(clprune_mat_fill(sum->context, 0.0f, sum->grads[b], NULL));
    return CLPRUNE_SUCCESS;
}
