/* What callers give a net and get from it: the gradient of the output, momenta, initial values;
 * events of passes, parameters by name. */
#include <math.h>
#include <string.h>

#include "net/net_models.h"
#include "support/test_compare.h"
#include "support/test_gate.h"

enum { BATCH = 4, ROWS = 6, COLS = 16, SIDE = 6 };

/* ---- the gradient of the output ---------------------------------------------------------------
 */

/* Models that end in each kind of layer whose backward pass reads its output, its input, or
 * neither; the loss is the caller's. */
static clprune_net_value rows_of(clprune_net *net)
{
    clprune_net_value x = clprune_net_linear(net, "fc1", clprune_net_rows(net, ROWS, COLS), 32);
    return clprune_net_linear(net, "fc2", clprune_net_gelu(net, "gelu", x), COLS);
}

static clprune_net_value pixels_of(clprune_net *net)
{
    clprune_net_value x = clprune_net_conv2d(net, "conv1", clprune_net_images(net, 3, SIDE, SIDE),
        &(clprune_net_conv){.out = 8, .kernel = {3, 3}, .padding = {1, 1}});
    return clprune_net_conv2d(net, "conv2", clprune_net_relu(net, "relu1", x),
        &(clprune_net_conv){.out = 8, .kernel = {3, 3}, .padding = {1, 1}, .bias = true});
}

#define MODEL(name, last)                                                                          \
    static void build_##name(clprune_net *net, const net_model *model)                             \
    {                                                                                              \
        (void)model;                                                                               \
        clprune_net_custom_loss(net, last);                                                        \
    }

MODEL(linear, rows_of(net))
MODEL(tanh, clprune_net_tanh(net, "last", rows_of(net)))
MODEL(gelu, clprune_net_gelu(net, "last", rows_of(net)))
MODEL(relu, clprune_net_relu(net, "last", rows_of(net)))
MODEL(layer_norm, clprune_net_layer_norm(net, "last", rows_of(net)))
MODEL(rms_norm, clprune_net_rms_norm(net, "last", rows_of(net)))
MODEL(head_norm, clprune_net_head_norm(net, "last", rows_of(net), 3, 2, 5))
MODEL(all_heads_norm, clprune_net_head_norm(net, "last", rows_of(net), 0, 4, 4))
MODEL(rotary, clprune_net_rotary(net, "last", rows_of(net), 2, 1, 2, 1e4f, false))
MODEL(swiglu, clprune_net_swiglu(net, "last", rows_of(net)))
MODEL(rotary_by,
    clprune_net_rotary_by(net, "last", rows_of(net), 2, 1,
        &(clprune_net_angles){.pairs = 2, .frequencies = (const double[]){1, 0.1}, .factor = 1.5f}))
MODEL(glu, clprune_net_glu(net, "last", rows_of(net), CLPRUNE_ACTIVATION_GELU_TANH))
MODEL(affine, clprune_net_affine(net, "last", rows_of(net)))
MODEL(mean, clprune_net_mean(net, "last", rows_of(net)))
MODEL(attention,
    clprune_net_attention(net, "last", clprune_net_linear(net, "qkv", rows_of(net), 3 * COLS),
        &(clprune_net_attn){.heads = 2}))
MODEL(conv, pixels_of(net))
MODEL(norm, clprune_net_batch_norm(net, "last", pixels_of(net)))
MODEL(norm_relu, clprune_net_relu(net, "last", clprune_net_batch_norm(net, "bn", pixels_of(net))))
MODEL(upsample, clprune_net_upsample(net, "last", pixels_of(net), 2))
MODEL(pool, clprune_net_max_pool(net, "last", pixels_of(net),
                &(clprune_max_pool_desc){.kernel = {2, 2}, .stride = {2, 2}}))

static void build_sum(clprune_net *net, const net_model *model)
{
    const clprune_net_value x = rows_of(net);
    (void)model;
    clprune_net_custom_loss(
        net, clprune_net_add(net, "last", x, clprune_net_linear(net, "fc3", x, COLS)));
}

