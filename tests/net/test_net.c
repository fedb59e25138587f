/* Nets: the gradients of each preset, parts of a batch, inference, running statistics, seeds.
 *
 * Dense gradients are compared with differences of losses, those of the other presets with the
 * dense ones. Bounds are about twice the errors that were measured: codes of 8 bits, and signs of
 * ReLU that change where a preset makes its input again from codes. */
#include "net/net_models.h"

enum { BATCH = 5 };

typedef struct gradient_row {
    const net_model *model;
    size_t batch;
    double slope, inputs, compact, least; /* bounds */
    const char *name;
} gradient_row;

static const gradient_row gradient_rows[] = {
    {&net_models[0], BATCH, 1e-2, 1e-2, 1.5e-2, 1.5e-2, "resmlp"},
    {&net_models[1], BATCH, 2.5e-2, 1e-2, 3e-2, 0.25, "resnet"},
    {&net_models[2], BATCH, 3e-2, 1e-2, 1e-2, 0.25, "vgg"},
    {&net_models[3], BATCH, 1.5e-2, 1e-2, 1e-2, 0.25, "mlp"},
    {&net_models[4], BATCH, 3e-2, 1.2e-2, 1.5e-2, 1e-2, "unet"},
    {&net_models[5], BATCH, 3e-2, 1.2e-2, 1.5e-2, 1e-2, "transformer"},
    {&net_models[6], BATCH, 6e-2, 1e-2, 3e-2, 0.25, "mobilenet"},
    {&net_products, BATCH, 6e-3, 1e-2, 1e-2, 0.1, "products"},
    {&net_wide_mlp, 6, 2e-2, 6e-3, 1e-3, 1.5e-2, "wide mlp"},
    {&net_wide_vgg, 9, 3e-3, 5e-4, 5e-4, 3e-2, "wide vgg"},
};

/* The gradients of two steps, which have the same bits. */
static float *twice(net_job *job)
{
    float *first = net_step_grads(job);
    test_same_floats("gradients", 1, job->elements, net_step_grads(job), first, "%s, second step",
        job->model->name);
    return first;
}

static void gradients(void **state)
{
    const gradient_row *row = *state;
    const struct {
        const char *name;
        clprune_net_preset preset;
        clprune_form form;
        double bound;
        unsigned extra_work;
        bool rotate;
    } presets[] = {{"inputs", CLPRUNE_NET_INPUTS, CLPRUNE_FORM_QUANTISED, row->inputs, 0},
        {"all blocks", CLPRUNE_NET_INPUTS, CLPRUNE_FORM_PRUNED, 2e-6, 0},
        {"exact", CLPRUNE_NET_EXACT, CLPRUNE_FORM_DENSE, 1e-5, 0},
        {"exact, a third again", CLPRUNE_NET_EXACT, CLPRUNE_FORM_DENSE, 1e-5, 33},
        {"compact, a third again", CLPRUNE_NET_COMPACT, CLPRUNE_FORM_QUANTISED, row->least, 33},
        {"compact", CLPRUNE_NET_COMPACT, CLPRUNE_FORM_QUANTISED, row->compact, 0},
        {"inputs, rotated", CLPRUNE_NET_INPUTS, CLPRUNE_FORM_QUANTISED, row->inputs, 0, true},
        {"compact, rotated", CLPRUNE_NET_COMPACT, CLPRUNE_FORM_QUANTISED, row->compact, 0, true},
        {"least", CLPRUNE_NET_LEAST, CLPRUNE_FORM_QUANTISED, row->least, 0}};
    size_t param = 0;
    net_job dense = net_open(test_context(), row->model, row->batch, NULL);
    const float *want = twice(&dense);
    const double error = net_slope_error(&dense, want, 3e-3, &param);
    if (!(error <= row->slope))
        fail_msg("%s: the slope of %s is off by %.3g, expected at most %.3g", row->name,
            dense.params[param].name, error, row->slope);
    for (size_t i = 0; i < COUNT_OF(presets); i++) {
        const size_t mark = test_mark();
        const clprune_net_keep keep = {.preset = presets[i].preset,
            .keep = {.form = presets[i].form,
                .bits = 8,
                .rounding = CLPRUNE_ROUNDING_NEAREST,
                .rotate = presets[i].rotate},
            .extra_work = presets[i].extra_work};
        net_job job = net_open(test_context(), row->model, row->batch, &keep);
        net_close(&job, presets[i].name, twice(&job), want, presets[i].bound);
        test_release(mark);
    }
}

