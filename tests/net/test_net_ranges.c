/* Labels and tokens out of range: the next read fails with number and value, whatever read it is;
 * loss and gradients are no numbers; a backward pass after that is refused, and the next step is as
 * any. Labels and tokens at the ends of their ranges, and ignored labels, are right. */
#include <limits.h>
#include <math.h>

#include "net/net_models.h"

enum { BATCH = 4 };

static void build_frozen(clprune_net *net, const net_model *model)
{
    net_token_models[NET_HEAD].build(net, model);
    clprune_net_freeze(net, "head.weight");
}

static void build_biased(clprune_net *net, const net_model *model)
{
    net_token_models[NET_HEAD].build(net, model);
    clprune_net_bias_logits(net);
    clprune_net_freeze(net, "head.weight");
}

static net_model frozen, biased;

typedef struct range_row {
    const char *name;
    const net_model *model;
    bool tokens; /* else labels */
    size_t rows; /* of all samples */
    int32_t limit;
} range_row;

enum { ALL = BATCH * NET_TOKENS };
static const range_row rows[] = {{"labels of images", &net_models[1], false, BATCH, NET_CLASSES},
    {"labels of logits", &net_token_models[NET_LOGITS], false, ALL, NET_VOCABULARY},
    {"labels of a token loss", &net_token_models[NET_HEAD], false, ALL, NET_VOCABULARY},
    {"labels of a tied token loss", &net_token_models[NET_TIED], false, ALL, NET_VOCABULARY},
    {"labels of a frozen head", &frozen, false, ALL, NET_VOCABULARY},
    {"labels of a frozen head with a bias", &biased, false, ALL, NET_VOCABULARY},
    {"tokens of logits", &net_token_models[NET_LOGITS], true, ALL, NET_VOCABULARY},
    {"tokens of a token loss", &net_token_models[NET_HEAD], true, ALL, NET_VOCABULARY},
    {"tokens of a tied token loss", &net_token_models[NET_TIED_BACK], true, ALL, NET_VOCABULARY}};

static clprune_ints ints_of(const range_row *row, const net_job *job)
{
    return row->tokens ? job->data.tokens : job->data.labels;
}

static void move(const range_row *row, const net_job *job, bool write, int32_t *values)
{
    const clprune_ints ints = ints_of(row, job);
    const size_t first = ints.offset * sizeof *values, bytes = row->rows * sizeof *values;
    const cl_command_queue queue = clprune_context_queue(job->context);
    if (write)
        TEST_CL(
            clEnqueueWriteBuffer(queue, ints.buffer, CL_TRUE, first, bytes, values, 0, NULL, NULL));
    else
        TEST_CL(
            clEnqueueReadBuffer(queue, ints.buffer, CL_TRUE, first, bytes, values, 0, NULL, NULL));
}

static bool has_nan(const float *values, size_t count)
{
    bool found = false;
    for (size_t i = 0; i < count; i++)
        found = found || isnan(values[i]);
    return found;
}

static void pass(net_job *job, bool training)
{
    clprune_net_set_seed(job->net, 3);
    TEST_OK(clprune_net_forward(job->net, &job->data, training));
    TEST_OK(clprune_net_loss(job->net, &job->data, job->loss, CLPRUNE_NO_MAT));
}

/* One value that is out of range, or two, of which the text has the first. */
static void wrong(
    const range_row *row, net_job *job, const int32_t *right, size_t at, int32_t value)
{
    char text[64];
    float losses[BATCH];
    int32_t *values = test_alloc(row->rows * sizeof *values);
    const clprune_status bad = CLPRUNE_INVALID_ARGUMENT;
    (void)snprintf(text, sizeof text, "data.%s[%zu] = %d, expected 0 to %d",
        row->tokens ? "tokens" : "labels", at, value, row->limit - 1);
    memcpy(values, right, row->rows * sizeof *values);
    values[at] = value;
    if (at < row->rows - 1)
        values[row->rows - 1] = row->limit;
    move(row, job, true, values);
    for (int training = 0; training < 2; training++) { /* the loss is read at once */
        pass(job, training == 1);
        losses[0] = 5;
        TEST_FAILS(clprune_mat_read(job->context, job->loss, losses), bad, text);
        assert_true(losses[0] == 5);
        TEST_FAILS(clprune_net_backward(job->net, &job->data), bad, "the net has no output");
        TEST_OK(clprune_mat_read(job->context, job->loss, losses));
        assert_true(has_nan(losses, BATCH));
    }
    pass(job, true); /* only what a step has made is */
    TEST_OK(clprune_net_backward(job->net, &job->data));
    float *first = test_floats(job->elements);
    TEST_FAILS(clprune_mat_read(job->context, job->params[0].value, first), bad, text);
    assert_true(has_nan(net_grads(job), job->elements));
}

static void range(void **state)
{
    static const int32_t others[] = {-1, -99, -101, INT_MIN, INT_MAX};
    const range_row *row = *state;
    net_job job = net_open(test_context(), row->model, BATCH, NULL);
    int32_t *right = test_alloc(row->rows * sizeof *right);
    move(row, &job, false, right);
    right[0] = 0;
    right[1] = row->limit - 1;
    if (!row->tokens)
        right[2] = CLPRUNE_IGNORED;
    move(row, &job, true, right);
    clprune_net_data data = job.data;
    *(row->tokens ? &data.tokens : &data.labels) = (clprune_ints){NULL, 0};
    clprune_status status = clprune_net_forward(job.net, &data, true);
    if (!row->tokens)
        status = clprune_net_loss(job.net, &data, job.loss, CLPRUNE_NO_MAT);
    assert_int_equal(status, CLPRUNE_INVALID_ARGUMENT);
    test_says(clprune_last_error(test_context()),
        row->tokens ? "data.tokens is NULL" : "data.labels is NULL");
    pass(&job, true);
    TEST_OK(clprune_net_backward(job.net, &job.data));
    const float *want = net_grads(&job);
    for (size_t i = 0; i < COUNT_OF(others) + 2; i++) {
        const size_t mark = test_mark();
        wrong(row, &job, right, i * (row->rows - 1) / (COUNT_OF(others) + 1),
            i < COUNT_OF(others)                    ? others[i]
            : i == COUNT_OF(others) || !row->tokens ? row->limit
                                                    : CLPRUNE_IGNORED);
        move(row, &job, true, right);
        pass(&job, true);
        TEST_OK(clprune_net_backward(job.net, &job.data));
        test_same_floats("gradients", 1, job.elements, net_grads(&job), want, row->name);
        test_release(mark);
    }
    move(row, &job, true, right); /* nothing is left of a net that is gone */
    right[0] = -1;
    move(row, &job, true, right);
    pass(&job, true);
    test_end(job.net);
    float *losses = test_floats(BATCH);
    TEST_OK(clprune_mat_read(job.context, job.loss, losses));
}

int main(void)
{
    test_list list = {0};
    frozen = net_token_models[NET_HEAD];
    frozen.build = build_frozen;
    biased = net_token_models[NET_HEAD];
    biased.build = build_biased;
    TEST_ADD_EACH(&list, range, rows, "%s");
    return test_run_on_each_device("net_ranges", &list);
}
