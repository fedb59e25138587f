/* Devices with small work-groups, and drivers that refuse a kernel's group size
 * (support/device_layer.c). If the kernel allows smaller groups, they give the same results; else
 * the text names the kernel. CTest loads the layer; without it the test is skipped.
 *
 * The smaller group is remembered and logged. A convolution takes no more local memory than the
 * device has. Many rows, columns, pixels or samples take no more groups along the second and third
 * dimension than the device has. */
#include <CL/cl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/device_layer.h"
#include "support/test_compare.h"
#include "support/test_device.h"
#include "support/test_rng.h"

enum { ROWS = 37, COLS = 200 };

static char logged[4096];
static unsigned warnings;

static void keep_log(void *user, clprune_log_level level, const char *message)
{
    (void)user;
    if (level != CLPRUNE_LOG_WARNING)
        return;
    warnings++;
    (void)snprintf(logged, sizeof logged, "%s", message);
}

static clprune_context *create(void)
{
    clprune_context *context = NULL;
    const clprune_context_options options = {
        .cache_dir = "off", .kernels = CLPRUNE_KERNELS_TILED, .log = keep_log};
    if (clprune_context_create(NULL, &options, &context) != CLPRUNE_SUCCESS)
        fail_msg("%s", clprune_last_error(NULL));
    warnings = 0;
    logged[0] = '\0';
    return context;
}

static void close_context(clprune_context *context, size_t count, const clprune_mat *mats)
{
    for (size_t i = 0; i < count; i++)
        clprune_buffer_release(context, mats[i].buffer);
}

/* Operations of ROWS x COLS floats: x to y, all of them written. */
typedef clprune_status operation(clprune_context *context, clprune_mat x, clprune_mat y);

static clprune_status prune(clprune_context *context, clprune_mat x, clprune_mat y)
{
    const clprune_bsr_desc desc = {1, ROWS, COLS, {1, 4}, 700, CLPRUNE_VALUES_FP16, 0, {0}};
    clprune_bsr bsr;
    clprune_status status =
        clprune_bsr_create(context, CLPRUNE_MEMORY_ACTIVATIONS, "bsr", &desc, &bsr);
    if (status == CLPRUNE_SUCCESS)
        status =
            clprune_prune(context, CLPRUNE_NORM_L2, CLPRUNE_CRITERION_SAMPLED, 5, x, &bsr, NULL);
    if (status == CLPRUNE_SUCCESS)
        status = clprune_bsr_unpack(context, &bsr, y, NULL);
    clprune_bsr_destroy(context, &bsr);
    return status;
}

static clprune_status relu(clprune_context *context, clprune_mat x, clprune_mat y)
{
    return clprune_activation_forward(
        context, CLPRUNE_ACTIVATION_RELU, 0, 0, x, CLPRUNE_NO_MAT, y, NULL, NULL);
}

/* Sums of columns with LANES, then of LOCAL alone. */
static clprune_status moments(clprune_context *context, clprune_mat x, clprune_mat y)
{
    const clprune_mat mean = clprune_mat_rows(y, 0, 1), m2 = clprune_mat_rows(y, 1, 1);
    clprune_status status = clprune_mat_fill(context, 0, y, NULL);
    if (status == CLPRUNE_SUCCESS)
        status = clprune_batch_norm_moments(context, 0, x, mean, m2, NULL);
    return status;
}

static clprune_status pool(clprune_context *context, clprune_mat x, clprune_mat y)
{
    const clprune_max_pool_desc desc = {.kernel = {1, 1}};
    const clprune_extent image = {1, ROWS};
    return clprune_max_pool_forward(context, &desc, 1, image, x, y, CLPRUNE_NO_MAT, NULL);
}

/* Columns of one lane, then of 64: the same kernel, whose smaller groups have fewer work-items. */
static clprune_status lanes(clprune_context *context, clprune_mat x, clprune_mat y)
{
    clprune_status status = CLPRUNE_SUCCESS;
    for (int wide = 0; wide < 2 && status == CLPRUNE_SUCCESS; wide++) {
        x.cols = y.cols = wide ? COLS : 4;
        const clprune_mat row = clprune_mat_rows(x, 0, 1);
        const clprune_batch_norm bn = {row, row, row, row};
        status = clprune_batch_norm_forward(
            context, &bn, false, x, CLPRUNE_NO_MAT, y, CLPRUNE_NO_MAT, NULL);
    }
    return status;
}

