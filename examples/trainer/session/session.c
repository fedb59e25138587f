/* Making a session on a device. */
#include "trainer/session/session.h"

#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h> /* _exit */

#include "trainer/base/param_rates.h"
#include "trainer/base/stop.h"
#include "trainer/options/keep_file.h"

clprune_status session_create_context(
    const clprune_context_options *wanted, clprune_context **context, fault *f)
{
    const clprune_status status = clprune_context_create(NULL, wanted, context);
    if (status == CLPRUNE_INVALID_ARGUMENT) /* a bad environment variable */
        (void)fault_set(f, CODE_USAGE, "opening a device: %s", fault_detail(NULL));
    else
        (void)fault_check(f, NULL, status,
            status == CLPRUNE_NO_DEVICE && wanted->device != NULL ? "--device"
                                                                  : "opening a device");
    return status;
}

/* Ends the program in or before its first step, between two builds of kernels. Nothing is lost: a
 * resumed checkpoint is unchanged. */
static void quit_untrained(session *s, const char *when, const char *step)
{
    progress_say(s->shown, "stopped by a signal %s%s; nothing was trained", when, step);
    run_folder_undo(s->folder);
    (void)fflush(stdout);
    _exit(128 + stop_signal());
}

uint64_t session_programs(const session *s)
{
    const clprune_cache_stats stats = clprune_context_cache_stats(s->context);
    return stats.builds + stats.disk_hits;
}

/* The log hook of contexts; `user` is the run's session. */
static void hear(void *user, clprune_log_level level, const char *message)
{
    session *s = user;
    const clprune_precision precision = options_precision(s->options);
    const bool rounds = precision == CLPRUNE_PRECISION_TF32 || precision == CLPRUNE_PRECISION_BF16;
    if (level == CLPRUNE_LOG_WARNING && rounds) /* why --precision is not available */
        progress_say(s->shown, "%s", message);
    if (level != CLPRUNE_LOG_INFO || strncmp(message, "built ", 6) != 0)
        return;
    if (stop_signal() != 0 && s->steps_here == 0 && !ranks_many(&s->options->ranks))
        quit_untrained(s, "while kernels were built", "");
    ++s->built;
    progress_built(s->shown, s->programs > 0 ? session_programs(s) : s->built, s->programs);
}

bool session_wait(session *s, const char *step, fault *f)
{
    const double start = clock_seconds();
    const cl_command_queue queue = clprune_context_queue(s->context);
    cl_event end = NULL;
    cl_int state = CL_QUEUED, code = clEnqueueMarkerWithWaitList(queue, 0, NULL, &end);
    if (code == CL_SUCCESS)
        code = clFlush(queue);
    while (code == CL_SUCCESS && state > CL_COMPLETE) {
        code = clGetEventInfo(end, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof state, &state, NULL);
        if (code != CL_SUCCESS || state <= CL_COMPLETE)
            break;
        if (stop_signal() != 0 && s->steps_here <= 1 && !ranks_many(&s->options->ranks))
            quit_untrained(s, "in the ", step);
        progress_waiting(s->shown, step, clock_seconds() - start);
        (void)poll(NULL, 0, 1);
    }
    if (end != NULL)
        (void)clReleaseEvent(end);
    return fault_check_cl(f, state < CL_COMPLETE ? state : code, "waiting for a step");
}

bool session_open_device(session *s, session *of, fault *f)
{
    const clprune_context_options wanted = {.device = s->options->device,
        .precision = options_precision(s->options),
        .log = hear,
        .log_user = of};
    return session_create_context(&wanted, &s->context, f) == CLPRUNE_SUCCESS;
}

bool session_only_tests(const session *s)
{
    const options *o = s->options;
    return o->test_only && o->gradient_check == 0 && !s->keeps_grads;
}

bool session_updates_early(const session *s)
{
    return s->options->early_update && !s->keeps_grads && !session_only_tests(s);
}

static bool shares_statistics(const session *s)
{
    const options *o = s->options;
    return o->sync_batch_norm && o->ranks.at.ranks > 1 && !s->keeps_grads;
}

