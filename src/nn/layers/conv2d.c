#include "clprune/conv2d.h"

#include <stdlib.h>

#include "core/checked.h"
#include "nn/layers/biased_product.h"
#include "nn/layers/layers_private.h"
#include "nn/layers/sums.h"
#include "nn/store/saved_private.h"
#include "runtime/context/check.h"

struct clprune_conv2d {
    clprune_context *context;
    clprune_conv2d_desc desc; /* with defaults filled in: zeros only in padding */
};

static clprune_extent or_ones(clprune_extent e)
{
    return e.height == 0 && e.width == 0 ? (clprune_extent){1, 1} : e;
}

/* Fails unless a layer could have this description, apart from desc->keep. */
static clprune_status check_desc(clprune_context *context, const clprune_conv2d_desc *desc)
{
    size_t taps;
    REQUIRE(desc->in > 0 && desc->out > 0, CLPRUNE_INVALID_ARGUMENT,
        "%zu input and %zu output channels, expected at least 1", desc->in, desc->out);
    REQUIRE(desc->kernel.height > 0 && desc->kernel.width > 0, CLPRUNE_INVALID_ARGUMENT,
        "a kernel of %zu x %zu taps, expected at least 1 x 1", desc->kernel.height,
        desc->kernel.width);
    const size_t groups = clprune__max(desc->groups, 1);
    REQUIRE(desc->in % groups == 0 && desc->out % groups == 0, CLPRUNE_INVALID_ARGUMENT,
        "groups is %zu, expected a divisor of the %zu input and the %zu output channels", groups,
        desc->in, desc->out);
    const clprune_extent stride = or_ones(desc->stride), dilation = or_ones(desc->dilation);
    REQUIRE(stride.height > 0 && stride.width > 0 && dilation.height > 0 && dilation.width > 0,
        CLPRUNE_INVALID_ARGUMENT, "stride %zu x %zu, dilation %zu x %zu: an axis is 0",
        stride.height, stride.width, dilation.height, dilation.width);
    REQUIRE(clprune__mul3(desc->kernel.height, desc->kernel.width, desc->in, &taps) &&
                taps <= INT32_MAX && desc->out <= INT32_MAX,
        CLPRUNE_SIZE_OVERFLOW, "%zu x %zu taps of %zu channels, expected less than 2^31 in all",
        desc->kernel.height, desc->kernel.width, desc->in);
    return clprune__check_reserved(context, "desc", desc->reserved, sizeof desc->reserved);
}

/* The sizes of a call; fails if the kernel does not fit, or on overflow. */
static clprune_status settle(clprune_context *context, const clprune_conv2d_desc *desc,
    size_t batch, clprune_extent image, clprune__conv *conv, size_t *x_rows, size_t *y_rows)
{
    *conv = (clprune__conv){.batch = batch,
        .in = desc->in,
        .out = desc->out,
        .image = image,
        .kernel = desc->kernel,
        .stride = or_ones(desc->stride),
        .padding = desc->padding,
        .dilation = or_ones(desc->dilation),
        .groups = clprune__max(desc->groups, 1)};
    REQUIRE(clprune__conv_in_range(conv), CLPRUNE_SIZE_OVERFLOW,
        "image %zu x %zu, stride %zu x %zu, padding %zu x %zu, or taps that reach further: a side "
        "is more than %zu",
        image.height, image.width, conv->stride.height, conv->stride.width, conv->padding.height,
        conv->padding.width, CLPRUNE__CONV_SIDE);
    REQUIRE(clprune__conv_settle(conv), CLPRUNE_INVALID_SIZE,
        "a kernel of %zu x %zu taps does not fit images of %zu x %zu pixels", desc->kernel.height,
        desc->kernel.width, image.height, image.width);
    REQUIRE(clprune__mul3(batch, image.height, image.width, x_rows) &&
                clprune__mul3(batch, conv->output.height, conv->output.width, y_rows),
        CLPRUNE_SIZE_OVERFLOW, "the pixels of %zu images of %zu x %zu overflow size_t", batch,
        image.height, image.width);
    return CLPRUNE_SUCCESS;
}

/* Columns of w. */
static size_t inner_of(const clprune__conv *conv)
{
    return conv->kernel.height * conv->kernel.width * (conv->in / conv->groups);
}

