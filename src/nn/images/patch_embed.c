#include "clprune/patch_embed.h"

#include "core/checked.h"
#include "nn/images/image_private.h"
#include "nn/layers/biased_product.h"
#include "nn/layers/sums.h"
#include "runtime/context/check.h"
#include "runtime/launch/rowwise.h"
#include "runtime/memory/scratch.h"

static const clprune__kernel_def patch_cut_kernel = {"images/patch_embed.cl", "patch_cut"};
static const clprune__kernel_def patch_cut_bytes_kernel = {
    "images/patch_embed.cl", "patch_cut_bytes"};
static const clprune__kernel_def patch_put_kernel = {"images/patch_embed.cl", "patch_put"};

/* Images to cut, floats or bytes. */
typedef struct source {
    clprune_mat floats;
    const clprune_image_bytes *bytes; /* NULL: floats */
} source;

/* Everything that follows from a description and a batch. */
typedef struct sizes {
    size_t patches_x, tokens;
    size_t rows;  /* batch * tokens */
    size_t cols;  /* elements of a patch: channels * patch * patch */
    size_t image; /* elements of an image */
    size_t all;   /* of the batch */
} sizes;

static clprune_status measure(
    clprune_context *context, const clprune_patch_embed_desc *desc, size_t batch, sizes *s)
{
    REQUIRE(context != NULL, CLPRUNE_INVALID_ARGUMENT, "context is NULL");
    REQUIRE(desc != NULL, CLPRUNE_INVALID_ARGUMENT, "desc is NULL");
    TRY(clprune__check_reserved(context, "desc", desc->reserved, sizeof desc->reserved));
    REQUIRE(desc->patch > 0, CLPRUNE_INVALID_ARGUMENT, "patch is 0, expected at least 1");
    REQUIRE(desc->height % desc->patch == 0 && desc->width % desc->patch == 0,
        CLPRUNE_INVALID_ARGUMENT, "images are %zu x %zu, expected multiples of the patch, %zu",
        desc->height, desc->width, desc->patch);
    s->patches_x = desc->width / desc->patch;
    REQUIRE(clprune__mul3(desc->channels, desc->height, desc->width, &s->image) &&
                clprune__mul(desc->height / desc->patch, s->patches_x, &s->tokens) &&
                clprune__mul(batch, s->tokens, &s->rows) &&
                clprune__mul(batch, s->image, &s->all) &&
                clprune__mul3(desc->channels, desc->patch, desc->patch, &s->cols),
        CLPRUNE_SIZE_OVERFLOW, "%zu images of %zu x %zu x %zu overflow size_t", batch,
        desc->channels, desc->height, desc->width);
    return CLPRUNE_SUCCESS;
}

static clprune_status check_source(clprune_context *context, const clprune_patch_embed_desc *desc,
    size_t batch, const sizes *s, const source *images)
{
    return images->bytes != NULL
               ? clprune__check_image_bytes(
                     context, *images->bytes, batch, desc->channels, s->image)
               : clprune__check_mat(context, "images", images->floats, batch, s->image);
}

static clprune_status check_apart_from_source(clprune_context *context, const char *name,
    clprune_mat mat, const sizes *s, const source *images)
{
    return images->bytes != NULL
               ? clprune__check_image_apart(context, name, mat, *images->bytes, s->all)
               : clprune__check_apart(context, name, mat, "images", images->floats);
}

/* patches = cut(images) or, if images is NULL, to = put(patches). */
static clprune_status copy_patches(clprune_context *context, const clprune_patch_embed_desc *desc,
    const sizes *s, const source *images, clprune_mat patches, clprune_mat to, cl_event *event)
{
    /* The widest vector, not of 2, that divides a row of a patch. */
    size_t width = clprune__vector_width(context);
    while (desc->patch % width != 0)
        width /= 2;
    if (width == 2)
        width = 1;
    clprune__rowwise plan = clprune__sums_plan_of(context, s->rows, s->cols, 0, 1, 0, width);
    clprune__define(&plan.defines, "PATCH", desc->patch);
    const clprune__kernel_def *kernel = &patch_put_kernel;
    if (images != NULL)
        kernel = images->bytes != NULL ? &patch_cut_bytes_kernel : &patch_cut_kernel;
    clprune__launch launch;
    TRY(clprune__rowwise_begin(context, kernel, &plan, &launch));
    ARG_ULONGS(&launch, s->tokens, s->patches_x, desc->height, desc->width);
    if (images != NULL && images->bytes != NULL)
        clprune__arg_image_bytes(&launch, *images->bytes);
    else if (images != NULL)
        clprune__arg_mat(&launch, images->floats);
    clprune__arg_mat(&launch, patches);
    if (images == NULL)
        clprune__arg_mat(&launch, to);
    return clprune__rowwise_end(&launch, &plan, event);
}

/* clprune_patch_embed_forward, from images of either kind. */
static clprune_status forward(clprune_context *context, const clprune_patch_embed_desc *desc,
    size_t batch, const source *images, clprune_mat w, clprune_mat b, clprune_mat y,
    cl_event *event)
{
    SCRATCH_SCOPE(context);
    sizes s;
    TRY(measure(context, desc, batch, &s));
    TRY(check_source(context, desc, batch, &s, images));
    TRY(clprune__check_mat(context, "w", w, desc->out, s.cols));
    TRY(clprune__check_mat(context, "b", b, 1, desc->out));
    TRY(clprune__check_mat(context, "y", y, s.rows, desc->out));
    TRY(check_apart_from_source(context, "y", y, &s, images));
    TRY(clprune__check_apart(context, "y", y, "w", w));
    TRY(clprune__check_apart(context, "y", y, "b", b));
    clprune_mat patches;
    TRY(clprune__scratch_mat(context, s.rows, s.cols, &patches));
    TRY(copy_patches(context, desc, &s, images, patches, CLPRUNE_NO_MAT, NULL));
    return clprune__product_rows(context, patches, w, b, y, NULL, event);
}

