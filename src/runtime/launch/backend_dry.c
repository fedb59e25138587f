/* Dry contexts: no device; a command is noted, with the buffers it would touch, instead of run.
 * Buffers are handles of the context's ledger. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/system.h"
#include "runtime/context/context_private.h"
#include "runtime/context/fail.h"
#include "runtime/launch/backend.h"
#include "runtime/launch/launch.h"
#include "runtime/launch/record.h"
#include "runtime/memory/ledger.h"
#include "runtime/memory/scratch.h"

clprune_device_info clprune__dry_device(void)
{
    clprune_device_info info = {.type = CL_DEVICE_TYPE_CPU,
        .local_memory = 1 << 19,
        .compute_units = clprune__system_processors(),
        .vector_width = 16,
        .max_work_group = 4096};
    (void)snprintf(info.device, sizeof info.device, "assumed CPU");
    return info;
}

/* A handle begins with an address that no driver's object begins with. */
static const char mark_of_dry;

bool clprune__is_dry_buffer(cl_mem buffer)
{
    return *(const void *const *)buffer == &mark_of_dry;
}

static cl_mem dry_allocate(void *user, cl_context cl, size_t bytes, cl_int *error)
{
    (void)user;
    (void)cl;
    (void)bytes;
    const void **handle = malloc(sizeof *handle);
    if (handle != NULL)
        *handle = &mark_of_dry;
    *error = handle != NULL ? CL_SUCCESS : CL_OUT_OF_HOST_MEMORY;
    return (cl_mem)handle;
}

static void dry_release(void *user, cl_mem buffer)
{
    (void)user;
    free(buffer);
}

const clprune_allocator clprune__dry_allocator = {dry_allocate, dry_release, NULL};

/* Makes room for one more command. */
static bool reserve(clprune__record *record)
{
    if (record->commands < record->capacity)
        return true;
    const size_t capacity = 2 * record->capacity + 1024;
    uint64_t *scratch = realloc(record->scratch, capacity * sizeof *scratch);
    if (scratch == NULL)
        return false;
    record->scratch = scratch;
    clprune_plan_work *work = realloc(record->work, capacity * sizeof *work);
    if (work == NULL)
        return false;
    record->work = work;
    record->capacity = capacity;
    return true;
}

/* Notes a command that touches `count` buffers, NULLs among them skipped. A command that fails
 * keeps its number, because it may have begun lives. Errors: OUT_OF_HOST_MEMORY, INVALID_ARGUMENT
 * (a buffer that this context did not create). */
static clprune_status note(clprune_context *context, clprune_plan_work work, size_t count,
    const cl_mem *buffers, cl_event *event)
{
    clprune__record *record = context->record;
    REQUIRE(reserve(record), CLPRUNE_OUT_OF_HOST_MEMORY, "no memory to note %llu commands",
        (unsigned long long)record->commands);
    const uint64_t command = record->commands++;
    record->scratch[command] = clprune__scratch_used(context);
    record->work[command] = work;
    if (work.multiplications == 0)
        record->work[command].precision = CLPRUNE_PRECISION_FP32;
    for (size_t i = 0; i < count; i++)
        if (buffers[i] != NULL)
            TRY(clprune__ledger_touch(context, buffers[i], command));
    if (event != NULL)
        *event = NULL;
    return CLPRUNE_SUCCESS;
}

static clprune_status note_program(clprune_context *context, const clprune__kernel_def *def,
    const char *defines, const clprune__kernel **kernel)
{
    *kernel = NULL;
    return clprune__program_note(context, def, defines);
}

static clprune_status note_kernel(const clprune__launch *launch, cl_uint dimensions,
    const size_t *global, const size_t *local, cl_event *event)
{
    (void)dimensions;
    (void)global;
    (void)local;
    return note(launch->context, launch->work, launch->buffers_count, launch->buffers, event);
}

static clprune_status note_foreign(
    clprune_context *context, const clprune__foreign *command, cl_event *event)
{
    return note(context, command->work, command->count, command->buffers, event);
}

