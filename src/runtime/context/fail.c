#include "runtime/context/fail.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/system.h"
#include "runtime/context/context_private.h"
#include "runtime/context/verbose.h"

/* The last error of calls without a context, and with a thread-safe one. */
static _Thread_local char thread_error[CLPRUNE__ERROR_TEXT];
static _Thread_local char shared_error[CLPRUNE__ERROR_TEXT];

char *clprune__error_text(clprune_context *context)
{
    if (context == NULL)
        return thread_error;
    return context->lock == NULL ? context->error : shared_error;
}

const char *clprune_last_error(const clprune_context *context)
{
    return clprune__error_text((clprune_context *)context);
}

static const char *base_name(const char *file)
{
    const char *slash = strrchr(file, '/');
    return slash != NULL ? slash + 1 : file;
}

static void format_text(char *text, size_t size, const char *format, va_list arguments)
{
    if (clprune__system_format(text, size, format, arguments) < 0)
        text[0] = '\0';
}

clprune_status clprune__fail(clprune_context *context, clprune_status code, const char *file,
    int line, const char *format, ...)
{
    /* Formatted aside first: an argument may be the previous error's text. */
    static _Thread_local char text[CLPRUNE__ERROR_TEXT];
    va_list arguments;
    va_start(arguments, format);
    format_text(text, sizeof text, format, arguments);
    va_end(arguments);
    if (context != NULL && context->quiet)
        return code;
    char *error = clprune__error_text(context);
    (void)snprintf(error, CLPRUNE__ERROR_TEXT, "%s:%d: %.16000s", base_name(file), line, text);
    if (context != NULL && context->log != NULL) { /* not by clprune__log, which cuts long texts */
        char told[CLPRUNE__ERROR_TEXT]; /* if a call fails in the hook, `error` changes */
        strcpy(told, error);
        context->log(context->log_user, CLPRUNE_LOG_ERROR, told);
        strcpy(error, told);
    }
    if (context != NULL && context->verbose != NULL)
        clprune__verbose_error(context->verbose, code, error);
    return code;
}

void clprune__pass_error(const clprune_context *from)
{
    memcpy(thread_error, from->error, sizeof thread_error);
}

const char *clprune__cl_name(cl_int code)
{
    switch (code) {
#define CL_NAME(name)                                                                              \
    case name:                                                                                     \
        return #name
        CL_NAME(CL_SUCCESS);
        CL_NAME(CL_DEVICE_NOT_FOUND);
        CL_NAME(CL_DEVICE_NOT_AVAILABLE);
        CL_NAME(CL_COMPILER_NOT_AVAILABLE);
        CL_NAME(CL_MEM_OBJECT_ALLOCATION_FAILURE);
        CL_NAME(CL_OUT_OF_RESOURCES);
        CL_NAME(CL_OUT_OF_HOST_MEMORY);
        CL_NAME(CL_PROFILING_INFO_NOT_AVAILABLE);
        CL_NAME(CL_MEM_COPY_OVERLAP);
        CL_NAME(CL_BUILD_PROGRAM_FAILURE);
        CL_NAME(CL_MAP_FAILURE);
        CL_NAME(CL_MISALIGNED_SUB_BUFFER_OFFSET);
        CL_NAME(CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST);
        CL_NAME(CL_INVALID_VALUE);
        CL_NAME(CL_INVALID_DEVICE_TYPE);
        CL_NAME(CL_INVALID_PLATFORM);
        CL_NAME(CL_INVALID_DEVICE);
        CL_NAME(CL_INVALID_CONTEXT);
        CL_NAME(CL_INVALID_QUEUE_PROPERTIES);
        CL_NAME(CL_INVALID_COMMAND_QUEUE);
        CL_NAME(CL_INVALID_MEM_OBJECT);
        CL_NAME(CL_INVALID_BINARY);
        CL_NAME(CL_INVALID_BUILD_OPTIONS);
        CL_NAME(CL_INVALID_PROGRAM);
        CL_NAME(CL_INVALID_PROGRAM_EXECUTABLE);
        CL_NAME(CL_INVALID_KERNEL_NAME);
        CL_NAME(CL_INVALID_KERNEL_DEFINITION);
        CL_NAME(CL_INVALID_KERNEL);
        CL_NAME(CL_INVALID_ARG_INDEX);
        CL_NAME(CL_INVALID_ARG_VALUE);
        CL_NAME(CL_INVALID_ARG_SIZE);
        CL_NAME(CL_INVALID_KERNEL_ARGS);
        CL_NAME(CL_INVALID_WORK_DIMENSION);
        CL_NAME(CL_INVALID_WORK_GROUP_SIZE);
        CL_NAME(CL_INVALID_WORK_ITEM_SIZE);
        CL_NAME(CL_INVALID_GLOBAL_OFFSET);
        CL_NAME(CL_INVALID_EVENT_WAIT_LIST);
        CL_NAME(CL_INVALID_EVENT);
        CL_NAME(CL_INVALID_OPERATION);
        CL_NAME(CL_INVALID_BUFFER_SIZE);
        CL_NAME(CL_INVALID_GLOBAL_WORK_SIZE);
        CL_NAME(CL_INVALID_PROPERTY);
    case -1001:
        return "CL_PLATFORM_NOT_FOUND_KHR";
#undef CL_NAME
    default:
        return "unknown OpenCL error";
    }
}