clprune_extent clprune_conv2d_output(const clprune_conv2d_desc *desc, clprune_extent image)
{
    clprune_status status = CLPRUNE_SUCCESS;
    clprune_context *context = NULL;
    clprune__conv conv;
    size_t x_rows, y_rows;
    REQUIRE_DONE(desc != NULL, CLPRUNE_INVALID_ARGUMENT, "desc is NULL");
    TRY_DONE(check_desc(context, desc));
    TRY_DONE(settle(context, desc, 1, image, &conv, &x_rows, &y_rows));
done:
    return status == CLPRUNE_SUCCESS ? conv.output : (clprune_extent){0};
}

clprune_status clprune_conv2d_create(
    clprune_context *context, const clprune_conv2d_desc *desc, clprune_conv2d **layer)
{
    ENTER_CREATE(context, layer);
    clprune_keep keep;
    REQUIRE(layer != NULL, CLPRUNE_INVALID_ARGUMENT, "layer is NULL");
    REQUIRE(context != NULL && desc != NULL, CLPRUNE_INVALID_ARGUMENT, "context or desc is NULL");
    TRY(check_desc(context, desc));
    TRY(clprune__keep_settle(context, &desc->keep, &keep));
    TRY(clprune__keep_restores(context, &keep));
    clprune_conv2d *made = malloc(sizeof *made);
    REQUIRE(made != NULL, CLPRUNE_OUT_OF_HOST_MEMORY, "no memory for the layer");
    made->context = context;
    made->desc = *desc;
    made->desc.stride = or_ones(desc->stride);
    made->desc.dilation = or_ones(desc->dilation);
    made->desc.keep = keep;
    *layer = made;
    return CLPRUNE_SUCCESS;
}

void clprune_conv2d_destroy(clprune_conv2d *layer)
{
    ENTER_QUIETLY(layer != NULL ? layer->context : NULL);
    free(layer);
}

clprune_status clprune_conv2d_saved_create(clprune_conv2d *layer, size_t batch,
    clprune_extent image, const char *name, clprune_saved **saved)
{
    ENTER_CREATE(layer != NULL ? layer->context : NULL, saved);
    clprune_context *context = layer != NULL ? layer->context : NULL;
    size_t pixels;
    REQUIRE(saved != NULL, CLPRUNE_INVALID_ARGUMENT, "saved is NULL");
    REQUIRE(layer != NULL, CLPRUNE_INVALID_ARGUMENT, "layer is NULL");
    REQUIRE(clprune__mul(image.height, image.width, &pixels) && image.height <= UINT32_MAX &&
                image.width <= UINT32_MAX,
        CLPRUNE_SIZE_OVERFLOW, "an image of %zu x %zu pixels, expected sides below 2^32",
        image.height, image.width);
    clprune_keep keep = layer->desc.keep;
    if (keep.grid_height == 0 && keep.grid_width == 0) {
        keep.grid_height = (unsigned)image.height;
        keep.grid_width = (unsigned)image.width;
    }
    return clprune__saved_create(context, name, &keep, batch, pixels, layer->desc.in, saved);
}

/* Whether the forward product reads an x of bf16. */
static bool takes_bf16(const clprune_context *context, const clprune__conv *conv)
{
    return clprune__conv_is_linear(conv) ? clprune__gemm_reads_bf16(context)
                                         : clprune__conv_forward_reads_bf16(context, conv);
}

bool clprune_conv2d_takes_bf16(
    const clprune_context *context, const clprune_conv2d_desc *desc, clprune_extent image)
{
    ENTER_QUIETLY(context);
    clprune__conv conv;
    size_t x_rows, y_rows;
    return context != NULL && desc != NULL && check_desc(NULL, desc) == CLPRUNE_SUCCESS &&
           settle(NULL, desc, 1, image, &conv, &x_rows, &y_rows) == CLPRUNE_SUCCESS &&
           takes_bf16(context, &conv);
}

