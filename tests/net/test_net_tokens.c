/* Nets of tokens: gradients of each preset, with a loss in chunks and with whole logits; tied
 * weights; losses of rows that count; logits; what a token loss refuses. */
#include "clprune/cross_entropy.h"
#include "net/net_models.h"
#include "support/test_buffer.h"

enum { BATCH = 5, ROWS = NET_TOKENS, COLS = NET_TOKEN_COLS };

static void gradients(void **state)
{
    static const struct {
        const char *name;
        clprune_net_preset preset;
        clprune_form form;
        double bound;
    } presets[] = {{"inputs", CLPRUNE_NET_INPUTS, CLPRUNE_FORM_QUANTISED, 1e-2},
        {"exact", CLPRUNE_NET_EXACT, CLPRUNE_FORM_DENSE, 1e-5},
        {"compact", CLPRUNE_NET_COMPACT, CLPRUNE_FORM_QUANTISED, 2e-2},
        {"least", CLPRUNE_NET_LEAST, CLPRUNE_FORM_QUANTISED, 2e-2}};
    const net_model *model = *state;
    size_t param = 0;
    net_job dense = net_open(test_context(), model, BATCH, NULL);
    const float *want = net_step_grads(&dense);
    test_same_floats(
        "gradients", 1, dense.elements, net_step_grads(&dense), want, "%s, again", model->name);
    const double error = net_slope_error(&dense, want, 3e-3, &param);
    if (!(error <= 1e-2))
        fail_msg(
            "%s: the slope of %s is off by %.3g", model->name, dense.params[param].name, error);
    for (size_t i = 0; i < COUNT_OF(presets); i++) {
        const size_t mark = test_mark();
        const clprune_net_keep keep = {.preset = presets[i].preset,
            .keep = {.form = presets[i].form, .bits = 8, .rounding = CLPRUNE_ROUNDING_NEAREST}};
        net_job job = net_open(test_context(), model, BATCH, &keep);
        net_close(&job, presets[i].name, net_step_grads(&job), want, presets[i].bound);
        test_release(mark);
    }
}

static void build_causal(clprune_net *net, const net_model *model)
{
    const clprune_net_attn attn = {.heads = 4, .kv_heads = 2, .causal = true};
    clprune_net_value x = clprune_net_tokens(net, model->rows);
    x = clprune_net_embedding(net, "embed_tokens", x, NET_VOCABULARY, COLS);
    for (unsigned i = 0; i < 2; i++) {
        clprune_net_part(net, i == 0 ? "layers.0" : "layers.1");
        clprune_net_value t = clprune_net_rms_norm(net, "norm", x);
        t = clprune_net_linear(net, "qkv", t, 2 * COLS);
        t = clprune_net_rotary(net, "rotary", t, 4, 2, 8, 1e4f, false);
        t = clprune_net_linear(net, "o", clprune_net_attention(net, "attn", t, &attn), COLS);
        x = clprune_net_add(net, "add", x, t);
    }
    clprune_net_part(net, NULL);
    clprune_net_token_loss(net, "lm_head", clprune_net_rms_norm(net, "norm", x), NET_VOCABULARY);
}

/* Sequences in a sample: gradients of each preset, rows that do not depend on another sequence, and
 * a net that cannot keep them apart. */
