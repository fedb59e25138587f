/* The example's ResMLP with the parameters and inputs of the golden values, and comparisons with
 * them. */
#ifndef CLPRUNE_GOLDEN_MODEL_H
#define CLPRUNE_GOLDEN_MODEL_H

#include "golden/golden_images.h"
#include "golden/golden_rows.h"
#include "golden/golden_types.h"
#include "resmlp_model.h"
#include "support/test_compare.h"
#include "support/test_device.h"

#include "golden/golden_resmlp.inc"
#include "golden/golden_train.inc"

/* Relative to the l2 norm of a tensor; float32 PyTorch is off by up to 2.2e-6. */
static const double bound = 2e-5;

static const float smoothing = 0.1f;

typedef struct fixture {
    clprune_net *net;
    clprune_net_data data;
    clprune_param *params;
    size_t params_count, pixels, classes;
    clprune_mat loss, hit;
} fixture;

/* The tensors of a case: row->parameters gradients, then the logits. */
static inline const golden_tensor *tensors_of(const golden_resmlp_case *row)
{
    const size_t count = row->parameters + 1;
    const golden_row *rows = golden_rows_read(
        TEST_GOLDEN "/golden_resmlp.safetensors", row->name, count, GOLDEN_TENSOR_NUMBERS);
    golden_tensor *tensors = test_alloc(count * sizeof *tensors);
    for (size_t i = 0; i < count; i++) {
        golden_tensor *t = &tensors[i];
        const double *number = rows[i].numbers;
        t->name = rows[i].name;
        t->kind = (golden_kind)*number++;
        t->fan_in = (uint64_t)*number++;
        t->count = (uint64_t)*number++;
        t->norm = *number++;
        for (size_t p = 0; p < GOLDEN_PROJECTIONS; p++)
            t->proj[p] = *number++;
        for (size_t k = 0; k < GOLDEN_SAMPLES; k++)
            t->index[k] = (uint64_t)*number++;
        for (size_t k = 0; k < GOLDEN_SAMPLES; k++)
            t->value[k] = *number++;
    }
    return tensors;
}

static inline resmlp_arch arch_of(const golden_resmlp_case *row)
{
    return (resmlp_arch){.image = row->image,
        .patch = row->patch,
        .dim = row->dim,
        .depth = row->depth,
        .hidden = row->hidden,
        .classes = row->classes};
}

static inline void write_images(fixture *f, uint64_t seed)
{
    golden_images_write(&f->data.images, f->data.batch * f->pixels, seed);
}

static inline void write_labels(fixture *f, uint32_t step, bool training)
{
    int32_t *labels = test_alloc(f->data.batch * sizeof *labels);
    const uint32_t classes = (uint32_t)f->classes;
    for (uint32_t i = 0; i < f->data.batch; i++)
        labels[i] =
            (int32_t)(training ? golden_train_label(i, step, classes) : golden_label(i, classes));
    golden_buffer_write(f->data.labels.buffer, f->data.batch * sizeof *labels, labels);
}

/* Names of merged layers stay those of their parameters. */
static inline size_t param_named(const fixture *f, const char *name)
{
    size_t i = 0;
    while (strcmp(f->params[i].name, name) != 0)
        assert_true(++i < f->params_count);
    return i;
}

static inline void write_parameters(fixture *f, const golden_tensor *tensors)
{
    for (size_t i = 0; i < f->params_count; i++) {
        const clprune_param *param = &f->params[param_named(f, tensors[i].name)];
        const size_t count = param->value.rows * param->value.cols;
        float *values = test_floats(count);
        assert_int_equal(count, tensors[i].count);
        golden_fill_parameter(
            tensors[i].kind, tensors[i].fan_in, GOLDEN_SEED_PARAMETER + i, count, values);
        TEST_OK(clprune_mat_write(test_context(), param->value, values));
    }
}

TEST_UNDO(destroy_net, clprune_net_destroy(what))

/* A model with room for `room` samples, of which `batch` are used. */
static inline fixture make_fixture(
    const golden_resmlp_case *row, const clprune_net_keep *keep, size_t batch, size_t room)
{
    clprune_context *context = test_context();
    const resmlp_arch arch = arch_of(row);
    const size_t pixels = 3 * (size_t)row->image * row->image;
    fixture f = {.pixels = pixels,
        .classes = row->classes,
        .data = {.batch = batch,
            .images = golden_images_make(batch * pixels),
            .labels = {test_new_mat(context, batch, 1).buffer, 0},
            .smoothing = smoothing},
        .loss = test_new_mat(context, batch, 1),
        .hit = test_new_mat(context, batch, 1)};
    TEST_OK(clprune_net_create(context, &(clprune_net_desc){.batch = room}, &f.net));
    test_later(destroy_net, NULL, f.net);
    resmlp_build(&arch, f.net);
    TEST_OK(clprune_net_settle(f.net, keep));
    f.params = clprune_net_params(f.net, &f.params_count);
    assert_int_equal(f.params_count, row->parameters);
    write_parameters(&f, tensors_of(row));
    write_images(&f, row->image_seed);
    write_labels(&f, 0, false);
    return f;
}

