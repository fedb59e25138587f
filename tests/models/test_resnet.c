/* The example's ResNets: names, gradients, training steps and running statistics against PyTorch's
 * (golden/), presets against dense, and what they keep.
 *
 * Presets that approximate dw do not change dx's bits. The whole model is checked by finite
 * differences. Over seeds the mean weight gradient of `compact` is dense's within the remaining
 * noise, but not with rounding to nearest. Counts of batches grow by one in each pass of training.
 */
#include "golden/golden_images.h"
#include "golden/golden_rows.h"
#include "resnet_model.h"
#include "support/test_compare.h"
#include "support/test_fault.h"
#include "support/test_folder.h"
#include "support/test_model.h"
#include "trainer/files/safetensors_file.h"
#include "trainer/files/weights.h"
#include "trainer/model/keep_presets.h"
#include "trainer/options/keep_file.h"

enum { SAMPLES = 4, STEPS = 10 };

typedef struct golden_resnet_case {
    const char *name;
    size_t image, classes, batch;
    uint64_t seed;       /* of the images whose gradients are compared */
    float rate;          /* of learning */
    double loss, tested; /* smoothed, of the first batch; plain, after training, in evaluation */
    double losses[STEPS];
} golden_resnet_case;

#include "golden/golden_resnet.inc"

static const golden_resnet_case *const cases[] = {&golden_resnet20, &golden_resnet18};

static const float smoothing = 0.1f;

/* Relative to a tensor's norm. */
static const double bound = 5e-5;

typedef struct fixture {
    net_model *model;
    clprune_param *params;
    size_t params_count, states_count;
    const trainer_state *states;
    size_t batch;
    clprune_image_bytes images;
    clprune_mat loss, hit;
    clprune_ints labels;
} fixture;

static trainer_sizes sizes_of(const golden_resnet_case *c)
{
    trainer_sizes sizes = {.image = c->image, .classes = c->classes};
    while (strcmp(resnet_model.archs[sizes.arch], c->name) != 0)
        sizes.arch++;
    assert_null(net_model_settle(&resnet_model, &sizes));
    return sizes;
}

static void write_batch(fixture *f, const golden_resnet_case *c, uint64_t seed, uint32_t step)
{
    int32_t labels[64];
    golden_images_write(&f->images, c->batch * 3 * c->image * c->image, seed);
    for (uint32_t i = 0; i < c->batch; i++)
        labels[i] = (int32_t)((3u * i + 1 + step) % c->classes);
    golden_buffer_write(f->labels.buffer, c->batch * sizeof *labels, labels);
}

/* Whether parameter i is a convolution's weight, of *kernel taps and *in channels. */
static bool is_conv(const fixture *f, size_t i, clprune_extent *kernel, size_t *in)
{
    assert_true(i < f->model->weights_count);
    const trainer_weight w = f->model->weights[i];
    *kernel = (clprune_extent){w.shape[2], w.shape[3]};
    *in = w.shape[1];
    return w.image.height > 0;
}

static void fill_params(fixture *f)
{
    for (size_t i = 0; i < f->params_count; i++) {
        const clprune_param *p = &f->params[i];
        const size_t count = p->value.rows * p->value.cols;
        float *values = test_floats(count), *turned = test_floats(count);
        clprune_extent kernel;
        size_t in;
        const bool conv = is_conv(f, i, &kernel, &in), head = i + 2 == f->params_count;
        if (conv || head)
            golden_fill_uniform(
                0.0f, (float)sqrt(6.0 / (double)p->value.cols), 1000 + i, count, values);
        else if (i % 3 == 1 && i + 1 != f->params_count)
            golden_fill_uniform(1.0f, 0.2f, 1000 + i, count, values);
        else
            golden_fill_uniform(0.0f, 0.1f, 1000 + i, count, values);
        if (conv)
            TEST_OK(clprune_conv2d_weights_from_oihw(p->value.rows, in, kernel, values, turned));
        TEST_OK(clprune_mat_write(test_context(), p->value, conv ? turned : values));
    }
}

