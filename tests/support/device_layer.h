/* device_layer.c is a layer for the ICD loader ($OPENCL_LAYERS) that makes a device smaller or
 * wrong. $DEVICE_LAYER has the settings, separated by commas; it is read at each call, so a test
 * may change it:
 *
 *     group=64              the device, and each kernel, takes at most 64 work-items a group
 *     local=16384           the device has 16 KiB of local memory
 *     groups=65535          no more groups than that along the second and the third dimension
 *     refuse=prune_score:8  this kernel is refused in groups of more than 8 work-items, which
 *                           no query tells
 *     code=-5               larger groups are refused with this code; default
 *                           CL_INVALID_WORK_GROUP_SIZE, -54
 *     spoil=self_check:7    what is read back after this kernel has NaN in place of float 7, with a
 *                           third number a change of so many units in the last place
 *
 * Groups, numbers of groups and local memory above the limits are refused when the kernel is enqueued:
 *
 *     OPENCL_LAYERS=.../libdevice_layer.so DEVICE_LAYER=group=64,local=16384
 * build/dev/bin/test_prune
 */
#ifndef CLPRUNE_TEST_DEVICE_LAYER_H
#define CLPRUNE_TEST_DEVICE_LAYER_H

#include <stdbool.h>

/* Whether the layer is loaded; it is named in $OPENCL_LAYERS, and the loader knows layers. */
bool device_layer_is_loaded(void);

/* Sets $DEVICE_LAYER; NULL: the device as it is. */
void device_layer_set(const char *settings);

#endif