clprune_status clprune_conv2d_forward(clprune_conv2d *layer, size_t batch, clprune_extent image,
    clprune_mat x, clprune_mat w, clprune_mat b, clprune_mat y, clprune_saved *saved,
    cl_event *event)
{
    ENTER_WITH(layer != NULL ? layer->context : NULL, "saved", clprune__saved_context(saved));
    clprune_context *context = layer != NULL ? layer->context : NULL;
    clprune__conv conv;
    size_t x_rows, y_rows;
    REQUIRE(layer != NULL, CLPRUNE_INVALID_ARGUMENT, "layer is NULL");
    const clprune_conv2d_desc *desc = &layer->desc;
    TRY(settle(context, desc, batch, image, &conv, &x_rows, &y_rows));
    enum { X, W, B, Y, ALL };
    const bool stores = saved != NULL && batch > 0; /* an empty batch does not change the store */
    const clprune__operand operands[ALL] = {
        {"x", x, x_rows, desc->in, .bf16 = !stores && takes_bf16(context, &conv)},
        {"w", w, desc->out, inner_of(&conv)}, {"b", b, 1, desc->out, .optional = true},
        {"y", y, y_rows, desc->out}};
    TRY(clprune__check_operands(context, operands, Y, ALL));
    if (saved != NULL) {
        TRY(clprune__saved_fit(
            context, saved, batch, image.height * image.width, desc->in, ALL, operands));
        if (stores)
            TRY(clprune__saved_store(saved, 0, batch, (clprune__region){0}, x, NULL));
    }
    if (batch == 0)
        TRY(clprune__empty_event(context, event));
    else if (clprune__conv_is_linear(&conv))
        TRY(clprune__product_rows(context, x, w, b, y, NULL, event));
    else
        TRY(clprune__conv_forward(context, &conv, x, w, b, y, event));
    return CLPRUNE_SUCCESS;
}

clprune_status clprune_conv2d_backward(clprune_conv2d *layer, size_t batch, clprune_extent image,
    const clprune_saved *saved, clprune_mat dy, clprune_mat w, const clprune_grads *grads,
    cl_event *event)
{
    ENTER_WITH(layer != NULL ? layer->context : NULL, "saved", clprune__saved_context(saved));
    return clprune__conv2d_backward(
        layer, (clprune__range){0, batch}, image, saved, dy, w, grads, event);
}

/* Whether both products of dy read it in bf16, if x is kept like that; unless dy lies as_it_is, and
 * they are worth its rounding. */
static bool reads_bf16_dy(
    const clprune_context *context, const clprune__conv *conv, const clprune_keep *x, bool as_it_is)
{
    if (clprune__conv_is_linear(conv))
        return clprune__form_reads_bf16_dy(context, x->form);
    const bool whole = x->form == CLPRUNE_FORM_DENSE ||
                       (x->form == CLPRUNE_FORM_QUANTISED && x->bits == 16 && conv->in % 16 == 0);
    return whole && clprune__conv_backward_reads_bf16(context, conv, as_it_is);
}

bool clprune__conv2d_backward_reads_bf16(const clprune_context *context,
    const clprune_conv2d_desc *desc, clprune_extent image, const clprune_keep *x)
{
    clprune__conv conv;
    size_t x_rows, y_rows;
    return settle(NULL, desc, 1, image, &conv, &x_rows, &y_rows) == CLPRUNE_SUCCESS &&
           reads_bf16_dy(context, &conv, x, true);
}

/* Rounds dy to bf16 where the products of dw and dx would each do so. */
static clprune_status round_dy(
    clprune_context *context, const clprune__conv *conv, const clprune_keep *x, clprune_mat *dy)
{
    if (!reads_bf16_dy(context, conv, x, false))
        return CLPRUNE_SUCCESS;
    return clprune__conv_is_linear(conv) ? clprune__gemm_round(context, *dy, conv->in, dy)
                                         : clprune__gemm_to_bf16(context, dy);
}