static void apart(NO_ROW)
{
    static const clprune_net_preset presets[] = {
        CLPRUNE_NET_EXACT, CLPRUNE_NET_COMPACT, CLPRUNE_NET_LEAST};
    static const int32_t starts[] = {0, 0, 0, 3, 3, 5, 5, 5, 5};
    enum { FIRST = 3 };
    static const net_model causal = {"causal", build_causal, ROWS, 0, ROWS, 0, false, false, 0};
    const net_model *model = &causal;
    int32_t all[BATCH * ROWS], tokens[2][BATCH * ROWS];
    size_t param = 0;
    for (size_t i = 0; i < BATCH * ROWS; i++) {
        all[i] = starts[i % ROWS];
        tokens[0][i] = (int32_t)(i * 7 % NET_VOCABULARY);
        tokens[1][i] = i % ROWS < FIRST ? 1 : tokens[0][i];
    }
    const test_buf buffer = test_buf_make(sizeof all, all),
                   texts[2] = {test_buf_make(sizeof tokens[0], tokens[0]),
                       test_buf_make(sizeof tokens[1], tokens[1])};
    net_job dense = net_open(test_context(), model, BATCH, NULL);
    dense.data.lengths = (clprune_ints){NULL, 0};
    const float *joined = net_step_grads(&dense);
    dense.data.starts = test_buf_ints(&buffer);
    const float *want = net_step_grads(&dense);
    assert_true(net_worst(&dense, joined, want, &param) > 1e-3);
    const double error = net_slope_error(&dense, want, 3e-3, &param);
    if (!(error <= 1e-2))
        fail_msg("the slope of %s is off by %.3g", dense.params[param].name, error);
    for (size_t i = 0; i < COUNT_OF(presets); i++) {
        net_job job = net_open_preset(model, BATCH, presets[i], 8);
        job.data.lengths = (clprune_ints){NULL, 0};
        job.data.starts = dense.data.starts;
        net_close(&job, "sequences apart", net_step_grads(&job), want,
            presets[i] == CLPRUNE_NET_EXACT ? 1e-5 : 2e-2);
    }
    const float *out[2];
    for (size_t i = 0; i < 2; i++) {
        dense.data.tokens = test_buf_ints(&texts[i]);
        (void)net_loss(&dense, false);
        out[i] = net_output(&dense, BATCH);
    }
    for (size_t i = 0; i < BATCH * ROWS; i++) {
        double off = 0;
        for (size_t c = 0; c < COLS; c++)
            off += fabs((double)out[0][i * COLS + c] - (double)out[1][i * COLS + c]);
        if (i % ROWS >= FIRST)
            assert_true(off == 0);
        else if (tokens[0][i] != 1)
            assert_true(off > 0);
    }
    net_job learned = net_open(test_context(), &net_token_models[NET_TIED], BATCH, NULL);
    learned.data.lengths = (clprune_ints){NULL, 0};
    learned.data.starts = dense.data.starts;
    assert_int_equal(
        clprune_net_forward(learned.net, &learned.data, true), CLPRUNE_INVALID_ARGUMENT);
    assert_non_null(strstr(clprune_last_error(test_context()), "take no data.starts"));
}

/* ---- ties ------------------------------------------------------------------------------------ */

static size_t find(const net_job *job, const char *name)
{
    for (size_t i = 0; i < job->count; i++)
        if (strcmp(job->params[i].name, name) == 0)
            return i;
    fail_msg("no parameter %s", name);
    return 0;
}

static float *grad_of(const net_job *job, const char *name)
{
    const clprune_mat grad = job->params[find(job, name)].grad;
    float *values = test_floats(grad.rows * grad.cols);
    TEST_OK(clprune_mat_read(job->context, grad, values));
    return values;
}

/* The same values in both nets. */
static void copy_param(const net_job *from, const char *name, const net_job *to, const char *as)
{
    const clprune_mat a = from->params[find(from, name)].value, b = to->params[find(to, as)].value;
    TEST_OK(clprune_mat_copy(from->context, a, b, NULL));
}

static const net_model *const tied_models[] = {
    &net_token_models[NET_TIED], &net_token_models[NET_TIED_BACK]};

/* A tied gradient is the sum of both; also of several passes, and with half of a batch at a time.
 */
static void tied(void **state)
{
    const net_model *model = *(const net_model *const *)*state;
    const clprune_net_desc adds = {.batch = BATCH, .adds = true};
    const char *one = model->seed == NET_TIED ? "wte.weight" : "head.weight";
    net_job job = net_open(test_context(), model, BATCH, NULL),
            both = net_open(test_context(), &net_token_models[NET_HEAD], BATCH, NULL),
            sums = net_open_desc(test_context(), model, &adds, NULL);
    enum { COUNT = NET_VOCABULARY * COLS };
    copy_param(&both, "wte.weight", &both, "head.weight");
    for (size_t i = 0; i < job.count; i++) {
        copy_param(&both, job.params[i].name, &job, job.params[i].name);
        copy_param(&both, job.params[i].name, &sums, job.params[i].name);
    }
    net_step(&both, BATCH);
    net_step(&job, BATCH);
    const float *a = grad_of(&both, "wte.weight"), *b = grad_of(&both, "head.weight");
    const float *got = grad_of(&job, one);
    double want[COUNT], bound[COUNT];
    for (size_t i = 0; i < COUNT; i++) {
        want[i] = (double)a[i] + (double)b[i];
        bound[i] = 1e-5 * (fabs((double)a[i]) + fabs((double)b[i])) + 1e-7;
    }
    test_close("gradient", NET_VOCABULARY, COLS, got, want, bound, "%s", model->name);
    net_step(&sums, BATCH);
    sums.data.add = true;
    net_step(&sums, BATCH);
    for (size_t i = 0; i < COUNT; i++) {
        want[i] = 2 * (double)got[i];
        bound[i] = 1e-6 * fabs(want[i]);
    }
    test_close("sum of two passes", NET_VOCABULARY, COLS, grad_of(&sums, one), want, bound, "%s",
        model->name);
}

