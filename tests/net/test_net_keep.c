/* What a net keeps: rules, the list of its tensors against the ledger, plans, and unbiased
 * gradients from codes. */
#include "net/net_models.h"
#include "support/test_plan.h"

#include <fnmatch.h>

enum { BATCH = 5, TENSORS = 64 };

/* ---- tensors and the ledger ------------------------------------------------------------------ */

typedef struct tensors {
    clprune_net_tensor tensor[TENSORS];
    size_t count;
} tensors;

static void note_tensor(void *user, const clprune_net_tensor *tensor)
{
    tensors *all = user;
    assert_true(all->count < TENSORS);
    all->tensor[all->count++] = *tensor;
}

static tensors tensors_of(const net_job *job)
{
    tensors all = {.count = 0};
    clprune_net_visit(job->net, note_tensor, &all);
    assert_true(all.count > 2);
    return all;
}

typedef struct books {
    tensors kept;
    size_t found;
} books;

static bool ends_with(const char *text, const char *end)
{
    const size_t length = strlen(text), size = strlen(end);
    return length >= size && strcmp(text + length - size, end) == 0;
}

/* An activation is a kept tensor, or signs, positions of a pool, statistics, or the loss's. */
static void check_entry(void *user, const clprune_memory_entry *entry)
{
    books *b = user;
    if (entry->category != CLPRUNE_MEMORY_ACTIVATIONS)
        return;
    for (size_t i = 0; i < b->kept.count; i++) {
        const clprune_net_tensor *t = &b->kept.tensor[i];
        if (!t->kept || strcmp(t->name, entry->name) != 0)
            continue;
        if (t->bytes != entry->bytes)
            fail_msg("%s: %llu bytes are listed, %llu booked", t->name,
                (unsigned long long)t->bytes, (unsigned long long)entry->bytes);
        b->found++;
        return;
    }
    if (!ends_with(entry->name, ".signs") && !ends_with(entry->name, ".positions") &&
        strcmp(entry->name, "log_softmax") != 0 &&
        strcmp(entry->name, "layer norm statistics") != 0 &&
        strcmp(entry->name, "weight of a row") != 0)
        fail_msg("%s is booked, but no kept tensor", entry->name);
}

/* The net is the only one of its context. */
static tensors check_books(const net_job *job)
{
    books b = {.kept = tensors_of(job)};
    size_t kept = 0;
    for (size_t i = 0; i < b.kept.count; i++) {
        const clprune_net_tensor *t = &b.kept.tensor[i];
        kept += t->kept;
        assert_true(t->rows > 0 && t->cols > 0 && t->layer[0] != 0);
        assert_true(t->kept ? t->bytes > 0 : t->bytes == 0);
        for (size_t k = 0; k < i; k++)
            assert_string_not_equal(t->name, b.kept.tensor[k].name);
    }
    clprune_memory_visit(job->context, check_entry, &b);
    assert_int_equal(b.found, kept);
    return b.kept;
}

static uint64_t kept_bytes(const tensors *all)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < all->count; i++)
        bytes += all->tensor[i].bytes;
    return bytes;
}

/* Each preset keeps less than the one before it, LEAST no more; what is needed and not kept follows
 * from kept tensors. */
static void presets(void **state)
{
    uint64_t bytes[5];
    for (int p = 0; p < 5; p++) {
        const size_t mark = test_mark();
        const net_job job = net_open_preset(*state, BATCH, (clprune_net_preset)p, 4);
        const tensors all = check_books(&job);
        bytes[p] = test_live(job.context, CLPRUNE_MEMORY_ACTIVATIONS);
        assert_true(kept_bytes(&all) <= bytes[p]);
        for (size_t i = 0; i < all.count; i++) {
            const clprune_net_tensor *t = &all.tensor[i];
            if (t->kept && p != CLPRUNE_NET_LEAST)
                assert_true(t->needed || p >= CLPRUNE_NET_EXACT);
            if (t->kept && (p == CLPRUNE_NET_DENSE || p == CLPRUNE_NET_EXACT))
                assert_int_equal(t->keep.form, CLPRUNE_FORM_DENSE);
        }
        test_release(mark);
    }
    assert_true(bytes[CLPRUNE_NET_INPUTS] < bytes[CLPRUNE_NET_DENSE]);
    assert_true(bytes[CLPRUNE_NET_EXACT] <= bytes[CLPRUNE_NET_DENSE]);
    assert_true(bytes[CLPRUNE_NET_COMPACT] < bytes[CLPRUNE_NET_INPUTS]);
    assert_true(bytes[CLPRUNE_NET_LEAST] < bytes[CLPRUNE_NET_DENSE] / 2);
    assert_true(bytes[CLPRUNE_NET_LEAST] <= bytes[CLPRUNE_NET_COMPACT]);
}

