/* Convolutions against the reference, for every form of the kept input.
 *
 * Strides, dilations, paddings above the kernel, images wider than local memory. dx also on top of
 * a gradient. dw of a form is dw of the restored tensor. */
#include <limits.h>

#include "ops/conv/conv_private.h"
#include "ref/conv_ref.h"
#include "support/test.h"

typedef struct conv_row {
    const char *name;
    conv_ref r;
    bool bias;
    bool aligned; /* rows of matrices begin at multiples of four elements */
} conv_row;

/* Few numbers of channels, each of which takes programs of its own: 16 is a whole vector, 20 is
 * not; 3 is no multiple of a vector's part, 800 more than a panel is deep. */
static const conv_row rows[] = {
    {"3x3", {2, 16, 20, 6, 5, {3, 3}, {1, 1}, {1, 1}, {1, 1}, 0, 0}, true, true},
    {"3x3 stride 2", {2, 16, 20, 7, 8, {3, 3}, {2, 2}, {1, 1}, {1, 1}, 0, 0}, false},
    {"7x7 stride 2 of 3 channels", {2, 3, 20, 13, 14, {7, 7}, {2, 2}, {3, 3}, {1, 1}, 0, 0}, true},
    {"stride 3 dilation 2, uneven", {2, 16, 20, 11, 9, {2, 3}, {3, 2}, {1, 2}, {2, 3}, 0, 0}, true},
    {"many images", {40, 16, 20, 3, 3, {3, 3}, {1, 1}, {1, 1}, {1, 1}, 0, 0}, true},
    {"wide image", {1, 3, 20, 2, 1100, {3, 3}, {1, 1}, {1, 1}, {1, 1}, 0, 0}, true},
    {"tall image", {2, 3, 20, 1100, 5, {3, 3}, {2, 1}, {1, 1}, {1, 1}, 0, 0}, true},
    {"3x3 stride 2, even image", {2, 16, 20, 6, 8, {3, 3}, {2, 2}, {1, 1}, {1, 1}, 0, 0}, true,
        true},
    {"1x1 stride 2, even image", {3, 16, 20, 4, 8, {1, 1}, {2, 2}, {0, 0}, {1, 1}, 0, 0}, true},
    {"taps that share cells", {2, 16, 20, 12, 20, {7, 5}, {4, 6}, {3, 4}, {2, 1}, 0, 0}, true},
    {"stride far above the image",
        {2, 3, 20, 3, 4, {2, 2}, {1 << 28, 1 << 28}, {1, 1}, {1, 1}, 0, 0}, true},
    {"depthwise 3x3", {2, 40, 40, 6, 5, {3, 3}, {1, 1}, {1, 1}, {1, 1}, 0, 0, 40}, true},
    {"4 groups", {2, 8, 12, 6, 5, {3, 3}, {1, 2}, {1, 1}, {1, 1}, 0, 0, 4}, true},
    /* what the forms do not depend on */
    {"few channels, many pixels", {6, 3, 20, 200, 330, {1, 2}, {2, 3}, {0, 1}, {1, 1}, 0, 0}, true},
    {"3x3 no padding, many outputs", {3, 16, 100, 5, 4, {3, 3}, {1, 1}, {0, 0}, {1, 1}, 0, 0},
        true},
    {"3x3 of three images", {3, 16, 24, 6, 5, {3, 3}, {1, 1}, {0, 1}, {1, 1}, 0, 0}, true},
    {"1x1", {2, 20, 20, 4, 5, {1, 1}, {1, 1}, {0, 0}, {1, 1}, 0, 0}, true},
    {"1x1 stride 2", {3, 16, 20, 5, 6, {1, 1}, {2, 2}, {0, 0}, {1, 1}, 0, 0}, false},
    {"dilated", {2, 16, 20, 9, 8, {3, 3}, {1, 1}, {2, 2}, {2, 2}, 0, 0}, false},
    {"stride above kernel", {1, 16, 20, 7, 7, {1, 2}, {3, 4}, {0, 0}, {1, 1}, 0, 0}, true},
    {"padding above kernel", {1, 3, 20, 2, 3, {2, 2}, {1, 1}, {3, 2}, {1, 1}, 0, 0}, true},
    {"few channels, many outputs", {1, 3, 70, 4, 5, {2, 3}, {1, 1}, {0, 1}, {1, 1}, 0, 0}, true},
    {"one pixel", {1, 3, 20, 1, 1, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 0, 0}, true},
    {"more channels than a panel is deep", {1, 800, 20, 3, 4, {3, 2}, {1, 1}, {1, 1}, {1, 1}, 0, 0},
        true},
    {"more outputs than a panel is deep", {1, 64, 700, 3, 4, {3, 2}, {1, 1}, {1, 1}, {1, 1}, 0, 0},
        true},
    {"more taps than bits", {1, 3, 20, 6, 7, {17, 18}, {1, 1}, {6, 6}, {1, 1}, 0, 0}, true},
    {"slices of channels", {1, 64, 32, 3, 4, {3, 3}, {1, 1}, {1, 1}, {1, 1}, 0, 0}, true, true},
    {"3x3 stride 2, many images, odd", {31, 20, 24, 5, 6, {3, 3}, {2, 2}, {1, 1}, {1, 1}, 0, 0},
        true},
    {"more channels than a strip is deep", {1, 700, 16, 3, 4, {3, 2}, {1, 1}, {1, 1}, {1, 1}, 0, 0},
        true},
    {"depthwise 3x3 stride 2", {2, 72, 72, 7, 8, {3, 3}, {2, 2}, {1, 1}, {1, 1}, 0, 0, 72}, false},
    {"depthwise 5x5 stride 2", {3, 16, 16, 12, 13, {5, 5}, {2, 2}, {2, 2}, {1, 1}, 0, 0, 16}, true},
    {"depthwise 7x7", {2, 20, 20, 7, 7, {7, 7}, {1, 1}, {3, 3}, {1, 1}, 0, 0, 20}, true},
    {"depthwise, wide lines", {2, 64, 64, 9, 200, {3, 3}, {1, 1}, {1, 1}, {1, 1}, 0, 0, 64}, true},
    {"depthwise, few channels", {2, 3, 3, 5, 6, {3, 3}, {1, 1}, {1, 1}, {1, 1}, 0, 0, 3}, true},
    {"depthwise, uneven", {2, 17, 17, 11, 9, {2, 3}, {3, 2}, {1, 2}, {2, 3}, 0, 0, 17}, true},
    {"depthwise, stride above kernel", {1, 65, 65, 7, 9, {1, 2}, {3, 4}, {0, 0}, {1, 1}, 0, 0, 65},
        true},
    {"depthwise, padding above kernel", {1, 4, 4, 2, 3, {2, 2}, {1, 1}, {3, 5}, {1, 1}, 0, 0, 4},
        true},
    {"depthwise, far taps", {1, 3, 3, 6, 30, {3, 3}, {1, 1}, {1, 6}, {1, 9}, 0, 0, 3}, true},
    {"depthwise, two outputs a channel", {2, 6, 12, 5, 4, {3, 3}, {1, 1}, {1, 1}, {1, 1}, 0, 0, 6},
        true},
    /* AMX's kernels: pixels in several parts, a second panel; taps in runs, panels of 48; splits */
    {"channels of whole tiles", {2, 96, 72, 15, 40, {3, 3}, {1, 1}, {1, 1}, {1, 1}, 0, 0}, true},
    {"taps in several runs", {1, 640, 40, 6, 7, {3, 3}, {1, 1}, {1, 1}, {1, 1}, 0, 0}, true},
    {"channels of whole tiles, stride 2", {20, 64, 32, 9, 8, {3, 3}, {2, 2}, {1, 1}, {1, 1}, 0, 0},
        true},
    {"groups 1x1", {2, 32, 48, 5, 4, {1, 1}, {1, 1}, {0, 0}, {1, 1}, 0, 0, 2}, true},
};
enum { FORM_ROWS = 13 };

