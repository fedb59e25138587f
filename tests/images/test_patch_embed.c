/* Patch embedding: values over patch sizes x channels x images, skipped gradients, derivatives,
 * repeatability, invalid arguments. */
#include "ref/patch_embed_ref.h"
#include "support/test_layer.h"

typedef struct shape {
    clprune_patch_embed_desc desc;
    size_t batch, gap;
} shape;

static const shape shapes[] = {
    {{1, 1, 1, 1, 1}, 1, 0},
    {{3, 4, 6, 1, 5}, 2, 1},
    {{3, 6, 4, 2, 17}, 3, 0},
    {{2, 9, 12, 3, 4}, 2, 3},
    {{3, 32, 32, 4, 24}, 2, 0},
    {{1, 14, 21, 7, 9}, 2, 2},
    {{3, 16, 24, 8, 16}, 1, 1},
    {{3, 12, 24, 12, 10}, 2, 0},
    {{3, 32, 48, 16, 12}, 2, 5},
    {{1, 64, 32, 32, 3}, 1, 0},
    {{3, 8, 8, 4, 6}, 0, 0},
    {{3, 0, 8, 4, 6}, 2, 0},
    {{3, 8, 8, 4, 0}, 2, 0},
    {{0, 8, 8, 4, 6}, 2, 0},
};

typedef struct sizes {
    size_t rows, image, cols, images_count, w_count, y_count;
} sizes;

static sizes sizes_of(const clprune_patch_embed_desc *desc, size_t batch)
{
    sizes z;
    z.rows = batch * (desc->height / desc->patch) * (desc->width / desc->patch);
    z.image = desc->channels * desc->height * desc->width;
    z.cols = desc->channels * desc->patch * desc->patch;
    z.images_count = batch * z.image;
    z.w_count = desc->out * z.cols;
    z.y_count = z.rows * desc->out;
    return z;
}

static void forward(void **state)
{
    const shape *s = *state;
    const clprune_patch_embed_desc *desc = &s->desc;
    clprune_context *context = test_context();
    const sizes z = sizes_of(desc, s->batch);
    float *images = test_new_normal(101, z.images_count), *w = test_new_normal(102, z.w_count);
    float *b = test_new_normal(103, desc->out);
    double *wide_images = layer_widen(z.images_count, images), *wide_w = layer_widen(z.w_count, w);
    double *wide_b = layer_widen(desc->out, b);
    double *want = layer_new(z.y_count), *bound = layer_new(z.y_count);
    patch_embed_ref_forward(desc, s->batch, wide_images, wide_w, wide_b, want, bound);
    test_mat in = test_mat_make(s->batch, z.image, s->gap, images);
    test_mat weight = test_mat_make(desc->out, z.cols, s->gap, w);
    test_mat bias = test_mat_make(1, desc->out, 0, b);
    test_mat y = test_mat_make(z.rows, desc->out, s->gap + 1, NULL);
    test_mat again = test_mat_make(z.rows, desc->out, s->gap + 1, NULL);
    cl_event event = NULL;
    TEST_OK(clprune_patch_embed_forward(
        context, desc, s->batch, in.mat, weight.mat, bias.mat, y.mat, &event));
    layer_event(event);
    layer_check("y", &y, want, bound, "forward");
    TEST_OK(clprune_patch_embed_forward(
        context, desc, s->batch, in.mat, weight.mat, bias.mat, again.mat, NULL));
    layer_same("y", &y, &again);
    test_mat_unchanged(&in, "images");
    test_mat_unchanged(&weight, "w");
    test_mat_unchanged(&bias, "b");
}