/* ---- bf16 ------------------------------------------------------------------------------------ */

/* With store BF16, each tensor that a preset keeps dense takes half its bytes or stays as it is,
 * beside signs of a bit an element; gradients are off by rounding. */
static void in_bf16(void **state)
{
    static const clprune_net_preset some[] = {
        CLPRUNE_NET_DENSE, CLPRUNE_NET_INPUTS, CLPRUNE_NET_EXACT};
    for (size_t p = 0; p < COUNT_OF(some); p++) {
        const size_t mark = test_mark();
        clprune_net_keep keep = {.preset = some[p], .keep = {.form = CLPRUNE_FORM_PRUNED}};
        net_job dense = net_open(test_context(), *state, BATCH, &keep);
        const uint64_t before = test_live(dense.context, CLPRUNE_MEMORY_ACTIVATIONS);
        const float *want = net_step_grads(&dense);
        test_end(dense.net);
        keep.store = CLPRUNE_VALUES_BF16;
        net_job job = net_open(test_context(), *state, BATCH, &keep);
        const tensors all = check_books(&job);
        size_t halved = 0;
        for (size_t i = 0; i < all.count; i++) {
            const clprune_net_tensor *t = &all.tensor[i];
            const bool small = t->cols < 4 || (t->rows == 1 && t->keep.bits == 0);
            if (!t->kept || small || t->keep.form == CLPRUNE_FORM_PRUNED)
                continue;
            if (t->keep.form != CLPRUNE_FORM_QUANTISED || t->keep.bits != 16)
                fail_msg("%s, preset %zu: %s is kept as %s", job.model->name, p, t->name,
                    clprune_form_name(t->keep.form));
            assert_int_equal(
                t->bytes, (BATCH * t->rows * ((t->cols + 15) / 16) * 32 + 63) / 64 * 64);
            halved++;
        }
        assert_true(halved > 0 || some[p] == CLPRUNE_NET_INPUTS);
        const uint64_t now = test_live(job.context, CLPRUNE_MEMORY_ACTIVATIONS);
        if (some[p] != CLPRUNE_NET_INPUTS && now > before * 6 / 10)
            fail_msg("%s, preset %zu: %llu of %llu bytes in bf16", job.model->name, p,
                (unsigned long long)now, (unsigned long long)before);
        net_close(&job, "bf16", net_step_grads(&job), want, 0.01);
        test_release(mark);
    }
}

/* Products of bf16 round a dense input anyway: kept in bf16, it gives all gradients the same bits.
 */
static void same_bits_in_bf16(NO_ROW)
{
    const clprune_context_options options = {
        .kernels = CLPRUNE_KERNELS_VECTOR, .precision = CLPRUNE_PRECISION_BF16};
    clprune_context *context = test_open_on(clprune_context_queue(test_context()), &options);
    const clprune_net_keep keep = {
        .preset = CLPRUNE_NET_INPUTS, .keep = {.form = CLPRUNE_FORM_QUANTISED, .bits = 16}};
    net_job dense = net_open(context, &net_products, BATCH, NULL);
    const float *want = net_step_grads(&dense);
    test_end(dense.net);
    net_job job = net_open(context, &net_products, BATCH, &keep);
    const tensors all = check_books(&job);
    size_t kept = 0;
    for (size_t i = 0; i < all.count; i++)
        kept += all.tensor[i].kept && all.tensor[i].keep.bits == 16;
    assert_true(kept >= 3);
    test_same_floats("gradients", 1, job.elements, net_step_grads(&job), want, "bf16");
}

/* ---- rules ----------------------------------------------------------------------------------- */

#define CODES                                                                                      \
    {                                                                                              \
        .form = CLPRUNE_FORM_QUANTISED, .bits = 8, .rounding = CLPRUNE_ROUNDING_NEAREST            \
    }
#define ROTATED                                                                                    \
    {                                                                                              \
        .form = CLPRUNE_FORM_QUANTISED, .bits = 8, .rounding = CLPRUNE_ROUNDING_NEAREST,           \
        .rotate = true                                                                             \
    }
#define BLOCKS                                                                                     \
    {                                                                                              \
        .form = CLPRUNE_FORM_PRUNED                                                                \
    }
#define DENSE                                                                                      \
    {                                                                                              \
        .form = CLPRUNE_FORM_DENSE                                                                 \
    }

