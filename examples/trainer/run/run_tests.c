/* Tests, and the rows of the log. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "trainer/run/run.h"
#include "trainer/run/run_ranks.h"

bool run_tests_at(const training_run *r, uint64_t epochs)
{
    const options *o = r->s.options;
    return epochs == o->epochs || (o->test_every != 0 && epochs % o->test_every == 0) ||
           (o->test_steps != 0 && r->s.step % o->test_steps == 0);
}

bool run_tests_within(const training_run *r, uint64_t step_in_epoch)
{
    const session *s = &r->s;
    const uint64_t every = s->options->test_steps;
    const uint64_t step = s->step - r->at.step_in_epoch + step_in_epoch;
    const csv_row *last = r->log.count > 0 ? &r->log.rows[r->log.count - 1] : NULL;
    return every != 0 && step % every == 0 && step_in_epoch > 0 &&
           step_in_epoch < s->steps_per_epoch && (last == NULL || last->step < (double)step);
}

/* All views of the tests `order` (count). *fed: they could be made. */
static bool enqueue_test(session *s, const uint32_t *order, size_t count, clprune_mat loss,
    clprune_mat hit, bool first, bool *fed, fault *f)
{
    const size_t views = options_views_count(s->options);
    for (size_t v = 0; v < views && *fed; ++v) {
        const augment_options moved = {.reflects = true, .fixed = &augment_views(views)[v].move};
        *fed = feed_batch(&s->feed, DATASET_TEST, order, count, views > 1 ? &moved : NULL, f);
        if (*fed &&
            !(fault_check(f, s->context, session_enqueue_test(s, count, v, loss, hit), "testing") &&
                fault_check_cl(f, clFlush(clprune_context_queue(s->context)), "testing")))
            return false;
    }
    return !*fed || !first || s->steps_here > 0 || session_wait(s, "first test step", f);
}

static bool test_all(training_run *r, fault *f)
{
    session *s = &r->s;
    const options *o = s->options;
    const double start = clock_seconds();
    const uint64_t skipped = dataset_skipped(s->data);
    for (uint32_t i = 0; i < (uint32_t)o->test_limit; ++i)
        s->order[i] = i;
    const rank_group *all = &o->ranks;
    const size_t pass = options_pass(o), many = ranks_many(all) ? (size_t)all->at.ranks : 1;
    bool fed = true;
    tally_reset(&s->tally, tally_zero, many);
    for (uint64_t i = many > 1 ? (size_t)all->at.rank : 0, first = 0;; i += many, first += many) {
        const uint64_t at = i * pass;
        const size_t count = at < o->test_limit ? session_count_at(pass, i, o->test_limit) : 0;
        clprune_mat loss, hit;
        if (!run_agree(r, &fed, f) || !fed)
            return false;
        if (first * pass >= o->test_limit)
            break;
        if (run_is_stopped(r))
            return true;
        if (!tally_next(&s->tally, count, &loss, &hit, f))
            return false;
        if ((count > 0 && !enqueue_test(s, s->order + at, count, loss, hit, first == 0, &fed, f)) ||
            (!fed && many == 1))
            return false;
        if (r->iou.classes > 0)
            iou_add(&r->iou, count * s->feed.sample.labels, s->pixels, feed_labels(&s->feed));
    }
    if (!tally_read(&s->tally, f))
        return false;
    const tally_sums *sums = &s->tally.sums;
    if (!sums->finite)
        return fault_set(f, CODE_DIVERGED,
            "diverged: the loss on the test %s is no finite number (after step %" PRIu64
            "); try a lower --lr, or --clip-norm 1",
            trainer_words_of(s->type->tokens).samples, s->step);
    r->test_loss = sums->loss / (double)sums->samples;
    r->top1 = 100.0 * (double)sums->hits / ((double)sums->samples * (double)s->feed.sample.labels);
    r->mean_iou = r->iou.classes > 0 ? iou_mean(&r->iou, &r->iou_classes) : (double)NAN;
    r->test_seconds = clock_seconds() - start;
    r->at.skipped += dataset_skipped(s->data) - skipped; /* a test that was stopped is made again */
    return true;
}

static bool evaluate(training_run *r, fault *f)
{
    const session *s = &r->s;
    const bool good =
        (s->pixels == NULL || iou_open(s->sizes.classes, &r->iou, f)) && test_all(r, f);
    iou_close(&r->iou);
    return good;
}

bool run_evaluate(training_run *r, fault *f)
{
    fault second = {0};
    if (!session_swap_means(&r->s, f))
        return false;
    const bool good = evaluate(r, f), swapped = session_swap_means(&r->s, &second);
    if (good && !swapped)
        *f = second;
    return good && swapped;
}

double run_perplexity(const training_run *r)
{
    return trainer_predicts_tokens(r->s.type) ? exp(r->test_loss) : (double)NAN;
}

double run_bits_per_byte(const training_run *r)
{
    return dataset_is_text(r->s.data) ? r->test_loss / log(2) : (double)NAN;
}

