/* What a driver does with calls that the specification allows and this library has had trouble
 * with, one a process:
 *
 *     gpu_probe NAME [platform:device]
 *
 * Prints one line. Exit status: 0 if the driver does it, 3 if it refuses, 1 if a result is wrong;
 * what ends otherwise has crashed or hangs. Without NAME: the names, a line each. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#ifndef CL_TARGET_OPENCL_VERSION
#define CL_TARGET_OPENCL_VERSION 120
#endif
#include <CL/cl.h>

enum { GOOD = 0, WRONG = 1, USAGE = 2, REFUSED = 3, CHILDREN = 64, LAUNCHES = 2000 };

static const size_t MIB = (size_t)1 << 20,
                    CHILD = 3 * ((size_t)1 << 16); /* bytes of a sub-buffer */

static cl_context context;
static cl_device_id device;
static cl_command_queue queue;

static const char fill_source[] =
    "__kernel void fill(__global int *to, int value) { to[get_global_id(0)] = value; }\n";

static int said(int code, const char *format, long detail)
{
    printf(format, detail);
    printf("\n");
    return code;
}

static cl_kernel build(const char *source, const char *options, const char *name, cl_int *code)
{
    cl_program program = clCreateProgramWithSource(context, 1, &source, NULL, code);
    if (*code == CL_SUCCESS)
        *code = clBuildProgram(program, 1, &device, options, NULL, NULL);
    return *code == CL_SUCCESS ? clCreateKernel(program, name, code) : NULL;
}

static cl_int launch(
    cl_kernel kernel, cl_mem to, cl_int value, size_t count, cl_uint waits, const cl_event *wait)
{
    cl_int code = clSetKernelArg(kernel, 0, sizeof to, &to);
    if (code == CL_SUCCESS)
        code = clSetKernelArg(kernel, 1, sizeof value, &value);
    return code != CL_SUCCESS
               ? code
               : clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &count, NULL, waits, wait, NULL);
}

/* ---- sub-buffers -------------------------------------------------------------------------------
 */

/* Children of one buffer, `step` bytes apart from `first` on, written by kernels and released in an
 * order: 0 as made, 1 the last first, 2 mixed; `idle`: after clFinish; the parent before them. */
static int children(size_t first, size_t step, int order, int idle)
{
    cl_int code;
    cl_mem child[CHILDREN];
    cl_kernel kernel = build(fill_source, NULL, "fill", &code);
    if (code != CL_SUCCESS)
        return said(WRONG, "no kernel: %ld", code);
    cl_mem parent =
        clCreateBuffer(context, CL_MEM_READ_WRITE, first + CHILDREN * step + CHILD, NULL, &code);
    if (code != CL_SUCCESS)
        return said(REFUSED, "no such buffer: error %ld", code);
    for (size_t i = 0; i < CHILDREN; i++) {
        const cl_buffer_region region = {first + i * step, CHILD};
        child[i] = clCreateSubBuffer(
            parent, CL_MEM_READ_WRITE, CL_BUFFER_CREATE_TYPE_REGION, &region, &code);
        if (code == CL_SUCCESS)
            code = launch(kernel, child[i], (cl_int)i, CHILD / sizeof(cl_int), 0, NULL);
        if (code != CL_SUCCESS)
            return said(REFUSED, "no sub-buffer: error %ld", code);
    }
    cl_int last = -1;
    code = clEnqueueReadBuffer(queue, child[CHILDREN - 1], idle ? CL_TRUE : CL_FALSE,
        CHILD - sizeof last, sizeof last, &last, 0, NULL, NULL);
    if (idle)
        code |= clFinish(queue);
    clReleaseMemObject(parent);
    for (size_t i = 0; i < CHILDREN; i++) {
        const size_t k = order == 0 ? i : order == 1 ? CHILDREN - 1 - i : i * 37 % CHILDREN;
        code |= clReleaseMemObject(child[k]);
    }
    code |= clFinish(queue);
    return code == CL_SUCCESS && last == CHILDREN - 1
               ? said(GOOD, "%ld children", CHILDREN)
               : said(WRONG, "error or value %ld", code != CL_SUCCESS ? code : last);
}

static int apart(void)
{
    return children(0, CHILD, 0, 1);
}
static int apart_in_flight(void)
{
    return children(0, CHILD, 2, 0);
}
static int overlapping(void)
{
    return children(0, CHILD / 3, 1, 1);
}
static int overlapping_in_flight(void)
{
    return children(0, CHILD / 3, 2, 0);
}
static int same_origin(void)
{
    return children(CHILD, 0, 0, 1);
}
static int same_origin_in_flight(void)
{
    return children(CHILD, 0, 1, 0);
}
static int beyond_4_gib(void)
{
    return children(4096 * MIB, CHILD, 2, 0);
}

