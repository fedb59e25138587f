/* Nets with data, and their steps. */
#include "net/net_models.h"

TEST_UNDO(destroy_net, clprune_net_destroy(what))
TEST_UNDO(release_buffer, clprune_buffer_release(of, what))

static cl_mem new_bytes(
    clprune_context *context, const char *name, size_t bytes, const void *values)
{
    cl_mem buffer;
    TEST_OK(clprune_buffer_create(context, CLPRUNE_MEMORY_INPUT, name, bytes, &buffer));
    test_later(release_buffer, context, buffer);
    TEST_OK(clprune_mat_write(context, clprune_mat_of(buffer, 1, bytes / 4), values));
    return buffer;
}

static clprune_image_bytes new_images(clprune_context *context, size_t batch, size_t side)
{
    const size_t bytes = batch * 3 * side * side;
    unsigned char *pixels = test_alloc(bytes);
    float levels[3][256];
    test_rng rng = {11};
    for (size_t i = 0; i < bytes; i++)
        pixels[i] = (unsigned char)test_rng_below(&rng, 256);
    for (size_t c = 0; c < 3; c++)
        for (size_t v = 0; v < 256; v++)
            levels[c][v] = ((float)v / 255 - 0.5f + 0.1f * (float)c) / 0.25f;
    return (clprune_image_bytes){new_bytes(context, "images", bytes, pixels), 0,
        test_new_mat_of(context, "levels", 3, 256, levels[0])};
}

/* Small numbers, some twice, behind others that are out of range. */
static clprune_ints new_ints(
    clprune_context *context, const char *name, size_t count, uint32_t below, uint64_t seed)
{
    const size_t all = count + NET_BEFORE;
    int32_t *values = test_alloc(all * sizeof *values), *own = values + NET_BEFORE;
    test_rng rng = {seed};
    memset(values, 0xff, all * sizeof *values);
    for (size_t i = 0; i < count; i++)
        own[i] = (int32_t)test_rng_below(&rng, below);
    for (size_t i = 5; i < count && below == NET_VOCABULARY && seed == 12; i += 7)
        own[i] = CLPRUNE_IGNORED;
    return (clprune_ints){new_bytes(context, name, all * sizeof *values, values), NET_BEFORE};
}

static void add_data(net_job *job, size_t batch)
{
    const net_model *m = job->model;
    job->data = (clprune_net_data){.batch = batch};
    if (m->rows == 0)
        job->data.images = new_images(job->context, batch, m->cols);
    else if (m->cols == 0) {
        job->data.tokens = new_ints(job->context, "tokens", batch * m->rows, NET_VOCABULARY, 16);
        job->data.lengths = new_ints(job->context, "lengths", batch, (uint32_t)m->rows + 1, 17);
    } else
        job->data.rows = test_new_mat_of(job->context, "rows", batch * m->rows, m->cols,
            test_new_normal(13, batch * m->rows * m->cols));
    if (m->target_cols > 0) {
        job->data.targets = test_new_mat_of(job->context, "targets", batch * m->target_rows,
            m->target_cols, test_new_normal(14, batch * m->target_rows * m->target_cols));
        return;
    }
    const size_t labels = m->target_rows > 0 ? m->target_rows : 1;
    job->data.labels = new_ints(job->context, "labels", batch * labels,
        m->target_rows > 0 ? NET_VOCABULARY : NET_CLASSES, 12);
    job->data.smoothing = 0.1f;
}

/* Scales and shifts are 1 and 0 at first, which hides faults. */
static void shift_params(const net_job *job)
{
    test_rng rng = {15};
    for (size_t i = 0; i < job->count; i++) {
        const clprune_mat mat = job->params[i].value;
        if (job->params[i].decay)
            continue;
        float *values = test_floats(mat.rows * mat.cols);
        TEST_OK(clprune_mat_read(job->context, mat, values));
        for (size_t k = 0; k < mat.rows * mat.cols; k++)
            values[k] += test_rng_uniform(&rng, -0.3f, 0.3f);
        TEST_OK(clprune_mat_write(job->context, mat, values));
    }
}