/* Whether a row is for slow simulators, too. */
static bool is_wanted(const conv_ref *r)
{
    return !test_small() || (r->batch * r->height * r->width < 100 && r->in * r->out <= 2048);
}

static clprune_conv2d_desc describe(const conv_ref *r)
{
    return (clprune_conv2d_desc){.in = r->in,
        .out = r->out,
        .kernel = {r->kernel[0], r->kernel[1]},
        .stride = {r->stride[0], r->stride[1]},
        .padding = {r->padding[0], r->padding[1]},
        .dilation = {r->dilation[0], r->dilation[1]},
        .groups = r->groups};
}

static void check(const char *what, const test_mat *m, gemm_ref ref, const char *name)
{
    test_close(what, ref.m, ref.n, test_mat_get(m, what), ref.want, ref.bound, "%s", name);
}

/* A layer with its store and tensors. */
typedef struct tensors {
    conv_ref r;
    clprune_extent image;
    clprune_conv2d *layer;
    clprune_saved *saved;
    float *x, *w, *b, *dy;
    test_mat mx, mw, mb, mdy, my, mdx, mdw, mdb;
} tensors;

static tensors make(const conv_row *row, clprune_keep keep)
{
    conv_ref r = row->r;
    conv_ref_settle(&r);
    r.fp32 = r.groups == r.in && r.out == r.in && r.dilation[1] <= 4;
    clprune_conv2d_desc desc = describe(&r);
    desc.keep = keep;
    const size_t pixels = r.batch * r.height * r.width,
                 results = r.batch * r.out_height * r.out_width,
                 inner = r.kernel[0] * r.kernel[1] * (r.in / (r.groups > 0 ? r.groups : 1));
    tensors t = {.r = r,
        .image = {r.height, r.width},
        .layer = test_new_conv2d(test_context(), desc),
        .x = test_new_normal(21, pixels * r.in),
        .w = test_new_normal(22, r.out * inner),
        .b = test_new_normal(23, r.out),
        .dy = test_new_normal(24, results * r.out)};
    t.saved = test_new_conv2d_saved(test_context(), t.layer, r.batch, t.image);
    const size_t pad = row->aligned ? 4 : 1; /* behind the columns */
    t.mx = test_mat_make(pixels, r.in, pad, t.x);
    t.mw = test_mat_make(r.out, inner, 4 - pad, t.w);
    t.mb = test_mat_make(1, r.out, 0, t.b);
    t.mdy = test_mat_make(results, r.out, 2 * pad, t.dy);
    t.my = test_mat_make(results, r.out, pad, NULL);
    t.mdx = test_mat_make(pixels, r.in, 2 * pad, NULL);
    t.mdw = test_mat_make(r.out, inner, pad, NULL);
    t.mdb = test_mat_make(1, r.out, 0, NULL);
    return t;
}

