/* Steps and epochs. */
#include "trainer/run/run.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "trainer/run/run_ranks.h"

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
    const uint64_t tests_left = o->steps != 0
                                    ? 0
                                    : tests_until(o, o->epochs) - tests_until(o, r->at.epoch) +
                                          (o->test_steps != 0 ? steps_left / o->test_steps : 0);
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

/* Counts the labels of a step, of which its passes may have unequal parts. */
static bool count_labels(training_run *r, uint64_t step, const augment_options *augment, fault *f)
{
    const options *o = r->s.options;
    fault uncounted = {0};
    r->next_labels = 0;
    if (options_passes(o) > 1)
        (void)dataset_count_labels(r->s.data, DATASET_TRAIN, r->s.order + step * o->batch_size,
            session_count_at(o->batch_size, step, o->train_limit), augment, &r->next_labels,
            &uncounted);
    return feed_check(f, &uncounted);
}

/* Makes the batch of pass `index` of a step of the epoch. */
static bool make_pass(training_run *r, uint64_t step, size_t index, fault *f)
{
    session *s = &r->s;
    const options *o = s->options;
    const session_pass pass =
        session_pass_at(s, session_count_at(o->batch_size, step, o->train_limit), index);
    const augment_options augment = options_augment(o, r->at.epoch),
                          *moves = o->no_augment ? NULL : &augment;
    const uint64_t skipped = dataset_skipped(s->data);
    if (index == 0)
        r->next_skipped = 0;
    if (index == 0 && !count_labels(r, step, moves, f))
        return false;
    if (pass.count == 0)
        return true;
    const bool good = feed_make(&s->feed, DATASET_TRAIN,
        s->order + step * o->batch_size + pass.first, pass.count, moves, f);
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
    if (pass.count > 0 && r->next_labels > 0) {
        const size_t labels = pass.count * s->feed.sample.labels;
        pass.part =
            (double)dataset_labels_counted(feed_labels(&s->feed), labels) / (double)r->next_labels;
        tally_weigh(&s->tally, pass.part * (double)pass.of / (double)pass.count);
    }
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
        !run_agree(r, fed, f))
        return false;
    if (*fed)
        return session_update(s, f) &&
               fault_check_cl(f, clFlush(clprune_context_queue(s->context)), "training");
    const tally_sums after = s->tally.sums;
    s->tally.sums = before;
    s->tally.sums.norm = after.norm; /* of the steps before */
    s->tally.sums.norms = after.norms;
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

/* r->at has all of the steps done. */
static bool settle(training_run *r, fault *f)
{
    const bool good = tally_read_norms(&r->s.tally, f);
    r->at.sums = r->s.tally.sums;
    return good;
}

/* The last steps' losses and, with other ranks, what each of them has on its own. */
static bool end_epoch(training_run *r, fault *f)
{
    session *s = &r->s;
    if (!settle(r, f))
        return false;
    if (r->at.sums.samples > 0)
        r->train_loss = r->at.sums.loss / (double)r->at.sums.samples;
    return session_average_states(s, f) && run_ranks_pace(s->options, &r->pace, f);
}

/* A checkpoint within an epoch. */
static bool save_within(training_run *r, fault *f)
{
    if (!settle(r, f) || !session_average_states(&r->s, f) || !run_compare(r, f) || !run_save(r, f))
        return false;
    if (r->save_asked)
        progress_say(&r->progress, "SIGUSR1: %s step %" PRIu64,
            r->checkpoint_path != NULL ? "last.ckpt is of" : "no folder for a checkpoint of",
            r->s.step);
    return true;
}

/* The epoch's order and the tally of what is done of it. */
static void begin_steps(training_run *r)
{
    session *s = &r->s;
    const options *o = s->options;
    dataset_shuffle(o->seed, (uint32_t)r->at.epoch, (uint32_t)o->train_limit, s->order);
    tally_reset(&s->tally, r->at.sums, options_passes(o));
    r->read_from = s->step;
    r->mark = clock_seconds();
}

/* A test within the epoch, whose steps were read back. */
static bool test_within(training_run *r, fault *f)
{
    if (!settle(r, f) || !session_average_states(&r->s, f) || !run_test_within(r, f))
        return false;
    begin_steps(r);
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
    begin_steps(r);
    while (r->at.step_in_epoch < s->steps_per_epoch && !run_must_stop(r) && !run_is_over(r)) {
        if (run_tests_within(r, r->at.step_in_epoch)) {
            if (!catch_up(r, &steps, &samples, false, f) || !test_within(r, f))
                return false;
            continue; /* it may end the run */
        }
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
        made = fed && r->at.step_in_epoch + 1 < s->steps_per_epoch && !stops_after(r, 1) &&
               !run_tests_within(r, r->at.step_in_epoch + 1); /* which takes its place */
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
