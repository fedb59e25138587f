/* Fine-tuning: adapters of linear layers, which change nothing as long as B is 0, their gradients
 * with each preset, the weights that they merge into, and what is kept when only they are trained.
 */
#include "net/net_models.h"

enum { BATCH = 5, ROWS = 11, WIDTH = 24, RANK = 3 };

static const float alpha = 6;

/* seed: 0 no adapters, 1 of all linear layers, 2 of the attention's; + 4: only these are trained.
 */
static void build(clprune_net *net, const net_model *model)
{
    const uint64_t seed = model->seed;
    clprune_net_value x = clprune_net_rows(net, model->rows, model->cols);
    if (seed % 4 > 0)
        clprune_net_lora(net, seed % 4 == 1 ? "*" : "h.?.attn.*", RANK, alpha);
    for (unsigned i = 0; i < 2; i++) {
        const clprune_net_attn attn = {.heads = 2, .causal = true};
        char part[8];
        (void)snprintf(part, sizeof part, "h.%u", i);
        clprune_net_part(net, part);
        clprune_net_value t = clprune_net_layer_norm(net, "ln_1", x);
        t = clprune_net_attention(
            net, "attn", clprune_net_linear(net, "attn.c_attn", t, 3 * WIDTH), &attn);
        x = clprune_net_add(net, "add_1", x, clprune_net_project(net, "attn.c_proj", t, WIDTH));
        t = clprune_net_linear(net, "mlp.c_fc", clprune_net_layer_norm(net, "ln_2", x), 4 * WIDTH);
        t = clprune_net_linear(net, "mlp.c_proj", clprune_net_gelu(net, "mlp.act", t), WIDTH);
        x = clprune_net_add(net, "add_2", x, t);
    }
    clprune_net_part(net, NULL);
    clprune_net_lora(net, NULL, 0, 0);
    clprune_net_mean_squared_error(net, clprune_net_linear(net, "out", x, model->target_cols));
    static const char *const patterns[] = {"*.lora_A.weight", "*.lora_B.weight"};
    if (seed >= 4)
        clprune_net_train_only(net, patterns, 2);
}

#define MODEL(name, seed)                                                                          \
    {                                                                                              \
        name, build, ROWS, WIDTH, ROWS, 8, false, false, seed                                      \
    }
static const net_model plain = MODEL("plain", 0), adapted = MODEL("adapted", 1),
                       tuned[] = {MODEL("adapters", 5), MODEL("adapters of attention", 6)};

static clprune_mat value_of(const net_job *job, const char *name)
{
    clprune_net_weight weight;
    for (size_t i = 0; clprune_net_weight_at(job->net, i, &weight); i++)
        if (strcmp(weight.name, name) == 0)
            return weight.value;
    fail_msg("no parameter %s", name);
    return CLPRUNE_NO_MAT;
}

static const char *suffixed(const char *name, const char *suffix)
{
    static char text[64];
    (void)snprintf(text, sizeof text, "%s%s", name, suffix);
    return text;
}

static float *read_value(const net_job *job, const char *name)
{
    const clprune_mat mat = value_of(job, name);
    float *values = test_floats(mat.rows * mat.cols);
    TEST_OK(clprune_mat_read(job->context, mat, values));
    return values;
}

/* B of each adapter becomes random, so that A has a gradient. */
static void fill_adapters(const net_job *job)
{
    for (size_t i = 0; i < job->count; i++) {
        const clprune_mat mat = job->params[i].value;
        if (strstr(job->params[i].name, ".lora_B.") != NULL)
            TEST_OK(clprune_mat_write(
                job->context, mat, test_new_uniform(90 + i, -0.3f, 0.3f, mat.rows * mat.cols)));
    }
}

/* Parameters of the same name get the values of `from`. */
static void copy_params(const net_job *from, const net_job *to)
{
    clprune_net_weight weight;
    for (size_t i = 0; clprune_net_weight_at(to->net, i, &weight); i++)
        if (strstr(weight.name, ".lora_") == NULL)
            TEST_OK(clprune_mat_write(to->context, weight.value, read_value(from, weight.name)));
}

/* Nothing changes at first: B is 0. */
static void begin(NO_ROW)
{
    net_job base = net_open(test_context(), &plain, BATCH, NULL);
    for (size_t m = 0; m < COUNT_OF(tuned) + 1; m++) {
        const size_t mark = test_mark();
        net_job job = net_open(test_context(), m == 0 ? &adapted : &tuned[m - 1], BATCH, NULL);
        copy_params(&base, &job);
        if (net_loss(&base, true) != net_loss(&job, true))
            fail_msg("%s: the loss changes", job.model->name);
        test_release(mark);
    }
}

