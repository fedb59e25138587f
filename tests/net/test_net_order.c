/* Calls of a net in any order: each is right, or refused without a change. Seeds of passes, values
 * that nobody has written, and nets that share them. */
#include "net/net_models.h"

enum { BATCH = 4, FEW = 2, ROWS = 4, COLS = 16, OUT = 6 };

TEST_UNDO(destroy_net, clprune_net_destroy(what))

/* Batch norm, dropout and a loss: model->seed 0: cross-entropy, 1: mean squared error, 2: of
 * tokens. */
static void build(clprune_net *net, const net_model *model)
{
    clprune_net_value v = clprune_net_rows(net, ROWS, COLS);
    v = clprune_net_batch_norm(net, "norm", clprune_net_linear(net, "a", v, COLS));
    v = clprune_net_dropout(net, "dropout", clprune_net_relu(net, "relu", v), 0.5f);
    v = clprune_net_gelu(net, "gelu", clprune_net_linear(net, "b", v, COLS));
    if (model->seed == 0)
        clprune_net_cross_entropy(net, clprune_net_linear(net, "head", v, NET_VOCABULARY));
    else if (model->seed == 1)
        clprune_net_mean_squared_error(net, clprune_net_linear(net, "head", v, OUT));
    else
        clprune_net_token_loss(net, "head", v, NET_VOCABULARY);
}

static const net_model models[] = {
    {.name = "cross-entropy", .build = build, ROWS, COLS, ROWS, 0, true, true, 0},
    {.name = "mean squared error", .build = build, ROWS, COLS, ROWS, OUT, true, true, 1},
    {.name = "token loss", .build = build, ROWS, COLS, ROWS, 0, true, true, 2}};

/* ---- every order ------------------------------------------------------------------------------
 */

typedef enum call { TRAIN, INFER, LOSS, BACKWARD, OTHER_BATCH, OTHER_LABELS, CALLS } call;

enum { SHORT = CALLS * CALLS * CALLS, LONG = CALLS * SHORT }; /* sequences of 3 and 4 calls */

typedef struct machine {
    net_job job;
    clprune_net_data data[2][2]; /* of both batches and labels */
    float *want[2][2];           /* gradients */
    enum { EMPTY, INFERRED, TRAINED, HAS_LOSS } phase;
    size_t batch, labels;           /* of the next call */
    size_t pass_batch, loss_labels; /* of the passes */
} machine;

static machine new_machine(const net_model *model, const clprune_net_keep *keep)
{
    int32_t labels[BATCH * ROWS];
    float bits[BATCH * ROWS];
    machine m = {.job = net_open(test_context(), model, BATCH, keep)};
    for (int32_t i = 0; i < BATCH * ROWS; i++)
        labels[i] = (7 * i + 3) % NET_VOCABULARY;
    memcpy(bits, labels, sizeof bits);
    const clprune_net_data data = m.job.data;
    const clprune_mat other = test_new_mat_of(test_context(), "labels", 1, BATCH * ROWS, bits),
                      targets = test_new_mat_of(test_context(), "targets", BATCH * ROWS, OUT,
                          test_new_normal(3, BATCH * ROWS * OUT));
    for (size_t b = 0; b < 2; b++)
        for (size_t l = 0; l < 2; l++) {
            clprune_net_data *to = &m.data[b][l];
            *to = data;
            to->batch = b == 0 ? BATCH : FEW;
            to->rows = clprune_mat_rows(data.rows, 0, to->batch * ROWS);
            if (model->target_cols > 0)
                to->targets =
                    clprune_mat_rows(l == 0 ? data.targets : targets, 0, to->batch * ROWS);
            else
                to->labels = l == 0 ? data.labels : (clprune_ints){other.buffer, 0};
        }
    return m;
}

static clprune_mat losses(const machine *m)
{
    return clprune_mat_rows(m->job.loss, 0, m->data[m->batch][m->labels].batch);
}

static clprune_status run(machine *m, call c)
{
    const clprune_net_data *data = &m->data[m->batch][m->labels];
    clprune_net *net = m->job.net;
    if (c == TRAIN)
        clprune_net_set_seed(net, 5);
    const clprune_status status =
        c == TRAIN || c == INFER ? clprune_net_forward(net, data, c == TRAIN)
        : c == LOSS              ? clprune_net_loss(net, data, losses(m), CLPRUNE_NO_MAT)
                                 : clprune_net_backward(net, data);
    if (c == TRAIN)
        clprune_net_set_seed(net, 6); /* of no pass */
    return status;
}