static bool list_tensors(const session *s, const keep_choice *choice, keep_list *list, fault *f)
{
    const char *wrong = net_model_list(s->type, &s->sizes, choice, options_pass(s->options), list);
    return wrong == NULL ||
           fault_set(
               f, strcmp(wrong, TRAINER_NO_MEMORY) == 0 ? CODE_MEMORY : CODE_USAGE, "%s", wrong);
}

bool session_list(const session *s, size_t preset, keep_list *list, fault *f)
{
    keep_choice choice = {.preset = preset, .how = options_how(s->options)};
    choice.how.store = CLPRUNE_VALUES_FP32;
    return list_tensors(s, &choice, list, f);
}

/* The run's choice, and the list of its rules if it has any; for the caller to close in any
 * case. */
static bool choose(const session *s, keep_choice *choice, keep_list *list, fault *f)
{
    const options *o = s->options;
    const char *source = o->keep_file != NULL ? o->keep_file
                         : o->resume != NULL  ? o->resume
                                              : "activations auto";
    *choice = (keep_choice){
        .preset = o->activations, .how = options_how(o), .infers = session_only_tests(s)};
    if (o->keep_text == NULL)
        return true;
    choice->list = list;
    return session_list(s, 0, list, f) && /* which preset is no matter */
           keep_file_apply(o->keep_text, source, o, list, f);
}

bool session_list_kept(const session *s, keep_list *list, fault *f)
{
    keep_list rules = {0};
    keep_choice choice;
    const bool good = choose(s, &choice, &rules, f) && list_tensors(s, &choice, list, f);
    keep_list_close(&rules);
    return good;
}

static bool create_model(session *s, fault *f)
{
    const options *o = s->options;
    keep_list rules = {0};
    keep_choice choice;
    bool good = choose(s, &choice, &rules, f);
    choice.drops_grads = session_updates_early(s);
    choice.shares_statistics = shares_statistics(s);
    const clprune_optimizer_info optimizer = clprune_optimizer_describe(o->optimizer);
    if (session_updates_early(s) &&
        (!optimizer.in_parts || o->clip_norm > 0 || options_passes(o) > 1))
        good = fault_set(f, CODE_USAGE, "--early-update does not go with %s%s",
            o->clip_norm > 0        ? "--clip-norm; --clip-norm 0 turns it off"
            : o->micro_batches > 1  ? "--micro-batches"
            : options_passes(o) > 1 ? "several processes"
                                    : "--optimizer ",
            o->clip_norm > 0 || options_passes(o) > 1 ? "" : optimizer.name);
    good = good && fault_check(f, s->context,
                       net_model_create(
                           s->type, s->context, &s->sizes, &choice, options_pass(o), &s->model),
                       "creating the model");
    if (good)
        s->params = clprune_net_params(s->model->net, &s->params_count);
    const size_t passes = session_only_tests(s) ? 1 : session_passes(s);
    good = good && fault_check(f, s->context,
                       gradient_sum_open(s->context, passes, s->params, s->params_count, &s->sum),
                       "making room for gradients");
    keep_list_close(&rules);
    return good;
}

/* What several ranks need beside the model. */
static bool divide(session *s, fault *f)
{
    const options *o = s->options;
    if (o->ranks.at.ranks == 1 || s->keeps_grads || session_only_tests(s))
        return true;
    if (shares_statistics(s) && options_passes(o) % (size_t)o->ranks.at.ranks != 0)
        return fault_set(f, CODE_USAGE,
            "--sync-batch-norm: %zu micro-batches are no multiple of %d processes",
            options_passes(o), o->ranks.at.ranks);
    const clprune_optimizer_info optimizer = clprune_optimizer_describe(o->optimizer);
    if (o->zero && (!optimizer.in_parts || optimizer.desc.state_bits == 8))
        return fault_set(f, CODE_USAGE, "--zero does not go with --optimizer %s", optimizer.name);
    return fault_check(f, s->context,
               gradient_windows_open(s->context, &o->ranks, &s->sum, s->model, &s->windows),
               "preparing the exchange of gradients") &&
           (!o->zero || fault_check(f, s->context,
                            state_slices_open(
                                s->context, &s->windows, s->params, s->params_count, &s->slices),
                            "dividing the optimizer's state"));
}