/* Three layers of one weight. */
static void build_three(clprune_net *net, const net_model *model)
{
    static const char *const names[] = {"a", "b", "c"};
    clprune_net_value x = clprune_net_rows(net, model->rows, model->cols);
    for (size_t i = 0; i < COUNT_OF(names); i++)
        x = clprune_net_gelu(
            net, names[i], clprune_net_linear(net, (const char *[]){"al", "bl", "cl"}[i], x, 16));
    clprune_net_mean_squared_error(net, x);
    clprune_net_tie(net, "bl.weight", "al.weight");
    clprune_net_tie(net, "cl.weight", "al.weight");
}

static const net_model three = {"three", build_three, 4, 16, 4, 16, false, false, 0};

/* What is frozen, or with `only` alone trained; a tied weight is one under all its names. */
static const struct {
    const net_model *model;
    const char *pattern;
    bool only;
    size_t count; /* without `only`: of the frozen ones */
} freezes[] = {{&net_token_models[NET_HEAD], "wte.weight", false, 1},
    {&net_token_models[NET_HEAD], "head.weight", false, 1},
    {&net_token_models[NET_HEAD], "*", false, SIZE_MAX},
    {&net_token_models[NET_TIED], "wte.weight", false, 1},
    {&net_token_models[NET_TIED], "head.weight", false, 1},
    {&net_token_models[NET_TIED], "wte.weight", true, 1},
    {&net_token_models[NET_TIED], "head.weight", true, 1},
    {&net_token_models[NET_TIED_BACK], "wte.weight", false, 1},
    {&net_token_models[NET_TIED_BACK], "head.weight", false, 1},
    {&net_token_models[NET_TIED_BACK], "wte.weight", true, 1},
    {&net_token_models[NET_TIED_BACK], "head.weight", true, 1}, {&three, "al.weight", false, 1},
    {&three, "bl.weight", false, 1}, {&three, "cl.weight", false, 1},
    {&three, "al.weight", true, 1}, {&three, "bl.weight", true, 1}, {&three, "cl.weight", true, 1},
    {&three, "?l.weight", true, 1}};

static void frozen(NO_ROW)
{
    for (size_t i = 0; i < COUNT_OF(freezes); i++) {
        const size_t start = test_mark();
        const net_model *model = freezes[i].model;
        const char *pattern = freezes[i].pattern;
        net_job all = net_open(test_context(), model, BATCH, NULL);
        net_job job = {.context = test_context(), .model = model, .data = all.data};
        clprune_net *net;
        net_step(&all, BATCH);
        TEST_OK(clprune_net_create(test_context(), &(clprune_net_desc){.batch = BATCH}, &net));
        model->build(net, model);
        if (freezes[i].only)
            clprune_net_train_only(net, &pattern, 1);
        else
            clprune_net_freeze(net, pattern);
        TEST_OK(clprune_net_settle(net, NULL));
        TEST_OK(clprune_net_init(net, 7));
        job.net = net;
        job.loss = all.loss;
        job.params = clprune_net_params(net, &job.count);
        assert_int_equal(job.count, freezes[i].only                ? freezes[i].count
                                    : freezes[i].count == SIZE_MAX ? 0
                                                                   : all.count - freezes[i].count);
        clprune_net_weight to, from;
        for (size_t p = 0; clprune_net_weight_at(net, p, &to); p++) {
            assert_true(clprune_net_weight_at(all.net, p, &from));
            TEST_OK(clprune_mat_copy(test_context(), from.value, to.value, NULL));
        }
        net_step(&job, BATCH);
        for (size_t p = 0; p < job.count; p++) {
            const clprune_mat grad = job.params[p].grad;
            const size_t mark = test_mark();
            test_same_floats(job.params[p].name, grad.rows, grad.cols,
                grad_of(&job, job.params[p].name), grad_of(&all, job.params[p].name),
                "%s is frozen", pattern);
            test_release(mark);
        }
        clprune_net_destroy(net);
        test_release(start);
    }
}

/* ---- chunks ---------------------------------------------------------------------------------- */

/* Its hidden tensor of a sample has half a MiB elements: regions work on 4 samples at a time. */
enum { WIDE = 512, WIDE_ROWS = 1024 };

