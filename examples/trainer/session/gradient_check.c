#include "trainer/session/gradient_check.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "trainer/base/try.h"

/* Host memory: two gradients of one tensor; the mean over a batch's draws of all tensors, one after
 * the other. */
typedef struct pair {
    float *got, *exact;
    double *means; /* NULL with one draw */
} pair;

/* Parameters and states: both decide on the passes. */
static bool copy_tensors(const session *s, const session *exact, float *host, fault *f)
{
    bool good = true;
    for (size_t i = 0; good && i < session_tensors(s); ++i)
        good = fault_check(f, s->context,
                   clprune_mat_read(s->context, session_tensor(s, s->model, i), host),
                   "reading a parameter") &&
               fault_check(f, exact->context,
                   clprune_mat_write(exact->context, session_tensor(exact, exact->model, i), host),
                   "copying a parameter");
    return good;
}

/* The same model with everything kept dense, in a context of its own. */
static bool open_exact(const session *s, session *exact, fault *f)
{
    const clprune_context_options wanted = {.device = s->options->device};
    *exact = session_beside(s);
    if (!fault_check(f, NULL, clprune_context_create(NULL, &wanted, &exact->context),
            "opening the device for --gradient-check") ||
        !fault_check(f, exact->context,
            net_model_create(s->type, exact->context, &s->sizes, &(keep_choice){0},
                options_pass(s->options), &exact->model),
            "creating the model of --gradient-check"))
        return false;
    exact->params = clprune_net_params(exact->model->net, &exact->params_count);
    return session_create_feed(exact, f);
}

static clprune_status passes(
    session *s, net_model *model, size_t count, clprune_mat loss, clprune_mat hit)
{
    clprune_net_data data = session_data(s, count, count);
    data.smoothing = (float)s->options->label_smoothing;
    TRY(net_model_forward(model, &data, true));
    TRY(clprune_net_loss(model->net, &data, loss, hit));
    TRY(net_model_backward(model, &data));
    return clprune_plan_end_step(s->context);
}

bool gradient_make(session *s, net_model *model, const uint32_t *indices, size_t count, fault *f)
{
    clprune_mat loss, hit;
    tally_reset(&s->tally, tally_zero, 1);
    return feed_batch(&s->feed, DATASET_TRAIN, indices, count, NULL, f) &&
           tally_next(&s->tally, count, &loss, &hit, f) &&
           fault_check(f, s->context, passes(s, model, count, loss, hit), "--gradient-check");
}

/* Adds draw number `draw`, from 0 on, of a batch to *sums. mean: (count) the mean of got - exact
 * over the batch's draws so far, not read by draw 0; NULL with one draw. Welford's update of mean
 * and spread: equal draws have a spread of exactly 0. */
static void add(gradient_sums *sums, uint64_t draw, size_t count, const float *got,
    const float *exact, double *mean)
{
    for (size_t i = 0; i < count; ++i) {
        const double g = (double)got[i], e = (double)exact[i];
        sums->product += g * e;
        sums->got += g * g;
        sums->exact += e * e;
        sums->off += (g - e) * (g - e);
        if (mean != NULL) {
            const double off = draw == 0 ? 0 : g - e - mean[i];
            mean[i] = draw == 0 ? g - e : mean[i] + off / (double)(draw + 1);
            sums->spread += off * (g - e - mean[i]);
        }
    }
}

static bool compare(const session *s, const session *exact, uint64_t draw, const pair *host,
    gradient_check *check, fault *f)
{
    size_t elements = 0;
    for (size_t i = 0; i < check->tensors; ++i) {
        const clprune_mat got = s->params[i].grad, want = exact->params[i].grad;
        if (!fault_check(f, s->context, clprune_mat_read(s->context, got, host->got),
                "reading a gradient") ||
            !fault_check(f, exact->context, clprune_mat_read(exact->context, want, host->exact),
                "reading a gradient"))
            return false;
        add(&check->sums[i], draw, got.rows * got.cols, host->got, host->exact,
            host->means == NULL ? NULL : host->means + elements);
        elements += got.rows * got.cols;
    }
    return true;
}

/* Seeds differ between batches and between draws. With dropout the exact model draws the same. */
static bool compare_draws(session *s, session *exact, uint64_t batch, size_t count,
    const pair *host, gradient_check *check, fault *f)
{
    const uint32_t *indices = s->order + batch * options_pass(s->options);
    const bool drops = s->sizes.dropout > 0 || s->sizes.lora_dropout > 0;
    bool good = true;
    for (uint64_t draw = 0; good && draw < check->draws; ++draw) {
        const uint64_t seed = 1 + batch + draw * s->options->gradient_check;
        clprune_net_set_seed(s->model->net, seed);
        clprune_net_set_seed(exact->model->net, seed);
        good = fault_check_signal(f, "comparing gradients") &&
               ((draw > 0 && !drops) || gradient_make(exact, exact->model, indices, count, f)) &&
               gradient_make(s, s->model, indices, count, f) &&
               compare(s, exact, draw, host, check, f);
    }
    return good;
}

