#include "runtime/memory/ledger.h"

#include <stdlib.h>
#include <string.h>

#include "core/checked.h"
#include "runtime/context/check.h"
#include "runtime/context/context_private.h"
#include "runtime/launch/backend.h"
#include "runtime/memory/arena.h"
#include "runtime/memory/transfer.h"

const char *clprune_memory_category_name(clprune_memory_category category)
{
    switch (category) {
#define CATEGORY_NAME(name, number, text)                                                          \
    case name:                                                                                     \
        return text;
        CLPRUNE_MEMORY_CATEGORY_LIST(CATEGORY_NAME)
#undef CATEGORY_NAME
    case CLPRUNE_MEMORY_CATEGORIES:
        break;
    case CLPRUNE_MEMORY_TOTAL:
        return "total";
    }
    return "unknown";
}

static void book(clprune_memory_usage *usage, uint64_t bytes)
{
    usage->live += bytes;
    usage->count++;
    if (usage->live > usage->peak)
        usage->peak = usage->live;
}

static void unbook(clprune_memory_usage *usage, uint64_t bytes)
{
    usage->live -= bytes;
    usage->count--;
}

/* Makes room for `more` entries. */
static bool reserve(clprune__ledger *ledger, size_t more)
{
    if (more <= ledger->capacity - ledger->count)
        return true;
    size_t capacity, bytes;
    if (!clprune__add(2 * ledger->count, clprune__max(more, 64), &capacity) ||
        !clprune__mul(capacity, sizeof *ledger->entries, &bytes))
        return false;
    clprune__ledger_entry *entries = realloc(ledger->entries, bytes);
    if (entries == NULL)
        return false;
    ledger->entries = entries;
    ledger->capacity = capacity;
    return true;
}

static void free_entries(clprune__ledger_entry *entries, size_t count)
{
    for (size_t i = 0; entries != NULL && i < count; i++)
        free(entries[i].name);
    free(entries);
}

/* Entries for the parts, or NULL. */
static clprune__ledger_entry *make_entries(
    clprune_memory_category category, size_t count, const clprune__ledger_part *parts)
{
    clprune__ledger_entry *entries = calloc(count, sizeof *entries);
    for (size_t i = 0; entries != NULL && i < count; i++) {
        entries[i].name = strdup(parts[i].name);
        entries[i].bytes = parts[i].bytes;
        entries[i].category = category;
        if (entries[i].name == NULL) {
            free_entries(entries, i);
            return NULL;
        }
    }
    return entries;
}

/* Fails unless `bytes` more fit into the budget. */
static clprune_status check_budget(
    clprune_context *context, const char *name, size_t count, size_t bytes)
{
    const uint64_t limit = context->ledger->limit;
    const uint64_t live = context->ledger->total.live;
    REQUIRE(live <= limit && bytes <= limit - live, CLPRUNE_OUT_OF_DEVICE_MEMORY,
        "%s%s needs %zu bytes of device memory, but %llu of %llu bytes are in use; %s", name,
        count > 1 ? " and the matrices in its buffer" : "", bytes, (unsigned long long)live,
        (unsigned long long)limit,
        limit < context->facts.global_memory
            ? "make the batch smaller, or raise options.mem_limit or CLPRUNE_MEM_LIMIT"
            : "the device has no more: make the batch smaller");
    return CLPRUNE_SUCCESS;
}