static void pass_forward(const tensors *t, bool bias)
{
    TEST_OK(clprune_conv2d_forward(t->layer, t->r.batch, t->image, t->mx.mat, t->mw.mat,
        bias ? t->mb.mat : CLPRUNE_NO_MAT, t->my.mat, t->saved, NULL));
}

static void pass_backward(const tensors *t, const clprune_saved *saved, clprune_grads grads)
{
    TEST_OK(clprune_conv2d_backward(
        t->layer, t->r.batch, t->image, saved, t->mdy.mat, t->mw.mat, &grads, NULL));
}

static void against_reference(void **state)
{
    const conv_row *row = *state;
    tensors t = make(row, (clprune_keep){.form = CLPRUNE_FORM_DENSE});
    const clprune_conv2d_desc desc = describe(&t.r);
    const clprune_extent output = clprune_conv2d_output(&desc, t.image);
    assert_int_equal(output.height, t.r.out_height);
    assert_int_equal(output.width, t.r.out_width);
    pass_forward(&t, row->bias);
    pass_backward(&t, t.saved, (clprune_grads){.dx = t.mdx.mat, .dw = t.mdw.mat, .db = t.mdb.mat});
    check("y", &t.my, conv_ref_forward(&t.r, t.x, t.w, row->bias ? t.b : NULL), row->name);
    check("dw", &t.mdw, conv_ref_dw(&t.r, t.dy, t.x), row->name);
    check("db", &t.mdb, conv_ref_db(&t.r, t.dy), row->name);
    check("dx", &t.mdx, conv_ref_dx(&t.r, t.dy, t.w, 0, NULL), row->name);
    /* on top of what came through a shortcut: x, say */
    test_mat_set(&t.mdx, t.x);
    pass_backward(&t, NULL, (clprune_grads){.dx = t.mdx.mat, .dx_beta = 0.5f});
    check("dx + x / 2", &t.mdx, conv_ref_dx(&t.r, t.dy, t.w, 0.5f, t.x), row->name);
    test_mat_unchanged(&t.mx, "x");
    test_mat_unchanged(&t.mw, "w");
    test_mat_unchanged(&t.mdy, "dy");
}

