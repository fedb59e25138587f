/* The example's ResMLP with the parameters and inputs of the golden values, and comparisons with
 * them. */
#ifndef CLPRUNE_GOLDEN_MODEL_H
#define CLPRUNE_GOLDEN_MODEL_H

#include "golden/golden_images.h"
#include "golden/golden_rows.h"
#include "golden/golden_types.h"
#include "model.h"
#include "support/test_compare.h"
#include "support/test_device.h"

#include "golden/golden_resmlp.inc"
#include "golden/golden_train.inc"

/* Relative to the l2 norm of a tensor; float32 PyTorch is off by up to 2.2e-6. */
static const double bound = 2e-5;

static const float smoothing = 0.1f;

typedef struct fixture {
    resmlp model;
    size_t batch, pixels;
    clprune_image_bytes images;
    clprune_mat loss, hit;
    cl_mem labels;
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
    return (resmlp_arch){.name = row->name,
        .image = row->image,
        .patch = row->patch,
        .dim = row->dim,
        .depth = row->depth,
        .hidden = row->hidden,
        .classes = row->classes};
}

/* The rules of a block, and of the last x; of several policies the last one's last_x counts. */
typedef struct keep_policy {
    keep_rule rule[KEEP_TENSORS], last_x;
} keep_policy;

/* A preset by its position; how.bits: of GELU's code and of quantised tensors. */
static inline keep_policy keep_preset(size_t preset, clprune_keep how)
{
    const keep_how settings = {how, how.bits};
    keep_policy policy;
    for (size_t i = 0; i < KEEP_TENSORS; i++)
        policy.rule[i] = keep_preset_rule(&resmlp_keep, preset, i, &settings);
    policy.last_x = keep_preset_rule(&resmlp_keep, preset, KEEP_TENSORS, &settings);
    return policy;
}

/* Creates a model with a policy for each block (stride 1) or one for all (stride 0). */
static inline clprune_status create_model(clprune_context *context, const resmlp_arch *arch,
    const keep_policy *policies, size_t stride, size_t batch, resmlp *model)
{
    const size_t depth = arch->depth;
    keep_rule *rules = test_alloc(keep_rules_count(&resmlp_keep, depth) * sizeof *rules);
    for (size_t i = 0; i < depth; i++)
        memcpy(&rules[KEEP_TENSORS * i], policies[i * stride].rule, sizeof policies->rule);
    rules[KEEP_TENSORS * depth] = policies[(depth - 1) * stride].last_x;
    return resmlp_create(context, arch, rules, batch, model);
}

static inline keep_policy policy_of(uint32_t block, double sparsity)
{
    const clprune_keep how = {.sparsity = (float)sparsity, .block = {1, block}};
    return keep_preset(block == 0 ? 0 : 1, how);
}

/* Everything kept as blocks, and none pruned: the long way round to the dense result. */
static inline keep_policy policy_of_all_blocks(clprune_block block)
{
    keep_policy policy = {.last_x = {.keep = {.form = CLPRUNE_FORM_PRUNED, .block = block}}};
    for (int i = 0; i < KEEP_TENSORS; i++)
        policy.rule[i] = policy.last_x;
    return policy;
}

static inline void write_images(fixture *f, uint64_t seed)
{
    golden_images_write(&f->images, f->batch * f->pixels, seed);
}

static inline void write_labels(fixture *f, uint32_t step, bool training)
{
    int32_t *labels = test_alloc(f->batch * sizeof *labels);
    const uint32_t classes = (uint32_t)f->model.arch.classes;
    for (uint32_t i = 0; i < f->batch; i++)
        labels[i] =
            (int32_t)(training ? golden_train_label(i, step, classes) : golden_label(i, classes));
    golden_buffer_write(f->labels, f->batch * sizeof *labels, labels);
}

static inline void write_parameters(fixture *f, const golden_tensor *tensors)
{
    for (size_t i = 0; i < f->model.tensors; i++) {
        const clprune_param *param = &f->model.params[i];
        const size_t count = param->value.rows * param->value.cols;
        float *values = test_floats(count);
        assert_string_equal(param->name, tensors[i].name);
        assert_int_equal(count, tensors[i].count);
        golden_fill_parameter(
            tensors[i].kind, tensors[i].fan_in, GOLDEN_SEED_PARAMETER + i, count, values);
        TEST_OK(clprune_mat_write(test_context(), param->value, values));
    }
}