clprune_status clprune__cl_status(cl_int code)
{
    /* Drivers allocate at the first use of a buffer, so any enqueue may say that memory ran out.
     * Only clCreateBuffer says INVALID_BUFFER_SIZE: the device has no buffers so large. */
    if (code == CL_MEM_OBJECT_ALLOCATION_FAILURE || code == CL_OUT_OF_RESOURCES ||
        code == CL_INVALID_BUFFER_SIZE)
        return CLPRUNE_OUT_OF_DEVICE_MEMORY;
    return code == CL_OUT_OF_HOST_MEMORY ? CLPRUNE_OUT_OF_HOST_MEMORY : CLPRUNE_OPENCL_ERROR;
}

/* The property in the call of a query, "CL_DEVICE_TYPE", and its length; 0: it is no query. */
static int property_of(const char *call, const char **property)
{
    const char *arguments = strchr(call, '(');
    *property = "";
    if (strncmp(call, "clGet", 5) != 0 || arguments == NULL)
        return 0;
    const char *found = strstr(arguments, "CL_");
    if (found == NULL)
        return 0;
    *property = found;
    return (int)strspn(found, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789");
}

clprune_status clprune__fail_cl(
    clprune_context *context, cl_int code, const char *file, int line, const char *call)
{
    const clprune_status status = clprune__cl_status(code);
    const char *property;
    const int length = property_of(call, &property);
    char memory[200] = "";
    if (status == CLPRUNE_OUT_OF_DEVICE_MEMORY && context != NULL)
        (void)snprintf(memory, sizeof memory,
            "; the context holds %llu bytes of device memory, the device has %llu, "
            "its largest buffer %llu",
            (unsigned long long)context->total->live,
            (unsigned long long)context->facts.global_memory,
            (unsigned long long)context->facts.max_allocation);
    return clprune__fail(context, status, file, line, "%.*s%s%.*s failed with %s (%d)%s",
        (int)strcspn(call, "("), call, length > 0 ? " of " : "", length, property,
        clprune__cl_name(code), (int)code, memory);
}

void clprune__log(clprune_context *context, clprune_log_level level, const char *format, ...)
{
    if (context == NULL || context->log == NULL)
        return;
    char text[2048];
    va_list arguments;
    va_start(arguments, format);
    format_text(text, sizeof text, format, arguments);
    va_end(arguments);
    context->log(context->log_user, level, text);
}