/* ---- batches --------------------------------------------------------------------------------- */

static const clprune_net_preset all_presets[] = {CLPRUNE_NET_DENSE, CLPRUNE_NET_INPUTS,
    CLPRUNE_NET_EXACT, CLPRUNE_NET_COMPACT, CLPRUNE_NET_LEAST};

/* A net for more samples gives the gradients of a net for these. */
static void smaller_batches(void **state)
{
    static const size_t parts[] = {1, 3, BATCH};
    for (size_t p = 0; p < COUNT_OF(all_presets); p++) {
        const size_t mark = test_mark();
        net_job all = net_open_preset(*state, BATCH, all_presets[p], 8);
        for (size_t i = 0; i < COUNT_OF(parts); i++) {
            char what[64];
            net_job part = net_open_preset(*state, parts[i], all_presets[p], 8);
            (void)snprintf(what, sizeof what, "preset %zu, %zu of %d", p, parts[i], BATCH);
            net_step(&all, parts[i]);
            /* LEAST may keep other joints for fewer samples */
            net_close(&all, what, net_grads(&all), net_step_grads(&part),
                all_presets[p] == CLPRUNE_NET_LEAST ? 0.05 : 1e-5);
        }
        test_release(mark);
    }
}

/* Chunks of 4 samples (wide mlp), or 7: less than one, one, and more with a shorter last one. */
static void chunks(void **state)
{
    static const size_t parts[] = {3, 4, 9};
    const gradient_row *row = *state;
    for (size_t i = 0; i < COUNT_OF(parts); i++) {
        const size_t mark = test_mark();
        net_job dense = net_open(test_context(), row->model, parts[i], NULL);
        const float *want = net_step_grads(&dense);
        for (size_t p = 2; p < COUNT_OF(all_presets); p++) {
            char what[64];
            net_job job = net_open_preset(row->model, 9, all_presets[p], 8);
            (void)snprintf(what, sizeof what, "preset %zu, %zu of 9", p, parts[i]);
            net_step(&job, parts[i]);
            net_close(&job, what, net_grads(&job), want,
                p == 2   ? 1e-5
                : p == 3 ? 2 * row->compact
                         : 2 * row->least);
        }
        test_release(mark);
    }
}

/* A block with wide features behind a max pool. Its region works on chunks, and makes the pool's
 * output again; the pool's own region reads the positions of the first pass. */
static void add_pooled(clprune_net *net, const net_model *model)
{
    const clprune_net_conv conv = {.out = 8, .kernel = {3, 3}, .padding = {1, 1}, .bias = true};
    const clprune_max_pool_desc pool = {.kernel = {2, 2}, .stride = {2, 2}};
    clprune_net_value x = clprune_net_images(net, 3, model->cols, model->cols);
    x = clprune_net_relu(net, "relu", clprune_net_conv2d(net, "conv", x, &conv));
    x = clprune_net_max_pool(net, "pool", x, &pool);
    clprune_net_value t = clprune_net_gelu(net, "gelu", clprune_net_linear(net, "fc1", x, 128));
    x = clprune_net_add(net, "add", x, clprune_net_linear(net, "fc2", t, 8));
    x = clprune_net_mean(net, "mean", x);
    clprune_net_cross_entropy(net, clprune_net_linear(net, "head", x, NET_CLASSES));
}

