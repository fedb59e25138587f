/* Steps, epochs, tests. */
#include "trainer/run/trainer.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "trainer/data/rng.h"
#include "trainer/run/stop.h"
#include "trainer/run/try.h"

bool trainer_must_stop(const trainer *t)
{
    const uint64_t limit = t->options->steps;
    return stop_signal() != 0 || (limit != 0 && t->steps_here >= limit);
}

void trainer_watch(trainer *t, trainer_watch_fn *watch, void *user)
{
    t->watch = watch;
    t->watch_user = user;
    t->type->watch(t->model, watch, user);
}

static void begin_part(const trainer *t, const char *part)
{
    if (t->watch != NULL)
        t->watch(t->watch_user, part, 0);
}

clprune_status trainer_enqueue_step(trainer *t, size_t count, clprune_mat loss, clprune_mat hit)
{
    clprune_status status = CLPRUNE_SUCCESS;
    const options *o = t->options;
    const float smoothing = (float)o->label_smoothing;
    const float lr = (float)learning_rate_at(&t->rate, t->at.step);

    const rng_domain domain = t->streams == 1 ? RNG_INIT : RNG_PRUNE;
    rng r = rng_open(o->seed, domain, (uint32_t)t->at.step, (uint32_t)(t->at.step >> 32));
    const uint64_t high = rng_next(&r);
    t->type->set_seed(t->model, high << 32 | rng_next(&r));
    TRY(t->type->forward(t->model, count, t->feed.images, true));
    begin_part(t, "loss");
    TRY(t->type->loss(t->model, count, t->feed.labels, smoothing, loss, hit));
    t->saved_activation_bytes = clprune_memory_query(t->context, CLPRUNE_MEMORY_ACTIVATIONS).live;
    TRY(t->type->backward(t->model, count, t->feed.images, t->feed.labels, smoothing));
    begin_part(t, "update");
    if (o->clip_norm > 0)
        TRY(clprune_optimizer_clip(t->optimizer, (float)o->clip_norm, CLPRUNE_NO_MAT, NULL));
    TRY(clprune_optimizer_step(t->optimizer, lr, NULL));
    TRY(clprune_plan_end_step(t->context));
done:
    return status;
}

clprune_status trainer_enqueue_test(trainer *t, size_t count, clprune_mat loss, clprune_mat hit)
{
    clprune_status status = CLPRUNE_SUCCESS;
    TRY(t->type->forward(t->model, count, t->feed.images, false));
    TRY(t->type->loss(t->model, count, t->feed.labels, 0.0f, loss, hit));
    TRY(clprune_plan_end_step(t->context));
done:
    return status;
}

/* Images of a step: the last one of an epoch may have fewer. */
static size_t count_at(uint64_t index, uint64_t batch, uint64_t images)
{
    const uint64_t left = images - index * batch;
    return (size_t)(left < batch ? left : batch);
}

/* The number of tests in the first `epochs` epochs. */
static uint64_t tests_until(const options *o, uint64_t epochs)
{
    if (o->test_every == 0)
        return epochs == o->epochs;
    return epochs / o->test_every + (epochs == o->epochs && epochs % o->test_every != 0);
}

static void show(trainer *t)
{
    const options *o = t->options;
    /* without the first steps, which build the kernels */
    const meter *m = t->epoch.steps > 0 ? &t->epoch : &t->all;
    uint64_t steps_left = t->steps_per_epoch * o->epochs - t->at.step;
    if (o->steps != 0 && o->steps - t->steps_here < steps_left)
        steps_left = o->steps - t->steps_here;
    const uint64_t tests_left =
        o->steps != 0 ? 0 : tests_until(o, o->epochs) - tests_until(o, t->at.epoch);
    const progress_values values = {
        .epoch = t->at.epoch + 1,
        .epochs = o->epochs,
        .step = t->at.step_in_epoch,
        .steps = t->steps_per_epoch,
        .loss = t->tally.sums.last,
        .images_per_second = meter_images_per_second(m),
        .step_ms = meter_step_ms(m),
        .eta = 1e-3 * meter_step_ms(m) * (double)steps_left + t->test_seconds * (double)tests_left,
    };
    progress_show(&t->progress, &values);
}