static inline void forward(fixture *f, bool training)
{
    TEST_OK(clprune_net_forward(f->net, &f->data, training));
    TEST_OK(clprune_net_loss(f->net, &f->data, f->loss, f->hit));
}

/* A pass of training, forward and backward. */
static inline void both_passes(fixture *f)
{
    forward(f, true);
    TEST_OK(clprune_net_backward(f->net, &f->data));
}

static inline void near(
    const char *tensor, const char *what, double got, double want, double allowed)
{
    if (!(fabs(got - want) <= allowed))
        fail_msg("%s, %s: got %.9g, want %.9g, off by %.3g, allowed %.3g", tensor, what, got, want,
            fabs(got - want), allowed);
}

/* golden_projection() with the signs in a table: they are the same for all tensors, and making them
 * took most of a check. */
static inline double projection_of(uint32_t p, size_t count, const float *x)
{
    static signed char *signs[GOLDEN_PROJECTIONS];
    static size_t known[GOLDEN_PROJECTIONS];
    if (known[p] < count) {
        signs[p] = realloc(signs[p], count);
        assert_non_null(signs[p]);
        for (; known[p] < count; known[p]++)
            signs[p][known[p]] = (signed char)golden_sign(p, known[p]);
    }
    double sum = 0.0;
    for (size_t j = 0; j < count; j++)
        sum += signs[p][j] * (double)x[j];
    return sum;
}

static inline void check_tensor(const golden_tensor *want, clprune_mat mat)
{
    const size_t count = mat.rows * mat.cols;
    const double allowed = bound * want->norm;
    float *got = read_mat(mat);
    assert_int_equal(count, want->count);
    near(want->name, "norm", golden_norm(count, got), want->norm, allowed);
    for (uint32_t p = 0; p < GOLDEN_PROJECTIONS; p++)
        near(want->name, "projection", projection_of(p, count, got), want->proj[p], allowed);
    for (size_t i = 0; i < GOLDEN_SAMPLES; i++)
        near(want->name, "element", (double)got[want->index[i]], want->value[i], allowed);
}

/* Loss, logits and every gradient. */
static inline void check_gradients(const golden_resmlp_case *row, const clprune_net_keep *keep)
{
    const golden_tensor *want = tensors_of(row);
    fixture f = make_fixture(row, keep, row->batch, row->batch);
    forward(&f, true);
    near(row->name, "loss", golden_mean_loss(f.loss), row->loss, bound * row->loss);
    check_tensor(&want[row->parameters], clprune_net_output(f.net, row->batch));
    TEST_OK(clprune_net_backward(f.net, &f.data));
    for (size_t i = 0; i < f.params_count; i++)
        check_tensor(&want[i], f.params[param_named(&f, want[i].name)].grad);
    test_end(f.net);
}

/* The losses of a short run, within `tolerance`. */
static inline void check_training(
    const golden_train_run *run, const clprune_net_keep *keep, double tolerance)
{
    const golden_resmlp_case *tiny = &golden_resmlp_cases[1];
    assert_string_equal(tiny->name, "tiny");
    fixture f = make_fixture(tiny, keep, run->batch, run->batch);
    const clprune_optimizer_desc desc = {.kind = CLPRUNE_OPTIMIZER_ADAMW,
        .beta1 = 0.9f,
        .beta2 = 0.999f,
        .eps = 1e-8f,
        .weight_decay = (float)run->weight_decay};
    for (size_t i = 0; i < f.params_count; i++)
        f.params[i].decay = true;
    clprune_optimizer *optimizer =
        test_new_optimizer(test_context(), desc, f.params_count, f.params);
    for (uint32_t t = 0; t < GOLDEN_TRAIN_STEPS; t++) {
        char step[32];
        (void)snprintf(step, sizeof step, "step %u", (unsigned)t);
        write_images(&f, GOLDEN_SEED_TRAIN_IMAGE + t);
        write_labels(&f, t, true);
        both_passes(&f);
        near(run->name, step, golden_mean_loss(f.loss), run->loss[t], tolerance);
        TEST_OK(clprune_optimizer_step(optimizer, (float)run->lr, NULL));
    }
    test_end(optimizer);
    test_end(f.net);
}

#endif
