#include "clprune/plan.h"

#include <stdlib.h>
#include <string.h>

#include "core/checked.h"
#include "runtime/context/check.h"
#include "runtime/context/context_private.h"
#include "runtime/launch/backend.h"
#include "runtime/launch/program_cache.h"
#include "runtime/launch/record.h"
#include "runtime/memory/ledger.h"
#include "runtime/memory/plan_private.h"
#include "runtime/memory/scratch.h"

uint64_t clprune_context_commands(const clprune_context *context)
{
    ENTER_QUIETLY(context);
    return context != NULL && context->record != NULL ? context->record->commands : 0;
}

clprune_status clprune_buffer_forget(clprune_context *context, cl_mem buffer)
{
    ENTER_CONTEXT(context);
    if (buffer != NULL)
        TRY(context->backend->forget(context, buffer));
    return CLPRUNE_SUCCESS;
}

clprune_status clprune_buffer_window(
    clprune_context *context, cl_mem buffer, cl_mem *whole, size_t *origin)
{
    ENTER_CONTEXT(context);
    size_t bytes;
    REQUIRE(buffer != NULL && whole != NULL && origin != NULL, CLPRUNE_INVALID_ARGUMENT,
        "buffer, whole or origin is NULL");
    TRY(context->backend->size(context, "buffer", buffer, &bytes));
    const clprune__window window = clprune__window_of(buffer);
    *whole = window.whole;
    *origin = window.origin;
    return CLPRUNE_SUCCESS;
}

bool clprune__memory_is_planned(const clprune_context *context)
{
    return context->record != NULL ? context->record->begun : context->arena->places != NULL;
}

clprune_status clprune_plan_begin(clprune_context *context)
{
    ENTER_CONTEXT(context);
    REQUIRE(context->record != NULL, CLPRUNE_INVALID_ARGUMENT,
        "the context is not dry; use one from clprune_context_create_dry");
    REQUIRE(!context->record->begun, CLPRUNE_INVALID_ARGUMENT,
        "clprune_plan_begin was called before; take a new dry context for another plan");
    for (size_t i = 0; i < context->ledger->count; i++)
        clprune__record_add_label(context, context->ledger->entries[i].buffer);
    context->record->begun = true;
    context->record->planned_from = context->ledger->created;
    return CLPRUNE_SUCCESS;
}

clprune_status clprune_plan_end_step(clprune_context *context)
{
    ENTER_CONTEXT(context);
    for (size_t i = 0; i < context->ledger->count; i++) {
        clprune__ledger_entry *entry = &context->ledger->entries[i];
        entry->is_live = false;
        if (entry->planned)
            TRY(context->backend->forget(context, entry->buffer));
    }
    return CLPRUNE_SUCCESS;
}

/* Whether the plan places an entry: activations and workspace since clprune_plan_begin. Not
 * scratch, which has the bottom of the arena, and no buffer with the label of one that is not
 * planned, which could take its place. Nor one that is larger than a slab. bytes: of the entry's
 * buffer. */
static bool is_planned(const clprune_context *context, const clprune_plan *plan,
    const clprune__ledger_entry *entry, uint64_t bytes)
{
    const clprune__label label = {entry->category, entry->name, bytes};
    const bool dies = entry->category == CLPRUNE_MEMORY_ACTIVATIONS ||
                      entry->category == CLPRUNE_MEMORY_WORKSPACE;
    return dies && !entry->is_own && bytes <= plan->slab_bytes &&
           entry->number >= context->record->planned_from &&
           !clprune__scratch_owns(context, entry->buffer) &&
           !clprune__record_has_label(context->record, label);
}

/* A copy of `bytes` bytes, at least one; NULL without memory. */
static void *copy_of(const void *from, size_t bytes)
{
    void *to = malloc(clprune__max(bytes, 1));
    if (to != NULL && bytes > 0)
        memcpy(to, from, bytes);
    return to;
}

