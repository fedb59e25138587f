/* Optimizers: PyTorch's values, one step against the reference over all sizes, special cases of the
 * formulas, clipping, repeatability, invalid arguments. */
#include <assert.h>

#include "golden/golden_types.h"
#include "ref/optimizer_ref.h"
#include "support/test_layer.h"

#include "golden/golden_optim.inc"

/* --- PyTorch's values --- */

/* The optimizer of this name; one without a name if there is none. */
static clprune_optimizer_info named(const char *name)
{
    size_t i = 0;
    clprune_optimizer_info info;
    do
        info = clprune_optimizer_describe(i++);
    while (info.name != NULL && strcmp(info.name, name) != 0);
    return info;
}

static void golden_check(const golden_optim_tensor *want, const float *p)
{
    double norm = 0;
    for (size_t j = 0; j < want->count; j++) {
        norm += (double)p[j] * (double)p[j];
        if (want->count <= GOLDEN_OPTIM_VALUES && fabs((double)p[j] - want->value[j]) > 1e-6)
            fail_msg("%s, tensor %u, element %zu: got %.9g, PyTorch has %.9g", want->run_name,
                (unsigned)want->tensor, j, (double)p[j], want->value[j]);
    }
    if (fabs(sqrt(norm) - want->norm) > 1e-6 * want->norm)
        fail_msg("%s, tensor %u: norm %.9g, PyTorch has %.9g", want->run_name,
            (unsigned)want->tensor, sqrt(norm), want->norm);
    for (uint32_t k = 0; k < GOLDEN_PROJECTIONS; k++) {
        const double got = golden_projection(k, (size_t)want->count, p);
        if (fabs(got - want->proj[k]) > 3e-6 * sqrt((double)want->count))
            fail_msg("%s, tensor %u: projection %.9g, PyTorch has %.9g", want->run_name,
                (unsigned)want->tensor, got, want->proj[k]);
    }
}

static void golden(void **state)
{
    const golden_optim_run *run = *state;
    enum { TENSORS = 4 };
    const clprune_optimizer_info of = named(run->name);
    assert_int_equal(run->tensors, TENSORS);
    assert_non_null(of.name);
    assert_int_equal(of.desc.kind, run - golden_optim_runs); /* enumerators stay */
    const golden_optim_tensor *tensors = &golden_optim_tensors[run->first];
    const clprune_optimizer_desc desc = {.kind = of.desc.kind,
        .momentum = (float)run->momentum,
        .beta1 = (float)run->beta1,
        .beta2 = (float)run->beta2,
        .eps = (float)run->eps,
        .weight_decay = (float)run->weight_decay};
    test_mat value[TENSORS], grad[TENSORS];
    clprune_param params[TENSORS];
    float numbers[256];
    for (uint32_t i = 0; i < TENSORS; i++) {
        const size_t count = (size_t)tensors[i].count;
        assert_true(count <= 256);
        golden_fill_uniform(
            0, (float)tensors[i].start_scale, GOLDEN_SEED_OPTIM_PARAMETER + i, count, numbers);
        value[i] = test_mat_make(1, count, 0, numbers);
        grad[i] = test_mat_make(1, count, 0, NULL);
        params[i] = (clprune_param){"p", value[i].mat, grad[i].mat, true};
    }
    clprune_optimizer *optimizer = test_new_optimizer(test_context(), desc, TENSORS, params);
    for (uint32_t t = 0; t < GOLDEN_OPTIM_STEPS; t++) { /* their steps count from 0 */
        for (uint32_t i = 0; i < TENSORS; i++) {
            golden_fill_uniform(
                0, 1, GOLDEN_SEED_OPTIM_GRADIENT + 10 * t + i, (size_t)tensors[i].count, numbers);
            test_mat_set(&grad[i], numbers);
        }
        TEST_OK(clprune_optimizer_step(optimizer, (float)run->lr, NULL));
        for (uint32_t i = 0; i < TENSORS; i++)
            test_mat_unchanged(&grad[i], "gradient");
    }
    assert_int_equal(clprune_optimizer_steps(optimizer), GOLDEN_OPTIM_STEPS);
    for (uint32_t i = 0; i < TENSORS; i++) {
        float *p = test_mat_get(&value[i], "parameter");
        golden_check(&tensors[i], p);
    }
}

