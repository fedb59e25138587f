/* Parameters and states in memory of the caller (clprune_net_use_value): the bits of a net with its
 * own, and no memory beside it. */
#include "clprune/wrap.h"
#include "net/net_models.h"

enum { BATCH = 4, STEPS = 3, MOST = 96, TABLES = 512 /* bytes of rotary positions */ };

/* Wrapped memory; a third of it is not aligned, so that it is staged. */
typedef struct lent {
    const char *name;
    clprune_mat mat, own; /* own: of the other net */
    float *host;
} lent;

typedef struct loan {
    lent all[MOST];
    size_t count;
} loan;

static float *values_of(clprune_mat mat)
{
    float *values = test_floats(mat.rows * mat.cols);
    TEST_OK(clprune_mat_read(test_context(), mat, values));
    return values;
}

/* early: before the net is settled, as a row. */
static void lend(loan *loans, clprune_net *net, const char *name, clprune_mat own, bool early)
{
    assert_true(loans->count < MOST);
    lent *l = &loans->all[loans->count++];
    const size_t count = own.rows * own.cols;
    const uintptr_t at = (uintptr_t)test_floats(count + 33) + CLPRUNE_WRAP_ALIGN;
    *l = (lent){.name = name, .own = own};
    l->host = (float *)(at / CLPRUNE_WRAP_ALIGN * CLPRUNE_WRAP_ALIGN);
    l->host += loans->count % 3 == 0;
    memcpy(l->host, values_of(own), count * sizeof(float));
    const size_t rows = early ? 1 : own.rows, cols = count / rows;
    TEST_OK(clprune_mat_wrap(
        test_context(), l->host, rows, cols, cols, CLPRUNE_ACCESS_READ_WRITE, &l->mat));
    TEST_OK(clprune_net_use_value(net, name, l->mat));
}

static bool is_lent(const loan *loans, clprune_mat own)
{
    for (size_t i = 0; i < loans->count; i++)
        if (loans->all[i].own.buffer == own.buffer && loans->all[i].own.offset == own.offset)
            return true;
    return false;
}

static void lend_all(loan *loans, clprune_net *net, const clprune_net *other)
{
    clprune_net_weight weight, value;
    size_t count;
    for (size_t i = 0; clprune_net_weight_at(other, i, &weight); i++) {
        if (!is_lent(loans, weight.value))
            lend(loans, net, weight.name, weight.value, false);
        assert_true(clprune_net_weight_at(net, i, &value)); /* of tied ones, too */
        bool found = false;
        for (size_t k = 0; k < loans->count; k++)
            found |= value.value.buffer == loans->all[k].mat.buffer;
        assert_true(found);
    }
    const clprune_net_state *states = clprune_net_states(other, &count);
    for (size_t i = 0; i < count; i++)
        lend(loans, net, states[i].name, states[i].mat, false);
}

/* The same before the net is settled, which then takes no memory for parameters. */
static net_job open_lent(loan *loans, const net_job *own, const clprune_net_keep *keep)
{
    net_job job = *own;
    clprune_net_weight weight;
    size_t count;
    const uint64_t before = test_live(test_context(), CLPRUNE_MEMORY_PARAMETERS);
    TEST_OK(clprune_net_create(test_context(), &(clprune_net_desc){.batch = BATCH}, &job.net));
    for (size_t i = 0; clprune_net_weight_at(own->net, i, &weight); i++)
        if (!is_lent(loans, weight.value))
            lend(loans, job.net, weight.name, weight.value, true);
    const clprune_net_state *states = clprune_net_states(own->net, &count);
    for (size_t i = 0; i < count; i++)
        lend(loans, job.net, states[i].name, states[i].mat, true);
    own->model->build(job.net, own->model);
    TEST_OK(clprune_net_settle(job.net, keep));
    assert_in_range(test_live(test_context(), CLPRUNE_MEMORY_PARAMETERS), before, before + TABLES);
    for (size_t i = 0; clprune_net_weight_at(job.net, i, &weight); i++) {
        clprune_net_weight other;
        assert_true(clprune_net_weight_at(own->net, i, &other));
        assert_int_equal(weight.value.rows, other.value.rows);
        assert_int_equal(weight.value.cols, other.value.cols);
    }
    job.params = clprune_net_params(job.net, &job.count);
    return job;
}

static void same_as_own(const loan *loans)
{
    const size_t mark = test_mark();
    for (size_t i = 0; i < loans->count; i++) {
        const lent *l = &loans->all[i];
        test_same_floats(
            l->name, l->own.rows, l->own.cols, l->host, values_of(l->own), "memory of the caller");
    }
    test_release(mark);
}