static void build_wide(clprune_net *net, const net_model *model)
{
    clprune_net_value x = clprune_net_tokens(net, model->rows);
    x = clprune_net_embedding(net, "wte", x, NET_VOCABULARY, 16);
    x = clprune_net_positions(net, "wpe", clprune_net_class_token(net, "cls", x));
    for (size_t i = 0; i < 2; i++) {
        clprune_net_part(net, i == 0 ? "a" : "b");
        clprune_net_value t =
            clprune_net_linear(net, "fc1", clprune_net_rms_norm(net, "ln", x), WIDE);
        t = clprune_net_linear(net, "fc2", clprune_net_swiglu(net, "swiglu", t), 16);
        x = clprune_net_rotary(
            net, "rotary", clprune_net_add(net, "add", x, t), 2, 1, 0, 1e4f, false);
    }
    clprune_net_part(net, NULL);
    x = clprune_net_row(net, "row", x, 3);
    clprune_net_token_loss(net, "head", x, NET_VOCABULARY);
    clprune_net_tie(net, "head.weight", "wte.weight");
}

/* The same size with attention, in which each sample has its own length. */
static void build_wide_bert(clprune_net *net, const net_model *model)
{
    const clprune_net_attn attn = {.heads = 2};
    clprune_net_value x = clprune_net_tokens(net, model->rows);
    x = clprune_net_embedding(net, "word", x, NET_VOCABULARY, 16);
    x = clprune_net_positions_of(net, "type", x, 0, 1, 2);
    clprune_net_value t = clprune_net_linear(net, "wide", x, 8192);
    t = clprune_net_linear(net, "qkv", clprune_net_gelu(net, "gelu", t), 48);
    x = clprune_net_add(net, "sum", x, clprune_net_attention(net, "attn", t, &attn));
    x = clprune_net_mean(net, "mean", clprune_net_layer_norm(net, "norm", x));
    clprune_net_cross_entropy(net, clprune_net_linear(net, "head", x, NET_CLASSES));
}

static void lengths_in_chunks(NO_ROW)
{
    static const net_model wide = {"wide bert", build_wide_bert, 64, 0, 0, 0, false, false, 0};
    enum { SAMPLES = 9 };
    net_job dense = net_open(test_context(), &wide, SAMPLES, NULL),
            least = net_open_preset(&wide, SAMPLES, CLPRUNE_NET_LEAST, 8),
            exact = net_open_preset(&wide, SAMPLES, CLPRUNE_NET_EXACT, 8);
    const float *want = net_step_grads(&dense);
    net_close(&exact, "exact", net_step_grads(&exact), want, 1e-5);
    net_close(&least, "least", net_step_grads(&least), want, 2e-2);
}

/* The inputs of blocks are dense, and the rest is made again, so only chunks can be wrong. */
static void chunks(NO_ROW)
{
    static const net_model wide = {"wide", build_wide, WIDE_ROWS, 0, 1, 0, false, false, 0};
    static const clprune_net_keep keep = {
        .preset = CLPRUNE_NET_LEAST, .keep = {.form = CLPRUNE_FORM_PRUNED}};
    enum { SAMPLES = 13 };
    const uint64_t hidden = (uint64_t)SAMPLES * (WIDE_ROWS + 1) * WIDE * sizeof(float);
    net_job dense = net_open(test_context(), &wide, SAMPLES, NULL);
    const float *want = net_step_grads(&dense);
    net_job exact = net_open_preset(&wide, SAMPLES, CLPRUNE_NET_EXACT, 8);
    net_close(&exact, "exact", net_step_grads(&exact), want, 1e-5);
    const uint64_t total = test_live(test_context(), CLPRUNE_MEMORY_TOTAL);
    net_job least = net_open(test_context(), &wide, SAMPLES, &keep);
    const uint64_t taken = test_live(test_context(), CLPRUNE_MEMORY_TOTAL) - total;
    if (taken >= hidden)
        fail_msg("least takes %llu bytes, hidden values of all samples %llu",
            (unsigned long long)taken, (unsigned long long)hidden);
    net_close(&least, "least", net_step_grads(&least), want, 1e-5);
}

/* ---- losses and logits ----------------------------------------------------------------------- */

