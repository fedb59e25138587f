#include "runtime/check.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/checked.h"
#include "runtime/context_private.h"

/* The last error of calls that have no context yet, or one that several threads share. */
static _Thread_local char thread_error[CLPRUNE__ERROR_TEXT];

char *clprune__error_text(clprune_context *context)
{
    return context != NULL && context->lock == NULL ? context->error : thread_error;
}

const char *clprune_last_error(const clprune_context *context)
{
    return context != NULL && context->lock == NULL ? context->error : thread_error;
}

static const char *base_name(const char *file)
{
    const char *slash = strrchr(file, '/');
    return slash != NULL ? slash + 1 : file;
}

clprune_status clprune__fail(clprune_context *context, clprune_status code, const char *file,
    int line, const char *expression, const char *format, ...)
{
    /* Formatted aside first: an argument may be the previous error's text. */
    static _Thread_local char text[CLPRUNE__ERROR_TEXT];
    va_list arguments;
    va_start(arguments, format);
    int used = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (used < 0)
        text[0] = '\0';
    char *error = clprune__error_text(context);
    (void)snprintf(error, CLPRUNE__ERROR_TEXT, "%s:%d: %.15000s (%.300s)", base_name(file), line,
        text, expression);
    clprune__log(context, CLPRUNE_LOG_ERROR, "%s", error);
    return code;
}