static clprune_status product(clprune_context *context, clprune_mat x, clprune_mat y)
{
    clprune_mat w = x;
    w.cols = ROWS;
    return clprune_gemm_batched(context, 1, false, false, 1, 0, w, 0, x, 0, y, 0, NULL);
}

/* `result` has ROWS * COLS floats. */
static clprune_status run(clprune_context *context, operation *run_it, float *result)
{
    clprune_mat x, y;
    float *values = test_new_normal(3, ROWS * COLS);
    TEST_OK(clprune_mat_create(context, CLPRUNE_MEMORY_INPUT, "x", ROWS, COLS, &x));
    TEST_OK(clprune_mat_create(context, CLPRUNE_MEMORY_INPUT, "y", ROWS, COLS, &y));
    TEST_OK(clprune_mat_write(context, x, values));
    clprune_status status = run_it(context, x, y);
    if (status == CLPRUNE_SUCCESS)
        status = clprune_mat_read(context, y, result);
    clprune_buffer_release(context, x.buffer);
    clprune_buffer_release(context, y.buffer);
    return status;
}

struct row {
    const char *name, *settings;
    operation *run_it;
    unsigned refusals;    /* of the first run */
    const char *parts[2]; /* of the last warning, or of the error */
};

static const struct row smaller_rows[] = {
    {"selection", "refuse=prune_select:100", prune, 2,
        {"kernel prune_select in", "of 128 with CL_INVALID_WORK_GROUP_SIZE (-54); trying 64"}},
    {"selection, out of resources", "refuse=prune_select:64,code=-5", prune, 2,
        {"CL_OUT_OF_RESOURCES (-5)", "trying 64"}},
    {"draws", "refuse=prune_draw:2", prune, 5, {"kernel prune_draw", "trying 2"}},
    {"scores", "refuse=prune_score:8", prune, 2, {"kernel prune_score", "trying 8"}},
    {"an index", "refuse=bsr_index:3", prune, 5, {"kernel bsr_index", "trying 2"}},
    {"packing", "refuse=bsr_pack:32", prune, 1, {"kernel bsr_pack", "trying 32"}},
    {"unpacking", "refuse=bsr_unpack:16", prune, 2, {"kernel bsr_unpack", "trying 16"}},
    {"elements", "refuse=relu_forward:2", relu, 6, {"kernel relu_forward", "trying 2"}},
    {"a fill", "refuse=fill:64", moments, 1, {"kernel fill", "of 128 "}},
    {"moments", "refuse=batch_norm_partial:64", moments, 1,
        {"kernel batch_norm_partial", "trying 64"}},
    {"merged moments", "refuse=batch_norm_merge:64", moments, 1,
        {"kernel batch_norm_merge", "trying 64"}},
    {"max pooling", "refuse=max_pool_forward:64", pool, 1,
        {"kernel max_pool_forward", "trying 64"}},
};

static const struct row refused_rows[] = {
    {"one work-item", "refuse=relu_forward:1", relu, 6,
        {"kernel relu_forward in work-groups of 2 x 1 x 1 with CL_INVALID_WORK_GROUP_SIZE (-54)",
            "kernels=vector"}},
    {"fewer than lanes", "refuse=batch_norm_forward:32", lanes, 2,
        {"kernel batch_norm_forward in work-groups of 64 x 1 x 1", "kernels=vector"}},
    {"resources", "refuse=relu_forward:8,code=-5", relu, 2,
        {"kernel relu_forward", "CL_OUT_OF_RESOURCES (-5)"}},
    {"tiles", "refuse=gemm_tiled:32", product, 0,
        {"kernel gemm_tiled in work-groups of 64 x 1 x 1 with", "kernels=vector"}},
};

static float *floats(void)
{
    float *made = test_alloc(ROWS * COLS * sizeof(float));
    return made;
}