/* --- One step against the reference --- */

typedef struct step_case {
    clprune_optimizer_info of;
    size_t rows, cols;
    bool decay, momentum;
    uint64_t t;
    bool nesterov, rates;
} step_case;

/* Factors of the learning rate and of the weight decay, which has none of its own then. */
static const float lr_factor = 0.375f, decay_factor = 3;

static void state_check(const clprune_optimizer *optimizer, size_t slot, size_t count,
    const double *want, const double *bound)
{
    const clprune_mat mat = clprune_optimizer_state(optimizer, 0, slot);
    assert_int_equal(mat.rows * mat.cols, count);
    float *got = test_new_normal(0, count);
    TEST_OK(clprune_mat_read(test_context(), mat, got));
    test_close("state", 1, count, got, want, bound, "slot %zu", slot);
}

static void step(void **state)
{
    const step_case *s = *state;
    clprune_context *context = test_context();
    const size_t count = s->rows * s->cols;
    const float lr = 0.05f;
    clprune_optimizer_desc desc = test_optimizer_desc(s->of.desc.kind);
    const bool none = s->of.desc.momentum != 0 && !s->momentum;
    if (!s->momentum)
        desc.momentum = 0;
    desc.nesterov = s->nesterov;
    float *g = test_new_normal(71, count), *p = test_new_normal(72, count);
    float *m = test_new_normal(73, count), *v = test_new_uniform(74, 0, 2, count);
    optimizer_ref ref = optimizer_ref_make(count, g, p, m, v);
    test_mat value = test_mat_make(s->rows, s->cols, 0, p);
    test_mat again = test_mat_make(s->rows, s->cols, 0, p);
    test_mat grad = test_mat_make(s->rows, s->cols, 0, g);
    clprune_param param = {"w", value.mat, grad.mat, s->decay};
    clprune_optimizer_desc scaled = desc;
    if (s->rates)
        scaled.weight_decay *= decay_factor;
    optimizer_ref_step(
        &scaled, s->t, (double)lr * (s->rates ? (double)lr_factor : 1), s->decay || s->rates, &ref);
    for (int run = 0; run < 2; run++) {
        param.value = run == 0 ? value.mat : again.mat;
        clprune_optimizer *optimizer = test_new_optimizer(context, desc, 1, &param);
        const size_t slots = clprune_optimizer_slots(optimizer);
        assert_int_equal(slots, none ? 0 : strlen(s->of.slots));
        for (size_t slot = 0; slot < slots; slot++)
            TEST_OK(clprune_mat_write(context, clprune_optimizer_state(optimizer, 0, slot),
                s->of.slots[slot] == 'm' ? m : v));
        clprune_optimizer_set_steps(optimizer, s->t - 1);
        if (s->rates)
            TEST_OK(clprune_optimizer_set_rates(optimizer, 0, lr_factor, decay_factor));
        TEST_EVENT(clprune_optimizer_step(optimizer, lr, &event));
        assert_int_equal(clprune_optimizer_steps(optimizer), s->t);
        for (size_t slot = 0; slot < slots; slot++)
            if (s->of.slots[slot] == 'm')
                state_check(optimizer, slot, count, ref.m, ref.m_bound);
            else
                state_check(optimizer, slot, count, ref.v, ref.v_bound);
    }
    layer_check("parameter", &value, ref.p, ref.p_bound, s->of.name);
    layer_same("parameter", &value, &again);
    test_mat_unchanged(&grad, "gradient");
}

/* --- Special cases --- */

/* One step of one tensor with state zero; the parameter afterwards. */
static void one_step(const clprune_optimizer_desc *desc, size_t count, const float *p,
    const float *g, float lr, float *after)
{
    test_mat value = test_mat_make(1, count, 0, p), grad = test_mat_make(1, count, 0, g);
    const clprune_param param = {"w", value.mat, grad.mat, true};
    clprune_optimizer *optimizer = test_new_optimizer(test_context(), *desc, 1, &param);
    TEST_OK(clprune_optimizer_step(optimizer, lr, NULL));
    float *got = test_mat_get(&value, "parameter");
    memcpy(after, got, count * sizeof *after);
}