void run_test_text(const training_run *r, const char *gap, char *text, size_t size)
{
    (void)snprintf(text, size, "test loss %.4f", r->test_loss);
    if (trainer_predicts_tokens(r->s.type))
        options_append(text, size, "%sperplexity %.2f", gap, run_perplexity(r));
    if (dataset_is_text(r->s.data))
        options_append(text, size, "%s%.3f bits a byte", gap, run_bits_per_byte(r));
    options_append(text, size, "%stop-1 %.2f %%", gap, r->top1);
    if (!isnan(r->mean_iou))
        options_append(text, size, "%smean IoU %.2f %%", gap, r->mean_iou);
    if (!isnan(r->mean_iou) && r->iou_classes < r->s.sizes.classes)
        options_append(text, size, " of %zu of %zu classes", r->iou_classes, r->s.sizes.classes);
}

void run_speed_text(const training_run *r, const meter *m, const char *gap, char *text, size_t size)
{
    text[0] = '\0';
    if (m->steps > 0)
        (void)snprintf(text, size, "%s%.1f %s%s%.1f ms/step", gap, session_speed(&r->s, m),
            trainer_words_of(r->s.type->tokens).speed, gap, meter_step_ms(m));
}

csv_best run_best(const training_run *r)
{
    return csv_log_best(&r->log, trainer_predicts_tokens(r->s.type));
}

void run_best_text(const training_run *r, char *text, size_t size)
{
    const csv_row *row = run_best(r).row;
    if (row == NULL)
        (void)snprintf(text, size, "no test");
    else if (trainer_predicts_tokens(r->s.type))
        (void)snprintf(text, size, "test loss %.4f after step %.0f", row->test_loss, row->step);
    else
        (void)snprintf(text, size, "top-1 %.2f %% after step %.0f", row->top1, row->step);
}

bool run_is_over(const training_run *r)
{
    const options *o = r->s.options;
    return o->patience > 0 && run_best(r).since >= o->patience;
}

/* After a row of the log: a checkpoint, if its test is the best one. */
static bool keep_best(training_run *r, fault *f)
{
    const csv_row *best = run_best(r).row;
    if (!r->s.options->best || best == NULL || best != &r->log.rows[r->log.count - 1])
        return true;
    return run_compare(r, f) && run_save_best(r, f);
}

/* The row of what is done of the present epoch. */
static csv_row row_now(const training_run *r, const meter *m)
{
    const session *s = &r->s;
    return (csv_row){
        .epoch = (double)(r->at.epoch + 1),
        .step = (double)s->step,
        .lr = learning_rate_at(&s->rate, session_rate_step(s) - 1),
        .train_loss = r->train_loss,
        .test_loss = r->test_loss,
        .top1 = r->top1,
        .speed = session_speed(s, m),
        .step_ms = meter_step_ms(m),
        .seconds = r->at.seconds + clock_seconds() - r->began,
        .saved_activation_bytes = (double)s->saved_activation_bytes,
        .peak_bytes = (double)session_peak_bytes(s),
        .grad_norm =
            r->at.sums.norms > 0 ? r->at.sums.norm / (double)r->at.sums.norms : (double)NAN,
    };
}

/* Adds a row, and keeps its checkpoint if it has the best test. */
static bool add_row(training_run *r, const csv_row *row, fault *f)
{
    return csv_log_add(&r->log, row, f) && tensorboard_add(&r->board, row, f) && keep_best(r, f);
}

/* Without the first steps, which build the kernels. */
static const meter *meter_of(const training_run *r)
{
    return r->epoch.steps > 0 ? &r->epoch : &r->all;
}

bool run_test_within(training_run *r, fault *f)
{
    if (!run_evaluate(r, f) || run_is_stopped(r)) /* the resumed run makes the test */
        return f->code == CODE_OK;
    char test[160];
    run_test_text(r, "  ", test, sizeof test);
    r->train_loss = r->at.sums.loss / (double)r->at.sums.samples;
    const csv_row row = row_now(r, meter_of(r));
    progress_say(&r->progress,
        "epoch %" PRIu64 "/%" PRIu64 "  step %" PRIu64 "/%" PRIu64 "  train loss %.4f  %s",
        r->at.epoch + 1, r->s.options->epochs, r->at.step_in_epoch, r->s.steps_per_epoch,
        r->train_loss, test);
    return add_row(r, &row, f);
}

bool run_finish_epoch(training_run *r, fault *f)
{
    session *s = &r->s;
    const meter *m = meter_of(r);
    char speed[96];
    run_speed_text(r, m, "  ", speed, sizeof speed);
    const bool tested = run_tests_at(r, r->at.epoch + 1);
    char test[160] = "";
    if (!tested)
        r->test_loss = r->top1 = r->mean_iou = (double)NAN;
    else
        run_test_text(r, "  ", test, sizeof test);
    const csv_row row = row_now(r, m);
    r->at.epoch += 1;
    r->at.step_in_epoch = 0;
    r->at.sums = tally_zero;
    r->epoch = (meter){0};
    if (s->steps_here <= s->steps_per_epoch && r->at.epoch < s->options->epochs)
        r->all = (meter){0}; /* the first epoch warms up */
    char pace[160] = "";
    if (r->pace.slowest_ms > 0)
        (void)snprintf(pace, sizeof pace,
            "  ranks: %.1f ms, slowest %.1f (rank %d), then waiting %.1f", r->pace.median_ms,
            r->pace.slowest_ms, r->pace.slowest, r->pace.waited_ms);
    progress_say(&r->progress, "epoch %" PRIu64 "/%" PRIu64 "  train loss %.4f%s%s%s  %.0f s%s",
        r->at.epoch, s->options->epochs, r->train_loss, tested ? "  " : "", test, speed,
        row.seconds, pace);
    return add_row(r, &row, f);
}
