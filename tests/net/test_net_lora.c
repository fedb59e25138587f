/* Fine-tuning: adapters of linear layers, which change nothing as long as B is 0, their gradients
 * with each preset, the weights that they merge into, and what is kept when only they are trained.
 */
#include "net/net_models.h"
#include "support/test_folder.h"

enum { BATCH = 5, ROWS = 11, WIDTH = 24, RANK = 3 };

static const float alpha = 6;

static const clprune_net_linear_part parts[3] = {{"q", WIDTH}, {"k", WIDTH}, {"v", WIDTH}};

/* seed: 0 no adapters, 1 of all linear layers, 2 of the attention's; + 4: only these are trained; +
 * 8: q, k and v have adapters of their own; + 16: of these, v's alone, in one block. With dropout
 * that of x before A. */
static void build(clprune_net *net, const net_model *model)
{
    const uint64_t seed = model->seed;
    clprune_net_value x = clprune_net_rows(net, model->rows, model->cols);
    clprune_net_lora_dropout(net, model->dropout ? 0.25f : 0);
    if (seed % 4 > 0)
        clprune_net_lora(net,
            seed >= 16      ? "h.1.attn.v"
            : seed % 4 == 1 ? "*"
                            : "h.?.attn.*",
            RANK, alpha);
    for (unsigned i = 0; i < 2; i++) {
        const clprune_net_attn attn = {.heads = 2, .causal = true};
        char part[8];
        (void)snprintf(part, sizeof part, "h.%u", i);
        clprune_net_part(net, part);
        clprune_net_value t = clprune_net_layer_norm(net, "ln_1", x);
        t = seed & 8 ? clprune_net_linears(net, "attn.c_attn", t, parts, 3, true)
                     : clprune_net_linear(net, "attn.c_attn", t, 3 * WIDTH);
        t = clprune_net_attention(net, "attn", t, &attn);
        x = clprune_net_add(net, "add_1", x, clprune_net_project(net, "attn.c_proj", t, WIDTH));
        t = clprune_net_linear(net, "mlp.c_fc", clprune_net_layer_norm(net, "ln_2", x), 4 * WIDTH);
        t = clprune_net_linear(net, "mlp.c_proj", clprune_net_gelu(net, "mlp.act", t), WIDTH);
        x = clprune_net_add(net, "add_2", x, t);
    }
    clprune_net_part(net, NULL);
    clprune_net_lora(net, NULL, 0, 0);
    clprune_net_mean_squared_error(net, clprune_net_linear(net, "out", x, model->target_cols));
    static const char *const patterns[] = {"*.lora_A.weight", "*.lora_B.weight"};
    if (seed & 4)
        clprune_net_train_only(net, patterns, 2);
}

#define MODEL(name, seed)                                                                          \
    {                                                                                              \
        name, build, ROWS, WIDTH, ROWS, 8, false, false, seed                                      \
    }
#define DROPS(name, seed)                                                                          \
    {                                                                                              \
        name, build, ROWS, WIDTH, ROWS, 8, false, true, seed                                       \
    }
static const net_model plain = MODEL("plain", 0), adapted = MODEL("adapted", 1),
                       tuned[] = {MODEL("adapters", 5), MODEL("adapters of attention", 6),
                           MODEL("adapters of parts", 13), MODEL("adapters of v", 30),
                           DROPS("adapters with dropout", 5),
                           DROPS("adapters of parts with dropout", 13)};
static const size_t trained[] = {16, 8, 24, 2, 16, 24};

