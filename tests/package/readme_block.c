/*
 * The C block of README.md as a program: test_readme.sh writes the block to block.inc. Here is what
 * the text takes for granted, a queue and matrices of the caller. Where a call fails, an output
 * lacks its value.
 *
 *     readme_block [version]        with an argument: prints the version of the library only
 */
#include <clprune/clprune.h>

#include <CL/cl.h>
#include <math.h>
#include <stdio.h>

enum { BATCH = 8, ROWS = BATCH * 196, IN = 384, OUT = 1536 };

static cl_command_queue queue;

static clprune_mat filled(size_t rows, size_t cols, float value)
{
    cl_context cl;
    (void)clGetCommandQueueInfo(queue, CL_QUEUE_CONTEXT, sizeof cl, &cl, NULL);
    const size_t bytes = rows * cols * sizeof value;
    cl_mem buffer = clCreateBuffer(cl, CL_MEM_READ_WRITE, bytes, NULL, NULL);
    (void)clEnqueueFillBuffer(queue, buffer, &value, sizeof value, 0, bytes, 0, NULL, NULL);
    return clprune_mat_of(buffer, rows, cols);
}

/* 1 with a line unless the mean is as expected, within the noise of a draw. */
static int differs(const char *name, clprune_mat mat, double expected)
{
    static float host[ROWS * OUT];
    const size_t count = mat.rows * mat.cols;
    double sum = 0;
    if (clEnqueueReadBuffer(
            queue, mat.buffer, CL_TRUE, 0, count * sizeof *host, host, 0, NULL, NULL) != CL_SUCCESS)
        return printf("%s cannot be read\n", name), 1;
    for (size_t i = 0; i < count; ++i)
        sum += host[i];
    if (fabs(sum / (double)count - expected) < 0.02 * expected)
        return 0;
    return printf("the mean of %s is %g, not %g\n", name, sum / (double)count, expected), 1;
}

static int readme(size_t batch, uint64_t step)
{
    const clprune_mat x = filled(ROWS, IN, 1), w = filled(OUT, IN, 1), b = filled(1, OUT, IN);
    const clprune_mat y = filled(ROWS, OUT, 0), dy = filled(ROWS, OUT, 1), dx = filled(ROWS, IN, 0);
    const clprune_mat dw = filled(OUT, IN, 0), db = filled(1, OUT, 0);
#include "block.inc"
    /* The kept blocks of x are weighted, so the mean of dw stays near the dense one. */
    const int wrong = differs("y", y, 2 * IN) + differs("dx", dx, OUT) + differs("dw", dw, ROWS) +
                      differs("db", db, ROWS);
    if (wrong > 0)
        printf("%s\n", clprune_last_error(context));
    return wrong > 0;
}

int main(int count, char **arguments)
{
    cl_platform_id platform;
    cl_device_id device;
    if (count > 1)
        return printf("%s %s\n", arguments[1], clprune_version_string()) < 0;
    if (clGetPlatformIDs(1, &platform, NULL) != CL_SUCCESS ||
        clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL) != CL_SUCCESS)
        return puts("there is no OpenCL device"), 3;
    cl_context cl = clCreateContext(NULL, 1, &device, NULL, NULL, NULL);
    queue = clCreateCommandQueue(cl, device, 0, NULL);
    return readme(BATCH, 1);
}
