/* A layer between the ICD loader and the drivers; fault_layer.h describes it. It watches what the
 * library and CLBlast call, but for releases, which report no errors that a caller could act on. */
#include "support/fault_layer.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <CL/cl_layer.h>

static const cl_icd_dispatch *target;
static cl_icd_dispatch layer;

static char watched[64]; /* "": all */
static atomic_uint calls, matching;
static unsigned fail_at;
static cl_int fail_code;
static const char *_Atomic fired;

void fault_arm(const char *function, unsigned at, int code)
{
    (void)snprintf(watched, sizeof watched, "%s", function != NULL ? function : "");
    fail_at = at;
    fail_code = code;
    calls = 0;
    matching = 0;
    fired = NULL;
}

const char *fault_fired(void)
{
    return fired;
}

unsigned fault_calls(void)
{
    return calls;
}

/* Whether this call fails. */
static bool fails(const char *function)
{
    calls++;
    if (watched[0] != '\0' && strcmp(watched, function) != 0)
        return false;
    if (++matching != fail_at)
        return false;
    fired = function;
    return true;
}

/* CODE(function, parameters, arguments): functions that return a code.
 * OBJECT(type, function, parameters, arguments): those that return an object, and their code by
 * `code`, the last parameter. */
#define FUNCTIONS                                                                                  \
    CODE(clGetPlatformIDs, (cl_uint a, cl_platform_id * b, cl_uint * c), (a, b, c))                \
    CODE(clGetPlatformInfo, (cl_platform_id a, cl_platform_info b, size_t c, void *d, size_t *e),  \
        (a, b, c, d, e))                                                                           \
    CODE(clGetDeviceIDs,                                                                           \
        (cl_platform_id a, cl_device_type b, cl_uint c, cl_device_id * d, cl_uint * e),            \
        (a, b, c, d, e))                                                                           \
    CODE(clGetDeviceInfo, (cl_device_id a, cl_device_info b, size_t c, void *d, size_t *e),        \
        (a, b, c, d, e))                                                                           \
    CODE(clRetainContext, (cl_context a), (a))                                                     \
    CODE(clGetContextInfo, (cl_context a, cl_context_info b, size_t c, void *d, size_t *e),        \
        (a, b, c, d, e))                                                                           \
    CODE(clRetainCommandQueue, (cl_command_queue a), (a))                                          \
    CODE(clGetCommandQueueInfo,                                                                    \
        (cl_command_queue a, cl_command_queue_info b, size_t c, void *d, size_t *e),               \
        (a, b, c, d, e))                                                                           \
    CODE(clGetMemObjectInfo, (cl_mem a, cl_mem_info b, size_t c, void *d, size_t *e),              \
        (a, b, c, d, e))                                                                           \
    CODE(clSetMemObjectDestructorCallback,                                                         \
        (cl_mem a, void(CL_CALLBACK * b)(cl_mem, void *), void *c), (a, b, c))                     \
    CODE(clBuildProgram,                                                                           \
        (cl_program a, cl_uint b, const cl_device_id *c, const char *d,                            \
            void(CL_CALLBACK * e)(cl_program, void *), void *f),                                   \
        (a, b, c, d, e, f))                                                                        \
    CODE(clGetProgramInfo, (cl_program a, cl_program_info b, size_t c, void *d, size_t *e),        \
        (a, b, c, d, e))                                                                           \
    CODE(clGetProgramBuildInfo,                                                                    \
        (cl_program a, cl_device_id b, cl_program_build_info c, size_t d, void *e, size_t *f),     \
        (a, b, c, d, e, f))                                                                        \
    CODE(clSetKernelArg, (cl_kernel a, cl_uint b, size_t c, const void *d), (a, b, c, d))          \
    CODE(clGetKernelInfo, (cl_kernel a, cl_kernel_info b, size_t c, void *d, size_t *e),           \
        (a, b, c, d, e))                                                                           \
    CODE(clGetKernelWorkGroupInfo,                                                                 \
        (cl_kernel a, cl_device_id b, cl_kernel_work_group_info c, size_t d, void *e, size_t *f),  \
        (a, b, c, d, e, f))                                                                        \
    CODE(clEnqueueNDRangeKernel,                                                                   \
        (cl_command_queue a, cl_kernel b, cl_uint c, const size_t *d, const size_t *e,             \
            const size_t *f, cl_uint g, const cl_event *h, cl_event *i),                           \
        (a, b, c, d, e, f, g, h, i))                                                               \
    CODE(clEnqueueReadBuffer,                                                                      \
        (cl_command_queue a, cl_mem b, cl_bool c, size_t d, size_t e, void *f, cl_uint g,          \
            const cl_event *h, cl_event *i),                                                       \
        (a, b, c, d, e, f, g, h, i))                                                               \
    CODE(clEnqueueWriteBuffer,                                                                     \
        (cl_command_queue a, cl_mem b, cl_bool c, size_t d, size_t e, const void *f, cl_uint g,    \
            const cl_event *h, cl_event *i),                                                       \
        (a, b, c, d, e, f, g, h, i))                                                               \
    CODE(clEnqueueFillBuffer,                                                                      \
        (cl_command_queue a, cl_mem b, const void *c, size_t d, size_t e, size_t f, cl_uint g,     \
            const cl_event *h, cl_event *i),                                                       \
        (a, b, c, d, e, f, g, h, i))                                                               \
    CODE(clEnqueueMarkerWithWaitList,                                                              \
        (cl_command_queue a, cl_uint b, const cl_event *c, cl_event *d), (a, b, c, d))             \
    CODE(clEnqueueBarrierWithWaitList,                                                             \
        (cl_command_queue a, cl_uint b, const cl_event *c, cl_event *d), (a, b, c, d))             \
    CODE(clEnqueueUnmapMemObject,                                                                  \
        (cl_command_queue a, cl_mem b, void *c, cl_uint d, const cl_event *e, cl_event *f),        \
        (a, b, c, d, e, f))                                                                        \
    CODE(clWaitForEvents, (cl_uint a, const cl_event *b), (a, b))                                  \
    CODE(clGetEventInfo, (cl_event a, cl_event_info b, size_t c, void *d, size_t *e),              \
        (a, b, c, d, e))                                                                           \
    CODE(clFlush, (cl_command_queue a), (a))                                                       \
    CODE(clFinish, (cl_command_queue a), (a))                                                      \
    OBJECT(cl_context, clCreateContext,                                                            \
        (const cl_context_properties *a, cl_uint b, const cl_device_id *c,                         \
            void(CL_CALLBACK * d)(const char *, const void *, size_t, void *), void *e,            \
            cl_int *code),                                                                         \
        (a, b, c, d, e, code))                                                                     \
    OBJECT(cl_command_queue, clCreateCommandQueue,                                                 \
        (cl_context a, cl_device_id b, cl_command_queue_properties c, cl_int * code),              \
        (a, b, c, code))                                                                           \
    OBJECT(cl_mem, clCreateBuffer,                                                                 \
        (cl_context a, cl_mem_flags b, size_t c, void *d, cl_int *code), (a, b, c, d, code))       \
    OBJECT(cl_mem, clCreateSubBuffer,                                                              \
        (cl_mem a, cl_mem_flags b, cl_buffer_create_type c, const void *d, cl_int *code),          \
        (a, b, c, d, code))                                                                        \
    OBJECT(cl_program, clCreateProgramWithSource,                                                  \
        (cl_context a, cl_uint b, const char **c, const size_t *d, cl_int *code),                  \
        (a, b, c, d, code))                                                                        \
    OBJECT(cl_program, clCreateProgramWithBinary,                                                  \
        (cl_context a, cl_uint b, const cl_device_id *c, const size_t *d, const unsigned char **e, \
            cl_int *f, cl_int *code),                                                              \
        (a, b, c, d, e, f, code))                                                                  \
    OBJECT(cl_kernel, clCreateKernel, (cl_program a, const char *b, cl_int *code), (a, b, code))   \
    OBJECT(void *, clEnqueueMapBuffer,                                                             \
        (cl_command_queue a, cl_mem b, cl_bool c, cl_map_flags d, size_t e, size_t f, cl_uint g,   \
            const cl_event *h, cl_event *i, cl_int *code),                                         \
        (a, b, c, d, e, f, g, h, i, code))