static clprune_mat value_of(const net_job *job, const char *name)
{
    clprune_net_weight weight;
    assert_true(clprune_net_weight_of(job->net, name, &weight));
    return weight.value;
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
    assert_int_equal(dense.count, trained[model - tuned]);
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
static void merged(void **state)
{
    const net_model *model = *state;
    net_job job = net_open(test_context(), model, BATCH, NULL);
    net_job base = net_open(test_context(), &plain, BATCH, NULL);
    fill_adapters(&job);
    copy_params(&job, &base);
    size_t adapters = 0;
    for (size_t i = 0; i < job.count; i++) {
        const char *name = job.params[i].name, *end = strstr(name, ".lora_A.");
        if (end == NULL)
            continue;
        const char *stem = test_text("%.*s", (int)(end - name), name), *part = strrchr(stem, '.');
        size_t first = 0;
        while (first < 3 && strcmp(part + 1, parts[first].name) != 0)
            first++;
        const bool whole = first == 3;
        const char *layer = whole ? stem : test_text("%.*s.c_attn", (int)(part - stem), stem);
        const clprune_mat a = job.params[i].value,
                          b = value_of(&job, suffixed(stem, ".lora_B.weight"));
        clprune_mat w = value_of(&base, suffixed(layer, ".weight"));
        if (!whole)
            w = clprune_mat_rows(w, first * WIDTH, WIDTH);
        assert_int_equal(a.rows, RANK);
        assert_int_equal(b.rows, w.rows);
        TEST_OK(clprune_gemm(test_context(), false, false, alpha / RANK, 1, b, a, w, NULL));
        adapters++;
    }
    assert_int_equal(2 * adapters, trained[model - tuned]);
    const double got = net_loss(&base, false), want = net_loss(&job, false);
    if (!(fabs(got - want) <= 1e-5 * want))
        fail_msg("the loss is %.9g, expected %.9g", got, want);
}

/* Without adapters parts are one linear layer, to the bit. */
static void parts_alone(NO_ROW)
{
    static const net_model split = MODEL("parts", 8);
    net_job a = net_open(test_context(), &plain, BATCH, NULL),
            b = net_open(test_context(), &split, BATCH, NULL);
    copy_params(&a, &b);
    assert_int_equal(a.count, b.count);
    assert_true(net_loss(&a, true) == net_loss(&b, true));
}

/* Parts without a name or outputs, or none. */
static void bad_parts(NO_ROW)
{
    static const clprune_net_linear_part wrong[][2] = {{{"q", 4}, {NULL, 4}}, {{"q", 4}, {"", 4}},
        {{"q", 4}, {"k", 0}}, {{"q", SIZE_MAX}, {"k", 2}}};
    for (size_t i = 0; i < COUNT_OF(wrong) + 2; i++) {
        clprune_net *net;
        TEST_OK(clprune_net_create(test_context(), &(clprune_net_desc){.batch = BATCH}, &net));
        const clprune_net_value x = clprune_net_rows(net, ROWS, WIDTH);
        const bool listed = i < COUNT_OF(wrong);
        (void)clprune_net_linears(net, "qkv", x,
            i == COUNT_OF(wrong) ? NULL : wrong[listed ? i : 0], i > COUNT_OF(wrong) ? 0 : 2, true);
        assert_int_equal(clprune_net_settle(net, NULL), CLPRUNE_INVALID_ARGUMENT);
        assert_non_null(strstr(clprune_last_error(test_context()), "layer qkv: each of its parts"));
        clprune_net_destroy(net);
    }
    assert_int_equal(
        clprune_net_linears(NULL, "qkv", (clprune_net_value){0}, parts, 3, true).id, 0);
}

/* One layer with an adapter, and, with a seed, the same of layers that say what it does. */
static void build_dropped(clprune_net *net, const net_model *model)
{
    const clprune_net_value x = clprune_net_rows(net, model->rows, model->cols);
    clprune_net_value y;
    clprune_net_lora_dropout(net, model->dropout ? 0.5f : 0);
    if (model->seed == 0) {
        clprune_net_lora(net, "*", RANK, alpha);
        y = clprune_net_linear(net, "fc", x, model->target_cols);
    } else {
        y = clprune_net_linear(net, "fc", x, model->target_cols);
        clprune_net_value t = clprune_net_dropout(net, "drop", x, 0.5f);
        t = clprune_net_project(net, "fc.lora_A", t, RANK);
        t = clprune_net_scale(net, "scale", t, alpha / RANK);
        y = clprune_net_add(
            net, "add", y, clprune_net_project(net, "fc.lora_B", t, model->target_cols));
    }
    clprune_net_mean_squared_error(net, y);
}

/* Dropout is of what A reads, not of what the layer does, and only in training. */
static void dropped(NO_ROW)
{
    static const net_model models[] = {
        {"adapter", build_dropped, ROWS, WIDTH, ROWS, 8, false, true, 0},
        {"layers", build_dropped, ROWS, WIDTH, ROWS, 8, false, true, 1},
        {"adapter without", build_dropped, ROWS, WIDTH, ROWS, 8, false, false, 0}};
    double loss[3][2];
    float *grads[3];
    size_t param;
    net_job jobs[3];
    for (size_t m = 0; m < 3; m++) {
        jobs[m] = net_open(test_context(), &models[m], BATCH, NULL);
        fill_adapters(&jobs[m]);
        for (unsigned training = 0; training < 2; training++)
            loss[m][training] = net_loss(&jobs[m], training == 1);
        grads[m] = net_step_grads(&jobs[m]);
    }
    for (unsigned training = 0; training < 2; training++)
        if (!(fabs(loss[0][training] - loss[1][training]) <= 1e-6 * loss[1][training]))
            fail_msg("the loss is %.9g, that of the same layers %.9g", loss[0][training],
                loss[1][training]);
    net_close(&jobs[0], "dropout", grads[0], grads[1], 1e-6);
    assert_true(loss[0][0] == loss[2][0]);
    assert_true(fabs(loss[0][1] - loss[2][1]) > 1e-3 * loss[2][1]);
    assert_true(net_worst(&jobs[0], grads[0], grads[2], &param) > 0.1);
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

/* What a net keeps; all but x A^T; what it takes beside parameters and their gradients; the bits of
 * adapters' outputs, or of what they are made from: of GELU's input and of attention's. */
typedef struct kept {
    uint64_t bytes, but_narrow, taken;
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
    if ((strstr(tensor->name, "attn.c_attn") != NULL || strstr(tensor->name, "attn.v.") != NULL) &&
        tensor->kept)
        k->attention_bits = tensor->keep.bits;
}

static uint64_t live(void)
{
    return test_live(test_context(), CLPRUNE_MEMORY_ACTIVATIONS) +
           test_live(test_context(), CLPRUNE_MEMORY_WORKSPACE);
}

static kept kept_by(const net_model *model, const clprune_net_keep *keep)
{
    kept k = {.taken = UINT64_MAX - live() + 1};
    const size_t mark = test_mark();
    const net_job job = net_open(test_context(), model, BATCH, keep);
    clprune_net_visit(job.net, add_kept, &k);
    k.taken += live();
    test_release(mark);
    return k;
}

/* With adapters alone trained, a net keeps at most what it keeps with all trained, and x A^T, and
 * as autograd does each dropped x; with extra_work, what it keeps and takes with less of it. */
static void adapted_memory(void **state)
{
    const net_model *model = *state;
    kept less = {0};
    for (size_t i = 0; i < COUNT_OF(settings); i++) {
        const kept all = kept_by(&plain, &settings[i].keep);
        const kept some = kept_by(model, &settings[i].keep);
        const bool drops = model->dropout && settings[i].keep.preset <= CLPRUNE_NET_INPUTS;
        if (settings[i].keep.extra_work == 0 && !drops && some.but_narrow > all.bytes)
            fail_msg("%s: %llu bytes are kept, %llu when all is trained", settings[i].name,
                (unsigned long long)some.but_narrow, (unsigned long long)all.bytes);
        if (settings[i].keep.extra_work > 0 && (some.bytes > less.bytes || some.taken > less.taken))
            fail_msg("%s: %llu bytes are kept of %llu that are taken, %llu of %llu with less work",
                settings[i].name, (unsigned long long)some.bytes, (unsigned long long)some.taken,
                (unsigned long long)less.bytes, (unsigned long long)less.taken);
        less = some;
        if (strcmp(settings[i].name, "compact") == 0 && model != &tuned[3]) { /* made again there */
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

static const clprune_net_linear_part halves[2] = {{"left", 3}, {"right", 5}};

/* The head is the layer below its adapters. */
static void build_head(clprune_net *net, const net_model *model)
{
    clprune_net_lora(net, "*", RANK, alpha);
    clprune_net_value x = clprune_net_rows(net, model->rows, model->cols);
    x = clprune_net_gelu(net, "gelu", clprune_net_linear(net, "fc", x, 16));
    clprune_net_mean_squared_error(net, model->seed == 0
                                            ? clprune_net_linear(net, "out", x, model->target_cols)
                                            : clprune_net_linears(net, "out", x, halves, 2, true));
}

static const net_model heads[] = {{"head", build_head, ROWS, WIDTH, ROWS, 8, false, false, 0},
    {"head of parts", build_head, ROWS, WIDTH, ROWS, 8, false, false, 1}};

static void adapted_head(void **state)
{
    net_job job = net_open(test_context(), *state, BATCH, NULL);
    clprune_net_weight weight;
    size_t found = 0;
    for (size_t i = 0; clprune_net_weight_at(job.net, i, &weight); i++) {
        found += weight.output;
        assert_int_equal(weight.output,
            strcmp(weight.name, "out.weight") == 0 || strcmp(weight.name, "out.bias") == 0);
    }
    assert_int_equal(found, 2);
}

int main(void)
{
    test_list list = {0};
    test_add(&list, begin, NULL, "adapters change nothing at first");
    for (size_t i = 0; i < COUNT_OF(tuned); i++)
        test_add(&list, gradients, &tuned[i], "gradients: %s", tuned[i].name);
    for (size_t i = 0; i < COUNT_OF(tuned); i++)
        test_add(&list, merged, &tuned[i], "merged weights: %s", tuned[i].name);
    test_add(&list, parts_alone, NULL, "parts without adapters");
    test_add(&list, bad_parts, NULL, "bad parts");
    for (size_t i = 0; i < COUNT_OF(heads); i++)
        test_add(&list, adapted_head, &heads[i], "a head with adapters, %zu", i);
    test_add(&list, dropped, NULL, "dropout before A");
    test_add(&list, frozen_memory, NULL, "frozen layers keep less");
    for (size_t i = 0; i < COUNT_OF(tuned); i++)
        test_add(&list, adapted_memory, &tuned[i], "kept with %s", tuned[i].name);
    test_add(&list, bad_patterns, NULL, "patterns that match nothing");
    return test_run_on_devices("net_lora", &list);
}
