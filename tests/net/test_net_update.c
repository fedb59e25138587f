/* Gradients that are dropped as soon as an optimizer has read them: the same parameters, to the
 * bit, as with gradients that are kept, also where parameters are tied or frozen; and less memory
 * in a plan. Forgotten buffers are full of NaN. */
#include "clprune/plan.h"
#include "net/net_models.h"

enum { BATCH = 5, STEPS = 3 };

static const float rate = 0.01f;

typedef struct update_row {
    const net_model *model;
    clprune_net_keep keep;
    unsigned state_bits;
    const char *name;
} update_row;

/* A weight that is tied to an earlier layer's, beside a frozen layer; or with that one frozen. */
static void build_tied(clprune_net *net, const net_model *model)
{
    clprune_net_value v = clprune_net_rows(net, model->rows, model->cols);
    v = clprune_net_gelu(net, "act1", clprune_net_linear(net, "a", v, 70));
    v = clprune_net_gelu(net, "act2", clprune_net_linear(net, "b", v, 70));
    v = clprune_net_layer_norm(net, "norm", v);
    v = clprune_net_gelu(net, "act3", clprune_net_linear(net, "c", v, 70));
    clprune_net_tie(net, "c.weight", "b.weight");
    clprune_net_freeze(net, model->seed == 0 ? "norm.*" : "b.*");
    clprune_net_cross_entropy(net, clprune_net_linear(net, "head", v, NET_CLASSES));
}

static const net_model tied = {.name = "tied", .build = build_tied, .rows = 1, .cols = 20};
static const net_model tied_frozen = {
    .name = "tied, frozen", .build = build_tied, .rows = 1, .cols = 20, .seed = 1};

/* The head of a large vocabulary, which shares its weight and gradient with the embedding; or the
 * embedding's with the head's, for another seed. */
static void build_tokens(clprune_net *net, const net_model *model)
{
    clprune_net_value v = clprune_net_tokens(net, model->rows);
    v = clprune_net_embedding(net, "wte", v, NET_VOCABULARY, 24);
    v = clprune_net_gelu(net, "act1", clprune_net_linear(net, "a", v, 70));
    v = clprune_net_gelu(net, "act2", clprune_net_linear(net, "b", v, 70));
    v = clprune_net_layer_norm(net, "norm", clprune_net_linear(net, "c", v, 24));
    clprune_net_token_loss(net, "head", v, NET_VOCABULARY);
    if (model->seed == 0)
        clprune_net_tie(net, "head.weight", "wte.weight");
    else if (model->seed == 1)
        clprune_net_tie(net, "wte.weight", "head.weight");
}

static const net_model tokens[] = {
    {"tied head", build_tokens, 9, 0, 9, 0, false, false, 0},
    {"tied embedding", build_tokens, 9, 0, 9, 0, false, false, 1},
    {"head", build_tokens, 9, 0, 9, 0, false, false, 2},
};

/* A weight that is tied to a later one. */
static void build_tied_back(clprune_net *net, const net_model *model)
{
    clprune_net_value v = clprune_net_rows(net, model->rows, model->cols);
    v = clprune_net_gelu(net, "act1", clprune_net_linear(net, "a", v, 70));
    v = clprune_net_gelu(net, "act2", clprune_net_linear(net, "b", v, 70));
    v = clprune_net_gelu(net, "act3", clprune_net_linear(net, "c", v, 70));
    clprune_net_tie(net, "b.weight", "c.weight");
    clprune_net_cross_entropy(net, clprune_net_linear(net, "head", v, NET_CLASSES));
}

static const net_model tied_back = {
    .name = "tied back", .build = build_tied_back, .rows = 1, .cols = 20};

static const update_row rows[] = {
    {&tokens[0], {.preset = CLPRUNE_NET_DENSE}, 32, "tied head, dense"},
    {&tokens[0], {.preset = CLPRUNE_NET_EXACT}, 8, "tied head, exact"},
    {&tokens[1], {.preset = CLPRUNE_NET_DENSE}, 32, "tied embedding, dense"},
    {&tokens[2], {.preset = CLPRUNE_NET_DENSE}, 32, "head, dense"},
    {&tied_back, {.preset = CLPRUNE_NET_DENSE}, 32, "tied back, dense"},
    {&net_models[0], {.preset = CLPRUNE_NET_DENSE}, 32, "resmlp, dense"},
    {&net_models[0],
        {.preset = CLPRUNE_NET_COMPACT, .keep = {.form = CLPRUNE_FORM_QUANTISED, .bits = 4}}, 8,
        "resmlp, compact"},
    {&net_models[1], {.preset = CLPRUNE_NET_EXACT}, 32, "resnet, exact"},
    {&net_models[1],
        {.preset = CLPRUNE_NET_LEAST, .keep = {.form = CLPRUNE_FORM_QUANTISED, .bits = 8}}, 8,
        "resnet, least"},
    {&net_models[2], {.preset = CLPRUNE_NET_DENSE}, 32, "vgg, dense"},
    {&net_models[4], {.preset = CLPRUNE_NET_EXACT}, 32, "unet, exact"},
    {&net_wide_mlp,
        {.preset = CLPRUNE_NET_LEAST, .keep = {.form = CLPRUNE_FORM_QUANTISED, .bits = 8}}, 32,
        "wide mlp, least"},
    {&tied, {.preset = CLPRUNE_NET_DENSE}, 32, "tied, dense"},
    {&tied, {.preset = CLPRUNE_NET_EXACT}, 8, "tied, exact"},
    {&tied_frozen, {.preset = CLPRUNE_NET_DENSE}, 32, "tied to a frozen one, dense"},
};

