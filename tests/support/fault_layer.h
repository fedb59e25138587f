/* Controls of fault_layer.c, a layer for the ICD loader ($OPENCL_LAYERS) that makes calls of OpenCL
 * fail and counts the objects that are alive. With any program,
 *
 *     OPENCL_LAYERS=.../libfault_layer.so FAULT_LAYER=clGetDeviceInfo:3:-6 clprune-info
 *
 * makes the third clGetDeviceInfo fail with code -6; "any:20:-5" makes the 20th watched call fail,
 * "any:20:-5:forever" that call and all later ones. $FAULT_REPORT names a file; when the program
 * ends, a line about calls and objects is appended to it, and a line "call: clSetKernelArg 120" for
 * each function that was called and can fail. A test finds the controls with fault_control.h. */
#ifndef CLPRUNE_TEST_FAULT_LAYER_H
#define CLPRUNE_TEST_FAULT_LAYER_H

#include <stdbool.h>
#include <stddef.h>

/* The `at`-th call from now on, counted from 1, of `function` (NULL: any) fails with `code`; with
 * `forever` all later ones too. 0: none fails. Resets the counters. */
typedef void fault_arm_fn(const char *function, unsigned at, int code, bool forever);

/* The first function that failed since then; NULL: none yet. */
typedef const char *fault_fired_fn(void);

/* Calls since then that could have failed. */
typedef unsigned fault_calls_fn(void);

/* Objects that the program, or a library of it, created and did not release; buffers in bytes too.
 */
typedef struct fault_objects {
    unsigned contexts, queues, buffers, programs, kernels, events;
    size_t
        strays; /* releases of objects that were not alive; no padding: it is compared as bytes */
    size_t bytes;
} fault_objects;

typedef void fault_alive_fn(fault_objects *counts);

fault_arm_fn fault_arm;
fault_fired_fn fault_fired;
fault_calls_fn fault_calls;
fault_alive_fn fault_alive;

#endif
