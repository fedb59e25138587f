/* Matrices of bf16 between layers: what kernels write is their fp32 result, rounded; what they read
 * has the bits of the same values in fp32. */
#include "support/test_narrow.h"
#include "clprune/activation.h"
#include "clprune/affine.h"
#include "clprune/batch_norm.h"
#include "clprune/conv2d.h"
#include "clprune/layer_norm.h"
#include "clprune/layerscale.h"
#include "clprune/rms_norm.h"

typedef struct shape {
    size_t rows, cols, gap;
} shape;

static const shape shapes[] = {{1, 1, 0}, {3, 16, 0}, {5, 33, 3}, {9, 48, 16}, {2, 130, 1}};

/* A call of a layer from x to y, and of its backward pass from x, as far as it has one. */
typedef struct operands {
    clprune_mat x, y, a, b, dy, dx, sum[2], stats;
    size_t rows, cols;
} operands;

static clprune_status gelu(clprune_context *context, const operands *o)
{
    return clprune_activation_forward(
        context, CLPRUNE_ACTIVATION_GELU, 0, 0, o->x, CLPRUNE_NO_MAT, o->y, NULL, NULL);
}
static clprune_status affine(clprune_context *context, const operands *o)
{
    return clprune_affine_forward(context, o->x, o->a, o->b, o->y, NULL);
}
static clprune_status affine_back(clprune_context *context, const operands *o)
{
    return clprune_affine_backward(
        context, 0, 0, o->x, o->a, o->dy, o->dx, &(clprune_affine){o->sum[0], o->sum[1]}, NULL);
}
static clprune_status layerscale_back(clprune_context *context, const operands *o)
{
    return clprune_layerscale_backward(context, 0, o->x, o->a, o->dy, o->dx,
        &(clprune_layerscale_grads){.dls = o->sum[0], .db = o->sum[1]}, NULL);
}
static clprune_status layer_norm(clprune_context *context, const operands *o)
{
    return clprune_layer_norm_forward(context, 1e-5f, o->x, o->a, o->b, o->y, o->stats, NULL);
}
static clprune_status layer_norm_back(clprune_context *context, const operands *o)
{
    TEST_OK(clprune_layer_norm_forward(context, 1e-5f, o->x, o->a, o->b, o->dx, o->stats, NULL));
    return clprune_layer_norm_backward(context, 0, 0, o->x, o->stats, o->a, o->dy, o->dx,
        &(clprune_layer_norm){o->sum[0], o->sum[1]}, NULL);
}
static clprune_status layer_norm_again(clprune_context *context, const operands *o)
{
    TEST_OK(clprune_layer_norm_forward(context, 1e-5f, o->x, o->a, o->b, o->dx, o->stats, NULL));
    return clprune_layer_norm_apply(context, o->x, o->stats, o->a, o->b, o->y, NULL);
}
static clprune_status rms_norm(clprune_context *context, const operands *o)
{
    return clprune_rms_norm_forward(context, 1e-5f, o->x, o->a, o->y, CLPRUNE_NO_MAT, NULL);
}
static clprune_status rms_norm_again(clprune_context *context, const operands *o)
{
    clprune_mat inv = o->stats;
    inv.cols = 1;
    TEST_OK(clprune_rms_norm_forward(context, 1e-5f, o->x, o->a, o->dx, inv, NULL));
    TEST_OK(clprune_rms_norm_apply(context, o->x, inv, o->a, o->y, NULL));
    return clprune_rms_norm_backward(context, 0, 0, o->x, inv, o->a, o->dy, o->dx, o->sum[0], NULL);
}
/* x is the residual */
static clprune_status batch_norm(clprune_context *context, const operands *o)
{
    const clprune_batch_norm bn = {o->a, o->b, o->b, o->a};
    return clprune_batch_norm_forward(context, &bn, true, o->dy, o->x, o->y, CLPRUNE_NO_MAT, NULL);
}

typedef struct narrow_row {
    const char *name;
    clprune_status (*call)(clprune_context *context, const operands *o);
    bool gives; /* y */
} narrow_row;

