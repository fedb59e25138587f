/* Nets of several inputs, and gradients by inputs: two inputs have the bits of one with their
 * features; gradients are slopes, in each preset, layout and part of a batch; what is refused. */
#include <math.h>

#include "net/net_models.h"

enum { BATCH = 6, SIDE = 8, ROWS = 5, COLS = 16, CHANNELS = 4, WIDE = 3 };

/* ---- images, tokens, rows and pixels in one -------------------------------------------------- */

static clprune_net_value tower(clprune_net *net, const char *name, clprune_net_value x)
{
    clprune_net_part(net, name);
    x = clprune_net_conv2d(net, "conv", x,
        &(clprune_net_conv){.out = COLS, .kernel = {3, 3}, .padding = {1, 1}, .bias = true});
    x = clprune_net_mean(net, "mean", clprune_net_gelu(net, "gelu", x));
    clprune_net_part(net, NULL);
    return x;
}

/* seed 1: the pixels' and rows' gradients are wanted; 2: of all parameters none. */
static void build_towers(clprune_net *net, const net_model *model)
{
    clprune_net_value images = tower(net, "left", clprune_net_images(net, 3, SIDE, SIDE));
    images = clprune_net_add(
        net, "sum", images, tower(net, "right", (clprune_net_value){images.net, 1}));
    const clprune_net_value tokens = clprune_net_tokens(net, NET_TOKENS);
    clprune_net_value text = clprune_net_linear(
        net, "text", clprune_net_embedding(net, "words", tokens, NET_VOCABULARY, COLS), COLS);
    const clprune_net_value rows = clprune_net_rows(net, ROWS, COLS),
                            pixels = clprune_net_pixels(net, CHANNELS, WIDE, WIDE),
                            more = clprune_net_images(net, 3, SIDE, SIDE);
    const clprune_net_value kv = clprune_net_linear(net, "kv", rows, 2 * COLS);
    text = clprune_net_cross_attention(net, "attn", text, kv, 2, 0, 0);
    text = clprune_net_mean(net, "text_mean", text);
    const clprune_net_value both = clprune_net_gate(net, "both", images, text);
    const clprune_net_value shapes =
        clprune_net_add(net, "shapes", tower(net, "pixel", pixels), tower(net, "second", more));
    const clprune_net_value all =
        clprune_net_concat(net, "all", both, shapes, CLPRUNE_AXIS_FEATURES);
    clprune_net_cross_entropy(net, clprune_net_linear(net, "head", all, NET_CLASSES));
    if (model->seed > 0) {
        clprune_net_want_grad(net, rows);
        clprune_net_want_grad(net, pixels);
    }
    if (model->seed > 1)
        clprune_net_freeze(net, "*");
}

enum { TOWERS = 3 };
static const net_model towers[TOWERS] = {
    {"towers", build_towers, 0, SIDE, 0, 0, false, false, 0},
    {"towers with gradients by inputs", build_towers, 0, SIDE, 0, 0, false, false, 1},
    {"frozen towers with gradients by inputs", build_towers, 0, SIDE, 0, 0, false, false, 2},
};

/* The data behind the first input's. */
enum { OF_TOKENS, OF_ROWS, OF_PIXELS, OF_IMAGES, MORE };

typedef struct job {
    net_job net;
    clprune_net_input more[MORE];
} job;

/* planes: of the pixels. */
static job open(const net_model *model, const clprune_net_keep *keep, bool planes)
{
    clprune_context *context = test_context();
    job j = {.net = net_open(context, model, BATCH, keep)};
    /* the BERT has tokens, of as many rows */
    j.more[OF_TOKENS].tokens =
        net_open(context, &net_token_models[NET_BERT], BATCH, NULL).data.tokens;
    j.more[OF_ROWS].rows =
        test_new_mat_of(context, "x", BATCH * ROWS, COLS, test_new_normal(3, BATCH * ROWS * COLS));
    enum { PIXELS = WIDE * WIDE };
    const float *last = test_new_normal(4, BATCH * PIXELS * CHANNELS);
    float *first = test_floats(BATCH * PIXELS * CHANNELS);
    for (size_t n = 0; n < BATCH; n++)
        for (size_t p = 0; p < PIXELS; p++)
            for (size_t c = 0; c < CHANNELS; c++)
                first[(n * CHANNELS + c) * PIXELS + p] = last[(n * PIXELS + p) * CHANNELS + c];
    j.more[OF_PIXELS].rows =
        planes ? test_new_mat_of(context, "pixels", BATCH, PIXELS * CHANNELS, first)
               : test_new_mat_of(context, "pixels", BATCH * PIXELS, CHANNELS, last);
    j.more[OF_IMAGES].images = j.net.data.images;
    for (size_t i = OF_ROWS; i <= OF_PIXELS && model->seed > 0; i++)
        j.more[i].rows_grad = test_new_mat(context, j.more[i].rows.rows, j.more[i].rows.cols);
    return j;
}