/* Losses and hits from logits of each row, which the net gives after inference. */
static void losses(NO_ROW)
{
    enum { V = NET_VOCABULARY };
    int32_t all[NET_BEFORE + BATCH * ROWS];
    const int32_t *const labels = all + NET_BEFORE;
    float z[ROWS][BATCH * V], loss[2][BATCH], hit[2][BATCH];
    net_job job = net_open(test_context(), &net_token_models[NET_HEAD], BATCH, NULL);
    const clprune_mat logits = test_new_mat(job.context, BATCH, V),
                      hits = test_new_mat(job.context, BATCH, 1);
    TEST_OK(clprune_mat_read(job.context, clprune_mat_of(job.data.labels.buffer, 1, COUNT_OF(all)),
        (float *)(void *)all));
    job.data.smoothing = 0;
    for (int training = 0; training < 2; training++) {
        TEST_OK(clprune_net_forward(job.net, &job.data, training != 0));
        for (size_t r = 0; r < ROWS; r++) {
            TEST_OK(clprune_net_logits(job.net, BATCH, r, logits, NULL));
            TEST_OK(clprune_mat_read(job.context, logits, z[r]));
        }
        TEST_OK(clprune_net_loss(job.net, &job.data, job.loss, hits));
        TEST_OK(clprune_mat_read(job.context, job.loss, loss[training]));
        TEST_OK(clprune_mat_read(job.context, hits, hit[training]));
    }
    assert_memory_equal(loss[0], loss[1], sizeof loss[0]);
    assert_memory_equal(hit[0], hit[1], sizeof hit[0]);
    size_t count = 0;
    for (size_t i = 0; i < BATCH * ROWS; i++)
        count += labels[i] != CLPRUNE_IGNORED;
    assert_in_range(count, 1, BATCH * ROWS - 1);
    double mean = 0, of_all = 0;
    for (size_t n = 0; n < BATCH; n++) {
        double sum = 0, right = 0;
        for (size_t r = 0; r < ROWS; r++) {
            const float *row = &z[r][n * V];
            const int32_t label = labels[n * ROWS + r];
            double mass = 0;
            size_t best = 0;
            for (size_t k = 0; k < V; k++) {
                mass += exp((double)row[k]);
                best = row[k] > row[best] ? k : best;
            }
            if (label == CLPRUNE_IGNORED)
                continue;
            sum += log(mass) - (double)row[label];
            right += best == (size_t)label;
        }
        of_all += sum / (double)count;
        mean += (double)loss[0][n] / BATCH;
        assert_true(fabs((double)loss[0][n] - sum * BATCH / (double)count) < 1e-5);
        assert_true(fabs((double)hit[0][n] - right * BATCH / (double)count) < 1e-6);
    }
    assert_true(fabs(mean - of_all) < 1e-5); /* PyTorch's mean */
}

/* A bias of logits, and a cap of seed / 8. */
static void build_logits(clprune_net *net, const net_model *model)
{
    net_token_models[NET_HEAD].build(net, &net_token_models[NET_HEAD]);
    if (model->seed == 0)
        clprune_net_bias_logits(net);
    else if (model->seed > 1)
        clprune_net_cap_logits(net, (float)model->seed / 8);
}

#define LOGITS_MODEL(name, seed)                                                                   \
    {                                                                                              \
        name, build_logits, ROWS, 0, ROWS, 0, false, false, seed                                   \
    }
static const net_model biased_head = LOGITS_MODEL("biased", 0), free_head = LOGITS_MODEL("free", 1),
                       capped_head = LOGITS_MODEL("capped", 3);

/* The logits of row 3. */
static float *logits_of(const net_job *job)
{
    float *logits = test_floats(BATCH * NET_VOCABULARY);
    const clprune_mat mat = test_new_mat(job->context, BATCH, NET_VOCABULARY);
    cl_event event = NULL;
    TEST_OK(clprune_net_forward(job->net, &job->data, false));
    TEST_OK(clprune_net_logits(job->net, BATCH, 3, mat, &event));
    TEST_CL(clWaitForEvents(1, &event));
    TEST_CL(clReleaseEvent(event));
    TEST_OK(clprune_mat_read(job->context, mat, logits));
    return logits;
}

/* A loss of whole logits and one in chunks: the same gradients; without a bias, if that is 0. */
static void same_as_logits(void **state)
{
    net_job head = net_open(test_context(), *state, BATCH, NULL),
            logits = net_open(test_context(), &net_token_models[NET_LOGITS], BATCH, NULL);
    for (size_t i = 0; i < head.count; i++)
        copy_param(&head, head.params[i].name, &logits, head.params[i].name);
    if (*state != &biased_head)
        TEST_OK(clprune_mat_fill(
            test_context(), 0, logits.params[find(&logits, "head.bias")].value, NULL));
    const double want = net_loss(&logits, true), got = net_loss(&head, true);
    assert_true(fabs(got - want) < 1e-6 * fabs(want));
    head.data.scale = logits.data.scale = 3;
    net_step(&logits, BATCH);
    net_step(&head, BATCH);
    for (size_t i = 0; i < head.count; i++) {
        const size_t mark = test_mark();
        const char *name = head.params[i].name;
        const size_t count = head.params[i].grad.rows * head.params[i].grad.cols;
        const float *a = grad_of(&head, name), *b = grad_of(&logits, name);
        double size = 0, error = 0;
        for (size_t k = 0; k < count; k++) {
            size += (double)b[k] * (double)b[k];
            error += ((double)a[k] - (double)b[k]) * ((double)a[k] - (double)b[k]);
        }
        if (!(error <= 1e-10 * size))
            fail_msg("%s: an error of %g", name, sqrt(error / size));
        test_release(mark);
    }
}

