#include "runtime/launch/launch.h"

#include "core/checked.h"
#include "runtime/context/check.h"
#include "runtime/context/context_private.h"
#include "runtime/launch/backend.h"
#include "runtime/memory/arena.h"

clprune_status clprune__launch_begin(clprune_context *context, const clprune__kernel_def *def,
    const clprune__defines *defines, clprune__launch *launch)
{
    launch->context = context;
    launch->def = def;
    launch->kernel = NULL;
    launch->least_group = 0;
    launch->lost = false;
    launch->arguments_count = launch->buffers_count = 0;
    launch->work = (clprune_plan_work){.kernel = def->entry};
    REQUIRE(!defines->overflow, CLPRUNE_INTERNAL_ERROR, "the defines of kernel %s overflow: %s",
        def->entry, defines->text);
    return context->backend->find(context, def, defines->text, &launch->kernel);
}

/* The place of the next argument; one too many is refused when the kernel is enqueued. */
static clprune__argument *next_argument(clprune__launch *launch)
{
    const size_t i = clprune__min(launch->arguments_count++, CLPRUNE__LAUNCH_ARGUMENTS - 1);
    return &launch->arguments[i];
}

void clprune__arg_mem(clprune__launch *launch, cl_mem buffer)
{
    if (launch->buffers_count < CLPRUNE__LAUNCH_BUFFERS)
        launch->buffers[launch->buffers_count] = buffer;
    launch->buffers_count++;
    launch->lost = launch->lost || clprune__window_of(buffer).whole != buffer;
    *next_argument(launch) = (clprune__argument){sizeof buffer, {.buffer = buffer}};
}

void clprune__arg_ulong(clprune__launch *launch, size_t value)
{
    *next_argument(launch) = (clprune__argument){sizeof(cl_ulong), {.wide = value}};
}

void clprune__arg_uint(clprune__launch *launch, uint32_t value)
{
    *next_argument(launch) = (clprune__argument){sizeof(cl_uint), {.word = value}};
}

void clprune__arg_float(clprune__launch *launch, float value)
{
    *next_argument(launch) = (clprune__argument){sizeof(cl_float), {.real = value}};
}

void clprune__arg_mat(clprune__launch *launch, clprune_mat mat)
{
    const clprune_mat in = clprune__mat_in_window(mat), units = clprune__mat_units(mat);
    clprune__arg_mem(launch, in.buffer);
    ARG_ULONGS(launch, in.offset, in.ld);
    launch->work.bytes +=
        (double)units.rows * (double)units.cols * (double)clprune__element_bytes(units);
}

void clprune__arg_region(clprune__launch *launch, clprune__region region)
{
    const clprune__window window = clprune__window_of(region.buffer);
    const size_t origin = window.origin > 0 ? window.origin / region.size : 0;
    clprune__arg_ulong(launch, region.offset + origin);
    clprune__arg_mem(launch, window.whole);
    launch->work.bytes += (double)region.count * (double)region.size;
}

void clprune__arg_ints(clprune__launch *launch, clprune_ints ints)
{
    clprune__arg_region(launch, (clprune__region){ints.buffer, ints.offset, sizeof(int32_t)});
}

void clprune__launch_multiplies(
    clprune__launch *launch, clprune_precision precision, double multiplications)
{
    launch->work.precision = precision;
    launch->work.multiplications = multiplications;
}

clprune_status clprune__launch_enqueue(clprune__launch *launch, cl_uint dimensions,
    const size_t *global, const size_t *local, cl_event *event)
{
    clprune_context *context = launch->context;
    const char *name = launch->def->entry;
    REQUIRE(launch->arguments_count <= CLPRUNE__LAUNCH_ARGUMENTS &&
                launch->buffers_count <= CLPRUNE__LAUNCH_BUFFERS,
        CLPRUNE_INTERNAL_ERROR, "kernel %s has %zu arguments, %zu of them buffers", name,
        launch->arguments_count, launch->buffers_count);
    REQUIRE(!launch->lost, CLPRUNE_INTERNAL_ERROR,
        "kernel %s has a buffer of an arena without its offset", name);
    bool empty = false;
    for (cl_uint i = 0; i < dimensions; i++) {
        REQUIRE(local[i] > 0 && global[i] % local[i] == 0, CLPRUNE_INTERNAL_ERROR,
            "kernel %s: global size %zu is no multiple of local size %zu", name, global[i],
            local[i]);
        empty = empty || global[i] == 0;
    }
    if (empty)
        TRY(clprune__empty_event(context, event));
    else
        TRY(context->backend->kernel(launch, dimensions, global, local, event));
    return CLPRUNE_SUCCESS;
}
