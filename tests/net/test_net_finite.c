/* clprune_net_check_finite: passes that find nothing have the same bits; a number that is not
 * finite is found where it comes in. */
#include <math.h>
#include <string.h>

#include "net/net_models.h"
#include "support/test_compare.h"

enum { BATCH = 4, LAST = 3 };

static const clprune_net_preset presets[] = {
    CLPRUNE_NET_DENSE, CLPRUNE_NET_EXACT, CLPRUNE_NET_COMPACT, CLPRUNE_NET_LEAST};

static clprune_status passes(net_job *job)
{
    clprune_net_set_seed(job->net, job->seed);
    clprune_status status = clprune_net_forward(job->net, &job->data, true);
    if (status == CLPRUNE_SUCCESS)
        status = clprune_net_loss(job->net, &job->data, job->loss, CLPRUNE_NO_MAT);
    return status == CLPRUNE_SUCCESS ? clprune_net_backward(job->net, &job->data) : status;
}

static void finds_nothing(void **state)
{
    for (size_t i = 0; i < sizeof presets / sizeof *presets; i++) {
        const size_t mark = test_mark();
        net_job job = net_open_preset(*state, BATCH, presets[i], 4);
        const float *want = net_step_grads(&job);
        clprune_net_check_finite(job.net, true);
        test_same_floats("gradients", 1, job.elements, net_step_grads(&job), want, "preset %zu", i);
        test_release(mark);
    }
}

/* What the last error says. */
static void says(const net_job *job, clprune_status status, const char *want)
{
    const char *got = clprune_last_error(job->context);
    if (status != CLPRUNE_NOT_FINITE || strstr(got, want) == NULL)
        fail_msg("%s: status %d, '%s', expected '%s'", job->model->name, (int)status, got, want);
}

static clprune_mat last_of(clprune_mat all)
{
    return (clprune_mat){
        all.buffer, all.offset + (all.rows - 1) * all.ld + all.cols - 1, 1, 1, all.ld, all.type};
}

/* A NaN in the last element of each parameter, one after the other. */
static void names_parameters(void **state)
{
    net_job job = net_open_preset(*state, BATCH, CLPRUNE_NET_COMPACT, 4);
    const bool tied = *state == &net_token_models[NET_TIED_BACK]; /* found by its other name */
    TEST_OK(passes(&job));
    clprune_net_check_finite(job.net, true);
    for (size_t p = 0; p < job.count; p++) {
        const clprune_mat all = job.params[p].value, last = last_of(all);
        const float bad = NAN;
        float old;
        char want[160];
        TEST_OK(clprune_mat_read(job.context, last, &old));
        TEST_OK(clprune_mat_write(job.context, last, &bad));
        (void)snprintf(want, sizeof want,
            "%s has 1 of %zu numbers that are not finite; the first is nan in sample 0, "
            "row %zu, column %zu",
            tied ? "" : job.params[p].name, all.rows * all.cols, all.rows - 1, all.cols - 1);
        says(&job, passes(&job), want);
        TEST_OK(clprune_mat_write(job.context, last, &old));
    }
    TEST_OK(passes(&job));
}

/* Gradients that overflow, in some models: found exactly where some do without the check. */
static void names_gradients(void **state)
{
    for (size_t i = 0; i < sizeof presets / sizeof *presets; i++) {
        const size_t mark = test_mark();
        net_job job = net_open_preset(*state, BATCH, presets[i], 4);
        bool finite = true;
        job.data.scale = 3e38f;
        TEST_OK(passes(&job));
        const float *grads = net_grads(&job);
        for (size_t k = 0; k < job.elements; k++)
            finite = finite && isfinite(grads[k]);
        clprune_net_check_finite(job.net, true);
        const clprune_status status = passes(&job);
        if (status != CLPRUNE_SUCCESS)
            says(&job, status, "gradient of ");
        assert_true(finite || status == CLPRUNE_NOT_FINITE);
        assert_true(*state != &net_models[0] || !finite);
        test_release(mark);
    }
}

/* Data that is not finite, in the last row of a sample. */
static void names_samples(void **state)
{
    net_job job = net_open_preset(*state, BATCH, CLPRUNE_NET_COMPACT, 4);
    const float bad = INFINITY;
    const clprune_mat sample =
        clprune_mat_rows(job.data.rows, LAST * job.model->rows, job.model->rows);
    char want[160];
    (void)snprintf(want, sizeof want, " in sample %d, row %zu, column ", LAST, job.model->rows - 1);
    TEST_OK(clprune_mat_write(job.context, last_of(sample), &bad));
    clprune_net_check_finite(job.net, true);
    const clprune_status status = passes(&job);
    says(&job, status, "forward pass of layer ");
    says(&job, status, want);
}

int main(void)
{
    test_list list = {0};
    TEST_ADD_EACH(&list, finds_nothing, net_models, "nothing in %s");
    TEST_ADD_EACH(&list, finds_nothing, net_token_models, "nothing in %s");
    test_add(&list, finds_nothing, &net_wide_mlp, "nothing in chunks of an MLP");
    test_add(&list, finds_nothing, &net_wide_vgg, "nothing in chunks of a VGG");
    TEST_ADD_EACH(&list, names_parameters, net_models, "parameters of %s");
    TEST_ADD_EACH(&list, names_parameters, net_token_models, "parameters of %s");
    TEST_ADD_EACH(&list, names_gradients, net_models, "gradients of %s");
    TEST_ADD_EACH(&list, names_gradients, net_token_models, "gradients of %s");
    test_add(&list, names_samples, &net_models[3], "a sample of an MLP");
    return test_run_on_devices("net_finite", &list);
}