net_job net_open(
    clprune_context *context, const net_model *model, size_t batch, const clprune_net_keep *keep)
{
    return net_open_desc(context, model, &(clprune_net_desc){.batch = batch}, keep);
}

net_job net_open_desc(clprune_context *context, const net_model *model,
    const clprune_net_desc *desc, const clprune_net_keep *keep)
{
    const size_t batch = desc->batch;
    net_job job = {.context = context, .model = model};
    TEST_OK(clprune_net_create(context, desc, &job.net));
    test_later(destroy_net, context, job.net);
    model->build(job.net, model);
    const clprune_status status = clprune_net_settle(job.net, keep);
    if (status != CLPRUNE_SUCCESS)
        fail_msg("%s: %s", model->name, clprune_last_error(context));
    TEST_OK(clprune_net_init(job.net, 7));
    job.params = clprune_net_params(job.net, &job.count);
    for (size_t i = 0; i < job.count; i++)
        job.elements += job.params[i].grad.rows * job.params[i].grad.cols;
    shift_params(&job);
    add_data(&job, batch);
    job.loss = test_new_mat(context, batch, 1);
    return job;
}

net_job net_open_preset(
    const net_model *model, size_t batch, clprune_net_preset preset, unsigned bits)
{
    const clprune_net_keep keep = {.preset = preset,
        .keep = {
            .form = CLPRUNE_FORM_QUANTISED, .bits = bits, .rounding = CLPRUNE_ROUNDING_NEAREST}};
    return net_open(test_context(), model, batch, &keep);
}

void net_step(net_job *job, size_t batch)
{
    clprune_net_data data = job->data;
    data.batch = batch;
    /* a matrix may not have rows of other samples */
    if (job->model->rows > 0 && job->model->cols > 0)
        data.rows = clprune_mat_rows(data.rows, 0, batch * job->model->rows);
    if (job->model->target_cols > 0)
        data.targets = clprune_mat_rows(data.targets, 0, batch * job->model->target_rows);
    const clprune_mat loss = clprune_mat_rows(job->loss, 0, batch);
    clprune_net_set_seed(job->net, job->seed);
    TEST_OK(clprune_net_forward(job->net, &data, true));
    TEST_OK(clprune_net_loss(job->net, &data, loss, CLPRUNE_NO_MAT));
    TEST_OK(clprune_net_backward(job->net, &data));
}

float *net_grads(const net_job *job)
{
    float *all = test_floats(job->elements), *at = all;
    for (size_t i = 0; i < job->count; i++) {
        TEST_OK(clprune_mat_read(job->context, job->params[i].grad, at));
        at += job->params[i].grad.rows * job->params[i].grad.cols;
    }
    return all;
}

float *net_step_grads(net_job *job)
{
    net_step(job, job->data.batch);
    return net_grads(job);
}

double net_loss(net_job *job, bool training)
{
    double sum = 0;
    const size_t mark = test_mark();
    float *losses = test_floats(job->data.batch);
    clprune_net_set_seed(job->net, job->seed);
    TEST_OK(clprune_net_forward(job->net, &job->data, training));
    TEST_OK(clprune_net_loss(job->net, &job->data, job->loss, CLPRUNE_NO_MAT));
    TEST_OK(clprune_mat_read(job->context, job->loss, losses));
    for (size_t i = 0; i < job->data.batch; i++)
        sum += (double)losses[i];
    test_release(mark);
    return sum / (double)job->data.batch;
}

float *net_output(const net_job *job, size_t batch)
{
    const clprune_mat y = clprune_net_output(job->net, batch);
    float *values = test_floats(y.rows * y.cols);
    TEST_OK(clprune_mat_read(job->context, y, values));
    return values;
}

/* ---- gradients ------------------------------------------------------------------------------- */

static double norm(size_t count, const float *a, const float *b)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++) {
        const double d = (double)a[i] - (b != NULL ? (double)b[i] : 0);
        sum += d * d;
    }
    return sqrt(sum);
}