/* text: a keep file */
static fixture make_with(
    const golden_resnet_case *c, const char *preset, clprune_keep how, const char *text)
{
    const trainer_sizes sizes = sizes_of(c);
    keep_list rules = {0};
    const keep_choice choice = {
        .preset = keep_preset_named(preset), .how = {how, how.bits}, .list = &rules};
    fixture made = {.batch = c->batch,
        .images = golden_images_make(c->batch * 3 * c->image * c->image),
        .loss = test_new_mat(test_context(), c->batch, 1),
        .hit = test_new_mat(test_context(), c->batch, 1),
        .labels = {test_new_mat(test_context(), c->batch, 1).buffer, 0}};
    const options o = options_defaults(&resnet_model);
    assert_null(net_model_list(&resnet_model, &sizes, &(keep_choice){0}, c->batch, &rules));
    TEST_GOOD(keep_file_apply(text, "rules", &o, &rules, &f));
    TEST_OK(
        net_model_create(&resnet_model, test_context(), &sizes, &choice, c->batch, &made.model));
    keep_list_close(&rules);
    test_model_own(made.model);
    made.params = clprune_net_params(made.model->net, &made.params_count);
    made.states = made.model->states;
    made.states_count = made.model->states_count;
    TEST_OK(net_model_init(made.model, 1, NULL));
    fill_params(&made);
    return made;
}

static fixture make(const golden_resnet_case *c, const char *preset, clprune_keep how)
{
    return make_with(c, preset, how, "");
}

static clprune_net_data data_of(const fixture *f, float smooth)
{
    return (clprune_net_data){
        .batch = f->batch, .images = f->images, .labels = f->labels, .smoothing = smooth};
}

/* The mean loss of the batch. */
static double forward(fixture *f, bool training, float smooth)
{
    const clprune_net_data data = data_of(f, smooth);
    TEST_OK(net_model_forward(f->model, &data, training));
    TEST_OK(clprune_net_loss(f->model->net, &data, f->loss, f->hit));
    return golden_mean_loss(f->loss);
}

/* What PyTorch has: the gradients in its order, then statistics after the first step. A row has a
 * tensor's number of elements, its norm, its projection on random signs, and SAMPLES elements. */
static const golden_row *golden_rows_of(const golden_resnet_case *c, const fixture *f)
{
    return golden_rows_read(TEST_GOLDEN "/golden_resnet.safetensors", c->name,
        f->params_count + f->states_count, 3 + SAMPLES);
}

/* A pass of training on the images of the case, forward and backward; returns the loss. */
static double both_passes(fixture *f, const golden_resnet_case *c)
{
    write_batch(f, c, c->seed, 0);
    const double loss = forward(f, true, smoothing);
    const clprune_net_data data = data_of(f, smoothing);
    TEST_OK(net_model_backward(f->model, &data));
    return loss;
}

/* Fails unless a tensor is the one of the row. */
static void compare(
    const golden_row *row, const char *name, size_t count, const float *values, double allowed)
{
    const double *number = row->numbers, want_norm = number[1], want_projection = number[2];
    const double scale = allowed * (want_norm + 1e-6);
    const double norm = golden_norm(count, values),
                 projection = golden_projection(1, count, values);
    assert_string_equal(name, row->name);
    assert_int_equal(count, (size_t)number[0]);
    if (!(fabs(norm - want_norm) <= scale) || !(fabs(projection - want_projection) <= 4 * scale))
        fail_msg("%s: norm %.9g, expected %.9g; projection %.9g, expected %.9g", name, norm,
            want_norm, projection, want_projection);
    for (size_t k = 0; k < SAMPLES; k++) {
        const double got = (double)values[count * k / SAMPLES], want = number[3 + k];
        if (!(fabs(got - want) <= scale))
            fail_msg("%s: element %zu is %.9g, expected %.9g (norm %.9g)", name,
                count * k / SAMPLES, got, want, want_norm);
    }
}

static void compare_grads(const fixture *f, const golden_resnet_case *c)
{
    const golden_row *rows = golden_rows_of(c, f);
    for (size_t i = 0; i < f->params_count; i++) {
        const clprune_mat grad = f->params[i].grad;
        const size_t count = grad.rows * grad.cols;
        float *values = read_mat(grad), *turned = test_alloc(count * sizeof *turned);
        clprune_extent kernel;
        size_t in;
        const bool conv = is_conv(f, i, &kernel, &in);
        if (conv)
            TEST_OK(clprune_conv2d_weights_to_oihw(grad.rows, in, kernel, values, turned));
        compare(&rows[i], f->params[i].name, count, conv ? turned : values, bound);
    }
}