typedef struct updates {
    clprune_optimizer *optimizer;
    size_t calls;
    clprune_status status; /* returned in place of an update */
} updates;

static clprune_status update(void *user, clprune_mat grads)
{
    updates *u = user;
    u->calls++;
    return u->status != CLPRUNE_SUCCESS
               ? u->status
               : clprune_optimizer_update(u->optimizer, grads.buffer, rate, NULL);
}

static clprune_optimizer_desc desc_of(const update_row *row)
{
    return (clprune_optimizer_desc){.kind = CLPRUNE_OPTIMIZER_ADAMW,
        .beta1 = 0.9f,
        .beta2 = 0.999f,
        .eps = 1e-8f,
        .weight_decay = 0.1f,
        .state_bits = row->state_bits};
}

static net_job open_row(const update_row *row, clprune_context *context, bool drops)
{
    return net_open_desc(
        context, row->model, &(clprune_net_desc){.batch = BATCH, .drops_grads = drops}, &row->keep);
}

static float *values_of(const net_job *job, size_t param)
{
    const clprune_mat value = job->params[param].value;
    float *values = test_floats(value.rows * value.cols);
    TEST_OK(clprune_mat_read(job->context, value, values));
    return values;
}

/* What a backward pass needs. */
static void forward(net_job *job)
{
    TEST_OK(clprune_net_forward(job->net, &job->data, true));
    TEST_OK(clprune_net_loss(job->net, &job->data, job->loss, CLPRUNE_NO_MAT));
}

static void same_bits(void **state)
{
    const update_row *row = *state;
    net_job kept = open_row(row, test_context(), false),
            dropped = open_row(row, test_context(), true);
    clprune_optimizer *whole =
        test_new_optimizer(test_context(), desc_of(row), kept.count, kept.params);
    updates u = {test_new_optimizer(test_context(), desc_of(row), dropped.count, dropped.params),
        .calls = 0};
    clprune_net_on_grads(dropped.net, update, &u);
    for (uint64_t t = 0; t < STEPS; t++) {
        net_step(&kept, BATCH);
        TEST_OK(clprune_optimizer_step(whole, rate, NULL));
        net_step(&dropped, BATCH);
        clprune_optimizer_set_steps(u.optimizer, t + 1);
    }
    assert_true(u.calls > STEPS);
    assert_int_equal(kept.count, dropped.count);
    for (size_t i = 0; i < kept.count; i++) {
        const clprune_mat value = kept.params[i].value;
        test_same_floats(kept.params[i].name, value.rows, value.cols, values_of(&dropped, i),
            values_of(&kept, i), "%s", row->name);
    }
    forward(&dropped);
    u.status = CLPRUNE_INVALID_BSR;
    assert_int_equal(clprune_net_backward(dropped.net, &dropped.data), u.status);
    test_end(u.optimizer);
    test_end(whole);
    test_end(dropped.net);
    test_end(kept.net);
}

/* A copy of a part of the gradients when it was told of. */
typedef struct parts {
    const net_job *job;
    float *values; /* of the buffer of all gradients */
    size_t *told;  /* how often, by element */
    clprune_mat order[256];
    size_t count, visited;
    size_t elements;
} parts;

static clprune_status take_part(void *user, clprune_mat grads)
{
    parts *p = user;
    assert_ptr_equal(grads.buffer, p->job->params[0].grad.buffer);
    assert_int_equal(grads.rows, 1);
    assert_true(grads.offset + grads.cols <= p->elements);
    for (size_t i = 0; i < grads.cols; i++)
        p->told[grads.offset + i]++;
    assert_true(p->count < COUNT_OF(p->order));
    p->order[p->count++] = grads;
    return clprune_mat_read(p->job->context, grads, p->values + grads.offset);
}

static clprune_status same_part(void *user, clprune_mat part)
{
    parts *p = user;
    assert_true(p->visited < p->count);
    const clprune_mat told = p->order[p->visited++];
    assert_int_equal(part.offset, told.offset);
    assert_int_equal(part.cols, told.cols);
    return CLPRUNE_SUCCESS;
}

static clprune_status no_part(void *user, clprune_mat part)
{
    (void)user, (void)part;
    return CLPRUNE_INVALID_BSR;
}

/* Gradients that stay: what is told of them during the pass is what they are after it, each once.
 */
