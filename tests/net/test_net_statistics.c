/* Batch norms over the samples of two nets: their gradients add up to those of one net with all
 * samples, and their running statistics are its. The nets run one after the other, so each is given
 * what the whole net had; what it would have given itself is checked to add up to that, too. */
#include "net/net_models.h"

enum { HALF = 3, MOST = 64, WIDE = 256 };

typedef struct shared_row {
    const net_model *model;
    clprune_net_preset preset;
    const char *name;
} shared_row;

static const shared_row rows[] = {
    {&net_models[1], CLPRUNE_NET_DENSE, "resnet, dense"},
    {&net_models[1], CLPRUNE_NET_EXACT, "resnet, exact"},
};

/* What calls got, in their order. */
typedef struct tape {
    clprune_context *context;
    struct {
        size_t rows, cols;
        float values[2 * WIDE]; /* mean and m2, or sums; of halves, the sums of both */
    } moments[MOST], sums[MOST];
    size_t moments_count, sums_count;
    const struct tape *whole; /* what is given in return; NULL: nothing */
    bool second;              /* half */
} tape;

static clprune_status take_moments(void *user, clprune_mat mean, clprune_mat m2, size_t *count)
{
    tape *t = user;
    const size_t i = t->moments_count++, cols = mean.cols;
    float own[2 * WIDE];
    assert_true(i < MOST && cols <= WIDE);
    assert_int_equal(m2.cols, cols);
    TEST_OK(clprune_mat_read(t->context, mean, own));
    TEST_OK(clprune_mat_read(t->context, m2, own + cols));
    if (t->whole == NULL) {
        t->moments[i].rows = *count;
        t->moments[i].cols = cols;
        memcpy(t->moments[i].values, own, 2 * cols * sizeof *own);
        return CLPRUNE_SUCCESS;
    }
    const float *want = t->whole->moments[i].values;
    assert_int_equal(t->whole->moments[i].cols, cols);
    assert_int_equal(t->whole->moments[i].rows, 2 * *count);
    for (size_t c = 0; c < cols; c++) { /* of deviations from the whole's mean */
        const double off = (double)own[c] - (double)want[c];
        t->moments[i].values[c] += 0.5f * own[c];
        t->moments[i].values[cols + c] +=
            (float)((double)own[cols + c] + (double)*count * off * off);
    }
    *count = t->whole->moments[i].rows;
    TEST_OK(clprune_mat_write(t->context, mean, want));
    return clprune_mat_write(t->context, m2, want + cols);
}

static clprune_status take_sums(void *user, clprune_mat sums)
{
    tape *t = user;
    const size_t i = t->sums_count++, elements = 2 * sums.cols;
    float own[2 * WIDE];
    assert_true(i < MOST && sums.cols <= WIDE);
    assert_int_equal(sums.rows, 2);
    TEST_OK(clprune_mat_read(t->context, sums, own));
    t->sums[i].cols = sums.cols;
    for (size_t k = 0; k < elements; k++)
        t->sums[i].values[k] += own[k];
    return t->whole == NULL ? CLPRUNE_SUCCESS
                            : clprune_mat_write(t->context, sums, t->whole->sums[i].values);
}

/* A step of a net with its calls on tape; its gradients. */
static float *taped_step(net_job *job, tape *t, size_t of)
{
    clprune_net_data data = job->data;
    data.scale = 1.0f / (float)of;
    t->moments_count = t->sums_count = 0;
    clprune_net_on_statistics(job->net, &(clprune_net_statistics){take_moments, take_sums, t});
    TEST_OK(clprune_net_forward(job->net, &data, true));
    TEST_OK(clprune_net_loss(job->net, &data, job->loss, CLPRUNE_NO_MAT));
    TEST_OK(clprune_net_backward(job->net, &data));
    return net_grads(job);
}

/* The second half of a net's samples, in place of the first. */
static void take_second_half(const net_job *whole, const net_job *half)
{
    const cl_command_queue queue = clprune_context_queue(whole->context);
    const size_t bytes = HALF * 3 * whole->model->cols * whole->model->cols;
    const size_t labels = HALF * sizeof(int32_t);
    TEST_CL(clEnqueueCopyBuffer(queue, whole->data.images.buffer, half->data.images.buffer, bytes,
        0, bytes, 0, NULL, NULL));
    const size_t own = NET_BEFORE * sizeof(int32_t);
    TEST_CL(clEnqueueCopyBuffer(queue, whole->data.labels.buffer, half->data.labels.buffer,
        own + labels, own, labels, 0, NULL, NULL));
}