typedef struct rule_row {
    const char *name;
    size_t model;
    double bound; /* of the gradients */
    clprune_net_rule rules[3];
} rule_row;

static const rule_row rule_rows[] = {
    {"hidden again", 0, 1e-5, {{"blocks.*.mlp.fc1", .again = true}}},
    {"hidden codes", 0, 0.02, {{"blocks.*.mlp.fc1", .keep = CODES}}},
    {"hidden codes, rotated", 0, 0.02,
        {{"blocks.*.mlp.fc1", .keep = ROTATED}, {"*.ls2", .keep = ROTATED}}},
    {"one block pruned", 0, 1e-5, {{"blocks.0.*", .keep = BLOCKS}}},
    {"one dense of many", 0, 0.02,
        {{"blocks.*", .keep = CODES}, {"blocks.1.*", .again = true}, {"*.norm2", .keep = DENSE}}},
    {"resmlp again", 0, 1e-5, {{"*", .again = true}}},
    {"resmlp dense", 0, 1e-5, {{"*", .keep = DENSE}}},
    {"image codes", 1, 0.02, {{"image", .keep = CODES}}},
    {"image pruned", 1, 1e-5, {{"image", .keep = BLOCKS}}},
    {"image and convolutions again", 1, 1e-5,
        {{"image", .again = true}, {"layer.*.conv?", .again = true}}},
    {"residuals pruned", 1, 1e-5, {{"layer.?.out", .keep = BLOCKS}, {"maxpool", .keep = BLOCKS}}},
    {"resnet again", 1, 1e-5, {{"*", .again = true}}},
    {"resnet dense", 1, 1e-5, {{"*", .keep = DENSE}}},
    {"one kept of resnet", 1, 1e-5, {{"*", .again = true}, {"layer.1.out", .keep = DENSE}}},
    {"vgg again", 2, 1e-5, {{"*", .again = true}}},
    {"vgg dense", 2, 1e-5, {{"*", .keep = DENSE}}},
    {"pools codes", 2, 0.02, {{"pool?", .keep = CODES}, {"flatten", .keep = CODES}}},
    {"mlp again", 3, 1e-5, {{"*", .again = true}}},
    {"mlp dense", 3, 1e-5, {{"*", .keep = DENSE}}},
    {"rows codes", 3, 0.02, {{"rows", .keep = CODES}, {"drop*", .keep = BLOCKS}}},
    {"unet again", 4, 1e-5, {{"*", .again = true}}},
    {"unet dense", 4, 1e-5, {{"*", .keep = DENSE}}},
    {"skips codes", 4, 0.02, {{"skip?", .keep = CODES}, {"gelu1", .keep = BLOCKS}}},
};

/* The rule that decides a tensor; NULL: none. */
static const clprune_net_rule *rule_of(const rule_row *row, const char *name)
{
    const clprune_net_rule *last = NULL;
    for (size_t r = 0; r < COUNT_OF(row->rules) && row->rules[r].pattern != NULL; r++)
        if (fnmatch(row->rules[r].pattern, name, 0) == 0)
            last = &row->rules[r];
    return last;
}

static void rules(void **state)
{
    const rule_row *row = *state;
    const net_model *model = &net_models[row->model];
    net_job dense = net_open(test_context(), model, BATCH, NULL);
    const float *want = net_step_grads(&dense);
    test_end(dense.net);
    for (int preset = 0; preset < 5; preset++) {
        const size_t mark = test_mark();
        clprune_net_keep keep = {
            .preset = (clprune_net_preset)preset, .keep = CODES, .rules = row->rules};
        while (
            keep.rules_count < COUNT_OF(row->rules) && row->rules[keep.rules_count].pattern != NULL)
            keep.rules_count++;
        net_job job = net_open(test_context(), model, BATCH, &keep);
        const tensors all = check_books(&job);
        bool every = true;
        for (size_t i = 0; i < all.count; i++) {
            const clprune_net_tensor *t = &all.tensor[i];
            const clprune_net_rule *rule = rule_of(row, t->name);
            every = every && rule != NULL;
            if (rule != NULL &&
                (t->kept == rule->again || (t->kept && t->keep.form != rule->keep.form)))
                fail_msg("%s, preset %d: %s is %s %s", row->name, preset, t->name,
                    t->kept ? "kept" : "not kept", clprune_form_name(t->keep.form));
        }
        const bool exact = every || preset == CLPRUNE_NET_DENSE || preset == CLPRUNE_NET_EXACT;
        char what[64];
        (void)snprintf(what, sizeof what, "%s, preset %d", row->name, preset);
        net_close(&job, what, net_step_grads(&job), want, exact ? row->bound : 0.3);
        test_release(mark);
    }
}

