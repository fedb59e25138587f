/* Making a plan. */
#include "trainer/memory/memory_plan.h"

#include <stdlib.h>

#include "trainer/run/try.h"

/* A run without a device; the parts of its first step are noted as they are enqueued. */
typedef struct dry_run {
    trainer t;
    memory_plan *plan;
} dry_run;

static void watch(void *user, const char *part, size_t block)
{
    const dry_run *run = user;
    memory_plan *plan = run->plan;
    if (plan->parts_count < plan->parts_room)
        plan->parts[plan->parts_count++] =
            (memory_part){part, block, clprune_context_commands(run->t.context)};
}

typedef clprune_status enqueue(trainer *t, size_t count, clprune_mat loss, clprune_mat hit);

/* Enqueues the kinds of step of an epoch over `images`: one of a whole batch, if there is one, and
 * the smaller last one. */
static clprune_status enqueue_epoch(dry_run *run, enqueue *part, uint64_t images)
{
    clprune_status status = CLPRUNE_SUCCESS;
    trainer *t = &run->t;
    const uint64_t batch = t->options->batch_size;
    const size_t counts[] = {images < batch ? 0 : (size_t)batch, (size_t)(images % batch)};
    for (int i = 0; i < 2; ++i) {
        const size_t count = counts[i];
        if (count == 0)
            continue;
        TRY(part(t, count, clprune_mat_rows(t->tally.loss, 0, count),
            clprune_mat_rows(t->tally.hit, 0, count)));
        if (run->plan->commands == 0) {
            run->plan->commands = clprune_context_commands(t->context);
            run->plan->programs = clprune_context_cache_stats(t->context).builds;
        }
        trainer_watch(t, NULL, NULL); /* only the first step is watched */
    }
done:
    return status;
}

/* Every kind of step that the run will take. */
static clprune_status enqueue_all(dry_run *run)
{
    clprune_status status = CLPRUNE_SUCCESS;
    const options *o = run->t.options;
    TRY(enqueue_epoch(run, trainer_enqueue_step, o->train_limit));
    TRY(enqueue_epoch(run, trainer_enqueue_test, o->test_limit));
done:
    return status;
}

static void close_dry(trainer *t)
{
    tally_close(&t->tally);
    feed_close(&t->feed);
    clprune_optimizer_destroy(t->optimizer);
    t->type->destroy(t->model);
    free(t->rules);
    clprune_context_destroy(t->context);
}

bool memory_plan_make(
    const trainer *t, const clprune_device_info *device, memory_plan *plan, fault *f)
{
    dry_run run = {
        .t = {.options = t->options, .data = t->data, .type = t->type, .sizes = t->sizes},
        .plan = plan};
    const clprune_context_options wanted = {.precision = t->context != NULL
                                                             ? clprune_context_precision(t->context)
                                                             : options_precision(t->options)};
    const size_t parts = 2 * t->sizes.blocks + 16;
    *plan = (memory_plan){.parts = calloc(parts, sizeof *plan->parts), .parts_room = parts};
    bool good = plan->parts != NULL || fault_set(f, CODE_MEMORY, "out of memory");
    good = good && fault_check_signal(f, "planning memory");
    good = good && fault_check(f, NULL, clprune_context_create_dry(device, &wanted, &run.t.context),
                       "planning memory");
    good = good && trainer_create_feed(&run.t, f) &&
           fault_check(f, run.t.context, clprune_plan_begin(run.t.context), "planning memory") &&
           trainer_create_model(&run.t, f);
    if (good) {
        trainer_watch(&run.t, watch, &run);
        good = fault_check(f, run.t.context, enqueue_all(&run), "planning memory") &&
               fault_check(f, run.t.context, clprune_plan_create(run.t.context, &plan->plan),
                   "planning memory");
    }
    plan->totals = clprune_plan_sizes(plan->plan);
    for (int i = 0; good && i < CLPRUNE_MEMORY_CATEGORIES; ++i)
        plan->live[i] = clprune_memory_query(run.t.context, (clprune_memory_category)i).live;
    close_dry(&run.t);
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
