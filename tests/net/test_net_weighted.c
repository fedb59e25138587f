/* Losses with weights of samples, of classes, of columns and of targets of 1, and cross-entropies
 * of probabilities: values in double precision, slopes, what is refused. */
#include "clprune/element_loss.h"
#include "net/net_models.h"
#include "support/test_folder.h"

enum { BATCH = 6, ROWS = 40, COLS = 20, MOST = BATCH * ROWS * COLS };

/* seed: the kind of loss. 40 rows of 20 columns are two parts of a sample's sum. */
static void build_elements(clprune_net *net, const net_model *model)
{
    const clprune_net_value x = clprune_net_rows(net, model->rows, model->cols);
    const clprune_net_value y = clprune_net_linear(
        net, "fc2", clprune_net_tanh(net, "act", clprune_net_linear(net, "fc1", x, 24)), COLS);
    if (model->seed == CLPRUNE_LOSS_SQUARED)
        clprune_net_mean_squared_error(net, y);
    else if (model->seed == CLPRUNE_LOSS_SMOOTH_L1)
        clprune_net_smooth_l1(net, y, 0.5f);
    else
        clprune_net_binary_cross_entropy(net, y);
}

static const net_model elements[] = {
    {"squared", build_elements, ROWS, 8, ROWS, COLS, false, false, CLPRUNE_LOSS_SQUARED},
    {"smooth l1", build_elements, ROWS, 8, ROWS, COLS, false, false, CLPRUNE_LOSS_SMOOTH_L1},
    {"binary", build_elements, 1, 8, 1, COLS, false, false, CLPRUNE_LOSS_BINARY},
    {"binary in parts", build_elements, ROWS, 8, ROWS, COLS, false, false, CLPRUNE_LOSS_BINARY}};

typedef struct weighted_row {
    const char *name;
    const net_model *model;
    size_t rows, cols; /* of a sample's output */
    float smoothing;
    bool classes, positives, samples, soft;
} weighted_row;

static const weighted_row rows[] = {
    {"images", &net_models[0], 1, NET_CLASSES, 0, true, false, false},
    {"images, smoothed", &net_models[0], 1, NET_CLASSES, 0.1f, true, false, false},
    {"rows with ignored labels", &net_token_models[NET_LOGITS], NET_TOKENS, NET_VOCABULARY, 0, true,
        false, true},
    {"rows with ignored labels, smoothed", &net_token_models[NET_LOGITS], NET_TOKENS,
        NET_VOCABULARY, 0.3f, true, false, false},
    {"a head", &net_token_models[NET_HEAD], NET_TOKENS, NET_VOCABULARY, 0, true, false, false},
    {"a head, smoothed", &net_token_models[NET_TIED], NET_TOKENS, NET_VOCABULARY, 0.3f, true, false,
        true},
    {"squares", &elements[0], ROWS, COLS, 0, true, false, false},
    {"smooth L1", &elements[1], ROWS, COLS, 0, true, false, false},
    {"binary", &elements[2], 1, COLS, 0, true, false, false},
    {"binary, positives", &elements[2], 1, COLS, 0, false, true, false},
    {"binary, both", &elements[3], ROWS, COLS, 0, true, true, true},
    {"samples of images", &net_models[0], 1, NET_CLASSES, 0.1f, false, false, true},
    {"samples of rows", &net_token_models[NET_LOGITS], NET_TOKENS, NET_VOCABULARY, 0, false, false,
        true},
    {"samples of a head in parts", &net_token_models[NET_GEMMA], NET_TOKENS, NET_VOCABULARY, 0,
        false, false, true},
    {"samples of squares", &elements[0], ROWS, COLS, 0, false, false, true},
    {"samples, binary", &elements[2], 1, COLS, 0, false, false, true},
    {"probabilities", &net_models[0], 1, NET_CLASSES, 0, false, false, false, true},
    {"probabilities of rows", &net_token_models[NET_LOGITS], NET_TOKENS, NET_VOCABULARY, 0.2f,
        false, false, false, true},
    {"probabilities, all weights", &net_token_models[NET_LOGITS], NET_TOKENS, NET_VOCABULARY, 0.2f,
        true, false, true, true}};