static void gradients(void **state)
{
    const golden_resnet_case *c = *state;
    static const char *const presets[] = {"dense", "exact"};
    for (size_t p = 0; p < 2; p++) {
        fixture f = make(c, presets[p], (clprune_keep){0});
        const double loss = both_passes(&f, c);
        if (!(fabs(loss - c->loss) <= 1e-5 * c->loss))
            fail_msg("%s, %s: loss %.9g, expected %.9g", c->name, presets[p], loss, c->loss);
        compare_grads(&f, c);
        test_end(f.model);
    }
}

/* Ten steps of SGD; the running statistics of the first; the test loss of the last. Rounding grows
 * with the steps: the bound does, too. */
static void training(void **state)
{
    const golden_resnet_case *c = *state;
    fixture f = make(c, "dense", (clprune_keep){0});
    const golden_row *rows = golden_rows_of(c, &f);
    const clprune_optimizer_desc desc = {
        .kind = CLPRUNE_OPTIMIZER_SGD, .momentum = 0.9f, .weight_decay = 1e-3f};
    clprune_optimizer *optimizer =
        test_new_optimizer(test_context(), desc, f.params_count, f.params);
    for (uint32_t t = 0; t < STEPS; t++) {
        write_batch(&f, c, 100 + t, t);
        const double loss = forward(&f, true, smoothing);
        const double first = c == &golden_resnet18 ? 1e-4 : 2e-5;
        const double allowed = first * pow(1.6, t) * c->losses[t];
        if (!(fabs(loss - c->losses[t]) <= allowed))
            fail_msg("%s: loss %.9g at step %u, expected %.9g +- %.2g", c->name, loss, t,
                c->losses[t], allowed);
        const clprune_net_data data = data_of(&f, smoothing);
        TEST_OK(net_model_backward(f.model, &data));
        TEST_OK(clprune_optimizer_step(optimizer, c->rate, NULL));
        for (size_t i = 0; t == 0 && i < f.states_count; i++) {
            const golden_row *row = &rows[f.params_count + i];
            size_t k = 0;
            while (strcmp(f.states[k].name, row->name) != 0)
                assert_true(++k < f.states_count);
            const clprune_mat mat = f.states[k].mat;
            compare(row, row->name, mat.cols, read_mat(mat), 1e-5);
        }
    }
    write_batch(&f, c, c->seed, 0);
    const double tested = forward(&f, false, 0.0f);
    if (!(fabs(tested - c->tested) <= 0.02 * c->tested))
        fail_msg("%s: test loss %.9g, expected %.9g", c->name, tested, c->tested);
    test_end(optimizer);
    test_end(f.model);
}

/* Presets that approximate weight gradients leave the way of dx alone: what does not depend on a
 * kept input (the gradients of batch norms, of the head, of its bias) has dense's bits. */
static void exact_dx(void **state)
{
    const golden_resnet_case *c = *state;
    static const struct {
        const char *preset;
        clprune_keep how;
    } forms[] = {{"pooled", {.cell = 2}}, {"pruned", {.sparsity = 0.7f}}};
    fixture dense = make(c, "dense", (clprune_keep){0});
    (void)both_passes(&dense, c);
    for (size_t k = 0; k < 2; k++) {
        fixture f = make(c, forms[k].preset, forms[k].how);
        (void)both_passes(&f, c);
        for (size_t i = 0; i < f.params_count; i++) {
            clprune_extent kernel;
            size_t in;
            if (is_conv(&f, i, &kernel, &in))
                continue;
            const clprune_mat mat = f.params[i].grad;
            float *want = read_mat(dense.params[i].grad), *got = read_mat(mat);
            test_same_floats(
                f.params[i].name, mat.rows, mat.cols, got, want, "%s", forms[k].preset);
        }
        test_end(f.model);
    }
    test_end(dense.model);
}