static void told_of(void **state)
{
    const update_row *row = *state;
    net_job want = open_row(row, test_context(), false), job = open_row(row, test_context(), false);
    parts p = {.job = &job};
    size_t told = 0, listed = 0;
    for (size_t i = 0; i < job.count; i++) {
        const clprune_mat grad = job.params[i].grad;
        const size_t end = grad.offset + grad.rows * grad.cols;
        p.elements = end > p.elements ? end : p.elements;
    }
    p.values = test_floats(p.elements);
    p.told = test_alloc(p.elements * sizeof *p.told);
    net_step(&want, BATCH);
    clprune_net_on_grads(job.net, take_part, &p);
    net_step(&job, BATCH);
    TEST_OK(clprune_net_visit_grads(job.net, same_part, &p));
    assert_int_equal(p.visited, p.count);
    assert_int_equal(clprune_net_visit_grads(job.net, no_part, NULL), CLPRUNE_INVALID_BSR);
    for (size_t i = 0; i < job.count; i++) {
        const clprune_mat grad = job.params[i].grad;
        float *values = test_floats(grad.rows * grad.cols);
        TEST_OK(clprune_mat_read(want.context, want.params[i].grad, values));
        test_same_floats(job.params[i].name, grad.rows, grad.cols, p.values + grad.offset, values,
            "%s", row->name);
        for (size_t k = 0; k < grad.rows * grad.cols; k++)
            assert_int_equal(p.told[grad.offset + k], 1);
        listed += grad.rows * grad.cols;
    }
    for (size_t i = 0; i < p.count; i++)
        told += p.order[i].cols;
    if (row->model != &tied)            /* its frozen norm is told of */
        assert_int_equal(told, listed); /* nothing else: no terms of tied parameters */
    test_end(job.net);
    test_end(want.net);
}

/* The bytes of a plan for a step. */
static uint64_t planned(const update_row *row, bool drops)
{
    clprune_context *dry;
    clprune_plan *plan;
    const size_t mark = test_mark();
    TEST_OK(clprune_context_create_dry(NULL, NULL, &dry));
    TEST_OK(clprune_plan_begin(dry));
    net_job job = open_row(row, dry, drops);
    net_step(&job, BATCH);
    TEST_OK(clprune_plan_end_step(dry));
    TEST_OK(clprune_plan_create(dry, &plan));
    const clprune_plan_totals totals = clprune_plan_sizes(plan);
    test_release(mark);
    clprune_plan_destroy(plan);
    clprune_context_destroy(dry);
    return totals.arena_bytes + totals.other_bytes;
}

static void less_memory(void **state)
{
    const update_row *row = *state;
    const uint64_t kept = planned(row, false), dropped = planned(row, true);
    if (!(dropped < kept))
        fail_msg("%s: %llu bytes with dropped gradients, %llu without", row->name,
            (unsigned long long)dropped, (unsigned long long)kept);
}

static void refused(NO_ROW)
{
    clprune_net *net = NULL;
    const clprune_net_desc both = {.batch = 1, .adds = true, .drops_grads = true};
    TEST_FAILS(clprune_net_create(test_context(), &both, &net), CLPRUNE_INVALID_ARGUMENT,
        "adds and drops_grads");
    assert_null(net);
    const update_row *row = &rows[0];
    net_job dropping = open_row(row, test_context(), true);
    TEST_FAILS(clprune_net_visit_grads(dropping.net, no_part, NULL), CLPRUNE_INVALID_ARGUMENT,
        "drops_grads or adds");
    TEST_FAILS(clprune_net_visit_grads(dropping.net, NULL, NULL), CLPRUNE_INVALID_ARGUMENT, "NULL");
    test_end(dropping.net);
    net_job job = open_row(row, test_context(), false);
    clprune_optimizer *adamw =
        test_new_optimizer(test_context(), desc_of(row), job.count, job.params);
    TEST_FAILS(clprune_optimizer_update(adamw, job.loss.buffer, rate, NULL),
        CLPRUNE_INVALID_ARGUMENT, "no gradient");
    clprune_optimizer_desc lamb = desc_of(row);
    lamb.kind = CLPRUNE_OPTIMIZER_LAMB;
    clprune_optimizer *whole = test_new_optimizer(test_context(), lamb, job.count, job.params);
    TEST_FAILS(clprune_optimizer_update(whole, job.params[0].grad.buffer, rate, NULL),
        CLPRUNE_INVALID_ARGUMENT, "lamb");
    TEST_FAILS(clprune_optimizer_update(adamw, job.params[0].grad.buffer, -1, NULL),
        CLPRUNE_INVALID_ARGUMENT, "lr is -1");
    test_end(whole);
    test_end(adamw);
    test_end(job.net);
}

int main(void)
{
    test_list list = {0};
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        test_add(&list, same_bits, &rows[i], "same bits: %s", rows[i].name);
        test_add(&list, less_memory, &rows[i], "less memory: %s", rows[i].name);
        test_add(&list, told_of, &rows[i], "told of: %s", rows[i].name);
    }
    test_add(&list, refused, NULL, "refused");
    return test_run_on_each_device("net_update", &list);
}
