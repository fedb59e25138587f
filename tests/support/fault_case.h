/* Cases for test_faults_walk.c: calls of the public API whose every step can be made to fail. */
#ifndef CLPRUNE_TEST_FAULT_CASE_H
#define CLPRUNE_TEST_FAULT_CASE_H

#include "support/test_device.h"

enum { FAULT_SOME = 192 };

/* FAULT_SOME positive numbers, others for each `salt`; valid until the next call. */
const float *fault_some(unsigned salt);

/* The status of a creation. Fails the case unless the handle at `place` is set after success and
 * NULL after failure. */
clprune_status fault_checked(clprune_status status, const void *place);

/* One after the other, until one fails. */
#define THEN(expression)                                                                           \
    do {                                                                                           \
        if (status == CLPRUNE_SUCCESS)                                                             \
            status = (expression);                                                                 \
    } while (0)

/* The results of a case's calls, as bytes. */
typedef struct fault_bytes {
    unsigned char data[1 << 14];
    size_t count;
} fault_bytes;

void fault_add(fault_bytes *bytes, const void *data, size_t count);
/* Add the elements of a matrix; bytes of a buffer. */
void fault_add_mat(fault_bytes *bytes, clprune_context *context, clprune_mat mat);
void fault_add_buffer(
    fault_bytes *bytes, clprune_context *context, cl_mem buffer, size_t offset, size_t count);

/* Its hooks run in this order; only `call` and `undo` may meet a failure. All but `call` may be
 * NULL. After `close` all objects end that `open` made by test_objects.h. */
typedef struct fault_case {
    const char *name;
    const void *row;                                         /* for the hooks */
    void (*open)(clprune_context *context, const void *row); /* objects for all calls */
    void (*prepare)(clprune_context *context);        /* writes the inputs and outputs of a call */
    clprune_status (*call)(clprune_context *context); /* handles are NULL where it fails */
    void (*result)(clprune_context *context, fault_bytes *to); /* of a call that succeeded */
    void (*undo)(clprune_context *context);                    /* of any call: what it created */
    void (*close)(clprune_context *context);
    const char *(*text)(void); /* the error text, if it is not the context's */
} fault_case;

/* The cases of the functions in test_functions.h; of functions that create objects, move data and
 * wait; of contexts and plans. */
size_t fault_function_cases(const fault_case **cases);
size_t fault_object_cases(const fault_case **cases);
size_t fault_context_cases(const fault_case **cases);

#endif
