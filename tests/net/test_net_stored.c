/* Nets whose frozen weights are stored as bf16 or codes: losses and gradients are those of a net
 * whose frozen weights have the same values as floats, with each preset; bytes; files; what is
 * refused. */
#include "clprune/net_file.h"
#include "clprune/plan.h"
#include "net/net_models.h"
#include "support/test_folder.h"

enum { BATCH = 5, ROWS = 9, WIDTH = 48, RANK = 3 };

/* An adapted block between an embedding and a head, which may be tied, with a bias; `seed`: 0 not,
 * 1 tied, 2 in bf16, 3 in NF4; + 4: as floats. */
static void build(clprune_net *net, const net_model *model)
{
    static const char *const trained[] = {"*.lora_*"};
    static const clprune_net_linear_part parts[2] = {{"gate", 64}, {"up", 64}};
    clprune_net_value x = clprune_net_tokens(net, model->rows);
    x = clprune_net_embedding(net, "wte", x, NET_VOCABULARY, WIDTH);
    clprune_net_lora(net, "h.*", RANK, 6);
    clprune_net_part(net, "h");
    clprune_net_value t = clprune_net_rms_norm(net, "norm", x);
    t = clprune_net_linears(net, "gate_up", t, parts, 2, false);
    t = clprune_net_linear(net, "down", clprune_net_swiglu(net, "act", t), WIDTH);
    x = clprune_net_add(net, "add", x, t);
    clprune_net_part(net, NULL);
    clprune_net_lora(net, NULL, 0, 0);
    clprune_net_token_loss(net, "head", clprune_net_rms_norm(net, "end", x), NET_VOCABULARY);
    if (model->seed % 4 == 1) {
        clprune_net_tie(net, "head.weight", "wte.weight");
        clprune_net_bias_logits(net);
    }
    clprune_net_train_only(net, trained, 1);
    if (model->seed < 4)
        clprune_net_store_frozen(net, "*",
            model->seed == 2   ? CLPRUNE_VALUES_BF16
            : model->seed == 3 ? CLPRUNE_VALUES_NF4
                               : CLPRUNE_VALUES_CODES4);
}

#define MODEL(name, seed)                                                                          \
    {                                                                                              \
        name, build, ROWS, 0, ROWS, 0, false, false, seed                                          \
    }
static const net_model stored[] = {
    MODEL("codes", 0), MODEL("codes, tied", 1), MODEL("bf16", 2), MODEL("NF4", 3)};
static const net_model floats[] = {
    MODEL("floats", 4), MODEL("floats, tied", 5), MODEL("floats", 6), MODEL("floats", 7)};

static float *values_of(const net_job *job, const char *name)
{
    clprune_net_weight weight;
    assert_true(clprune_net_weight_of(job->net, name, &weight));
    float *values = test_floats(weight.value.rows * weight.value.cols);
    TEST_OK(clprune_mat_read(job->context, weight.value, values));
    return values;
}

/* All parameters of one net, as its passes read them, in another. */
static void copy_values(const net_job *from, const net_job *to)
{
    clprune_net_weight weight;
    for (size_t i = 0; clprune_net_weight_at(to->net, i, &weight); i++)
        TEST_OK(clprune_mat_write(to->context, weight.value, values_of(from, weight.name)));
}

typedef struct row {
    size_t model;
    clprune_net_preset preset;
    const char *name;
} row;

static const row rows[] = {{0, CLPRUNE_NET_DENSE, "codes, dense"},
    {0, CLPRUNE_NET_COMPACT, "codes, compact"}, {0, CLPRUNE_NET_LEAST, "codes, least"},
    {1, CLPRUNE_NET_EXACT, "codes, tied, exact"}, {2, CLPRUNE_NET_DENSE, "bf16, dense"},
    {3, CLPRUNE_NET_DENSE, "NF4, dense"}, {3, CLPRUNE_NET_COMPACT, "NF4, compact"}};

