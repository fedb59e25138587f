#include "trainer/run/gradient_check.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "trainer/run/try.h"

/* The same model with everything kept dense. */
typedef struct twin {
    clprune_context *context;
    void *model;
    clprune_param *params;
    batch_feed feed;
    tally tally;
} twin;

/* Host memory: two gradients of one tensor; the mean over a batch's draws of all tensors, one after
 * the other. */
typedef struct pair {
    float *got, *exact;
    double *means; /* NULL with one draw */
} pair;

/* Elements of the largest parameter or state. */
static size_t largest(const trainer *t)
{
    size_t most = 0, states = 0;
    const trainer_state *state =
        t->type->states != NULL ? t->type->states(t->model, &states) : NULL;
    for (size_t i = 0; i < states; ++i) {
        const size_t count = state[i].mat.rows * state[i].mat.cols;
        most = count > most ? count : most;
    }
    for (size_t i = 0; i < t->params_count; ++i) {
        const clprune_mat value = t->params[i].value;
        const size_t count = value.rows * value.cols;
        most = count > most ? count : most;
    }
    return most;
}

/* Elements of all parameters. */
static size_t all_elements(const trainer *t)
{
    size_t count = 0;
    for (size_t i = 0; i < t->params_count; ++i)
        count += t->params[i].value.rows * t->params[i].value.cols;
    return count;
}

static bool copy_mat(
    const trainer *t, clprune_mat from, const twin *exact, clprune_mat to, float *host, fault *f)
{
    return fault_check(
               f, t->context, clprune_mat_read(t->context, from, host), "reading a parameter") &&
           fault_check(f, exact->context, clprune_mat_write(exact->context, to, host),
               "copying a parameter");
}

static bool copy_parameters(const trainer *t, const twin *exact, float *host, fault *f)
{
    bool good = true;
    for (size_t i = 0; good && i < t->params_count; ++i)
        good = copy_mat(t, t->params[i].value, exact, exact->params[i].value, host, f);
    return good;
}

/* States that are no parameters decide on the passes, too. */
static bool copy_states(const trainer *t, const twin *exact, float *host, fault *f)
{
    size_t count;
    bool good = true;
    if (t->type->states == NULL)
        return true;
    const trainer_state *from = t->type->states(t->model, &count);
    const trainer_state *to = t->type->states(exact->model, &count);
    for (size_t i = 0; good && i < count; ++i)
        good = copy_mat(t, from[i].mat, exact, to[i].mat, host, f);
    return good;
}

static bool open_twin(const trainer *t, twin *exact, fault *f)
{
    const keep_table *table = t->type->keep;
    const size_t batch = (size_t)t->options->batch_size, blocks = t->sizes.blocks;
    const clprune_context_options wanted = {.device = t->options->device};
    const keep_how how = {0};
    size_t count;
    keep_rule *dense = malloc(keep_rules_count(table, blocks) * sizeof *dense);
    bool good = dense != NULL || fault_set(f, CODE_MEMORY, "out of memory");
    if (good)
        keep_preset_rules(table, 0, &how, blocks, dense);
    good = good &&
           fault_check(f, NULL, clprune_context_create(NULL, &wanted, &exact->context),
               "opening the device for --gradient-check") &&
           fault_check(f, exact->context,
               t->type->create(exact->context, &t->sizes, dense, batch, &exact->model),
               "creating the model of --gradient-check") &&
           feed_open(exact->context, t->data, batch, &exact->feed, f) &&
           tally_open(exact->context, batch, &exact->tally, f);
    if (good)
        exact->params = t->type->params(exact->model, &count);
    free(dense);
    return good;
}

static void close_twin(const trainer *t, twin *exact)
{
    tally_close(&exact->tally);
    feed_close(&exact->feed);
    t->type->destroy(exact->model);
    clprune_context_destroy(exact->context);
}

static clprune_status passes(const trainer *t, void *model, const batch_feed *feed, size_t count,
    clprune_mat loss, clprune_mat hit)
{
    clprune_status status = CLPRUNE_SUCCESS;
    const float smoothing = (float)t->options->label_smoothing;
    TRY(t->type->forward(model, count, feed->images, true));
    TRY(t->type->loss(model, count, feed->labels, smoothing, loss, hit));
    TRY(t->type->backward(model, count, feed->images, feed->labels, smoothing));
    TRY(clprune_plan_end_step(feed->context));
done:
    return status;
}