/* ---- small products ---------------------------------------------------------------------------
 */

/* 16 multiplications an element, and half a percent of the step's; then 16 as well, but 16 %. */
static void build_narrow(clprune_net *net, const net_model *model)
{
    clprune_net_value x = clprune_net_rows(net, model->rows, model->cols);
    x = clprune_net_gelu(net, "gelu1", clprune_net_linear(net, "narrow", x, 16));
    x = clprune_net_gelu(net, "gelu2", clprune_net_linear(net, "wide", x, 512));
    clprune_net_mean_squared_error(net, clprune_net_linear(net, "out", x, model->target_cols));
}

/* COMPACT makes the output of a small product again, if it is a small part of a step. */
static void small_products(NO_ROW)
{
    static const net_model model = {"narrow", build_narrow, 8, 16, 8, 16, false, false, 0};
    net_job dense = net_open(test_context(), &model, BATCH, NULL);
    const float *want = net_step_grads(&dense);
    test_end(dense.net);
    const clprune_net_keep keep = {.preset = CLPRUNE_NET_COMPACT, .keep = CODES};
    net_job job = net_open(test_context(), &model, BATCH, &keep);
    const tensors all = check_books(&job);
    assert_string_equal(all.tensor[1].name, "narrow");
    assert_string_equal(all.tensor[3].name, "wide");
    assert_true(all.tensor[1].needed && !all.tensor[1].kept);
    assert_true(all.tensor[3].kept);
    net_close(&job, "narrow", net_step_grads(&job), want, 0.02);
}

/* COMPACT rotates all that it codes but the inputs of activations. */
static void rotated(NO_ROW)
{
    const clprune_net_keep keep = {.preset = CLPRUNE_NET_COMPACT, .keep = ROTATED};
    net_job job = net_open(test_context(), &net_models[0], BATCH, &keep);
    const tensors all = check_books(&job);
    size_t turned = 0, hidden = 0;
    for (size_t i = 0; i < all.count; i++) {
        const clprune_net_tensor *t = &all.tensor[i];
        if (!t->kept || t->keep.form != CLPRUNE_FORM_QUANTISED)
            continue;
        const bool is_hidden = fnmatch("*.fc1", t->name, 0) == 0;
        assert_int_equal(t->keep.rotate, !is_hidden);
        hidden += is_hidden;
        turned += !is_hidden;
    }
    assert_true(turned > 0 && hidden > 0);
}

/* ---- unbiased -------------------------------------------------------------------------------- */

static double distance(size_t count, const double *sum, double n, const float *want)
{
    double square = 0;
    for (size_t i = 0; i < count; i++)
        square += pow(sum[i] / n - (double)want[i], 2);
    return sqrt(square);
}

/* Codes of 4 bits with stochastic rounding: the mean of 64 gradients is 8 times as close to the
 * dense one as a single gradient. */
static void unbiased(void **state)
{
    enum { SEEDS = 64 };
    const clprune_net_keep keep = {
        .preset = CLPRUNE_NET_COMPACT, .keep = {.bits = 4, .rotate = *(const bool *)*state}};
    net_job dense = net_open(test_context(), &net_products, BATCH, NULL);
    const float *want = net_step_grads(&dense);
    test_end(dense.net);
    net_job job = net_open(test_context(), &net_products, BATCH, &keep);
    const tensors all = check_books(&job);
    size_t coded = 0;
    for (size_t i = 0; i < all.count; i++)
        coded += all.tensor[i].kept && all.tensor[i].keep.form == CLPRUNE_FORM_QUANTISED;
    assert_true(coded >= 3);
    double *sum = test_doubles(job.elements), single = 0;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        const size_t mark = test_mark();
        double *one = test_doubles(job.elements);
        job.seed = seed;
        const float *grads = net_step_grads(&job);
        for (size_t i = 0; i < job.elements; i++) {
            one[i] = (double)grads[i];
            sum[i] += one[i];
        }
        single += distance(job.elements, one, 1, want) / SEEDS;
        test_release(mark);
    }
    const double ratio = distance(job.elements, sum, SEEDS, want) / single;
    if (!(ratio > 0.1 && ratio < 0.16))
        fail_msg("the error of the mean of 64 is %.3g times that of one, expected 1/8", ratio);
}

/* ---- plans ----------------------------------------------------------------------------------- */