static clprune_status create(clprune_context *context, clprune_memory_category category,
    size_t count, const clprune__ledger_part *parts, bool is_own, cl_mem *buffer)
{
    clprune_status status = CLPRUNE_SUCCESS;
    /* Added to the ledger at the end: the allocator and the log are the caller's, and may create
     * and release buffers. */
    clprune__ledger_entry *entries = NULL;
    cl_mem place = NULL, made = NULL;
    bool planned = false;
    REQUIRE_DONE(buffer != NULL, CLPRUNE_INVALID_ARGUMENT, "buffer is NULL");
    *buffer = NULL;
    REQUIRE_DONE(context != NULL, CLPRUNE_INVALID_ARGUMENT, "context is NULL");
    REQUIRE_DONE((unsigned)category < CLPRUNE_MEMORY_CATEGORIES, CLPRUNE_INVALID_ARGUMENT,
        "category is %d, expected a clprune_memory_category", (int)category);
    size_t bytes = 0;
    for (size_t i = 0; i < count; i++) {
        const char *name = parts[i].name;
        REQUIRE_DONE(name != NULL, CLPRUNE_INVALID_ARGUMENT, "name is NULL");
        REQUIRE_DONE(clprune__add(bytes, parts[i].bytes, &bytes), CLPRUNE_SIZE_OVERFLOW,
            "the bytes of %zu buffers, up to %s, overflow size_t", i + 1, name);
    }
    const char *first = parts[0].name;
    clprune__ledger *ledger = context->ledger;
    clprune_memory_usage *total = &ledger->total;
    entries = make_entries(category, count, parts);
    REQUIRE_DONE(entries != NULL && reserve(ledger, count), CLPRUNE_OUT_OF_HOST_MEMORY,
        "no memory to book %s", first);
    /* From here on nothing fails that has a place. */
    if (!is_own)
        TRY_DONE(clprune__arena_take(context, category, first, bytes, &place, &planned));
    if (place == NULL)
        TRY_DONE(check_budget(context, first, count, bytes));
    cl_int code = CL_SUCCESS;
    const bool quiet = context->quiet;
    context->quiet = false; /* the failures of the caller's own calls in the allocator are heard */
    if (place == NULL)
        made = context->allocator.allocate(
            context->allocator.user, context->cl, clprune__max(bytes, 1), &code);
    context->quiet = quiet;
    REQUIRE_DONE(code != CL_INVALID_BUFFER_SIZE, CLPRUNE_OUT_OF_DEVICE_MEMORY,
        "the allocator made no buffer of %zu bytes for %s: %s (%d); the device's largest buffer "
        "has %llu: make the batch smaller",
        bytes, first, clprune__cl_name(code), (int)code,
        (unsigned long long)context->facts.max_allocation);
    REQUIRE_DONE(place != NULL || (made != NULL && code == CL_SUCCESS),
        code == CL_SUCCESS ? CLPRUNE_OUT_OF_DEVICE_MEMORY : clprune__cl_status(code),
        "the allocator made no buffer of %zu bytes for %s: %s (%d); %llu of %llu bytes are in use",
        bytes, first, code == CL_SUCCESS ? "it returned NULL" : clprune__cl_name(code), (int)code,
        (unsigned long long)total->live, (unsigned long long)ledger->limit);
    if (place == NULL) /* the allocator may have created buffers of this context */
        TRY_DONE(check_budget(context, first, count, bytes));
    REQUIRE_DONE(reserve(ledger, count), CLPRUNE_OUT_OF_HOST_MEMORY, "no memory to book %s", first);
    if (context->poison && made != NULL)
        TRY_DONE(clprune__transfer_poison(context, made, 0, bytes));
    *buffer = place != NULL ? place : made;
    for (size_t i = 0; i < count; i++) {
        clprune__ledger_entry *entry = &ledger->entries[ledger->count++];
        *entry = entries[i];
        entries[i].name = NULL;
        entry->buffer = *buffer;
        entry->placed = place != NULL;
        entry->planned = planned;
        entry->is_own = is_own;
        entry->number = ledger->created++;
        book(&ledger->usage[category], entry->bytes);
        if (place == NULL)
            book(total, entry->bytes);
    }
    place = made = NULL;
done:
    free_entries(entries, count);
    clprune__arena_free(place);
    if (made != NULL)
        context->allocator.release(context->allocator.user, made);
    return status;
}

clprune_status clprune__buffer_create_shared(clprune_context *context,
    clprune_memory_category category, size_t count, const clprune__ledger_part *parts,
    cl_mem *buffer)
{
    return create(context, category, count, parts, false, buffer);
}

clprune_status clprune__buffer_create(clprune_context *context, clprune_memory_category category,
    const char *name, size_t bytes, cl_mem *buffer)
{
    return create(context, category, 1, &(clprune__ledger_part){name, bytes}, false, buffer);
}

clprune_status clprune__buffer_create_own(clprune_context *context,
    clprune_memory_category category, const char *name, size_t bytes, cl_mem *buffer)
{
    return create(context, category, 1, &(clprune__ledger_part){name, bytes}, true, buffer);
}

clprune_status clprune_buffer_create(clprune_context *context, clprune_memory_category category,
    const char *name, size_t bytes, cl_mem *buffer)
{
    ENTER_CREATE(context, buffer);
    return clprune__buffer_create_own(context, category, name, bytes, buffer);
}

void clprune__buffer_release(clprune_context *context, cl_mem buffer)
{
    if (context == NULL || buffer == NULL || clprune__is_forked(context))
        return;
    clprune__ledger *ledger = context->ledger;
    context->backend->released(context, buffer);
    size_t kept = 0;
    bool placed = false;
    for (size_t i = 0; i < ledger->count; i++) {
        const clprune__ledger_entry entry = ledger->entries[i];
        if (entry.buffer != buffer) {
            ledger->entries[kept++] = entry;
            continue;
        }
        unbook(&ledger->usage[entry.category], entry.bytes);
        placed = entry.placed;
        if (!placed)
            unbook(&ledger->total, entry.bytes);
        free(entry.name);
        free(entry.spans);
    }
    const bool known = kept < ledger->count;
    ledger->count = kept;
    if (placed)
        clprune__arena_free(buffer);
    else if (known)
        context->allocator.release(context->allocator.user, buffer);
}