static void as_floats(void **state)
{
    const row *r = *state;
    net_job coded = net_open_preset(&stored[r->model], BATCH, r->preset, 8),
            plain = net_open_preset(&floats[r->model], BATCH, r->preset, 8);
    copy_values(&coded, &plain);
    const double got = net_loss(&coded, true), want = net_loss(&plain, true);
    const float *grads = net_step_grads(&coded), *others = net_step_grads(&plain);
    if (clprune_context_kernels(test_context()) == CLPRUNE_KERNELS_VECTOR) {
        assert_true(got == want);
        test_same_floats("gradients", 1, coded.elements, grads, others, "%s", r->name);
    }
    assert_true(fabs(got - want) <= 1e-5 * want);
    net_close(&coded, r->name, grads, others, 1e-4);
}

/* What a weight takes: a word for 8 codes, and one for 64 columns. */
static void bytes(NO_ROW)
{
    enum { CODES = (NET_VOCABULARY * 2 + 128) * (WIDTH / 8 + 1) + WIDTH * (64 / 8 + 1) };
    enum { FLOATS = (NET_VOCABULARY * 2 + 128) * WIDTH + WIDTH * 64 };
    const uint64_t empty = test_live(test_context(), CLPRUNE_MEMORY_PARAMETERS);
    net_job job = net_open(test_context(), &stored[0], BATCH, NULL);
    const uint64_t coded = test_live(test_context(), CLPRUNE_MEMORY_PARAMETERS) - empty;
    test_end(job.net);
    job = net_open(test_context(), &floats[0], BATCH, NULL);
    const uint64_t plain = test_live(test_context(), CLPRUNE_MEMORY_PARAMETERS) - empty;
    assert_int_equal(plain - coded, 4 * (FLOATS - CODES));
}

/* A saved net has the bits; one of floats is rounded as a write does. */
static void files(void **state)
{
    const size_t model = *(const size_t *)*state;
    net_job job = net_open(test_context(), &stored[model], BATCH, NULL),
            again = net_open(test_context(), &stored[model], BATCH, NULL),
            plain = net_open(test_context(), &floats[model], BATCH, NULL);
    static const char *const names[] = {"wte.weight", "h.gate_up.weight", "h.down.weight"};
    const char *path = test_text("%s/net.safetensors", test_folder());
    const float zero[NET_VOCABULARY * WIDTH] = {0};
    clprune_net_weight weight;
    assert_true(clprune_net_weight_of(again.net, names[0], &weight));
    TEST_OK(clprune_mat_write(again.context, weight.value, zero));
    TEST_OK(clprune_net_save(job.net, NULL, path));
    TEST_OK(clprune_net_load(again.net, NULL, path));
    const double want = net_loss(&job, false);
    assert_true(net_loss(&again, false) == want);
    TEST_FAILS(clprune_net_load(plain.net, NULL, path), CLPRUNE_INVALID_ARGUMENT, "no tensor");
    TEST_OK(clprune_net_save(plain.net, NULL, path));
    TEST_OK(clprune_net_load(job.net, NULL, path));
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        assert_true(clprune_net_weight_of(again.net, names[i], &weight));
        TEST_OK(clprune_mat_write(again.context, weight.value, values_of(&plain, names[i])));
        test_same_floats(names[i], weight.value.rows, weight.value.cols, values_of(&job, names[i]),
            values_of(&again, names[i]), "from floats");
    }
}

/* A net for inference reads the codes of another one. */
static void shared(NO_ROW)
{
    net_job job = net_open(test_context(), &stored[0], BATCH, NULL);
    const clprune_net_desc infers = {.batch = BATCH, .infers = true, .weights_of = job.net},
                           trains = {.batch = BATCH, .weights_of = job.net};
    net_job other = net_open_desc(test_context(), &floats[0], &infers, NULL);
    assert_true(net_loss(&other, false) == net_loss(&job, false));
    other = net_open_desc(test_context(), &floats[0], &trains, NULL);
    net_step(&other, BATCH);
}