/* With 8 bits, compact's gradients lie near dense's. */
static void codes(void **state)
{
    const golden_resnet_case *c = *state;
    fixture dense = make(c, "dense", (clprune_keep){0});
    fixture f = make(c, "compact", (clprune_keep){.bits = 8});
    (void)both_passes(&dense, c);
    (void)both_passes(&f, c);
    for (size_t i = 0; i < f.params_count; i++) {
        const clprune_mat mat = f.params[i].grad;
        float *want = read_mat(dense.params[i].grad), *got = read_mat(mat);
        double error = 0, norm = 0;
        for (size_t e = 0; e < mat.rows * mat.cols; e++) {
            error += pow((double)got[e] - (double)want[e], 2);
            norm += pow((double)want[e], 2);
        }
        if (!(error <= 0.05 * 0.05 * norm))
            fail_msg("%s: relative error %.3g", f.params[i].name, sqrt(error / norm));
    }
    test_end(f.model);
    test_end(dense.model);
}

/* ---- the whole model ---------------------------------------------------------------------------
 */

static size_t param_named(const fixture *f, const char *name)
{
    size_t i = 0;
    while (strcmp(f->params[i].name, name) != 0)
        assert_true(++i < f->params_count);
    return i;
}

/* The loss with `by` times a direction added to a parameter's values. */
static double loss_moved(
    fixture *f, clprune_mat value, const float *from, const float *direction, double by)
{
    const size_t count = value.rows * value.cols;
    float *moved = test_alloc(count * sizeof *moved);
    for (size_t e = 0; e < count; e++)
        moved[e] = (float)((double)from[e] + by * (double)direction[e]);
    TEST_OK(clprune_mat_write(test_context(), value, moved));
    const double loss = forward(f, true, smoothing);
    TEST_OK(clprune_mat_write(test_context(), value, from));
    return loss;
}

/* The derivative along the gradient is its norm: one parameter of every kind. The step changes the
 * loss by about 0.002, 1e4 times its rounding; the central difference of two steps is extrapolated
 * to a step of 0. ReLU's kinks leave up to 1 %. */
static void differences(void **state)
{
    const golden_resnet_case *c = *state;
    static const char *const names[] = {"conv1.weight", "bn1.weight", "bn1.bias",
        "layer1.0.conv1.weight", "layer1.1.bn1.weight", "layer1.2.bn2.bias",
        "layer2.0.conv1.weight", "layer2.0.downsample.0.weight", "layer2.0.downsample.1.weight",
        "layer2.0.downsample.1.bias", "layer3.1.conv2.weight", "layer3.2.bn2.weight", "fc.weight",
        "fc.bias"};
    static const char *const presets[] = {"dense", "exact"};
    for (size_t p = 0; p < 2; p++) {
        fixture f = make(c, presets[p], (clprune_keep){0});
        (void)both_passes(&f, c);
        for (size_t k = 0; k < COUNT_OF(names); k++) {
            const clprune_param *param = &f.params[param_named(&f, names[k])];
            const size_t count = param->value.rows * param->value.cols;
            float *gradient = read_mat(param->grad), *from = read_mat(param->value);
            double square = 0, slope[2];
            for (size_t e = 0; e < count; e++)
                square += (double)gradient[e] * (double)gradient[e];
            for (size_t half = 0; half < 2; half++) {
                const double step = (half == 0 ? 0.002 : 0.001) / square;
                slope[half] = (loss_moved(&f, param->value, from, gradient, step) -
                                  loss_moved(&f, param->value, from, gradient, -step)) /
                              (2 * step);
            }
            const double found = (4 * slope[1] - slope[0]) / 3;
            if (!(fabs(found - square) <= 0.02 * square))
                fail_msg("%s, %s: %.6g by differences, %.6g by the backward pass", presets[p],
                    names[k], found, square);
        }
        test_end(f.model);
    }
}

/* The mean of compact's gradient over seeds, and the spread about it, beside dense's. */
typedef struct mean_error {
    double off;   /* |mean - dense|^2 */
    double noise; /* the part of it that draws leave: their variance / draws */
} mean_error;