static void pooled_before_chunks(NO_ROW)
{
    static const net_model model = {"pooled", add_pooled, 0, 96, 0, 0, false, false, 0};
    net_job dense = net_open(test_context(), &model, 9, NULL);
    const float *want = net_step_grads(&dense);
    for (size_t p = 2; p < COUNT_OF(all_presets); p++) {
        net_job job = net_open_preset(&model, 9, all_presets[p], 8);
        net_close(&job, "another preset", net_step_grads(&job), want, p == 2 ? 1e-5 : 2e-2);
    }
}

/* scale: the gradients are those of scale * the sum of the losses, also of a negative one. */
static void scales(NO_ROW)
{
    for (size_t m = 2; m < 4; m++) { /* cross-entropy, mean squared error */
        net_job job = net_open(test_context(), &net_models[m], BATCH, NULL);
        float *mean = net_step_grads(&job);
        const float factors[] = {3, -1};
        for (size_t k = 0; k < COUNT_OF(factors); k++) {
            job.data.scale = factors[k] / BATCH;
            const float *scaled = net_step_grads(&job);
            for (size_t i = 0; i < job.elements; i++)
                mean[i] *= k == 0 ? 3.0f : -1.0f / 3;
            net_close(&job, "scale", scaled, mean, 1e-5);
        }
        job.data.scale = (float)NAN;
        TEST_FAILS(clprune_net_forward(job.net, &job.data, true), CLPRUNE_INVALID_ARGUMENT,
            "the scale is");
    }
}

/* ---- inference ------------------------------------------------------------------------------- */

/* Without batch norm and dropout its output has the bits of training's. */
static void inference(void **state)
{
    const net_model *m = *state;
    for (size_t p = 0; p < COUNT_OF(all_presets); p++) {
        const size_t mark = test_mark();
        net_job job = net_open_preset(m, BATCH, all_presets[p], 8);
        const clprune_mat y = clprune_net_output(job.net, BATCH);
        const double loss = net_loss(&job, true);
        const float *trained = net_output(&job, BATCH);
        const double other = net_loss(&job, false);
        const float *inferred = net_output(&job, BATCH);
        assert_int_equal(y.rows, BATCH * (m->target_rows > 0 ? m->target_rows : 1));
        assert_int_equal(y.cols, m->target_cols > 0 ? m->target_cols : NET_CLASSES);
        test_same_floats("output", y.rows, y.cols, inferred, trained, "preset %zu", p);
        assert_true(loss == other);
        test_release(mark);
    }
}

/* Dropout: x in inference, whatever the seed; in training another mask for another seed. */
static void dropout(NO_ROW)
{
    float *inferred[2], *trained[2];
    net_job job = net_open(test_context(), &net_models[3], BATCH, NULL);
    for (uint64_t seed = 0; seed < 2; seed++) {
        job.seed = seed;
        (void)net_loss(&job, true);
        trained[seed] = net_output(&job, BATCH);
        (void)net_loss(&job, false);
        inferred[seed] = net_output(&job, BATCH);
    }
    test_same_floats("output", BATCH, 8, inferred[1], inferred[0], "inference");
    assert_memory_not_equal(trained[1], trained[0], BATCH * 8 * sizeof(float));
    assert_memory_not_equal(trained[0], inferred[0], BATCH * 8 * sizeof(float));
}

static void add_norm(clprune_net *net, const net_model *model)
{
    const clprune_net_value x = clprune_net_rows(net, model->rows, model->cols);
    clprune_net_mean_squared_error(net, clprune_net_batch_norm(net, "bn", x));
}

static float *state_of(const net_job *job, size_t i, const char *name)
{
    size_t count;
    const clprune_net_state *states = clprune_net_states(job->net, &count);
    assert_int_equal(count, 2);
    assert_string_equal(states[i].name, name);
    float *values = test_floats(states[i].mat.cols);
    TEST_OK(clprune_mat_read(job->context, states[i].mat, values));
    return values;
}

/* Training: y has moments of the batch, and running statistics move by a tenth, the variance with
 * n / (n - 1). Inference: y = gamma * (x - running mean) / sqrt(running variance + 1e-5) + beta. */