static void build_tokens(clprune_net *net, const net_model *model)
{
    clprune_net_value x = clprune_net_tokens(net, model->rows);
    x = clprune_net_positions(
        net, "wpe", clprune_net_embedding(net, "wte", x, NET_VOCABULARY, COLS));
    clprune_net_custom_loss(
        net, clprune_net_linear(net, "fc", clprune_net_layer_norm(net, "ln", x), 5));
}

#define OF_ROWS(name)                                                                              \
    {                                                                                              \
#name, build_##name, ROWS, COLS, 1, 1, false, false, 0                                     \
    }
#define OF_IMAGES(name)                                                                            \
    {                                                                                              \
#name, build_##name, 0, SIDE, 1, 1, false, false, 0                                        \
    }
static const net_model models[] = {OF_ROWS(linear), OF_ROWS(tanh), OF_ROWS(gelu), OF_ROWS(relu),
    OF_ROWS(layer_norm), OF_ROWS(rms_norm), OF_ROWS(head_norm), OF_ROWS(all_heads_norm),
    OF_ROWS(rotary), OF_ROWS(swiglu), OF_ROWS(rotary_by), OF_ROWS(glu), OF_ROWS(affine),
    OF_ROWS(mean), OF_ROWS(attention), OF_ROWS(sum), OF_IMAGES(conv), OF_IMAGES(norm),
    OF_IMAGES(norm_relu), OF_IMAGES(upsample), OF_IMAGES(pool),
    {"tokens", build_tokens, ROWS, 0, 1, 1, false, false, 0}};

/* The gradient of sum g * y, given as a matrix of its own. */
typedef struct given {
    size_t count;
    float *values;
    clprune_mat mat;
} given;

static given give(const net_job *job, uint64_t seed)
{
    const clprune_mat y = clprune_net_output(job->net, BATCH);
    given g = {.count = y.rows * y.cols};
    g.values = test_new_normal(seed, g.count);
    g.mat = test_new_mat_of(job->context, "output_grad", y.rows, y.cols, g.values);
    return g;
}

static void step(net_job *job, const given *g, bool add)
{
    job->data.output_grad = g->mat;
    job->data.add = add;
    TEST_OK(clprune_net_forward(job->net, &job->data, true));
    TEST_OK(clprune_net_backward(job->net, &job->data));
}

/* sum g * y, with the parameters moved by `along` times the gradients. */
static double loss_at(net_job *job, const given *g, const float *grads, double along)
{
    double sum = 0;
    const size_t mark = test_mark();
    const float *at = grads;
    for (size_t i = 0; i < job->count; i++) {
        const clprune_mat value = job->params[i].value;
        const size_t count = value.rows * value.cols;
        float *values = test_floats(count);
        TEST_OK(clprune_mat_read(job->context, value, values));
        for (size_t k = 0; k < count; k++)
            values[k] += (float)(along * (double)at[k]);
        TEST_OK(clprune_mat_write(job->context, value, values));
        at += count;
    }
    TEST_OK(clprune_net_forward(job->net, &job->data, true));
    const float *y = net_output(job, BATCH);
    for (size_t i = 0; i < g->count; i++)
        sum += (double)g->values[i] * (double)y[i];
    test_release(mark);
    return sum;
}

