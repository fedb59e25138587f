/* Steps, epochs, tests. */
#include "trainer/run/run.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "trainer/base/stop.h"
#include "trainer/run/run_ranks.h"

bool run_is_stopped(const training_run *r)
{
    return ranks_many(&r->s.options->ranks) ? r->stop : stop_signal() != 0;
}

/* Whether the run stops when so many more steps are done. */
static bool stops_after(const training_run *r, uint64_t steps)
{
    const uint64_t limit = r->s.options->steps;
    return run_is_stopped(r) || (limit != 0 && r->s.steps_here + steps >= limit);
}

bool run_must_stop(const training_run *r)
{
    return stops_after(r, 0);
}

/* The number of tests in the first `epochs` epochs. */
static uint64_t tests_until(const options *o, uint64_t epochs)
{
    if (o->test_every == 0)
        return epochs == o->epochs;
    return epochs / o->test_every + (epochs == o->epochs && epochs % o->test_every != 0);
}

static void show(training_run *r)
{
    session *s = &r->s;
    const options *o = s->options;
    /* without the first steps, which build the kernels */
    const meter *m = r->epoch.steps > 0 ? &r->epoch : &r->all;
    uint64_t steps_left = s->steps_per_epoch * o->epochs - session_rate_step(s);
    if (o->steps != 0 && o->steps - s->steps_here < steps_left)
        steps_left = o->steps - s->steps_here;
    const uint64_t tests_left =
        o->steps != 0 ? 0 : tests_until(o, o->epochs) - tests_until(o, r->at.epoch);
    const progress_values values = {
        .epoch = r->at.epoch + 1,
        .epochs = o->epochs,
        .step = r->at.step_in_epoch,
        .steps = s->steps_per_epoch,
        .loss = s->tally.sums.last,
        .speed = session_speed(s, m),
        .unit = trainer_words_of(s->type->tokens).speed,
        .step_ms = meter_step_ms(m),
        .eta = 1e-3 * meter_step_ms(m) * (double)steps_left + r->test_seconds * (double)tests_left,
    };
    progress_show(&r->progress, &values);
}

/* Waits for the steps enqueued so far; takes their time and their losses. `builds`: they built
 * kernels, so their time is left out. */
static bool catch_up(training_run *r, uint64_t *steps, uint64_t *samples, bool builds, fault *f)
{
    session *s = &r->s;
    if (*steps == 0)
        return true;
    if (!tally_read(&s->tally, f))
        return false;
    const double now = clock_seconds(), taken = now - r->mark;
    r->mark = now;
    if (!builds) {
        meter_add(&r->epoch, taken, *steps, *samples);
        meter_add(&r->all, taken, *steps, *samples);
    }
    *steps = *samples = 0;
    if (!s->tally.sums.finite)
        return fault_set(f, CODE_DIVERGED,
            "diverged: the loss of step %" PRIu64 " is no finite number (epoch %" PRIu64
            "); try a lower --lr, or --clip-norm 1; --check-finite 1 finds the layer",
            r->read_from + tally_bad_group(&s->tally), r->at.epoch + 1);
    return true;
}

static size_t train_count(const training_run *r)
{
    const options *o = r->s.options;
    return session_count_at(o->batch_size, r->at.step_in_epoch, o->train_limit);
}

/* Makes the batch of pass `index` of a step of the epoch. */
static bool make_pass(training_run *r, uint64_t step, size_t index, fault *f)
{
    session *s = &r->s;
    const options *o = s->options;
    const session_pass pass =
        session_pass_at(s, session_count_at(o->batch_size, step, o->train_limit), index);
    const augment_options augment = options_augment(o, r->at.epoch);
    const uint64_t skipped = dataset_skipped(s->data);
    if (index == 0)
        r->next_skipped = 0;
    if (pass.count == 0)
        return true;
    const bool good =
        feed_make(&s->feed, DATASET_TRAIN, s->order + step * o->batch_size + pass.first, pass.count,
            o->no_augment ? NULL : &augment, f);
    r->next_skipped += dataset_skipped(s->data) - skipped;
    return good;
}