/* A cap bounds what clprune_net_logits gives. A bias is added to it. */
static void other_logits(NO_ROW)
{
    const double cap = 3 / 8.0;
    net_job none = net_open(test_context(), &free_head, BATCH, NULL),
            bias = net_open(test_context(), &biased_head, BATCH, NULL),
            bound = net_open(test_context(), &capped_head, BATCH, NULL);
    for (size_t i = 0; i < none.count; i++)
        copy_param(&none, none.params[i].name, &bias, none.params[i].name);
    const float *logits = logits_of(&none), *capped = logits_of(&bound), *biased = logits_of(&bias);
    const clprune_mat b = bias.params[find(&bias, "head.bias")].value;
    float values[NET_VOCABULARY];
    TEST_OK(clprune_mat_read(test_context(), b, values));
    for (size_t i = 0; i < BATCH * NET_VOCABULARY; i++) {
        assert_true(fabs((double)capped[i] - cap * tanh((double)logits[i] / cap)) < 1e-6);
        assert_true(fabsf(biased[i] - logits[i] - values[i % NET_VOCABULARY]) < 1e-6f);
    }
}

/* Rotary positions by a theta, by its frequencies, and by the angles of each row. */
static void build_angles(clprune_net *net, const net_model *model)
{
    enum { PAIRS = 4, HEADS = 2 };
    double frequencies[PAIRS];
    float angles[ROWS][PAIRS];
    for (size_t i = 0; i < PAIRS; i++)
        frequencies[i] = pow(100, -(double)i / PAIRS);
    for (size_t i = 0; i < ROWS * PAIRS; i++)
        angles[i / PAIRS][i % PAIRS] = (float)((double)(i / PAIRS) * frequencies[i % PAIRS]);
    const clprune_net_angles by[] = {
        {.pairs = PAIRS, .frequencies = frequencies}, {.pairs = PAIRS, .angles = angles[0]}};
    const clprune_net_value x = clprune_net_rows(net, ROWS, 64);
    clprune_net_mean_squared_error(net,
        model->seed == 0 ? clprune_net_rotary(net, "rotary", x, HEADS, 1, 2 * PAIRS, 100, false)
                         : clprune_net_rotary_by(net, "rotary", x, HEADS, 1, &by[model->seed - 1]));
}

static void angles(NO_ROW)
{
    float *values[3];
    for (uint64_t i = 0; i < 3; i++) {
        const net_model model = {"angles", build_angles, ROWS, 64, ROWS, 64, false, false, i};
        net_job job = net_open(test_context(), &model, BATCH, NULL);
        TEST_OK(clprune_net_forward(job.net, &job.data, false));
        const clprune_mat y = clprune_net_output(job.net, BATCH);
        values[i] = test_floats(y.rows * y.cols);
        TEST_OK(clprune_mat_read(job.context, y, values[i]));
        for (size_t k = 0; k < y.rows * y.cols; k++)
            assert_true(fabsf(values[i][k] - values[0][k]) < 1e-5f);
    }
}