/* Waits for the steps enqueued so far; takes their time and their losses. `builds`: they built
 * kernels, so their time is left out. */
static bool catch_up(trainer *t, uint64_t *steps, uint64_t *images, bool builds, fault *f)
{
    if (*steps == 0)
        return true;
    if (!tally_read(&t->tally, f))
        return false;
    const double now = clock_seconds(), taken = now - t->mark;
    t->mark = now;
    if (builds) {
        meter_add(&t->first, taken, *steps, *images);
    } else {
        meter_add(&t->epoch, taken, *steps, *images);
        meter_add(&t->all, taken, *steps, *images);
    }
    *steps = *images = 0;
    if (!t->tally.sums.finite)
        return fault_set(f, CODE_DIVERGED,
            "diverged: the loss is no finite number (epoch %" PRIu64 ", by step %" PRIu64
            "); try a lower --lr, or --clip-norm 1",
            t->at.epoch + 1, t->at.step);
    return true;
}

static size_t train_count(const trainer *t)
{
    return count_at(t->at.step_in_epoch, t->options->batch_size, t->options->train_limit);
}

/* Makes the batch of the next step of the epoch. */
static bool make_batch(trainer *t, fault *f)
{
    const options *o = t->options;
    const augment_options augment = {.seed = o->seed, .epoch = (uint32_t)t->at.epoch};
    const uint64_t skipped = dataset_skipped(t->data);
    const bool good =
        feed_make(&t->feed, DATASET_TRAIN, t->order + t->at.step_in_epoch * o->batch_size,
            train_count(t), o->no_augment ? NULL : &augment, f);
    t->next_skipped = dataset_skipped(t->data) - skipped;
    return good;
}

/* Waits for the first step of `count` images. */
static bool wait_for_first(trainer *t, size_t count, fault *f)
{
    char step[64] = "first step";
    if (count < t->options->batch_size)
        (void)snprintf(step, sizeof step, "first step of %zu images", count);
    return trainer_wait(t, step, f);
}

bool trainer_epoch(trainer *t, fault *f)
{
    const options *o = t->options;
    uint64_t steps = 0, images = 0; /* enqueued and not read back */
    bool made = false;              /* the next batch */
    bool fed = true;                /* each batch could be made */
    bool builds = false;            /* the step that was enqueued last */
    double shown = clock_seconds();

    dataset_shuffle(o->seed, (uint32_t)t->at.epoch, (uint32_t)o->train_limit, t->order);
    tally_reset(&t->tally, t->at.sums);
    t->mark = shown;
    while (t->at.step_in_epoch < t->steps_per_epoch && !trainer_must_stop(t)) {
        const size_t count = train_count(t);
        bool *timed = count < o->batch_size ? &t->timed_smaller : &t->timed_whole;
        clprune_mat loss, hit;
        builds = !*timed;
        if ((builds || t->tally.used == TALLY_SLOTS) && !catch_up(t, &steps, &images, false, f))
            return false;
        if (!made && !(fed = make_batch(t, f)))
            break;
        *timed = true;
        if (!feed_send(&t->feed, f) || !tally_next(&t->tally, count, &loss, &hit, f) ||
            !fault_check(f, t->context, trainer_enqueue_step(t, count, loss, hit), "training") ||
            !fault_check_cl(f, clFlush(clprune_context_queue(t->context)), "training"))
            return false;
        t->at.skipped += t->next_skipped;
        ++t->at.step_in_epoch;
        ++t->at.step;
        ++t->steps_here;
        ++steps;
        images += count;
        /* Before the losses are read: the device works meanwhile. */
        made = t->at.step_in_epoch < t->steps_per_epoch && !trainer_must_stop(t);
        if (made && !(fed = make_batch(t, f)))
            break;
        /* The first step of each size is timed alone. Later ones are read back together: each
         * reading makes the device wait for the host. */
        const double now = clock_seconds();
        if (builds || now - shown >= 0.5) {
            if ((builds && !wait_for_first(t, count, f)) ||
                !catch_up(t, &steps, &images, builds, f))
                return false;
            shown = now;
            if (progress_due(&t->progress))
                show(t);
        }
    }
    fault unread = {0}; /* worse than data: what was done is not known, so it is not saved */
    if (!catch_up(t, &steps, &images, builds, &unread)) {
        *f = unread;
        return false;
    }
    t->at.sums = t->tally.sums;
    if (t->at.sums.images > 0)
        t->train_loss = t->at.sums.loss / (double)t->at.sums.images;
    return fed;
}

