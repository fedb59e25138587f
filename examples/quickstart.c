/*
 * clprune in one page: a linear layer, on the caller's own queue, keeps its input pruned and
 * computes its weight gradient from that.
 *
 *     clprune-quickstart
 */
#include <clprune/clprune.h>

#include <CL/cl.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

enum { BATCH = 8, TOKENS = 196, IN = 384, OUT = 1536, ROWS = BATCH * TOKENS };

static clprune_context *context;

static int cl_failed(const char *what, cl_int code, int exit_code)
{
    fprintf(stderr,
        "clprune-quickstart: %s (error %d); clprune-info lists the devices. For CPUs install "
        "pocl-opencl-icd; PoCL needs a writable $HOME or $POCL_CACHE_DIR\n",
        what, code);
    return exit_code;
}

static void check(clprune_status status, const char *task)
{
    if (status == CLPRUNE_SUCCESS)
        return;
    fprintf(stderr, "clprune-quickstart: cannot %s: %s. clprune-info shows the device in use\n",
        task, clprune_last_error(context));
    exit(1);
}

/* A matrix with heavy tails, as activations have: some blocks matter more than others. */
static clprune_mat make(const char *name, size_t rows, size_t cols, unsigned seed, float *host)
{
    clprune_mat mat;
    for (size_t i = 0; i < rows * cols; ++i) {
        seed = seed * 1664525u + 1013904223u;
        const float u = (float)(seed >> 8) * 0x1p-23f - 1.0f;
        host[i] = u * u * u * (i / 16 % 3 == 0 ? 2.0f : 0.3f);
    }
    check(clprune_mat_create(context, CLPRUNE_MEMORY_WORKSPACE, name, rows, cols, &mat),
        "create a matrix");
    check(clprune_mat_write(context, mat, host), "write a matrix");
    return mat;
}

/* `steps` times forward (y is dense) and backward through one layer, with dw summed; returns the
 * bytes that were kept in between. */
static double run(int steps, float sparsity, clprune_mat x, clprune_mat w, clprune_mat b,
    clprune_mat y, clprune_mat dy, clprune_mat dw, float *host_dw)
{
    const clprune_linear_desc desc = {.in = IN,
        .out = OUT,
        .keep = {.form = CLPRUNE_FORM_PRUNED,
            .sparsity = sparsity,
            .criterion = CLPRUNE_CRITERION_SAMPLED}}; /* dw is unbiased */
    clprune_linear *layer;
    clprune_saved *saved;
    check(clprune_linear_create(context, &desc, &layer), "create the layer");
    check(clprune_linear_saved_create(layer, BATCH, TOKENS, "x", &saved), "create the store");
    for (int step = 0; step < steps; ++step) {
        clprune_saved_set_seed(saved, (uint64_t)step); /* other blocks in each step */
        check(clprune_linear_forward(layer, BATCH, x, w, b, y, saved, NULL), "compute y");
        const clprune_grads grads = {.dw = dw, .beta = step > 0}; /* dx is not needed */
        check(clprune_linear_backward(layer, BATCH, saved, dy, w, &grads, NULL), "compute dw");
    }
    check(clprune_mat_read(context, dw, host_dw), "read dw");
    const double kept = (double)clprune_memory_query(context, CLPRUNE_MEMORY_ACTIVATIONS).live;
    clprune_saved_destroy(saved);
    clprune_linear_destroy(layer);
    return kept;
}

/* Of the angle between two weight gradients: 1 if they point the same way. */
static double cosine(const float *a, const float *b)
{
    double ab = 0, aa = 0, bb = 0;
    for (size_t i = 0; i < OUT * IN; ++i) {
        ab += (double)a[i] * (double)b[i];
        aa += (double)a[i] * (double)a[i];
        bb += (double)b[i] * (double)b[i];
    }
    return ab / sqrt(aa * bb);
}

int main(void)
{
    enum { STEPS = 32 };
    static float host[ROWS * OUT], dense[OUT * IN], one[OUT * IN], many[OUT * IN];
#ifdef SIGCHLD
    (void)signal(SIGCHLD, SIG_DFL); /* else PoCL cannot wait for its linker, and aborts */
#endif
    cl_platform_id platform;
    cl_device_id device;
    cl_int code = clGetPlatformIDs(1, &platform, NULL);
    if (code == CL_SUCCESS)
        code = clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL);
    if (code != CL_SUCCESS)
        return cl_failed("there is no OpenCL device", code, 3);
    cl_context cl = clCreateContext(NULL, 1, &device, NULL, NULL, &code);
    cl_command_queue queue = cl == NULL ? NULL : clCreateCommandQueue(cl, device, 0, &code);
    if (queue == NULL)
        return cl_failed("cannot open the OpenCL device", code, 1);

    /* The queue stays yours. */
    check(clprune_context_create(queue, NULL, &context), "create the context");
    const clprune_mat x = make("x", ROWS, IN, 1, host), dy = make("dy", ROWS, OUT, 2, host);
    const clprune_mat w = make("w", OUT, IN, 3, host), b = make("b", 1, OUT, 4, host);
    const clprune_mat y = make("y", ROWS, OUT, 5, host), dw = make("dw", OUT, IN, 6, host);
    const double all = run(1, 0.0f, x, w, b, y, dy, dw, dense);
    const double kept = run(1, 0.7f, x, w, b, y, dy, dw, one);
    (void)run(STEPS, 0.7f, x, w, b, y, dy, dw, many);
    printf("kept %.0f of %.0f bytes (%.1f %%); cosine of dw with the dense one: %.4f in one step, "
           "%.4f over %d\n",
        kept, all, 100 * kept / all, cosine(one, dense), cosine(many, dense), STEPS);

    const clprune_mat mats[] = {x, dy, w, b, y, dw};
    for (size_t i = 0; i < sizeof mats / sizeof *mats; ++i)
        clprune_buffer_release(context, mats[i].buffer);
    clprune_context_destroy(context);
    return clReleaseCommandQueue(queue) != CL_SUCCESS || clReleaseContext(cl) != CL_SUCCESS;
}
