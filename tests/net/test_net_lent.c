/* Parameters and states in memory of the caller (clprune_net_use_value): the bits of a net with its
 * own, and no memory beside it. */
#include "clprune/wrap.h"
#include "net/net_models.h"

enum { BATCH = 4, STEPS = 3, MOST = 96 };

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

static void lend(loan *loans, clprune_net *net, const char *name, clprune_mat own)
{
    assert_true(loans->count < MOST);
    lent *l = &loans->all[loans->count++];
    const size_t count = own.rows * own.cols;
    const uintptr_t at = (uintptr_t)test_floats(count + 33) + CLPRUNE_WRAP_ALIGN;
    *l = (lent){.name = name, .own = own};
    l->host = (float *)(at / CLPRUNE_WRAP_ALIGN * CLPRUNE_WRAP_ALIGN);
    l->host += loans->count % 3 == 0;
    memcpy(l->host, values_of(own), count * sizeof(float));
    TEST_OK(clprune_mat_wrap(
        test_context(), l->host, own.rows, own.cols, own.cols, CLPRUNE_ACCESS_READ_WRITE, &l->mat));
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
            lend(loans, net, weight.name, weight.value);
        assert_true(clprune_net_weight_at(net, i, &value)); /* of tied ones, too */
        bool found = false;
        for (size_t k = 0; k < loans->count; k++)
            found |= value.value.buffer == loans->all[k].mat.buffer;
        assert_true(found);
    }
    const clprune_net_state *states = clprune_net_states(other, &count);
    for (size_t i = 0; i < count; i++)
        lend(loans, net, states[i].name, states[i].mat);
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

static void same_bits(void **state)
{
    const net_model *model = *state;
    const clprune_net_keep keep = {.preset = CLPRUNE_NET_EXACT};
    static loan all;
    net_job own = net_open(test_context(), model, BATCH, &keep);
    const uint64_t before = test_live(test_context(), CLPRUNE_MEMORY_PARAMETERS);
    net_job job = net_open(test_context(), model, BATCH, &keep);
    all.count = 0;
    net_step(&own, BATCH); /* moves the running statistics */
    net_step(&job, BATCH);
    lend_all(&all, job.net, own.net);
    assert_int_equal(test_live(test_context(), CLPRUNE_MEMORY_PARAMETERS), before);
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
    TEST_FAILS(clprune_net_use_value(sharer, w.name, mat), bad, "not settled");
    TEST_FAILS(clprune_net_use_value(job.net, w.name, mat), bad, "weights_of");
    clprune_net_destroy(sharer);
}

int main(void)
{
    test_list list = {0};
    for (size_t i = 0; i < NET_MODELS; i++)
        test_add(&list, same_bits, &net_models[i], "same bits: %s", net_models[i].name);
    for (size_t i = 0; i < NET_TOKEN_MODELS; i++)
        test_add(&list, same_bits, &net_token_models[i], "same bits: %s", net_token_models[i].name);
    test_add(&list, passes, NULL, "passes");
    test_add(&list, refused, NULL, "refused");
    return test_run_on_each_device("net_lent", &list);
}
