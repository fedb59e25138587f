/* How functions fail: three verbs, which return the status of what failed.
 *
 *     REQUIRE(x != NULL, CLPRUNE_INVALID_ARGUMENT, "x is NULL");
 *     TRY_CL(clEnqueue...(...));
 *     return clprune__inner(...);
 *
 * A function that must release something has one exit, and the verbs with _DONE:
 *
 *     clprune_status status = CLPRUNE_SUCCESS;
 *     TRY_DONE(clprune__inner(...));
 * done:
 *     release what was taken
 *     return status;
 *
 * All but TRY expect a local `context`, which may be NULL: the text then goes to the thread's
 * buffer. */
#ifndef CLPRUNE_RUNTIME_FAIL_H
#define CLPRUNE_RUNTIME_FAIL_H

#include <CL/cl.h>

#include "clprune/context.h"

#define TRY(call)                                                                                  \
    do {                                                                                           \
        const clprune_status status_ = (call);                                                     \
        if (status_ != CLPRUNE_SUCCESS)                                                            \
            return status_;                                                                        \
    } while (0)

#define TRY_CL(call) TRY_CODE(#call, call)

/* For calls of OpenCL that return their code by a pointer: TRY_CODE("clCreateContext", code). */
#define TRY_CODE(name, code)                                                                       \
    do {                                                                                           \
        const cl_int code_ = (code);                                                               \
        if (code_ != CL_SUCCESS)                                                                   \
            return clprune__fail_cl(context, code_, __FILE__, __LINE__, name);                     \
    } while (0)

#define REQUIRE(condition, code, ...)                                                              \
    do {                                                                                           \
        if (!(condition))                                                                          \
            return clprune__fail(context, code, __FILE__, __LINE__, __VA_ARGS__);                  \
    } while (0)

#define TRY_DONE(call)                                                                             \
    do {                                                                                           \
        status = (call);                                                                           \
        if (status != CLPRUNE_SUCCESS)                                                             \
            goto done;                                                                             \
    } while (0)

#define TRY_CL_DONE(call) TRY_CODE_DONE(#call, call)

#define TRY_CODE_DONE(name, code)                                                                  \
    do {                                                                                           \
        const cl_int code_ = (code);                                                               \
        if (code_ != CL_SUCCESS) {                                                                 \
            status = clprune__fail_cl(context, code_, __FILE__, __LINE__, name);                   \
            goto done;                                                                             \
        }                                                                                          \
    } while (0)

#define REQUIRE_DONE(condition, code, ...)                                                         \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            status = clprune__fail(context, code, __FILE__, __LINE__, __VA_ARGS__);                \
            goto done;                                                                             \
        }                                                                                          \
    } while (0)

#if defined(__GNUC__)
#define CLPRUNE__PRINTF(text, first) __attribute__((__format__(__printf__, text, first)))
#else
#define CLPRUNE__PRINTF(text, first)
#endif

/* Stores "file:line: text" as the last error, tells the log hook, returns `code`; while
 * context->quiet it only returns `code`. The text is for users: a sentence that ends with the
 * values allowed or the next step. */
clprune_status clprune__fail(clprune_context *context, clprune_status code, const char *file,
    int line, const char *format, ...) CLPRUNE__PRINTF(5, 6);

/* The same for an OpenCL code. `call` is the name of a function or its call, as
 * "clFinish(context->queue)". The text names the function, the property that a query asked for, and
 * the code. The status is clprune__cl_status(code); with OUT_OF_DEVICE_MEMORY the text also says
 * how many bytes the context holds, and how many the device and its largest buffer have. */
clprune_status clprune__fail_cl(
    clprune_context *context, cl_int code, const char *file, int line, const char *call);

/* The status of an OpenCL error code: OUT_OF_DEVICE_MEMORY, OUT_OF_HOST_MEMORY or OPENCL_ERROR. */
clprune_status clprune__cl_status(cl_int code);

/* The buffer of the last error, CLPRUNE__ERROR_TEXT bytes: the context's own, or one of the calling
 * thread: for all thread-safe contexts, or for NULL. */
char *clprune__error_text(clprune_context *context);

/* Copies the last error of a context that will be closed to the calling thread's. */
void clprune__pass_error(const clprune_context *from);

/* The name of an OpenCL error code, such as "CL_INVALID_VALUE". */
const char *clprune__cl_name(cl_int code);

void clprune__log(clprune_context *context, clprune_log_level level, const char *format, ...)
    CLPRUNE__PRINTF(3, 4);

#endif
