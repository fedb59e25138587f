#include "support/cl_layer.h"

#include <stdbool.h>
#include <string.h>

const cl_icd_dispatch *cl_layer_target;
static cl_icd_dispatch layer;

cl_int CL_API_CALL clGetLayerInfo(
    cl_layer_info what, size_t size, void *value, size_t *size_returned)
{
    const cl_layer_api_version version = CL_LAYER_API_VERSION_100;
    const bool is_version = what == CL_LAYER_API_VERSION;
    if (!is_version && what != CL_LAYER_NAME)
        return CL_INVALID_VALUE;
    const size_t bytes = is_version ? sizeof version : strlen(cl_layer_name) + 1;
    if (value != NULL && size < bytes)
        return CL_INVALID_VALUE;
    if (value != NULL)
        memcpy(value, is_version ? (const void *)&version : cl_layer_name, bytes);
    if (size_returned != NULL)
        *size_returned = bytes;
    return CL_SUCCESS;
}

cl_int CL_API_CALL clInitLayer(cl_uint count, const cl_icd_dispatch *dispatch,
    cl_uint *count_returned, const cl_icd_dispatch **layer_returned)
{
    const cl_uint all = (cl_uint)(sizeof layer / sizeof layer.clGetPlatformIDs);
    if (dispatch == NULL || count_returned == NULL || layer_returned == NULL || count < all)
        return CL_INVALID_VALUE;
    cl_layer_target = dispatch;
    layer = *dispatch;
    cl_layer_replace(&layer);
    *count_returned = all;
    *layer_returned = &layer;
    return CL_SUCCESS;
}