/* Beside differences of the loss; then in all presets, in the output's place, and of two passes. */
static void gradients(void **state)
{
    static const struct {
        clprune_net_preset preset;
        double bound;
    } presets[] = {{CLPRUNE_NET_INPUTS, 0.1}, {CLPRUNE_NET_EXACT, 1e-5}, {CLPRUNE_NET_COMPACT, 0.1},
        {CLPRUNE_NET_LEAST, 0.25}}; /* signs near 0 are those of values made again */
    const net_model *model = *state;
    const clprune_net_desc adds = {.batch = BATCH, .adds = true};
    net_job dense = net_open_preset(model, BATCH, CLPRUNE_NET_DENSE, 8);
    const given g = give(&dense, 31), other = give(&dense, 32);
    step(&dense, &g, false);
    const float *want = net_grads(&dense);
    step(&dense, &other, false);
    float *sums = net_grads(&dense);
    for (size_t i = 0; i < dense.elements; i++)
        sums[i] += want[i];
    for (size_t p = 0; p < COUNT_OF(presets); p++) {
        const size_t mark = test_mark();
        net_job job = net_open_preset(model, BATCH, presets[p].preset, 8);
        step(&job, &g, false);
        const float *got = net_grads(&job);
        net_close(&job, model->name, got, want, presets[p].bound);
        TEST_OK(clprune_net_forward(job.net, &job.data, true));
        job.data.output_grad = clprune_net_output(job.net, BATCH);
        TEST_OK(clprune_mat_copy(job.context, g.mat, job.data.output_grad, NULL));
        TEST_OK(clprune_net_backward(job.net, &job.data));
        test_same_floats("gradients", 1, job.elements, net_grads(&job), got, "in place");
        test_release(mark);
    }
    net_job both = net_open_desc(test_context(), model, &adds, NULL);
    step(&both, &g, false);
    step(&both, &other, true);
    net_close(&both, "two passes", net_grads(&both), sums, 1e-5);
    double norm = 0;
    for (size_t i = 0; i < dense.elements; i++)
        norm += (double)want[i] * (double)want[i];
    const double h = 2e-3 / sqrt(norm), up = loss_at(&dense, &g, want, h),
                 down = loss_at(&dense, &g, want, -2 * h);
    if (!(fabs((up - down) / (2 * h * norm) - 1) <= 0.02))
        fail_msg("%s: a slope of %g, expected %g", model->name, (up - down) / (2 * h), norm);
}

static void refused(NO_ROW)
{
    const clprune_status bad = CLPRUNE_INVALID_ARGUMENT;
    net_job job = net_open(test_context(), &models[0], BATCH, NULL),
            other = net_open(test_context(), &net_models[3], BATCH, NULL);
    const clprune_mat y = clprune_net_output(other.net, BATCH);
    const given g = give(&job, 33);
    TEST_OK(clprune_net_forward(job.net, &job.data, true));
    TEST_FAILS(clprune_net_loss(job.net, &job.data, job.loss, CLPRUNE_NO_MAT), bad,
        "the loss is the caller's");
    TEST_FAILS(clprune_net_backward(job.net, &job.data), CLPRUNE_INVALID_SIZE, "data.output_grad");
    job.data.output_grad = clprune_mat_rows(g.mat, 0, BATCH * ROWS - 1);
    TEST_FAILS(clprune_net_backward(job.net, &job.data), CLPRUNE_INVALID_SIZE, "data.output_grad");
    other.data.output_grad = y;
    TEST_OK(clprune_net_forward(other.net, &other.data, true));
    TEST_OK(clprune_net_loss(other.net, &other.data, other.loss, CLPRUNE_NO_MAT));
    TEST_FAILS(clprune_net_backward(other.net, &other.data), bad, "data.output_grad is given");
    job.data.reserved[1] = 1;
    TEST_FAILS(clprune_net_forward(job.net, &job.data, true), bad, "data.reserved");
}

/* ---- events ----------------------------------------------------------------------------------
 */

static cl_int state_of(cl_event event)
{
    cl_int state;
    TEST_CL(clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof state, &state, NULL));
    return state;
}

