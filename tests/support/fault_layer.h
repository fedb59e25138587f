/* Controls of fault_layer.c, a layer for the ICD loader ($OPENCL_LAYERS) that lets one call of
 * OpenCL fail. With any program:
 *
 *     OPENCL_LAYERS=.../libfault_layer.so FAULT_LAYER=clGetDeviceInfo:3:-6 clprune-info
 *
 * lets the third clGetDeviceInfo fail with code -6; "any:20:-5" lets the 20th call of whatever it
 * watches fail. A test finds the controls through dlopen and dlsym. */
#ifndef CLPRUNE_TEST_FAULT_LAYER_H
#define CLPRUNE_TEST_FAULT_LAYER_H

/* The `at`-th call from now on, counted from 1, of `function` (NULL: of any) fails with `code`; 0:
 * none does. Counters begin anew. */
typedef void fault_arm_fn(const char *function, unsigned at, int code);

/* The function that failed since then; NULL: none yet. */
typedef const char *fault_fired_fn(void);

/* Calls since then that the layer saw. */
typedef unsigned fault_calls_fn(void);

fault_arm_fn fault_arm;
fault_fired_fn fault_fired;
fault_calls_fn fault_calls;

#endif