/* `more` moves with the job. */
static void step(job *j)
{
    j->net.data.more = j->more;
    j->net.data.more_count = MORE;
    net_step(&j->net, BATCH);
}

static float *read(clprune_mat mat)
{
    float *values = test_floats(mat.rows * mat.cols);
    TEST_OK(clprune_mat_read(test_context(), mat, values));
    return values;
}

static double norm(const float *a, const float *b, size_t count)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += ((double)a[i] - (b != NULL ? (double)b[i] : 0)) *
               ((double)a[i] - (b != NULL ? (double)b[i] : 0));
    return sqrt(sum);
}

/* The relative error of the loss' slope along the gradient by an input. */
static double slope_error(job *j, size_t input)
{
    const clprune_mat x = j->more[input].rows;
    const size_t count = x.rows * x.cols;
    const float *at = read(x), *grad = read(j->more[input].rows_grad);
    const double size = norm(grad, NULL, count), length = 3e-2;
    float *moved = test_floats(count);
    double loss[2];
    for (int side = 0; side < 2; side++) {
        for (size_t i = 0; i < count; i++)
            moved[i] = (float)((double)at[i] + (side ? length : -length) / size * (double)grad[i]);
        TEST_OK(clprune_mat_write(test_context(), x, moved));
        loss[side] = net_loss(&j->net, true);
    }
    TEST_OK(clprune_mat_write(test_context(), x, at));
    return fabs((loss[1] - loss[0]) / (2 * length * size) - 1);
}

/* Slopes of parameters and inputs; each preset beside them. */
static void slopes(void **state)
{
    static const struct {
        clprune_net_preset preset;
        double bound;
    } presets[] = {
        {CLPRUNE_NET_EXACT, 1e-5}, {CLPRUNE_NET_COMPACT, 3e-2}, {CLPRUNE_NET_LEAST, 3e-2}};
    const net_model *model = *state;
    job dense = open(model, NULL, false);
    size_t param = 0;
    step(&dense);
    const float *want = net_grads(&dense.net), *inputs[MORE] = {NULL};
    for (size_t i = OF_ROWS; i <= OF_PIXELS && model->seed > 0; i++)
        inputs[i] = read(dense.more[i].rows_grad);
    if (model->seed < 2 && !(net_slope_error(&dense.net, want, 1e-2, &param) <= 2e-2))
        fail_msg("the slope of %s is off", dense.net.params[param].name);
    for (size_t i = OF_ROWS; i <= OF_PIXELS && model->seed > 0; i++)
        if (!(slope_error(&dense, i) <= 2e-2))
            fail_msg("the slope of input %zu is off", i + 1);
    for (size_t k = 0; k < COUNT_OF(presets); k++) {
        const size_t mark = test_mark();
        const clprune_net_keep keep = {.preset = presets[k].preset,
            .keep = {
                .form = CLPRUNE_FORM_QUANTISED, .bits = 8, .rounding = CLPRUNE_ROUNDING_NEAREST}};
        job other = open(model, &keep, false);
        step(&other);
        if (model->seed < 2)
            net_close(&other.net, "preset", net_grads(&other.net), want, presets[k].bound);
        for (size_t i = OF_ROWS; i <= OF_PIXELS && model->seed > 0; i++) {
            const size_t count = other.more[i].rows.rows * other.more[i].rows.cols;
            const double error = norm(read(other.more[i].rows_grad), inputs[i], count) /
                                 norm(inputs[i], NULL, count);
            if (!(error <= presets[k].bound))
                fail_msg("preset %d: the gradient by input %zu is off by %.3g",
                    (int)presets[k].preset, i + 1, error);
        }
        test_release(mark);
    }
}

/* Pixels as planes have the same gradient, as planes; a part of a batch its samples'; without
 * rows_grad nothing is written. */