/* A net, and on the host its labels or targets and its weights. */
typedef struct weighted_job {
    net_job net;
    const weighted_row *row;
    int32_t labels[MOST];
    float *targets, *classes, *positives, *samples;
} weighted_job;

static bool has_targets(const weighted_row *row)
{
    return row->model->target_cols > 0;
}

/* Weights, every seventh of which is 0. */
static float *make_weights(uint64_t seed, size_t count, clprune_mat *mat, size_t height)
{
    float *values = test_floats(count);
    test_rng r = {seed};
    for (size_t i = 0; i < count; i++)
        values[i] = i % 7 == 5 ? 0 : test_rng_uniform(&r, 0.2f, 3);
    *mat = test_new_mat_of(test_context(), "weights", height, count / height, values);
    return values;
}

/* Not all sums are 1, as PyTorch takes them, too; some are 0. */
static float *make_probabilities(size_t count, size_t classes)
{
    float *values = test_floats(count * classes);
    test_rng r = {6};
    for (size_t i = 0; i < count * classes; i++)
        values[i] = i % 3 == 0 ? 0 : test_rng_uniform(&r, 0, 3.0f / (float)classes);
    return values;
}

static weighted_job open_weighted(const weighted_row *row)
{
    weighted_job job = {.net = net_open(test_context(), row->model, BATCH, NULL), .row = row};
    clprune_net_data *data = &job.net.data;
    const size_t all = BATCH * row->rows;
    data->smoothing = row->smoothing;
    if (has_targets(row)) {
        job.targets = test_floats(all * row->cols);
        TEST_OK(clprune_mat_read(test_context(), data->targets, job.targets));
        for (size_t i = 0; row->model->seed == CLPRUNE_LOSS_BINARY && i < all * row->cols; i++)
            job.targets[i] = i % 3 == 0   ? 0
                             : i % 3 == 1 ? 1
                                          : 1 / (1 + job.targets[i] * job.targets[i]);
        TEST_OK(clprune_mat_write(test_context(), data->targets, job.targets));
    } else if (row->soft) {
        job.targets = make_probabilities(all, row->cols);
        data->targets = test_new_mat_of(test_context(), "targets", all, row->cols, job.targets);
        data->labels = (clprune_ints){0};
    } else {
        const size_t at = data->labels.offset * sizeof *job.labels;
        TEST_CL(clEnqueueReadBuffer(clprune_context_queue(test_context()), data->labels.buffer,
            CL_TRUE, at, all * sizeof *job.labels, job.labels, 0, NULL, NULL));
    }
    if (row->classes)
        job.classes = make_weights(3, row->cols, &data->class_weights, 1);
    if (row->positives)
        job.positives = make_weights(4, row->cols, &data->positive_weights, 1);
    if (row->samples)
        job.samples = make_weights(5, BATCH, &data->weights, BATCH);
    return job;
}

/* Of all rows, also of a token loss. */
static const float *logits_of(weighted_job *job)
{
    const size_t each = job->row->rows, cols = job->row->cols;
    net_job *net = &job->net;
    TEST_OK(clprune_net_forward(net->net, &net->data, false));
    if (strstr(job->row->name, "head") == NULL)
        return net_output(net, BATCH);
    float *all = test_floats(BATCH * each * cols), *some = test_floats(BATCH * cols);
    const clprune_mat mat = test_new_mat(test_context(), BATCH, cols);
    for (size_t r = 0; r < each; r++) {
        TEST_OK(clprune_net_logits(net->net, BATCH, r, mat, NULL));
        TEST_OK(clprune_mat_read(test_context(), mat, some));
        for (size_t n = 0; n < BATCH; n++)
            memcpy(all + (n * each + r) * cols, some + n * cols, cols * sizeof *all);
    }
    return all;
}

static double weight_at(const float *weights, size_t i)
{
    return weights != NULL ? (double)weights[i] : 1;
}

