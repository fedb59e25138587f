/* The backend of a verbose context: it hands each command to another backend, waits for it and
 * notes its time. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/system.h"
#include "runtime/context/context_private.h"
#include "runtime/context/fail.h"
#include "runtime/context/verbose.h"
#include "runtime/launch/backend.h"
#include "runtime/launch/launch.h"
#include "runtime/launch/program_cache.h"

enum { TEXT = 128 };

/* context->verbose points to the first member, context->backend to the last. */
typedef struct verbose_backend {
    clprune__verbose verbose;
    bool owns_file;
    const clprune__backend *inner;
    clprune_cache_stats before; /* statistics before the next launch looked up its kernel */
    clprune__backend backend;
} verbose_backend;

static verbose_backend *self(const clprune_context *context)
{
    return (verbose_backend *)(void *)context->verbose;
}

static uint64_t now_ns(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Waits for a command that began at `start` and notes its time: the device's, or the host's if the
 * queue does not profile. An error of the command is left to the next blocking call. */
static void note(
    clprune_context *context, clprune__verbose_command *command, cl_event event, uint64_t start)
{
    cl_ulong from, to;
    if (event != NULL)
        (void)clWaitForEvents(1, &event);
    command->ns = now_ns() - start;
    if (event != NULL &&
        clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_START, sizeof from, &from, NULL) ==
            CL_SUCCESS &&
        clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_END, sizeof to, &to, NULL) ==
            CL_SUCCESS &&
        to >= from)
        command->ns = to - from;
    clprune__verbose_command_note(context->verbose, command);
}

/* Gives the event to the caller, if one is wanted. */
static void hand_over(cl_event made, cl_event *event)
{
    if (event != NULL)
        *event = made;
    else if (made != NULL)
        (void)clReleaseEvent(made);
}

static clprune_status find(clprune_context *context, const struct clprune__kernel_def *def,
    const char *defines, const struct clprune__kernel **kernel)
{
    self(context)->before = context->cache->stats;
    return self(context)->inner->find(context, def, defines, kernel);
}

static clprune__program_source source_of(const clprune_context *context)
{
    const clprune_cache_stats before = self(context)->before, now = context->cache->stats;
    if (now.builds > before.builds)
        return CLPRUNE__SOURCE_BUILD;
    return now.disk_hits > before.disk_hits ? CLPRUNE__SOURCE_DISK : CLPRUNE__SOURCE_MEMORY;
}

/* Appends "4x8". */
static void append_sizes(char text[TEXT], cl_uint dimensions, const size_t *sizes)
{
    for (cl_uint i = 0; i < dimensions; i++) {
        const size_t used = strlen(text);
        (void)snprintf(text + used, TEXT - used, "%s%zu", i > 0 ? "x" : "", sizes[i]);
    }
}

static clprune_status run_kernel(const clprune__launch *launch, cl_uint dimensions,
    const size_t *global, const size_t *local, cl_event *event)
{
    clprune_context *context = launch->context;
    const uint64_t start = now_ns();
    cl_event made = NULL;
    TRY(self(context)->inner->kernel(launch, dimensions, global, local, &made));
    char size[TEXT] = "";
    append_sizes(size, dimensions, global);
    (void)strncat(size, "/", sizeof size - strlen(size) - 1);
    append_sizes(size, dimensions, local);
    clprune__verbose_command command = {.name = launch->def->entry,
        .defines = launch->kernel->defines,
        .size = size,
        .source = source_of(context)};
    note(context, &command, made, start);
    hand_over(made, event);
    return CLPRUNE_SUCCESS;
}

static clprune_status run_foreign(
    clprune_context *context, const clprune__foreign *foreign, cl_event *event)
{
    const uint64_t start = now_ns();
    cl_event made = NULL;
    TRY(self(context)->inner->foreign(context, foreign, &made));
    clprune__verbose_command command = {.name = "clblast", .defines = "", .size = ""};
    note(context, &command, made, start);
    hand_over(made, event);
    return CLPRUNE_SUCCESS;
}

/* Notes a command that moves bytes. */
static void note_bytes(
    clprune_context *context, const char *name, size_t bytes, cl_event event, uint64_t start)
{
    char size[TEXT];
    (void)snprintf(size, sizeof size, "%zuB", bytes);
    clprune__verbose_command command = {.name = name, .defines = "", .size = size};
    note(context, &command, event, start);
}

