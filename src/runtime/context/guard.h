/* What every public function does first: it refuses contexts that a parent process created before
 * a fork, and takes the lock of a thread-safe context.
 *
 *     clprune_status clprune_gemm(clprune_context *context, ...)
 *     {
 *         ENTER(context);
 *
 * The lock is released wherever the function returns. It is recursive: public functions may call
 * each other. Without `thread_safe` there is no lock, and entering costs a comparison. All but
 * ENTER_CONTEXT let a NULL context through; the function refuses it itself.
 * tests/context/test_guards.sh fails where a public function that takes an object lacks its
 * ENTER. */
#ifndef CLPRUNE_RUNTIME_GUARD_H
#define CLPRUNE_RUNTIME_GUARD_H

#include <stdbool.h>
#include <string.h> /* memset */

#include "clprune/context.h"

typedef struct clprune__lock clprune__lock;

typedef struct clprune__guard {
    clprune__lock *held;              /* NULL: none */
    struct clprune__verbose *verbose; /* NULL, or where the call is noted */
    clprune_status status;
} clprune__guard;

#define CLPRUNE__GUARD(call)                                                                       \
    __attribute__((cleanup(clprune__leave), unused)) const clprune__guard guard_ = (call)

/* For functions that return a status: returns CLPRUNE_FORKED in a forked child. Goes before any
 * goto. */
#define ENTER(context)                                                                             \
    CLPRUNE__GUARD(clprune__enter(context, __func__));                                             \
    if (guard_.status != CLPRUNE_SUCCESS)                                                          \
    return guard_.status

/* The same where the context must be given. */
#define ENTER_CONTEXT(context)                                                                     \
    ENTER(context);                                                                                \
    if ((context) == NULL)                                                                         \
    return clprune__fail(NULL, CLPRUNE_INVALID_ARGUMENT, __FILE__, __LINE__, "context is NULL")

/* For functions that create: on failure *out, a handle or a struct, is zero. */
#define ENTER_CREATE(context, out)                                                                 \
    if ((out) != NULL)                                                                             \
        memset((out), 0, sizeof *(out));                                                           \
    ENTER(context)

/* For functions that take a second object: `owner` is the context that it was created with, NULL if
 * there is no such object, and `name` its argument. Objects of another context are refused with
 * INVALID_ARGUMENT: its buffers and scratch are its own. tests/context/test_guards.sh fails where a
 * public function with two objects lacks this. */
#define ENTER_WITH(context, name, owner)                                                           \
    CLPRUNE__GUARD(clprune__enter_with(context, __func__, name, owner));                           \
    if (guard_.status != CLPRUNE_SUCCESS)                                                          \
    return guard_.status

/* For functions that return no status. In a forked child they run without the lock, which a thread
 * of the parent may have held at the fork: they must not walk or change lists, nor call OpenCL. */
#define ENTER_QUIETLY(context) CLPRUNE__GUARD(clprune__enter_quietly(context))

clprune__guard clprune__enter(clprune_context *context, const char *function);
clprune__guard clprune__enter_with(
    clprune_context *context, const char *function, const char *name, const clprune_context *owner);
clprune__guard clprune__enter_quietly(const clprune_context *context);
void clprune__leave(const clprune__guard *guard);

/* Notes the process that a context belongs to. Errors: OUT_OF_HOST_MEMORY. */
clprune_status clprune__guard_open(clprune_context *context);
/* Creates the lock of a thread_safe context, at the end of its creation: what fails before is in
 * the context's own text. Errors: OUT_OF_HOST_MEMORY. */
clprune_status clprune__guard_share(clprune_context *context);
void clprune__guard_close(clprune_context *context);

/* Whether a context was created by a parent process before a fork: OpenCL must not be called for
 * it, not even to release objects, and its lists may be half changed, so their memory stays. */
bool clprune__is_forked(const clprune_context *context);

/* Called before the first OpenCL call of a process. Errors: FORKED (the parent has used OpenCL,
 * which does not survive a fork), OUT_OF_HOST_MEMORY. */
clprune_status clprune__claim_opencl(void);

#endif