static bool is_right(const machine *m, call c)
{
    if (c == LOSS)
        return m->phase != EMPTY && m->batch == m->pass_batch &&
               !(m->phase == HAS_LOSS && m->job.model->seed == 2);
    return c != BACKWARD ||
           (m->phase == HAS_LOSS && m->batch == m->pass_batch && m->labels == m->loss_labels);
}

/* Gradients and running statistics. */
static float *contents(const machine *m)
{
    const size_t mark = test_mark();
    const float *grads = net_grads(&m->job);
    size_t count, at = m->job.elements;
    const clprune_net_state *states = clprune_net_states(m->job.net, &count);
    static float all[4096];
    assert_true(at + count * COLS <= COUNT_OF(all));
    memcpy(all, grads, at * sizeof *all);
    for (size_t i = 0; i < count; i++, at += COLS)
        TEST_OK(clprune_mat_read(test_context(), states[i].mat, all + at));
    test_release(mark);
    float *copy = test_floats(at);
    memcpy(copy, all, at * sizeof *copy);
    return copy;
}

static size_t contents_count(const machine *m)
{
    return m->job.elements + 2 * COLS;
}

static void refused(machine *m, call c)
{
    const size_t mark = test_mark();
    const float *before = contents(m);
    const clprune_status status = run(m, c);
    if (status != CLPRUNE_INVALID_ARGUMENT && status != CLPRUNE_INVALID_SIZE)
        fail_msg("call %d in phase %d: status %d, expected a refusal", c, m->phase, status);
    test_says(clprune_last_error(test_context()),
        c == LOSS ? "clprune_net_loss:" : "clprune_net_backward:");
    test_same_floats("contents", 1, contents_count(m), contents(m), before, "a refused call");
    test_release(mark);
}

static void step(machine *m, call c)
{
    if (c == OTHER_BATCH) {
        m->batch = 1 - m->batch;
    } else if (c == OTHER_LABELS) {
        m->labels = 1 - m->labels;
    } else if (!is_right(m, c)) {
        refused(m, c);
    } else {
        TEST_OK(run(m, c));
        if (c == TRAIN || c == INFER) {
            m->phase = c == TRAIN ? TRAINED : INFERRED;
            m->pass_batch = m->batch;
        } else if (c == LOSS) {
            m->phase = m->phase == INFERRED ? INFERRED : HAS_LOSS;
            m->loss_labels = m->labels;
        } else {
            const size_t mark = test_mark();
            m->phase = EMPTY;
            test_same_floats("gradients", 1, m->job.elements, net_grads(&m->job),
                m->want[m->batch][m->labels], "a step among others");
            test_release(mark);
        }
    }
}

typedef struct order_row {
    const net_model *model;
    clprune_net_keep keep;
} order_row;

/* Each sequence of 3 calls, of 4 for DENSE, in one: a de Bruijn sequence. */
static void orders(void **state)
{
    const order_row *row = *state;
    machine m = new_machine(row->model, &row->keep);
    for (m.batch = 0; m.batch < 2; m.batch++)
        for (m.labels = 0; m.labels < 2; m.labels++) {
            for (call c = TRAIN; c <= BACKWARD; c++)
                if (c != INFER)
                    TEST_OK(run(&m, c));
            m.want[m.batch][m.labels] = net_grads(&m.job);
        }
    assert_memory_not_equal(m.want[0][0], m.want[1][0], m.job.elements * sizeof(float));
    assert_memory_not_equal(m.want[0][0], m.want[0][1], m.job.elements * sizeof(float));
    m = (machine){.job = net_open(test_context(), row->model, BATCH, &row->keep),
        .data = {{m.data[0][0], m.data[0][1]}, {m.data[1][0], m.data[1][1]}},
        .want = {{m.want[0][0], m.want[0][1]}, {m.want[1][0], m.want[1][1]}}};
    static bool seen[LONG];
    const size_t windows = row->keep.preset == CLPRUNE_NET_DENSE ? LONG : SHORT;
    memset(seen, 0, sizeof seen);
    size_t window = 0, count = 0, next = CALLS;
    for (int i = 0; i < 3; i++)
        step(&m, TRAIN);
    while (true) { /* the last calls are followed by the largest one that is new */
        for (next = CALLS; next > 0 && seen[(window * CALLS + next - 1) % windows]; next--)
            ;
        if (next == 0)
            break;
        window = (window * CALLS + next - 1) % windows;
        seen[window] = true;
        count++;
        step(&m, (call)(next - 1));
    }
    assert_int_equal(count, windows);
}