void clprune_buffer_release(clprune_context *context, cl_mem buffer)
{
    ENTER_QUIETLY(context);
    clprune__buffer_release(context, buffer);
}

clprune_memory_usage clprune_memory_query(
    const clprune_context *context, clprune_memory_category category)
{
    ENTER_QUIETLY(context);
    if (context != NULL && category == CLPRUNE_MEMORY_TOTAL)
        return context->ledger->total;
    if (context == NULL || (unsigned)category >= CLPRUNE_MEMORY_CATEGORIES)
        return (clprune_memory_usage){0};
    return context->ledger->usage[category];
}

void clprune_memory_reset_peak(clprune_context *context)
{
    ENTER_QUIETLY(context);
    if (context == NULL)
        return;
    for (int i = 0; i < CLPRUNE_MEMORY_CATEGORIES; i++)
        context->ledger->usage[i].peak = context->ledger->usage[i].live;
    context->ledger->total.peak = context->ledger->total.live;
}

void clprune_memory_visit(const clprune_context *context,
    void (*visit)(void *user, const clprune_memory_entry *entry), void *user)
{
    ENTER_QUIETLY(context);
    if (context == NULL || visit == NULL || clprune__is_forked(context))
        return;
    for (size_t i = 0; i < context->ledger->count; i++) {
        const clprune__ledger_entry *booked = &context->ledger->entries[i];
        const clprune_memory_entry entry = {booked->category, booked->name, booked->bytes};
        visit(user, &entry);
    }
}

static clprune_status touch(
    clprune_context *context, clprune__ledger_entry *entry, uint64_t command)
{
    if (entry->is_live) {
        entry->spans[entry->spans_count - 1].last = command;
        return CLPRUNE_SUCCESS;
    }
    if (entry->spans_count == entry->spans_capacity) {
        const size_t capacity = 2 * entry->spans_capacity + 4;
        clprune_plan_span *spans = realloc(entry->spans, capacity * sizeof *spans);
        REQUIRE(spans != NULL, CLPRUNE_OUT_OF_HOST_MEMORY, "no memory for the lives of %s",
            entry->name);
        entry->spans = spans;
        entry->spans_capacity = capacity;
    }
    entry->spans[entry->spans_count++] = (clprune_plan_span){command, command};
    entry->is_live = true;
    return CLPRUNE_SUCCESS;
}

clprune__ledger_entry *clprune__ledger_next(
    clprune__ledger *ledger, cl_mem buffer, const clprune__ledger_entry *last)
{
    const size_t from = last != NULL ? (size_t)(last - ledger->entries) + 1 : 0;
    for (size_t i = from; i < ledger->count; i++)
        if (ledger->entries[i].buffer == buffer)
            return &ledger->entries[i];
    return NULL;
}

uint64_t clprune__ledger_bytes(clprune__ledger *ledger, cl_mem buffer)
{
    uint64_t bytes = 0;
    const clprune__ledger_entry *entry = clprune__ledger_next(ledger, buffer, NULL);
    for (; entry != NULL; entry = clprune__ledger_next(ledger, buffer, entry))
        bytes += entry->bytes;
    return bytes;
}

/* The first entry of a buffer. */
static clprune_status find(clprune_context *context, cl_mem buffer, clprune__ledger_entry **entry)
{
    *entry = clprune__ledger_next(context->ledger, buffer, NULL);
    REQUIRE(
        *entry != NULL, CLPRUNE_INVALID_ARGUMENT, "the buffer was not created in this dry context");
    return CLPRUNE_SUCCESS;
}

clprune_status clprune__ledger_touch(clprune_context *context, cl_mem buffer, uint64_t command)
{
    clprune__ledger_entry *entry;
    TRY(find(context, buffer, &entry));
    for (; entry != NULL; entry = clprune__ledger_next(context->ledger, buffer, entry))
        TRY(touch(context, entry, command));
    return CLPRUNE_SUCCESS;
}

clprune_status clprune__ledger_forget(clprune_context *context, cl_mem buffer)
{
    clprune__ledger_entry *entry;
    TRY(find(context, buffer, &entry));
    for (; entry != NULL; entry = clprune__ledger_next(context->ledger, buffer, entry))
        entry->is_live = false;
    return CLPRUNE_SUCCESS;
}

void clprune__ledger_close(clprune_context *context)
{
    clprune__ledger *ledger = context->ledger;
    while (ledger->count > 0)
        clprune__buffer_release(context, ledger->entries[ledger->count - 1].buffer);
    free(ledger->entries);
    ledger->entries = NULL;
    ledger->capacity = 0;
}