/* fed: its batch was made; else it has no samples. */
static bool enqueue_pass(training_run *r, size_t index, bool fed, fault *f)
{
    session *s = &r->s;
    session_pass pass = session_pass_at(s, train_count(r), index);
    clprune_mat loss = CLPRUNE_NO_MAT, hit = CLPRUNE_NO_MAT;
    pass.count = fed ? pass.count : 0;
    if ((pass.count > 0 && !feed_send(&s->feed, f)) ||
        !tally_next(&s->tally, pass.count, &loss, &hit, f))
        return false;
    const clprune_status status = session_enqueue_pass(s, &pass, loss, hit);
    if (s->windows.fault.code != CODE_OK)
        *f = s->windows.fault;
    if (s->statistics.fault.code != CODE_OK)
        *f = s->statistics.fault;
    if (status == CLPRUNE_NOT_FINITE) /* of several ranks this one alone knows */
        return fault_set(f, ranks_many(&s->options->ranks) ? CODE_RUN : CODE_DIVERGED,
            "diverged: step %" PRIu64 ": %s", s->step + 1, fault_detail(s->context));
    return fault_check(f, s->context, status, "training") &&
           fault_check_cl(f, clFlush(clprune_context_queue(s->context)), "training");
}

/* Enqueues the passes of a step, the first of which is made. While the device works on one, the
 * next is made. *fed: each could be. */
static bool enqueue_passes(training_run *r, bool *fed, fault *f)
{
    const bool many = ranks_many(&r->s.options->ranks);
    const size_t passes = session_passes(&r->s);
    for (size_t i = 0; i < passes && (*fed || many); ++i) {
        if (!enqueue_pass(r, i, *fed, f))
            return false;
        *fed = *fed && (i + 1 == passes || make_pass(r, r->at.step_in_epoch, i + 1, f));
    }
    return true;
}

/* Tells the others whether this rank has a signal, and what it could not read; all take the same
 * decision. */
static bool agree(training_run *r, bool *fed, fault *f)
{
    const rank_group *all = &r->s.options->ranks;
    const double minutes = (double)r->s.options->checkpoint_minutes;
    const bool late = minutes > 0 && clock_seconds() - r->saved_at >= 60 * minutes;
    uint32_t words[] = {stop_signal() != 0, !*fed, late && all->at.rank == 0, stop_save_asked()};
    if (ranks_many(all) && !all->call->agree(all->group, words, 4, f))
        return false;
    r->save_asked = words[3] != 0;
    r->save_due = words[2] != 0 || r->save_asked;
    if (!ranks_many(all))
        return true;
    r->stop = words[0] != 0;
    if (words[1] != 0 && *fed)
        (void)fault_set(
            f, CODE_DATA, "%s", all->at.rank == 0 ? "a rank could not read its data" : "");
    *fed = words[1] == 0;
    r->agreed = !*fed;
    return true;
}

/* Waits for the sums of gradients; times this rank's own part apart. */
static bool add_ranks(training_run *r, fault *f)
{
    session *s = &r->s;
    if (!fault_check_cl(f, clFinish(clprune_context_queue(s->context)), "training"))
        return false;
    const double done = clock_seconds();
    if (!gradient_windows_finish(&s->windows, f))
        return false;
    r->pace.own += done - r->step_began;
    r->pace.waited += clock_seconds() - done;
    ++r->pace.steps;
    return true;
}

/* Ends a step whose passes are enqueued. *fed: they had all samples, on all ranks; if not, the step
 * is not done, and its losses do not count. */
static bool end_step(training_run *r, bool *fed, fault *f)
{
    session *s = &r->s;
    const tally_sums before = s->tally.sums;
    if ((ranks_many(&s->options->ranks) && (!add_ranks(r, f) || !tally_read(&s->tally, f))) ||
        !agree(r, fed, f))
        return false;
    if (*fed)
        return session_update(s, f) &&
               fault_check_cl(f, clFlush(clprune_context_queue(s->context)), "training");
    s->tally.sums = before;
    return true;
}

/* Waits for the first step of `count` samples. */
static bool wait_for_first(training_run *r, size_t count, fault *f)
{
    char step[64] = "first step";
    if (count < r->s.options->batch_size)
        (void)snprintf(step, sizeof step, "first step of %zu %s", count,
            trainer_words_of(r->s.type->tokens).samples);
    return session_wait(&r->s, step, f);
}

/* The last steps' losses and, with other ranks, what each of them has on its own. */
static bool end_epoch(training_run *r, fault *f)
{
    session *s = &r->s;
    r->at.sums = s->tally.sums;
    if (r->at.sums.samples > 0)
        r->train_loss = r->at.sums.loss / (double)r->at.sums.samples;
    return session_average_states(s, f) && run_ranks_pace(s->options, &r->pace, f);
}