#define CODE(function, parameters, arguments)                                                      \
    static cl_int CL_API_CALL watch_##function parameters                                          \
    {                                                                                              \
        return fails(#function) ? fail_code : target->function arguments;                          \
    }
#define OBJECT(type, function, parameters, arguments)                                              \
    static type CL_API_CALL watch_##function parameters                                            \
    {                                                                                              \
        if (!fails(#function))                                                                     \
            return target->function arguments;                                                     \
        if (code != NULL)                                                                          \
            *code = fail_code;                                                                     \
        return NULL;                                                                               \
    }
FUNCTIONS
#undef CODE
#undef OBJECT

/* "function:at:code" of $FAULT_LAYER. */
static void arm_by_environment(void)
{
    const char *text = getenv("FAULT_LAYER");
    char function[64];
    unsigned at;
    int code;
    if (text != NULL && sscanf(text, "%63[^:]:%u:%d", function, &at, &code) == 3)
        fault_arm(strcmp(function, "any") == 0 ? NULL : function, at, code);
}

cl_int CL_API_CALL clGetLayerInfo(
    cl_layer_info what, size_t size, void *value, size_t *size_returned)
{
    static const char name[] = "fault layer";
    const cl_layer_api_version version = CL_LAYER_API_VERSION_100;
    const bool is_version = what == CL_LAYER_API_VERSION;
    if (!is_version && what != CL_LAYER_NAME)
        return CL_INVALID_VALUE;
    const size_t bytes = is_version ? sizeof version : sizeof name;
    if (value != NULL && size < bytes)
        return CL_INVALID_VALUE;
    if (value != NULL)
        memcpy(value, is_version ? (const void *)&version : name, bytes);
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
    target = dispatch;
    layer = *dispatch;
#define CODE(function, parameters, arguments)         layer.function = watch_##function;
#define OBJECT(type, function, parameters, arguments) layer.function = watch_##function;
    FUNCTIONS
#undef CODE
#undef OBJECT
    arm_by_environment();
    *count_returned = all;
    *layer_returned = &layer;
    return CL_SUCCESS;
}