/* ---- refused between the loss and the backward pass --------------------------------------------
 */

typedef struct wrong_row {
    const char *name;
    void (*spoil)(clprune_net_data *data, clprune_mat *hit, const machine *m);
    call call;
    unsigned losses; /* bit k: for models[k] */
    const char *text;
} wrong_row;

#define SPOIL(name, ...)                                                                           \
    static void spoil_##name(clprune_net_data *data, clprune_mat *hit, const machine *m)           \
    {                                                                                              \
        (void)data;                                                                                \
        (void)hit;                                                                                 \
        (void)m;                                                                                   \
        __VA_ARGS__;                                                                               \
    }
SPOIL(no_batch, data->batch = 0)
SPOIL(large, data->batch = BATCH + 1)
SPOIL(scale, data->scale = NAN)
SPOIL(add, data->add = true)
SPOIL(no_rows, data->rows = CLPRUNE_NO_MAT)
SPOIL(fewer_rows, data->rows.rows--)
SPOIL(fewer_cols, data->rows.cols--)
SPOIL(short_rows, data->rows.offset = data->rows.ld)
SPOIL(lengths, data->lengths.buffer = m->job.loss.buffer)
SPOIL(labels, data->labels.buffer = data->rows.buffer)
SPOIL(later_labels, data->labels.offset--)
SPOIL(later_lengths, data->lengths = (clprune_ints){m->job.loss.buffer, 1})
SPOIL(starts, data->starts = (clprune_ints){m->job.loss.buffer, 0})
SPOIL(later_starts, data->starts = (clprune_ints){m->job.loss.buffer, 1})
SPOIL(no_labels, data->labels.buffer = NULL)
SPOIL(output_grad, data->output_grad = m->job.loss)
SPOIL(reserved, data->reserved[1] = 1)
SPOIL(smoothing, data->smoothing = 0.5f)
SPOIL(all_smoothing, data->smoothing = 1)
SPOIL(targets, data->targets = m->data[0][1].targets)
SPOIL(no_targets, data->targets = CLPRUNE_NO_MAT)
SPOIL(other_scale, data->scale = 2)
SPOIL(hit, *hit = m->job.loss)

enum { CE = 1, MSE = 2, TOKEN = 4, ALL = 7 };