bool trainer_tests_at(const trainer *t, uint64_t epochs)
{
    const options *o = t->options;
    return epochs == o->epochs || (o->test_every != 0 && epochs % o->test_every == 0);
}

bool trainer_test(trainer *t, fault *f)
{
    const options *o = t->options;
    const double start = clock_seconds();
    const uint64_t skipped = dataset_skipped(t->data);
    for (uint32_t i = 0; i < (uint32_t)o->test_limit; ++i)
        t->order[i] = i;
    tally_reset(&t->tally, tally_zero);
    for (uint64_t i = 0; i * o->batch_size < o->test_limit; ++i) {
        const size_t count = count_at(i, o->batch_size, o->test_limit);
        clprune_mat loss, hit;
        if (stop_signal() != 0)
            return true;
        if (!feed_batch(&t->feed, DATASET_TEST, t->order + i * o->batch_size, count, NULL, f) ||
            !tally_next(&t->tally, count, &loss, &hit, f) ||
            !fault_check(f, t->context, trainer_enqueue_test(t, count, loss, hit), "testing") ||
            !fault_check_cl(f, clFlush(clprune_context_queue(t->context)), "testing") ||
            (i == 0 && t->steps_here == 0 && !trainer_wait(t, "first test step", f)))
            return false;
    }
    if (!tally_read(&t->tally, f))
        return false;
    const tally_sums *sums = &t->tally.sums;
    if (!sums->finite)
        return fault_set(f, CODE_DIVERGED,
            "diverged: the loss on the test images is no finite number (after step %" PRIu64
            "); try a lower --lr, or --clip-norm 1",
            t->at.step);
    t->test_loss = sums->loss / (double)sums->images;
    t->top1 = 100.0 * (double)sums->hits / (double)sums->images;
    t->test_seconds = clock_seconds() - start;
    t->at.skipped += dataset_skipped(t->data) - skipped; /* a test that was stopped is made again */
    return true;
}

bool trainer_finish_epoch(trainer *t, fault *f)
{
    const meter *m = t->epoch.steps > 0 ? &t->epoch : trainer_meter(t);
    const bool tested = trainer_tests_at(t, t->at.epoch + 1);
    char test[96] = "";
    if (!tested)
        t->test_loss = t->top1 = (double)NAN;
    else
        (void)snprintf(test, sizeof test, "test loss %.4f  top-1 %.2f %%  ", t->test_loss, t->top1);
    const csv_row row = {
        .epoch = (double)(t->at.epoch + 1),
        .step = (double)t->at.step,
        .lr = learning_rate_at(&t->rate, t->at.step - 1),
        .train_loss = t->train_loss,
        .test_loss = t->test_loss,
        .top1 = t->top1,
        .images_per_second = meter_images_per_second(m),
        .step_ms = meter_step_ms(m),
        .seconds = t->at.seconds + clock_seconds() - t->began,
        .saved_activation_bytes = (double)t->saved_activation_bytes,
        .peak_bytes = (double)trainer_peak_bytes(t),
    };
    t->at.epoch += 1;
    t->at.step_in_epoch = 0;
    t->at.sums = tally_zero;
    t->epoch = (meter){0};
    if (t->steps_here <= t->steps_per_epoch && t->at.epoch < t->options->epochs)
        t->all = (meter){0}; /* the first epoch warms up */
    progress_say(&t->progress,
        "epoch %" PRIu64 "/%" PRIu64 "  train loss %.4f  %s%.1f img/s  %.1f ms/step  %.0f s",
        t->at.epoch, t->options->epochs, t->train_loss, test, row.images_per_second, row.step_ms,
        row.seconds);
    return csv_log_add(&t->log, &row, f) && tensorboard_add(&t->board, &row, f);
}