/* How an input is kept. */
typedef struct form_row {
    const char *name;
    clprune_keep keep;
} form_row;

static const form_row forms[] = {
    {"pooled 2", {.form = CLPRUNE_FORM_POOLED, .cell = 2}},
    {"pooled 4", {.form = CLPRUNE_FORM_POOLED, .cell = 4}},
    {"pooled 6", {.form = CLPRUNE_FORM_POOLED, .cell = 6}},
    {"pooled, the largest cell", {.form = CLPRUNE_FORM_POOLED, .cell = UINT_MAX}},
    {"pruned 1x4", {.form = CLPRUNE_FORM_PRUNED, .sparsity = 0.5f, .block = {1, 4}}},
    {"pruned 1x16", {.form = CLPRUNE_FORM_PRUNED, .sparsity = 0.7f}},
    {"pruned 2x3", {.form = CLPRUNE_FORM_PRUNED, .sparsity = 0.4f, .block = {2, 3}}},
    {"pruned int8", {.form = CLPRUNE_FORM_PRUNED,
                        .sparsity = 0.5f,
                        .value_type = CLPRUNE_VALUES_INT8,
                        .index_type = CLPRUNE_INDEX_BITMAP}},
    {"pruned, centred", {.form = CLPRUNE_FORM_PRUNED,
                            .sparsity = 0.7f,
                            .block = {1, 4},
                            .centre = CLPRUNE_CENTRE_SAMPLE}},
    {"pruned, centred by cells", {.form = CLPRUNE_FORM_PRUNED,
                                     .sparsity = 0.7f,
                                     .block = {1, 4},
                                     .centre = CLPRUNE_CENTRE_CELLS,
                                     .cell = 2}},
    {"all pruned", {.form = CLPRUNE_FORM_PRUNED, .sparsity = 1.0f}},
    {"quantised", {.form = CLPRUNE_FORM_QUANTISED, .bits = 8}},
    {"quantised, rotated", {.form = CLPRUNE_FORM_QUANTISED, .bits = 8, .rotate = true}},
    {"bf16", {.form = CLPRUNE_FORM_QUANTISED, .bits = 16}},
};

/* With rounded operands: sums of dy over a cell are rounded once more, and a mean or a centre apart
 * from what is added to it. */
static void widen(gemm_ref *want, const conv_ref *r, const float *dy, const float *x)
{
    const size_t results = r->batch * r->out_height * r->out_width;
    float *size_dy = test_floats(results * r->out);
    float *size_x = test_floats(r->batch * r->height * r->width * r->in);
    for (size_t i = 0; i < results * r->out; i++)
        size_dy[i] = fabsf(dy[i]);
    for (size_t i = 0; i < r->batch * r->height * r->width * r->in; i++)
        size_x[i] = fabsf(x[i]);
    const gemm_ref sizes = conv_ref_dw(r, size_dy, size_x);
    for (size_t i = 0; i < want->m * want->n; i++)
        want->bound[i] += 0x1p-6 * sizes.want[i];
}

/* Products of bf16 round x anyway: dw has the bits that it has from a dense store. Taps of few
 * channels are joined where x is dense, so their sums have another order. */
static void same_as_dense(const conv_row *row, float *dw, const char *name)
{
    tensors t = make(row, (clprune_keep){.form = CLPRUNE_FORM_DENSE});
    pass_forward(&t, false);
    pass_backward(&t, t.saved, (clprune_grads){.dw = t.mdw.mat});
    test_same_floats("dw and that of a dense x", t.mdw.mat.rows, t.mdw.mat.cols, dw,
        test_mat_get(&t.mdw, "dense dw"), "%s", name);
}

/* The product of a form in the tiled family that does not round its operands, whatever the
 * precision. */
static bool stays_in_fp32(const form_row *form)
{
    return clprune_context_kernels(test_context()) == CLPRUNE_KERNELS_TILED &&
           form->keep.form == CLPRUNE_FORM_PRUNED;
}