static uint64_t most(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static clprune_status copy_entry(clprune_context *context, const clprune__ledger_entry *from,
    uint64_t bytes, clprune__planned *to)
{
    to->entry = (clprune_plan_entry){.category = from->category,
        .name = strdup(from->name),
        .bytes = bytes,
        .spans = copy_of(from->spans, from->spans_count * sizeof *from->spans),
        .spans_count = from->spans_count};
    REQUIRE(to->entry.name != NULL && to->entry.spans != NULL, CLPRUNE_OUT_OF_HOST_MEMORY,
        "no memory for the plan entry of %s", from->name);
    REQUIRE(bytes <= SIZE_MAX / 2, CLPRUNE_SIZE_OVERFLOW, "%s is too large to plan", from->name);
    to->room = clprune__round_up(clprune__max((size_t)bytes, 1), CLPRUNE__ARENA_ALIGN);
    const clprune__record *record = context->record;
    uint64_t floor = from->spans_count == 0 ? context->scratch->most : 0;
    for (size_t i = 0; i < from->spans_count; i++)
        for (uint64_t k = from->spans[i].first; k <= from->spans[i].last; k++)
            floor = most(floor, record->scratch[k]);
    to->floor = clprune__round_up((size_t)floor, CLPRUNE__ARENA_ALIGN);
    return CLPRUNE_SUCCESS;
}

/* Slabs are as large as the device's largest buffer, and what src/ops can index if scratch fits
 * that. Scratch lies in the first one. */
static clprune_status choose_slab(clprune_context *context, clprune_plan *plan)
{
    const uint64_t largest = context->facts.max_allocation; /* 0: not known */
    plan->slab_bytes = largest < CLPRUNE__ARENA_ALIGN ? UINT64_MAX : largest;
    if (context->most_slab < plan->slab_bytes && context->most_slab > plan->totals.scratch_bytes)
        plan->slab_bytes = context->most_slab;
    plan->slab_bytes -= plan->slab_bytes % CLPRUNE__ARENA_ALIGN;
    REQUIRE(plan->totals.scratch_bytes <= plan->slab_bytes, CLPRUNE_OUT_OF_DEVICE_MEMORY,
        "operations borrow %llu bytes of scratch at once, but the device's largest buffer has %llu "
        "bytes; make the batch smaller, or run without a plan",
        (unsigned long long)plan->totals.scratch_bytes, (unsigned long long)largest);
    return CLPRUNE_SUCCESS;
}

/* Sets totals.live_bytes, the most bytes in use at once, and totals.buffer_bytes. */
static clprune_status sum_up(clprune_context *context, clprune_plan *plan)
{
    clprune_status status = CLPRUNE_SUCCESS;
    const uint64_t commands = plan->totals.commands;
    uint64_t *change = calloc((size_t)commands + 1, sizeof *change), live = 0;
    REQUIRE_DONE(change != NULL, CLPRUNE_OUT_OF_HOST_MEMORY,
        "no memory for a plan of %llu commands", (unsigned long long)commands);
    for (size_t i = 0; i < plan->count; i++) {
        const clprune_plan_entry *entry = &plan->buffers[i].entry;
        plan->totals.buffer_bytes += entry->bytes;
        for (size_t k = 0; k < entry->spans_count; k++) {
            change[entry->spans[k].first] += entry->bytes;
            change[entry->spans[k].last + 1] -= entry->bytes;
        }
    }
    for (uint64_t k = 0; k < commands; k++) {
        live += change[k]; /* `change` may wrap, `live` is never below 0 */
        plan->totals.live_bytes = most(plan->totals.live_bytes, live + plan->scratch[k]);
    }
    plan->totals.buffer_bytes += plan->totals.scratch_bytes;
done:
    free(change);
    return status;
}

clprune_status clprune_plan_create(clprune_context *context, clprune_plan **out)
{
    ENTER_CREATE(context, out);
    clprune_status status = CLPRUNE_SUCCESS;
    clprune_plan *plan = NULL;
    REQUIRE_DONE(out != NULL, CLPRUNE_INVALID_ARGUMENT, "plan is NULL");
    REQUIRE_DONE(context != NULL, CLPRUNE_INVALID_ARGUMENT, "context is NULL");
    REQUIRE_DONE(context->record != NULL && context->record->begun, CLPRUNE_INVALID_ARGUMENT,
        "the context is not dry, or clprune_plan_begin was not called");
    const clprune__record *record = context->record;
    clprune__ledger *ledger = context->ledger;
    REQUIRE_DONE(!record->lost, CLPRUNE_OUT_OF_HOST_MEMORY,
        "no memory for the labels of buffers that are not planned");
    plan = calloc(1, sizeof *plan);
    REQUIRE_DONE(plan != NULL, CLPRUNE_OUT_OF_HOST_MEMORY, "no memory for a plan");
    plan->totals.commands = record->commands;
    plan->totals.scratch_bytes = context->scratch->most;
    TRY_DONE(choose_slab(context, plan));
    plan->scratch = copy_of(record->scratch, (size_t)record->commands * sizeof *record->scratch);
    plan->work = copy_of(record->work, (size_t)record->commands * sizeof *record->work);
    plan->buffers = calloc(clprune__max(ledger->count, 1), sizeof *plan->buffers);
    plan->setup = strdup(context->setup);
    plan->programs = clprune__programs_noted(context);
    REQUIRE_DONE(plan->scratch != NULL && plan->work != NULL && plan->buffers != NULL &&
                     plan->setup != NULL && plan->programs != NULL,
        CLPRUNE_OUT_OF_HOST_MEMORY, "no memory for a plan of %zu buffers", ledger->count);
    for (size_t i = 0; i < ledger->count; i++) {
        const clprune__ledger_entry *entry = &ledger->entries[i];
        if (clprune__ledger_next(ledger, entry->buffer, NULL) != entry)
            continue; /* its buffer was seen */
        const uint64_t bytes = clprune__ledger_bytes(ledger, entry->buffer);
        if (is_planned(context, plan, entry, bytes))
            TRY_DONE(copy_entry(context, entry, bytes, &plan->buffers[plan->count++]));
        else if (!clprune__scratch_owns(context, entry->buffer))
            plan->totals.other_bytes += bytes;
    }
    TRY_DONE(sum_up(context, plan));
    TRY_DONE(clprune__plan_place(context, plan));
    *out = plan;
    plan = NULL;
done:
    clprune_plan_destroy(plan);
    return status;
}

void clprune_plan_destroy(clprune_plan *plan)
{
    if (plan == NULL)
        return;
    for (size_t i = 0; i < plan->count; i++) {
        free((void *)plan->buffers[i].entry.name);
        free((void *)plan->buffers[i].entry.spans);
    }
    free(plan->buffers);
    free(plan->scratch);
    free(plan->work);
    free(plan->setup);
    free(plan->programs);
    free(plan);
}

clprune_plan_totals clprune_plan_sizes(const clprune_plan *plan)
{
    return plan != NULL ? plan->totals : (clprune_plan_totals){0};
}

void clprune_plan_visit(const clprune_plan *plan,
    void (*visit)(void *user, const clprune_plan_entry *entry), void *user)
{
    for (size_t i = 0; plan != NULL && visit != NULL && i < plan->count; i++)
        visit(user, &plan->buffers[i].entry);
}

uint64_t clprune_plan_scratch(const clprune_plan *plan, uint64_t command)
{
    return plan != NULL && command < plan->totals.commands ? plan->scratch[command] : 0;
}

clprune_plan_work clprune_plan_command(const clprune_plan *plan, uint64_t command)
{
    return plan != NULL && command < plan->totals.commands ? plan->work[command]
                                                           : (clprune_plan_work){.kernel = ""};
}