static void running_statistics(NO_ROW)
{
    enum { ROWS = 6, COLS = 5, ALL = BATCH * ROWS };
    static const net_model model = {"norm", add_norm, ROWS, COLS, ROWS, COLS, true, false, 0};
    net_job job = net_open(test_context(), &model, BATCH, NULL);
    float x[ALL * COLS], gamma[COLS], beta[COLS];
    double mean[COLS] = {0}, var[COLS] = {0};
    TEST_OK(clprune_mat_read(job.context, job.data.rows, x));
    TEST_OK(clprune_mat_read(job.context, job.params[0].value, gamma));
    TEST_OK(clprune_mat_read(job.context, job.params[1].value, beta));
    (void)net_loss(&job, true);
    const float *trained = net_output(&job, BATCH);
    const float *running_mean = state_of(&job, 0, "bn.running_mean"),
                *running_var = state_of(&job, 1, "bn.running_var");
    (void)net_loss(&job, false);
    const float *inferred = net_output(&job, BATCH);
    for (size_t i = 0; i < ALL * COLS; i++)
        mean[i % COLS] += (double)x[i] / ALL;
    for (size_t i = 0; i < ALL * COLS; i++)
        var[i % COLS] += pow((double)x[i] - mean[i % COLS], 2) / ALL;
    for (size_t c = 0; c < COLS; c++) {
        assert_true(fabs((double)running_mean[c] - 0.1 * mean[c]) < 1e-6);
        assert_true(fabs((double)running_var[c] - 0.9 - 0.1 * var[c] * ALL / (ALL - 1)) < 1e-6);
    }
    for (size_t i = 0; i < ALL * COLS; i++) {
        const size_t c = i % COLS;
        const double batch = (double)gamma[c] * ((double)x[i] - mean[c]) / sqrt(var[c] + 1e-5),
                     run = (double)gamma[c] * ((double)x[i] - (double)running_mean[c]) /
                           sqrt((double)running_var[c] + 1e-5);
        assert_true(fabs((double)trained[i] - batch - (double)beta[c]) < 1e-5);
        assert_true(fabs((double)inferred[i] - run - (double)beta[c]) < 1e-5);
    }
    const float *after = state_of(&job, 0, "bn.running_mean");
    test_same_floats("running mean", 1, COLS, after, running_mean, "inference leaves it alone");
    TEST_OK(clprune_net_init(job.net, 1)); /* writes states, too */
    for (size_t c = 0; c < COLS; c++)
        assert_true(state_of(&job, 0, "bn.running_mean")[c] == 0 &&
                    state_of(&job, 1, "bn.running_var")[c] == 1);
}

static void add_norm_of_means(clprune_net *net, const net_model *model)
{
    clprune_net_value x = clprune_net_rows(net, model->rows, model->cols);
    x = clprune_net_mean(net, "pool", clprune_net_batch_norm(net, "bn1", x));
    x = clprune_net_linear(net, "head", clprune_net_batch_norm(net, "bn2", x), NET_CLASSES);
    clprune_net_cross_entropy(net, x);
}

/* A single value a channel: refused before the statistics of an earlier layer move. */
static void single_values(NO_ROW)
{
    static const net_model model = {
        .name = "norms", .build = add_norm_of_means, .rows = 4, .cols = 8, .norm = true};
    net_job job = net_open(test_context(), &model, BATCH, NULL);
    size_t count;
    const clprune_net_state *states = clprune_net_states(job.net, &count);
    const clprune_mat mean = states[0].mat;
    float *before = test_floats(mean.cols), *after = test_floats(mean.cols);
    TEST_OK(clprune_mat_read(job.context, mean, before));
    clprune_net_data data = job.data;
    data.batch = 1;
    data.rows = clprune_mat_rows(data.rows, 0, 4);
    TEST_FAILS(clprune_net_forward(job.net, &data, true), CLPRUNE_INVALID_ARGUMENT,
        "the batch norm of bn2.weight needs at least 2 values a channel");
    TEST_OK(clprune_mat_read(job.context, mean, after));
    test_same_floats("running mean", 1, mean.cols, after, before, "after a refusal");
    TEST_OK(clprune_net_forward(job.net, &data, false));
}