static const wrong_row wrongs[] = {
    {"a batch of 0", spoil_no_batch, TRAIN, ALL, "the batch is 0"},
    {"a batch of 0", spoil_no_batch, LOSS, ALL, "the batch is 0"},
    {"a batch of 0", spoil_no_batch, BACKWARD, ALL, "the batch is 0"},
    {"a large batch", spoil_large, TRAIN, ALL, "the batch is 5"},
    {"a large batch", spoil_large, INFER, ALL, "the batch is 5"},
    {"a large batch", spoil_large, LOSS, ALL, "the batch is 5"},
    {"a large batch", spoil_large, BACKWARD, ALL, "the batch is 5"},
    {"a scale of NaN", spoil_scale, LOSS, ALL, "scale"},
    {"a scale of NaN", spoil_scale, BACKWARD, ALL, "scale"},
    {"adding", spoil_add, TRAIN, ALL, "desc.adds"},
    {"adding", spoil_add, BACKWARD, ALL, "desc.adds"},
    {"no rows", spoil_no_rows, TRAIN, ALL, "data.rows has 0 rows of 0, expected 4 rows of 16"},
    {"no rows", spoil_no_rows, INFER, ALL, "data.rows has 0 rows of 0"},
    {"fewer rows", spoil_fewer_rows, TRAIN, ALL, "data.rows has 15 rows of 16"},
    {"fewer columns", spoil_fewer_cols, TRAIN, ALL, "data.rows has 16 rows of 15"},
    {"fewer columns", spoil_fewer_cols, INFER, ALL, "data.rows has 16 rows of 15"},
    {"rows behind the buffer", spoil_short_rows, TRAIN, ALL, "data.rows"},
    {"no rows", spoil_no_rows, BACKWARD, ALL, "data.rows has changed since clprune_net_forward"},
    {"lengths", spoil_lengths, BACKWARD, ALL, "data.lengths has changed"},
    {"other labels", spoil_labels, BACKWARD, CE | TOKEN, "data.labels has changed"},
    {"labels from another one on", spoil_later_labels, BACKWARD, CE | TOKEN,
        "data.labels has changed"},
    {"lengths behind the buffer", spoil_later_lengths, TRAIN, ALL, "data.lengths"},
    {"starts", spoil_starts, BACKWARD, ALL, "data.starts"},
    {"starts behind the buffer", spoil_later_starts, TRAIN, ALL, "data.starts"},
    {"a gradient of the output", spoil_output_grad, BACKWARD, ALL, "data.output_grad is given"},
    {"a reserved field", spoil_reserved, TRAIN, ALL, "data.reserved"},
    {"a reserved field", spoil_reserved, LOSS, ALL, "data.reserved"},
    {"a reserved field", spoil_reserved, BACKWARD, ALL, "data.reserved"},
    {"no labels", spoil_no_labels, LOSS, CE, "data.labels is NULL"},
    {"no labels", spoil_no_labels, BACKWARD, CE | TOKEN, "data.labels has changed"},
    {"other smoothing", spoil_smoothing, BACKWARD, CE | TOKEN, "data.smoothing has changed"},
    {"a smoothing of 1", spoil_all_smoothing, LOSS, ALL, "smoothing is 1"},
    {"a smoothing of 1", spoil_all_smoothing, BACKWARD, ALL, "smoothing is 1"},
    {"other targets", spoil_targets, BACKWARD, MSE, "data.targets has changed"},
    {"no targets", spoil_no_targets, LOSS, MSE, "data.targets is 0 x 0, expected 16 x 6"},
    {"no targets", spoil_no_targets, BACKWARD, MSE, "data.targets has changed"},
    {"another scale", spoil_other_scale, BACKWARD, TOKEN, "data.scale has changed"},
    {"hits", spoil_hit, LOSS, MSE, "hit is given"},
    {"a loss again", spoil_lengths, LOSS, TOKEN, "overwritten"},
};

/* What is refused changes nothing: the backward pass then has the gradients of its step. */
static void refusals(void **state)
{
    const net_model *model = *state;
    const unsigned bit = 1u << model->seed;
    machine m = new_machine(model, NULL);
    TEST_OK(run(&m, TRAIN));
    TEST_OK(run(&m, LOSS));
    TEST_OK(run(&m, BACKWARD));
    const float *want = net_grads(&m.job);
    clprune_net *net = m.job.net;
    for (size_t i = 0; i < COUNT_OF(wrongs); i++) {
        const wrong_row *w = &wrongs[i];
        clprune_net_data data = m.data[0][0];
        clprune_mat hit = CLPRUNE_NO_MAT;
        if ((w->losses & bit) == 0)
            continue;
        const size_t mark = test_mark();
        w->spoil(&data, &hit, &m);
        TEST_OK(run(&m, TRAIN));
        TEST_OK(run(&m, LOSS));
        const float *before = contents(&m);
        clprune_net_set_seed(net, 9);
        const clprune_status status =
            w->call == LOSS       ? clprune_net_loss(net, &data, losses(&m), hit)
            : w->call == BACKWARD ? clprune_net_backward(net, &data)
                                  : clprune_net_forward(net, &data, w->call == TRAIN);
        if (status != CLPRUNE_INVALID_ARGUMENT && status != CLPRUNE_INVALID_SIZE)
            fail_msg("%s for call %d: status %d", w->name, w->call, status);
        test_says(clprune_last_error(test_context()), w->text);
        test_same_floats("contents", 1, contents_count(&m), contents(&m), before, w->name);
        TEST_OK(run(&m, BACKWARD));
        test_same_floats("gradients", 1, m.job.elements, net_grads(&m.job), want, w->name);
        test_release(mark);
    }
}