typedef struct same_row {
    const net_model *model;
    bool early;
} same_row;

static void same_bits(void **state)
{
    const same_row *row = *state;
    const net_model *model = row->model;
    const clprune_net_keep keep = {.preset = CLPRUNE_NET_EXACT};
    static loan all;
    net_job own = net_open(test_context(), model, BATCH, &keep);
    const uint64_t before = test_live(test_context(), CLPRUNE_MEMORY_PARAMETERS);
    all.count = 0;
    net_step(&own, BATCH); /* moves the running statistics */
    net_job job =
        row->early ? open_lent(&all, &own, &keep) : net_open(test_context(), model, BATCH, &keep);
    if (!row->early) {
        net_step(&job, BATCH);
        lend_all(&all, job.net, own.net);
    }
    assert_in_range(test_live(test_context(), CLPRUNE_MEMORY_PARAMETERS), before, before + TABLES);
    const clprune_optimizer_desc sgd = {.kind = CLPRUNE_OPTIMIZER_SGD, .momentum = 0.9f};
    clprune_optimizer *theirs = test_new_optimizer(test_context(), sgd, own.count, own.params),
                      *ours = test_new_optimizer(test_context(), sgd, job.count, job.params);
    for (int t = 0; t < STEPS; t++) {
        net_step(&own, BATCH);
        TEST_OK(clprune_optimizer_step(theirs, 0.05f, NULL));
        net_step(&job, BATCH);
        TEST_OK(clprune_optimizer_step(ours, 0.05f, NULL));
        for (size_t i = 0; i < all.count; i++)
            TEST_OK(clprune_mat_sync_to_host(test_context(), all.all[i].mat));
        same_as_own(&all);
        for (size_t i = 0; i < all.count; i++)
            TEST_OK(clprune_mat_sync_to_device(test_context(), all.all[i].mat));
    }
    test_end(ours);
    if (row->early)
        clprune_net_destroy(job.net);
    else
        test_end(job.net);
    for (size_t i = 0; i < all.count; i++)
        TEST_OK(clprune_mat_unwrap(test_context(), &all.all[i].mat));
    same_as_own(&all);
    test_end(theirs);
    test_end(own.net);
}

/* A pass that began is over; a value that was never written is still noticed. */
static void passes(NO_ROW)
{
    net_job job = net_open(test_context(), &net_models[1], BATCH, NULL);
    clprune_net_weight first;
    TEST_OK(clprune_net_forward(job.net, &job.data, true));
    assert_true(clprune_net_weight_at(job.net, 0, &first));
    clprune_mat mat = test_new_mat(test_context(), first.value.rows, first.value.cols);
    TEST_OK(clprune_mat_copy(test_context(), first.value, mat, NULL));
    TEST_OK(clprune_net_use_value(job.net, first.name, mat));
    TEST_FAILS(clprune_net_loss(job.net, &job.data, job.loss, CLPRUNE_NO_MAT),
        CLPRUNE_INVALID_ARGUMENT, "clprune_net_forward");
    net_step(&job, BATCH);
    test_end(job.net);
    TEST_OK(clprune_mat_fill(test_context(), 0, mat, NULL)); /* it is the caller's still */
}

static void refused(NO_ROW)
{
    const clprune_status bad = CLPRUNE_INVALID_ARGUMENT;
    net_job job = net_open(test_context(), &net_models[1], BATCH, NULL);
    size_t count;
    clprune_net_weight w;
    assert_true(clprune_net_weight_at(job.net, 0, &w));
    const clprune_mat large = test_new_mat(test_context(), 1 + w.value.rows, w.value.cols);
    const clprune_mat mat = clprune_mat_rows(large, 0, w.value.rows);
    TEST_FAILS_IN(NULL, clprune_net_use_value(NULL, w.name, mat), bad, "NULL");
    TEST_FAILS(clprune_net_use_value(job.net, NULL, mat), bad, "NULL");
    TEST_FAILS(clprune_net_use_value(job.net, "none", mat), bad, "no parameter or state none");
    TEST_FAILS(clprune_net_use_value(job.net, w.name, large), CLPRUNE_INVALID_SIZE, w.name);
    TEST_FAILS(
        clprune_net_use_value(job.net, w.name, CLPRUNE_NO_MAT), CLPRUNE_INVALID_SIZE, w.name);
    const clprune_net_state state = clprune_net_states(job.net, &count)[0];
    TEST_FAILS(clprune_net_use_value(job.net, state.name, mat), CLPRUNE_INVALID_SIZE, state.name);
    const clprune_mat row = {large.buffer, 0, 1, state.mat.cols, state.mat.cols, state.mat.type};
    TEST_OK(clprune_net_use_value(job.net, w.name, mat));
    TEST_FAILS(clprune_net_use_value(job.net, state.name, row), bad, "overlap");
    TEST_OK(clprune_net_use_value(job.net, w.name, mat)); /* again */
    clprune_net *sharer;
    const clprune_net_desc of = {.batch = 1, .weights_of = job.net};
    TEST_OK(clprune_net_create(test_context(), &of, &sharer));
    TEST_FAILS(clprune_net_use_value(sharer, w.name, mat), bad, "weights_of");
    TEST_FAILS(clprune_net_use_value(job.net, w.name, mat), bad, "weights_of");
    clprune_net_destroy(sharer);
}