/* Each pass has an event that completes with it, not before. */
static void events(void **state)
{
    const net_model *model = *state;
    net_job job = net_open(test_context(), model, BATCH, NULL);
    const bool custom = model == &models[0];
    const clprune_mat loss = job.loss;
    cl_event done[4] = {NULL};
    test_gate gate;
    if (custom)
        job.data.output_grad = give(&job, 34).mat;
    net_job warm = job;
    TEST_OK(clprune_net_forward(warm.net, &warm.data, true)); /* builds kernels */
    TEST_OK(
        custom ? CLPRUNE_SUCCESS : clprune_net_loss(warm.net, &warm.data, loss, CLPRUNE_NO_MAT));
    TEST_OK(clprune_net_backward(warm.net, &warm.data));
    test_gate_close_for(&gate, job.context, 1000);
    job.data.event = &done[0];
    TEST_OK(clprune_net_forward(job.net, &job.data, false));
    job.data.event = &done[1];
    TEST_OK(clprune_net_forward(job.net, &job.data, true));
    job.data.event = &done[2];
    if (!custom)
        TEST_OK(clprune_net_loss(job.net, &job.data, loss, CLPRUNE_NO_MAT));
    job.data.event = &done[3];
    TEST_OK(clprune_net_backward(job.net, &job.data));
    for (size_t i = 0; i < COUNT_OF(done); i++) {
        if (custom && i == 2)
            continue;
        assert_non_null(done[i]);
        assert_true(state_of(done[i]) != CL_COMPLETE || atomic_load(&gate.open));
    }
    for (size_t i = 0; i < COUNT_OF(done); i++) {
        if (custom && i == 2)
            continue;
        TEST_CL(clWaitForEvents(1, &done[i]));
        TEST_CL(clReleaseEvent(done[i]));
    }
    test_gate_remove(&gate);
}

/* ---- momenta ---------------------------------------------------------------------------------
 */

/* Two batch norms, one with a ReLU; < 0: not set. */
static const float momenta[][2] = {{-1, -1}, {0.3f, -1}, {-1, 0.3f}, {0, 1}, {1, 0.01f}};

static const float *chosen;

static void build_norms(clprune_net *net, const net_model *model)
{
    clprune_net_value x = clprune_net_rows(net, ROWS, COLS);
    (void)model;
    for (size_t i = 0; i < 2; i++) {
        if (chosen[i] >= 0)
            clprune_net_momentum(net, chosen[i]);
        x = clprune_net_batch_norm(net, i == 0 ? "bn1" : "bn2", x);
        if (i == 0) /* merged with the norm */
            x = clprune_net_relu(net, "relu", x);
        x = clprune_net_linear(net, i == 0 ? "fc1" : "fc2", x, COLS);
    }
    clprune_net_mean_squared_error(net, x);
}

static const net_model norms = {"norms", build_norms, ROWS, COLS, ROWS, COLS, true, false, 0};

/* Running means and variances after a pass, from 0 and 1: the means of the pass at momentum 1. */
static float *states_with(const float *momentum)
{
    size_t count;
    chosen = momentum;
    net_job job = net_open(test_context(), &norms, BATCH, NULL);
    const clprune_net_state *states = clprune_net_states(job.net, &count);
    float *values = test_floats(4 * COLS);
    assert_int_equal(count, 4);
    TEST_OK(clprune_net_forward(job.net, &job.data, true));
    for (size_t i = 0; i < count; i++) {
        TEST_OK(clprune_mat_read(job.context, states[i].mat, values + i * COLS));
        assert_true(states[i].reserved[0] == 0 && states[i].reserved[1] == 0);
    }
    return values;
}

static void momentum(NO_ROW)
{
    static const float one[] = {1, 1};
    const float *whole = states_with(one);
    for (size_t r = 0; r < COUNT_OF(momenta); r++) {
        const float *got = states_with(momenta[r]), first = momenta[r][0], second = momenta[r][1];
        const float each[] = {first >= 0 ? first : 0.1f, second >= 0  ? second
                                                         : first >= 0 ? first
                                                                      : 0.1f};
        for (size_t i = 0; i < 4 * COLS; i++) {
            const float m = each[i / COLS / 2], start = i / COLS % 2 == 1 ? 1.0f : 0.0f;
            const float want = (1 - m) * start + m * whole[i];
            if (!(fabsf(got[i] - want) <= 1e-6f))
                fail_msg("row %zu, state %zu: %g, expected %g", r, i, (double)got[i], (double)want);
        }
    }
}