static clprune_status refuse(void *user, clprune_mat grads)
{
    (void)user;
    (void)grads;
    return CLPRUNE_INVALID_BSR;
}

/* A pass that failed leaves nothing to go on with; the next step is as any. */
static void failed_pass(void **state)
{
    machine m = new_machine(*state, NULL);
    TEST_OK(run(&m, TRAIN));
    TEST_OK(run(&m, LOSS));
    TEST_OK(run(&m, BACKWARD));
    const float *want = net_grads(&m.job);
    TEST_OK(run(&m, TRAIN));
    TEST_OK(run(&m, LOSS));
    clprune_net_on_grads(m.job.net, refuse, NULL);
    assert_int_equal(run(&m, BACKWARD), CLPRUNE_INVALID_BSR);
    clprune_net_on_grads(m.job.net, NULL, NULL);
    TEST_FAILS(run(&m, BACKWARD), CLPRUNE_INVALID_ARGUMENT, "the net has no output");
    TEST_FAILS(run(&m, LOSS), CLPRUNE_INVALID_ARGUMENT, "the net has no output");
    TEST_OK(run(&m, TRAIN));
    TEST_OK(run(&m, LOSS));
    TEST_OK(run(&m, BACKWARD));
    test_same_floats("gradients", 1, m.job.elements, net_grads(&m.job), want, "after a failure");
    TEST_OK(run(&m, TRAIN));
    TEST_OK(run(&m, LOSS));
    TEST_OK(clprune_net_init(m.job.net, 3));
    TEST_FAILS(run(&m, BACKWARD), CLPRUNE_INVALID_ARGUMENT, "the net has no output");
}

/* ---- seeds -------------------------------------------------------------------------------------
 */

static void build_drawing(clprune_net *net, const net_model *model)
{
    clprune_net_value v = clprune_net_rows(net, ROWS, COLS);
    v = clprune_net_linear(net, "a", v, 3 * COLS);
    if (model->seed == 0)
        v = clprune_net_dropout(net, "d", v, 0.5f);
    v = clprune_net_attention(
        net, "attn", v, &(clprune_net_attn){.heads = 2, .rate = model->seed == 1 ? 0.5f : 0});
    v = clprune_net_gelu(net, "gelu", clprune_net_linear(net, "b", v, COLS));
    clprune_net_cross_entropy(net, clprune_net_linear(net, "head", v, NET_VOCABULARY));
}

typedef struct draw_row {
    const char *name;
    net_model model;
    clprune_net_keep keep;
} draw_row;

#define DRAWS(k)                                                                                   \
    {                                                                                              \
        .name = "draws", .build = build_drawing, ROWS, COLS, ROWS, 0, false, k < 2, k              \
    }
static const draw_row draws[] = {{.name = "dropout", .model = DRAWS(0)},
    {.name = "dropout of attention", .model = DRAWS(1)},
    {.name = "stochastic rounding",
        .model = DRAWS(2),
        .keep = {.preset = CLPRUNE_NET_INPUTS,
            .keep = {.form = CLPRUNE_FORM_QUANTISED, .bits = 4}}},
    {.name = "sampled blocks",
        .model = DRAWS(2),
        .keep = {.preset = CLPRUNE_NET_INPUTS,
            .keep = {.form = CLPRUNE_FORM_PRUNED,
                .sparsity = 0.5f,
                .criterion = CLPRUNE_CRITERION_RANDOM}}}};

static float *grads_of_pass(net_job *job)
{
    TEST_OK(clprune_net_forward(job->net, &job->data, true));
    TEST_OK(clprune_net_loss(job->net, &job->data, job->loss, CLPRUNE_NO_MAT));
    TEST_OK(clprune_net_backward(job->net, &job->data));
    return net_grads(job);
}

/* Without seeds each pass in training draws anew, the same in each run; passes for inference and
 * refused ones draw nothing. */