/* -sum_k w[k] q[k] log_p[k] of a row. targets: NULL, or in place of the label. */
static double row_loss(
    const weighted_job *job, const float *logits, int32_t label, const float *targets)
{
    const size_t classes = job->row->cols;
    const double smoothing = (double)job->row->smoothing;
    double most = -INFINITY, mass = 0, loss = 0;
    for (size_t k = 0; k < classes; k++)
        most = fmax(most, (double)logits[k]);
    for (size_t k = 0; k < classes; k++)
        mass += exp((double)logits[k] - most);
    for (size_t k = 0; k < classes; k++) {
        const double one = targets != NULL ? (double)targets[k] : (int32_t)k == label ? 1 : 0;
        const double q = smoothing / (double)classes + (1 - smoothing) * one;
        loss -= weight_at(job->classes, k) * q * ((double)logits[k] - most - log(mass));
    }
    return loss;
}

static double element_loss(const weighted_job *job, size_t column, double y, double t)
{
    const double d = fabs(y - t), p = weight_at(job->positives, column);
    const double f = job->row->model->seed == CLPRUNE_LOSS_SQUARED ? d * d
                     : job->row->model->seed == CLPRUNE_LOSS_SMOOTH_L1
                         ? (d < 0.5 ? d * d : d - 0.25)
                         : p * t * log1p(exp(-y)) + (1 - t) * log1p(exp(y));
    return weight_at(job->classes, column) * f;
}

/* The losses of samples. */
static void want_losses(const weighted_job *job, const float *y, double *want)
{
    const size_t each = job->row->rows, cols = job->row->cols;
    double total = 0;
    for (size_t i = 0; i < BATCH * each; i++) {
        const float *row = y + i * cols;
        for (size_t c = 0; has_targets(job->row) && c < cols; c++)
            want[i / each] +=
                element_loss(job, c, (double)row[c], (double)job->targets[i * cols + c]);
        if (has_targets(job->row) || (!job->row->soft && job->labels[i] == CLPRUNE_IGNORED))
            continue;
        want[i / each] +=
            row_loss(job, row, job->labels[i], job->row->soft ? job->targets + i * cols : NULL);
        total += job->row->soft ? 1 : weight_at(job->classes, (size_t)job->labels[i]);
    }
    for (size_t n = 0; n < BATCH; n++)
        want[n] *= weight_at(job->samples, n) *
                   (has_targets(job->row) ? 1 / (double)(each * cols) : BATCH / total);
}

/* Losses in double precision; gradients are slopes of these. */
static void values(void **state)
{
    weighted_job job = open_weighted(*state);
    size_t param = 0;
    double want[BATCH] = {0};
    float got[BATCH];
    want_losses(&job, logits_of(&job), want);
    (void)net_loss(&job.net, false);
    TEST_OK(clprune_mat_read(test_context(), job.net.loss, got));
    for (size_t n = 0; n < BATCH; n++)
        if (!(fabs((double)got[n] - want[n]) <= 2e-6 * (1 + want[n])))
            fail_msg("loss %zu: %.9g, expected %.9g", n, (double)got[n], want[n]);
    const float *grads = net_step_grads(&job.net);
    const double error = net_slope_error(&job.net, grads, 1e-2, &param);
    if (!(error <= 2e-2))
        fail_msg("the slope of %s is off by %.3g", job.net.params[param].name, error);
}

/* Equal weights of classes change nothing: the sum of the labels' weights divides. */
static void equal_weights(NO_ROW)
{
    for (size_t i = 0; i < 6; i++) {
        weighted_job job = open_weighted(&rows[i]);
        TEST_OK(clprune_mat_fill(test_context(), 2.5f, job.net.data.class_weights, NULL));
        const float *got = net_step_grads(&job.net);
        job.net.data.class_weights = CLPRUNE_NO_MAT;
        net_close(&job.net, rows[i].name, got, net_step_grads(&job.net), 1e-5);
    }
}

/* Weights of which all that labels have are 0: no row counts. */
static void no_weights(NO_ROW)
{
    for (size_t i = 0; i < 6; i += 2) {
        weighted_job job = open_weighted(&rows[i]);
        TEST_OK(clprune_mat_fill(test_context(), 0, job.net.data.class_weights, NULL));
        const float *got = net_step_grads(&job.net);
        for (size_t k = 0; k < job.net.elements; k++)
            assert_true(got[k] == 0);
        assert_true(net_loss(&job.net, false) == 0);
    }
}

static clprune_status loss_status(const net_job *net)
{
    TEST_OK(clprune_net_forward(net->net, &net->data, true));
    return clprune_net_loss(net->net, &net->data, net->loss, CLPRUNE_NO_MAT);
}