/* Steps of a whole and of a smaller batch. */
static void plan_steps(net_job *job, float **whole, float **part)
{
    net_step(job, BATCH);
    *whole = net_grads(job);
    TEST_OK(clprune_plan_end_step(job->context));
    net_step(job, 2);
    *part = net_grads(job);
    TEST_OK(clprune_plan_end_step(job->context));
}

typedef struct plan_row {
    const char *name;
    const net_model *model;
    clprune_net_preset preset;
    clprune_value_type store;
    bool rotate;
} plan_row;

static const plan_row plan_rows[] = {{"resmlp, exact", &net_models[0], CLPRUNE_NET_EXACT},
    {"resmlp, least", &net_models[0], CLPRUNE_NET_LEAST},
    {"resnet, compact", &net_models[1], CLPRUNE_NET_COMPACT},
    {"vgg, least", &net_models[2], CLPRUNE_NET_LEAST},
    {"mlp, inputs", &net_models[3], CLPRUNE_NET_INPUTS},
    {"unet, dense", &net_models[4], CLPRUNE_NET_DENSE},
    {"tied head, dense", &net_token_models[NET_TIED], CLPRUNE_NET_DENSE},
    {"head, exact", &net_token_models[NET_HEAD], CLPRUNE_NET_EXACT},
    {"logits, compact", &net_token_models[NET_LOGITS], CLPRUNE_NET_COMPACT},
    {"vit, least", &net_token_models[NET_VIT], CLPRUNE_NET_LEAST},
    {"llama, least", &net_token_models[NET_LLAMA], CLPRUNE_NET_LEAST},
    {"resmlp, compact, rotated", &net_models[0], CLPRUNE_NET_COMPACT, .rotate = true},
    {"vit, least, rotated", &net_token_models[NET_VIT], CLPRUNE_NET_LEAST, .rotate = true},
    {"resnet, dense in bf16", &net_models[1], CLPRUNE_NET_DENSE, CLPRUNE_VALUES_BF16},
    {"vit, exact in bf16", &net_token_models[NET_VIT], CLPRUNE_NET_EXACT, CLPRUNE_VALUES_BF16}};

/* A planned step has the bits of one without a plan, and the plan's bytes. */
static void planned(void **state)
{
    const plan_row *row = *state;
    const net_model *model = row->model;
    clprune_net_keep keep = {.preset = row->preset, .keep = CODES, .store = row->store};
    keep.keep.rotate = row->rotate;
    float *whole, *part, *planned_whole, *planned_part;
    net_job job = net_open(test_context(), model, BATCH, &keep);
    plan_steps(&job, &whole, &part);

    clprune_context *dry = open_dry();
    TEST_OK(clprune_plan_begin(dry));
    net_job imagined = net_open(dry, model, BATCH, &keep);
    plan_steps(&imagined, &planned_whole, &planned_part);
    const clprune_plan *plan = test_new_plan(dry);
    uint64_t activations = 0;
    const entries all = entries_of(plan);
    for (size_t i = 0; i < all.count; i++)
        if (all.entry[i].category == CLPRUNE_MEMORY_ACTIVATIONS)
            activations += all.entry[i].bytes;
    check_places(plan);

    clprune_context *real = open_real();
    TEST_OK(clprune_context_use_plan(real, plan));
    net_job again = net_open(real, model, BATCH, &keep);
    assert_int_equal(test_live(real, CLPRUNE_MEMORY_ACTIVATIONS), activations);
    assert_int_equal(test_live(job.context, CLPRUNE_MEMORY_ACTIVATIONS), activations);
    for (int i = 0; i < 2; i++) {
        plan_steps(&again, &planned_whole, &planned_part);
        test_same_floats("gradients", 1, job.elements, planned_whole, whole, "planned");
        test_same_floats("gradients", 1, job.elements, planned_part, part, "planned, 2 samples");
    }
}

int main(void)
{
    test_list list = {0};
    TEST_ADD_EACH(&list, presets, net_models, "what %s keeps");
    TEST_ADD_EACH(&list, in_bf16, net_models, "%s in bf16");
    test_add(&list, same_bits_in_bf16, NULL, "the same bits in bf16");
    TEST_ADD_EACH(&list, rules, rule_rows, "rules: %s");
    test_add(&list, small_products, NULL, "small products run again");
    static const bool either[] = {false, true};
    test_add(&list, rotated, NULL, "what is rotated");
    test_add(&list, unbiased, &either[0], "unbiased gradients");
    test_add(&list, unbiased, &either[1], "unbiased gradients, rotated");
    TEST_ADD_EACH(&list, planned, plan_rows, "a plan of %s");
    return test_run_on_devices("net_keep", &list);
}