/* The first step starts the momentum, whatever the state holds. */
static void sgd_start(NO_ROW)
{
    const float p[3] = {1, 2, 3}, g[3] = {0.5f, -1, 2}, stale[3] = {NAN, INFINITY, 7};
    const double want[3] = {1 - 0.5 * 0.5, 2 + 0.5, 3 - 1}, bound[3] = {1e-7, 1e-7, 1e-7};
    clprune_optimizer_desc desc = test_optimizer_desc(CLPRUNE_OPTIMIZER_SGD);
    desc.weight_decay = 0;
    test_mat value = test_mat_make(1, 3, 0, p), grad = test_mat_make(1, 3, 0, g);
    const clprune_param param = {NULL, value.mat, grad.mat, true};
    clprune_optimizer *optimizer = test_new_optimizer(test_context(), desc, 1, &param);
    TEST_OK(clprune_mat_write(test_context(), clprune_optimizer_state(optimizer, 0, 0), stale));
    TEST_OK(clprune_optimizer_step(optimizer, 0.5f, NULL));
    layer_check("parameter", &value, want, bound, "first step");
}

/* Zeros are the usual settings: the same bits as with these. */
static void zeros(void **state)
{
    const clprune_optimizer_info *of = *state;
    const float p[4] = {1, -2, 3, 0}, g[4] = {0.5f, 0, -1e-9f, 0};
    float got[4], want[4];
    const clprune_optimizer_desc none = {
        .kind = of->desc.kind, .momentum = of->desc.momentum, .state_bits = of->desc.state_bits};
    one_step(&none, 4, p, g, 0.25f, got);
    one_step(&of->desc, 4, p, g, 0.25f, want);
    test_same_floats("parameter", 1, 4, got, want, "zeros");
    for (size_t k = 0; k < 4; k++)
        assert_true(isfinite(got[k]));
}

/* PyTorch's defaults; test_optimizer_codes.c has names of 8 bits. */
static void usual(NO_ROW)
{
    const clprune_optimizer_desc adamw = named("adamw").desc, lamb = named("lamb").desc;
    assert_true(adamw.beta1 == 0.9f && adamw.beta2 == 0.999f && adamw.eps == 1e-8f);
    assert_true(lamb.beta1 == 0.9f && lamb.beta2 == 0.999f && lamb.eps == 1e-6f);
    assert_true(named("sgd").desc.momentum == 0.9f && named("sgd").desc.state_bits == 32);
    assert_true(named("adamw8").desc.state_bits == 8 && named("adamw8").in_parts);
    assert_true(!named("lamb").in_parts && named("lamb8").name == NULL);
    assert_null(clprune_optimizer_describe(SIZE_MAX).name);
}

/* The trust ratio is 1 where |p| or |r| is 0. */
static void lamb_zero_norms(NO_ROW)
{
    clprune_optimizer_desc desc = test_optimizer_desc(CLPRUNE_OPTIMIZER_LAMB);
    desc.eps = 0; /* r is the sign of g at the first step */
    const float zero[5] = {0}, ones[5] = {1, -1, 1, 1, -1};
    float after[5];
    one_step(&desc, 5, zero, ones, 0.25f, after);
    for (int i = 0; i < 5; i++)
        assert_true(fabs((double)after[i] + 0.25 * (double)ones[i]) < 1e-6);
    desc.weight_decay = 0;
    desc.eps = 1e-6f;
    one_step(&desc, 5, ones, zero, 0.25f, after); /* r is 0 */
    assert_memory_equal(after, ones, sizeof ones);
}

/* Norms that would overflow as plain sums of squares. */
static void lamb_huge(NO_ROW)
{
    clprune_optimizer_desc desc = test_optimizer_desc(CLPRUNE_OPTIMIZER_LAMB);
    desc.weight_decay = 0;
    desc.eps = 0;
    const float p[4] = {1e30f, 1e30f, -1e30f, 1e-3f}, g[4] = {1, 1, 1, 1};
    float after[4];
    one_step(&desc, 4, p, g, 0.125f, after);
    const double move = 0.125 * sqrt(3) * 1e30 / 2;
    for (int i = 0; i < 4; i++)
        assert_true(fabs((double)after[i] - ((double)p[i] - move)) < 1e-6 * 1e30);
}

/* --- Clipping --- */

enum { CLIPPED = 3 };