static void no_seeds(void **state)
{
    const draw_row *row = *state;
    enum { PASSES = 3 };
    float *all[2][PASSES];
    net_job job;
    for (int twice = 0; twice < 2; twice++) {
        job = net_open(test_context(), &row->model, BATCH, &row->keep);
        for (size_t i = 0; i < PASSES; i++) {
            if (twice == 1) {
                TEST_OK(clprune_net_forward(job.net, &job.data, false));
                TEST_FAILS(clprune_net_forward(job.net, &(clprune_net_data){0}, true),
                    CLPRUNE_INVALID_SIZE, "batch");
            }
            all[twice][i] = grads_of_pass(&job);
        }
    }
    const size_t bytes = job.elements * sizeof(float);
    for (size_t i = 0; i < PASSES; i++) {
        test_same_floats("gradients", 1, job.elements, all[1][i], all[0][i], "another run");
        for (size_t k = 0; k < i; k++)
            assert_memory_not_equal(all[0][i], all[0][k], bytes);
    }
    clprune_net_set_seed(job.net, 0); /* what the first pass draws */
    test_same_floats("gradients", 1, job.elements, grads_of_pass(&job), all[0][0], "seed 0");
}

/* ---- values ------------------------------------------------------------------------------------
 */

static clprune_net *new_net(
    clprune_context *context, const clprune_net_desc *desc, const net_model *model)
{
    clprune_net *net;
    TEST_OK(clprune_net_create(context, desc, &net));
    test_later(destroy_net, context, net);
    model->build(net, model);
    return net;
}

/* Passes need values of all parameters, from whomever. */
static void no_values(void **state)
{
    const clprune_status bad = CLPRUNE_INVALID_ARGUMENT;
    const clprune_net_desc desc = {.batch = BATCH};
    const net_job job = net_open(test_context(), *state, BATCH, NULL);
    clprune_net *net = new_net(test_context(), &desc, *state);
    clprune_net_weight weight, from;
    TEST_OK(clprune_net_settle(net, NULL));
    for (size_t i = 0; clprune_net_weight_at(net, i, &weight); i++) {
        TEST_FAILS(clprune_net_forward(net, &job.data, true), bad, weight.name);
        TEST_FAILS(clprune_net_forward(net, &job.data, false), bad, "clprune_net_init");
        const size_t mark = test_mark(), count = weight.value.rows * weight.value.cols;
        float *values = test_floats(count);
        assert_true(clprune_net_weight_at(job.net, i, &from));
        TEST_OK(clprune_mat_read(test_context(), from.value, values));
        if (i % 2 == 0) {
            TEST_OK(clprune_mat_write(test_context(), weight.value, values));
        } else { /* as a program with kernels of its own */
            TEST_CL(clEnqueueWriteBuffer(clprune_context_queue(test_context()), weight.value.buffer,
                CL_TRUE, weight.value.offset * sizeof(float), count * sizeof(float), values, 0,
                NULL, NULL));
        }
        test_release(mark);
    }
    TEST_OK(clprune_net_forward(net, &job.data, false));
    TEST_OK(clprune_net_forward(job.net, &job.data, false));
    const clprune_mat y = clprune_net_output(net, BATCH);
    float *got = test_floats(y.rows * y.cols);
    TEST_OK(clprune_mat_read(test_context(), y, got));
    test_same_floats("output", y.rows, y.cols, got, net_output(&job, BATCH), "written values");
    net = new_net(test_context(), &desc, *state);
    TEST_OK(clprune_net_settle(net, NULL));
    TEST_OK(clprune_net_init(net, 1));
    TEST_OK(clprune_net_forward(net, &job.data, true));
}

/* ---- shared weights ----------------------------------------------------------------------------
 */

static uint64_t live(clprune_memory_category category)
{
    return test_live(test_context(), category);
}

static void infer(clprune_net *net, const clprune_net_data *data, size_t sample, float *to)
{
    clprune_net_data one = *data;
    one.batch = 1;
    one.rows = clprune_mat_rows(data->rows, sample * ROWS, ROWS);
    TEST_OK(clprune_net_forward(net, &one, false));
    TEST_OK(clprune_mat_read(test_context(), clprune_net_output(net, 1), to));
}