static void layouts(NO_ROW)
{
    enum { PIXELS = WIDE * WIDE, LESS = BATCH - 2 };
    job last = open(&towers[1], NULL, false), first = open(&towers[1], NULL, true);
    step(&last);
    step(&first);
    const float *a = read(last.more[OF_PIXELS].rows_grad),
                *b = read(first.more[OF_PIXELS].rows_grad);
    for (size_t n = 0; n < BATCH; n++)
        for (size_t p = 0; p < PIXELS; p++)
            for (size_t c = 0; c < CHANNELS; c++)
                assert_true(
                    a[(n * PIXELS + p) * CHANNELS + c] == b[(n * CHANNELS + c) * PIXELS + p]);
    float *nan = test_floats(BATCH * ROWS * COLS);
    for (size_t i = 0; i < BATCH * ROWS * COLS; i++)
        nan[i] = NAN;
    const float *whole = read(last.more[OF_ROWS].rows_grad);
    const clprune_mat grad = last.more[OF_ROWS].rows_grad;
    TEST_OK(clprune_mat_write(test_context(), grad, nan));
    last.more[OF_ROWS].rows_grad = CLPRUNE_NO_MAT;
    step(&last);
    assert_true(isnan(read(grad)[0]));
    last.more[OF_ROWS].rows_grad = grad;
    last.net.data.scale = 1.0f / BATCH; /* as of the whole batch */
    net_step(&last.net, LESS);
    const float *part = read(grad);
    for (size_t i = 0; i < BATCH * ROWS * COLS; i++)
        assert_true(i < LESS * ROWS * COLS ? fabs((double)part[i] - (double)whole[i]) < 1e-6
                                           : isnan(part[i]));
}

/* ---- two inputs as one ----------------------------------------------------------------------- */

/* seed 0: rows of 2 * COLS; 1: their halves. */
static void build_halves(clprune_net *net, const net_model *model)
{
    clprune_net_value x = clprune_net_rows(net, ROWS, model->cols);
    clprune_net_want_grad(net, x);
    if (model->seed == 1) {
        const clprune_net_value second = clprune_net_rows(net, ROWS, model->cols);
        clprune_net_want_grad(net, second);
        x = clprune_net_concat(net, "both", x, second, CLPRUNE_AXIS_FEATURES);
    }
    x = clprune_net_gelu(net, "gelu", clprune_net_linear(net, "fc1", x, COLS));
    clprune_net_mean_squared_error(net, clprune_net_linear(net, "fc2", x, COLS));
}

static void halves(NO_ROW)
{
    static const net_model one = {"one", build_halves, ROWS, 2 * COLS, ROWS, COLS, false, false, 0},
                           two = {"two", build_halves, ROWS, COLS, ROWS, COLS, false, false, 1};
    net_job whole = net_open(test_context(), &one, BATCH, NULL),
            parts = net_open(test_context(), &two, BATCH, NULL);
    clprune_net_input second = {0};
    const clprune_mat x = whole.data.rows;
    const float *all = read(x);
    float *half[2] = {test_floats(BATCH * ROWS * COLS), test_floats(BATCH * ROWS * COLS)};
    for (size_t i = 0; i < BATCH * ROWS * 2 * COLS; i++)
        half[i / COLS % 2][i / (2 * COLS) * COLS + i % COLS] = all[i];
    net_copy_params(&whole, &parts);
    whole.data.rows_grad = test_new_mat(test_context(), x.rows, x.cols);
    parts.data.rows = test_new_mat_of(test_context(), "half", BATCH * ROWS, COLS, half[0]);
    parts.data.rows_grad = test_new_mat(test_context(), BATCH * ROWS, COLS);
    second.rows = test_new_mat_of(test_context(), "half", BATCH * ROWS, COLS, half[1]);
    second.rows_grad = test_new_mat(test_context(), BATCH * ROWS, COLS);
    parts.data.more = &second;
    parts.data.more_count = 1;
    test_same_floats("gradients", 1, whole.elements, net_step_grads(&parts), net_step_grads(&whole),
        "two inputs");
    const float *grads = read(whole.data.rows_grad), *left = read(parts.data.rows_grad),
                *right = read(second.rows_grad);
    for (size_t i = 0; i < BATCH * ROWS * 2 * COLS; i++)
        assert_true(
            grads[i] == (i / COLS % 2 == 0 ? left : right)[i / (2 * COLS) * COLS + i % COLS]);
}

/* ---- what is refused ------------------------------------------------------------------------- */

