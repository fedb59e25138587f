/* Trains a net of two linear layers on digits, twice from the same weights: dense, and with all
 * that is kept for the backward pass in codes of 4 bits.
 *
 *     clprune-mlp [DIR]     DIR has MNIST's four files, unpacked; without DIR digits are drawn */
#include <clprune/clprune.h>

#include <CL/cl.h>
#include <signal.h>
#include <stdlib.h>

#include "digits.h"

enum { HIDDEN = 256, BATCH = 100 };

static clprune_context *context;

static void check(clprune_status status)
{
    if (status == CLPRUNE_SUCCESS)
        return;
    fprintf(
        stderr, "clprune-mlp: %s. clprune-info shows the device\n", clprune_last_error(context));
    exit(1);
}

/* A row is a digit. A layer that cannot be added is reported by clprune_net_settle. */
static clprune_net *create_net(clprune_net_preset preset)
{
    const clprune_net_keep keep = {.preset = preset, .keep = {.bits = 4}};
    clprune_net *net;
    check(clprune_net_create(context, &(clprune_net_desc){.batch = BATCH}, &net));
    clprune_net_value v = clprune_net_rows(net, 1, PIXELS);
    v = clprune_net_linear(net, "hidden", v, HIDDEN);
    v = clprune_net_gelu(net, "gelu", v);
    v = clprune_net_linear(net, "head", v, CLASSES);
    clprune_net_cross_entropy(net, v);
    check(clprune_net_settle(net, &keep));
    check(clprune_net_init(net, 1));
    return net;
}

/* Writes a batch of digits where data says; sums get their losses and hits. */
static void forward(clprune_net *net, const clprune_net_data *data, size_t batch, bool learns,
    const clprune_mat results[2], double sums[2])
{
    static float pixels[BATCH * PIXELS], values[BATCH];
    int32_t labels[BATCH];
    digits_at(batch * BATCH, BATCH, pixels, labels);
    check(clprune_mat_write(context, data->rows, pixels));
    const cl_int code = clEnqueueWriteBuffer(clprune_context_queue(context), data->labels.buffer,
        CL_TRUE, 0, sizeof labels, labels, 0, NULL, NULL);
    check(code == CL_SUCCESS ? CLPRUNE_SUCCESS : CLPRUNE_OPENCL_ERROR);
    clprune_net_set_seed(net, batch); /* of the rounding to codes */
    check(clprune_net_forward(net, data, learns));
    check(clprune_net_loss(net, data, results[0], results[1]));
    for (int i = 0; i < 2; ++i) {
        check(clprune_mat_read(context, results[i], values));
        for (int j = 0; j < BATCH; ++j)
            sums[i] += (double)values[j];
    }
}

static clprune_mat create(const char *name, size_t rows, size_t cols)
{
    clprune_mat mat;
    check(clprune_mat_create(context, CLPRUNE_MEMORY_INPUT, name, rows, cols, &mat));
    return mat;
}

/* Trains on the first digits and tests on the last; returns the bytes that are kept of a batch. */
static double run(const char *name, clprune_net_preset preset, const clprune_net_data *data,
    const clprune_mat results[2])
{
    const clprune_optimizer_desc adamw = {
        .kind = CLPRUNE_OPTIMIZER_ADAMW, .beta1 = 0.9f, .beta2 = 0.999f, .eps = 1e-8f};
    double sums[2] = {0, 0};
    clprune_net *net = create_net(preset);
    clprune_optimizer *optimizer;
    size_t count;
    clprune_param *params = clprune_net_params(net, &count);
    check(clprune_optimizer_create(context, &adamw, count, params, &optimizer));
    const double bytes = (double)clprune_memory_query(context, CLPRUNE_MEMORY_ACTIVATIONS).live;
    for (size_t batch = 0; batch < (TRAIN + TEST) / BATCH; ++batch) {
        const bool learns = batch < TRAIN / BATCH;
        forward(net, data, batch, learns, results, sums);
        if (learns) {
            check(clprune_net_backward(net, data));
            check(clprune_optimizer_step(optimizer, 1e-3f, NULL));
        }
        if ((batch + 1) % (TEST / BATCH) == 0) {
            printf("%-8s %s  loss %.4f  accuracy %.2f %%\n", name, learns ? "train" : "test ",
                sums[0] / TEST, 100 * sums[1] / TEST);
            sums[0] = sums[1] = 0;
        }
    }
    clprune_optimizer_destroy(optimizer);
    clprune_net_destroy(net);
    return bytes;
}

int main(int count, char **arguments)
{
#ifdef SIGCHLD
    (void)signal(SIGCHLD, SIG_DFL); /* else PoCL cannot wait for its linker, and aborts */
#endif
    if (count > 1 && !read_digits(arguments[1]))
        return 4;
    if (count == 1)
        draw_digits(1);
    check(clprune_context_create(NULL, NULL, &context));
    const clprune_mat labels = create("labels", BATCH, 1); /* int32 instead of floats */
    const clprune_mat results[2] = {create("loss", BATCH, 1), create("hit", BATCH, 1)};
    const clprune_net_data data = {
        .batch = BATCH, .rows = create("digits", BATCH, PIXELS), .labels = {labels.buffer, 0}};
    const double dense = run("dense", CLPRUNE_NET_DENSE, &data, results);
    const double compact = run("compact", CLPRUNE_NET_COMPACT, &data, results);
    printf("kept of a batch: dense %.0f bytes, compact %.0f (%.1f %%)\n", dense, compact,
        100 * compact / dense);
    clprune_context_destroy(context); /* and the matrices */
    return 0;
}