static const narrow_row narrow_rows[] = {
    {"gelu", gelu, true},
    {"affine", affine, true},
    {"affine, backward", affine_back, false},
    {"layerscale, backward", layerscale_back, false},
    {"layer norm", layer_norm, true},
    {"layer norm, backward", layer_norm_back, false},
    {"layer norm, again", layer_norm_again, true},
    {"RMS norm", rms_norm, true},
    {"RMS norm, again and backward", rms_norm_again, true},
    {"batch norm with a residual", batch_norm, true},
};

/* From x in fp32 and in bf16; y, if there is one, in fp32 and in bf16. */
static void between_layers(void **state)
{
    const narrow_row *r = *state;
    for (size_t s = 0; s < COUNT_OF(shapes); s++) {
        const size_t mark = test_mark();
        const size_t rows = shapes[s].rows, cols = shapes[s].cols, gap = shapes[s].gap;
        float *x = rounded(values_of(31, rows * cols), rows * cols);
        test_mat wide = test_mat_make(rows, cols, gap, x);
        test_mat a = test_mat_make(1, cols, 0, test_new_uniform(32, 0.5, 2, cols));
        test_mat b = test_mat_make(1, cols, 0, test_new_normal(33, cols));
        test_mat dy = test_mat_make(rows, cols, gap, test_new_normal(34, rows * cols));
        const narrow x16 = narrow_make(rows, cols, gap, x);
        test_mat y[2], dx[2], sums[2][2], stats[2];
        for (size_t i = 0; i < 2; i++) {
            y[i] = test_mat_make(rows, cols, 0, NULL);
            dx[i] = test_mat_make(rows, cols, 0, test_new_normal(35, rows * cols));
            stats[i] = test_mat_make(rows, 2, 0, test_new_normal(36, 2 * rows));
            for (size_t k = 0; k < 2; k++)
                sums[i][k] = test_mat_make(1, cols, 0, test_new_normal(37, cols));
            const operands o = {i == 0 ? wide.mat : x16.mat, y[i].mat, a.mat, b.mat, dy.mat,
                dx[i].mat, {sums[i][0].mat, sums[i][1].mat}, stats[i].mat, rows, cols};
            TEST_OK(r->call(test_context(), &o));
        }
        if (r->gives) {
            const narrow y16 = narrow_make(rows, cols, gap, NULL);
            const operands o = {x16.mat, y16.mat, a.mat, b.mat, dy.mat, dx[1].mat,
                {sums[1][0].mat, sums[1][1].mat}, stats[1].mat, rows, cols};
            layer_same("y", &y[0], &y[1]);
            TEST_OK(r->call(test_context(), &o));
            check_rounded(r->name, &y16, &y[0]);
        }
        layer_same("dx", &dx[0], &dx[1]);
        layer_same("sum 0", &sums[0][0], &sums[1][0]);
        layer_same("sum 1", &sums[0][1], &sums[1][1]);
        layer_same("stats", &stats[0], &stats[1]);
        test_release(mark);
    }
}

/* ---- products ----------------------------------------------------------------------------------
 */

typedef struct product_row {
    const char *name;
    size_t batch, rows, in, out; /* rows: of a sample, or its columns */
    bool tokens;
} product_row;

static const product_row product_rows[] = {
    {"linear", 2, 9, 48, 32, false},
    {"linear, odd inner size", 1, 70, 33, 16, false},
    {"linear, several panels", 3, 5, 1000, 80, false},
    {"linear, tiles along and across", 1, 150, 104, 144, false},
    {"linear over rows", 3, 32, 20, 9, true},
    {"linear over rows, several panels", 2, 16, 800, 70, true},
};

/* The tests' own context where its products are of bf16, as on tensor cores; else one of CPUs. */
static clprune_context *open_bf16(void)
{
    if (clprune_linear_takes_bf16(test_context()))
        return test_context();
    const clprune_context_options options = {
        .kernels = CLPRUNE_KERNELS_VECTOR, .precision = CLPRUNE_PRECISION_BF16};
    return test_open_on(clprune_context_queue(test_context()), &options);
}

