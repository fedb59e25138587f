/* Making a plan. */
#include "trainer/memory/memory_plan.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "trainer/base/try.h"

/* A run without a device; the parts of its first step are noted as they are enqueued. */
typedef struct dry_run {
    session s;
    memory_plan *plan;
} dry_run;

static void watch(void *user, const char *part)
{
    const dry_run *run = user;
    memory_plan *plan = run->plan;
    if (plan->parts_count == plan->parts_room) {
        const size_t room = 2 * plan->parts_room;
        memory_part *more = realloc(plan->parts, room * sizeof *more);
        if (more == NULL)
            return; /* the part before goes on */
        plan->parts = more;
        plan->parts_room = room;
    }
    memory_part *made = &plan->parts[plan->parts_count++];
    made->first = clprune_context_commands(run->s.context);
    (void)snprintf(made->name, sizeof made->name, "%s", part);
}

static bool enqueue_pass(dry_run *run, const session_pass *pass, fault *f)
{
    session *s = &run->s;
    const bool tokens = s->type->tokens;
    char doing[160];
    (void)snprintf(doing, sizeof doing,
        "planning a pass over %zu of %zu-%s %s (--batch-size %" PRIu64 ", --train-limit %" PRIu64
        ")",
        pass->count, tokens ? s->sizes.context : s->sizes.image, tokens ? "token" : "pixel",
        trainer_words_of(tokens).samples, s->options->batch_size, s->options->train_limit);
    const clprune_status status =
        session_enqueue_pass(s, pass, clprune_mat_rows(s->tally.loss, 0, pass->count),
            clprune_mat_rows(s->tally.hit, 0, pass->count));
    if (status == CLPRUNE_INVALID_ARGUMENT) {
        run->plan->refused = true;
        return fault_set(f, CODE_USAGE, "%s: %s", doing, fault_detail(s->context));
    }
    return fault_check(f, s->context, status, doing) && (!pass->last || session_update(s, f));
}

/* Enqueues the kinds of step of an epoch: one of a whole batch, if there is one, and the smaller
 * last one. */
static bool enqueue_steps(dry_run *run, fault *f)
{
    session *s = &run->s;
    const options *o = s->options;
    const size_t passes = session_passes(s);
    const size_t batch = (size_t)o->batch_size, left = (size_t)(o->train_limit % batch);
    const size_t counts[] = {o->train_limit < batch ? 0 : batch, left};
    for (int i = 0; i < 2; ++i) {
        for (size_t p = 0; counts[i] > 0 && p < passes; ++p) {
            const session_pass pass = session_pass_at(s, counts[i], p);
            if (pass.last && run->plan->commands == 0) /* of the first step */
                session_watch(s, (trainer_watcher){watch, run});
            if (!enqueue_pass(run, &pass, f))
                return false;
        }
        if (counts[i] > 0 && run->plan->commands == 0) {
            run->plan->commands = clprune_context_commands(s->context);
            run->plan->programs = clprune_context_cache_stats(s->context).builds;
            session_watch(s, (trainer_watcher){0});
        }
    }
    return true;
}

/* The same of tests, in passes. */
static clprune_status enqueue_tests(dry_run *run)
{
    session *s = &run->s;
    const size_t pass = options_pass(s->options), images = (size_t)s->options->test_limit;
    const size_t counts[] = {images < pass ? 0 : pass, images % pass};
    for (int i = 0; i < 2; ++i)
        if (counts[i] > 0) {
            const bool first = run->plan->commands == 0; /* the run only tests */
            if (first)
                session_watch(s, (trainer_watcher){watch, run});
            for (size_t v = 0; v < options_views_count(s->options); ++v)
                TRY(session_enqueue_test(s, counts[i], v,
                    clprune_mat_rows(s->tally.loss, 0, counts[i]),
                    clprune_mat_rows(s->tally.hit, 0, counts[i])));
            if (first)
                run->plan->commands = clprune_context_commands(s->context);
            session_watch(s, (trainer_watcher){0});
        }
    return CLPRUNE_SUCCESS;
}

bool memory_plan_make(
    const session *s, const clprune_device_info *device, memory_plan *plan, fault *f)
{
    dry_run run = {.s = session_beside(s), .plan = plan};
    const clprune_context_options wanted = {.precision = s->context != NULL
                                                             ? clprune_context_precision(s->context)
                                                             : options_precision(s->options)};
    const size_t parts = 64;
    *plan = (memory_plan){.parts = calloc(parts, sizeof *plan->parts), .parts_room = parts};
    bool good = plan->parts != NULL || fault_set(f, CODE_MEMORY, "out of memory");
    good = good && fault_check_signal(f, "planning memory");
    good = good && fault_check(f, NULL, clprune_context_create_dry(device, &wanted, &run.s.context),
                       "planning memory");
    good = good && session_create_feed(&run.s, f) &&
           fault_check(f, run.s.context, clprune_plan_begin(run.s.context), "planning memory") &&
           session_create_model(&run.s, f);
    if (good) {
        plan->only_tests = session_only_tests(&run.s);
        plan->first = clprune_context_commands(run.s.context);
        good = (plan->only_tests || enqueue_steps(&run, f)) &&
               fault_check(f, run.s.context, enqueue_tests(&run), "planning memory") &&
               fault_check(f, run.s.context, clprune_plan_create(run.s.context, &plan->plan),
                   "planning memory");
    }
    plan->totals = clprune_plan_sizes(plan->plan);
    for (int i = 0; good && i < CLPRUNE_MEMORY_CATEGORIES; ++i)
        plan->live[i] = clprune_memory_query(run.s.context, (clprune_memory_category)i).live;
    session_close(&run.s);
    if (!good)
        memory_plan_close(plan);
    return good;
}

void memory_plan_close(memory_plan *plan)
{
    const bool refused = plan->refused;
    clprune_plan_destroy(plan->plan);
    free(plan->parts);
    *plan = (memory_plan){.refused = refused};
}

uint64_t memory_plan_bytes(const memory_plan *plan)
{
    return plan->totals.arena_bytes + plan->totals.other_bytes;
}