/* What a token loss needs in which order. */
static void order(NO_ROW)
{
    net_job job = net_open(test_context(), &net_token_models[NET_HEAD], BATCH, NULL),
            other = net_open(test_context(), &net_token_models[NET_LOGITS], BATCH, NULL);
    const clprune_status bad = CLPRUNE_INVALID_ARGUMENT;
    const clprune_mat logits = test_new_mat(job.context, BATCH, NET_VOCABULARY);
    clprune_net *net = job.net;
    TEST_FAILS(clprune_net_loss(net, &job.data, job.loss, CLPRUNE_NO_MAT), bad, "forward pass");
    TEST_FAILS(clprune_net_logits(net, BATCH, 0, logits, NULL), bad, "forward pass");
    TEST_OK(clprune_net_forward(net, &job.data, true));
    TEST_FAILS(clprune_net_backward(net, &job.data), bad, "clprune_net_loss");
    cl_event event = NULL;
    TEST_OK(clprune_net_logits(net, BATCH, 0, logits, &event));
    TEST_CL(clWaitForEvents(1, &event));
    TEST_CL(clReleaseEvent(event));
    TEST_OK(clprune_net_loss(net, &job.data, job.loss, CLPRUNE_NO_MAT));
    TEST_FAILS(clprune_net_loss(net, &job.data, job.loss, CLPRUNE_NO_MAT), bad, "forward pass");
    TEST_FAILS(clprune_net_logits(net, BATCH, 0, logits, NULL), bad, "forward pass");
    TEST_OK(clprune_net_backward(net, &job.data));
    TEST_FAILS(clprune_net_backward(net, &job.data), bad, "clprune_net_loss");
    TEST_OK(clprune_net_forward(net, &job.data, false));
    TEST_OK(clprune_net_loss(net, &job.data, job.loss, CLPRUNE_NO_MAT));
    TEST_OK(clprune_net_loss(net, &job.data, job.loss, CLPRUNE_NO_MAT));
    TEST_FAILS(clprune_net_backward(net, &job.data), bad, "in training");
    TEST_FAILS(
        clprune_net_logits(net, BATCH, ROWS, logits, NULL), CLPRUNE_INVALID_SIZE, "row is 9");
    TEST_FAILS(
        clprune_net_logits(net, BATCH + 1, 0, logits, NULL), CLPRUNE_INVALID_SIZE, "batch is 6");
    TEST_FAILS(clprune_net_logits(net, 1, 0, logits, NULL), CLPRUNE_INVALID_SIZE, "");
    assert_int_equal(clprune_net_logits(NULL, 1, 0, logits, NULL), bad);
    TEST_OK(clprune_net_forward(other.net, &other.data, false));
    TEST_FAILS(
        clprune_net_logits(other.net, BATCH, 0, logits, NULL), bad, "clprune_net_token_loss");
}

/* Queries and keys turned by their positions. */
static void build_turned(clprune_net *net, const net_model *model)
{
    clprune_net_value x = clprune_net_tokens(net, model->rows);
    x = clprune_net_embedding(net, "wte", x, NET_VOCABULARY, 64);
    clprune_net_value t = clprune_net_rms_norm(net, "norm1", x);
    t = clprune_net_rotary(
        net, "rotary", clprune_net_linear(net, "qkv", t, 192), 8, 4, 0, 1e4f, false);
    t = clprune_net_attention(net, "attention", t, &(clprune_net_attn){.heads = 4});
    x = clprune_net_add(net, "add1", x, clprune_net_linear(net, "o", t, 64));
    t = clprune_net_linear(net, "up", clprune_net_rms_norm(net, "norm2", x), 256);
    t = clprune_net_linear(net, "down", clprune_net_swiglu(net, "swiglu", t), 64);
    clprune_net_token_loss(net, "head", clprune_net_add(net, "add2", x, t), NET_VOCABULARY);
}

static void note_bits(void *user, const clprune_net_tensor *tensor)
{
    unsigned *bits = user;
    const bool attention = strcmp(tensor->name, "qkv") == 0 || strcmp(tensor->name, "rotary") == 0;
    if (tensor->kept && (attention || strcmp(tensor->name, "up") == 0))
        bits[attention ? 0 : 1] = tensor->keep.bits;
}

/* Errors of queries and keys grow in the softmax: they keep 8 bits, also where they are turned
 * again from the linear layer's output. */
static void bits_of_queries(NO_ROW)
{
    static const net_model turned = {"turned", build_turned, 64, 0, 1, 0, false, false, 0};
    const net_job job = net_open_preset(&turned, BATCH, CLPRUNE_NET_COMPACT, 4);
    unsigned bits[2] = {0};
    clprune_net_visit(job.net, note_bits, bits);
    assert_int_equal(bits[0], 8);
    assert_int_equal(bits[1], 4);
}

/* The weights of a net: only the head's makes the output. */
static void weights(NO_ROW)
{
    net_job job = net_open(test_context(), &net_token_models[NET_HEAD], BATCH, NULL);
    clprune_net_weight weight;
    for (size_t i = 0; clprune_net_weight_at(job.net, i, &weight); i++)
        assert_int_equal(weight.output, strcmp(weight.name, "head.weight") == 0);
    for (size_t i = 0; i < job.count; i++)
        if (strcmp(job.params[i].name, "wte.weight") == 0 ||
            strcmp(job.params[i].name, "head.weight") == 0)
            assert_true(job.params[i].decay && job.params[i].value.rows == NET_VOCABULARY);
}

/* Samples of a batch in passes whose gradients are added, beside one pass. Of sample 0 two labels
 * count, of sample 1 none. */