static void add_no_loss(clprune_net *net, const net_model *model)
{
    clprune_net_value x = clprune_net_rows(net, model->rows, model->cols);
    x = clprune_net_relu(net, "relu", clprune_net_linear(net, "fc", x, 32));
    x = clprune_net_linear(net, "out", x, model->target_cols);
    if (model->seed == 0)
        clprune_net_mean_squared_error(net, x);
}

/* A net without loss keeps nothing and gives the same output. */
static void no_loss(NO_ROW)
{
    static const net_model models[] = {{"loss", add_no_loss, 8, 32, 8, 8, false, false, 0},
        {"no loss", add_no_loss, 8, 32, 8, 8, false, false, 1}};
    net_job job = net_open(test_context(), &models[0], BATCH, NULL);
    const uint64_t with = test_live(job.context, CLPRUNE_MEMORY_ACTIVATIONS);
    net_job bare = net_open(test_context(), &models[1], BATCH, NULL);
    assert_true(with > 0);
    assert_int_equal(test_live(job.context, CLPRUNE_MEMORY_ACTIVATIONS), with);
    (void)net_loss(&job, false);
    TEST_OK(clprune_net_forward(bare.net, &bare.data, false));
    test_same_floats(
        "output", BATCH * 8, 8, net_output(&bare, BATCH), net_output(&job, BATCH), "without loss");
}

static void add_images(clprune_net *net, const net_model *model)
{
    const clprune_net_conv conv = {.out = 16, .kernel = {3, 3}, .padding = {1, 1}};
    clprune_net_value x = model->rows == 0 ? clprune_net_images(net, 3, NET_SIDE, NET_SIDE)
                                           : clprune_net_pixels(net, 3, NET_SIDE, NET_SIDE);
    x = clprune_net_relu(net, "relu", clprune_net_conv2d(net, "conv", x, &conv));
    x = clprune_net_mean(net, "mean", x);
    clprune_net_cross_entropy(net, clprune_net_linear(net, "fc", x, NET_CLASSES));
}

/* Images as floats, channels last or first, give the gradients of the same images as bytes. */
static void pixels(NO_ROW)
{
    enum { PIXELS = NET_SIDE * NET_SIDE };
    static const net_model models[] = {{"images", add_images, 0, NET_SIDE, 0, 0, false, false, 0},
        {"pixels", add_images, PIXELS, 3, 0, 0, false, false, 0},
        {"planes", add_images, 1, PIXELS * 3, 0, 0, false, false, 0}};
    net_job bytes = net_open(test_context(), &models[0], BATCH, NULL),
            floats = net_open(test_context(), &models[1], BATCH, NULL),
            planes = net_open(test_context(), &models[2], BATCH, NULL);
    TEST_OK(clprune_image_bytes_channels_last(bytes.context, BATCH, 3,
        (clprune_extent){NET_SIDE, NET_SIDE}, bytes.data.images, floats.data.rows, NULL));
    const float *want = net_step_grads(&bytes);
    test_same_floats("gradients", 1, bytes.elements, net_step_grads(&floats), want, "pixels");
    float last[BATCH * PIXELS * 3], first[BATCH * PIXELS * 3];
    TEST_OK(clprune_mat_read(floats.context, floats.data.rows, last));
    for (size_t i = 0; i < COUNT_OF(last); ++i)
        first[(i / 3 / PIXELS * 3 + i % 3) * PIXELS + i / 3 % PIXELS] = last[i];
    TEST_OK(clprune_mat_write(planes.context, planes.data.rows, first));
    test_same_floats("gradients", 1, bytes.elements, net_step_grads(&planes), want, "planes");
    planes.data.rows.rows--;
    TEST_FAILS(
        clprune_net_forward(planes.net, &planes.data, true), CLPRUNE_INVALID_SIZE, "data.rows has");
}