#define CODES                                                                                      \
    {                                                                                              \
        .form = CLPRUNE_FORM_QUANTISED, .rounding = CLPRUNE_ROUNDING_NEAREST                       \
    }
#define BLOCKS                                                                                     \
    {                                                                                              \
        .form = CLPRUNE_FORM_PRUNED, .sparsity = 0.5                                               \
    }

/* What is kept, and the errors of gradients where codes have 8 bits; 0: not compared. */
static const struct {
    const char *name;
    clprune_net_keep keep;
    double bound;
} settings[] = {
    {"dense", {.preset = CLPRUNE_NET_DENSE}, 1e-6},
    {"inputs", {.preset = CLPRUNE_NET_INPUTS, .keep = CODES}, 2e-2},
    {"exact", {.preset = CLPRUNE_NET_EXACT}, 1e-5},
    {"exact, 12 %", {.preset = CLPRUNE_NET_EXACT, .extra_work = 12}, 1e-5},
    {"exact, 25 %", {.preset = CLPRUNE_NET_EXACT, .extra_work = 25}, 1e-5},
    {"compact", {.preset = CLPRUNE_NET_COMPACT, .keep = CODES}, 3e-2},
    {"compact, 12 %", {.preset = CLPRUNE_NET_COMPACT, .keep = CODES, .extra_work = 12}, 3e-2},
    {"compact, pruned", {.preset = CLPRUNE_NET_COMPACT, .keep = BLOCKS}, 0},
    {"least", {.preset = CLPRUNE_NET_LEAST, .keep = CODES}, 3e-2},
};

/* Only adapters have gradients: those of the net that trains everything. */
static void gradients(void **state)
{
    const net_model *model = *state;
    size_t param = 0;
    net_job dense = net_open(test_context(), model, BATCH, NULL);
    for (size_t i = 0; i < dense.count; i++)
        assert_non_null(strstr(dense.params[i].name, ".lora_"));
    assert_int_equal(dense.count, model == &tuned[0] ? 16 : 8);
    fill_adapters(&dense);
    const float *want = net_step_grads(&dense);
    const double error = net_slope_error(&dense, want, 3e-3, &param);
    if (!(error <= 2e-2))
        fail_msg("the slope of %s is off by %.3g", dense.params[param].name, error);
    for (size_t i = 0; i < COUNT_OF(settings); i++) {
        const size_t mark = test_mark();
        clprune_net_keep keep = settings[i].keep;
        keep.keep.bits = 8;
        net_job job = net_open(test_context(), model, BATCH, &keep);
        fill_adapters(&job);
        if (settings[i].bound > 0)
            net_close(&job, settings[i].name, net_step_grads(&job), want, settings[i].bound);
        test_release(mark);
    }
}

/* w + alpha / rank * B A gives the same output without adapters. */
static void merged(NO_ROW)
{
    net_job job = net_open(test_context(), &tuned[1], BATCH, NULL);
    net_job base = net_open(test_context(), &plain, BATCH, NULL);
    fill_adapters(&job);
    copy_params(&job, &base);
    static const char *const names[] = {
        "h.0.attn.c_attn", "h.0.attn.c_proj", "h.1.attn.c_attn", "h.1.attn.c_proj"};
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        const clprune_mat w = value_of(&base, suffixed(names[i], ".weight"));
        const clprune_mat a = value_of(&job, suffixed(names[i], ".lora_A.weight")),
                          b = value_of(&job, suffixed(names[i], ".lora_B.weight"));
        assert_int_equal(a.rows, RANK);
        assert_int_equal(b.rows, w.rows);
        TEST_OK(clprune_gemm(test_context(), false, false, alpha / RANK, 1, b, a, w, NULL));
    }
    const double got = net_loss(&base, false), want = net_loss(&job, false);
    if (!(fabs(got - want) <= 1e-5 * want))
        fail_msg("the loss is %.9g, expected %.9g", got, want);
}

static uint64_t saved(const net_model *model, clprune_net_preset preset)
{
    const size_t mark = test_mark();
    const uint64_t before = clprune_memory_query(test_context(), CLPRUNE_MEMORY_ACTIVATIONS).live;
    net_job job = net_open_preset(model, BATCH, preset, 8);
    const uint64_t after = clprune_memory_query(job.context, CLPRUNE_MEMORY_ACTIVATIONS).live;
    test_release(mark);
    return after - before;
}