static void smaller(void **state)
{
    const struct row *row = *state;
    float *want = floats(), *got = floats();
    clprune_context *context = create();
    assert_int_equal(run(context, row->run_it, want), CLPRUNE_SUCCESS);
    test_end(context);
    context = create();
    device_layer_set(row->settings);
    for (int i = 0; i < 2; i++) { /* the second run knows */
        if (run(context, row->run_it, got) != CLPRUNE_SUCCESS)
            fail_msg("%s", clprune_last_error(context));
        if (row->run_it != moments)
            test_same_floats(row->name, ROWS, COLS, got, want, "run %d", i);
        for (int k = 0; k < ROWS * COLS; k++) /* sums in another order */
            assert_true(fabsf(got[k] - want[k]) <= 1e-5f * (1 + fabsf(want[k])));
        assert_int_equal(warnings, row->refusals);
        for (int p = 0; p < 2 && row->parts[p] != NULL; p++)
            if (strstr(logged, row->parts[p]) == NULL)
                fail_msg("\"%s\" is not in \"%s\"", row->parts[p], logged);
    }
    device_layer_set(NULL);
}

static void refused(void **state)
{
    const struct row *row = *state;
    float *got = floats();
    clprune_context *context = create();
    device_layer_set(row->settings);
    const clprune_status status = run(context, row->run_it, got);
    assert_int_equal(status, strstr(row->settings, "code=-5") != NULL ? CLPRUNE_OUT_OF_DEVICE_MEMORY
                                                                      : CLPRUNE_UNSUPPORTED);
    const char *text = clprune_last_error(context);
    for (int p = 0; p < 2; p++)
        if (strstr(text, row->parts[p]) == NULL)
            fail_msg("\"%s\" is not in \"%s\"", row->parts[p], text);
    assert_int_equal(warnings, row->refusals);
    device_layer_set(NULL);
    assert_int_equal(run(context, row->run_it, got), CLPRUNE_SUCCESS);
    /* With the full group again; of lanes, the first launch ran in the smaller one. */
    device_layer_set(row->settings);
    assert_int_equal(run(context, row->run_it, got), status);
    assert_int_equal(warnings, (row->run_it == lanes ? 1 : 2) * row->refusals);
    device_layer_set(NULL);
}

/* Local memory for the strip of a convolution's source, but hardly for more. */
static void local_memory(NO_ROW)
{
    const clprune_context_options options = {
        .cache_dir = "off", .kernels = CLPRUNE_KERNELS_VECTOR, .log = keep_log};
    const clprune_conv2d_desc desc = {.in = 4, .out = 4, .kernel = {2, 2}, .padding = {1, 1}};
    const clprune_extent image = {3, 3};
    clprune_context *context;
    clprune_conv2d *layer;
    clprune_mat x, w, y;
    float results[16 * 4];
    device_layer_set("local=330000");
    TEST_OK(clprune_context_create(NULL, &options, &context));
    TEST_OK(clprune_mat_create(context, CLPRUNE_MEMORY_INPUT, "x", 9, 4, &x));
    TEST_OK(clprune_mat_create(context, CLPRUNE_MEMORY_INPUT, "w", 4, 16, &w));
    TEST_OK(clprune_mat_create(context, CLPRUNE_MEMORY_INPUT, "y", 16, 4, &y));
    TEST_OK(clprune_mat_fill(context, 1, x, NULL));
    TEST_OK(clprune_mat_fill(context, 2, w, NULL));
    TEST_OK(clprune_conv2d_create(context, &desc, &layer));
    if (clprune_conv2d_forward(layer, 1, image, x, w, CLPRUNE_NO_MAT, y, NULL, NULL) !=
        CLPRUNE_SUCCESS)
        fail_msg("%s", clprune_last_error(context));
    TEST_OK(clprune_mat_read(context, y, results));
    device_layer_set(NULL);
    assert_true(results[0] == 8);      /* a corner: 1 tap of 4 channels */
    assert_true(results[5 * 4] == 32); /* inside: 4 taps */
    clprune_conv2d_destroy(layer);
    close_context(context, 3, (const clprune_mat[]){x, w, y});
}

/* Products of many rows and images of many pixels take no more groups along the second and the
 * third dimension than a device has there: on some GPUs 65535. */