static void refused(NO_ROW)
{
    const clprune_status bad = CLPRUNE_INVALID_ARGUMENT;
    job j = open(&towers[1], NULL, false);
    clprune_net *net = j.net.net;
    clprune_net_data *data = &j.net.data;
    const clprune_net_input rows = j.more[OF_ROWS], tokens = j.more[OF_TOKENS];
    data->more = j.more;
    data->more_count = MORE - 1;
    TEST_FAILS(clprune_net_forward(net, data, true), bad, "data.more has 3 inputs, expected 4");
    data->more_count = MORE;
    data->more = NULL;
    TEST_FAILS(clprune_net_forward(net, data, true), bad, "data.more has 0 inputs");
    data->more = j.more;
    j.more[OF_TOKENS].tokens.buffer = NULL;
    TEST_FAILS(clprune_net_forward(net, data, true), bad, "data.more[0].tokens");
    j.more[OF_TOKENS] = tokens;
    j.more[OF_ROWS].rows.rows -= 1;
    TEST_FAILS(clprune_net_forward(net, data, true), CLPRUNE_INVALID_SIZE,
        "data.more[1].rows has 29 rows of 16, expected 5 rows of 16 for each of 6 samples");
    j.more[OF_ROWS] = rows;
    j.more[OF_IMAGES].reserved[1] = 1;
    TEST_FAILS(clprune_net_forward(net, data, true), bad, "data.more");
    j.more[OF_IMAGES].reserved[1] = 0;
    const size_t mark = test_mark();
    const struct {
        size_t input;
        clprune_net_input with;
        clprune_status status;
        const char *text;
    } spoilt[] = {
        {OF_ROWS, {.rows = j.more[OF_PIXELS].rows_grad}, bad,
            "data.more[1].rows has changed since clprune_net_forward"},
        {OF_TOKENS, {.tokens = data->labels}, bad, "data.more[0].tokens has changed"},
        {OF_IMAGES, {.images = {.buffer = data->labels.buffer}}, bad, "data.more[3].images has"},
        {OF_ROWS, {.rows = rows.rows, .rows_grad = rows.rows}, bad, "data.more[1].rows_grad"},
        {OF_ROWS, {.rows = rows.rows, .rows_grad = clprune_mat_rows(rows.rows_grad, 0, 3)},
            CLPRUNE_INVALID_SIZE, "data.more[1].rows_grad"},
        {OF_TOKENS, {.tokens = tokens.tokens, .rows_grad = rows.rows_grad}, bad,
            "data.more[0].rows_grad is given, but clprune_net_want_grad was not called"},
    };
    TEST_OK(clprune_net_forward(net, data, true));
    TEST_OK(clprune_net_loss(net, data, j.net.loss, CLPRUNE_NO_MAT));
    for (size_t i = 0; i < COUNT_OF(spoilt); i++) {
        const clprune_net_input old = j.more[spoilt[i].input];
        j.more[spoilt[i].input] = spoilt[i].with;
        TEST_FAILS(clprune_net_backward(net, data), spoilt[i].status, spoilt[i].text);
        j.more[spoilt[i].input] = old;
    }
    TEST_OK(clprune_net_backward(net, data));
    test_release(mark);
    clprune_net *by_row;
    TEST_OK(clprune_net_create(test_context(),
        &(clprune_net_desc){.batch = 1, .infers = true, .rows_at_once = 1}, &by_row));
    const clprune_net_value first = clprune_net_rows(by_row, 4, COLS);
    (void)clprune_net_add(by_row, "sum", first, clprune_net_rows(by_row, 4, COLS));
    TEST_FAILS(clprune_net_settle(by_row, NULL), bad, "expected 0 in a net of several inputs");
    clprune_net_destroy(by_row);
}

/* Tokens of a later input are watched as those of the first. */
static void tokens_out_of_range(NO_ROW)
{
    static const int32_t wrong = NET_VOCABULARY;
    job j = open(&towers[0], NULL, false);
    const clprune_ints tokens = j.more[OF_TOKENS].tokens;
    float losses[BATCH];
    step(&j);
    TEST_OK(clprune_mat_read(test_context(), j.net.loss, losses));
    TEST_CL(clEnqueueWriteBuffer(clprune_context_queue(test_context()), tokens.buffer, CL_TRUE,
        (tokens.offset + 4) * sizeof wrong, sizeof wrong, &wrong, 0, NULL, NULL));
    TEST_OK(clprune_net_forward(j.net.net, &j.net.data, true));
    TEST_OK(clprune_net_loss(j.net.net, &j.net.data, j.net.loss, CLPRUNE_NO_MAT));
    TEST_FAILS(clprune_mat_read(test_context(), j.net.loss, losses), CLPRUNE_INVALID_ARGUMENT,
        "data.more[0].tokens[4] = 37, expected 0 to 36");
}

int main(void)
{
    test_list list = {0};
    for (size_t i = 0; i < TOWERS; i++)
        test_add(&list, slopes, (void *)&towers[i], "slopes: %s", towers[i].name);
    test_add(&list, layouts, NULL, "layouts");
    test_add(&list, halves, NULL, "two inputs as one");
    test_add(&list, refused, NULL, "refused");
    test_add(&list, tokens_out_of_range, NULL, "tokens out of range");
    return test_run_on_devices("net_inputs", &list);
}