static size_t elements_of(const net_job *job, size_t param)
{
    return job->params[param].grad.rows * job->params[param].grad.cols;
}

static size_t start_of(const net_job *job, size_t param)
{
    size_t start = 0;
    for (size_t i = 0; i < param; i++)
        start += elements_of(job, i);
    return start;
}

double net_distance(const net_job *job, const float *got, const float *want, size_t param)
{
    const size_t start = start_of(job, param), count = elements_of(job, param);
    const double all = norm(job->elements, want, NULL);
    return norm(count, got + start, want + start) /
           (norm(count, want + start, NULL) + 1e-2 * all + 1e-30);
}

double net_worst(const net_job *job, const float *got, const float *want, size_t *param)
{
    double worst = -1;
    for (size_t i = 0; i < job->count; i++) {
        const double d = net_distance(job, got, want, i);
        if (d > worst || isnan(d)) {
            worst = d;
            *param = i;
        }
        if (isnan(d))
            break;
    }
    return worst;
}

void net_close(
    const net_job *job, const char *what, const float *got, const float *want, double bound)
{
    size_t param = 0;
    const double worst = net_worst(job, got, want, &param);
    if (!(worst <= bound))
        fail_msg("%s, %s: the gradient of %s is off by %.3g, expected at most %.3g",
            job->model->name, what, job->params[param].name, worst, bound);
}

double net_slope_error(net_job *job, const float *grads, double step, size_t *param)
{
    const double all = norm(job->elements, grads, NULL);
    double worst = 0;
    for (size_t i = 0; i < job->count; i++) {
        const size_t mark = test_mark(), count = elements_of(job, i);
        const float *grad = grads + start_of(job, i);
        const double size = norm(count, grad, NULL);
        float *value = test_floats(count), *moved = test_floats(count);
        double loss[2];
        TEST_OK(clprune_mat_read(job->context, job->params[i].value, value));
        for (int side = 0; side < 2 && size > 1e-3 * all; side++) {
            for (size_t k = 0; k < count; k++)
                moved[k] =
                    (float)((double)value[k] + (side ? step : -step) / size * (double)grad[k]);
            TEST_OK(clprune_mat_write(job->context, job->params[i].value, moved));
            loss[side] = net_loss(job, true);
        }
        TEST_OK(clprune_mat_write(job->context, job->params[i].value, value));
        if (size > 1e-3 * all) {
            const double error = fabs((loss[1] - loss[0]) / (2 * step * size) - 1);
            if (!(error <= worst)) {
                worst = error;
                *param = i;
            }
        }
        test_release(mark);
    }
    return worst;
}

void net_check_presets(const net_model *model, size_t batch)
{
    static const struct {
        const char *name;
        clprune_net_preset preset;
        double bound;
    } presets[] = {{"exact", CLPRUNE_NET_EXACT, 1e-5}, {"compact", CLPRUNE_NET_COMPACT, 3e-2},
        {"least", CLPRUNE_NET_LEAST, 3e-2}};
    size_t param = 0;
    net_job dense = net_open(test_context(), model, batch, NULL);
    const float *want = net_step_grads(&dense);
    const double error = net_slope_error(&dense, want, 3e-3, &param);
    if (!(error <= 2e-2))
        fail_msg(
            "%s: the slope of %s is off by %.3g", model->name, dense.params[param].name, error);
    for (size_t i = 0; i < COUNT_OF(presets); i++) {
        const size_t mark = test_mark();
        net_job job = net_open_preset(model, batch, presets[i].preset, 8);
        net_close(&job, presets[i].name, net_step_grads(&job), want, presets[i].bound);
        test_release(mark);
    }
}

void net_copy_params(const net_job *from, net_job *to)
{
    for (size_t i = 0; i < from->count; i++) {
        const clprune_mat value = from->params[i].value;
        float *values = test_floats(value.rows * value.cols);
        assert_string_equal(from->params[i].name, to->params[i].name);
        TEST_OK(clprune_mat_read(from->context, value, values));
        TEST_OK(clprune_mat_write(to->context, to->params[i].value, values));
    }
}
