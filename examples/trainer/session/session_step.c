/* The steps and tests of a session. */
#include <stdlib.h>

#include "trainer/base/try.h"
#include "trainer/data/rng.h"
#include "trainer/model/net_model.h"
#include "trainer/session/session.h"

clprune_net_data session_data(const session *s, size_t count, size_t of)
{
    return (clprune_net_data){.batch = count,
        .images = s->feed.images,
        .tokens = s->feed.tokens,
        .lengths = s->feed.lengths,
        .starts = s->feed.starts,
        .labels = s->feed.labels,
        .other_labels = s->feed.others,
        .shares = s->feed.shares.buffer != NULL ? clprune_mat_rows(s->feed.shares, 0, count)
                                                : CLPRUNE_NO_MAT,
        .scale = 1.0f / (float)of};
}

uint64_t session_rate_step(const session *s)
{
    return s->stage_epoch * s->steps_per_epoch + (s->step - s->stage_step);
}

static float rate_of_step(const session *s)
{
    return (float)learning_rate_at(&s->rate, session_rate_step(s));
}

/* A part of an optimizer's step. */
typedef struct part_of_step {
    clprune_optimizer *optimizer;
    float lr;
} part_of_step;

static clprune_status update(void *user, clprune_mat grads)
{
    const part_of_step *part = user;
    return clprune_optimizer_update(part->optimizer, grads.buffer, part->lr, NULL);
}

/* The backward pass with the optimizer's step in it, for --early-update. */
static clprune_status update_early(session *s, const clprune_net_data *data)
{
    part_of_step part = {s->optimizer, rate_of_step(s)};
    clprune_net_on_grads(s->model->net, update, &part);
    TRY(net_model_backward(s->model, data));
    clprune_net_on_grads(s->model->net, NULL, NULL);
    clprune_optimizer_set_steps(s->optimizer, clprune_optimizer_steps(s->optimizer) + 1);
    return CLPRUNE_SUCCESS;
}

/* A pass without samples takes part in the sums of batch norms, as one of nothing in particular. */
static clprune_status without_samples(session *s, clprune_mat loss, clprune_mat hit)
{
    clprune_net_data data = session_data(s, 1, 1);
    const cl_int zero = 0;
    if (!s->statistics.on)
        return CLPRUNE_SUCCESS;
    const cl_int code = clEnqueueFillBuffer(clprune_context_queue(s->context), data.labels.buffer,
        &zero, sizeof zero, 0, s->feed.sample.labels * sizeof zero, 0, NULL, NULL);
    if (code != CL_SUCCESS)
        return CLPRUNE_OPENCL_ERROR;
    s->statistics.empty = true;
    clprune_status status = net_model_forward(s->model, &data, true);
    if (status == CLPRUNE_SUCCESS)
        status = clprune_net_loss(
            s->model->net, &data, clprune_mat_rows(loss, 0, 1), clprune_mat_rows(hit, 0, 1));
    if (status == CLPRUNE_SUCCESS)
        status = net_model_backward(s->model, &data);
    s->statistics.empty = false;
    return status;
}

/* The seed of a pass: the draws of a step's passes follow each other. */
static uint64_t seed_of(const session *s, size_t draw)
{
    rng r = rng_open(s->options->seed, RNG_PRUNE, (uint32_t)s->step, (uint32_t)(s->step >> 32));
    for (size_t i = 0; i < 2 * draw; ++i)
        (void)rng_next(&r);
    const uint64_t high = rng_next(&r);
    return high << 32 | rng_next(&r);
}

static clprune_status backward(session *s, const clprune_net_data *data, const session_pass *pass)
{
    if (session_updates_early(s))
        return update_early(s, data);
    if (pass->last && s->windows.context != NULL && !s->keeps_grads)
        return gradient_windows_backward(&s->windows, s->model, data, pass->index, seed_of(s, 0));
    if (data->batch == 0)
        TRY(gradient_sum_zero(&s->sum));
    else
        TRY(net_model_backward(s->model, data));
    return gradient_sum_add_all(&s->sum, pass->index, pass->last);
}

static clprune_status forward(
    session *s, const clprune_net_data *data, size_t draw, clprune_mat loss, clprune_mat hit)
{
    if (data->batch == 0)
        return CLPRUNE_SUCCESS;
    clprune_net_set_seed(s->model->net, seed_of(s, draw));
    TRY(net_model_forward(s->model, data, true));
    trainer_tell(&s->watcher, "loss");
    TRY(clprune_net_loss(s->model->net, data, loss, hit));
    s->saved_activation_bytes = clprune_memory_query(s->context, CLPRUNE_MEMORY_ACTIVATIONS).live;
    return CLPRUNE_SUCCESS;
}

