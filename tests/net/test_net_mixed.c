/* Rows with two labels, as mixup and CutMix need: loss and gradients are those of both labels, by
 * their shares; a share of 1 gives the bits of the label alone; slopes; what is refused. */
#include "net/net_models.h"

static void assert_near(double got, double want, double bound, const char *what)
{
    if (!(fabs(got - want) <= bound))
        fail_msg("%s: %.9g, expected %.9g", what, got, want);
}

enum { BATCH = 6, MOST = BATCH * NET_TOKENS };

typedef struct mixed_row {
    const char *name;
    const net_model *model;
    size_t rows;
    int32_t classes;
    float smoothing;
} mixed_row;

static const mixed_row rows[] = {{"images", &net_models[0], BATCH, NET_CLASSES, 0},
    {"images, smoothed", &net_models[0], BATCH, NET_CLASSES, 0.1f},
    {"rows with ignored labels", &net_token_models[NET_LOGITS], MOST, NET_VOCABULARY, 0},
    {"rows with ignored labels, smoothed", &net_token_models[NET_LOGITS], MOST, NET_VOCABULARY,
        0.3f}};

/* A net, and labels on the host. */
typedef struct mixed_job {
    net_job net;
    const mixed_row *row;
    int32_t first[MOST], other[MOST];
    float shares[MOST];
    clprune_ints others; /* on the device */
    clprune_mat shares_mat;
} mixed_job;

static void move(clprune_ints ints, bool write, size_t count, int32_t *values)
{
    const cl_command_queue queue = clprune_context_queue(test_context());
    const size_t at = ints.offset * sizeof *values, bytes = count * sizeof *values;
    if (write)
        TEST_CL(
            clEnqueueWriteBuffer(queue, ints.buffer, CL_TRUE, at, bytes, values, 0, NULL, NULL));
    else
        TEST_CL(clEnqueueReadBuffer(queue, ints.buffer, CL_TRUE, at, bytes, values, 0, NULL, NULL));
}

TEST_UNDO(release, clprune_buffer_release(test_context(), what))

/* Other labels lie behind NET_BEFORE ints. Shares are 0, 1 and between. */
static mixed_job open_mixed(const mixed_row *row)
{
    clprune_context *context = test_context();
    mixed_job job = {.net = net_open(context, row->model, BATCH, NULL), .row = row};
    test_rng r = {9};
    cl_mem buffer;
    move(job.net.data.labels, false, row->rows, job.first);
    for (size_t i = 0; i < row->rows; i++) {
        job.other[i] = (int32_t)((7 * i + 3) % (size_t)row->classes);
        job.shares[i] = i % 5 == 0 ? 0 : i % 5 == 1 ? 1 : test_rng_uniform(&r, 0, 1);
    }
    TEST_OK(clprune_buffer_create(
        context, CLPRUNE_MEMORY_INPUT, "others", (NET_BEFORE + MOST) * sizeof(int32_t), &buffer));
    test_later(release, NULL, buffer);
    job.others = (clprune_ints){buffer, NET_BEFORE};
    move(job.others, true, row->rows, job.other);
    TEST_OK(
        clprune_mat_create(context, CLPRUNE_MEMORY_INPUT, "shares", row->rows, 1, &job.shares_mat));
    test_later(release, NULL, job.shares_mat.buffer);
    TEST_OK(clprune_mat_write(context, job.shares_mat, job.shares));
    job.net.data.smoothing = row->smoothing;
    return job;
}

static void mix(mixed_job *job)
{
    job->net.data.other_labels = job->others;
    job->net.data.shares = job->shares_mat;
}

static float *losses(const mixed_job *job)
{
    float *values = test_floats(BATCH);
    TEST_OK(clprune_mat_read(test_context(), clprune_mat_rows(job->net.loss, 0, BATCH), values));
    return values;
}

/* Labels of a run of the other ones alone: rows without a first label have none. */
static void take_others(mixed_job *job)
{
    int32_t labels[MOST];
    for (size_t i = 0; i < job->row->rows; i++)
        labels[i] = job->first[i] == CLPRUNE_IGNORED ? CLPRUNE_IGNORED : job->other[i];
    move(job->net.data.labels, true, job->row->rows, labels);
}

/* With one share for all rows, loss and gradients are the means of those of two runs. */
static void linear(void **state)
{
    mixed_job job = open_mixed(*state);
    const size_t count = job.net.elements;
    const float share = 0.3f;
    float *first = net_step_grads(&job.net), *first_loss = losses(&job);
    take_others(&job);
    float *other = net_step_grads(&job.net), *other_loss = losses(&job);
    move(job.net.data.labels, true, job.row->rows, job.first);
    TEST_OK(clprune_mat_fill(test_context(), share, job.shares_mat, NULL));
    mix(&job);
    float *got = net_step_grads(&job.net), *got_loss = losses(&job);
    for (size_t n = 0; n < BATCH; n++)
        assert_near((double)got_loss[n], 0.3 * (double)first_loss[n] + 0.7 * (double)other_loss[n],
            1e-5, "a loss");
    for (size_t i = 0; i < count; i++)
        first[i] = share * first[i] + (1 - share) * other[i];
    net_close(&job.net, "gradients", got, first, 1e-4);
    /* a share of 1: the bits of the label alone; of 0: those of the other */
    for (int one = 0; one < 2; one++) {
        TEST_OK(clprune_mat_fill(test_context(), (float)one, job.shares_mat, NULL));
        got = net_step_grads(&job.net);
        mixed_job alone = job;
        alone.net.data.shares = CLPRUNE_NO_MAT;
        if (one == 0)
            take_others(&alone);
        const float *want = net_step_grads(&alone.net);
        move(job.net.data.labels, true, job.row->rows, job.first);
        if (one == 1)
            assert_memory_equal(got, want, count * sizeof *got);
        else
            net_close(&job.net, "gradients of other labels", got, want, 1e-5);
    }
}

