/* How functions fail: three verbs, used with one exit per function.
 *
 *     clprune_status status = CLPRUNE_SUCCESS;
 *     REQUIRE(x != NULL, CLPRUNE_INVALID_ARGUMENT, "x is NULL");
 *     TRY_CL(clEnqueue...(...));
 *     TRY(clprune__inner(...));
 * done:
 *     release what was taken
 *     return status;
 *
 * All three expect locals `context` (may be NULL: the text then goes to the thread's buffer) and
 * `status`, and a label `done`. */
#ifndef CLPRUNE_RUNTIME_CHECK_H
#define CLPRUNE_RUNTIME_CHECK_H

#include <CL/cl.h>
#include <stdbool.h>

#include "clprune/context.h"
#include "clprune/matrix.h"
#include "runtime/guard.h"

#define TRY(call)                                                                                  \
    do {                                                                                           \
        status = (call);                                                                           \
        if (status != CLPRUNE_SUCCESS)                                                             \
            goto done;                                                                             \
    } while (0)

#define TRY_CL(call)                                                                               \
    do {                                                                                           \
        const cl_int code_ = (call);                                                               \
        if (code_ != CL_SUCCESS) {                                                                 \
            status = clprune__fail_cl(context, code_, __FILE__, __LINE__, #call);                  \
            goto done;                                                                             \
        }                                                                                          \
    } while (0)

#define REQUIRE(condition, code, ...)                                                              \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            status = clprune__fail(context, code, __FILE__, __LINE__, #condition, __VA_ARGS__);    \
            goto done;                                                                             \
        }                                                                                          \
    } while (0)

#if defined(__GNUC__)
#define CLPRUNE__PRINTF(text, first) __attribute__((__format__(__printf__, text, first)))
#else
#define CLPRUNE__PRINTF(text, first)
#endif

/* Stores "file:line: text (expression)" as the last error, tells the log hook, returns `code`. */
clprune_status clprune__fail(clprune_context *context, clprune_status code, const char *file,
    int line, const char *expression, const char *format, ...) CLPRUNE__PRINTF(6, 7);

/* The same for an OpenCL code; out-of-memory codes become OUT_OF_DEVICE_MEMORY. */
clprune_status clprune__fail_cl(
    clprune_context *context, cl_int code, const char *file, int line, const char *expression);

/* Where the last error of a context is kept: in itself, or, where it is thread-safe or NULL, by the
 * calling thread. CLPRUNE__ERROR_TEXT bytes. */
char *clprune__error_text(clprune_context *context);

/* The last error of a context that is about to go becomes that of the thread. */
void clprune__pass_error(const clprune_context *from);

/* The name of an OpenCL error code, such as "CL_INVALID_VALUE". */
const char *clprune__cl_name(cl_int code);

void clprune__log(clprune_context *context, clprune_log_level level, const char *format, ...)
    CLPRUNE__PRINTF(3, 4);

/* Fails unless `mat` is rows x cols, has ld >= cols and lies inside its buffer. An empty matrix
 * may lack a buffer. `name` is the argument's name in the message. */
clprune_status clprune__check_mat(
    clprune_context *context, const char *name, clprune_mat mat, size_t rows, size_t cols);

/* Fails unless `buffer` holds at least count * size bytes; a count of 0 accepts NULL. */
clprune_status clprune__check_buffer(
    clprune_context *context, const char *name, cl_mem buffer, size_t count, size_t size);

/* Fails where two non-empty matrices in one buffer may share an element. They are apart if one ends
 * before the other begins, or if both have the same ld and their columns are disjoint: two windows
 * of one matrix, side by side. */
clprune_status clprune__check_apart(
    clprune_context *context, const char *name_a, clprune_mat a, const char *name_b, clprune_mat b);

/* Fails unless `owner`, the context that an object was created with, is `context`. `name` is the
 * object's argument. Errors: INVALID_ARGUMENT. */
clprune_status clprune__check_same_context(
    clprune_context *context, const char *name, const clprune_context *owner);

/* Whether an optional matrix is CLPRUNE_NO_MAT. */
bool clprune__is_absent(clprune_mat mat);

/* A matrix argument, with the size that it must have. */
typedef struct clprune__operand {
    const char *name;
    clprune_mat mat;
    size_t rows, cols;
    bool optional;     /* CLPRUNE_NO_MAT passes, whatever the size */
    unsigned in_place; /* bit i: it may be operand i, element for element */
} clprune__operand;

/* Checks `count` operands, inputs first: the size of each, and that each output, from `inputs` on,
 * lies apart from all before it but those of its in_place. */
clprune_status clprune__check_operands(
    clprune_context *context, const clprune__operand *operands, size_t inputs, size_t count);

/* Fails unless the reserved fields of a description, `bytes` of them, are zero. `name` is the
 * description's. */
clprune_status clprune__check_reserved(
    clprune_context *context, const char *name, const void *reserved, size_t bytes);

/* Whether two matrices are the same elements: the aliasing that element-wise operations allow. */
bool clprune__same_mat(clprune_mat a, clprune_mat b);

/* For operations that turn out to have nothing to do: an event that completes with the queue. */
clprune_status clprune__empty_event(clprune_context *context, cl_event *event);

#endif
