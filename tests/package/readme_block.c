/*
 * The C blocks of README.md as a program: test_readme.sh writes them to block.inc. Here is what
 * the text takes for granted: a queue, images, labels and results of the caller. The loss must fall
 * and the table must have every tensor.
 *
 *     readme_block [version]        with an argument: prints the version of the library only
 */
#include <clprune/clprune.h>

#include <CL/cl.h>
#include <stdio.h>
#include <string.h>

enum { BATCH = 64, IMAGE = 3 * 32 * 32, STEPS = 20 };

static cl_command_queue queue;

static cl_mem filled(const void *host, size_t bytes)
{
    cl_context cl;
    (void)clGetCommandQueueInfo(queue, CL_QUEUE_CONTEXT, sizeof cl, &cl, NULL);
    cl_mem buffer = clCreateBuffer(cl, CL_MEM_READ_WRITE, bytes, NULL, NULL);
    (void)clEnqueueWriteBuffer(queue, buffer, CL_TRUE, 0, bytes, host, 0, NULL, NULL);
    return buffer;
}

/* Whether the table names the tensors that are kept and the layers that made them. */
static int found;
static void show(void *user, const char *text)
{
    (void)user;
    found += strstr(text, "conv1") != NULL || strstr(text, "head") != NULL;
}

/* The mean of the losses, read by the caller. */
static float mean_loss(clprune_mat loss)
{
    float host[BATCH], sum = 0;
    if (clEnqueueReadBuffer(queue, loss.buffer, CL_TRUE, 0, sizeof host, host, 0, NULL, NULL) !=
        CL_SUCCESS)
        return -1;
    for (size_t i = 0; i < BATCH; ++i)
        sum += host[i] / BATCH;
    return sum;
}

static int readme(uint64_t seed, size_t steps)
{
    static unsigned char pixels[BATCH * IMAGE];
    static float values[3 * 256];
    int classes[BATCH];
    for (size_t i = 0; i < BATCH; ++i) { /* a class is a brightness */
        classes[i] = (int)(i % 10);
        memset(pixels + i * IMAGE, 20 * classes[i], IMAGE);
    }
    for (size_t i = 0; i < 3 * 256; ++i)
        values[i] = (float)(i % 256) / 64 - 2;
    const clprune_ints labels = {filled(classes, sizeof classes), 0};
    const clprune_image_bytes images = {
        filled(pixels, sizeof pixels), 0, clprune_mat_of(filled(values, sizeof values), 3, 256)};
    const clprune_mat loss = clprune_mat_of(filled(values, BATCH * 4), BATCH, 1);
    const clprune_mat hit = clprune_mat_of(filled(values, BATCH * 4), BATCH, 1);
#include "block.inc"
    const float last = mean_loss(loss);
    if (last > 0 && last < 2.0f && found >= 2) /* log(10) = 2.3 at the start */
        return 0;
    printf("loss %g, %d lines; %s\n", (double)last, found, clprune_last_error(context));
    return 1;
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
    return readme(1, STEPS);
}