clprune_status clprune__conv2d_backward(clprune_conv2d *layer, clprune__range range,
    clprune_extent image, const clprune_saved *saved, clprune_mat dy, clprune_mat w,
    const clprune_grads *grads, cl_event *event)
{
    clprune_context *context = layer != NULL ? layer->context : NULL;
    SCRATCH_SCOPE(context);
    const size_t batch = range.count;
    clprune__conv conv;
    size_t x_rows, y_rows;
    REQUIRE(layer != NULL, CLPRUNE_INVALID_ARGUMENT, "layer is NULL");
    const clprune_conv2d_desc *desc = &layer->desc;
    REQUIRE(grads != NULL, CLPRUNE_INVALID_ARGUMENT, "grads is NULL");
    const clprune_mat dx = grads->dx, dw = grads->dw, db = grads->db;
    const float beta = grads->beta, dx_beta = grads->dx_beta;
    const bool want_dx = !clprune__is_absent(dx), want_dw = !clprune__is_absent(dw),
               want_db = !clprune__is_absent(db);
    TRY(settle(context, desc, batch, image, &conv, &x_rows, &y_rows));
    const size_t inner = inner_of(&conv);
    enum { DY, W, DX, DW, DB, ALL };
    const clprune_keep x = want_dw && saved != NULL ? clprune__saved_kept(saved)->keep
                                                    : (clprune_keep){.form = CLPRUNE_FORM_DENSE};
    const clprune__operand operands[ALL] = {
        {"dy", dy, y_rows, desc->out, .bf16 = batch > 0 && reads_bf16_dy(context, &conv, &x, true)},
        {"w", w, desc->out, inner, .optional = !want_dx},
        {"dx", dx, x_rows, desc->in, .optional = true},
        {"dw", dw, desc->out, inner, .optional = true}, {"db", db, 1, desc->out, .optional = true}};
    TRY(clprune__check_operands(context, operands, DX, ALL));
    if (want_dw)
        TRY(clprune__saved_check(context, saved, range, image.height * image.width, desc->in));
    for (size_t i = DX; i < ALL && saved != NULL; i++)
        TRY(clprune__saved_check_apart(context, saved, operands[i].name, operands[i].mat));
    const bool linear = clprune__conv_is_linear(&conv);

    /* Forward: y[n, i, j] = b + sum over the taps of w_ab * x[the pixel under the tap]. So: db =
     * the sums of dy ... */
    cl_event *last = want_dw || want_dx ? NULL : event;
    if (want_db)
        TRY(clprune__column_sum(context, beta, dy, db, last));
    clprune_mat rounded = dy;
    if (want_dw && want_dx && batch > 0)
        TRY(round_dy(context, &conv, &x, &rounded));
    /* ... dw_ab = sum over n, i, j of dy[n, i, j]^T * the pixel, from the kept x ... */
    last = want_dx ? NULL : event;
    if (want_dw && batch == 0)
        TRY(clprune__scale(context, beta, dw, last));
    else if (want_dw && linear)
        TRY(clprune__saved_product(saved, range, false, beta, rounded, dw, last));
    else if (want_dw)
        TRY(clprune__saved_product_conv(saved, range.first, &conv, beta, rounded, dw, last));
    /* ... and dx[n, p, q] = sum over the taps that reach the pixel of w_ab^T * dy. */
    if (want_dx && batch == 0)
        TRY(clprune__empty_event(context, event)); /* dx is empty */
    else if (want_dx && linear)
        TRY(clprune__gemm_single(context, false, false, 1.0f, dx_beta, rounded, w, dx, event));
    else if (want_dx)
        TRY(clprune__conv_dx(context, &conv, dx_beta, rounded, w, dx, event));
    if (!want_db && !want_dw && !want_dx)
        TRY(clprune__empty_event(context, event));
    return CLPRUNE_SUCCESS;
}

/* Copies weights with the input channels moved behind the taps (`last`) or before them. */
static clprune_status reorder(
    size_t out, size_t in, clprune_extent kernel, const float *from, float *to, bool last)
{
    clprune_context *context = NULL;
    size_t taps, all;
    REQUIRE(from != NULL && to != NULL, CLPRUNE_INVALID_ARGUMENT, "weights or oihw is NULL");
    REQUIRE(clprune__mul(kernel.height, kernel.width, &taps) &&
                clprune__mul3(out, in, taps, &all) && clprune__mul(all, sizeof(float), &all),
        CLPRUNE_SIZE_OVERFLOW, "%zu x %zu channels of %zu x %zu taps overflow size_t", out, in,
        kernel.height, kernel.width);
    for (size_t o = 0; o < out; o++)
        for (size_t c = 0; c < in; c++)
            for (size_t t = 0; t < taps; t++) {
                const size_t before = (o * in + c) * taps + t, behind = (o * taps + t) * in + c;
                to[last ? behind : before] = from[last ? before : behind];
            }
    return CLPRUNE_SUCCESS;
}

clprune_status clprune_conv2d_weights_from_oihw(
    size_t out, size_t in, clprune_extent kernel, const float *oihw, float *weights)
{
    return reorder(out, in, kernel, oihw, weights, true);
}

clprune_status clprune_conv2d_weights_to_oihw(
    size_t out, size_t in, clprune_extent kernel, const float *weights, float *oihw)
{
    return reorder(out, in, kernel, weights, oihw, false);
}