/* A model with room for `room` samples, of which `batch` are used; policies as in create_model. */
static inline fixture make_fixture_each(const golden_resmlp_case *row, const keep_policy *policies,
    size_t stride, size_t batch, size_t room)
{
    clprune_context *context = test_context();
    const resmlp_arch arch = arch_of(row);
    const size_t pixels = 3 * (size_t)row->image * row->image;
    fixture f = {.batch = batch,
        .pixels = pixels,
        .images = golden_images_make(batch * pixels),
        .loss = test_new_mat(context, batch, 1),
        .hit = test_new_mat(context, batch, 1),
        .labels = test_new_mat(context, batch, 1).buffer};
    TEST_OK(create_model(context, &arch, policies, stride, room, &f.model));
    assert_int_equal(f.model.tensors, row->parameters);
    write_parameters(&f, tensors_of(row));
    write_images(&f, row->image_seed);
    write_labels(&f, 0, false);
    return f;
}

/* The same, with one policy for all blocks. */
static inline fixture make_fixture(
    const golden_resmlp_case *row, const keep_policy *policy, size_t batch, size_t room)
{
    return make_fixture_each(row, policy, 0, batch, room);
}

/* Bytes of what a model keeps, from its shapes and rules; `dense`: with all of it kept dense. */
typedef struct kept_sums {
    uint64_t all, dense, indices;
} kept_sums;

static inline void add_kept(
    const fixture *f, const keep_rule *rule, size_t rows, size_t cols, kept_sums *sums)
{
    clprune_saved_sizes sizes;
    assert_int_equal(
        clprune_saved_size_query(&rule->keep, f->model.batch, rows, cols, &sizes), CLPRUNE_SUCCESS);
    sums->dense += sizes.dense_bytes;
    if (!rule->recomputed) {
        sums->all += sizes.bytes;
        sums->indices += sizes.index_bytes;
    }
}

static inline kept_sums kept_of(const fixture *f)
{
    const resmlp *model = &f->model;
    const keep_rule dense = {.keep = {.form = CLPRUNE_FORM_DENSE}};
    const size_t tokens = model->tokens, blocks = model->arch.depth;
    const uint64_t log_p = model->batch * model->arch.classes * sizeof(float);
    kept_sums sums = {.all = log_p, .dense = log_p};
    for (size_t i = 0; i < keep_rules_count(&resmlp_keep, blocks); i++)
        add_kept(f, &model->rules[i], tokens,
            keep_features(&model->arch, keep_place_of(&resmlp_keep, blocks, i).entry), &sums);
    add_kept(f, &dense, 1, model->arch.dim, &sums); /* pooled */
    return sums;
}

static inline uint64_t kept_now(void)
{
    return test_live(test_context(), CLPRUNE_MEMORY_ACTIVATIONS);
}

/* The formulas for what is kept, of a policy and of dense, are what the ledger says, and it is
 * given back. Returns the bytes. */
static inline kept_sums check_kept(const golden_resmlp_case *row, const keep_policy *policy)
{
    const uint64_t before = kept_now();
    fixture f = make_fixture(row, policy, row->batch, row->batch);
    const kept_sums bytes = kept_of(&f);
    assert_int_equal(bytes.all, kept_now() - before);
    const uint64_t t = (uint64_t)row->batch * f.model.tokens * row->dim;
    const uint64_t h = (uint64_t)row->batch * f.model.tokens * row->hidden;
    const uint64_t tail = t + (uint64_t)row->batch * (row->dim + row->classes);
    assert_int_equal(bytes.dense, 4 * (row->depth * (6 * t + 2 * h) + tail));
    resmlp_destroy(&f.model);
    assert_int_equal(kept_now(), before);
    return bytes;
}

static inline void forward(fixture *f, bool training)
{
    TEST_OK(resmlp_forward(&f->model, f->batch, f->images, training));
    TEST_OK(resmlp_loss(&f->model, f->batch, f->labels, smoothing, f->loss, f->hit));
}

/* A pass of training, forward and backward. */
static inline void both_passes(fixture *f)
{
    forward(f, true);
    TEST_OK(resmlp_backward(&f->model, f->batch, f->images, f->labels, smoothing));
}