/* ---- events ------------------------------------------------------------------------------------
 */

/* A command that waits for a user event, which is set to `state`; then the queue still works. */
static int user_event(cl_int state)
{
    cl_int code, got = 0;
    cl_kernel kernel = build(fill_source, NULL, "fill", &code);
    cl_event event = clCreateUserEvent(context, &code);
    cl_mem buffer = clCreateBuffer(context, CL_MEM_READ_WRITE, CHILD, NULL, &code);
    code = launch(kernel, buffer, 1, CHILD / sizeof got, 1, &event);
    code |= clFlush(queue);
    code |= clSetUserEventStatus(event, state);
    (void)clFinish(queue); /* may report the failed command */
    clReleaseEvent(event);
    cl_command_queue other = clCreateCommandQueue(context, device, 0, &code);
    clReleaseCommandQueue(queue);
    queue = other;
    code |= launch(kernel, buffer, 7, CHILD / sizeof got, 0, NULL);
    code |= clEnqueueReadBuffer(queue, buffer, CL_TRUE, 0, sizeof got, &got, 0, NULL, NULL);
    return code == CL_SUCCESS && got == 7
               ? said(GOOD, "a new queue works after status %ld", state)
               : said(WRONG, "error or value %ld", code != CL_SUCCESS ? code : got);
}

static int event_complete(void)
{
    return user_event(CL_COMPLETE);
}
static int event_failed(void)
{
    return user_event(-1);
}

/* ---- compilers ---------------------------------------------------------------------------------
 */

static int arch_90a(void)
{
    cl_int code;
    (void)build(fill_source, "-cl-nv-arch sm_90a", "fill", &code);
    return code == CL_SUCCESS ? said(GOOD, "-cl-nv-arch sm_90a: %ld", code)
                              : said(REFUSED, "-cl-nv-arch sm_90a: error %ld", code);
}

/* Loads the binary of a program again, as it is or, if it is PTX, for another target. */
static int binary_again(const char *target)
{
    cl_int code, got = 0, status = 0;
    size_t bytes = 0;
    cl_kernel kernel = build(fill_source, NULL, "fill", &code);
    cl_program program = NULL;
    clGetKernelInfo(kernel, CL_KERNEL_PROGRAM, sizeof program, &program, NULL);
    clGetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, sizeof bytes, &bytes, NULL);
    unsigned char *text = calloc(bytes + 64, 1);
    clGetProgramInfo(program, CL_PROGRAM_BINARIES, sizeof text, &text, NULL);
    char *line = strstr((char *)text, ".target sm_");
    if (target != NULL && line == NULL)
        return said(REFUSED, "its binary, %ld bytes, is no PTX", (long)bytes);
    if (target != NULL) {
        char *end = line + strcspn(line, ",\n");
        const size_t before = strlen(".target "), length = strlen(target);
        memmove(line + before + length, end, strlen(end) + 1);
        memcpy(line + before, target, length);
        bytes = strlen((char *)text);
    }
    const unsigned char *binary = text;
    cl_program again =
        clCreateProgramWithBinary(context, 1, &device, &bytes, &binary, &status, &code);
    if (code == CL_SUCCESS)
        code = clBuildProgram(again, 1, &device, NULL, NULL, NULL);
    if (code == CL_SUCCESS)
        kernel = clCreateKernel(again, "fill", &code);
    if (code != CL_SUCCESS)
        return said(REFUSED, "a binary that was changed: error %ld", code);
    cl_mem buffer = clCreateBuffer(context, CL_MEM_READ_WRITE, CHILD, NULL, &code);
    code = launch(kernel, buffer, 9, CHILD / sizeof got, 0, NULL);
    code |= clEnqueueReadBuffer(queue, buffer, CL_TRUE, 0, sizeof got, &got, 0, NULL, NULL);
    return code == CL_SUCCESS && got == 9 ? said(GOOD, "it runs, %ld bytes", (long)bytes)
                                          : said(WRONG, "value %ld", got);
}

static int binary(void)
{
    return binary_again(NULL);
}
static int ptx_90a(void)
{
    return binary_again("sm_90a");
}

/* ---- limits and costs --------------------------------------------------------------------------
 */