typedef struct clip_case {
    const char *name;
    size_t counts[CLIPPED];
    float size;     /* of normal random gradients */
    float special;  /* put into the second tensor unless 0 */
    float max_norm; /* relative to the norm */
} clip_case;

static const clip_case clip_cases[] = {
    {"above", {7, 130, 5}, 1, 0, 0.5f},
    {"below", {7, 130, 5}, 1, 0, 2},
    {"far above", {1, 1, 1}, 1, 0, 1e-6f},
    {"large tensors", {2047, 40001, 16384}, 1, 0, 0.25f},
    {"an empty tensor", {0, 20, 3}, 1, 0, 0.5f},
    {"huge", {7, 130, 5}, 1e30f, 0, 1e-15f},
    {"huge, below", {7, 130, 5}, 1e35f, 0, 100},
    {"huge and small", {7, 130, 5}, 1, 1e25f, 0.5f},
    {"at the border of the scales", {40, 130, 5}, 1e12f, 0, 0.5f},
    {"tiny", {7, 130, 5}, 1e-15f, 0, 0.5f},
    {"NaN", {7, 130, 5}, 1, NAN, 0.5f},
    {"Inf", {7, 130, 5}, 1, INFINITY, 0.5f},
    {"-Inf", {7, 130, 5}, 1, -INFINITY, 0.5f},
};

static void clip(void **state)
{
    const clip_case *s = *state;
    clprune_context *context = test_context();
    const clprune_optimizer_desc desc = test_optimizer_desc(CLPRUNE_OPTIMIZER_SGD);
    test_mat value[CLIPPED], grad[CLIPPED];
    clprune_param params[CLIPPED];
    float *g[CLIPPED];
    double sum = 0;
    for (size_t i = 0; i < CLIPPED; i++) {
        g[i] = test_new_normal(80 + i, s->counts[i]);
        for (size_t j = 0; j < s->counts[i]; j++)
            g[i][j] *= s->size;
        if (i == 1 && s->special != 0)
            g[i][s->counts[i] - 1] = s->special;
        for (size_t j = 0; j < s->counts[i]; j++)
            sum += (double)g[i][j] * (double)g[i][j];
        value[i] = test_mat_make(1, s->counts[i], 0, g[i]);
        grad[i] = test_mat_make(1, s->counts[i], 0, g[i]);
        params[i] = (clprune_param){"w", value[i].mat, grad[i].mat, true};
    }
    const double norm_want = sqrt(sum), norm_bound = 1e-5 * norm_want;
    const float max_norm =
        isfinite(norm_want) ? (float)((double)s->max_norm * norm_want) : s->max_norm;
    const bool scaled = isfinite(norm_want) && s->max_norm < 1;
    const double factor = scaled ? (double)max_norm / norm_want : 1;
    clprune_optimizer *optimizer = test_new_optimizer(context, desc, CLIPPED, params);
    test_mat norm = test_mat_make(1, 1, 0, NULL);
    TEST_EVENT(clprune_optimizer_clip(optimizer, max_norm, norm.mat, &event));
    layer_check("norm", &norm, &norm_want, &norm_bound, s->name);
    for (size_t i = 0; i < CLIPPED; i++) {
        double *want = layer_widen(s->counts[i], g[i]), *bound = test_doubles(s->counts[i]);
        for (size_t j = 0; j < s->counts[i]; j++) {
            want[j] *= factor;
            bound[j] = scaled ? 1e-5 * fabs(want[j]) + 0x1p-149 : 0;
        }
        layer_check("gradient", &grad[i], want, bound, s->name);
        test_mat_unchanged(&value[i], "parameter");
        /* For a second run: the same bits, also where nobody asks for the norm. */
        float *first = test_mat_get(&grad[i], "gradient");
        test_mat_set(&value[i], first);
        test_mat_set(&grad[i], g[i]);
    }
    TEST_OK(clprune_optimizer_clip(optimizer, max_norm, CLPRUNE_NO_MAT, NULL));
    for (size_t i = 0; i < CLIPPED; i++)
        layer_same("gradient", &grad[i], &value[i]);
}