clprune_status session_enqueue_pass(
    session *s, const session_pass *pass, clprune_mat loss, clprune_mat hit)
{
    clprune_net_data data = session_data(s, pass->count, pass->of);
    data.smoothing = (float)s->options->label_smoothing;
    if (pass->part > 0) /* the loss is the mean over the pass's labels that count */
        data.scale = (float)(pass->part / (double)pass->count);
    if (s->options->check_finite > 0)
        clprune_net_check_finite(s->model->net, (s->step + 1) % s->options->check_finite == 0);
    TRY(forward(s, &data, pass->draw, loss, hit));
    if (pass->count == 0)
        TRY(without_samples(s, loss, hit));
    TRY(backward(s, &data, pass));
    return clprune_plan_end_step(s->context);
}

/* norm: receives the gradient's, or CLPRUNE_NO_MAT. */
static clprune_status enqueue_update(session *s, clprune_mat norm)
{
    const options *o = s->options;
    if (o->clip_norm > 0 && s->slices.context == NULL)
        TRY(clprune_optimizer_clip(s->optimizer, (float)o->clip_norm, norm, NULL));
    return clprune_optimizer_step(s->optimizer, rate_of_step(s), NULL);
}

static clprune_status average_weights(const session *s)
{
    const options *o = s->options;
    return o->lookahead > 0 ? slow_weights_lookahead(&s->slow, o->lookahead,
                                  session_rate_step(s) + 1, s->steps_per_epoch * o->epochs)
           : o->ema > 0     ? slow_weights_ema(&s->slow, o->ema, s->step + 1)
                            : CLPRUNE_SUCCESS;
}

bool session_swap_means(session *s, fault *f)
{
    return s->options->ema <= 0 ||
           fault_check(f, s->context, slow_weights_swap(&s->slow), "taking the means of weights");
}

static bool clip_slices(session *s, float most, fault *f)
{
    double norm = 0;
    if (!state_slices_clip(&s->slices, s->optimizer, most, &norm, f))
        return false;
    tally_add_norm(&s->tally, norm);
    return true;
}

bool session_update(session *s, fault *f)
{
    const float most = (float)s->options->clip_norm;
    const bool sliced = s->slices.context != NULL;
    clprune_mat norm = CLPRUNE_NO_MAT;
    if (session_updates_early(s))
        return fault_check(f, s->context, average_weights(s), "averaging the weights");
    trainer_tell(&s->watcher, "update");
    return (sliced || tally_next_norm(&s->tally, &norm, f)) &&
           (!sliced || most == 0 || clip_slices(s, most, f)) &&
           fault_check(f, s->context, enqueue_update(s, norm), "updating the parameters") &&
           (!sliced || state_slices_share(&s->slices, f)) &&
           fault_check(f, s->context, average_weights(s), "averaging the weights") &&
           fault_check(f, s->context, clprune_plan_end_step(s->context), "updating the parameters");
}

/* The mean over the ranks of a state. */
static bool average(const session *s, clprune_mat mat, float *host, fault *f)
{
    const rank_group *r = &s->options->ranks;
    const size_t count = mat.rows * mat.cols;
    if (!fault_check(f, s->context, clprune_mat_read(s->context, mat, host), "reading a state") ||
        !r->call->begin(r->group, REDUCE_SUM, NULL, host, count, f) ||
        !r->call->finish(r->group, f))
        return false;
    for (size_t i = 0; i < count; ++i)
        host[i] /= (float)r->at.ranks;
    return fault_check(f, s->context, clprune_mat_write(s->context, mat, host), "writing a state");
}

bool session_average_states(session *s, fault *f)
{
    const size_t count = s->model->statistics_count;
    if (!ranks_many(&s->options->ranks) || count == 0)
        return true;
    float *host = malloc(session_count_elements(s).most * sizeof *host);
    bool good = host != NULL || fault_set(f, CODE_MEMORY, "out of memory");
    for (size_t i = 0; good && i < count; ++i)
        good = average(s, s->model->states[i].mat, host, f);
    free(host);
    return good;
}

/* Adds the logits of a view to their sum, and puts this in their place behind the last one. */
static clprune_status add_view(const session *s, size_t count, size_t view, size_t views)
{
    const clprune_mat logits = clprune_net_output(s->model->net, count);
    const clprune_mat sum = clprune_mat_rows(s->views, 0, count);
    const float weight = augment_views(views)[view].weight;
    TRY(clprune_add(s->context, weight, logits, 1, view == 0 ? CLPRUNE_NO_MAT : sum, sum, NULL));
    return view + 1 < views ? CLPRUNE_SUCCESS : clprune_mat_copy(s->context, sum, logits, NULL);
}

clprune_status session_enqueue_test(
    session *s, size_t count, size_t view, clprune_mat loss, clprune_mat hit)
{
    const clprune_net_data data = session_data(s, count, count);
    const size_t views = options_views_count(s->options);
    TRY(net_model_forward(s->model, &data, false));
    if (views > 1)
        TRY(add_view(s, count, view, views));
    if (view + 1 == views)
        TRY(clprune_net_loss(s->model->net, &data, loss, hit));
    if (s->pixels != NULL)
        TRY(clprune_mat_read(s->context, clprune_net_output(s->model->net, count), s->pixels));
    return clprune_plan_end_step(s->context);
}