static void many_groups(NO_ROW)
{
    enum { HEIGHT = 80, WIDTH = 100, PIXELS = HEIGHT * WIDTH, CHANNELS = 3 };
    const clprune_extent image = {HEIGHT, WIDTH};
    const clprune_conv2d_desc desc = {
        .in = CHANNELS, .out = CHANNELS, .kernel = {2, 1}, .dilation = {HEIGHT / 2, 1}};
    float *values = test_new_normal(9, PIXELS * CHANNELS), *got[2][3];
    for (int run = 0; run < 2; run++) {
        device_layer_set(run == 0 ? NULL : "groups=60");
        clprune_context *context = create();
        clprune_conv2d *layer = NULL;
        clprune_mat x, w, y[3];
        const size_t rows[3] = {PIXELS, PIXELS / 2, PIXELS};
        TEST_OK(clprune_mat_create(context, CLPRUNE_MEMORY_INPUT, "x", PIXELS, CHANNELS, &x));
        TEST_OK(clprune_mat_create(context, CLPRUNE_MEMORY_INPUT, "w", CHANNELS, 2 * CHANNELS, &w));
        for (int i = 0; i < 3; i++)
            TEST_OK(clprune_mat_create(
                context, CLPRUNE_MEMORY_ACTIVATIONS, "y", rows[i], CHANNELS, &y[i]));
        TEST_OK(clprune_mat_write(context, x, values));
        TEST_OK(clprune_mat_write(context, w, values));
        const clprune_mat square = {w.buffer, 0, CHANNELS, CHANNELS, w.ld};
        TEST_OK(
            clprune_gemm_batched(context, 1, false, false, 1, 0, x, 0, square, 0, y[0], 0, NULL));
        TEST_OK(clprune_conv2d_create(context, &desc, &layer));
        TEST_OK(clprune_conv2d_forward(layer, 1, image, x, w, CLPRUNE_NO_MAT, y[1], NULL, NULL));
        TEST_OK(clprune_conv2d_backward(
            layer, 1, image, NULL, y[1], w, &(clprune_grads){.dx = y[2]}, NULL));
        for (int i = 0; i < 3; i++) {
            got[run][i] = test_alloc(rows[i] * CHANNELS * sizeof(float));
            TEST_OK(clprune_mat_read(context, y[i], got[run][i]));
            if (run == 1)
                test_same_floats("y", rows[i], CHANNELS, got[1][i], got[0][i], "result %d", i);
        }
        clprune_conv2d_destroy(layer);
        close_context(context, 5, (const clprune_mat[]){x, w, y[0], y[1], y[2]});
    }
    device_layer_set(NULL);
}

/* A layer over rows from `in` tokens, with codes for its input. */
static void rows_layer(
    clprune_context *context, size_t in, clprune_mat x, clprune_mat dy, clprune_mat dw)
{
    const clprune_linear_desc desc = {.in = in,
        .out = dw.rows,
        .axis = CLPRUNE_AXIS_ROWS,
        .keep = {.form = CLPRUNE_FORM_QUANTISED, .bits = 8}};
    clprune_linear *layer;
    clprune_saved *saved;
    TEST_OK(clprune_linear_create(context, &desc, &layer));
    TEST_OK(clprune_linear_saved_create(layer, x.rows / in, x.cols, "x", &saved));
    TEST_OK(clprune_saved_store(saved, 0, x.rows / in, x, NULL));
    TEST_OK(clprune_linear_backward(
        layer, x.rows / in, saved, dy, CLPRUNE_NO_MAT, &(clprune_grads){.dw = dw}, NULL));
    clprune_saved_destroy(saved);
    clprune_linear_destroy(layer);
}