/* ---- parameters ------------------------------------------------------------------------------
 */

static void by_name(void **state)
{
    const net_job job = net_open(test_context(), *state, BATCH, NULL);
    static const char *const none[] = {NULL, "", "no such.weight", "weight"};
    clprune_net_weight at, of;
    size_t i = 0;
    for (; clprune_net_weight_at(job.net, i, &at); i++) {
        memset(&of, 0xff, sizeof of);
        assert_true(clprune_net_weight_of(job.net, at.name, &of));
        assert_true(of.name == at.name && of.value.buffer == at.value.buffer &&
                    of.value.offset == at.value.offset && of.rank == at.rank);
    }
    assert_true(i > 2);
    for (i = 0; i < COUNT_OF(none); i++) {
        assert_false(clprune_net_weight_of(job.net, none[i], &of));
        assert_null(of.name);
    }
    assert_false(clprune_net_weight_of(NULL, "fc1.weight", &of));
    assert_false(clprune_net_weight_of(job.net, "fc1.weight", NULL));
}

typedef struct filler {
    const clprune_net *net;
    size_t next, calls, fail; /* fail: the call that fails, from 1 on */
} filler;

/* Doubles each, and adds the number of the call. */
static clprune_status fill(void *user, const clprune_net_weight *weight, float *values)
{
    filler *f = user;
    clprune_net_weight at;
    do
        assert_true(clprune_net_weight_at(f->net, f->next++, &at));
    while (strcmp(at.name, weight->name) != 0); /* tied ones are left out */
    if (++f->calls == f->fail)
        return CLPRUNE_UNSUPPORTED;
    for (size_t i = 0; i < weight->value.rows * weight->value.cols; i++)
        values[i] = 2 * values[i] + (float)f->calls;
    return CLPRUNE_SUCCESS;
}

static float *values_of(const net_job *job, size_t *count)
{
    clprune_net_weight weight;
    *count = 0;
    float *all = test_floats(1 << 16);
    for (size_t i = 0; clprune_net_weight_at(job->net, i, &weight); i++) {
        TEST_OK(clprune_mat_read(job->context, weight.value, all + *count));
        *count += weight.value.rows * weight.value.cols;
        assert_true(*count < 1 << 16);
    }
    return all;
}

static void initial(void **state)
{
    const net_job job = net_open(test_context(), *state, BATCH, NULL);
    clprune_net_weight weight;
    size_t count, number = 0, at = 0;
    TEST_OK(clprune_net_init(job.net, 5));
    const float *before = values_of(&job, &count);
    filler f = {.net = job.net};
    TEST_OK(clprune_net_init_with(job.net, 5, fill, &f));
    const float *after = values_of(&job, &count);
    for (size_t i = 0; clprune_net_weight_at(job.net, i, &weight); i++) {
        bool own = true; /* not one that another had before */
        clprune_net_weight other;
        for (size_t k = 0; k < i && clprune_net_weight_at(job.net, k, &other); k++)
            own = own && !(other.value.buffer == weight.value.buffer &&
                             other.value.offset == weight.value.offset);
        number += own;
        for (size_t k = 0; own && k < weight.value.rows * weight.value.cols; k++)
            assert_true(after[at + k] == 2 * before[at + k] + (float)number);
        at += weight.value.rows * weight.value.cols;
    }
    assert_int_equal(f.calls, number);
    f = (filler){.net = job.net, .fail = 2};
    assert_int_equal(clprune_net_init_with(job.net, 5, fill, &f), CLPRUNE_UNSUPPORTED);
    assert_int_equal(f.calls, 2);
    TEST_FAILS(
        clprune_net_init_with(job.net, 5, NULL, NULL), CLPRUNE_INVALID_ARGUMENT, "fill is NULL");
}