/* Frozen layers keep no inputs: of an MLP without adapters stays what GELU and the norm need. */
static void frozen_memory(NO_ROW)
{
    const uint64_t width = (uint64_t)BATCH * ROWS * WIDTH * sizeof(float);
    const uint64_t all = saved(&plain, CLPRUNE_NET_DENSE);
    const uint64_t some = saved(&tuned[1], CLPRUNE_NET_DENSE);
    /* ln_2's and gelu's outputs in both blocks, 5 widths each, and the last sum, but x A^T twice
     * more */
    if (!(some + 2 * 5 * width + width <= all + 4 * 2 * width * RANK / WIDTH + 64))
        fail_msg("%llu bytes are kept, %llu when all is trained", (unsigned long long)some,
            (unsigned long long)all);
}

/* What a net keeps; all but x A^T; the bits of adapters' outputs, or of what they are made from: of
 * GELU's input and of attention's. */
typedef struct kept {
    uint64_t bytes, but_narrow;
    unsigned gelu_bits, attention_bits;
} kept;

static void add_kept(void *user, const clprune_net_tensor *tensor)
{
    kept *k = user;
    k->bytes += tensor->bytes;
    if (tensor->cols == RANK)
        return;
    k->but_narrow += tensor->bytes;
    if (strstr(tensor->name, "mlp.c_fc") != NULL && tensor->kept)
        k->gelu_bits = tensor->keep.bits;
    if (strstr(tensor->name, "attn.c_attn") != NULL && tensor->kept)
        k->attention_bits = tensor->keep.bits;
}

static kept kept_by(const net_model *model, const clprune_net_keep *keep)
{
    kept k = {0};
    const size_t mark = test_mark();
    const net_job job = net_open(test_context(), model, BATCH, keep);
    clprune_net_visit(job.net, add_kept, &k);
    test_release(mark);
    return k;
}

/* With adapters alone trained, a net keeps at most what it keeps with all trained, and x A^T, which
 * is made again where products may run again. */
static void adapted_memory(void **state)
{
    for (size_t i = 0; i < COUNT_OF(settings); i++) {
        const kept all = kept_by(&plain, &settings[i].keep);
        const kept some = kept_by(*state, &settings[i].keep);
        if (some.but_narrow > all.bytes)
            fail_msg("%s: %llu bytes are kept, %llu when all is trained", settings[i].name,
                (unsigned long long)some.but_narrow, (unsigned long long)all.bytes);
        if (settings[i].keep.extra_work > 0)
            assert_true(some.bytes <= all.bytes);
        if (strcmp(settings[i].name, "compact") == 0) {
            assert_int_equal(some.gelu_bits, 4);
            assert_int_equal(some.attention_bits, 8);
        }
    }
}

static void bad_patterns(NO_ROW)
{
    clprune_net *net;
    TEST_OK(clprune_net_create(test_context(), &(clprune_net_desc){.batch = BATCH}, &net));
    build(net, &plain);
    clprune_net_train_only(net, (const char *const[]){"h.*", "*.lora_*"}, 2);
    assert_int_equal(clprune_net_settle(net, NULL), CLPRUNE_INVALID_ARGUMENT);
    assert_non_null(strstr(clprune_last_error(test_context()), "no parameter"));
    clprune_net_destroy(net);
}

/* The head is the layer below its adapter. */
static void build_head(clprune_net *net, const net_model *model)
{
    clprune_net_lora(net, "*", RANK, alpha);
    clprune_net_value x = clprune_net_rows(net, model->rows, model->cols);
    x = clprune_net_gelu(net, "gelu", clprune_net_linear(net, "fc", x, 16));
    clprune_net_mean_squared_error(net, clprune_net_linear(net, "out", x, model->target_cols));
}

static void adapted_head(NO_ROW)
{
    static const net_model model = {"head", build_head, ROWS, WIDTH, ROWS, 8, false, false, 0};
    net_job job = net_open(test_context(), &model, BATCH, NULL);
    clprune_net_weight weight;
    size_t heads = 0;
    for (size_t i = 0; clprune_net_weight_at(job.net, i, &weight); i++) {
        heads += weight.output;
        assert_int_equal(weight.output,
            strcmp(weight.name, "out.weight") == 0 || strcmp(weight.name, "out.bias") == 0);
    }
    assert_int_equal(heads, 2);
}

int main(void)
{
    test_list list = {0};
    test_add(&list, begin, NULL, "adapters change nothing at first");
    for (size_t i = 0; i < COUNT_OF(tuned); i++)
        test_add(&list, gradients, &tuned[i], "gradients: %s", tuned[i].name);
    test_add(&list, merged, NULL, "merged weights");
    test_add(&list, adapted_head, NULL, "a head with an adapter");
    test_add(&list, frozen_memory, NULL, "frozen layers keep less");
    for (size_t i = 0; i < COUNT_OF(tuned); i++)
        test_add(&list, adapted_memory, &tuned[i], "kept with %s", tuned[i].name);
    test_add(&list, bad_patterns, NULL, "patterns that match nothing");
    return test_run_on_devices("net_lora", &list);
}