bool gradient_make(const trainer *t, void *model, batch_feed *feed, tally *losses,
    const uint32_t *indices, size_t count, fault *f)
{
    clprune_mat loss, hit;
    tally_reset(losses, tally_zero);
    return feed_batch(feed, DATASET_TRAIN, indices, count, NULL, f) &&
           tally_next(losses, count, &loss, &hit, f) &&
           fault_check(
               f, feed->context, passes(t, model, feed, count, loss, hit), "--gradient-check");
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

static bool compare(const trainer *t, const twin *exact, uint64_t draw, const pair *host,
    gradient_check *check, fault *f)
{
    size_t elements = 0;
    for (size_t i = 0; i < check->tensors; ++i) {
        const clprune_mat got = t->params[i].grad, want = exact->params[i].grad;
        if (!fault_check(f, t->context, clprune_mat_read(t->context, got, host->got),
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
static bool compare_draws(trainer *t, const twin *exact, uint64_t batch, size_t count,
    const pair *host, gradient_check *check, fault *f)
{
    const uint32_t *indices = t->order + batch * t->options->batch_size;
    bool good = true;
    for (uint64_t draw = 0; good && draw < check->draws; ++draw) {
        t->type->set_seed(t->model, 1 + batch + draw * t->options->gradient_check);
        good = fault_check_signal(f, "comparing gradients") &&
               gradient_make(t, t->model, &t->feed, &t->tally, indices, count, f) &&
               compare(t, exact, draw, host, check, f);
    }
    return good;
}

static bool compare_batches(
    trainer *t, twin *exact, const pair *host, gradient_check *check, fault *f)
{
    const options *o = t->options;
    const uint64_t wanted = o->gradient_check;
    bool good = true;
    dataset_shuffle(o->seed, (uint32_t)t->at.epoch, (uint32_t)o->train_limit, t->order);
    for (uint64_t i = 0; good && i < wanted && i < t->steps_per_epoch; ++i) {
        const uint64_t first = i * o->batch_size, left = o->train_limit - first;
        const size_t count = (size_t)(left < o->batch_size ? left : o->batch_size);
        good = gradient_make(
                   t, exact->model, &exact->feed, &exact->tally, t->order + first, count, f) &&
               compare_draws(t, exact, i, count, host, check, f);
        check->batches += good;
    }
    return good;
}

bool gradient_check_run(trainer *t, gradient_check *check, fault *f)
{
    const size_t most = largest(t);
    const uint64_t draws = t->options->gradient_draws;
    *check = (gradient_check){.tensors = t->params_count, .draws = draws};
    if (t->options->gradient_check == 0)
        return true;
    pair host = {malloc(most * sizeof(float)), malloc(most * sizeof(float)),
        draws > 1 ? malloc(all_elements(t) * sizeof(double)) : NULL};
    check->sums = calloc(check->tensors, sizeof *check->sums);
    twin exact = {0};
    bool good = host.got != NULL && host.exact != NULL && check->sums != NULL &&
                (draws == 1 || host.means != NULL);
    if (!good)
        (void)fault_set(f, CODE_MEMORY, "no memory for %zu gradients", check->tensors);
    good = good && open_twin(t, &exact, f) && copy_parameters(t, &exact, host.exact, f) &&
           copy_states(t, &exact, host.exact, f) && compare_batches(t, &exact, &host, check, f);
    if (!good)
        check->batches = 0; /* sums of a part */
    close_twin(t, &exact);
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

void gradient_check_print(const gradient_check *check, const trainer *t)
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
        (void)printf("%-46s %10.6f %10.6f %14.3e", t->params[i].name, gradient_cosine(sums),
            gradient_projection(sums), gradient_relative_error(sums));
        if (draws)
            (void)printf(" %10.3e %10.3e", gradient_bias(sums, check->draws),
                gradient_noise(sums, check->draws));
        (void)printf("\n");
    }
}

void gradient_check_json(const gradient_check *check, const trainer *t, json *j)
{
    if (check->batches == 0)
        return;
    json_open(j, "gradient_check");
    json_count(j, "batches", check->batches);
    json_count(j, "draws", check->draws);
    for (size_t i = 0; i < check->tensors; ++i) {
        json_open(j, t->params[i].name);
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