/* Sums the errors of all convolutions' weights whose inputs are codes. */
static mean_error error_of_mean(const golden_resnet_case *c, const fixture *dense, clprune_keep how,
    const char *text, size_t draws)
{
    fixture f = make_with(c, "compact", how, text);
    mean_error sum = {0};
    double *means[128] = {0}, *squares[128] = {0};
    assert_true(f.params_count <= 128);
    write_batch(&f, c, c->seed, 0);
    for (size_t draw = 0; draw < draws; draw++) {
        clprune_net_set_seed(f.model->net, 1 + draw);
        (void)forward(&f, true, smoothing);
        const clprune_net_data data = data_of(&f, smoothing);
        TEST_OK(net_model_backward(f.model, &data));
        for (size_t i = 3; i + 2 < f.params_count; i += 3) {
            const clprune_mat mat = f.params[i].grad;
            const size_t count = mat.rows * mat.cols;
            float *got = read_mat(mat);
            if (draw == 0) {
                means[i] = test_alloc(count * sizeof(double));
                squares[i] = test_alloc(count * sizeof(double));
            }
            for (size_t e = 0; e < count; e++) {
                means[i][e] += (double)got[e] / (double)draws;
                squares[i][e] += (double)got[e] * (double)got[e] / (double)draws;
            }
        }
    }
    for (size_t i = 3; i + 2 < f.params_count; i += 3) {
        const clprune_mat mat = dense->params[i].grad;
        float *want = read_mat(mat);
        double off = 0, noise = 0, norm = 0;
        for (size_t e = 0; e < mat.rows * mat.cols; e++) {
            off += pow(means[i][e] - (double)want[e], 2);
            noise += (squares[i][e] - pow(means[i][e], 2)) / (double)(draws - 1);
            norm += pow((double)want[e], 2);
        }
        sum.off += off / norm;
        sum.noise += noise / norm;
    }
    test_end(f.model);
    return sum;
}

/* compact's weight gradients are dense's in expectation: what is left of the error of their mean is
 * the noise of so many draws, and falls with them. Codes rounded to nearest have no noise, and
 * their error stays; max(., 0) of the codes instead of the kept sign has a bias, too. */
static void unbiased(void **state)
{
    const golden_resnet_case *c = *state;
    enum { FEW = 8, MANY = 64 };
    const clprune_keep how = {.bits = 4},
                       nearest = {.bits = 4, .rounding = CLPRUNE_ROUNDING_NEAREST};
    fixture dense = make(c, "dense", (clprune_keep){0});
    (void)both_passes(&dense, c);
    const mean_error few = error_of_mean(c, &dense, how, "", FEW),
                     many = error_of_mean(c, &dense, how, "", MANY),
                     fixed = error_of_mean(c, &dense, nearest, "", 2),
                     stem = error_of_mean(c, &dense, how, "net conv1 quantised bits=2\n", MANY);
    if (!(few.off <= 1.1 * few.noise && many.off <= 1.1 * many.noise))
        fail_msg("biased: after %d draws |mean - dense|^2 is %.3g, the noise left %.3g; after %d "
                 "%.3g, %.3g",
            FEW, few.off, few.noise, MANY, many.off, many.noise);
    if (!(many.off * 6 <= few.off))
        fail_msg("the error falls from %.3g to %.3g only", few.off, many.off);
    if (!(stem.off <= 1.1 * stem.noise))
        fail_msg("biased by the stem's codes: |mean - dense|^2 is %.3g, the noise left %.3g",
            stem.off, stem.noise);
    if (!(fixed.off > 10 * many.off))
        fail_msg("rounding to nearest errs by %.3g, no more than %.3g", fixed.off, many.off);
    test_end(dense.model);
}

static void counts(NO_ROW)
{
    static const uint64_t parameters[] = {11689512, 21797672, 11173962, 272474};
    for (size_t i = 0; i < 4; i++) {
        trainer_sizes sizes = {.arch = i};
        assert_null(net_model_settle(&resnet_model, &sizes));
        assert_int_equal(sizes.parameters, parameters[i]);
    }
}

/* ---- weights of other programs --------------------------------------------------------------- */

static void build_small(const trainer_sizes *sizes, clprune_net *net)
{
    const resnet_arch arch = {sizes->image, sizes->classes, false, 2, {1, 1}, {16, 32}};
    resnet_build(&arch, net);
}

