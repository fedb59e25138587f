#include "runtime/ledger.h"

#include <stdlib.h>
#include <string.h>

#include "core/checked.h"
#include "runtime/check.h"
#include "runtime/context_private.h"

const char *clprune_memory_category_name(clprune_memory_category category)
{
    switch (category) {
#define CATEGORY_NAME(name, text)                                                                  \
    case name:                                                                                     \
        return text;
        CLPRUNE_MEMORY_CATEGORY_LIST(CATEGORY_NAME)
#undef CATEGORY_NAME
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

/* Makes room for one entry more. */
static bool grow(clprune__ledger *ledger)
{
    if (ledger->count < ledger->capacity)
        return true;
    const size_t capacity = ledger->capacity == 0 ? 64 : ledger->capacity * 2;
    size_t bytes;
    if (!clprune__mul(capacity, sizeof *ledger->entries, &bytes))
        return false;
    clprune__ledger_entry *entries = realloc(ledger->entries, bytes);
    if (entries == NULL)
        return false;
    ledger->entries = entries;
    ledger->capacity = capacity;
    return true;
}

clprune_status clprune_buffer_create(clprune_context *context, clprune_memory_category category,
    const char *name, size_t bytes, cl_mem *buffer)
{
    clprune_status status = CLPRUNE_SUCCESS;
    char *copy = NULL;
    REQUIRE(buffer != NULL, CLPRUNE_INVALID_ARGUMENT, "buffer is NULL");
    *buffer = NULL;
    REQUIRE(context != NULL, CLPRUNE_INVALID_ARGUMENT, "context is NULL");
    REQUIRE((unsigned)category < CLPRUNE_MEMORY_CATEGORIES, CLPRUNE_INVALID_ARGUMENT,
        "category %d does not exist", (int)category);
    REQUIRE(name != NULL, CLPRUNE_INVALID_ARGUMENT, "name is NULL");

    clprune__ledger *ledger = &context->ledger;
    clprune_memory_usage *total = &ledger->usage[CLPRUNE_MEMORY_TOTAL];
    REQUIRE(total->live <= ledger->limit && bytes <= ledger->limit - total->live,
        CLPRUNE_OUT_OF_DEVICE_MEMORY, "%s needs %zu bytes; %llu of %llu are in use", name, bytes,
        (unsigned long long)total->live, (unsigned long long)ledger->limit);
    copy = malloc(strlen(name) + 1);
    REQUIRE(copy != NULL && grow(ledger), CLPRUNE_OUT_OF_HOST_MEMORY, "no room to book %s", name);
    strcpy(copy, name);

    cl_int code = CL_SUCCESS;
    cl_mem made = context->allocator.allocate(
        context->allocator.user, context->cl, clprune__max(bytes, 1), &code);
    TRY_CL(code);
    REQUIRE(made != NULL, CLPRUNE_OUT_OF_DEVICE_MEMORY, "the allocator returned no buffer for %s",
        name);
    ledger->entries[ledger->count++] = (clprune__ledger_entry){made, copy, bytes, category};
    copy = NULL;
    book(&ledger->usage[category], bytes);
    book(total, bytes);
    *buffer = made;
done:
    free(copy);
    return status;
}

void clprune_buffer_release(clprune_context *context, cl_mem buffer)
{
    if (context == NULL || buffer == NULL)
        return;
    clprune__ledger *ledger = &context->ledger;
    for (size_t i = ledger->count; i-- > 0;) {
        clprune__ledger_entry *entry = &ledger->entries[i];
        if (entry->buffer != buffer)
            continue;
        unbook(&ledger->usage[entry->category], entry->bytes);
        unbook(&ledger->usage[CLPRUNE_MEMORY_TOTAL], entry->bytes);
        free(entry->name);
        memmove(entry, entry + 1, (ledger->count - i - 1) * sizeof *entry);
        ledger->count--;
        context->allocator.release(context->allocator.user, buffer);
        return;
    }
}

clprune_memory_usage clprune_memory_query(
    const clprune_context *context, clprune_memory_category category)
{
    if (context == NULL || (unsigned)category > CLPRUNE_MEMORY_TOTAL)
        return (clprune_memory_usage){0};
    return context->ledger.usage[category];
}

void clprune_memory_reset_peak(clprune_context *context)
{
    for (int i = 0; context != NULL && i <= CLPRUNE_MEMORY_TOTAL; i++)
        context->ledger.usage[i].peak = context->ledger.usage[i].live;
}

void clprune_memory_visit(const clprune_context *context,
    void (*visit)(void *user, const clprune_memory_entry *entry), void *user)
{
    for (size_t i = 0; context != NULL && visit != NULL && i < context->ledger.count; i++) {
        const clprune__ledger_entry *booked = &context->ledger.entries[i];
        const clprune_memory_entry entry = {booked->category, booked->name, booked->bytes};
        visit(user, &entry);
    }
}

void clprune__ledger_close(clprune_context *context)
{
    clprune__ledger *ledger = &context->ledger;
    while (ledger->count > 0)
        clprune_buffer_release(context, ledger->entries[ledger->count - 1].buffer);
    free(ledger->entries);
    ledger->entries = NULL;
    ledger->capacity = 0;
}