/* Every choice of wanted gradients: those left out are not touched, the others are the same. */
static void backward(void **state)
{
    const shape *s = *state;
    const clprune_patch_embed_desc *desc = &s->desc;
    clprune_context *context = test_context();
    const sizes z = sizes_of(desc, s->batch);
    float *images = test_new_normal(104, z.images_count), *w = test_new_normal(105, z.w_count);
    float *dy = test_new_normal(106, z.y_count);
    double *wide_images = layer_widen(z.images_count, images), *wide_w = layer_widen(z.w_count, w);
    double *wide_dy = layer_widen(z.y_count, dy);
    double *dimages_want = layer_new(z.images_count), *dimages_bound = layer_new(z.images_count);
    double *dw_want = layer_new(z.w_count), *dw_bound = layer_new(z.w_count);
    double *db_want = layer_new(desc->out), *db_bound = layer_new(desc->out);
    patch_embed_ref_dimages(desc, s->batch, wide_dy, wide_w, dimages_want, dimages_bound);
    patch_embed_ref_dw(desc, s->batch, wide_images, wide_dy, dw_want, dw_bound);
    patch_embed_ref_db(desc, s->batch, wide_dy, db_want, db_bound);
    test_mat in = test_mat_make(s->batch, z.image, s->gap, images);
    test_mat weight = test_mat_make(desc->out, z.cols, s->gap + 1, w);
    test_mat gradient = test_mat_make(z.rows, desc->out, s->gap, dy);
    test_mat dimages = test_mat_make(s->batch, z.image, s->gap + 2, NULL);
    test_mat dw = test_mat_make(desc->out, z.cols, s->gap, NULL);
    test_mat db = test_mat_make(1, desc->out, 0, NULL);
    for (int choice = 0; choice < 8; choice++) {
        cl_event event = NULL;
        test_mat_set(&dimages, NULL);
        test_mat_set(&dw, NULL);
        test_mat_set(&db, NULL);
        TEST_OK(clprune_patch_embed_backward(context, desc, s->batch, 0, in.mat, gradient.mat,
            weight.mat, choice & 1 ? dimages.mat : CLPRUNE_NO_MAT,
            choice & 2 ? dw.mat : CLPRUNE_NO_MAT, choice & 4 ? db.mat : CLPRUNE_NO_MAT, &event));
        layer_event(event);
        if (choice & 1)
            layer_check("dimages", &dimages, dimages_want, dimages_bound, "backward");
        else
            test_mat_unchanged(&dimages, "dimages");
        if (choice & 2)
            layer_check("dw", &dw, dw_want, dw_bound, "backward");
        else
            test_mat_unchanged(&dw, "dw");
        if (choice & 4)
            layer_check("db", &db, db_want, db_bound, "backward");
        else
            test_mat_unchanged(&db, "db");
    }
    test_mat *mats[] = {&in, &weight, &gradient, &dimages, &dw, &db};
    for (size_t i = 0; i < 3; i++)
        test_mat_unchanged(mats[i], "input");
}