clprune_status clprune_patch_embed_forward(clprune_context *context,
    const clprune_patch_embed_desc *desc, size_t batch, clprune_mat images, clprune_mat w,
    clprune_mat b, clprune_mat y, cl_event *event)
{
    ENTER(context);
    return forward(context, desc, batch, &(source){.floats = images}, w, b, y, event);
}

clprune_status clprune_patch_embed_forward_bytes(clprune_context *context,
    const clprune_patch_embed_desc *desc, size_t batch, clprune_image_bytes images, clprune_mat w,
    clprune_mat b, clprune_mat y, cl_event *event)
{
    ENTER(context);
    return forward(context, desc, batch, &(source){.bytes = &images}, w, b, y, event);
}

/* The inputs of a backward pass. With bytes, which have no gradient, w is absent. */
typedef struct inputs {
    source images;
    clprune_mat dy, w;
} inputs;

/* An output of the backward pass must have its size and be apart from the inputs. */
static clprune_status check_gradient(clprune_context *context, const char *name, clprune_mat mat,
    size_t rows, size_t cols, const sizes *s, const inputs *in)
{
    TRY(clprune__check_mat(context, name, mat, rows, cols));
    TRY(check_apart_from_source(context, name, mat, s, &in->images));
    TRY(clprune__check_apart(context, name, mat, "dy", in->dy));
    return clprune__check_apart(context, name, mat, "w", in->w);
}

/* clprune_patch_embed_backward, from images of either kind. */
static clprune_status backward(clprune_context *context, const clprune_patch_embed_desc *desc,
    size_t batch, const inputs *in, const clprune_grads *grads, cl_event *event)
{
    SCRATCH_SCOPE(context);
    REQUIRE(context != NULL, CLPRUNE_INVALID_ARGUMENT, "context is NULL");
    REQUIRE(grads != NULL, CLPRUNE_INVALID_ARGUMENT, "grads is NULL");
    const clprune_mat dx = grads->dx, dw = grads->dw, db = grads->db;
    const float beta = grads->beta;
    const bool want_dx = !clprune__is_absent(dx), want_dw = !clprune__is_absent(dw),
               want_db = !clprune__is_absent(db);
    sizes s;
    TRY(measure(context, desc, batch, &s));
    REQUIRE(grads->dx_beta == 0.0f, CLPRUNE_INVALID_ARGUMENT,
        "dx_beta is %g, expected 0: the gradient of images is overwritten", (double)grads->dx_beta);
    REQUIRE(in->images.bytes == NULL || !want_dx, CLPRUNE_INVALID_ARGUMENT,
        "dx is given, but bytes have no gradient; expected CLPRUNE_NO_MAT");
    TRY(check_source(context, desc, batch, &s, &in->images));
    TRY(clprune__check_mat(context, "dy", in->dy, s.rows, desc->out));
    if (in->images.bytes == NULL)
        TRY(clprune__check_mat(context, "w", in->w, desc->out, s.cols));
    if (want_dx)
        TRY(check_gradient(context, "dx", dx, batch, s.image, &s, in));
    if (want_dw)
        TRY(check_gradient(context, "dw", dw, desc->out, s.cols, &s, in));
    if (want_db)
        TRY(check_gradient(context, "db", db, 1, desc->out, &s, in));
    TRY(clprune__check_apart(context, "dx", dx, "dw", dw));
    TRY(clprune__check_apart(context, "dx", dx, "db", db));
    TRY(clprune__check_apart(context, "dw", dw, "db", db));
    clprune_mat patches;
    if (want_dw || want_dx)
        TRY(clprune__scratch_mat(context, s.rows, s.cols, &patches));
    if (want_dw) {
        TRY(copy_patches(context, desc, &s, &in->images, patches, CLPRUNE_NO_MAT, NULL));
        TRY(clprune__gemm_single(context, true, false, 1, beta, in->dy, patches, dw, NULL));
    }
    if (want_dx) {
        TRY(clprune__gemm_single(context, false, false, 1, 0, in->dy, in->w, patches, NULL));
        TRY(copy_patches(context, desc, &s, NULL, patches, dx, NULL));
    }
    if (want_db)
        TRY(clprune__column_sum(context, beta, in->dy, db, NULL));
    return clprune__empty_event(context, event);
}

/* Forward: y = cut(images) * w^T + b. */
clprune_status clprune_patch_embed_backward(clprune_context *context,
    const clprune_patch_embed_desc *desc, size_t batch, clprune_mat images, clprune_mat dy,
    clprune_mat w, const clprune_grads *grads, cl_event *event)
{
    ENTER(context);
    const inputs in = {{.floats = images}, dy, w};
    return backward(context, desc, batch, &in, grads, event);
}

clprune_status clprune_patch_embed_backward_bytes(clprune_context *context,
    const clprune_patch_embed_desc *desc, size_t batch, clprune_image_bytes images, clprune_mat dy,
    const clprune_grads *grads, cl_event *event)
{
    ENTER(context);
    const inputs in = {{.bytes = &images}, dy, CLPRUNE_NO_MAT};
    return backward(context, desc, batch, &in, grads, event);
}