/* y from x in bf16 has the bits of y from the same x in fp32; in bf16 it is that y, rounded. */
static void products(void **state)
{
    const product_row *r = *state;
    clprune_context *context = open_bf16();
    const size_t x_rows = r->batch * (r->tokens ? r->in : r->rows),
                 x_cols = r->tokens ? r->rows : r->in,
                 y_rows = r->batch * (r->tokens ? r->out : r->rows),
                 y_cols = r->tokens ? r->rows : r->out;
    float *x = rounded(values_of(41, x_rows * x_cols), x_rows * x_cols);
    test_mat wide = test_mat_make(x_rows, x_cols, 0, x), y[2];
    test_mat w = test_mat_make(r->out, r->in, 0, test_new_normal(42, r->out * r->in));
    test_mat b = test_mat_make(1, r->out, 0, test_new_normal(43, r->out));
    const narrow x16 = narrow_make(x_rows, x_cols, x_cols % 2, x);
    const narrow y16 = narrow_make(y_rows, y_cols, 0, NULL);
    clprune_linear *layer = test_new_linear(
        context, (clprune_linear_desc){.in = r->in,
                     .out = r->out,
                     .axis = r->tokens ? CLPRUNE_AXIS_ROWS : CLPRUNE_AXIS_FEATURES});
    assert_true(clprune_linear_takes_bf16(context));
    for (size_t i = 0; i < 2; i++) {
        y[i] = test_mat_make(y_rows, y_cols, 0, NULL);
        TEST_OK(clprune_linear_forward(
            layer, r->batch, i == 0 ? wide.mat : x16.mat, w.mat, b.mat, y[i].mat, NULL, NULL));
    }
    layer_same("y", &y[0], &y[1]);
    TEST_OK(clprune_linear_forward(layer, r->batch, x16.mat, w.mat, b.mat, y16.mat, NULL, NULL));
    check_rounded(r->name, &y16, &y[0]);
}

/* Whether strips of an image of few channels fit the device's local memory. */
static bool has_strips(void)
{
    enum { BYTES = 332 << 10 }; /* conv_strip.c: 80 Ki floats, offsets of 2048 terms, and 4 KiB */
    cl_command_queue queue = clprune_context_queue(test_context());
    cl_device_id device = NULL;
    cl_ulong local = 0;
    assert_int_equal(
        clGetCommandQueueInfo(queue, CL_QUEUE_DEVICE, sizeof device, &device, NULL), CL_SUCCESS);
    assert_int_equal(
        clGetDeviceInfo(device, CL_DEVICE_LOCAL_MEM_SIZE, sizeof local, &local, NULL), CL_SUCCESS);
    return local >= BYTES;
}

static void convolutions(NO_ROW)
{
    clprune_context *context = open_bf16();
    const clprune_extent image = {7, 9};
    static const struct {
        clprune_conv2d_desc desc;
        bool takes;
    } rows[] = {
        {{.in = 32, .out = 48, .kernel = {3, 3}, .padding = {1, 1}}, true},
        {{.in = 18, .out = 20, .kernel = {3, 3}, .stride = {2, 2}}, true},
        {{.in = 33, .out = 20, .kernel = {1, 1}}, true}, /* a product of matrices */
        {{.in = 17, .out = 20, .kernel = {3, 3}}, false},
        {{.in = 4, .out = 20, .kernel = {3, 3}}, false},
        {{.in = 40, .out = 40, .kernel = {3, 3}, .padding = {1, 1}, .groups = 40}, true},
        {{.in = 7, .out = 7, .kernel = {3, 3}, .stride = {2, 2}, .groups = 7}, true},
        {{.in = 32, .out = 32, .kernel = {3, 3}, .groups = 2}, false},
    };
    for (size_t r = 0; r < COUNT_OF(rows); r++) {
        const clprune_conv2d_desc *desc = &rows[r].desc;
        const clprune_extent out = clprune_conv2d_output(desc, image);
        const size_t x_rows = 2 * image.height * image.width, y_rows = 2 * out.height * out.width;
        const size_t inner = desc->kernel.height * desc->kernel.width * desc->in /
                             (desc->groups > 0 ? desc->groups : 1);
        float *x = rounded(values_of(51, x_rows * desc->in), x_rows * desc->in);
        test_mat wide = test_mat_make(x_rows, desc->in, 0, x), y[2];
        test_mat w = test_mat_make(desc->out, inner, 0, test_new_normal(52, desc->out * inner));
        const narrow x16 = narrow_make(x_rows, desc->in, desc->in % 2, x);
        clprune_conv2d *layer = test_new_conv2d(context, *desc);
        const bool takes =
            clprune_context_kernels(context) == CLPRUNE_KERNELS_TILED
                ? desc->kernel.height == 1 || (desc->groups <= 1 && desc->in % 8 == 0)
                : rows[r].takes || (desc->in == 4 && !has_strips());
        assert_int_equal(clprune_conv2d_takes_bf16(context, desc, image), takes);
        for (size_t i = 0; i < 2; i++)
            y[i] = test_mat_make(y_rows, desc->out, 0, NULL);
        TEST_OK(clprune_conv2d_forward(
            layer, 2, image, wide.mat, w.mat, CLPRUNE_NO_MAT, y[0].mat, NULL, NULL));
        if (!takes) {
            TEST_FAILS_IN(context,
                clprune_conv2d_forward(
                    layer, 2, image, x16.mat, w.mat, CLPRUNE_NO_MAT, y[1].mat, NULL, NULL),
                CLPRUNE_INVALID_ARGUMENT, "x has elements of type 2, expected fp32");
            continue;
        }
        TEST_OK(clprune_conv2d_forward(
            layer, 2, image, x16.mat, w.mat, CLPRUNE_NO_MAT, y[1].mat, NULL, NULL));
        layer_same("y", &y[0], &y[1]);
    }
    assert_false(clprune_conv2d_takes_bf16(NULL, &rows[0].desc, image));
    assert_false(clprune_linear_takes_bf16(NULL));
}