/* Image by image, added up: the gradients of the batch. */
static void backward_in_parts(void **state)
{
    const shape *s = *state;
    const clprune_patch_embed_desc *desc = &s->desc;
    clprune_context *context = test_context();
    const sizes z = sizes_of(desc, s->batch);
    const size_t tokens = z.rows / (s->batch > 0 ? s->batch : 1);
    float *images = test_new_normal(104, z.images_count), *w = test_new_normal(105, z.w_count);
    float *dy = test_new_normal(106, z.y_count);
    double *wide_images = layer_widen(z.images_count, images);
    double *wide_w = layer_widen(z.w_count, w), *wide_dy = layer_widen(z.y_count, dy);
    double *want[3] = {layer_new(z.images_count), layer_new(z.w_count), layer_new(desc->out)};
    double *bound[3] = {layer_new(z.images_count), layer_new(z.w_count), layer_new(desc->out)};
    patch_embed_ref_dimages(desc, s->batch, wide_dy, wide_w, want[0], bound[0]);
    patch_embed_ref_dw(desc, s->batch, wide_images, wide_dy, want[1], bound[1]);
    patch_embed_ref_db(desc, s->batch, wide_dy, want[2], bound[2]);
    test_mat in = test_mat_make(s->batch, z.image, s->gap, images);
    test_mat weight = test_mat_make(desc->out, z.cols, s->gap + 1, w);
    test_mat gradient = test_mat_make(z.rows, desc->out, s->gap, dy);
    test_mat out[3] = {test_mat_make(s->batch, z.image, s->gap + 2, NULL),
        test_mat_make(desc->out, z.cols, s->gap, NULL), test_mat_make(1, desc->out, 0, NULL)};
    for (size_t n = 0; n < s->batch; n++) {
        const clprune_mat image = clprune_mat_rows(in.mat, n, 1);
        const clprune_mat part = clprune_mat_rows(gradient.mat, n * tokens, tokens);
        const clprune_mat dimage = clprune_mat_rows(out[0].mat, n, 1);
        TEST_OK(clprune_patch_embed_backward(context, desc, 1, n == 0 ? 0 : 1, image, part,
            weight.mat, dimage, out[1].mat, out[2].mat, NULL));
    }
    static const char *const names[3] = {"dimages", "dw", "db"};
    for (int i = 0; i < 3; i++) {
        if (s->batch > 0)
            layer_check(names[i], &out[i], want[i], bound[i], "backward in parts");
    }
}

/* sum dy * y as a function of images, w and b, one after the other. */
typedef struct problem {
    clprune_patch_embed_desc desc;
    size_t batch;
    sizes z;
    const double *dy;
} problem;

static double loss_ref(void *user, const double *theta)
{
    const problem *p = user;
    double *y = layer_new(p->z.y_count), loss = 0;
    patch_embed_ref_forward(&p->desc, p->batch, theta, theta + p->z.images_count,
        theta + p->z.images_count + p->z.w_count, y, NULL);
    for (size_t i = 0; i < p->z.y_count; i++)
        loss += p->dy[i] * y[i];
    return loss;
}

static double loss_device(void *user, const double *theta)
{
    const problem *p = user;
    float *narrow = layer_narrow(p->z.images_count + p->z.w_count + p->desc.out, theta);
    test_mat images = test_mat_make(p->batch, p->z.image, 0, narrow);
    test_mat w = test_mat_make(p->desc.out, p->z.cols, 0, narrow + p->z.images_count);
    test_mat b = test_mat_make(1, p->desc.out, 0, narrow + p->z.images_count + p->z.w_count);
    test_mat out = test_mat_make(p->z.rows, p->desc.out, 0, NULL);
    TEST_OK(clprune_patch_embed_forward(
        test_context(), &p->desc, p->batch, images.mat, w.mat, b.mat, out.mat, NULL));
    float *y = test_mat_get(&out, "y");
    double loss = 0;
    for (size_t i = 0; i < p->z.y_count; i++)
        loss += p->dy[i] * (double)y[i];
    return loss;
}

static void slopes(void **state)
{
    (void)state;
    problem p = {.desc = {2, 6, 9, 3, 5}, .batch = 2};
    p.z = sizes_of(&p.desc, p.batch);
    const size_t total = p.z.images_count + p.z.w_count + p.desc.out;
    float *numbers = test_new_normal(107, total), *gradient = test_new_normal(108, p.z.y_count);
    double *theta = layer_widen(total, numbers), *dy = layer_widen(p.z.y_count, gradient);
    double *grad = layer_new(total);
    p.dy = dy;
    patch_embed_ref_dimages(&p.desc, p.batch, dy, theta + p.z.images_count, grad, NULL);
    patch_embed_ref_dw(&p.desc, p.batch, theta, dy, grad + p.z.images_count, NULL);
    patch_embed_ref_db(&p.desc, p.batch, dy, grad + p.z.images_count + p.z.w_count, NULL);
    layer_slopes("reference", loss_ref, &p, total, theta, grad, 1e-4, 1e-8);
    layer_slopes("device", loss_device, &p, total, theta, grad, 1e-2, 1e-3);
}