static clprune_status note_fill(clprune_context *context, const void *pattern, size_t pattern_bytes,
    cl_mem buffer, size_t offset, size_t bytes, cl_event *event)
{
    (void)pattern;
    (void)pattern_bytes;
    (void)offset;
    return note(
        context, (clprune_plan_work){.kernel = "fill", .bytes = (double)bytes}, 1, &buffer, event);
}

/* A transfer of a rectangle. */
static clprune_status note_rect(
    clprune_context *context, const char *name, const clprune__rect *rect)
{
    const double bytes = (double)rect->rows * (double)rect->row_bytes;
    return note(
        context, (clprune_plan_work){.kernel = name, .bytes = bytes}, 1, &rect->buffer, NULL);
}

static clprune_status note_write(
    clprune_context *context, const clprune__rect *rect, const void *host)
{
    (void)host;
    return note_rect(context, "write", rect);
}

/* Reads give zeros. */
static clprune_status note_read(clprune_context *context, const clprune__rect *rect, void *host)
{
    memset(host, 0, rect->rows * rect->row_bytes);
    return note_rect(context, "read", rect);
}

static clprune_status no_event(clprune_context *context, cl_event *event)
{
    (void)context;
    *event = NULL;
    return CLPRUNE_SUCCESS;
}

static clprune_status no_wait(clprune_context *context, size_t count, const cl_event *events)
{
    (void)context;
    (void)count;
    (void)events;
    return CLPRUNE_SUCCESS;
}

static clprune_status no_finish(clprune_context *context)
{
    (void)context;
    return CLPRUNE_SUCCESS;
}

static clprune_status booked_size(
    clprune_context *context, const char *name, cl_mem buffer, size_t *bytes)
{
    const clprune__ledger_entry *entry = clprune__ledger_next(context->ledger, buffer, NULL);
    *bytes = (size_t)clprune__ledger_bytes(context->ledger, buffer);
    REQUIRE(
        entry != NULL, CLPRUNE_INVALID_ARGUMENT, "%s was not created in this dry context", name);
    return CLPRUNE_SUCCESS;
}

/* Dry contexts have no sub-buffers. */
static clprune_status locate_handle(
    clprune_context *context, cl_mem buffer, cl_mem *whole, size_t *origin)
{
    (void)context;
    *whole = buffer;
    *origin = 0;
    return CLPRUNE_SUCCESS;
}

static void note_release(clprune_context *context, cl_mem buffer)
{
    clprune__record_add_label(context, buffer);
}

const clprune__backend clprune__dry_backend = {.runs = false,
    .find = note_program,
    .kernel = note_kernel,
    .foreign = note_foreign,
    .fill = note_fill,
    .write = note_write,
    .read = note_read,
    .mark = no_event,
    .wait = no_wait,
    .finish = no_finish,
    .size = booked_size,
    .locate = locate_handle,
    .forget = clprune__ledger_forget,
    .released = note_release};

bool clprune__record_has_label(const clprune__record *record, clprune__label label)
{
    for (size_t i = 0; i < record->labels_count; i++) {
        const clprune__label *other = &record->labels[i];
        if (other->bytes == label.bytes && other->category == label.category &&
            strcmp(other->name, label.name) == 0)
            return true;
    }
    return false;
}

void clprune__record_add_label(clprune_context *context, cl_mem buffer)
{
    clprune__record *record = context->record;
    const clprune__ledger_entry *entry = clprune__ledger_next(context->ledger, buffer, NULL);
    if (entry == NULL)
        return;
    clprune__label label = {
        entry->category, entry->name, clprune__ledger_bytes(context->ledger, buffer)};
    if (clprune__record_has_label(record, label))
        return;
    clprune__label *labels = realloc(record->labels, (record->labels_count + 1) * sizeof *labels);
    if (labels != NULL)
        record->labels = labels;
    label.name = strdup(label.name);
    if (labels != NULL && label.name != NULL) {
        labels[record->labels_count++] = label;
        return;
    }
    free(label.name);
    record->lost = true;
}

void clprune__record_close(clprune_context *context)
{
    clprune__record *record = context->record;
    if (record == NULL)
        return;
    for (size_t i = 0; i < record->labels_count; i++)
        free(record->labels[i].name);
    free(record->labels);
    free(record->scratch);
    free(record->work);
    free(record);
    context->record = NULL;
}