static int local_64_kib(void)
{
    cl_int code, got = 0;
    cl_kernel kernel = build("__kernel void all(__global int *to, int value, __local int *tile) {"
                             " const int i = get_local_id(0), n = 16384;"
                             " for (int k = i; k < n; k += get_local_size(0)) tile[k] = value + k;"
                             " barrier(CLK_LOCAL_MEM_FENCE); to[i] = tile[n - 1 - i]; }",
        NULL, "all", &code);
    const size_t group = 64;
    const cl_int value = 5;
    cl_mem buffer = clCreateBuffer(context, CL_MEM_READ_WRITE, CHILD, NULL, &code);
    code = clSetKernelArg(kernel, 0, sizeof buffer, &buffer);
    code |= clSetKernelArg(kernel, 1, sizeof value, &value);
    code |= clSetKernelArg(kernel, 2, 64 << 10, NULL);
    if (code == CL_SUCCESS)
        code = clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &group, &group, 0, NULL, NULL);
    if (code == CL_SUCCESS)
        code = clEnqueueReadBuffer(queue, buffer, CL_TRUE, 0, sizeof got, &got, 0, NULL, NULL);
    if (code != CL_SUCCESS)
        return said(REFUSED, "64 KiB of local memory: error %ld", code);
    return got == value + 16383 ? said(GOOD, "64 KiB of local memory: %ld", code)
                                : said(WRONG, "value %ld", got);
}

static double seconds(void)
{
    struct timespec now;
    (void)timespec_get(&now, TIME_UTC);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static int launch_cost(void)
{
    cl_int code;
    cl_kernel kernel = build(fill_source, NULL, "fill", &code);
    cl_mem buffer = clCreateBuffer(context, CL_MEM_READ_WRITE, CHILD, NULL, &code);
    code = launch(kernel, buffer, 0, 64, 0, NULL) | clFinish(queue);
    const double start = seconds();
    for (cl_int i = 0; i < LAUNCHES; i++)
        code |= launch(kernel, buffer, i, 64, 0, NULL);
    const double enqueued = seconds();
    code |= clFinish(queue);
    printf("enqueued in %.2f, done in %.2f us a launch: ", 1e6 * (enqueued - start) / LAUNCHES,
        1e6 * (seconds() - start) / LAUNCHES);
    return code == CL_SUCCESS ? said(GOOD, "%ld launches", LAUNCHES)
                              : said(WRONG, "error %ld", code);
}

static const struct {
    const char *name;
    int (*run)(void);
} probes[] = {
    {"apart", apart},
    {"apart-in-flight", apart_in_flight},
    {"overlapping", overlapping},
    {"overlapping-in-flight", overlapping_in_flight},
    {"same-origin", same_origin},
    {"same-origin-in-flight", same_origin_in_flight},
    {"beyond-4-gib", beyond_4_gib},
    {"event-complete", event_complete},
    {"event-failed", event_failed},
    {"arch-90a", arch_90a},
    {"binary", binary},
    {"ptx-90a", ptx_90a},
    {"local-64-kib", local_64_kib},
    {"launch-cost", launch_cost},
};

enum { PROBES = sizeof probes / sizeof *probes };

/* The device at "platform:device"; without, a GPU, else any. */
static cl_int find(const char *place)
{
    cl_platform_id platforms[16];
    cl_device_id devices[16];
    cl_uint count = 0, many;
    char *end = NULL;
    const unsigned long p = place != NULL ? strtoul(place, &end, 10) : 0,
                        d = end != NULL && *end == ':' ? strtoul(end + 1, NULL, 10) : 0;
    const cl_device_type types[] = {CL_DEVICE_TYPE_GPU, CL_DEVICE_TYPE_ALL};
    cl_int code = clGetPlatformIDs(16, platforms, &count);
    for (size_t t = place != NULL; code == CL_SUCCESS && t < 2 && device == NULL; t++)
        for (cl_uint i = 0; i < count && i < 16 && device == NULL; i++)
            if ((place == NULL || i == p) &&
                clGetDeviceIDs(platforms[i], types[t], 16, devices, &many) == CL_SUCCESS &&
                d < many)
                device = devices[d];
    return device == NULL ? CL_DEVICE_NOT_FOUND : code;
}

int main(int argc, char **argv)
{
    size_t i = 0;
    if (argc < 2) {
        for (; i < PROBES; i++)
            puts(probes[i].name);
        return GOOD;
    }
    while (i < PROBES && strcmp(probes[i].name, argv[1]) != 0)
        i++;
    if (i == PROBES) {
        (void)fprintf(stderr, "gpu_probe: no probe %s\n", argv[1]);
        return USAGE;
    }
    cl_int code = find(argc > 2 ? argv[2] : NULL);
    if (code == CL_SUCCESS)
        context = clCreateContext(NULL, 1, &device, NULL, NULL, &code);
    if (code == CL_SUCCESS)
        queue = clCreateCommandQueue(context, device, 0, &code);
    return code == CL_SUCCESS ? probes[i].run()
                              : said(WRONG, "no device or queue: error %ld", code);
}