static void invalid(void **state)
{
    (void)state;
    clprune_context *context = test_context();
    const clprune_status size = CLPRUNE_INVALID_SIZE, bad = CLPRUNE_INVALID_ARGUMENT;
    const clprune_patch_embed_desc desc = {2, 4, 6, 2, 5};
    test_mat images = test_mat_make(3, 48, 0, NULL), w = test_mat_make(5, 8, 0, NULL);
    test_mat b = test_mat_make(1, 5, 0, NULL), y = test_mat_make(18, 5, 0, NULL);
    test_mat other = test_mat_make(4, 7, 0, NULL), big = test_mat_make(18, 48, 0, NULL);
    cl_event event = NULL;
#define FORWARD(...) clprune_patch_embed_forward(__VA_ARGS__, &event)
    assert_int_equal(FORWARD(NULL, &desc, 3, images.mat, w.mat, b.mat, y.mat), bad);
    TEST_FAILS(FORWARD(context, NULL, 3, images.mat, w.mat, b.mat, y.mat), bad, "desc");
    static const clprune_patch_embed_desc bad_descs[] = {
        {2, 4, 6, 0, 5}, {2, 4, 6, 4, 5}, {2, 4, 6, 3, 5}, {2, 4, 6, 8, 5}};
    for (size_t i = 0; i < sizeof bad_descs / sizeof bad_descs[0]; i++)
        TEST_FAILS(
            FORWARD(context, &bad_descs[i], 3, images.mat, w.mat, b.mat, y.mat), bad, "patch");
    const clprune_patch_embed_desc newer = {2, 4, 6, 2, 5, {0, 0, 0, 1}};
    TEST_FAILS(FORWARD(context, &newer, 3, images.mat, w.mat, b.mat, y.mat), bad, "desc.reserved");
    const clprune_patch_embed_desc wide = {SIZE_MAX / 2, 4, 6, 2, 5};
    TEST_FAILS(
        FORWARD(context, &wide, 3, images.mat, w.mat, b.mat, y.mat), CLPRUNE_SIZE_OVERFLOW, NULL);
    TEST_FAILS(FORWARD(context, &desc, SIZE_MAX / 2, images.mat, w.mat, b.mat, y.mat),
        CLPRUNE_SIZE_OVERFLOW, NULL);
    TEST_FAILS(FORWARD(context, &desc, 2, images.mat, w.mat, b.mat, y.mat), size, "images is");
    TEST_FAILS(FORWARD(context, &desc, 3, images.mat, other.mat, b.mat, y.mat), size, "w is");
    TEST_FAILS(FORWARD(context, &desc, 3, images.mat, w.mat, other.mat, y.mat), size, "b is");
    TEST_FAILS(FORWARD(context, &desc, 3, images.mat, w.mat, CLPRUNE_NO_MAT, y.mat), size, "b is");
    TEST_FAILS(FORWARD(context, &desc, 3, images.mat, w.mat, b.mat, other.mat), size, "y is");
    /* Windows of one buffer. */
    const clprune_mat big_images = clprune_mat_rows(big.mat, 0, 3);
    clprune_mat big_y = big.mat, big_w = big.mat, big_b = big.mat;
    big_y.cols = 5;
    big_w.rows = 5;
    big_w.cols = 8;
    big_b.rows = 1;
    big_b.cols = 5;
    TEST_FAILS(FORWARD(context, &desc, 3, big_images, w.mat, b.mat, big_y), bad, "y overlaps");
    TEST_FAILS(FORWARD(context, &desc, 3, images.mat, big_w, b.mat, big_y), bad, "y overlaps");
    TEST_FAILS(FORWARD(context, &desc, 3, images.mat, w.mat, big_b, big_y), bad, "y overlaps");

    test_mat dimages = test_mat_make(3, 48, 0, NULL), dw = test_mat_make(5, 8, 0, NULL);
    test_mat db = test_mat_make(1, 5, 0, NULL);
    const clprune_mat none = CLPRUNE_NO_MAT;
#define BACKWARD(...) clprune_patch_embed_backward(__VA_ARGS__, &event)
    assert_int_equal(BACKWARD(NULL, &desc, 3, 0, images.mat, y.mat, w.mat, none, none, none), bad);
    TEST_FAILS(
        BACKWARD(context, NULL, 3, 0, images.mat, y.mat, w.mat, none, none, none), bad, "desc");
    TEST_FAILS(BACKWARD(context, &desc, 3, 0, other.mat, y.mat, w.mat, none, dw.mat, none), size,
        "images is");
    TEST_FAILS(BACKWARD(context, &desc, 3, 0, images.mat, other.mat, w.mat, none, dw.mat, none),
        size, "dy is");
    TEST_FAILS(BACKWARD(context, &desc, 3, 0, images.mat, y.mat, other.mat, none, dw.mat, none),
        size, "w is");
    TEST_FAILS(BACKWARD(context, &desc, 3, 0, images.mat, y.mat, w.mat, other.mat, dw.mat, db.mat),
        size, "dimages is");
    TEST_FAILS(
        BACKWARD(context, &desc, 3, 0, images.mat, y.mat, w.mat, dimages.mat, other.mat, none),
        size, "dw is");
    TEST_FAILS(
        BACKWARD(context, &desc, 3, 0, images.mat, y.mat, w.mat, dimages.mat, none, other.mat),
        size, "db is");
    TEST_FAILS(BACKWARD(context, &desc, 3, 0, images.mat, y.mat, w.mat, images.mat, dw.mat, db.mat),
        bad, "dimages overlaps images");
    TEST_FAILS(BACKWARD(context, &desc, 3, 0, images.mat, y.mat, w.mat, none, w.mat, db.mat), bad,
        "dw overlaps w");
    TEST_FAILS(BACKWARD(context, &desc, 3, 0, images.mat, y.mat, w.mat, none, none,
                   clprune_mat_rows(y.mat, 4, 1)),
        bad, "db overlaps dy");
    TEST_FAILS(BACKWARD(context, &desc, 3, 0, images.mat, y.mat, w.mat, big_images, big_w, db.mat),
        bad, "dimages overlaps dw");
    TEST_FAILS(BACKWARD(context, &desc, 3, 0, images.mat, y.mat, w.mat, big_images, dw.mat, big_b),
        bad, "dimages overlaps db");
    TEST_FAILS(BACKWARD(context, &desc, 3, 0, images.mat, y.mat, w.mat, none, big_w, big_b), bad,
        "dw overlaps db");
    assert_null(event);
    test_mat *mats[] = {&images, &w, &b, &y, &other, &big, &dimages, &dw, &db};
    for (size_t i = 0; i < sizeof mats / sizeof mats[0]; i++) {
        test_mat_unchanged(mats[i], "argument of a refused call");
    }
}

int main(void)
{
    test_list list = {0};
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        const shape *s = &shapes[i];
        const clprune_patch_embed_desc *d = &s->desc;
        test_add(&list, forward, s, "forward %zu x %zu x %zu x %zu, patch %zu, out %zu", s->batch,
            d->channels, d->height, d->width, d->patch, d->out);
        test_add(&list, backward_in_parts, s, "backward in parts %zu x %zu x %zu x %zu", s->batch,
            s->desc.channels, s->desc.height, s->desc.width);
        test_add(&list, backward, s, "backward %zu x %zu x %zu x %zu, patch %zu, out %zu", s->batch,
            d->channels, d->height, d->width, d->patch, d->out);
    }
    test_add(&list, slopes, NULL, "slopes");
    test_add(&list, invalid, NULL, "invalid arguments");
    return test_run_on_devices("patch_embed", &list);
}
