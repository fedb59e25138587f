/* Making a plan. */
#include "trainer/memory/memory_plan.h"

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

typedef clprune_status enqueue(session *s, size_t count, clprune_mat loss, clprune_mat hit);

/* Enqueues the kinds of step of an epoch over `images`: one of a whole batch, if there is one, and
 * the smaller last one. */
static clprune_status enqueue_epoch(dry_run *run, enqueue *part, uint64_t images)
{
    session *s = &run->s;
    const uint64_t batch = s->options->batch_size;
    const size_t counts[] = {images < batch ? 0 : (size_t)batch, (size_t)(images % batch)};
    for (int i = 0; i < 2; ++i) {
        const size_t count = counts[i];
        if (count == 0)
            continue;
        TRY(part(s, count, clprune_mat_rows(s->tally.loss, 0, count),
            clprune_mat_rows(s->tally.hit, 0, count)));
        if (run->plan->commands == 0) {
            run->plan->commands = clprune_context_commands(s->context);
            run->plan->programs = clprune_context_cache_stats(s->context).builds;
        }
        session_watch(s, (trainer_watcher){0}); /* only the first step is watched */
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
        session_watch(&run.s, (trainer_watcher){watch, &run});
        good = fault_check(f, run.s.context,
                   enqueue_epoch(&run, session_enqueue_step, s->options->train_limit),
                   "planning memory") &&
               fault_check(f, run.s.context,
                   enqueue_epoch(&run, session_enqueue_test, s->options->test_limit),
                   "planning memory") &&
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
    clprune_plan_destroy(plan->plan);
    free(plan->parts);
    *plan = (memory_plan){0};
}

uint64_t memory_plan_bytes(const memory_plan *plan)
{
    return plan->totals.arena_bytes + plan->totals.other_bytes;
}
