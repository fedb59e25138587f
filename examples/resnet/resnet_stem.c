/* The stem: conv = W image, relu = max(bn(conv), 0), x = max pool(relu), forward and backward.
 *
 * If conv is not kept, the backward pass recomputes it from the images, or, with a pool, does
 * without it (resnet_stem_by_product): the gradients then follow from three products with the
 * image, of dz, conv and ones. The forward pass makes the last two. */
#include "resnet_private.h"
#include "trainer/base/try.h"

static const clprune_max_pool_desc stem_pool = {
    .kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1}};

/* dw of the stem's convolution for dy, and with db the sums of dy; + beta * their old values. */
static clprune_status weights_product(const resnet_part *part, size_t batch, float beta,
    const clprune_saved *image, clprune_mat dy, clprune_mat dw, clprune_mat db)
{
    return clprune_conv2d_backward(part->conv, batch, resnet_square(part->unit.from), image, dy,
        part->w, &(clprune_grads){.dw = dw, .db = db, .beta = beta}, NULL);
}

/* The products of the forward pass: conv^T * patches, and ones^T * patches. The second is computed
 * from the mean image, with `batch` in place of ones. */
static clprune_status make_products(
    const resnet *model, size_t batch, clprune_mat image, clprune_mat conv)
{
    clprune_context *context = model->context;
    const resnet_workspace *work = &model->work;
    const resnet_part *part = &model->parts[0];
    const resnet_unit *u = &part->unit;
    const clprune_mat none = CLPRUNE_NO_MAT, w = part->w;
    const clprune_mat mean = resnet_room(work->image_mean, resnet_pixels(1, u->from), u->in);
    const clprune_mat ones = resnet_room(work->ones, resnet_pixels(1, u->to), u->out);
    clprune_saved *kept_image, *kept_mean;
    TRY(resnet_view(work->image_view, batch, image, &kept_image));
    TRY(weights_product(part, batch, 0.0f, kept_image, conv,
        resnet_room(work->conv_product, w.rows, w.cols), none));
    /* image and mean as one row per image */
    const size_t elements = mean.rows * mean.cols;
    TRY(clprune_token_mean_forward(context, 1, batch, resnet_room(image, batch, elements),
        resnet_room(mean, 1, elements), NULL));
    TRY(clprune_mat_fill(context, (float)batch, ones, NULL));
    TRY(resnet_view(work->mean_view, 1, mean, &kept_mean));
    TRY(weights_product(
        part, 1, 0.0f, kept_mean, ones, resnet_room(work->patch_sums, w.rows, w.cols), none));
    TRY(resnet_forget(model, work->image_mean));
    return resnet_forget(model, work->ones);
}

clprune_status resnet_stem_forward(
    const resnet *model, size_t batch, clprune_image_bytes images, bool training, clprune_mat x)
{
    clprune_context *context = model->context;
    const resnet_workspace *work = &model->work;
    const resnet_part *part = &model->parts[0];
    const resnet_unit *u = &part->unit;
    const size_t rows = resnet_pixels(batch, u->to);
    clprune_saved *const *kept = model->kept;
    const clprune_mat none = CLPRUNE_NO_MAT;
    const clprune_mat image = resnet_target(
        kept[KEEP_IMAGE], batch, work->made[KEEP_IMAGE], resnet_pixels(batch, u->from), u->in);
    const clprune_mat conv =
        resnet_target(kept[KEEP_STEM], batch, work->made[KEEP_STEM], rows, u->out);
    clprune_batch_norm bn;
    TRY(clprune_image_bytes_channels_last(
        context, batch, u->in, resnet_square(u->from), images, image, NULL));
    TRY(resnet_convolve(part, batch, image, conv, training ? kept[KEEP_IMAGE] : NULL));
    if (training && resnet_stem_by_product(model))
        TRY(make_products(model, batch, image, conv));
    TRY(resnet_forget(model, work->made[KEEP_IMAGE]));
    TRY(resnet_measure(model, part, training, conv, &bn));
    TRY(resnet_keep_tensor(training, kept[KEEP_STEM], batch, conv));
    const clprune_mat positions =
        training && model->arch.pools ? clprune_mat_rows(model->positions, 0, x.rows) : none;
    if (resnet_stem_fused(model)) {
        TRY(clprune_max_pool_norm_forward(
            context, &stem_pool, &bn, batch, resnet_square(u->to), conv, x, positions, NULL));
        return resnet_forget(model, work->made[KEEP_STEM]);
    }
    const bool in_place = resnet_relu_in_place(model);
    clprune_mat relu = conv;
    if (!model->arch.pools)
        relu = x;
    else if (!in_place)
        relu = resnet_target(kept[KEEP_STEM_RELU], batch, work->made[KEEP_STEM_RELU], rows, u->out);
    TRY(clprune_batch_norm_forward(context, &bn, true, conv, none, relu,
        training ? clprune_saved_mask(kept[KEEP_STEM_MASK], 0, batch) : none, NULL));
    if (!in_place)
        TRY(resnet_forget(model, work->made[KEEP_STEM]));
    if (!model->arch.pools)
        return CLPRUNE_SUCCESS;
    TRY(resnet_keep_tensor(training, kept[KEEP_STEM_RELU], batch, relu));
    TRY(clprune_max_pool_forward(
        context, &stem_pool, batch, resnet_square(u->to), relu, x, positions, NULL));
    return resnet_forget(model, work->made[in_place ? KEEP_STEM : KEEP_STEM_RELU]);
}