/* A convolution of images of 3 x 1 pixels: its dw from their means and blocks. */
static void centred_conv(clprune_context *context, clprune_mat x, clprune_mat dw)
{
    const clprune_conv2d_desc desc = {.in = x.cols,
        .out = x.cols,
        .kernel = {2, 1},
        .padding = {1, 0},
        .keep = {.form = CLPRUNE_FORM_PRUNED,
            .sparsity = 0.5f,
            .block = {1, 2},
            .centre = CLPRUNE_CENTRE_SAMPLE}};
    const clprune_extent image = {3, 1};
    clprune_conv2d *layer;
    clprune_saved *saved;
    clprune_mat dy;
    TEST_OK(clprune_conv2d_create(context, &desc, &layer));
    TEST_OK(clprune_conv2d_saved_create(layer, x.rows / 3, image, "x", &saved));
    TEST_OK(clprune_saved_store(saved, 0, x.rows / 3, x, NULL));
    TEST_OK(
        clprune_mat_create(context, CLPRUNE_MEMORY_ACTIVATIONS, "dy", x.rows / 3 * 4, x.cols, &dy));
    TEST_OK(clprune_mat_fill(context, 0.5f, dy, NULL));
    TEST_OK(clprune_conv2d_backward(
        layer, x.rows / 3, image, saved, dy, CLPRUNE_NO_MAT, &(clprune_grads){.dw = dw}, NULL));
    clprune_buffer_release(context, dy.buffer);
    clprune_saved_destroy(saved);
    clprune_conv2d_destroy(layer);
}

/* Nor do many samples: means, rows of sums over the samples, images with a centre. */
static void many_samples(NO_ROW)
{
    enum { SAMPLES = 70, COLS_OF_X = 6, ALL = SAMPLES * SAMPLES * COLS_OF_X };
    static const struct {
        const char *name;
        size_t rows, cols;
    } results[3] = {{"means", SAMPLES, COLS_OF_X}, {"dw of a layer over rows", SAMPLES, 3},
        {"dw of a convolution", 6, 12}};
    float *values = test_new_normal(10, ALL), *want[3];
    for (int run = 0; run < 2; run++) {
        device_layer_set(run == 0 ? NULL : "groups=60");
        clprune_context *context = create();
        clprune_mat x, dy, y[3];
        TEST_OK(clprune_mat_create(context, CLPRUNE_MEMORY_INPUT, "x", SAMPLES * 3, COLS_OF_X, &x));
        TEST_OK(clprune_mat_create(
            context, CLPRUNE_MEMORY_INPUT, "dy", SAMPLES * SAMPLES, COLS_OF_X, &dy));
        TEST_OK(clprune_mat_write(context, x, values));
        TEST_OK(clprune_mat_write(context, dy, values));
        for (int i = 0; i < 3; i++) { /* rows with gaps but for the last */
            TEST_OK(clprune_mat_create(
                context, CLPRUNE_MEMORY_ACTIVATIONS, "y", results[i].rows, 12, &y[i]));
            y[i].cols = results[i].cols;
        }
        TEST_OK(clprune_token_mean_forward(context, SAMPLES, 3, x, y[0], NULL));
        rows_layer(context, 3, clprune_mat_rows(x, 0, 3 * 50),
            clprune_mat_rows(dy, 0, 50 * SAMPLES), y[1]);
        centred_conv(context, x, y[2]);
        for (int i = 0; i < 3; i++) {
            const size_t rows = results[i].rows, cols = results[i].cols;
            float *got = test_alloc(rows * cols * sizeof(float));
            TEST_OK(clprune_mat_read(context, y[i], got));
            if (run == 0) {
                want[i] = got;
                continue;
            }
            test_same_floats("y", rows, cols, got, want[i], "%s", results[i].name);
        }
        close_context(context, 5, (const clprune_mat[]){x, dy, y[0], y[1], y[2]});
    }
    device_layer_set(NULL);
}

/* Prunes x in blocks of one value to 1 of 10 and multiplies: dw = dy^T * x, or with nt dy * x^T. */
static void pruned_product(
    clprune_context *context, bool nt, clprune_mat dy, clprune_mat x, clprune_mat dw)
{
    const size_t keep = x.rows * x.cols / 10;
    const clprune_bsr_desc desc = {1, x.rows, x.cols, {1, 1}, keep, CLPRUNE_VALUES_FP32, 0, {0}};
    clprune_bsr bsr;
    TEST_OK(clprune_bsr_create(context, CLPRUNE_MEMORY_ACTIVATIONS, "bsr", &desc, &bsr));
    TEST_OK(clprune_prune(context, CLPRUNE_NORM_L2, CLPRUNE_CRITERION_LARGEST, 0, x, &bsr, NULL));
    if (nt)
        TEST_OK(clprune_bspmm_nt(context, 1, 0, dy, &bsr, dw, NULL));
    else
        TEST_OK(clprune_bspmm_tn(context, 1, 0, dy, &bsr, dw, NULL));
    clprune_bsr_destroy(context, &bsr);
}