static void near(const char *what, size_t count, const float *got, const float *want, double bound)
{
    double off = 0, all = 0;
    for (size_t i = 0; i < count; i++) {
        off += ((double)got[i] - (double)want[i]) * ((double)got[i] - (double)want[i]);
        all += (double)want[i] * (double)want[i];
    }
    if (!(off <= bound * bound * all))
        fail_msg("%s: %g of %g", what, sqrt(off), sqrt(all));
}

static void as_one(void **state)
{
    const shared_row *row = *state;
    const clprune_net_keep keep = {.preset = row->preset};
    const clprune_net_desc desc = {.batch = HALF, .shares_statistics = true};
    const clprune_net_desc all = {.batch = 2 * HALF, .shares_statistics = true};
    net_job whole = net_open_desc(test_context(), row->model, &all, &keep);
    net_job half = net_open_desc(test_context(), row->model, &desc, &keep);
    net_job alone =
        net_open_desc(test_context(), row->model, &(clprune_net_desc){.batch = 2 * HALF}, &keep);
    tape *of_whole = test_alloc(sizeof *of_whole), *of_half = test_alloc(sizeof *of_half);
    of_whole->context = of_half->context = test_context();
    of_half->whole = of_whole;
    const float *want = taped_step(&whole, of_whole, 2 * HALF);
    const float *first = taped_step(&half, of_half, 2 * HALF);
    size_t states;
    const clprune_net_state *state_of = clprune_net_states(half.net, &states);
    const clprune_net_state *state_want = clprune_net_states(whole.net, &states);
    float got[WIDE], expected[WIDE];
    for (size_t i = 0; i < states; i++) { /* after one step of each */
        TEST_OK(clprune_mat_read(test_context(), state_of[i].mat, got));
        TEST_OK(clprune_mat_read(test_context(), state_want[i].mat, expected));
        test_same_floats(state_of[i].name, 1, state_of[i].mat.cols, got, expected, "%s", row->name);
    }
    take_second_half(&whole, &half);
    const float *second = taped_step(&half, of_half, 2 * HALF);
    float *sum = test_floats(whole.elements);
    for (size_t i = 0; i < whole.elements; i++)
        sum[i] = first[i] + second[i];
    near("gradients", whole.elements, sum, want, 2e-5);
    /* the same without sharing; the stem of a ResNet goes another way then */
    near("gradients without sharing", whole.elements, net_step_grads(&alone), want, 2e-5);
    assert_true(of_whole->moments_count > 0);
    assert_int_equal(of_whole->moments_count, of_half->moments_count);
    assert_int_equal(of_whole->sums_count, of_half->sums_count);
    assert_int_equal(of_whole->sums_count, of_whole->moments_count);
    for (size_t i = 0; i < of_whole->moments_count; i++)
        near("moments", 2 * of_whole->moments[i].cols, of_half->moments[i].values,
            of_whole->moments[i].values, 1e-4);
    for (size_t i = 0; i < of_whole->sums_count; i++)
        near("sums", 2 * of_whole->sums[i].cols, of_half->sums[i].values, of_whole->sums[i].values,
            1e-3);
    clprune_net_on_statistics(half.net, NULL);
    net_step(&half, HALF);
    assert_int_equal(of_half->moments_count, of_whole->moments_count); /* no further call */
    test_end(alone.net);
    test_end(half.net);
    test_end(whole.net);
}

static clprune_status refuse(void *user, clprune_mat sums)
{
    (void)user, (void)sums;
    return CLPRUNE_INVALID_BSR;
}

static void failures(NO_ROW)
{
    const clprune_net_desc desc = {.batch = HALF, .shares_statistics = true};
    net_job job = net_open_desc(test_context(), &net_models[1], &desc, NULL);
    net_job other = net_open(test_context(), &net_models[1], HALF, NULL);
    const clprune_net_statistics refuses = {.sums = refuse};
    clprune_net_on_statistics(job.net, &refuses);
    clprune_net_on_statistics(other.net, &refuses); /* it does not share */
    TEST_OK(clprune_net_forward(job.net, &job.data, true));
    TEST_OK(clprune_net_loss(job.net, &job.data, job.loss, CLPRUNE_NO_MAT));
    assert_int_equal(clprune_net_backward(job.net, &job.data), CLPRUNE_INVALID_BSR);
    net_step(&other, HALF);
    clprune_net_on_statistics(NULL, &refuses);
    test_end(other.net);
    test_end(job.net);
}

int main(void)
{
    test_list list = {0};
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        test_add(&list, as_one, &rows[i], "two nets as one: %s", rows[i].name);
    test_add(&list, failures, NULL, "failures");
    return test_run_on_each_device("net_statistics", &list);
}