/* `count` images, channels last, in image_again. */
static clprune_status image_again(
    const resnet *model, size_t first, size_t count, clprune_image_bytes images, clprune_mat *image)
{
    const resnet_unit *u = &model->parts[0].unit;
    *image = resnet_room(model->work.image_again, resnet_pixels(count, u->from), u->in);
    images.offset += first * resnet_pixels(1, u->from) * u->in;
    return clprune_image_bytes_channels_last(
        model->context, count, u->in, resnet_square(u->from), images, *image, NULL);
}

clprune_status resnet_stem_again(
    const resnet *model, size_t batch, clprune_image_bytes images, clprune_mat *conv)
{
    const resnet_part *part = &model->parts[0];
    const resnet_unit *u = &part->unit;
    const size_t rows = resnet_pixels(batch, u->to);
    clprune_saved *const *kept = model->kept;
    if (kept[KEEP_STEM] != NULL)
        return resnet_restore(kept[KEEP_STEM], batch, model->work.conv_again, rows, u->out, conv);
    *conv = resnet_room(model->work.conv_again, rows, u->out);
    clprune_mat image = clprune_saved_dense(kept[KEEP_IMAGE], 0, batch);
    if (image.rows == 0)
        TRY(image_again(model, 0, batch, images, &image));
    return clprune_conv2d_forward(part->conv, batch, resnet_square(u->from), image, part->w,
        CLPRUNE_NO_MAT, *conv, NULL, NULL);
}

/* Adds the products of dz, stem_step images at a time, and combines them with those of the forward
 * pass. */
static clprune_status backward_by_product(
    const resnet *model, size_t batch, clprune_image_bytes images, clprune_mat dx)
{
    clprune_context *context = model->context;
    const resnet_part *part = &model->parts[0];
    const resnet_unit *u = &part->unit;
    const resnet_workspace *work = &model->work;
    const clprune_batch_norm bn = resnet_norm(part);
    const clprune_mat conv_product = resnet_room(work->conv_product, u->out, part->w.cols);
    const clprune_mat patch_sum = resnet_room(work->patch_sums, 1, part->w.cols);
    const size_t pixels = resnet_pixels(1, resnet_arch_first_side(&model->arch));
    for (size_t first = 0; first < batch; first += model->stem_step) {
        const size_t count = model->stem_step < batch - first ? model->stem_step : batch - first;
        const clprune_mat dz = resnet_room(work->dstem, resnet_pixels(count, u->to), u->out);
        clprune_mat image;
        clprune_saved *kept_image;
        TRY(image_again(model, first, count, images, &image));
        TRY(resnet_view(work->again_view, count, image, &kept_image));
        TRY(clprune_max_pool_backward(context, &stem_pool, count, resnet_square(u->to),
            clprune_mat_rows(dx, first * pixels, count * pixels),
            clprune_mat_rows(model->positions, first * pixels, count * pixels), dz, NULL));
        TRY(weights_product(
            part, count, first == 0 ? 0.0f : 1.0f, kept_image, dz, part->dw, part->dbeta));
        TRY(resnet_forget(model, work->image_again));
        TRY(resnet_forget(model, work->dstem));
    }
    TRY(clprune_batch_norm_backward_product(context, resnet_pixels(batch, u->to), 0.0f, &bn,
        &(clprune_batch_norm_products){
            .w = part->w, .patch_sum = patch_sum, .x_product = conv_product, .dz_sum = part->dbeta},
        part->dw, part->dgamma, NULL));
    TRY(resnet_forget(model, work->conv_product));
    return resnet_forget(model, work->patch_sums);
}

clprune_status resnet_stem_backward(
    const resnet *model, size_t batch, clprune_image_bytes images, clprune_mat dx)
{
    const resnet_part *part = &model->parts[0];
    const resnet_unit *u = &part->unit;
    const resnet_workspace *work = &model->work;
    clprune_saved *kept_image = model->kept[KEEP_IMAGE];
    const clprune_mat none = CLPRUNE_NO_MAT;
    clprune_mat drelu = dx, conv;
    if (resnet_stem_by_product(model)) {
        TRY(backward_by_product(model, batch, images, dx));
        return resnet_forget(model, dx);
    }
    if (model->arch.pools) {
        drelu = resnet_room(work->dstem, resnet_pixels(batch, u->to), u->out);
        TRY(clprune_max_pool_backward(model->context, &stem_pool, batch, resnet_square(u->to), dx,
            clprune_mat_rows(model->positions, 0, dx.rows), drelu, NULL));
    }
    TRY(resnet_stem_again(model, batch, images, &conv));
    TRY(resnet_norm_backward(model, part, !resnet_stem_fused(model), conv,
        clprune_saved_mask(model->kept[KEEP_STEM_MASK], 0, batch), none, drelu, none, drelu));
    TRY(resnet_forget(model, work->conv_again));
    if (kept_image == NULL) {
        clprune_mat image;
        TRY(image_again(model, 0, batch, images, &image));
        TRY(resnet_view(work->again_view, batch, image, &kept_image));
    }
    TRY(weights_product(part, batch, 0.0f, kept_image, drelu, part->dw, none));
    TRY(resnet_forget(model, work->image_again));
    TRY(resnet_forget(model, work->dstem));
    return resnet_forget(model, dx);
}