/* The gradients of all tensors, one after the other. */
static inline float *gradients_of(fixture *f)
{
    float *all = test_floats(resmlp_arch_parameters(&f->model.arch)), *next = all;
    both_passes(f);
    for (size_t i = 0; i < f->model.tensors; i++) {
        const clprune_mat grad = f->model.params[i].grad;
        TEST_OK(clprune_mat_read(test_context(), grad, next));
        next += grad.rows * grad.cols;
    }
    return all;
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

/* Loss, logits and every gradient. What is recomputed is so for `chunk` samples at a time, 0 for as
 * many as the model chooses. Destroys the model. */
static inline void check_gradients_of(const golden_resmlp_case *row, fixture f, size_t chunk)
{
    const golden_tensor *want = tensors_of(row);
    if (chunk != 0)
        f.model.chunk = f.model.stem_step = chunk;
    forward(&f, true);
    near(row->name, "loss", golden_mean_loss(f.loss), row->loss, bound * row->loss);
    check_tensor(&want[row->parameters], f.model.logits);
    TEST_OK(resmlp_backward(&f.model, f.batch, f.images, f.labels, smoothing));
    for (size_t i = 0; i < f.model.tensors; i++)
        check_tensor(&want[i], f.model.params[i].grad);
    resmlp_destroy(&f.model);
}

static inline void check_gradients(
    const golden_resmlp_case *row, const keep_policy *policy, size_t chunk)
{
    check_gradients_of(row, make_fixture(row, policy, row->batch, row->batch), chunk);
}

/* The slope of the loss along each tensor's gradient is the gradient's norm. */
static inline void check_slopes(const golden_resmlp_case *row, const keep_policy *policy)
{
    fixture f = make_fixture(row, policy, row->batch, row->batch);
    both_passes(&f);
    for (size_t i = 0; i < f.model.tensors; i++) {
        const clprune_param *param = &f.model.params[i];
        const size_t count = param->value.rows * param->value.cols;
        float *value = read_mat(param->value), *grad = read_mat(param->grad);
        float *moved = test_floats(count);
        const double norm = golden_norm(count, grad), step = 3e-3 / norm;
        double loss[2];
        for (int side = 0; side < 2; side++) {
            for (size_t j = 0; j < count; j++)
                moved[j] =
                    (float)((double)value[j] + (side == 0 ? step : -step) * (double)grad[j] / norm);
            TEST_OK(clprune_mat_write(test_context(), param->value, moved));
            forward(&f, false);
            loss[side] = golden_mean_loss(f.loss);
        }
        near(param->name, "slope", (loss[0] - loss[1]) / (2 * step), norm, 0.01 * norm);
        TEST_OK(clprune_mat_write(test_context(), param->value, value));
    }
    resmlp_destroy(&f.model);
}

/* The losses of a short run, within `tolerance`. */
static inline void check_training(
    const golden_train_run *run, const keep_policy *policy, double tolerance)
{
    const golden_resmlp_case *tiny = &golden_resmlp_cases[1];
    assert_string_equal(tiny->name, "tiny");
    fixture f = make_fixture(tiny, policy, run->batch, run->batch);
    const clprune_optimizer_desc desc = {.kind = CLPRUNE_OPTIMIZER_ADAMW,
        .beta1 = 0.9f,
        .beta2 = 0.999f,
        .eps = 1e-8f,
        .weight_decay = (float)run->weight_decay};
    for (size_t i = 0; i < f.model.tensors; i++)
        f.model.params[i].decay = true;
    clprune_optimizer *optimizer =
        test_new_optimizer(test_context(), desc, f.model.tensors, f.model.params);
    for (uint32_t t = 0; t < GOLDEN_TRAIN_STEPS; t++) {
        char step[32];
        (void)snprintf(step, sizeof step, "step %u", (unsigned)t);
        write_images(&f, GOLDEN_SEED_TRAIN_IMAGE + t);
        write_labels(&f, t, true);
        forward(&f, true);
        near(run->name, step, golden_mean_loss(f.loss), run->loss[t], tolerance);
        TEST_OK(resmlp_backward(&f.model, f.batch, f.images, f.labels, smoothing));
        TEST_OK(clprune_optimizer_step(optimizer, (float)run->lr, NULL));
    }
    test_end(optimizer);
    resmlp_destroy(&f.model);
}

#endif
