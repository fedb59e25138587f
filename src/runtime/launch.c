#include "runtime/launch.h"

#include "core/checked.h"
#include "runtime/check.h"
#include "runtime/context_private.h"

clprune_status clprune__launch_begin(clprune_context *context, const clprune__kernel_def *def,
    const clprune__defines *defines, clprune__launch *launch)
{
    clprune_status status = CLPRUNE_SUCCESS;
    *launch = (clprune__launch){.context = context, .failed = CL_SUCCESS};
    REQUIRE(!defines->overflow, CLPRUNE_INTERNAL_ERROR, "the defines of kernel %s overflow: %s",
        def->entry, defines->text);
    if (context->dry == NULL)
        TRY(clprune__kernel_get(context, def, defines->text, &launch->kernel));
done:
    return status;
}

static void set_argument(clprune__launch *launch, size_t size, const void *value)
{
    if (launch->context->dry != NULL)
        return;
    const cl_int code = clSetKernelArg(launch->kernel->kernel, launch->next, size, value);
    if (launch->failed == CL_SUCCESS)
        launch->failed = code;
    launch->next++;
}

void clprune__arg_mem(clprune__launch *launch, cl_mem buffer)
{
    if (launch->buffers_count < CLPRUNE__LAUNCH_BUFFERS)
        launch->buffers[launch->buffers_count] = buffer;
    launch->buffers_count++;
    set_argument(launch, sizeof buffer, &buffer);
}

void clprune__arg_ulong(clprune__launch *launch, size_t value)
{
    const cl_ulong wide = value;
    set_argument(launch, sizeof wide, &wide);
}

void clprune__arg_uint(clprune__launch *launch, uint32_t value)
{
    const cl_uint word = value;
    set_argument(launch, sizeof word, &word);
}

void clprune__arg_float(clprune__launch *launch, float value)
{
    set_argument(launch, sizeof value, &value);
}

void clprune__arg_mat(clprune__launch *launch, clprune_mat mat)
{
    clprune__arg_mem(launch, mat.buffer);
    clprune__arg_ulong(launch, mat.offset);
    clprune__arg_ulong(launch, mat.ld);
}

static bool is_empty(cl_uint dimensions, const size_t *global)
{
    bool empty = false;
    for (cl_uint i = 0; i < dimensions; i++)
        empty = empty || global[i] == 0;
    return empty;
}

/* What is left of launching where there is no device. */
static clprune_status note(
    clprune__launch *launch, cl_uint dimensions, const size_t *global, cl_event *event)
{
    clprune_status status = CLPRUNE_SUCCESS;
    clprune_context *context = launch->context;
    if (!is_empty(dimensions, global))
        TRY(clprune__dry_note(context, launch->buffers_count, launch->buffers));
    TRY(clprune__empty_event(context, event));
done:
    return status;
}

clprune_status clprune__launch_enqueue(clprune__launch *launch, cl_uint dimensions,
    const size_t *global, const size_t *local, cl_event *event)
{
    clprune_status status = CLPRUNE_SUCCESS;
    clprune_context *context = launch->context;
    const clprune__kernel *kernel = launch->kernel;
    TRY_CL(launch->failed);
    REQUIRE(launch->buffers_count <= CLPRUNE__LAUNCH_BUFFERS, CLPRUNE_INTERNAL_ERROR,
        "a kernel of %zu buffers", launch->buffers_count);
    if (context->dry != NULL) {
        TRY(note(launch, dimensions, global, event));
        goto done;
    }
    REQUIRE(launch->next == kernel->arguments, CLPRUNE_INTERNAL_ERROR,
        "kernel %s takes %u arguments, %u are set", kernel->def->entry, (unsigned)kernel->arguments,
        (unsigned)launch->next);
    size_t group = 1;
    for (cl_uint i = 0; i < dimensions; i++) {
        REQUIRE(local[i] > 0 && global[i] % local[i] == 0, CLPRUNE_INTERNAL_ERROR,
            "kernel %s: global size %zu is no multiple of local size %zu", kernel->def->entry,
            global[i], local[i]);
        REQUIRE(kernel->reqd_work_group[0] == 0 || kernel->reqd_work_group[i] == local[i],
            CLPRUNE_INTERNAL_ERROR, "kernel %s requires local size %zu, not %zu",
            kernel->def->entry, kernel->reqd_work_group[i], local[i]);
        group *= local[i];
    }
    REQUIRE(group <= kernel->max_work_group, CLPRUNE_UNSUPPORTED,
        "kernel %s needs work-groups of %zu, this device can run %zu", kernel->def->entry, group,
        kernel->max_work_group);
    if (is_empty(dimensions, global))
        TRY(clprune__empty_event(context, event));
    else
        TRY_CL(clEnqueueNDRangeKernel(
            context->queue, kernel->kernel, dimensions, NULL, global, local, 0, NULL, event));
done:
    return status;
}