static bool compare_batches(
    session *s, uint64_t epoch, session *exact, const pair *host, gradient_check *check, fault *f)
{
    const options *o = s->options;
    bool good = true;
    dataset_shuffle(o->seed, (uint32_t)epoch, (uint32_t)o->train_limit, s->order);
    const size_t pass = options_pass(o);
    for (uint64_t i = 0; good && i < o->gradient_check && i * pass < o->train_limit; ++i) {
        const size_t count = session_count_at(pass, i, o->train_limit);
        good = compare_draws(s, exact, i, count, host, check, f);
        check->batches += good;
    }
    return good;
}

bool gradient_check_run(session *s, uint64_t epoch, gradient_check *check, fault *f)
{
    const session_elements elements = session_count_elements(s);
    const uint64_t draws = s->options->gradient_draws;
    *check = (gradient_check){.tensors = s->params_count, .draws = draws};
    if (s->options->gradient_check == 0)
        return true;
    pair host = {malloc(elements.most * sizeof(float)), malloc(elements.most * sizeof(float)),
        draws > 1 ? malloc(elements.params * sizeof(double)) : NULL};
    check->sums = calloc(check->tensors, sizeof *check->sums);
    session exact = {0};
    if (s->statistics.on) /* the other ranks take no part */
        clprune_net_on_statistics(s->model->net, NULL);
    bool good = host.got != NULL && host.exact != NULL && check->sums != NULL &&
                (draws == 1 || host.means != NULL);
    if (!good)
        (void)fault_set(f, CODE_MEMORY, "no memory for %zu gradients", check->tensors);
    good = good && open_exact(s, &exact, f) && copy_tensors(s, &exact, host.exact, f) &&
           compare_batches(s, epoch, &exact, &host, check, f);
    if (!good)
        check->batches = 0; /* sums of a part */
    session_close(&exact);
    free(host.got);
    free(host.exact);
    free(host.means);
    return good;
}

void gradient_check_close(gradient_check *check)
{
    free(check->sums);
    *check = (gradient_check){0};
}

/* What is said of a tensor; NaN where the exact gradient is zero. */
typedef struct measures {
    double cosine;      /* got . exact / (|got| |exact|) */
    double projection;  /* got . exact / |exact|^2: over many draws 1 without bias */
    double error;       /* |got - exact| / |exact| */
    double bias, noise; /* of two draws or more; bias is 0 if the estimate of its square is below */
} measures;

static measures measure(const gradient_sums *sums, uint64_t draws)
{
    /* sums->exact counts each batch once a draw */
    const double noise = sums->spread * (double)draws / (double)(draws - 1) / sums->exact;
    const double bias = sums->off / sums->exact - noise;
    return (measures){.cosine = sums->product / (sqrt(sums->got) * sqrt(sums->exact)),
        .projection = sums->product / sums->exact,
        .error = sqrt(sums->off) / sqrt(sums->exact),
        .bias = sqrt(bias < 0 ? 0 : bias),
        .noise = sqrt(noise)};
}

void gradient_check_print(const gradient_check *check, const session *s)
{
    if (check->batches == 0)
        return;
    const bool draws = check->draws > 1;
    (void)printf("\n%-46s %10s %10s %14s%s   over %" PRIu64 " batches", "gradient beside dense's",
        "cosine", "projection", "relative error", draws ? "       bias      noise" : "",
        check->batches);
    if (draws)
        (void)printf(" of %" PRIu64 " draws", check->draws);
    (void)printf("\n");
    for (size_t i = 0; i < check->tensors; ++i) {
        const measures m = measure(&check->sums[i], check->draws);
        (void)printf(
            "%-46s %10.6f %10.6f %14.3e", s->params[i].name, m.cosine, m.projection, m.error);
        if (draws)
            (void)printf(" %10.3e %10.3e", m.bias, m.noise);
        (void)printf("\n");
    }
}

void gradient_check_json(const gradient_check *check, const session *s, json *j)
{
    if (check->batches == 0)
        return;
    json_open(j, "gradient_check");
    json_count(j, "batches", check->batches);
    json_count(j, "draws", check->draws);
    for (size_t i = 0; i < check->tensors; ++i) {
        const measures m = measure(&check->sums[i], check->draws);
        json_open(j, s->params[i].name);
        json_real(j, "cosine", m.cosine);
        json_real(j, "projection", m.projection);
        json_real(j, "relative_error", m.error);
        json_real(j, "norm", sqrt(check->sums[i].exact / (double)check->draws));
        if (check->draws > 1) {
            json_real(j, "bias", m.bias);
            json_real(j, "noise", m.noise);
        }
        json_close(j);
    }
    json_close(j);
}