/* dw is dw of the restored tensor; dx and y do not depend on it. */
static void one_restored(const form_row *form, const conv_row *row)
{
    tensors t = make(row, form->keep);
    const char *name = test_text("%s, %s", row->name, form->name);
    pass_forward(&t, false);
    test_mat restored = test_mat_make(t.mx.mat.rows, t.r.in, 0, NULL);
    TEST_OK(clprune_saved_restore(t.saved, 0, t.r.batch, restored.mat, NULL));
    const float *x = test_mat_get(&restored, "restored");
    float (*const operand)(float) = gemm_ref_operand;
    if (stays_in_fp32(form) && t.r.groups <= 1) /* parts of channels are restored */
        gemm_ref_operand = NULL;
    gemm_ref want = conv_ref_dw(&t.r, t.dy, x);
    gemm_ref_operand = operand;
    if (gemm_ref_operand != NULL &&
        (form->keep.form == CLPRUNE_FORM_POOLED || form->keep.centre != 0))
        widen(&want, &t.r, t.dy, x);
    pass_backward(&t, t.saved, (clprune_grads){.dw = t.mdw.mat});
    check("dw", &t.mdw, want, name);
    if (form->keep.bits == 16 && gemm_ref_operand == gemm_ref_bf16 && row->r.in > 15 && !t.r.fp32)
        same_as_dense(row, test_mat_get(&t.mdw, "dw"), name);
    /* once more on top: twice the gradient */
    pass_backward(&t, t.saved, (clprune_grads){.dw = t.mdw.mat, .beta = 1});
    for (size_t e = 0; e < want.m * want.n; e++) {
        want.want[e] *= 2;
        want.bound[e] *= 2;
    }
    check("dw twice", &t.mdw, want, name);
}

static void of_restored(void **state)
{
    for (size_t i = 0; i < FORM_ROWS; i++)
        if (is_wanted(&rows[i].r))
            one_restored(*state, &rows[i]);
}

/* More taps than a work-item has registers, or room on its stack. */
static void of_many_taps(void **state)
{
    const conv_row row = {
        "64x64 taps", {1, 3, 20, 64, 64, {64, 64}, {1, 1}, {1, 1}, {1, 1}, 0, 0}, false};
    one_restored(*state, &row);
}

/* Descriptions that are refused when a layer is made, or that fit no image (CLPRUNE_SUCCESS). */
static void invalid_descriptions(NO_ROW)
{
    const clprune_status bad = CLPRUNE_INVALID_ARGUMENT, good = CLPRUNE_SUCCESS;
    const struct {
        clprune_conv2d_desc desc;
        clprune_extent image;
        clprune_status status;
        const char *text;
    } refused[] = {
        {{.in = 4, .out = 4, .kernel = {3, 3}, .groups = 3}, {5, 5}, bad,
            "groups is 3, expected a divisor of the 4 input and the 4 output channels"},
        {{.in = 4, .out = 6, .kernel = {3, 3}, .groups = 4}, {5, 5}, bad, "the 6 output channels"},
        {{.in = 4, .out = 4, .kernel = {3, 3}, .stride = {0, 1}}, {5, 5}, bad, "stride 0 x 1"},
        {{.in = 4, .out = 4, .kernel = {3, 0}}, {5, 5}, bad, "3 x 0 taps"},
        {{.in = 4, .out = 4, .kernel = {3, 3}, .dilation = {1, 0}}, {5, 5}, bad, "dilation 1 x 0"},
        {{.in = 4, .out = 4, .kernel = {SIZE_MAX, 3}}, {5, 5}, CLPRUNE_SIZE_OVERFLOW, "2^31"},
        {{.in = 0, .out = 4, .kernel = {3, 3}}, {5, 5}, bad, "0 input"},
        {{.in = 4, .out = 4, .kernel = {3, 3}, .reserved = {0, 1}}, {5, 5}, bad, "reserved"},
        {{.in = 4, .out = 4, .kernel = {3, 3}}, {2, 5}, good, "does not fit images of 2 x 5"},
        {{.in = 4, .out = 4, .kernel = {3, 3}}, {8, (size_t)1 << 29}, good,
            "a side is more than 536870911"},
        {{.in = 4, .out = 4, .kernel = {3, 3}, .stride = {(size_t)1 << 40, 1}}, {5, 5}, good,
            "stride 1099511627776 x 1"},
        {{.in = 4, .out = 4, .kernel = {3, 3}, .dilation = {(size_t)1 << 63, 1}}, {5, 5}, good,
            "a side is more than"},
    };
    const clprune_extent image = {5, 5};
    for (size_t i = 0; i < COUNT_OF(refused); i++) {
        clprune_conv2d *layer = NULL;
        assert_int_equal(clprune_conv2d_output(&refused[i].desc, refused[i].image).height, 0);
        test_says(clprune_last_error(NULL), refused[i].text);
        const clprune_status status =
            clprune_conv2d_create(test_context(), &refused[i].desc, &layer);
        assert_int_equal(status, refused[i].status);
        assert_true((layer != NULL) == (status == CLPRUNE_SUCCESS));
        if (layer == NULL)
            test_says(clprune_last_error(test_context()), refused[i].text);
        clprune_conv2d_destroy(layer);
    }
    assert_int_equal(clprune_conv2d_output(NULL, image).height, 0);
    test_says(clprune_last_error(NULL), "desc is NULL");
}

