/* bench_peak.c: the device's peak rate of fp32 fused multiply-adds, measured.
 *
 * Twelve independent accumulators in registers: enough to hide a latency of four cycles behind two
 * FMA units, few enough for sixteen registers. The best of several vector widths counts. */
#include "bench.h"

#include <CL/cl.h>
#include <math.h>
#include <string.h>

enum { ACCUMULATORS = 12, ROUNDS = 16, FIRST_STEPS = 1024, MAX_STEPS = 1 << 26 };

static const char peak_source[] =
    "#define STEP(i) c##i = fma(c##i, a, b);\n"
    "#define PEAK(name, T)                                                       \\\n"
    "kernel void name(global T *y, float scale, float shift, int steps)          \\\n"
    "{                                                                           \\\n"
    "    const T a = (T)(scale), b = (T)(shift), one = (T)(1.0f);                \\\n"
    "    T c0 = one, c1 = one + b, c2 = c1 + b, c3 = c2 + b, c4 = c3 + b,        \\\n"
    "      c5 = c4 + b, c6 = c5 + b, c7 = c6 + b, c8 = c7 + b, c9 = c8 + b,      \\\n"
    "      c10 = c9 + b, c11 = c10 + b;                                          \\\n"
    "    for (int i = 0; i < steps; i++) {                                       \\\n"
    "        STEP(0) STEP(1) STEP(2) STEP(3) STEP(4) STEP(5)                     \\\n"
    "        STEP(6) STEP(7) STEP(8) STEP(9) STEP(10) STEP(11)                   \\\n"
    "    }                                                                       \\\n"
    "    y[get_global_id(0)] = c0 + c1 + c2 + c3 + c4 + c5 + c6 + c7 + c8 + c9   \\\n"
    "                          + c10 + c11;                                      \\\n"
    "}\n"
    "PEAK(peak1, float)\n"
    "PEAK(peak2, float2)\n"
    "PEAK(peak4, float4)\n"
    "PEAK(peak8, float8)\n"
    "PEAK(peak16, float16)\n";

typedef struct peak_run {
    cl_command_queue queue;
    cl_kernel kernel;
    size_t items, group, width;
} peak_run;

/* Seconds of one launch; NaN where it fails. */
static double launch(const peak_run *run, cl_mem y, cl_int steps)
{
    const cl_float scale = 0.9990234375f, shift = 0.0009765625f; /* the fixed point is 1 */
    cl_int error = clSetKernelArg(run->kernel, 0, sizeof y, &y);
    error |= clSetKernelArg(run->kernel, 1, sizeof scale, &scale);
    error |= clSetKernelArg(run->kernel, 2, sizeof shift, &shift);
    error |= clSetKernelArg(run->kernel, 3, sizeof steps, &steps);
    const double start = tool_now();
    if (error == CL_SUCCESS)
        error = clEnqueueNDRangeKernel(
            run->queue, run->kernel, 1, NULL, &run->items, &run->group, 0, NULL, NULL);
    if (error == CL_SUCCESS)
        error = clFinish(run->queue);
    return error == CL_SUCCESS ? tool_now() - start : NAN;
}

/* The fastest of several launches: another process can only slow one down. */
static double best_of(const peak_run *run, cl_mem y, cl_int steps, int count)
{
    double best = INFINITY;
    for (int i = 0; i < count; i++) {
        const double seconds = launch(run, y, steps);
        if (isnan(seconds))
            return NAN;
        best = fmin(best, seconds);
    }
    return best;
}

/* The rate in GFLOP/s, from launches long enough that their start does not show. */
static double rate(const peak_run *run, cl_mem y)
{
    cl_int steps = FIRST_STEPS;
    (void)launch(run, y, steps); /* builds */
    while (steps < MAX_STEPS && best_of(run, y, steps, 3) < 0.004)
        steps *= 2;
    const double seconds = best_of(run, y, steps, ROUNDS);
    return 2e-9 * ACCUMULATORS * (double)steps * (double)run->items * (double)run->width / seconds;
}

double bench_peak(clprune_context *context)
{
    const cl_device_id device = clprune_context_device(context);
    const clprune_device_info facts = clprune_context_device_info(context);
    const bool cpu = (facts.type & CL_DEVICE_TYPE_CPU) != 0;
    peak_run run = {.queue = clprune_context_queue(context),
        .items = (size_t)facts.compute_units * (cpu ? 8 : 4096),
        .group = cpu ? 1 : 256};
    const char *source = peak_source;
    double best = NAN;
    cl_mem y = NULL;
    cl_int error;
    const cl_program program =
        clCreateProgramWithSource(clprune_context_cl(context), 1, &source, NULL, &error);
    if (error == CL_SUCCESS)
        error = clBuildProgram(program, 1, &device, "", NULL, NULL);
    if (error == CL_SUCCESS)
        y = clCreateBuffer(clprune_context_cl(context), CL_MEM_READ_WRITE,
            run.items * 16 * sizeof(cl_float), NULL, &error);
    for (size_t width = cpu ? 4 : 1; error == CL_SUCCESS && width <= (cpu ? 16 : 4); width *= 2) {
        char name[16];
        (void)snprintf(name, sizeof name, "peak%zu", width);
        run.width = width;
        run.kernel = clCreateKernel(program, name, &error);
        if (error == CL_SUCCESS) {
            best = fmax(best, rate(&run, y)); /* fmax ignores NaN */
            clReleaseKernel(run.kernel);
        }
    }
    if (y != NULL)
        clReleaseMemObject(y);
    if (program != NULL)
        clReleaseProgram(program);
    if (isnan(best))
        fprintf(stderr, "clprune-bench: the peak could not be measured (OpenCL error %d)\n", error);
    return best;
}