/* A checkpoint within an epoch. */
static bool save_within(training_run *r, fault *f)
{
    if (!session_average_states(&r->s, f) || !run_compare(r, f) || !run_save(r, f))
        return false;
    if (r->save_asked)
        progress_say(&r->progress, "SIGUSR1: %s step %" PRIu64,
            r->checkpoint_path != NULL ? "last.ckpt is of" : "no folder for a checkpoint of",
            r->s.step);
    return true;
}

bool run_epoch(training_run *r, fault *f)
{
    session *s = &r->s;
    const options *o = s->options;
    const bool many = ranks_many(&o->ranks);
    uint64_t steps = 0, samples = 0; /* enqueued and not read back */
    bool made = false;               /* the next batch, or it was tried */
    bool fed = true;                 /* each batch could be made */
    bool builds = false;             /* the step that was enqueued last */
    double shown = clock_seconds();
    fault unmade = {0}; /* of the next batch */

    if (!session_set_rates(s, r->at.epoch, f))
        return false;
    dataset_shuffle(o->seed, (uint32_t)r->at.epoch, (uint32_t)o->train_limit, s->order);
    tally_reset(&s->tally, r->at.sums, options_passes(o));
    r->read_from = s->step;
    r->mark = shown;
    while (r->at.step_in_epoch < s->steps_per_epoch && !run_must_stop(r)) {
        const size_t count = train_count(r);
        bool *timed = count < o->batch_size ? &r->timed_smaller : &r->timed_whole;
        builds = !*timed;
        if ((builds || s->tally.used + options_passes(o) > s->tally.slots) &&
            !catch_up(r, &steps, &samples, false, f))
            return false;
        if (!made)
            fed = make_pass(r, r->at.step_in_epoch, 0, &unmade);
        if (!fed)
            *f = unmade;
        if (!fed && !many)
            break;
        *timed = true;
        r->step_began = clock_seconds();
        const size_t used = s->tally.used;
        if (!enqueue_passes(r, &fed, f) || (!many && !end_step(r, &fed, f)))
            return false;
        const uint64_t skipped = r->next_skipped;
        /* Before anything is waited for: the device works meanwhile. */
        made = fed && r->at.step_in_epoch + 1 < s->steps_per_epoch && !stops_after(r, 1);
        const bool next = !made || make_pass(r, r->at.step_in_epoch + 1, 0, &unmade);
        if (many && !end_step(r, &fed, f))
            return false;
        if (!fed) {
            tally_drop(&s->tally, many ? 0 : s->tally.used - used);
            break;
        }
        fed = next;
        r->at.skipped += skipped;
        ++r->at.step_in_epoch;
        ++s->step;
        ++s->steps_here;
        ++steps;
        samples += count;
        /* The first step of each size is timed alone. Later ones are read back together: each
         * reading makes the device wait for the host. With other ranks each step has waited. */
        const double now = clock_seconds();
        if (builds || many || r->save_due || now - shown >= 0.5) {
            if ((builds && !wait_for_first(r, count, f)) ||
                !catch_up(r, &steps, &samples, builds, f))
                return false;
            r->at.sums = s->tally.sums;
            if (r->save_due && !save_within(r, f))
                return false;
        }
        if (builds || now - shown >= 0.5) {
            shown = now;
            if (progress_due(&r->progress))
                show(r);
        }
    }
    fault unread = {0}; /* worse than data: what was done is not known, so it is not saved */
    if (!catch_up(r, &steps, &samples, builds, &unread) || !end_epoch(r, &unread)) {
        *f = unread;
        return false;
    }
    return f->code == CODE_OK;
}

bool run_tests_at(const training_run *r, uint64_t epochs)
{
    const options *o = r->s.options;
    return epochs == o->epochs || (o->test_every != 0 && epochs % o->test_every == 0);
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

static bool evaluate(training_run *r, fault *f)
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
        if (!agree(r, &fed, f) || !fed)
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
    r->test_seconds = clock_seconds() - start;
    r->at.skipped += dataset_skipped(s->data) - skipped; /* a test that was stopped is made again */
    return true;
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

bool run_finish_epoch(training_run *r, fault *f)
{
    session *s = &r->s;
    const meter *m = r->epoch.steps > 0 ? &r->epoch : &r->all;
    char speed[96];
    run_speed_text(r, m, "  ", speed, sizeof speed);
    const bool tested = run_tests_at(r, r->at.epoch + 1);
    char test[160] = "";
    if (!tested)
        r->test_loss = r->top1 = (double)NAN;
    else
        run_test_text(r, "  ", test, sizeof test);
    const csv_row row = {
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
    };
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
    return csv_log_add(&r->log, &row, f) && tensorboard_add(&r->board, &row, f) && keep_best(r, f);
}