/* What test_invalid_many.c does not have: images, stores and what goes together. */
static void invalid(NO_ROW)
{
    const clprune_conv2d_desc desc = {.in = 4, .out = 4, .kernel = {3, 3}};
    const clprune_extent image = {5, 5}, small = {2, 5};
    const clprune_mat none = CLPRUNE_NO_MAT;
    clprune_conv2d *layer = test_new_conv2d(test_context(), desc);
    clprune_saved *saved = test_new_conv2d_saved(test_context(), layer, 2, image);
    assert_int_equal(clprune_conv2d_output(&desc, image).height, 3);
    test_mat x = test_mat_make(2 * 25, 4, 0, NULL), w = test_mat_make(4, 36, 0, NULL);
    test_mat y = test_mat_make(2 * 9, 4, 0, NULL);
#define FORWARD(batch, image)                                                                      \
    clprune_conv2d_forward(layer, batch, image, x.mat, w.mat, none, y.mat, NULL, NULL)
#define BACKWARD(saved, w, to_x, to_w)                                                             \
    clprune_conv2d_backward(                                                                       \
        layer, 2, image, saved, y.mat, w, &(clprune_grads){.dx = to_x, .dw = to_w}, NULL)
    TEST_FAILS(FORWARD(2, small), CLPRUNE_INVALID_SIZE, "does not fit images of 2 x 5");
    TEST_FAILS(FORWARD(1, image), CLPRUNE_INVALID_SIZE, "x is");
    TEST_FAILS(BACKWARD(NULL, none, none, w.mat), CLPRUNE_INVALID_ARGUMENT, "saved is NULL");
    TEST_FAILS(BACKWARD(saved, none, x.mat, none), CLPRUNE_INVALID_SIZE, "w is");
    TEST_OK(clprune_conv2d_forward(layer, 2, image, x.mat, w.mat, none, y.mat, saved, NULL));
    TEST_FAILS(BACKWARD(saved, w.mat, clprune_saved_dense(saved, 0, 2), none),
        CLPRUNE_INVALID_ARGUMENT, "dx overlaps saved");
    /* no images: nothing to do, and no gradient */
    TEST_OK(clprune_conv2d_backward(layer, 0, image, saved, clprune_mat_rows(y.mat, 0, 0), none,
        &(clprune_grads){.dw = w.mat}, NULL));
    const float *dw = test_mat_get(&w, "dw");
    for (size_t i = 0; i < 4 * 36; i++)
        assert_true(dw[i] == 0.0f);
}