/* No parameters: a norm of 0, and steps that only count. */
static void no_parameters(NO_ROW)
{
    const clprune_optimizer_desc desc = test_optimizer_desc(CLPRUNE_OPTIMIZER_LAMB);
    const double want = 0, bound = 0;
    test_mat norm = test_mat_make(1, 1, 0, NULL);
    clprune_optimizer *optimizer = test_new_optimizer(test_context(), desc, 0, NULL);
    TEST_EVENT(clprune_optimizer_step(optimizer, 0.1f, &event));
    TEST_OK(clprune_optimizer_clip(optimizer, 1, norm.mat, NULL));
    layer_check("norm", &norm, &want, &bound, "no parameters");
    assert_int_equal(clprune_optimizer_steps(optimizer), 1);
}

/* --- Invalid arguments --- */

static void desc_is_refused(clprune_optimizer_desc desc, const char *part)
{
    clprune_optimizer *optimizer = NULL;
    TEST_FAILS(clprune_optimizer_create(test_context(), &desc, 0, NULL, &optimizer),
        CLPRUNE_INVALID_ARGUMENT, part);
    assert_null(optimizer);
}

/* test_invalid_scalars.c has the limits. */
static void invalid_desc(void)
{
    static const float bad_rates[] = {-0.1f, 1.0f, NAN, INFINITY};
    static const float bad_sizes[] = {-0.1f, NAN, INFINITY};
    clprune_optimizer_desc desc;
#define REFUSED(of, field, value, part)                                                            \
    desc = test_optimizer_desc(CLPRUNE_OPTIMIZER_##of);                                            \
    desc.field = value;                                                                            \
    desc_is_refused(desc, part)
    for (size_t i = 0; i < COUNT_OF(bad_rates); i++) {
        REFUSED(ADAMW, beta1, bad_rates[i], "beta1");
        REFUSED(LAMB, beta2, bad_rates[i], "beta2");
    }
    for (size_t i = 0; i < COUNT_OF(bad_sizes); i++) {
        REFUSED(SGD, momentum, bad_sizes[i], "momentum");
        REFUSED(LAMB, eps, bad_sizes[i], "eps");
        REFUSED(LAMB, weight_decay, bad_sizes[i], "weight_decay");
    }
    REFUSED(SGD, kind, (clprune_optimizer_kind)99, "kind");
    REFUSED(SGD, reserved[2], 1, "desc.reserved");
#undef REFUSED
}

static void invalid(NO_ROW)
{
    clprune_context *context = test_context();
    const clprune_status size = CLPRUNE_INVALID_SIZE, bad = CLPRUNE_INVALID_ARGUMENT;
    const clprune_optimizer_desc desc = test_optimizer_desc(CLPRUNE_OPTIMIZER_ADAMW);
    test_mat value = test_mat_make(3, 5, 0, NULL), grad = test_mat_make(3, 5, 0, NULL);
    test_mat other = test_mat_make(5, 3, 0, NULL);
    const clprune_param good = {"w", value.mat, grad.mat, true};
    const clprune_param other_grad = {"w", value.mat, other.mat, true};
    const clprune_param same = {"w", value.mat, value.mat, true};
    clprune_optimizer *optimizer = NULL;
#define CREATE(...) clprune_optimizer_create(__VA_ARGS__)
    assert_int_equal(CREATE(NULL, &desc, 1, &good, &optimizer), bad);
    TEST_FAILS(CREATE(context, NULL, 1, &good, &optimizer), bad, "desc");
    TEST_FAILS(CREATE(context, &desc, 1, NULL, &optimizer), bad, "params");
    TEST_FAILS(CREATE(context, &desc, 1, &good, NULL), bad, "optimizer");
    TEST_FAILS(CREATE(context, &desc, 1, &other_grad, &optimizer), size, "gradient");
    TEST_FAILS(CREATE(context, &desc, 1, &same, &optimizer), bad, "overlaps");
    const clprune_param newer = {"w", value.mat, grad.mat, true, {0, 1}};
    TEST_FAILS(CREATE(context, &desc, 1, &newer, &optimizer), bad, "param.reserved");
    assert_null(optimizer);
    invalid_desc();

    assert_int_equal(clprune_optimizer_step(NULL, 0.1f, NULL), bad);
    assert_int_equal(clprune_optimizer_clip(NULL, 1, CLPRUNE_NO_MAT, NULL), bad);
    assert_int_equal(clprune_optimizer_steps(NULL), 0);
    assert_int_equal(clprune_optimizer_slots(NULL), 0);
    assert_null(clprune_optimizer_state(NULL, 0, 0).buffer);
    clprune_optimizer_set_steps(NULL, 3);
    clprune_optimizer_destroy(NULL);

    optimizer = test_new_optimizer(context, desc, 1, &good);
    cl_event event = NULL;
    static const float bad_lr[] = {-1e-3f, NAN, INFINITY, -INFINITY};
    for (size_t i = 0; i < COUNT_OF(bad_lr); i++)
        TEST_FAILS(clprune_optimizer_step(optimizer, bad_lr[i], &event), bad, "lr");
    static const float bad_norm[] = {0.0f, -1.0f, NAN};
    for (size_t i = 0; i < COUNT_OF(bad_norm); i++)
        TEST_FAILS(clprune_optimizer_clip(optimizer, bad_norm[i], CLPRUNE_NO_MAT, &event), bad,
            "max_norm");
    TEST_FAILS(clprune_optimizer_clip(optimizer, 1, value.mat, &event), size, "norm is");
    clprune_mat inside = clprune_mat_rows(grad.mat, 1, 1);
    inside.cols = 1;
    TEST_FAILS(clprune_optimizer_clip(optimizer, 1, inside, &event), bad, "norm overlaps");
    for (size_t i = 0; i < COUNT_OF(bad_lr); i++) {
        TEST_FAILS(clprune_optimizer_set_rates(optimizer, 0, bad_lr[i], 1), bad, "lr");
        TEST_FAILS(clprune_optimizer_set_rates(optimizer, 0, 1, bad_lr[i]), bad, "weight_decay");
    }
    TEST_FAILS(clprune_optimizer_set_rates(optimizer, 1, 1, 1), bad, "param is 1 of 1");
    assert_int_equal(clprune_optimizer_set_rates(NULL, 0, 1, 1), bad);
    assert_null(event);
    assert_int_equal(clprune_optimizer_steps(optimizer), 0);
    TEST_UNCHANGED(&value, &grad, &other);
}

int main(void)
{
    static const size_t shapes[][2] = {{1, 1}, {3, 1}, {1, 4}, {1, 15}, {4, 4}, {1, 17}, {8, 25},
        {1, 2047}, {32, 64}, {1, 2049}, {128, 128}, {1, 50001}, {0, 3}};
    enum { SHAPES = COUNT_OF(shapes) };
    static step_case steps[SHAPES * 2 * 32];
    test_list list = {0};
    for (size_t i = 0; i < (size_t)golden_optim_runs_count; i++)
        test_add(&list, golden, &golden_optim_runs[i], "PyTorch's %s", golden_optim_runs[i].name);
    size_t count = 0;
    for (size_t k = 0; clprune_optimizer_describe(k).name != NULL; k++)
        for (size_t i = 0; i < 4 * SHAPES; i++) {
            const clprune_optimizer_info of = clprune_optimizer_describe(k);
            const size_t *shape = shapes[i / 4];
            const bool decay = i % 2 != 0, momentum = i % 4 < 2;
            if (of.desc.state_bits == 8 || (!momentum && of.desc.momentum == 0))
                continue;
            assert(count < COUNT_OF(steps));
            const bool nesterov = momentum && of.desc.momentum != 0 && i / 4 % 2 == 1;
            const bool rates = i / 4 % 3 == 2;
            steps[count] = (step_case){
                of, shape[0], shape[1], decay, momentum, 1 + (i / 4 + k) % 3, nesterov, rates};
            test_add(&list, step, &steps[count++], "%s%s, %zu x %zu%s%s%s", of.name,
                momentum ? "" : " without momentum", shape[0], shape[1], decay ? ", decay" : "",
                nesterov ? ", Nesterov" : "", rates ? ", rates" : "");
        }
    test_add(&list, sgd_start, NULL, "the first step of SGD");
    test_add(&list, lamb_zero_norms, NULL, "zero norms in LAMB");
    test_add_optimizers(&list, 0, zeros, "zeros");
    test_add(&list, usual, NULL, "usual settings");
    test_add(&list, lamb_huge, NULL, "huge norms in LAMB");
    TEST_ADD_EACH(&list, clip, clip_cases, "clip: %s");
    test_add(&list, no_parameters, NULL, "no parameters");
    test_add(&list, invalid, NULL, "invalid arguments");
    return test_run_on_devices("optimizer", &list);
}