/* A convolution with one result for an image: its dw from x that is kept as `keep` says. */
static void large_kernel(clprune_context *context, clprune_extent image, clprune_keep keep,
    clprune_mat dy, clprune_mat x, clprune_mat dw)
{
    const clprune_conv2d_desc desc = {.in = x.cols, .out = dy.cols, .kernel = image, .keep = keep};
    clprune_conv2d *layer;
    clprune_saved *saved;
    TEST_OK(clprune_conv2d_create(context, &desc, &layer));
    TEST_OK(clprune_conv2d_saved_create(layer, dy.rows, image, "x", &saved));
    TEST_OK(clprune_saved_store(saved, 0, dy.rows, x, NULL));
    TEST_OK(clprune_conv2d_backward(
        layer, dy.rows, image, saved, dy, CLPRUNE_NO_MAT, &(clprune_grads){.dw = dw}, NULL));
    clprune_saved_destroy(saved);
    clprune_conv2d_destroy(layer);
}

/* Nor do long rows of dw: from kept blocks along columns or rows, and of convolutions. */
static void many_columns(NO_ROW)
{
    enum { OUT = 3, COLS_OF_X = 4, LONG = 7800, IN = 62, RESULTS = 4 };
    const clprune_extent image = {7, 9};
    const size_t pixels = image.height * image.width,
                 cols[RESULTS] = {LONG, LONG, pixels * IN, pixels * IN};
    float *values = test_new_normal(11, LONG * COLS_OF_X), *want[RESULTS];
    for (int run = 0; run < 2; run++) {
        device_layer_set(run == 0 ? NULL : "groups=60");
        clprune_context *context = create();
        clprune_mat wide, tall, pixel, dy, dw[RESULTS];
        TEST_OK(clprune_mat_create(context, CLPRUNE_MEMORY_INPUT, "x", COLS_OF_X, LONG, &wide));
        TEST_OK(clprune_mat_create(context, CLPRUNE_MEMORY_INPUT, "x", LONG, COLS_OF_X, &tall));
        TEST_OK(clprune_mat_create(context, CLPRUNE_MEMORY_INPUT, "x", pixels, IN, &pixel));
        TEST_OK(clprune_mat_create(context, CLPRUNE_MEMORY_INPUT, "dy", COLS_OF_X, COLS_OF_X, &dy));
        for (int i = 0; i < RESULTS; i++)
            TEST_OK(
                clprune_mat_create(context, CLPRUNE_MEMORY_GRADIENTS, "dw", OUT, cols[i], &dw[i]));
        TEST_OK(clprune_mat_write(context, wide, values));
        TEST_OK(clprune_mat_write(context, tall, values));
        TEST_OK(clprune_mat_write(context, pixel, values));
        TEST_OK(clprune_mat_write(context, dy, values));
        clprune_mat narrow = dy, one = clprune_mat_rows(dy, 0, 1);
        narrow.cols = one.cols = OUT;
        pruned_product(context, false, narrow, wide, dw[0]);
        pruned_product(context, true, clprune_mat_rows(dy, 0, OUT), tall, dw[1]);
        large_kernel(context, image, (clprune_keep){.form = CLPRUNE_FORM_DENSE}, one, pixel, dw[2]);
        large_kernel(context, image,
            (clprune_keep){.form = CLPRUNE_FORM_PRUNED, .sparsity = 0.5f, .block = {1, 1}}, one,
            pixel, dw[3]);
        for (int i = 0; i < RESULTS; i++) {
            float *got = test_alloc(OUT * cols[i] * sizeof(float));
            TEST_OK(clprune_mat_read(context, dw[i], got));
            if (run == 0) {
                want[i] = got;
                continue;
            }
            test_same_floats("dw", OUT, cols[i], got, want[i], "product %d", i);
        }
        close_context(
            context, 8, (const clprune_mat[]){wide, tall, pixel, dy, dw[0], dw[1], dw[2], dw[3]});
    }
    device_layer_set(NULL);
}