/* A net of one sample with the weights and running statistics of one that is trained. */
static void shared(void **state)
{
    const net_model *model = *state;
    machine m = new_machine(model, NULL);
    clprune_net *own = m.job.net;
    const uint64_t values = live(CLPRUNE_MEMORY_PARAMETERS), grads = live(CLPRUNE_MEMORY_GRADIENTS);
    clprune_net *net =
        new_net(test_context(), &(clprune_net_desc){.batch = 1, .weights_of = own}, model);
    TEST_OK(clprune_net_settle(net, &(clprune_net_keep){.preset = CLPRUNE_NET_LEAST}));
    assert_int_equal(live(CLPRUNE_MEMORY_PARAMETERS), values);
    assert_true(live(CLPRUNE_MEMORY_GRADIENTS) > grads); /* it has a loss, too */
    const clprune_mat y = clprune_net_output(own, BATCH);
    const size_t each = y.rows / BATCH * y.cols;
    float *one = test_floats(each);
    for (int steps = 0; steps < 2; steps++) {
        TEST_OK(clprune_net_forward(own, &m.data[0][0], false));
        const float *all = net_output(&m.job, BATCH);
        for (size_t i = 0; i < BATCH; i++) {
            infer(net, &m.data[0][0], i, one);
            test_same_floats("output", 1, each, one, all + i * each, "one sample");
        }
        TEST_OK(run(&m, TRAIN)); /* moves the running statistics */
        TEST_OK(clprune_net_init(steps == 0 ? net : own, 20));
        TEST_OK(run(&m, TRAIN));
    }
    if (model->seed == 1) { /* weights stay until the last of both is destroyed */
        infer(net, &m.data[0][0], 1, one);
        test_end(own);
        float *again = test_floats(each);
        infer(net, &m.data[0][0], 1, again);
        test_same_floats("output", 1, each, again, one, "after the other net's end");
        assert_true(live(CLPRUNE_MEMORY_PARAMETERS) > 0);
        test_end(net);
        assert_int_equal(live(CLPRUNE_MEMORY_PARAMETERS), 0);
    }
}

static void build_part(clprune_net *net, const net_model *model)
{
    clprune_net_value v = clprune_net_rows(net, ROWS, COLS);
    v = clprune_net_linear(net, "a", v, model->seed == 1 ? COLS + 1 : COLS);
    if (model->seed == 2)
        (void)clprune_net_linear(net, "other", v, COLS);
    if (model->seed == 3)
        (void)clprune_net_batch_norm(net, "z", v);
}

/* Nets without a loss book no gradients; those that cannot share fail with what lacks. */
static void parts(NO_ROW)
{
    static const char *const texts[] = {NULL, "parameter a.weight is 17 x 16, but 16 x 16 in",
        "no parameter other.weight", "no parameter z.weight"};
    machine m = new_machine(&models[0], NULL);
    const uint64_t grads = live(CLPRUNE_MEMORY_GRADIENTS);
    for (uint64_t i = 0; i < COUNT_OF(texts); i++) {
        const net_model model = {.name = "part", .build = build_part, .seed = i};
        clprune_net *net = new_net(
            test_context(), &(clprune_net_desc){.batch = 1, .weights_of = m.job.net}, &model);
        const clprune_status status = clprune_net_settle(net, NULL);
        assert_int_equal(status == CLPRUNE_SUCCESS, texts[i] == NULL);
        if (texts[i] != NULL)
            test_says(clprune_last_error(test_context()), texts[i]);
        assert_int_equal(live(CLPRUNE_MEMORY_GRADIENTS), grads);
        size_t count;
        const clprune_param *params = clprune_net_params(net, &count);
        if (texts[i] == NULL) {
            assert_int_equal(count, 2);
            assert_null(params[0].grad.buffer);
        }
        test_end(net);
    }
    clprune_net *net, *raw = new_net(test_context(), &(clprune_net_desc){.batch = 1}, &models[0]);
    TEST_FAILS(clprune_net_create(
                   test_context(), &(clprune_net_desc){.batch = 1, .weights_of = raw}, &net),
        CLPRUNE_INVALID_ARGUMENT, "desc.weights_of");
    clprune_context *other = test_open((clprune_context_options){0});
    TEST_FAILS_IN(other,
        clprune_net_create(other, &(clprune_net_desc){.batch = 1, .weights_of = m.job.net}, &net),
        CLPRUNE_INVALID_ARGUMENT, "desc.weights_of");
}

/* A net that only infers books no gradients and keeps nothing but what its loss takes, with the
 * outputs and losses of one that also trains. */