/* A store of 16 bits is a matrix of bf16, and what a layer writes to it is stored. */
static void in_a_store(NO_ROW)
{
    const clprune_keep keep = {.form = CLPRUNE_FORM_QUANTISED, .bits = 16};
    const size_t rows = 5, cols = 48;
    float *x = values_of(61, 2 * rows * cols);
    test_mat wide = test_mat_make(2 * rows, cols, 0, x), y = test_mat_make(rows, cols, 0, NULL);
    test_mat again = test_mat_make(rows, cols, 0, NULL), ls = test_mat_make(1, cols, 0, x);
    clprune_saved *saved = test_new_saved(test_context(), keep, 2, rows, cols);
    const clprune_mat own = clprune_saved_dense(saved, 1, 1);
    assert_int_equal(own.type, CLPRUNE_VALUES_BF16);
    assert_int_equal(own.rows, rows);
    TEST_OK(clprune_affine_forward(
        test_context(), clprune_mat_rows(wide.mat, rows, rows), ls.mat, ls.mat, y.mat, NULL));
    TEST_OK(clprune_affine_forward(
        test_context(), clprune_mat_rows(wide.mat, rows, rows), ls.mat, ls.mat, own, NULL));
    TEST_OK(clprune_saved_restore(saved, 1, 1, again.mat, NULL));
    const float *want = test_mat_get(&y, "y"), *got = test_mat_get(&again, "again");
    for (size_t i = 0; i < rows * cols; i++)
        if (got[i] != widen(round_bf16(want[i])))
            fail_msg("element %zu is %g, expected %g", i, (double)got[i], (double)want[i]);
    clprune_saved *ragged = test_new_saved(test_context(), keep, 2, rows, cols + 1);
    assert_int_equal(clprune_saved_dense(ragged, 0, 1).rows, 0); /* its rows are padded */
}

/* An empty sum in bf16 is 0, and touches nothing else. */
static void empty_sums(NO_ROW)
{
    enum { M = 5, N = 16, K = 32 };
    clprune_context *context = test_context();
    if (!clprune_linear_takes_bf16(context))
        return;
    float *zeros = test_alloc(M * N * sizeof *zeros);
    memset(zeros, 0, M * N * sizeof *zeros);
    const test_mat a = test_mat_make(M, K, 0, NULL), b = test_mat_make(N, K, 0, NULL);
    const test_mat zero = test_mat_make(M, N, 0, zeros);
    clprune_mat none_a = a.mat, none_b = b.mat;
    none_a.cols = none_b.cols = 0;
    for (size_t gap = 0; gap < 3; gap += 2) {
        const narrow scaled = narrow_make(M, N, gap, NULL), empty = narrow_make(M, N, gap, NULL);
        TEST_OK(clprune_gemm(context, false, true, 0, 0, a.mat, b.mat, scaled.mat, NULL));
        check_rounded("alpha = 0", &scaled, &zero);
        TEST_OK(clprune_gemm(context, false, true, 1, 0, none_a, none_b, empty.mat, NULL));
        check_rounded("K = 0", &empty, &zero);
    }
}