/* ---- losses of elements ---------------------------------------------------------------------- */

/* seed: the kind; 3: the caller's loss. */
static void build_element_loss(clprune_net *net, const net_model *model)
{
    const clprune_net_value y = rows_of(net);
    if (model->seed == CLPRUNE_LOSS_SMOOTH_L1)
        clprune_net_smooth_l1(net, y, 0.5f);
    else if (model->seed == CLPRUNE_LOSS_BINARY)
        clprune_net_binary_cross_entropy(net, y);
    else
        clprune_net_custom_loss(net, y);
}

/* Loss and gradients are those of the layer's functions; the latter are slopes. */
static void element_losses(NO_ROW)
{
    for (uint64_t kind = CLPRUNE_LOSS_SMOOTH_L1; kind <= CLPRUNE_LOSS_BINARY; kind++) {
        const net_model model = {"element loss", build_element_loss, ROWS, COLS, ROWS, COLS, false,
                            false, kind},
                        custom = {"caller's", build_element_loss, ROWS, COLS, ROWS, COLS, false,
                            false, 3};
        const clprune_element_loss desc = {
            (clprune_element_loss_kind)kind, kind == CLPRUNE_LOSS_SMOOTH_L1 ? 0.5f : 0};
        net_job job = net_open(test_context(), &model, BATCH, NULL),
                other = net_open(test_context(), &custom, BATCH, NULL);
        const clprune_mat targets = job.data.targets, loss = test_new_mat(test_context(), BATCH, 1);
        float got[BATCH], want[BATCH];
        size_t param = 0;
        net_copy_params(&job, &other);
        other.data.targets = CLPRUNE_NO_MAT;
        TEST_OK(clprune_net_forward(other.net, &other.data, true));
        const clprune_mat y = clprune_net_output(other.net, BATCH);
        TEST_OK(clprune_element_loss_forward(test_context(), &desc, BATCH, y, targets, loss, NULL));
        TEST_OK(clprune_element_loss_backward(
            test_context(), &desc, BATCH, 1.0f / BATCH, y, targets, y, NULL));
        other.data.output_grad = y;
        TEST_OK(clprune_net_backward(other.net, &other.data));
        const float *grads = net_step_grads(&job);
        test_same_floats(
            "gradients", 1, job.elements, grads, net_grads(&other), "kind %d", (int)kind);
        TEST_OK(clprune_mat_read(test_context(), job.loss, got));
        TEST_OK(clprune_mat_read(test_context(), loss, want));
        test_same_floats("losses", 1, BATCH, got, want, "kind %d", (int)kind);
        const double error = net_slope_error(&job, grads, 3e-3, &param);
        if (!(error <= 1e-2))
            fail_msg("kind %d: the slope of %s is off by %.3g", (int)kind, job.params[param].name,
                error);
    }
}

int main(void)
{
    test_list list = {0};
    TEST_ADD_EACH(&list, gradients, models, "the caller's loss behind %s");
    test_add(&list, refused, NULL, "what does not fit the caller's loss");
    test_add(&list, events, &models[0], "events of passes, the caller's loss");
    test_add(&list, events, &net_token_models[NET_HEAD], "events of passes, a token loss");
    test_add(&list, events, &net_models[0], "events of passes, a cross-entropy");
    test_add(&list, element_losses, NULL, "losses of elements");
    test_add(&list, momentum, NULL, "momenta of batch norms");
    test_add(&list, by_name, &net_models[1], "parameters of a ResNet by name");
    test_add(&list, by_name, &net_token_models[NET_TIED], "parameters of a tied GPT by name");
    test_add(&list, initial, &net_models[1], "initial values of a ResNet");
    test_add(&list, initial, &net_token_models[NET_TIED], "initial values of a tied GPT");
    return test_run_on_devices("net_caller", &list);
}
