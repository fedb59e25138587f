/* device_layer.c is a layer for the ICD loader ($OPENCL_LAYERS) that makes a device smaller or
 * wrong. $DEVICE_LAYER has the settings, separated by commas; it is read at each call, so a test
 * may change it:
 *
 *     name=TEXT             of the device
 *     group=64              the device, and each kernel, takes at most 64 work-items a group
 *     local=16384           the device has 16 KiB of local memory
 *     groups=65535          at most that many groups along the second and the third dimension
 *     refuse=prune_score:8  this kernel is refused in groups of more than 8 work-items; no query
 *                           tells
 *     code=-5               groups that are too large are refused with this code; default
 *                           CL_INVALID_WORK_GROUP_SIZE, -54
 *     spoil=self_check:7    data read back after this kernel have NaN in place of float 7; a third
 *                           number changes float 7 by that many units in the last place instead
 *
 * Kernels above a limit are refused when they are enqueued. Run a test with the layer by
 *
 *     OPENCL_LAYERS=.../libdevice_layer.so DEVICE_LAYER=group=64,local=16384 PROGRAM */
#ifndef CLPRUNE_TEST_DEVICE_LAYER_H
#define CLPRUNE_TEST_DEVICE_LAYER_H

#include <stdbool.h>

/* Whether the layer is loaded: $OPENCL_LAYERS names it and the loader supports layers. */
bool device_layer_is_loaded(void);

/* Sets $DEVICE_LAYER; NULL: the device as it is. */
void device_layer_set(const char *settings);

#endif