void clprune__pass_error(const clprune_context *from)
{
    if (from->lock == NULL)
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

clprune_status clprune__fail_cl(
    clprune_context *context, cl_int code, const char *file, int line, const char *expression)
{
    clprune_status status = CLPRUNE_OPENCL_ERROR;
    /* Drivers allocate at the first use of a buffer, so any enqueue may say that memory ran out. */
    if (code == CL_MEM_OBJECT_ALLOCATION_FAILURE || code == CL_OUT_OF_RESOURCES)
        status = CLPRUNE_OUT_OF_DEVICE_MEMORY;
    else if (code == CL_OUT_OF_HOST_MEMORY)
        status = CLPRUNE_OUT_OF_HOST_MEMORY;
    return clprune__fail(
        context, status, file, line, expression, "%s (%d)", clprune__cl_name(code), (int)code);
}

void clprune__log(clprune_context *context, clprune_log_level level, const char *format, ...)
{
    if (context == NULL || context->log == NULL)
        return;
    char text[2048];
    va_list arguments;
    va_start(arguments, format);
    const int used = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (used >= 0)
        context->log(context->log_user, level, text);
}

/* One past the last element of a non-empty matrix; false where it does not fit a size_t. */
static bool mat_end(clprune_mat mat, size_t *end)
{
    size_t last_row;
    return clprune__mul(mat.rows - 1, mat.ld, &last_row) &&
           clprune__add(mat.offset, last_row, end) && clprune__add(*end, mat.cols, end);
}

clprune_status clprune__check_mat(
    clprune_context *context, const char *name, clprune_mat mat, size_t rows, size_t cols)
{
    clprune_status status = CLPRUNE_SUCCESS;
    REQUIRE(context != NULL, CLPRUNE_INVALID_ARGUMENT, "context is NULL");
    REQUIRE(mat.rows == rows && mat.cols == cols, CLPRUNE_INVALID_SIZE,
        "%s is %zu x %zu, expected %zu x %zu", name, mat.rows, mat.cols, rows, cols);
    if (rows == 0 || cols == 0)
        goto done;
    REQUIRE(mat.buffer != NULL, CLPRUNE_INVALID_ARGUMENT, "%s has no buffer", name);
    REQUIRE(mat.ld >= cols, CLPRUNE_INVALID_SIZE, "%s has ld %zu, less than its %zu columns", name,
        mat.ld, cols);
    size_t end;
    REQUIRE(mat_end(mat, &end), CLPRUNE_SIZE_OVERFLOW, "%s ends beyond the address space", name);
    TRY(clprune__check_buffer(context, name, mat.buffer, end, sizeof(float)));
done:
    return status;
}

static clprune_status buffer_size(
    clprune_context *context, const char *name, cl_mem buffer, size_t *bytes)
{
    clprune_status status = CLPRUNE_SUCCESS;
    cl_context owner;
    if (context->dry != NULL) {
        TRY(clprune__dry_size(context, name, buffer, bytes));
        goto done;
    }
    TRY_CL(clGetMemObjectInfo(buffer, CL_MEM_CONTEXT, sizeof(cl_context), &owner, NULL));
    REQUIRE(owner == context->cl, CLPRUNE_INVALID_ARGUMENT, "%s belongs to another OpenCL context",
        name);
    TRY_CL(clGetMemObjectInfo(buffer, CL_MEM_SIZE, sizeof *bytes, bytes, NULL));
done:
    return status;
}

clprune_status clprune__check_buffer(
    clprune_context *context, const char *name, cl_mem buffer, size_t count, size_t size)
{
    clprune_status status = CLPRUNE_SUCCESS;
    REQUIRE(context != NULL, CLPRUNE_INVALID_ARGUMENT, "context is NULL");
    if (count == 0 || size == 0)
        goto done;
    REQUIRE(buffer != NULL, CLPRUNE_INVALID_ARGUMENT, "%s is NULL", name);
    size_t needed, bytes;
    REQUIRE(clprune__mul(count, size, &needed), CLPRUNE_SIZE_OVERFLOW,
        "%s: %zu elements of %zu bytes", name, count, size);
    TRY(buffer_size(context, name, buffer, &bytes));
    REQUIRE(needed <= bytes, CLPRUNE_INVALID_SIZE, "%s needs %zu bytes, its buffer has %zu", name,
        needed, bytes);
done:
    return status;
}

/* Whether two matrices of one buffer have the same ld and disjoint columns. With `first` starting
 * at column 0 of its rows, `second` starts at column `shift`. The ld of a single row is free. */
static bool are_side_by_side(clprune_mat first, clprune_mat second)
{
    if (first.offset > second.offset)
        return are_side_by_side(second, first);
    if (first.ld != second.ld && first.rows > 1 && second.rows > 1)
        return false;
    const size_t ld = first.rows > 1 ? first.ld : second.ld;
    const size_t shift = ld > 0 ? (second.offset - first.offset) % ld : 0;
    return first.cols <= shift && second.cols <= ld - shift;
}

clprune_status clprune__check_apart(
    clprune_context *context, const char *name_a, clprune_mat a, const char *name_b, clprune_mat b)
{
    clprune_status status = CLPRUNE_SUCCESS;
    if (a.buffer == NULL || a.buffer != b.buffer || a.rows == 0 || a.cols == 0 || b.rows == 0 ||
        b.cols == 0)
        goto done;
    size_t end_a, end_b;
    REQUIRE(mat_end(a, &end_a) && mat_end(b, &end_b), CLPRUNE_SIZE_OVERFLOW,
        "%s or %s ends beyond the address space", name_a, name_b);
    REQUIRE(end_a <= b.offset || end_b <= a.offset || are_side_by_side(a, b),
        CLPRUNE_INVALID_ARGUMENT, "%s overlaps %s", name_a, name_b);
done:
    return status;
}

clprune_status clprune__check_same_context(
    clprune_context *context, const char *name, const clprune_context *owner)
{
    clprune_status status = CLPRUNE_SUCCESS;
    REQUIRE(context != NULL, CLPRUNE_INVALID_ARGUMENT, "context is NULL");
    REQUIRE(owner == context, CLPRUNE_INVALID_ARGUMENT,
        "%s belongs to another context; use it with the context that created it", name);
done:
    return status;
}

clprune_status clprune__check_operands(
    clprune_context *context, const clprune__operand *operands, size_t inputs, size_t count)
{
    clprune_status status = CLPRUNE_SUCCESS;
    const clprune__operand *p = operands;
    for (size_t i = 0; i < count; i++)
        if (!p[i].optional || !clprune__is_absent(p[i].mat))
            TRY(clprune__check_mat(context, p[i].name, p[i].mat, p[i].rows, p[i].cols));
    for (size_t i = inputs; i < count; i++)
        for (size_t k = 0; k < i; k++)
            if ((p[i].in_place >> k & 1) == 0 || !clprune__same_mat(p[i].mat, p[k].mat))
                TRY(clprune__check_apart(context, p[i].name, p[i].mat, p[k].name, p[k].mat));
done:
    return status;
}

clprune_status clprune__check_reserved(
    clprune_context *context, const char *name, const void *reserved, size_t bytes)
{
    clprune_status status = CLPRUNE_SUCCESS;
    const unsigned char *byte = reserved;
    for (size_t i = 0; i < bytes; i++)
        REQUIRE(byte[i] == 0, CLPRUNE_INVALID_ARGUMENT,
            "%s.reserved is not zero; zero-initialise %s before setting its fields", name, name);
done:
    return status;
}

bool clprune__is_absent(clprune_mat mat)
{
    return mat.buffer == NULL;
}

bool clprune__same_mat(clprune_mat a, clprune_mat b)
{
    return a.buffer == b.buffer && a.offset == b.offset && a.rows == b.rows && a.cols == b.cols &&
           (a.ld == b.ld || a.rows <= 1);
}

clprune_status clprune__empty_event(clprune_context *context, cl_event *event)
{
    clprune_status status = CLPRUNE_SUCCESS;
    if (event != NULL && context->dry != NULL)
        *event = NULL;
    else if (event != NULL)
        TRY_CL(clEnqueueMarkerWithWaitList(context->queue, 0, NULL, event));
done:
    return status;
}
