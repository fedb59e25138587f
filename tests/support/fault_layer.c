/* A layer between the ICD loader and the drivers; fault_layer.h describes it. It watches the calls
 * of the library and CLBlast. Releases are counted and never fail: a caller could not act on their
 * errors. */
#include "support/fault_layer.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/cl_layer.h"

static char watched[64]; /* "": all */
static atomic_uint calls, matching;
static unsigned fail_at;
static bool fail_forever;
static cl_int fail_code;
static const char *_Atomic fired;

void fault_arm(const char *function, unsigned at, int code, bool forever)
{
    (void)snprintf(watched, sizeof watched, "%s", function != NULL ? function : "");
    fail_at = at;
    fail_code = code;
    fail_forever = forever;
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

/* Whether this call fails. `own`: how often the function was called. */
static bool fails_at(const char *function, atomic_uint *own)
{
    calls++;
    ++*own;
    if (watched[0] != '\0' && strcmp(watched, function) != 0)
        return false;
    const unsigned n = ++matching;
    if (fail_at == 0 || n < fail_at || (n > fail_at && !fail_forever))
        return false;
    if (n == fail_at)
        fired = function;
    return true;
}

#define fails(function) fails_at(#function, &calls_##function)

/* ---- objects: a table of the handles that are alive ------------------------------------------ */

enum { MOST_OBJECTS = 1 << 14 };

static struct object {
    void *handle; /* NULL: free */
    enum kind { CONTEXT, QUEUE, BUFFER, PROGRAM, KERNEL, EVENT_, KINDS } kind;
    unsigned references;
    size_t bytes;
} objects[MOST_OBJECTS];

static fault_objects alive;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static unsigned *counter(enum kind kind)
{
    unsigned *const counters[KINDS] = {&alive.contexts, &alive.queues, &alive.buffers,
        &alive.programs, &alive.kernels, &alive.events};
    return counters[kind];
}

/* The entry of a handle, or a free one; searched from its hash on. */
static struct object *entry_of(void *handle)
{
    size_t i = (size_t)handle / 16 % MOST_OBJECTS;
    struct object *empty = NULL;
    for (size_t tries = 0; tries < MOST_OBJECTS; tries++, i = (i + 1) % MOST_OBJECTS) {
        if (objects[i].handle == handle)
            return &objects[i];
        if (objects[i].handle == NULL && empty == NULL)
            empty = &objects[i];
        if (objects[i].handle == NULL && objects[i].references == 0)
            break; /* never used */
    }
    return empty;
}

static void born(enum kind kind, void *handle, size_t bytes)
{
    (void)pthread_mutex_lock(&lock);
    struct object *o = entry_of(handle);
    if (o != NULL && handle != NULL) {
        *o = (struct object){handle, kind, 1, bytes};
        ++*counter(kind);
        alive.bytes += bytes;
    }
    (void)pthread_mutex_unlock(&lock);
}

static void retained(void *handle)
{
    (void)pthread_mutex_lock(&lock);
    struct object *o = entry_of(handle);
    if (o != NULL && o->handle == handle)
        o->references++;
    (void)pthread_mutex_unlock(&lock);
}

static void released(void *handle)
{
    (void)pthread_mutex_lock(&lock);
    struct object *o = entry_of(handle);
    if (o == NULL || o->handle != handle)
        alive.strays++;
    else if (--o->references == 0) {
        --*counter(o->kind);
        alive.bytes -= o->bytes;
        o->handle = NULL;
        o->references = 1; /* used once: a search goes on behind it */
    }
    (void)pthread_mutex_unlock(&lock);
}

void fault_alive(fault_objects *counts)
{
    (void)pthread_mutex_lock(&lock);
    *counts = alive;
    (void)pthread_mutex_unlock(&lock);
}

/* ---- the functions --------------------------------------------------------------------------- */

/* CODE(function, parameters, arguments): functions that return a code.
 * INFO(function, type, info): those that answer a query.
 * EVENT(function, parameters, arguments, event): those that may also return an event.
 * OBJECT(type, function, parameters, arguments, kind, bytes): those that return an object, and
 * their code by `code`, the last parameter.
 * RETAIN, RELEASE(function, type). */
#define INFO(function, type, info)                                                                 \
    CODE(function, (type a, info b, size_t c, void *d, size_t *e), (a, b, c, d, e))
#define FUNCTIONS                                                                                  \
    CODE(clGetPlatformIDs, (cl_uint a, cl_platform_id * b, cl_uint * c), (a, b, c))                \
    INFO(clGetPlatformInfo, cl_platform_id, cl_platform_info)                                      \
    CODE(clGetDeviceIDs,                                                                           \
        (cl_platform_id a, cl_device_type b, cl_uint c, cl_device_id * d, cl_uint * e),            \
        (a, b, c, d, e))                                                                           \
    INFO(clGetDeviceInfo, cl_device_id, cl_device_info)                                            \
    INFO(clGetContextInfo, cl_context, cl_context_info)                                            \
    INFO(clGetCommandQueueInfo, cl_command_queue, cl_command_queue_info)                           \
    INFO(clGetMemObjectInfo, cl_mem, cl_mem_info)                                                  \
    CODE(clSetMemObjectDestructorCallback,                                                         \
        (cl_mem a, void(CL_CALLBACK * b)(cl_mem, void *), void *c), (a, b, c))                     \
    CODE(clBuildProgram,                                                                           \
        (cl_program a, cl_uint b, const cl_device_id *c, const char *d,                            \
            void(CL_CALLBACK * e)(cl_program, void *), void *f),                                   \
        (a, b, c, d, e, f))                                                                        \
    INFO(clGetProgramInfo, cl_program, cl_program_info)                                            \
    CODE(clGetProgramBuildInfo,                                                                    \
        (cl_program a, cl_device_id b, cl_program_build_info c, size_t d, void *e, size_t *f),     \
        (a, b, c, d, e, f))                                                                        \
    CODE(clSetKernelArg, (cl_kernel a, cl_uint b, size_t c, const void *d), (a, b, c, d))          \
    INFO(clGetKernelInfo, cl_kernel, cl_kernel_info)                                               \
    CODE(clGetKernelWorkGroupInfo,                                                                 \
        (cl_kernel a, cl_device_id b, cl_kernel_work_group_info c, size_t d, void *e, size_t *f),  \
        (a, b, c, d, e, f))                                                                        \
    EVENT(clEnqueueNDRangeKernel,                                                                  \
        (cl_command_queue a, cl_kernel b, cl_uint c, const size_t *d, const size_t *e,             \
            const size_t *f, cl_uint g, const cl_event *h, cl_event *i),                           \
        (a, b, c, d, e, f, g, h, i), i)                                                            \
    EVENT(clEnqueueReadBuffer,                                                                     \
        (cl_command_queue a, cl_mem b, cl_bool c, size_t d, size_t e, void *f, cl_uint g,          \
            const cl_event *h, cl_event *i),                                                       \
        (a, b, c, d, e, f, g, h, i), i)                                                            \
    EVENT(clEnqueueWriteBuffer,                                                                    \
        (cl_command_queue a, cl_mem b, cl_bool c, size_t d, size_t e, const void *f, cl_uint g,    \
            const cl_event *h, cl_event *i),                                                       \
        (a, b, c, d, e, f, g, h, i), i)                                                            \
    EVENT(clEnqueueCopyBuffer,                                                                     \
        (cl_command_queue a, cl_mem b, cl_mem c, size_t d, size_t e, size_t f, cl_uint g,          \
            const cl_event *h, cl_event *i),                                                       \
        (a, b, c, d, e, f, g, h, i), i)                                                            \
    EVENT(clEnqueueFillBuffer,                                                                     \
        (cl_command_queue a, cl_mem b, const void *c, size_t d, size_t e, size_t f, cl_uint g,     \
            const cl_event *h, cl_event *i),                                                       \
        (a, b, c, d, e, f, g, h, i), i)                                                            \
    EVENT(clEnqueueMarkerWithWaitList,                                                             \
        (cl_command_queue a, cl_uint b, const cl_event *c, cl_event *d), (a, b, c, d), d)          \
    EVENT(clEnqueueBarrierWithWaitList,                                                            \
        (cl_command_queue a, cl_uint b, const cl_event *c, cl_event *d), (a, b, c, d), d)          \
    EVENT(clEnqueueUnmapMemObject,                                                                 \
        (cl_command_queue a, cl_mem b, void *c, cl_uint d, const cl_event *e, cl_event *f),        \
        (a, b, c, d, e, f), f)                                                                     \
    EVENT(clEnqueueReadBufferRect,                                                                 \
        (cl_command_queue a, cl_mem b, cl_bool c, const size_t *d, const size_t *e,                \
            const size_t *f, size_t g, size_t h, size_t i, size_t j, void *k, cl_uint l,           \
            const cl_event *m, cl_event *n),                                                       \
        (a, b, c, d, e, f, g, h, i, j, k, l, m, n), n)                                             \
    EVENT(clEnqueueWriteBufferRect,                                                                \
        (cl_command_queue a, cl_mem b, cl_bool c, const size_t *d, const size_t *e,                \
            const size_t *f, size_t g, size_t h, size_t i, size_t j, const void *k, cl_uint l,     \
            const cl_event *m, cl_event *n),                                                       \
        (a, b, c, d, e, f, g, h, i, j, k, l, m, n), n)                                             \
    INFO(clGetEventProfilingInfo, cl_event, cl_profiling_info)                                     \
    CODE(clWaitForEvents, (cl_uint a, const cl_event *b), (a, b))                                  \
    INFO(clGetEventInfo, cl_event, cl_event_info)                                                  \
    CODE(clFlush, (cl_command_queue a), (a))                                                       \
    CODE(clFinish, (cl_command_queue a), (a))                                                      \
    OBJECT(cl_context, clCreateContext,                                                            \
        (const cl_context_properties *a, cl_uint b, const cl_device_id *c,                         \
            void(CL_CALLBACK * d)(const char *, const void *, size_t, void *), void *e,            \
            cl_int *code),                                                                         \
        (a, b, c, d, e, code), CONTEXT, 0)                                                         \
    OBJECT(cl_command_queue, clCreateCommandQueue,                                                 \
        (cl_context a, cl_device_id b, cl_command_queue_properties c, cl_int * code),              \
        (a, b, c, code), QUEUE, 0)                                                                 \
    OBJECT(cl_mem, clCreateBuffer,                                                                 \
        (cl_context a, cl_mem_flags b, size_t c, void *d, cl_int *code), (a, b, c, d, code),       \
        BUFFER, c)                                                                                 \
    OBJECT(cl_mem, clCreateSubBuffer,                                                              \
        (cl_mem a, cl_mem_flags b, cl_buffer_create_type c, const void *d, cl_int *code),          \
        (a, b, c, d, code), BUFFER, 0)                                                             \
    OBJECT(cl_program, clCreateProgramWithSource,                                                  \
        (cl_context a, cl_uint b, const char **c, const size_t *d, cl_int *code),                  \
        (a, b, c, d, code), PROGRAM, 0)                                                            \
    OBJECT(cl_program, clCreateProgramWithBinary,                                                  \
        (cl_context a, cl_uint b, const cl_device_id *c, const size_t *d, const unsigned char **e, \
            cl_int *f, cl_int *code),                                                              \
        (a, b, c, d, e, f, code), PROGRAM, 0)                                                      \
    OBJECT(cl_kernel, clCreateKernel, (cl_program a, const char *b, cl_int *code), (a, b, code),   \
        KERNEL, 0)                                                                                 \
    OBJECT(cl_event, clCreateUserEvent, (cl_context a, cl_int * code), (a, code), EVENT_, 0)       \
    RETAIN(clRetainMemObject, cl_mem)                                                              \
    RETAIN(clRetainProgram, cl_program)                                                            \
    RETAIN(clRetainKernel, cl_kernel)                                                              \
    RETAIN(clRetainEvent, cl_event)                                                                \
    RETAIN(clRetainContext, cl_context)                                                            \
    RETAIN(clRetainCommandQueue, cl_command_queue)                                                 \
    RELEASE(clReleaseMemObject, cl_mem)                                                            \
    RELEASE(clReleaseProgram, cl_program)                                                          \
    RELEASE(clReleaseKernel, cl_kernel)                                                            \
    RELEASE(clReleaseEvent, cl_event)                                                              \
    RELEASE(clReleaseContext, cl_context)                                                          \
    RELEASE(clReleaseCommandQueue, cl_command_queue)

#define CODE(function, parameters, arguments)                                                      \
    static atomic_uint calls_##function;                                                           \
    static cl_int CL_API_CALL watch_##function parameters                                          \
    {                                                                                              \
        return fails(function) ? fail_code : cl_layer_target->function arguments;                  \
    }
#define EVENT(function, parameters, arguments, event)                                              \
    static atomic_uint calls_##function;                                                           \
    static cl_int CL_API_CALL watch_##function parameters                                          \
    {                                                                                              \
        const cl_int code = fails(function) ? fail_code : cl_layer_target->function arguments;     \
        if (code == CL_SUCCESS && event != NULL)                                                   \
            born(EVENT_, *event, 0);                                                               \
        return code;                                                                               \
    }
#define OBJECT(type, function, parameters, arguments, kind, bytes)                                 \
    static atomic_uint calls_##function;                                                           \
    static type CL_API_CALL watch_##function parameters                                            \
    {                                                                                              \
        if (!fails(function)) {                                                                    \
            const type made = cl_layer_target->function arguments;                                 \
            born(kind, made, bytes);                                                               \
            return made;                                                                           \
        }                                                                                          \
        if (code != NULL)                                                                          \
            *code = fail_code;                                                                     \
        return NULL;                                                                               \
    }
#define RETAIN(function, type)                                                                     \
    static atomic_uint calls_##function;                                                           \
    static cl_int CL_API_CALL watch_##function(type a)                                             \
    {                                                                                              \
        const cl_int code = fails(function) ? fail_code : cl_layer_target->function(a);            \
        if (code == CL_SUCCESS)                                                                    \
            retained(a);                                                                           \
        return code;                                                                               \
    }
#define RELEASE(function, type)                                                                    \
    static cl_int CL_API_CALL watch_##function(type a)                                             \
    {                                                                                              \
        released(a);                                                                               \
        return cl_layer_target->function(a);                                                       \
    }
FUNCTIONS
#undef CODE
#undef EVENT
#undef OBJECT
#undef RETAIN
#undef RELEASE

/* Maps memory; does not create an object. */
static atomic_uint calls_clEnqueueMapBuffer;
static void *CL_API_CALL watch_clEnqueueMapBuffer(cl_command_queue a, cl_mem b, cl_bool c,
    cl_map_flags d, size_t e, size_t f, cl_uint g, const cl_event *h, cl_event *i, cl_int *code)
{
    if (!fails(clEnqueueMapBuffer)) {
        void *mapped = cl_layer_target->clEnqueueMapBuffer(a, b, c, d, e, f, g, h, i, code);
        if (mapped != NULL && i != NULL)
            born(EVENT_, *i, 0);
        return mapped;
    }
    if (code != NULL)
        *code = fail_code;
    return NULL;
}

/* "function:at:code" or "function:at:code:forever" of $FAULT_LAYER. */
static void arm_by_environment(void)
{
    const char *text = getenv("FAULT_LAYER");
    char function[64];
    unsigned at;
    int code;
    if (text != NULL && sscanf(text, "%63[^:]:%u:%d", function, &at, &code) == 3)
        fault_arm(strcmp(function, "any") == 0 ? NULL : function, at, code,
            strstr(text, ":forever") != NULL);
}

static void report_calls(FILE *file, const char *function, unsigned count)
{
    if (count > 0)
        (void)fprintf(file, "call: %s %u\n", function, count);
}

/* When the process ends, lines to the end of $FAULT_REPORT. */
__attribute__((destructor)) static void report(void)
{
    const char *path = getenv("FAULT_REPORT");
    FILE *file = path != NULL && cl_layer_target != NULL ? fopen(path, "a") : NULL;
    if (file == NULL)
        return;
    (void)fprintf(file,
        "opencl: %u calls, failed %s, alive %u contexts %u queues %u buffers %u programs %u "
        "kernels "
        "%u events %zu bytes, %zu released twice\n",
        (unsigned)calls, fired != NULL ? fired : "none", alive.contexts, alive.queues,
        alive.buffers, alive.programs, alive.kernels, alive.events, alive.bytes, alive.strays);
#define COUNT(function)                                            report_calls(file, #function, calls_##function);
#define CODE(function, parameters, arguments)                      COUNT(function)
#define EVENT(function, parameters, arguments, event)              COUNT(function)
#define OBJECT(type, function, parameters, arguments, kind, bytes) COUNT(function)
#define RETAIN(function, type)                                     COUNT(function)
#define RELEASE(function, type)
    FUNCTIONS
    COUNT(clEnqueueMapBuffer)
#undef CODE
#undef EVENT
#undef OBJECT
#undef RETAIN
#undef RELEASE
    (void)fclose(file);
}

const char *const cl_layer_name = "fault layer";

void cl_layer_replace(cl_icd_dispatch *layer)
{
#define CODE(function, parameters, arguments)                      WATCH(function)
#define EVENT(function, parameters, arguments, event)              WATCH(function)
#define OBJECT(type, function, parameters, arguments, kind, bytes) WATCH(function)
#define RETAIN(function, type)                                     WATCH(function)
#define RELEASE(function, type)                                    WATCH(function)
#define WATCH(function)                                            layer->function = watch_##function;
    FUNCTIONS
    WATCH(clEnqueueMapBuffer)
    arm_by_environment();
}