/* The loss reads a value that its layer's backward pass reads, too. */
static void add_last(clprune_net *net, const net_model *model)
{
    clprune_net_value x = clprune_net_rows(net, model->rows, model->cols);
    x = clprune_net_linear(net, "fc1", x, 32);
    x = clprune_net_relu(net, "relu1", clprune_net_batch_norm(net, "bn", x));
    x = clprune_net_relu(net, "relu2", clprune_net_linear(net, "fc2", x, NET_VOCABULARY));
    if (model->seed == 0)
        clprune_net_mean_squared_error(net, x);
    else if (model->seed == 1)
        clprune_net_cross_entropy(net, x);
    else
        clprune_net_token_loss(net, "head", x, NET_VOCABULARY);
}

static void last_value(NO_ROW)
{
    static const net_model models[] = {
        {"squares", add_last, 8, 32, 8, NET_VOCABULARY, true, false, 0},
        {"logits", add_last, 8, 32, 8, 0, true, false, 1},
        {"head", add_last, 8, 32, 8, 0, true, false, 2}};
    for (size_t m = 0; m < COUNT_OF(models); m++) {
        const size_t mark = test_mark();
        size_t param = 0;
        net_job dense = net_open(test_context(), &models[m], BATCH, NULL);
        const float *want = net_step_grads(&dense);
        double size = 0;
        for (size_t i = 0; i < dense.elements; i++)
            size += fabs((double)want[i]);
        const double error = net_slope_error(&dense, want, 3e-3, &param);
        if (!(size > 0 && error <= 3e-2))
            fail_msg("%s: the slope of %s is off by %.3g", models[m].name, dense.params[param].name,
                error);
        for (size_t p = 0; p < COUNT_OF(all_presets); p++) {
            net_job job = net_open_preset(&models[m], BATCH, all_presets[p], 8);
            net_close(&job, "another preset", net_step_grads(&job), want,
                all_presets[p] == CLPRUNE_NET_EXACT ? 1e-5 : 0.25);
        }
        test_release(mark);
    }
}

/* ---- seeds ----------------------------------------------------------------------------------- */

static float *initial(const net_job *job, uint64_t seed)
{
    float *all = test_floats(job->elements), *at = all;
    TEST_OK(clprune_net_init(job->net, seed));
    for (size_t i = 0; i < job->count; i++) {
        TEST_OK(clprune_mat_read(job->context, job->params[i].value, at));
        at += job->params[i].value.rows * job->params[i].value.cols;
    }
    return all;
}

/* Initial parameters: the same for a seed, for any preset; uniform within the documented bounds. */
static void init(NO_ROW)
{
    const net_job job = net_open(test_context(), &net_models[0], BATCH, NULL),
                  other = net_open_preset(&net_models[0], 2, CLPRUNE_NET_LEAST, 4);
    const float *first = initial(&job, 3), *next = initial(&job, 4), *at = first;
    test_same_floats("parameters", 1, job.elements, initial(&other, 3), first, "another net");
    test_same_floats("parameters", 1, job.elements, initial(&job, 3), first, "again");
    for (size_t i = 0; i < job.count; i++) {
        const size_t count = job.params[i].value.rows * job.params[i].value.cols;
        const char *name = job.params[i].name;
        float least = INFINITY, largest = -INFINITY;
        for (size_t k = 0; k < count; k++) {
            least = fminf(least, at[k]);
            largest = fmaxf(largest, at[k]);
        }
        if (job.params[i].decay) {
            const float bound = 1 / sqrtf((float)job.params[i].value.cols);
            if (!(least >= -bound && least < -0.8f * bound && largest > 0.8f * bound &&
                    largest <= bound))
                fail_msg("%s is in [%g, %g], expected +-%g", name, (double)least, (double)largest,
                    (double)bound);
            assert_memory_not_equal(at, next + (at - first), count * sizeof *at);
        } else if (strstr(name, "alpha") != NULL || strstr(name, ".ls") != NULL) {
            assert_true(least == largest && least == (strstr(name, ".ls") ? 0.1f : 1.0f));
        } else if (strstr(name, "beta") != NULL) {
            assert_true(least == 0 && largest == 0);
        }
        at += count;
    }
}

