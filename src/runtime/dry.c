#include "runtime/dry.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h> /* sysconf */

#include "core/checked.h"
#include "runtime/check.h"
#include "runtime/context_private.h"

clprune_device_info clprune__dry_device(void)
{
    const long processors = sysconf(_SC_NPROCESSORS_ONLN);
    clprune_device_info info = {.type = CL_DEVICE_TYPE_CPU,
        .local_memory = 1 << 19,
        .compute_units = processors > 0 ? (uint32_t)processors : 1,
        .vector_width = 16,
        .max_work_group = 4096};
    (void)snprintf(info.device, sizeof info.device, "assumed CPU");
    return info;
}

/* A handle is an address that nothing else has. */
static cl_mem dry_allocate(void *user, cl_context cl, size_t bytes, cl_int *error)
{
    (void)user;
    (void)cl;
    (void)bytes;
    void *handle = malloc(1);
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
static bool reserve(clprune__dry *dry)
{
    if (dry->commands < dry->capacity)
        return true;
    const size_t capacity = 2 * dry->capacity + 1024;
    uint64_t *scratch = realloc(dry->scratch, capacity * sizeof *scratch);
    if (scratch == NULL)
        return false;
    dry->scratch = scratch;
    dry->capacity = capacity;
    return true;
}

clprune_status clprune__dry_note(clprune_context *context, size_t count, const cl_mem *buffers)
{
    clprune_status status = CLPRUNE_SUCCESS;
    clprune__dry *dry = context->dry;
    REQUIRE(reserve(dry), CLPRUNE_OUT_OF_HOST_MEMORY, "%llu commands",
        (unsigned long long)dry->commands);
    for (size_t i = 0; i < count; i++)
        if (buffers[i] != NULL)
            TRY(clprune__ledger_touch(context, buffers[i], dry->commands));
    dry->scratch[dry->commands++] = clprune__scratch_used(context);
done:
    return status;
}

clprune_status clprune__dry_size(
    clprune_context *context, const char *name, cl_mem buffer, size_t *bytes)
{
    clprune_status status = CLPRUNE_SUCCESS;
    clprune__ledger *ledger = &context->ledger;
    const clprune__ledger_entry *entry = clprune__ledger_next(ledger, buffer, NULL);
    *bytes = 0;
    REQUIRE(entry != NULL, CLPRUNE_INVALID_ARGUMENT, "%s is no buffer of this dry context", name);
    for (; entry != NULL; entry = clprune__ledger_next(ledger, buffer, entry))
        *bytes += (size_t)entry->bytes;
done:
    return status;
}

void clprune__dry_close(clprune_context *context)
{
    if (context->dry != NULL)
        free(context->dry->scratch);
    free(context->dry);
    context->dry = NULL;
}
