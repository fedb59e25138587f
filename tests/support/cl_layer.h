/* What the layers between the ICD loader and the drivers share: cl_layer.c has the two entries that
 * the loader calls. A layer defines the rest. */
#ifndef CLPRUNE_TEST_CL_LAYER_H
#define CLPRUNE_TEST_CL_LAYER_H

#include <CL/cl_layer.h>

/* The functions below the layer; NULL: the loader has not started it. */
extern const cl_icd_dispatch *cl_layer_target;

/* Defined by the layer: its name, and the functions that it puts in front of the target's. */
extern const char *const cl_layer_name;
void cl_layer_replace(cl_icd_dispatch *layer);

#endif
