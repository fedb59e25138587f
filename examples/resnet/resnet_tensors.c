/* Where the tensors of a block lie, and what both passes do with a convolution and its batch norm.
 */
#include "resnet_private.h"
#include "trainer/base/try.h"

clprune_mat resnet_room(clprune_mat work, size_t rows, size_t cols)
{
    return (clprune_mat){work.buffer, work.offset, rows, cols, cols};
}

clprune_mat resnet_target(
    const clprune_saved *kept, size_t batch, clprune_mat work, size_t rows, size_t cols)
{
    const clprune_mat dense = clprune_saved_dense(kept, 0, batch);
    return dense.rows > 0 ? dense : resnet_room(work, rows, cols);
}

clprune_status resnet_restore(const clprune_saved *kept, size_t batch, clprune_mat work,
    size_t rows, size_t cols, clprune_mat *mat)
{
    *mat = resnet_target(kept, batch, work, rows, cols);
    return clprune_saved_restore(kept, 0, batch, *mat, NULL);
}

clprune_saved *resnet_kept_x(const resnet *model, size_t i)
{
    if (i == 0)
        return model->kept[model->arch.pools ? KEEP_POOL : KEEP_STEM_RELU];
    return model->blocks[i - 1].kept[KEEP_OUT];
}

clprune_status resnet_view(
    clprune_saved *store, size_t batch, clprune_mat mat, clprune_saved **kept)
{
    *kept = store;
    return clprune_saved_reshape(store, batch, mat.rows / batch, mat.cols);
}

clprune_status resnet_keep_tensor(bool training, clprune_saved *kept, size_t batch, clprune_mat mat)
{
    return training && kept != NULL ? clprune_saved_store(kept, 0, batch, mat, NULL)
                                    : CLPRUNE_SUCCESS;
}

clprune_status resnet_convolve(
    const resnet_part *part, size_t batch, clprune_mat x, clprune_mat y, clprune_saved *kept_x)
{
    return clprune_conv2d_forward(part->conv, batch, resnet_square(part->unit.from), x, part->w,
        CLPRUNE_NO_MAT, y, kept_x, NULL);
}

clprune_status resnet_measure(const resnet *model, const resnet_part *part, bool training,
    clprune_mat y, clprune_batch_norm *bn)
{
    clprune_context *context = model->context;
    *bn = resnet_norm(part);
    if (!training) {
        bn->mean = part->running_mean;
        return clprune_batch_norm_inverse(context, resnet_eps, part->running_var, bn->inv, NULL);
    }
    const clprune_batch_norm_running running = {
        resnet_momentum, part->running_mean, part->running_var};
    TRY(clprune_batch_norm_moments(context, 0, y, part->mean, part->inv, NULL));
    return clprune_batch_norm_statistics(
        context, y.rows, resnet_eps, part->mean, part->inv, part->inv, &running, NULL);
}

clprune_status resnet_norm_backward(const resnet *model, const resnet_part *part, bool relu,
    clprune_mat x, clprune_mat mask, clprune_mat residual, clprune_mat dy, clprune_mat dz,
    clprune_mat dx)
{
    clprune_context *context = model->context;
    const clprune_batch_norm bn = resnet_norm(part);
    const clprune_batch_norm_in in = {&bn, relu, x, dy, mask, residual},
                                past_relu = {.bn = &bn, .x = x, .dy = dz};
    const clprune_mat sums = resnet_room(model->work.sums, 2, x.cols);
    TRY(clprune_batch_norm_backward_sums(
        context, 0.0f, 0.0f, &in, dz, sums, part->dgamma, part->dbeta, NULL));
    return clprune_batch_norm_backward_input(
        context, x.rows, dz.buffer != NULL ? &past_relu : &in, sums, dx, NULL);
}