static void passes(void **state)
{
    static const size_t splits[][BATCH + 1] = {
        {2, 3}, {1, 4}, {4, 1}, {1, 1, 3}, {3, 1, 1}, {1, 1, 1, 1, 1}};
    const net_model *model = *state;
    const clprune_net_desc adds = {.batch = BATCH, .adds = true};
    const size_t rows = model->rows, labels = model->target_rows > 0 ? model->target_rows : 1;
    int32_t all[NET_BEFORE + BATCH * ROWS], *own = all + NET_BEFORE;
    net_job whole = net_open(test_context(), model, BATCH, NULL),
            parts = net_open_desc(test_context(), model, &adds, NULL);
    const clprune_mat mat =
        clprune_mat_of(whole.data.labels.buffer, 1, NET_BEFORE + BATCH * labels);
    TEST_OK(clprune_mat_read(whole.context, mat, (float *)(void *)all));
    for (size_t i = labels > 1 ? 2 : 1; i < 2 * labels; i++)
        own[i] = CLPRUNE_IGNORED;
    TEST_OK(clprune_mat_write(whole.context, mat, (const float *)(const void *)all));
    parts.data = whole.data;
    const float *want = net_step_grads(&whole);
    size_t count = 0;
    for (size_t i = 0; i < BATCH * labels; i++)
        count += own[i] != CLPRUNE_IGNORED;
    for (size_t s = 0; s < COUNT_OF(splits); s++)
        for (int by_samples = 0; by_samples < 2; by_samples++) {
            const clprune_net_data data = parts.data;
            size_t first = 0;
            for (const size_t *n = splits[s]; *n > 0; first += *n++) {
                size_t counts = 0;
                for (size_t i = first * labels; i < (first + *n) * labels; i++)
                    counts += own[i] != CLPRUNE_IGNORED;
                parts.data.labels.offset = data.labels.offset + first * labels;
                parts.data.tokens.offset = data.tokens.offset + first * rows;
                parts.data.lengths.offset = data.lengths.offset + first;
                parts.data.add = first > 0;
                parts.data.scale =
                    by_samples ? 1.0f / BATCH : (float)counts / (float)count / (float)*n;
                net_step(&parts, *n);
            }
            parts.data = data;
            size_t param;
            const float *got = net_grads(&parts);
            if (!by_samples)
                net_close(&parts, "passes", got, want, 1e-5);
            else /* each pass by its own labels */
                assert_true(net_worst(&parts, got, want, &param) > 0.1);
        }
}

/* Fewer samples, and in chunks. */
static void smaller_batches(void **state)
{
    static const clprune_net_preset presets[] = {
        CLPRUNE_NET_DENSE, CLPRUNE_NET_EXACT, CLPRUNE_NET_LEAST};
    for (size_t p = 0; p < COUNT_OF(presets); p++) {
        const size_t mark = test_mark();
        net_job all = net_open_preset(*state, BATCH, presets[p], 8),
                part = net_open_preset(*state, 2, presets[p], 8);
        net_step(&all, 2);
        net_close(&all, "2 of 5", net_grads(&all), net_step_grads(&part), p == 2 ? 0.05 : 1e-5);
        test_release(mark);
    }
}

int main(void)
{
    test_list list = {0};
    TEST_ADD_EACH(&list, gradients, net_token_models, "gradients of %s");
    TEST_ADD_EACH(&list, smaller_batches, net_token_models, "smaller batches of %s");
    static const size_t added[] = {NET_HEAD, NET_TIED, NET_LOGITS, NET_LLAMA, NET_BERT, NET_GEMMA};
    for (size_t i = 0; i < COUNT_OF(added); i++)
        test_add(&list, passes, &net_token_models[added[i]], "ignored labels in passes of %s",
            net_token_models[added[i]].name);
    for (size_t i = 0; i < COUNT_OF(tied_models); i++)
        test_add(&list, tied, &tied_models[i], "gradients of a %s", tied_models[i]->name);
    test_add(&list, apart, NULL, "sequences apart");
    test_add(&list, chunks, NULL, "chunks of samples");
    test_add(&list, lengths_in_chunks, NULL, "lengths in chunks of samples");
    test_add(&list, frozen, NULL, "frozen weights");
    test_add(&list, losses, NULL, "losses of rows that count");
    test_add(
        &list, same_as_logits, &net_token_models[NET_HEAD], "a loss in chunks and one of logits");
    test_add(&list, same_as_logits, &biased_head, "a loss in chunks with a bias");
    test_add(&list, other_logits, NULL, "capped and biased logits");
    test_add(&list, angles, NULL, "angles");
    test_add(&list, order, NULL, "order of calls");
    test_add(&list, weights, NULL, "weights");
    test_add(&list, bits_of_queries, NULL, "bits of queries");
    return test_run_on_devices("net_tokens", &list);
}