/* What is wrong shows when the net is settled. */
static void refused_early(NO_ROW)
{
    static const struct {
        const char *name, *second, *text;
        size_t cols;
        clprune_status status;
    } rows[] = {
        {"none", NULL, "no parameter or state none", 4, CLPRUNE_INVALID_ARGUMENT},
        {"head.bias", NULL, "head.bias", 3, CLPRUNE_INVALID_SIZE},
        {"head.bias", "norm.alpha", "overlap", 4, CLPRUNE_INVALID_ARGUMENT},
        {"head.weight", NULL, "stored", 16, CLPRUNE_INVALID_ARGUMENT},
    };
    const clprune_mat mat = test_new_mat(test_context(), 1, 16);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        clprune_net *net;
        TEST_OK(clprune_net_create(test_context(), &(clprune_net_desc){.batch = 1}, &net));
        const clprune_mat part = clprune_mat_of(mat.buffer, 1, rows[i].cols);
        TEST_OK(clprune_net_use_value(net, rows[i].name, part));
        if (rows[i].second != NULL)
            TEST_OK(clprune_net_use_value(net, rows[i].second, part));
        const clprune_net_value v = clprune_net_affine(net, "norm", clprune_net_rows(net, 2, 4));
        clprune_net_mean_squared_error(net, clprune_net_linear(net, "head", v, 4));
        if (strcmp(rows[i].text, "stored") == 0) {
            clprune_net_freeze(net, "head.*");
            clprune_net_store_frozen(net, "head.weight", CLPRUNE_VALUES_CODES8);
        }
        TEST_FAILS(clprune_net_settle(net, NULL), rows[i].status, rows[i].text);
        TEST_FAILS(
            clprune_net_use_value(net, "head.bias", part), CLPRUNE_INVALID_ARGUMENT, "not settled");
        clprune_net_destroy(net);
    }
}

/* Of matrices for tied names the last one counts, as after the net is settled. */
static void tied_early(NO_ROW)
{
    for (int order = 0; order < 2; order++) {
        clprune_net *net;
        clprune_net_weight weight;
        clprune_mat mat = CLPRUNE_NO_MAT;
        TEST_OK(clprune_net_create(test_context(), &(clprune_net_desc){.batch = 1}, &net));
        for (int i = 0; i < 2; i++) {
            mat = test_new_mat(test_context(), 4, 4);
            TEST_OK(clprune_net_use_value(net, i == order ? "a.weight" : "b.weight", mat));
        }
        clprune_net_value v = clprune_net_linear(net, "a", clprune_net_rows(net, 2, 4), 4);
        v = clprune_net_linear(net, "b", v, 4);
        clprune_net_tie(net, "b.weight", "a.weight");
        clprune_net_mean_squared_error(net, v);
        TEST_OK(clprune_net_settle(net, NULL));
        for (size_t i = 0; clprune_net_weight_at(net, i, &weight); i++)
            assert_int_equal(
                weight.value.buffer == mat.buffer, strstr(weight.name, ".weight") != NULL);
        clprune_net_destroy(net);
    }
}

int main(void)
{
    static same_row rows[2 * (NET_MODELS + NET_TOKEN_MODELS)];
    test_list list = {0};
    for (size_t i = 0; i < 2 * (NET_MODELS + NET_TOKEN_MODELS); i++) {
        const size_t k = i / 2;
        rows[i] = (same_row){
            k < NET_MODELS ? &net_models[k] : &net_token_models[k - NET_MODELS], i % 2 == 1};
        test_add(&list, same_bits, &rows[i], "same bits: %s%s", rows[i].model->name,
            rows[i].early ? ", before it is settled" : "");
    }
    test_add(&list, refused_early, NULL, "refused before it is settled");
    test_add(&list, tied_early, NULL, "tied names before it is settled");
    test_add(&list, passes, NULL, "passes");
    test_add(&list, refused, NULL, "refused");
    return test_run_on_each_device("net_lent", &list);
}