/* log softmax of a row at a class, and the mean over the classes. */
static double log_p(const float *logits, int32_t classes, int32_t label, double *mean)
{
    double most = -INFINITY, sum = 0, all = 0;
    for (int32_t k = 0; k < classes; k++)
        most = fmax(most, (double)logits[k]);
    for (int32_t k = 0; k < classes; k++)
        sum += exp((double)logits[k] - most);
    for (int32_t k = 0; k < classes; k++)
        all += (double)logits[k] - most - log(sum);
    *mean = all / classes;
    return (double)logits[label] - most - log(sum);
}

/* Each row by its own share, in double precision; and the slopes of that loss. */
static void of_rows(void **state)
{
    mixed_job job = open_mixed(*state);
    const size_t each = job.row->rows / BATCH;
    const double smoothing = (double)job.row->smoothing;
    size_t labelled = 0, param;
    double want[BATCH] = {0};
    mix(&job);
    (void)net_loss(&job.net, false);
    const float *logits = net_output(&job.net, BATCH), *got = losses(&job);
    for (size_t i = 0; i < job.row->rows; i++) {
        double mean;
        if (job.first[i] == CLPRUNE_IGNORED)
            continue;
        const float *row = logits + i * (size_t)job.row->classes;
        const double share = (double)job.shares[i];
        const double mixed = share * log_p(row, job.row->classes, job.first[i], &mean) +
                             (1 - share) * log_p(row, job.row->classes, job.other[i], &mean);
        want[i / each] -= (1 - smoothing) * mixed + smoothing * mean;
        labelled++;
    }
    for (size_t n = 0; n < BATCH; n++)
        assert_near((double)got[n], want[n] * BATCH / (double)labelled, 2e-5, "a loss");
    const float *grads = net_step_grads(&job.net);
    assert_true(net_slope_error(&job.net, grads, 0.01, &param) < 0.01);
}

static void refused(NO_ROW)
{
    const clprune_status bad = CLPRUNE_INVALID_ARGUMENT;
    mixed_job job = open_mixed(&rows[0]);
    net_job *net = &job.net;
    mix(&job);
    TEST_OK(clprune_net_forward(net->net, &net->data, true));
    net->data.shares.rows--;
    TEST_FAILS(clprune_net_loss(net->net, &net->data, net->loss, CLPRUNE_NO_MAT),
        CLPRUNE_INVALID_SIZE, "shares");
    net->data.shares.rows++;
    net->data.other_labels = (clprune_ints){0};
    TEST_FAILS(
        clprune_net_loss(net->net, &net->data, net->loss, CLPRUNE_NO_MAT), bad, "other labels");
    net->data.other_labels = job.others;
    TEST_OK(clprune_net_loss(net->net, &net->data, net->loss, CLPRUNE_NO_MAT));
    net->data.shares = CLPRUNE_NO_MAT;
    TEST_FAILS(clprune_net_backward(net->net, &net->data), bad, "data.shares has changed");
    net->data.shares = job.shares_mat;
    net->data.other_labels.offset--;
    TEST_FAILS(clprune_net_backward(net->net, &net->data), bad, "data.other_labels has changed");
    net->data.other_labels.offset++;
    TEST_OK(clprune_net_backward(net->net, &net->data));
    /* a label out of range */
    float *grads, loss[BATCH];
    job.other[2] = NET_CLASSES;
    move(job.others, true, BATCH, job.other);
    TEST_OK(clprune_net_forward(net->net, &net->data, true));
    TEST_OK(clprune_net_loss(net->net, &net->data, net->loss, CLPRUNE_NO_MAT));
    TEST_OK(clprune_net_backward(net->net, &net->data));
    TEST_FAILS(clprune_mat_read(test_context(), clprune_mat_rows(net->loss, 0, BATCH), loss), bad,
        "[2] = 10, expected 0 to 9");
    grads = net_grads(net);
    size_t nan = 0;
    for (size_t i = 0; i < net->elements; i++)
        nan += isnan(grads[i]) ? 1 : 0;
    assert_true(nan > 0);
    /* other losses */
    mixed_job other = job;
    other.net = net_open(test_context(), &net_token_models[NET_HEAD], BATCH, NULL);
    mix(&other);
    TEST_OK(clprune_net_forward(other.net.net, &other.net.data, true));
    TEST_FAILS(clprune_net_loss(other.net.net, &other.net.data, other.net.loss, CLPRUNE_NO_MAT),
        bad, "data.shares are given");
}

int main(void)
{
    test_list list = {0};
    TEST_ADD_EACH(&list, linear, rows, "of two runs: %s");
    TEST_ADD_EACH(&list, of_rows, rows, "by rows: %s");
    test_add(&list, refused, NULL, "refused");
    return test_run_on_devices("rows with two labels", &list);
}