static clprune_status run_fill(clprune_context *context, const void *pattern, size_t pattern_bytes,
    cl_mem buffer, size_t offset, size_t bytes, cl_event *event)
{
    const uint64_t start = now_ns();
    cl_event made = NULL;
    TRY(self(context)->inner->fill(context, pattern, pattern_bytes, buffer, offset, bytes, &made));
    note_bytes(context, "fill", bytes, made, start);
    hand_over(made, event);
    return CLPRUNE_SUCCESS;
}

/* read and write block, so they need no event. */
static clprune_status run_write(
    clprune_context *context, const clprune__rect *rect, const void *host)
{
    const uint64_t start = now_ns();
    TRY(self(context)->inner->write(context, rect, host));
    note_bytes(context, "write", rect->rows * rect->row_bytes, NULL, start);
    return CLPRUNE_SUCCESS;
}

static clprune_status run_read(clprune_context *context, const clprune__rect *rect, void *host)
{
    const uint64_t start = now_ns();
    TRY(self(context)->inner->read(context, rect, host));
    note_bytes(context, "read", rect->rows * rect->row_bytes, NULL, start);
    return CLPRUNE_SUCCESS;
}

static clprune_status check_value(clprune_context *context, const char *value)
{
    REQUIRE((value[0] == '1' || value[0] == '2') &&
                (value[1] == '\0' || (value[1] == ':' && value[2] != '\0')),
        CLPRUNE_INVALID_ARGUMENT,
        "CLPRUNE_VERBOSE is \"%.100s\", expected 0, 1 (a line per call) or 2 (and per command); "
        "with \":file\", lines are appended to a file instead of stderr",
        value);
    return CLPRUNE_SUCCESS;
}

/* Opens the file of "1", "2", "1:path" or "2:path". */
static clprune_status open_file(clprune_context *context, const char *value)
{
    verbose_backend *made = self(context);
    made->verbose.each_command = value[0] == '2';
    if (value[1] == '\0') {
        made->verbose.file = stderr;
        return CLPRUNE_SUCCESS;
    }
    made->verbose.file = clprune__system_append(value + 2);
    made->owns_file = made->verbose.file != NULL;
    REQUIRE(made->owns_file, CLPRUNE_INVALID_ARGUMENT,
        "CLPRUNE_VERBOSE: cannot append to %.200s: %s", value + 2, strerror(errno));
    (void)setvbuf(made->verbose.file, NULL, _IOLBF, 0);
    return CLPRUNE_SUCCESS;
}

bool clprune__verbose_wanted(void)
{
    const char *value = getenv("CLPRUNE_VERBOSE");
    return value != NULL && value[0] != '\0' && strcmp(value, "0") != 0;
}

clprune_status clprune__verbose_open(clprune_context *context)
{
    if (!clprune__verbose_wanted())
        return CLPRUNE_SUCCESS;
    TRY(check_value(context, getenv("CLPRUNE_VERBOSE")));
    if (!context->backend->runs)
        return CLPRUNE_SUCCESS;
    verbose_backend *made = calloc(1, sizeof *made);
    REQUIRE(made != NULL, CLPRUNE_OUT_OF_HOST_MEMORY, "no memory for the context");
    made->verbose.function = "context_create";
    context->verbose = &made->verbose; /* freed by clprune__verbose_close */
    TRY(open_file(context, getenv("CLPRUNE_VERBOSE")));
    made->inner = context->backend;
    made->backend = *context->backend;
    made->backend.find = find;
    made->backend.kernel = run_kernel;
    made->backend.foreign = run_foreign;
    made->backend.fill = run_fill;
    made->backend.write = run_write;
    made->backend.read = run_read;
    context->backend = &made->backend;
    clprune__verbose_info(context->verbose, context);
    return CLPRUNE_SUCCESS;
}

void clprune__verbose_close(clprune_context *context)
{
    if (context->verbose == NULL)
        return;
    if (self(context)->owns_file)
        (void)fclose(context->verbose->file);
    free(self(context));
    context->verbose = NULL;
}