static void inference(void **state)
{
    const order_row *row = *state;
    machine m = new_machine(row->model, &row->keep);
    const uint64_t kept = live(CLPRUNE_MEMORY_ACTIVATIONS), grads = live(CLPRUNE_MEMORY_GRADIENTS);
    const clprune_net_desc desc = {.batch = BATCH, .infers = true, .weights_of = m.job.net};
    clprune_net *net = new_net(test_context(), &desc, row->model);
    TEST_OK(clprune_net_settle(net, &row->keep));
    assert_int_equal(live(CLPRUNE_MEMORY_GRADIENTS), grads);
    const uint64_t log_p =
        row->model->seed == 0 ? BATCH * ROWS * NET_VOCABULARY * sizeof(float) : 0;
    assert_int_equal(live(CLPRUNE_MEMORY_ACTIVATIONS), kept + log_p);
    size_t count;
    const clprune_param *params = clprune_net_params(net, &count);
    assert_true(count > 0);
    for (size_t i = 0; i < count; i++)
        assert_null(params[i].grad.buffer);
    const clprune_net_data *data = &m.data[0][0];
    float *want = test_floats(BATCH), *got = test_floats(BATCH);
    TEST_OK(clprune_net_forward(m.job.net, data, false));
    const float *output = net_output(&m.job, BATCH);
    TEST_OK(clprune_net_loss(m.job.net, data, losses(&m), CLPRUNE_NO_MAT));
    TEST_OK(clprune_mat_read(test_context(), losses(&m), want));
    TEST_OK(clprune_net_forward(net, data, false));
    TEST_FAILS(clprune_net_forward(net, data, true), CLPRUNE_INVALID_ARGUMENT, "desc.infers");
    const clprune_mat y = clprune_net_output(net, BATCH);
    float *all = test_floats(y.rows * y.cols);
    TEST_OK(clprune_mat_read(test_context(), y, all));
    test_same_floats("output", y.rows, y.cols, all, output, "inference");
    TEST_OK(clprune_net_loss(net, data, losses(&m), CLPRUNE_NO_MAT));
    TEST_OK(clprune_mat_read(test_context(), losses(&m), got));
    test_same_floats("loss", BATCH, 1, got, want, "inference");
    TEST_FAILS(clprune_net_backward(net, data), CLPRUNE_INVALID_ARGUMENT, "for inference");
    const clprune_net_desc refused[] = {{.batch = 1, .infers = true, .adds = true},
        {.batch = 1, .infers = true, .drops_grads = true},
        {.batch = 1, .infers = true, .shares_statistics = true}};
    for (size_t i = 0; i < COUNT_OF(refused); i++)
        TEST_FAILS(clprune_net_create(test_context(), &refused[i], &net), CLPRUNE_INVALID_ARGUMENT,
            "desc has infers");
}

int main(void)
{
    static const clprune_net_keep keeps[] = {{.preset = CLPRUNE_NET_DENSE},
        {.preset = CLPRUNE_NET_INPUTS, .keep = {.form = CLPRUNE_FORM_QUANTISED, .bits = 8}},
        {.preset = CLPRUNE_NET_EXACT}, {.preset = CLPRUNE_NET_COMPACT},
        {.preset = CLPRUNE_NET_LEAST}};
    static order_row rows[COUNT_OF(models)][COUNT_OF(keeps)];
    test_list list = {0};
    for (size_t i = 0; i < COUNT_OF(models); i++)
        for (size_t k = 0; k < COUNT_OF(keeps); k++) {
            rows[i][k] = (order_row){&models[i], keeps[k]};
            test_add(&list, orders, &rows[i][k], "orders of %s, preset %zu", models[i].name, k);
            test_add(
                &list, inference, &rows[i][k], "inference of %s, preset %zu", models[i].name, k);
        }
    TEST_ADD_EACH(&list, refusals, models, "refusals of %s");
    TEST_ADD_EACH(&list, failed_pass, models, "a failed pass of %s");
    TEST_ADD_EACH(&list, no_seeds, draws, "no seeds, %s");
    TEST_ADD_EACH(&list, no_values, models, "no values, %s");
    TEST_ADD_EACH(&list, shared, models, "shared weights, %s");
    test_add(&list, parts, NULL, "parts of shared weights");
    return test_run_on_each_device("net_order", &list);
}