static void refused(NO_ROW)
{
    const clprune_status bad = CLPRUNE_INVALID_ARGUMENT, size = CLPRUNE_INVALID_SIZE;
    weighted_job images = open_weighted(&rows[0]), squares = open_weighted(&rows[6]),
                 head = open_weighted(&rows[4]), binary = open_weighted(&rows[10]);
    weighted_job *const all[] = {&images, &squares, &head, &binary};
    for (size_t i = 0; i < COUNT_OF(all); i++) {
        net_job *net = &all[i]->net;
        const clprune_mat weights = net->data.class_weights;
        net->data.class_weights.cols--;
        TEST_FAILS(loss_status(net), size,
            test_text(
                "class_weights is 1 x %zu, expected 1 x %zu", weights.cols - 1, weights.cols));
        net->data.class_weights = weights;
        TEST_OK(loss_status(net));
        net->data.class_weights = CLPRUNE_NO_MAT;
        TEST_FAILS(clprune_net_backward(net->net, &net->data), bad,
            "data.class_weights has changed since clprune_net_loss");
        net->data.class_weights = weights;
        TEST_OK(clprune_net_backward(net->net, &net->data));
    }
    clprune_net_data *data = &images.net.data;
    data->positive_weights = data->class_weights;
    TEST_FAILS(loss_status(&images.net), bad,
        "data.positive_weights are given, but only clprune_net_binary_cross_entropy has them");
    data->positive_weights = CLPRUNE_NO_MAT;
    data->shares = images.net.loss;
    data->other_labels = data->labels;
    TEST_FAILS(loss_status(&images.net), bad,
        "rows have two labels, which do not go with weights of classes");
    data->class_weights = CLPRUNE_NO_MAT;
    data->targets = test_new_mat(test_context(), BATCH, NET_CLASSES);
    TEST_FAILS(loss_status(&images.net), bad,
        "data.labels and data.targets are given, but a cross-entropy has either");
    data->labels = (clprune_ints){0};
    TEST_FAILS(
        loss_status(&images.net), bad, "which do not go with weights of classes, nor with targets");
    data->shares = CLPRUNE_NO_MAT;
    TEST_OK(clprune_net_forward(images.net.net, data, true));
    TEST_FAILS(clprune_net_loss(images.net.net, data, images.net.loss, images.net.loss), bad,
        "hit is given, but a loss with targets has none");
    data->targets.cols--;
    TEST_FAILS(loss_status(&images.net), size, "data.targets is 6 x 9, expected 6 x 10");
    data->targets.cols++;
    TEST_OK(loss_status(&images.net));
    data->targets = CLPRUNE_NO_MAT;
    TEST_FAILS(clprune_net_backward(images.net.net, data), bad, "data.targets has changed");
    squares.net.data.positive_weights = squares.net.data.class_weights;
    TEST_FAILS(loss_status(&squares.net), bad, "only the binary cross-entropy has them");
    data = &binary.net.data;
    data->positive_weights.cols--;
    TEST_FAILS(loss_status(&binary.net), size, "positive_weights is 1 x 19, expected 1 x 20");
    data->positive_weights.cols++;
    TEST_OK(loss_status(&binary.net));
    data->weights.rows--;
    TEST_FAILS(loss_status(&binary.net), size, "weights is 5 x 1, expected 6 x 1");
    data->weights.rows++;
    TEST_OK(loss_status(&binary.net));
    const clprune_mat weights = data->weights;
    data->weights = CLPRUNE_NO_MAT;
    TEST_FAILS(clprune_net_backward(binary.net.net, data), bad,
        "data.weights has changed since clprune_net_loss");
    data->weights = weights;
    data->positive_weights = data->class_weights;
    TEST_FAILS(clprune_net_backward(binary.net.net, data), bad,
        "data.positive_weights has changed since clprune_net_loss");
}

int main(void)
{
    test_list list = {0};
    TEST_ADD_EACH(&list, values, rows, "%s");
    test_add(&list, equal_weights, NULL, "equal weights");
    test_add(&list, no_weights, NULL, "weights of 0");
    test_add(&list, refused, NULL, "refused");
    return test_run_on_devices("losses with weights", &list);
}