static clprune_net *new_net(void)
{
    clprune_net *net;
    TEST_OK(clprune_net_create(test_context(), &(clprune_net_desc){.batch = 2}, &net));
    const clprune_net_value x = clprune_net_rows(net, 1, 20);
    clprune_net_mean_squared_error(
        net, clprune_net_linear(net, "b", clprune_net_linear(net, "a", x, 20), 20));
    return net;
}

/* What is frozen, then stored; `tie`: the other weight becomes the first. */
static void fails(
    const char *frozen, const char *pattern, clprune_value_type type, bool tie, const char *text)
{
    clprune_net *net = new_net();
    if (frozen != NULL)
        clprune_net_freeze(net, frozen);
    clprune_net_store_frozen(net, pattern, type);
    if (tie)
        clprune_net_tie(net, "b.weight", "a.weight");
    TEST_FAILS(clprune_net_settle(net, NULL), CLPRUNE_INVALID_ARGUMENT, text);
    clprune_net_destroy(net);
}

static void refused(NO_ROW)
{
    const clprune_value_type codes = CLPRUNE_VALUES_CODES8;
    fails(NULL, "a.*", codes, false, "no frozen weight");
    fails("a.*", NULL, codes, false, "(NULL)");
    fails("a.*", "a.bias", codes, false, "a.bias");
    fails("a.*", "a.*", CLPRUNE_VALUES_BF16, false, "no frozen weight"); /* 20 columns */
    fails("a.*", "a.*", CLPRUNE_VALUES_INT4, false, "type 4");
    fails("*", "a.*", codes, true, "before clprune_net_store_frozen");
    clprune_net_store_frozen(NULL, "*", codes);
    net_job job = net_open(test_context(), &stored[0], BATCH, NULL);
    const clprune_mat mat = test_new_mat(test_context(), WIDTH, 64);
    TEST_FAILS(clprune_net_use_value(job.net, "h.down.weight", mat), CLPRUNE_INVALID_ARGUMENT,
        "clprune_net_store_frozen");
}

/* A weight that nobody has written is noticed. */
static void unwritten(void **state)
{
    const net_model *model = &stored[*(const size_t *)*state];
    clprune_net *net;
    TEST_OK(clprune_net_create(test_context(), &(clprune_net_desc){.batch = BATCH}, &net));
    build(net, model);
    TEST_OK(clprune_net_settle(net, NULL));
    net_job job = net_open(test_context(), model, BATCH, NULL);
    clprune_net_weight weight, from;
    for (size_t i = 0; clprune_net_weight_at(net, i, &weight); i++) {
        if (strcmp(weight.name, "h.down.weight") == 0)
            continue;
        assert_true(clprune_net_weight_of(job.net, weight.name, &from));
        TEST_OK(clprune_mat_write(test_context(), weight.value, values_of(&job, weight.name)));
    }
    TEST_FAILS(clprune_net_forward(net, &job.data, false), CLPRUNE_INVALID_ARGUMENT,
        "h.down.weight has no values");
    clprune_net_destroy(net);
}

int main(void)
{
    test_list list = {0};
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        test_add(&list, as_floats, &rows[i], "as floats: %s", rows[i].name);
    test_add(&list, bytes, NULL, "bytes");
    static const size_t filed[] = {1, 3}, coded[] = {0, 3};
    for (size_t i = 0; i < COUNT_OF(filed); i++)
        test_add(&list, files, &filed[i], "files: %s", stored[filed[i]].name);
    test_add(&list, shared, NULL, "shared");
    test_add(&list, refused, NULL, "refused");
    for (size_t i = 0; i < COUNT_OF(coded); i++)
        test_add(&list, unwritten, &coded[i], "unwritten: %s", stored[coded[i]].name);
    return test_run_on_each_device("net_stored", &list);
}
