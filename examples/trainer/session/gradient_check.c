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

static size_t elements_of(clprune_mat mat)
{
    return mat.rows * mat.cols;
}

/* Elements of the largest parameter or state. */
static size_t largest(const session *s)
{
    size_t most = 0;
    for (size_t i = 0; i < session_tensors(s); ++i) {
        const size_t count = elements_of(session_tensor(s, s->model, i));
        most = count > most ? count : most;
    }
    return most;
}

/* Elements of all parameters. */
static size_t all_elements(const session *s)
{
    size_t count = 0;
    for (size_t i = 0; i < s->params_count; ++i)
        count += elements_of(s->params[i].value);
    return count;
}

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
    const keep_table *table = s->type->keep;
    const clprune_context_options wanted = {.device = s->options->device};
    const keep_how how = {0};
    *exact = session_beside(s);
    exact->rules = malloc(keep_rules_count(table, s->sizes.blocks) * sizeof *exact->rules);
    if (exact->rules == NULL)
        return fault_set(f, CODE_MEMORY, "out of memory");
    keep_preset_rules(table, 0, &how, s->sizes.blocks, exact->rules);
    if (!fault_check(f, NULL, clprune_context_create(NULL, &wanted, &exact->context),
            "opening the device for --gradient-check") ||
        !fault_check(f, exact->context,
            s->type->create(exact->context, &s->sizes, exact->rules, (size_t)s->options->batch_size,
                &exact->model),
            "creating the model of --gradient-check"))
        return false;
    exact->params = s->type->params(exact->model, &exact->params_count);
    return session_create_feed(exact, f);
}

static clprune_status passes(
    session *s, void *model, size_t count, clprune_mat loss, clprune_mat hit)
{
    const float smoothing = (float)s->options->label_smoothing;
    TRY(s->type->forward(model, count, s->feed.images, true));
    TRY(s->type->loss(model, count, s->feed.labels, smoothing, loss, hit));
    TRY(s->type->backward(model, count, s->feed.images, s->feed.labels, smoothing));
    return clprune_plan_end_step(s->context);
}

bool gradient_make(session *s, void *model, const uint32_t *indices, size_t count, fault *f)
{
    clprune_mat loss, hit;
    tally_reset(&s->tally, tally_zero);
    return feed_batch(&s->feed, DATASET_TRAIN, indices, count, NULL, f) &&
           tally_next(&s->tally, count, &loss, &hit, f) &&
           fault_check(f, s->context, passes(s, model, count, loss, hit), "--gradient-check");
}

/* Welford's update of mean and spread: equal draws have a spread of exactly 0. */
static void add_spread(
    gradient_sums *sums, uint64_t draw, size_t count, const float *got, double *mean)
{
    for (size_t i = 0; i < count; ++i) {
        const double before = draw == 0 ? 0 : mean[i], off = (double)got[i] - before;
        mean[i] = draw == 0 ? (double)got[i] : before + off / (double)(draw + 1);
        sums->spread += draw == 0 ? 0 : off * ((double)got[i] - mean[i]);
    }
}

void gradient_add(gradient_sums *sums, uint64_t draw, size_t count, const float *got,
    const float *exact, double *mean)
{
    for (size_t i = 0; i < count; ++i) {
        const double g = (double)got[i], e = (double)exact[i];
        sums->product += g * e;
        sums->got += g * g;
        sums->exact += e * e;
        sums->off += (g - e) * (g - e);
    }
    if (mean != NULL)
        add_spread(sums, draw, count, got, mean);
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
        gradient_add(&check->sums[i], draw, got.rows * got.cols, host->got, host->exact,
            host->means == NULL ? NULL : host->means + elements);
        elements += got.rows * got.cols;
    }
    return true;
}

/* Seeds differ between batches and between draws. */
static bool compare_draws(session *s, const session *exact, uint64_t batch, size_t count,
    const pair *host, gradient_check *check, fault *f)
{
    const uint32_t *indices = s->order + batch * s->options->batch_size;
    bool good = true;
    for (uint64_t draw = 0; good && draw < check->draws; ++draw) {
        s->type->set_seed(s->model, 1 + batch + draw * s->options->gradient_check);
        good = fault_check_signal(f, "comparing gradients") &&
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
    for (uint64_t i = 0; good && i < o->gradient_check && i < s->steps_per_epoch; ++i) {
        const size_t count = session_count_at(s, i, o->train_limit);
        good = gradient_make(exact, exact->model, s->order + i * o->batch_size, count, f) &&
               compare_draws(s, exact, i, count, host, check, f);
        check->batches += good;
    }
    return good;
}

bool gradient_check_run(session *s, uint64_t epoch, gradient_check *check, fault *f)
{
    const size_t most = largest(s);
    const uint64_t draws = s->options->gradient_draws;
    *check = (gradient_check){.tensors = s->params_count, .draws = draws};
    if (s->options->gradient_check == 0)
        return true;
    pair host = {malloc(most * sizeof(float)), malloc(most * sizeof(float)),
        draws > 1 ? malloc(all_elements(s) * sizeof(double)) : NULL};
    check->sums = calloc(check->tensors, sizeof *check->sums);
    session exact = {0};
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

double gradient_cosine(const gradient_sums *sums)
{
    return sums->product / (sqrt(sums->got) * sqrt(sums->exact));
}

double gradient_projection(const gradient_sums *sums)
{
    return sums->product / sums->exact;
}

double gradient_relative_error(const gradient_sums *sums)
{
    return sqrt(sums->off) / sqrt(sums->exact);
}

/* sums->exact counts each batch once a draw. */
static double noise_squares(const gradient_sums *sums, uint64_t draws)
{
    return sums->spread * (double)draws / (double)(draws - 1) / sums->exact;
}

double gradient_noise(const gradient_sums *sums, uint64_t draws)
{
    return sqrt(noise_squares(sums, draws));
}

double gradient_bias(const gradient_sums *sums, uint64_t draws)
{
    const double squares = sums->off / sums->exact - noise_squares(sums, draws);
    return sqrt(squares < 0 ? 0 : squares);
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
        const gradient_sums *sums = &check->sums[i];
        (void)printf("%-46s %10.6f %10.6f %14.3e", s->params[i].name, gradient_cosine(sums),
            gradient_projection(sums), gradient_relative_error(sums));
        if (draws)
            (void)printf(" %10.3e %10.3e", gradient_bias(sums, check->draws),
                gradient_noise(sums, check->draws));
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
        json_open(j, s->params[i].name);
        json_real(j, "cosine", gradient_cosine(&check->sums[i]));
        json_real(j, "projection", gradient_projection(&check->sums[i]));
        json_real(j, "relative_error", gradient_relative_error(&check->sums[i]));
        json_real(j, "norm", sqrt(check->sums[i].exact / (double)check->draws));
        if (check->draws > 1) {
            json_real(j, "bias", gradient_bias(&check->sums[i], check->draws));
            json_real(j, "noise", gradient_noise(&check->sums[i], check->draws));
        }
        json_close(j);
    }
    json_close(j);
}