/* A y of bf16 whose rows are no whole units is refused before x is stored. */
static void no_units(NO_ROW)
{
    enum { IN = 48, COLS = 24, OUT = 16 };
    clprune_context *context = test_context();
    if (!clprune_linear_takes_bf16(context))
        return;
    const clprune_linear_desc desc = {
        .in = IN, .out = OUT, .axis = CLPRUNE_AXIS_ROWS, .keep = {.form = CLPRUNE_FORM_DENSE}};
    clprune_linear *layer = test_new_linear(context, desc);
    clprune_saved *saved = test_new_saved(context, desc.keep, 1, IN, COLS);
    const test_mat x = test_mat_make(IN, COLS, 0, test_new_normal(81, IN * COLS)),
                   w = test_mat_make(OUT, IN, 0, test_new_normal(82, OUT * IN));
    const test_mat kept = test_mat_make(IN, COLS, 0, NULL);
    float *old = test_new_normal(83, IN * COLS);
    const test_mat before = test_mat_make(IN, COLS, 0, old);
    const narrow y = narrow_make(OUT, COLS, 0, NULL);
    TEST_OK(clprune_saved_store(saved, 0, 1, before.mat, NULL));
    TEST_FAILS(clprune_linear_forward(layer, 1, x.mat, w.mat, CLPRUNE_NO_MAT, y.mat, saved, NULL),
        CLPRUNE_INVALID_ARGUMENT, "y of bf16 has 24 columns");
    TEST_OK(clprune_saved_restore(saved, 0, 1, kept.mat, NULL));
    test_same_floats("kept", IN, COLS, test_mat_get(&kept, "kept"), old, "%s", "after a refusal");
}

/* Functions that do not take bf16 say so. */
static void refused(NO_ROW)
{
    clprune_context *context = test_context();
    test_mat y = test_mat_make(2, 16, 0, test_new_normal(71, 32));
    test_mat w = test_mat_make(16, 16, 0, test_new_normal(72, 256));
    const narrow x = narrow_make(2, 16, 0, NULL);
    const char *text = "x has elements of type 2, expected fp32";
    TEST_FAILS(clprune_mat_fill(context, 0, x.mat, NULL), CLPRUNE_INVALID_ARGUMENT,
        "has elements of type 2, expected fp32");
    clprune_mat odd = x.mat;
    odd.type = CLPRUNE_VALUES_INT8;
    TEST_FAILS(clprune_affine_forward(context, odd, y.mat, y.mat, y.mat, NULL),
        CLPRUNE_INVALID_ARGUMENT, "x has elements of type 3, expected fp32 or bf16");
    clprune_linear *layer = test_new_linear(context, (clprune_linear_desc){.in = 16, .out = 16});
    if (!clprune_linear_takes_bf16(context))
        TEST_FAILS(
            clprune_linear_forward(layer, 2, x.mat, w.mat, CLPRUNE_NO_MAT, y.mat, NULL, NULL),
            CLPRUNE_INVALID_ARGUMENT, text);
    clprune_mat over = y.mat; /* y over x, of another type */
    over.offset *= 2;
    over.type = CLPRUNE_VALUES_BF16;
    TEST_FAILS(clprune_affine_forward(context, y.mat, clprune_mat_rows(w.mat, 0, 1),
                   clprune_mat_rows(w.mat, 1, 1), over, NULL),
        CLPRUNE_INVALID_ARGUMENT, "y overlaps x");
}

int main(void)
{
    test_list list = {0};
    TEST_ADD_EACH(&list, between_layers, narrow_rows, "%s");
    TEST_ADD_EACH(&list, products, product_rows, "%s");
    test_add(&list, convolutions, NULL, "convolutions");
    test_add(&list, in_a_store, NULL, "a store of 16 bits");
    test_add(&list, empty_sums, NULL, "empty sums");
    test_add(&list, no_units, NULL, "columns that are no whole units");
    test_add(&list, refused, NULL, "refused");
    return test_run_on_devices("narrow", &list);
}