/* A forward pass without images leaves the store as it is, also one of another layer's shape. */
static void no_images(NO_ROW)
{
    const clprune_keep keep = {.form = CLPRUNE_FORM_PRUNED, .sparsity = 0.5f};
    const clprune_extent image = {5, 5};
    clprune_conv2d *layer =
        test_new_conv2d(test_context(), (clprune_conv2d_desc){.in = 4, .out = 5, .kernel = {3, 3}});
    clprune_saved *saved = test_new_saved(test_context(), keep, 2, 6, 7);
    float *values = test_new_normal(31, 5 * 36);
    test_mat kept = test_mat_make(2 * 6, 7, 0, values), w = test_mat_make(5, 36, 0, values);
    test_mat before = test_mat_make(2 * 6, 7, 0, NULL), after = test_mat_make(2 * 6, 7, 0, NULL);
    test_mat x = test_mat_make(0, 4, 0, NULL), y = test_mat_make(0, 5, 0, NULL);
    TEST_OK(clprune_saved_store(saved, 0, 2, kept.mat, NULL));
    TEST_OK(clprune_saved_restore(saved, 0, 2, before.mat, NULL));
    TEST_OK(
        clprune_conv2d_forward(layer, 0, image, x.mat, w.mat, CLPRUNE_NO_MAT, y.mat, saved, NULL));
    TEST_OK(clprune_saved_restore(saved, 0, 2, after.mat, NULL));
    test_same_floats("kept", 2 * 6, 7, test_mat_get(&after, "after"),
        test_mat_get(&before, "before"), "no images");
}

/* Kernels for GPUs number the pixels of an image and its results in 31 bits; beyond, images are
 * restored. */
static void many_pixels(NO_ROW)
{
    static const struct {
        clprune_extent image, padding;
        bool prunes;
    } sizes[] = {{{32767, 65536}, {0, 0}, true}, {{32768, 65536}, {0, 0}, false},
        {{32767, 65536}, {1, 0}, false}};
    if (clprune_context_kernels(test_context()) != CLPRUNE_KERNELS_TILED)
        skip();
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        clprune__conv conv = {.batch = 1,
            .in = 1,
            .out = 1,
            .image = sizes[i].image,
            .kernel = {1, 1},
            .stride = {1, 1},
            .padding = sizes[i].padding,
            .dilation = {1, 1}};
        const clprune_bsr xs = {.desc = {.batch = 1,
                                    .rows = conv.image.height * conv.image.width,
                                    .cols = 1,
                                    .block = {16, 1},
                                    .keep = 1}};
        assert_true(clprune__conv_settle(&conv));
        assert_int_equal(clprune__conv_prunes(test_context(), &conv, &xs), sizes[i].prunes);
    }
}

static void weights_order(NO_ROW)
{
    enum { OUT = 2, IN = 3, TAPS = 6 };
    const clprune_extent kernel = {2, 3};
    float oihw[OUT * IN * TAPS], weights[OUT * IN * TAPS], back[OUT * IN * TAPS];
    for (size_t i = 0; i < OUT * IN * TAPS; i++)
        oihw[i] = (float)i;
    TEST_OK(clprune_conv2d_weights_from_oihw(OUT, IN, kernel, oihw, weights));
    for (size_t o = 0; o < OUT; o++)
        for (size_t c = 0; c < IN; c++)
            for (size_t t = 0; t < TAPS; t++)
                assert_true(weights[(o * TAPS + t) * IN + c] == oihw[(o * IN + c) * TAPS + t]);
    TEST_OK(clprune_conv2d_weights_to_oihw(OUT, IN, kernel, weights, back));
    assert_memory_equal(oihw, back, sizeof oihw);
    assert_int_equal(
        clprune_conv2d_weights_to_oihw(OUT, IN, kernel, NULL, back), CLPRUNE_INVALID_ARGUMENT);
    assert_int_equal(
        clprune_conv2d_weights_to_oihw(SIZE_MAX, IN, kernel, weights, back), CLPRUNE_SIZE_OVERFLOW);
}

int main(void)
{
    test_list list = {0};
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        if (is_wanted(&rows[i].r))
            test_add(&list, against_reference, &rows[i], "reference: %s", rows[i].name);
    TEST_ADD_EACH(&list, of_restored, forms, "restored: %s");
    for (size_t i = 0; i < COUNT_OF(forms) && !test_small(); i++)
        if (forms[i].keep.centre == CLPRUNE_CENTRE_SAMPLE)
            test_add(&list, of_many_taps, &forms[i], "many taps: %s", forms[i].name);
    test_add(&list, invalid_descriptions, NULL, "invalid descriptions");
    test_add(&list, invalid, NULL, "invalid arguments");
    test_add(&list, no_images, NULL, "no images");
    test_add(&list, many_pixels, NULL, "images of 2^31 pixels");
    test_add(&list, weights_order, NULL, "order of weights");
    return test_run_on_devices("conv2d", &list);
}
