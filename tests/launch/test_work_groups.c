/* Devices with small work-groups, and drivers that refuse a kernel's group size
 * (support/device_layer.c). If the kernel allows smaller groups, they give the same results; else
 * the text names the kernel. CTest loads the layer; without it the test is skipped.
 *
 * The smaller group is remembered and logged. A convolution takes no more local memory than the
 * device has. Many rows, columns, pixels or samples take no more groups along the second and third
 * dimension than the device has. */
#include "support/device_layer.h"
#include "support/fault_case.h"
#include "support/test.h"

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

static clprune_context *create_with(clprune_kernels kernels)
{
    const clprune_context_options options = {
        .cache_dir = "off", .kernels = kernels, .log = keep_log};
    clprune_context *context = test_open_on(NULL, &options);
    warnings = 0;
    logged[0] = '\0';
    return context;
}

static clprune_context *create(void)
{
    return create_with(CLPRUNE_KERNELS_TILED);
}

static void check_parts(const char *text, const char *const *parts)
{
    for (int p = 0; p < 2 && parts[p] != NULL; p++)
        test_says(text, parts[p]);
}

/* Operations of ROWS x COLS floats: x to y, all of them written. */
typedef clprune_status operation(clprune_context *context, clprune_mat x, clprune_mat y);

static clprune_status prune(clprune_context *context, clprune_mat x, clprune_mat y)
{
    const clprune_bsr_desc desc = {1, ROWS, COLS, {1, 4}, 700, CLPRUNE_VALUES_FP16, 0, {0}};
    clprune_bsr bsr;
    clprune_status status =
        clprune_bsr_create(context, CLPRUNE_MEMORY_ACTIVATIONS, "bsr", &desc, &bsr);
    THEN(clprune_prune(context, CLPRUNE_NORM_L2, CLPRUNE_CRITERION_SAMPLED, 5, x, &bsr, NULL));
    THEN(clprune_bsr_unpack(context, &bsr, y, NULL));
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
    THEN(clprune_batch_norm_moments(context, 0, x, mean, m2, NULL));
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
    const size_t mark = test_mark();
    const clprune_mat x = test_new_mat_of(
                          context, "x", ROWS, COLS, test_new_normal(3, ROWS * COLS)),
                      y = test_new_mat(context, ROWS, COLS);
    clprune_status status = run_it(context, x, y);
    THEN(clprune_mat_read(context, y, result));
    test_release(mark);
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

static void smaller(void **state)
{
    const struct row *row = *state;
    float *want = test_floats(ROWS * COLS), *got = test_floats(ROWS * COLS);
    TEST_OK(run(create(), row->run_it, want));
    clprune_context *context = create();
    device_layer_set(row->settings);
    for (int i = 0; i < 2; i++) { /* the second run knows */
        TEST_OK(run(context, row->run_it, got));
        if (row->run_it != moments)
            test_same_floats(row->name, ROWS, COLS, got, want, "run %d", i);
        for (int k = 0; k < ROWS * COLS; k++) /* sums in another order */
            assert_true(fabsf(got[k] - want[k]) <= 1e-5f * (1 + fabsf(want[k])));
        assert_int_equal(warnings, row->refusals);
        check_parts(logged, row->parts);
    }
}

static void refused(void **state)
{
    const struct row *row = *state;
    float *got = test_floats(ROWS * COLS);
    clprune_context *context = create();
    device_layer_set(row->settings);
    const clprune_status status = run(context, row->run_it, got);
    assert_int_equal(status, strstr(row->settings, "code=-5") != NULL ? CLPRUNE_OUT_OF_DEVICE_MEMORY
                                                                      : CLPRUNE_UNSUPPORTED);
    check_parts(clprune_last_error(context), row->parts);
    assert_int_equal(warnings, row->refusals);
    device_layer_set(NULL);
    TEST_OK(run(context, row->run_it, got));
    /* With the full group again; of lanes, the first launch ran in the smaller one. */
    device_layer_set(row->settings);
    assert_int_equal(run(context, row->run_it, got), status);
    assert_int_equal(warnings, (row->run_it == lanes ? 1 : 2) * row->refusals);
}

/* Local memory for the strip of a convolution's source, but hardly for more. */
static void local_memory(NO_ROW)
{
    const clprune_conv2d_desc desc = {.in = 4, .out = 4, .kernel = {2, 2}, .padding = {1, 1}};
    const clprune_extent image = {3, 3};
    float results[16 * 4];
    device_layer_set("local=330000");
    clprune_context *context = create_with(CLPRUNE_KERNELS_VECTOR);
    clprune_conv2d *layer = test_new_conv2d(context, desc);
    const clprune_mat x = test_new_mat(context, 9, 4), w = test_new_mat(context, 4, 16),
                      y = test_new_mat(context, 16, 4);
    TEST_OK(clprune_mat_fill(context, 1, x, NULL));
    TEST_OK(clprune_mat_fill(context, 2, w, NULL));
    TEST_OK(clprune_conv2d_forward(layer, 1, image, x, w, CLPRUNE_NO_MAT, y, NULL, NULL));
    TEST_OK(clprune_mat_read(context, y, results));
    assert_true(results[0] == 8);      /* a corner: 1 tap of 4 channels */
    assert_true(results[5 * 4] == 32); /* inside: 4 taps */
}

enum { RESULTS = 4 };

typedef struct result {
    const char *name; /* NULL: no more */
    size_t rows, cols;
} result;

/* A device of few groups computes the same results from `values`. */
static void same_in_few_groups(const result *results, const float *values,
    void (*compute)(clprune_context *context, const float *values, clprune_mat *y))
{
    float *got[2][RESULTS];
    for (int run = 0; run < 2; run++) {
        device_layer_set(run == 0 ? NULL : "groups=60");
        clprune_context *context = create();
        clprune_mat y[RESULTS];
        for (int i = 0; i < RESULTS && results[i].name != NULL; i++)
            y[i] = test_new_mat(context, results[i].rows, results[i].cols);
        compute(context, values, y);
        for (int i = 0; i < RESULTS && results[i].name != NULL; i++) {
            const size_t rows = results[i].rows, cols = results[i].cols;
            got[run][i] = test_floats(rows * cols);
            TEST_OK(clprune_mat_read(context, y[i], got[run][i]));
            test_same_floats("y", rows, cols, got[run][i], got[0][i], "%s", results[i].name);
        }
    }
}

enum { HEIGHT = 80, WIDTH = 100, PIXELS = HEIGHT * WIDTH, CHANNELS = 3 };

static void compute_groups(clprune_context *context, const float *values, clprune_mat *y)
{
    const clprune_extent image = {HEIGHT, WIDTH};
    const clprune_mat x = test_new_mat_of(context, "x", PIXELS, CHANNELS, values),
                      w = test_new_mat_of(context, "w", CHANNELS, 2 * CHANNELS, values),
                      square = {w.buffer, 0, CHANNELS, CHANNELS, w.ld}, none = CLPRUNE_NO_MAT;
    clprune_conv2d *layer = test_new_conv2d(context,
        (clprune_conv2d_desc){
            .in = CHANNELS, .out = CHANNELS, .kernel = {2, 1}, .dilation = {HEIGHT / 2, 1}});
    TEST_OK(clprune_gemm_batched(context, 1, false, false, 1, 0, x, 0, square, 0, y[0], 0, NULL));
    TEST_OK(clprune_conv2d_forward(layer, 1, image, x, w, none, y[1], NULL, NULL));
    TEST_OK(clprune_conv2d_backward(
        layer, 1, image, NULL, y[1], w, &(clprune_grads){.dx = y[2]}, NULL));
}

/* Products of many rows and images of many pixels take no more groups along the second and the
 * third dimension than a device has there: on some GPUs 65535. */
static void many_groups(NO_ROW)
{
    static const result results[RESULTS] = {{"product", PIXELS, CHANNELS},
        {"convolution", PIXELS / 2, CHANNELS}, {"dx", PIXELS, CHANNELS}};
    same_in_few_groups(results, test_new_normal(9, PIXELS * CHANNELS), compute_groups);
}

/* A layer over rows from `in` tokens, with codes for its input. */
static void rows_layer(
    clprune_context *context, size_t in, clprune_mat x, clprune_mat dy, clprune_mat dw)
{
    const clprune_keep codes = {.form = CLPRUNE_FORM_QUANTISED, .bits = 8};
    const size_t batch = x.rows / in;
    clprune_linear *layer = test_new_linear(context,
        (clprune_linear_desc){.in = in, .out = dw.rows, .axis = CLPRUNE_AXIS_ROWS, .keep = codes});
    clprune_saved *saved = test_new_saved(context, codes, batch, in, x.cols);
    TEST_OK(clprune_saved_store(saved, 0, batch, x, NULL));
    TEST_OK(clprune_linear_backward(
        layer, batch, saved, dy, CLPRUNE_NO_MAT, &(clprune_grads){.dw = dw}, NULL));
}

/* The dw of a convolution of images, from x that is kept as the layer says. */
static void conv_dw(clprune_context *context, clprune_conv2d_desc desc, clprune_extent image,
    clprune_mat dy, clprune_mat x, clprune_mat dw)
{
    const size_t batch = x.rows / (image.height * image.width);
    clprune_conv2d *layer = test_new_conv2d(context, desc);
    clprune_saved *saved = test_new_conv2d_saved(context, layer, batch, image);
    TEST_OK(clprune_saved_store(saved, 0, batch, x, NULL));
    TEST_OK(clprune_conv2d_backward(
        layer, batch, image, saved, dy, CLPRUNE_NO_MAT, &(clprune_grads){.dw = dw}, NULL));
}

enum { SAMPLES = 70, FEW = 6 };

static void compute_samples(clprune_context *context, const float *values, clprune_mat *y)
{
    const clprune_mat x = test_new_mat_of(context, "x", SAMPLES * 3, FEW, values),
                      dy = test_new_mat_of(context, "dy", SAMPLES * SAMPLES, FEW, values),
                      halves = test_new_mat(context, SAMPLES * 4, FEW);
    const clprune_conv2d_desc centred = {.in = FEW,
        .out = FEW,
        .kernel = {2, 1},
        .padding = {1, 0},
        .keep = {.form = CLPRUNE_FORM_PRUNED,
            .sparsity = 0.5f,
            .block = {1, 2},
            .centre = CLPRUNE_CENTRE_SAMPLE}};
    for (int i = 0; i < 2; i++) /* rows with gaps */
        y[i] =
            (clprune_mat){test_new_mat(context, SAMPLES, 12).buffer, 0, y[i].rows, y[i].cols, 12, CLPRUNE_VALUES_FP32};
    TEST_OK(clprune_mat_fill(context, 0.5f, halves, NULL));
    TEST_OK(clprune_token_mean_forward(context, SAMPLES, 3, x, y[0], NULL));
    rows_layer(
        context, 3, clprune_mat_rows(x, 0, 3 * 50), clprune_mat_rows(dy, 0, 50 * SAMPLES), y[1]);
    conv_dw(context, centred, (clprune_extent){3, 1}, halves, x, y[2]);
}

/* Nor do many samples: means, rows of sums over the samples, images with a centre. */
static void many_samples(NO_ROW)
{
    static const result results[RESULTS] = {{"means", SAMPLES, FEW},
        {"dw of a layer over rows", SAMPLES, 3}, {"dw of a convolution", FEW, 2 * FEW}};
    same_in_few_groups(results, test_new_normal(10, SAMPLES * SAMPLES * FEW), compute_samples);
}

/* Prunes x in blocks of one value to 1 of 10, for products. */
static clprune_bsr pruned(clprune_context *context, clprune_mat x)
{
    const clprune_bsr bsr = test_new_bsr(context,
        (clprune_bsr_desc){1, x.rows, x.cols, {1, 1}, x.rows * x.cols / 10, CLPRUNE_VALUES_FP32});
    TEST_OK(clprune_prune(context, CLPRUNE_NORM_L2, CLPRUNE_CRITERION_LARGEST, 0, x, &bsr, NULL));
    return bsr;
}

enum { OUTPUTS = 3, SIDE = 4, LONG = 7800, HIGH = 7, WIDE = 9, AREA = HIGH * WIDE, IN = 62 };

static void compute_columns(clprune_context *context, const float *values, clprune_mat *y)
{
    static const clprune_extent image = {HIGH, WIDE};
    const clprune_mat wide = test_new_mat_of(context, "x", SIDE, LONG, values),
                      tall = test_new_mat_of(context, "x", LONG, SIDE, values),
                      pixel = test_new_mat_of(context, "x", AREA, IN, values),
                      dy = test_new_mat_of(context, "dy", SIDE, SIDE, values);
    clprune_mat narrow = dy, one = clprune_mat_rows(dy, 0, 1);
    narrow.cols = one.cols = OUTPUTS;
    const clprune_bsr rows = pruned(context, wide), columns = pruned(context, tall);
    TEST_OK(clprune_bspmm_tn(context, 1, 0, narrow, &rows, y[0], NULL));
    TEST_OK(
        clprune_bspmm_nt(context, 1, 0, clprune_mat_rows(dy, 0, OUTPUTS), &columns, y[1], NULL));
    clprune_conv2d_desc desc = {
        .in = IN, .out = OUTPUTS, .kernel = image}; /* one result an image */
    conv_dw(context, desc, image, one, pixel, y[2]);
    desc.keep = (clprune_keep){.form = CLPRUNE_FORM_PRUNED, .sparsity = 0.5f, .block = {1, 1}};
    conv_dw(context, desc, image, one, pixel, y[3]);
}

/* Nor do long rows of dw: from kept blocks along columns or rows, and of convolutions. */
static void many_columns(NO_ROW)
{
    static const result results[RESULTS] = {{"tn", OUTPUTS, LONG}, {"nt", OUTPUTS, LONG},
        {"dense dw", OUTPUTS, AREA * IN}, {"pruned dw", OUTPUTS, AREA * IN}};
    same_in_few_groups(results, test_new_normal(11, LONG * SIDE), compute_columns);
}

/* Dense products of more samples than a launch takes, also of codes. */
static void many_products(NO_ROW)
{
    enum { MANY = 65535 + 2, FEATURES = 2 };
    device_layer_set("groups=65535");
    clprune_context *context = create();
    float *values = test_floats((size_t)MANY * FEATURES), sum[3], want = 0;
    for (size_t i = 0; i < MANY; i++) { /* a row is a group of codes: exact */
        values[i * FEATURES] = values[i * FEATURES + 1] = (float)(i % 7);
        want += (float)(i % 7) * FEATURES;
    }
    const clprune_mat x = test_new_mat_of(context, "x", MANY, FEATURES, values),
                      y = test_new_mat(context, MANY, 1),
                      dy = test_new_mat(context, MANY * 3, FEATURES),
                      dw = test_new_mat(context, 3, 1);
    TEST_OK(clprune_mat_fill(context, 1, dy, NULL));
    TEST_OK(clprune_gemm_batched(context, MANY, false, true, 1, 0, clprune_mat_rows(x, 0, 1), x.ld,
        clprune_mat_rows(dy, 0, 1), dy.ld, clprune_mat_rows(y, 0, 1), y.ld, NULL));
    rows_layer(context, 1, x, dy, dw);
    TEST_OK(clprune_mat_read(context, dw, sum));
    for (int i = 0; i < 3; i++)
        assert_true(sum[i] == want);
    TEST_OK(clprune_mat_read(context, y, values));
    for (size_t i = 0; i < MANY; i++)
        if (values[i] != (float)(i % 7 * FEATURES))
            fail_msg("sample %zu: %g", i, (double)values[i]);
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
    TEST_ADD_EACH(&list, smaller, smaller_rows, "smaller: %s");
    TEST_ADD_EACH(&list, refused, refused_rows, "refused: %s");
    test_add(&list, local_memory, NULL, "local memory");
    test_add(&list, many_groups, NULL, "many groups");
    test_add(&list, many_samples, NULL, "many samples");
    test_add(&list, many_columns, NULL, "many columns");
    test_add(&list, many_products, NULL, "many products");
    test_add(&list, families, NULL, "families");
    return test_run_on_host("work-groups", &list);
}