/* The counts of batches that a file has. */
static void check_counts(net_model *model, const char *path, const int64_t *want)
{
    safetensors s;
    fault wrong = {0};
    test_good(safetensors_open(path, &s, &wrong), &wrong);
    for (size_t i = 0; i < model->counts_count; i++) {
        const safetensor *t = safetensors_find(&s, model->counts[i].name);
        int64_t got = TRAINER_NO_COUNT;
        if (t != NULL)
            assert_true(safetensors_read_i64(&s, t, &got, &wrong));
        assert_int_equal(got, want[i]);
    }
    safetensors_close(&s);
}

static void export_to(net_model *model, const char *path)
{
    TEST_GOOD(weights_export(model, path, &f));
}

static void import_from(net_model *model, const char *path)
{
    weights_imported imported;
    TEST_GOOD(weights_import(model, path, 1, &imported, &f));
    assert_false(imported.head_left);
}

/* A file of torchvision gives PyTorch's logits. Exported, it has the same bytes. A pass of training
 * adds 1 to each count of batches that the model has, a test none. */
static void imported(NO_ROW)
{
    enum { BATCH = 4, IMAGE = 9, CLASSES = 5, UNITS = 6 };
    static const char path[] = TEST_GOLDEN "/torchvision.safetensors";
    const size_t bytes = BATCH * 3 * IMAGE * IMAGE;
    const char *folder = test_folder(), *out = test_text("%s/out", folder),
               *again = test_text("%s/again", folder);
    trainer_sizes sizes = {.image = IMAGE, .classes = CLASSES};
    trainer_model type = resnet_model;
    type.build = build_small;
    net_model *model = test_model(&type, &sizes, NULL, BATCH, 1);
    const trainer_count *counts = model->counts;
    assert_int_equal(model->counts_count, UNITS);
    import_from(model, path);
    clprune_image_bytes images = golden_images_make(bytes);
    golden_images_write(&images, bytes, 7);
    TEST_OK(net_model_forward(model, &(clprune_net_data){.batch = BATCH, .images = images}, false));
    float *logits = read_mat(clprune_net_output(model->net, BATCH));
    for (size_t i = 0; i < BATCH * CLASSES; i++)
        assert_true(fabs((double)logits[i] - golden_torchvision_logits[i]) <= 1e-4);
    export_to(model, out);
    test_file_same(path, out);
    /* some without a count: in neither file; the largest stays */
    const int64_t first = (INT64_C(1) << 33) + 2;
    const int64_t none = TRAINER_NO_COUNT;
    const int64_t want[UNITS] = {first + 2, none, first + 6 + 2, INT64_MAX, INT64_MAX, none};
    *counts[1].value = *counts[5].value = none;
    *counts[3].value = INT64_MAX - 1;
    *counts[4].value = INT64_MAX;
    for (int pass = 0; pass < 2; pass++)
        TEST_OK(
            net_model_forward(model, &(clprune_net_data){.batch = BATCH, .images = images}, true));
    export_to(model, out);
    check_counts(model, out, want);
    TEST_OK(net_model_init(model, 2, NULL)); /* counts from 0 */
    TEST_OK(net_model_forward(model, &(clprune_net_data){.batch = BATCH, .images = images}, true));
    export_to(model, again);
    check_counts(model, again, (const int64_t[UNITS]){1, 1, 1, 1, 1, 1});
    import_from(model, out);
    export_to(model, again);
    test_file_same(out, again);
}

int main(void)
{
    test_list list = {0};
    test_add(&list, counts, NULL, "counts");
    for (size_t i = 0; i < (test_small() ? 1 : 2); i++) {
        test_add(&list, gradients, cases[i], "gradients: %s", cases[i]->name);
        test_add(&list, training, cases[i], "training: %s", cases[i]->name);
        test_add(&list, exact_dx, cases[i], "dx is exact: %s", cases[i]->name);
    }
    test_add(&list, codes, cases[0], "codes: %s", cases[0]->name);
    test_add(&list, differences, cases[0], "finite differences: %s", cases[0]->name);
    test_add(&list, unbiased, cases[0], "unbiased codes: %s", cases[0]->name);
    if (safetensors_readable())
        test_add(&list, imported, NULL, "weights of torchvision");
    return test_run_on_each_device("resnet", &list);
}