/* Dense products of more samples than a launch takes, also of codes. */
static void many_products(NO_ROW)
{
    enum { SAMPLES = 65535 + 2, FEATURES = 2 };
    device_layer_set("groups=65535");
    clprune_context *context = create();
    clprune_mat x, y, dy, dw;
    float *values = test_alloc(((size_t)SAMPLES * FEATURES) * sizeof(float)), sum[3], want = 0;
    TEST_OK(clprune_mat_create(context, CLPRUNE_MEMORY_INPUT, "x", SAMPLES, FEATURES, &x));
    TEST_OK(clprune_mat_create(context, CLPRUNE_MEMORY_INPUT, "y", SAMPLES, 1, &y));
    TEST_OK(clprune_mat_create(context, CLPRUNE_MEMORY_INPUT, "dy", SAMPLES * 3, FEATURES, &dy));
    TEST_OK(clprune_mat_create(context, CLPRUNE_MEMORY_INPUT, "dw", 3, 1, &dw));
    for (size_t i = 0; i < SAMPLES; i++) { /* a row is a group of codes: exact */
        values[i * FEATURES] = values[i * FEATURES + 1] = (float)(i % 7);
        want += (float)(i % 7) * FEATURES;
    }
    TEST_OK(clprune_mat_write(context, x, values));
    TEST_OK(clprune_mat_fill(context, 1, dy, NULL));
    TEST_OK(clprune_gemm_batched(context, SAMPLES, false, true, 1, 0, clprune_mat_rows(x, 0, 1),
        x.ld, clprune_mat_rows(dy, 0, 1), dy.ld, clprune_mat_rows(y, 0, 1), y.ld, NULL));
    rows_layer(context, 1, x, dy, dw);
    TEST_OK(clprune_mat_read(context, dw, sum));
    for (int i = 0; i < 3; i++)
        assert_true(sum[i] == want);
    TEST_OK(clprune_mat_read(context, y, values));
    for (size_t i = 0; i < SAMPLES; i++)
        if (values[i] != (float)(i % 7 * FEATURES))
            fail_msg("sample %zu: %g", i, (double)values[i]);
    close_context(context, 4, (const clprune_mat[]){x, y, dy, dw});
    device_layer_set(NULL);
}

/* Below 64 work-items, the family that needs no groups. */
static void families(NO_ROW)
{
    const clprune_device_info gpus[] = {
        {.type = CL_DEVICE_TYPE_GPU, .compute_units = 4, .vector_width = 1, .max_work_group = 64},
        {.type = CL_DEVICE_TYPE_GPU, .compute_units = 4, .vector_width = 1, .max_work_group = 63}};
    const clprune_kernels want[] = {CLPRUNE_KERNELS_TILED, CLPRUNE_KERNELS_VECTOR};
    for (int i = 0; i < 2; i++) {
        clprune_context *context = test_open_dry(&gpus[i], NULL);
        assert_int_equal(clprune_context_kernels(context), want[i]);
        test_end(context);
    }
}

int main(void)
{
    if (!device_layer_is_loaded()) {
        print_message("work-groups: $OPENCL_LAYERS has no device layer that the loader knows\n");
        return TEST_SKIPPED;
    }
    test_list list = {0};
    for (size_t i = 0; i < sizeof smaller_rows / sizeof smaller_rows[0]; i++)
        test_add(&list, smaller, &smaller_rows[i], "smaller: %s", smaller_rows[i].name);
    for (size_t i = 0; i < sizeof refused_rows / sizeof refused_rows[0]; i++)
        test_add(&list, refused, &refused_rows[i], "refused: %s", refused_rows[i].name);
    test_add(&list, local_memory, NULL, "local memory");
    test_add(&list, many_groups, NULL, "many groups");
    test_add(&list, many_samples, NULL, "many samples");
    test_add(&list, many_columns, NULL, "many columns");
    test_add(&list, many_products, NULL, "many products");
    test_add(&list, families, NULL, "families");
    return test_run_on_host("work-groups", &list);
}