/* Stochastic rounding and dropout: the bits of a seed, others for another. */
static void seeds(void **state)
{
    const clprune_net_keep keep = {.preset = CLPRUNE_NET_COMPACT};
    net_job job = net_open(test_context(), *state, BATCH, &keep);
    job.seed = 5;
    const float *first = net_step_grads(&job);
    job.seed = 6;
    const float *other = net_step_grads(&job);
    job.seed = 5;
    test_same_floats("gradients", 1, job.elements, net_step_grads(&job), first, "the same seed");
    assert_memory_not_equal(other, first, job.elements * sizeof *other);
    /* A pass under way keeps the seed of its forward pass. */
    job.seed = 5;
    (void)net_loss(&job, true);
    clprune_net_set_seed(job.net, 6);
    TEST_OK(clprune_net_backward(job.net, &job.data));
    test_same_floats("gradients", 1, job.elements, net_grads(&job), first, "another seed between");
}

static void add_heads(clprune_net *net, const net_model *model)
{
    clprune_net_value x = clprune_net_images(net, 3, model->cols, model->cols);
    x = clprune_net_conv2d(net, "c", x, &(clprune_net_conv){.out = 4, .kernel = {1, 1}});
    const clprune_net_value means = clprune_net_mean(net, "m", x);
    x = clprune_net_flatten(net, "f", x);
    const clprune_net_value cls = clprune_net_linear(net, "cls", x, NET_CLASSES),
                            mean = clprune_net_linear(net, "mean", means, NET_CLASSES),
                            box = clprune_net_linear(net, "box", x, NET_CLASSES);
    x = clprune_net_add(net, "sum", clprune_net_add(net, "two", cls, mean), box);
    clprune_net_cross_entropy(net, x);
}

/* The weights of linear layers have the image that they read flattened, if they do. */
static void flattened_images(NO_ROW)
{
    static const struct {
        const char *name;
        size_t side;
    } wanted[] = {{"cls.weight", NET_SIDE}, {"box.weight", NET_SIDE}, {"mean.weight", 0}};
    static const net_model model = {.name = "heads", .build = add_heads, .cols = NET_SIDE};
    const net_job job = net_open(test_context(), &model, BATCH, NULL);
    clprune_net_weight weight;
    for (size_t k = 0; k < COUNT_OF(wanted); k++) {
        assert_true(clprune_net_weight_of(job.net, wanted[k].name, &weight));
        assert_int_equal(weight.image.height, wanted[k].side);
        assert_int_equal(weight.image.width, wanted[k].side);
    }
}

int main(void)
{
    test_list list = {0};
    TEST_ADD_EACH(&list, gradients, gradient_rows, "gradients of %s");
    TEST_ADD_EACH(&list, smaller_batches, net_models, "smaller batches of %s");
    for (size_t i = COUNT_OF(gradient_rows) - 2; i < COUNT_OF(gradient_rows); i++)
        test_add(&list, chunks, &gradient_rows[i], "chunks of %s", gradient_rows[i].name);
    test_add(&list, pooled_before_chunks, NULL, "a max pool before chunks");
    test_add(&list, scales, NULL, "scales");
    for (size_t i = 0; i < NET_MODELS; i++)
        if (!net_models[i].norm && !net_models[i].dropout)
            test_add(&list, inference, &net_models[i], "inference of %s", net_models[i].name);
    test_add(&list, dropout, NULL, "dropout");
    test_add(&list, running_statistics, NULL, "running statistics");
    test_add(&list, single_values, NULL, "a single value a channel");
    test_add(&list, no_loss, NULL, "a net without loss");
    test_add(&list, last_value, NULL, "a loss of an activation");
    test_add(&list, pixels, NULL, "images as floats");
    test_add(&list, init, NULL, "initial parameters");
    TEST_ADD_EACH(&list, seeds, net_models, "seeds of %s");
    test_add(&list, flattened_images, NULL, "images of flattened inputs");
    return test_run_on_devices("net", &list);
}
