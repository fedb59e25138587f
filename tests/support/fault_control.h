/* The controls of the fault layer (fault_layer.h) that the ICD loader has loaded, or will. */
#ifndef CLPRUNE_TEST_FAULT_CONTROL_H
#define CLPRUNE_TEST_FAULT_CONTROL_H

#include "support/fault_layer.h"

typedef struct fault_controls {
    fault_arm_fn *arm;
    fault_fired_fn *fired;
    fault_calls_fn *calls;
    fault_alive_fn *alive;
} fault_controls;

/* Lists devices, which loads the layers. False if $OPENCL_LAYERS has no fault layer, or the loader
 * does not support layers. */
bool fault_find_layer(fault_controls *controls);

#endif