static bool create_optimizer(session *s, fault *f)
{
    const options *o = s->options;
    clprune_optimizer_desc desc = clprune_optimizer_describe(o->optimizer).desc;
    desc.weight_decay = (float)o->weight_decay;
    desc.nesterov = o->nesterov;
    if (desc.kind == CLPRUNE_OPTIMIZER_SGD)
        desc.momentum = (float)o->momentum;
    if (o->beta2 > 0)
        desc.beta2 = (float)o->beta2;
    const bool sliced = s->slices.context != NULL;
    const size_t count = session_only_tests(s) ? 0 : sliced ? s->slices.count : s->params_count;
    return fault_check(f, s->context,
        clprune_optimizer_create(
            s->context, &desc, count, sliced ? s->slices.own : s->params, &s->optimizer),
        "creating the optimizer");
}

bool session_rate(const session *s, const options *o, learning_rate *rate, fault *f)
{
    const uint64_t total = s->steps_per_epoch * o->epochs;
    const double warmup = floor(o->warmup_epochs * (double)s->steps_per_epoch + 0.5);
    *rate =
        (learning_rate){.schedule = {.base = o->lr, .warmup = (uint64_t)warmup, .total = total}};
    return o->schedule == OPTIONS_STEP     ? learning_rate_milestones(o->milestones, rate, f)
           : o->schedule == OPTIONS_LINEAR ? learning_rate_points(o->points, rate, f)
                                           : true;
}

static bool plan_schedule(session *s, fault *f)
{
    const options *o = s->options;
    s->steps_per_epoch = (o->train_limit + o->batch_size - 1) / o->batch_size;
    return session_rate(s, o, &s->rate, f);
}

static const rank_group alone = RANKS_ALONE;

bool session_create_feed(session *s, fault *f)
{
    const size_t pass = options_pass(s->options);
    const bool mixes = s->options->mixup > 0 || s->options->cutmix > 0;
    return feed_open(s->context, s->data, pass, &s->feed, f) &&
           (!mixes || session_only_tests(s) || feed_open_mix(&s->feed, f)) &&
           tally_open(s->context, pass, s->feed.sample.labels, options_passes(s->options),
               s->beside ? &alone : &s->options->ranks, &s->tally, f) &&
           (s->options->clip_norm == 0 || session_only_tests(s) || tally_open_norms(&s->tally, f));
}

static bool create_averages(session *s, fault *f)
{
    const options *o = s->options;
    clprune_status status = CLPRUNE_SUCCESS;
    if (o->lookahead > 0 || o->ema > 0) /* also to test: a checkpoint has them */
        status = slow_weights_open(s->context, s->model, &s->slow);
    if (status == CLPRUNE_SUCCESS && options_views_count(o) > 1)
        status = clprune_mat_create(s->context, CLPRUNE_MEMORY_INPUT, "logits of views",
            options_pass(o), s->sizes.classes, &s->views);
    return fault_check(f, s->context, status, "making room for means");
}

/* For tests of images with a label for each pixel, in one process. */
static bool create_pixels(session *s, fault *f)
{
    const size_t labels = options_pass(s->options) * s->feed.sample.labels;
    if (!s->type->pixels || ranks_many(&s->options->ranks))
        return true;
    s->pixels = malloc(labels * s->sizes.classes * sizeof *s->pixels);
    return s->pixels != NULL || fault_set(f, CODE_MEMORY, "no memory for the logits of pixels");
}

bool session_create_model(session *s, fault *f)
{
    return plan_schedule(s, f) && create_model(s, f) && divide(s, f) && create_optimizer(s, f) &&
           create_averages(s, f) && create_pixels(s, f) &&
           session_set_rates(s, 0, f); /* before files are replaced */
}

bool session_set_rates(session *s, uint64_t epoch, fault *f)
{
    if (s->options->rates == NULL || session_only_tests(s))
        return true;
    if (s->slices.context != NULL)
        return fault_set(f, CODE_USAGE, "--rates does not go with --zero");
    return param_rates_set(
        s->options->rates, s->context, s->optimizer, s->params, s->params_count, epoch, f);
}

void session_watch(session *s, trainer_watcher watcher)
{
    s->watcher = watcher;
    net_model_watch(s->model, watcher);
}

double session_speed(const session *s, const meter *m)
{
    return meter_samples_per_second(m) * (double)(s->type->tokens ? s->sizes.context : 1);
}

size_t session_count_at(uint64_t batch, uint64_t index, uint64_t samples)
{
    const uint64_t left = samples - index * batch;
    return (size_t)(left < batch ? left : batch);
}

/* The first pass of a step that a rank makes. */
static size_t first_pass(const session *s, int rank)
{
    return ranks_first(&s->options->ranks, options_passes(s->options), rank);
}

size_t session_passes(const session *s)
{
    const int rank = s->options->ranks.at.rank;
    return first_pass(s, rank + 1) - first_pass(s, rank);
}

session_pass session_pass_at(const session *s, size_t samples, size_t index)
{
    const size_t passes = options_passes(s->options);
    const size_t draw = first_pass(s, s->options->ranks.at.rank) + index;
    const size_t first = samples * draw / passes, end = samples * (draw + 1) / passes;
    return (session_pass){
        first, end - first, samples, draw, index, index + 1 == session_passes(s), 0};
}

session_pass session_only_pass(size_t samples)
{
    return (session_pass){0, samples, samples, 0, 0, true, 0};
}

bool session_connect(session *s, fault *f)
{
    static const reduce_kind kinds[2][2] = {
        {REDUCE_SUM, REDUCE_SUM_CODED}, {REDUCE_SCATTER, REDUCE_SCATTER_CODED}};
    const rank_group *r = &s->options->ranks;
    const bool sliced = s->slices.context != NULL;
    if (!ranks_many(r) || session_only_tests(s))
        return true;
    if (shares_statistics(s))
        shared_statistics_open(s->context, r, s->model, &s->statistics);
    return gradient_windows_connect(&s->windows, kinds[sliced][s->options->reduce_bits], f);
}

size_t session_tensors(const session *s)
{
    return s->params_count + s->model->states_count;
}

clprune_mat session_tensor(const session *s, const net_model *model, size_t index)
{
    size_t count;
    if (index < s->params_count)
        return clprune_net_params(model->net, &count)[index].value;
    return model->states[index - s->params_count].mat;
}

session_elements session_count_elements(const session *s)
{
    session_elements sum = {0};
    for (size_t i = 0; i < session_tensors(s); ++i) {
        const clprune_mat mat = session_tensor(s, s->model, i);
        const size_t count = mat.rows * mat.cols;
        *(i < s->params_count ? &sum.params : &sum.states) += count;
        sum.most = count > sum.most ? count : sum.most;
    }
    return sum;
}

uint64_t session_peak_bytes(const session *s)
{
    const uint64_t here = clprune_memory_query(s->context, CLPRUNE_MEMORY_TOTAL).peak;
    return here > s->earlier_peak ? here : s->earlier_peak;
}

void session_close(session *s)
{
    shared_statistics_close(&s->statistics);
    state_slices_close(&s->slices);
    gradient_windows_close(&s->windows);
    tally_close(&s->tally);
    feed_close(&s->feed);
    free(s->pixels);
    if (s->views.buffer != NULL)
        clprune_buffer_release(s->context, s->views.buffer);
    slow_weights_close(&s->slow);
    clprune_optimizer_destroy(s->optimizer);
    gradient_sum_close(&s->sum);
    net_model_destroy(s->model);
    clprune_context_destroy(s->context);
    if (!s->beside) {
        dataset_close(s->data);
        text_model_close(&s->text);
        free(s->order);
    }
    *s = (session){0};
}
