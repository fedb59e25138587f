/* Trains a small U-Net to remove noise from drawn images, twice from the same weights: dense, and
 * with all that is kept for the backward pass in codes of 4 bits. Values of the way down are added
 * to those of the way up.
 *
 *     clprune-unet */
#include <clprune/clprune.h>

#include <CL/cl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "rectangles.h"

enum { TRAIN = 300, TEST = 20 };

static clprune_context *context;

static void check(clprune_status status)
{
    if (status == CLPRUNE_SUCCESS)
        return;
    fprintf(
        stderr, "clprune-unet: %s. clprune-info shows the device\n", clprune_last_error(context));
    exit(1);
}

/* ---- the net ----------------------------------------------------------------------------------
 */

/* A convolution of 3 x 3, with batch norm and ReLU. */
static clprune_net_value conv(clprune_net *net, const char *name, clprune_net_value x, size_t out)
{
    const clprune_net_conv desc = {.out = out, .kernel = {3, 3}, .padding = {1, 1}};
    clprune_net_part(net, name);
    x = clprune_net_batch_norm(net, "bn", clprune_net_conv2d(net, "conv", x, &desc));
    x = clprune_net_relu(net, "relu", x);
    clprune_net_part(net, NULL);
    return x;
}

/* The output is the noise, which the caller subtracts. A layer that cannot be added is reported by
 * clprune_net_settle. */
static clprune_net *create_net(clprune_net_preset preset)
{
    const clprune_max_pool_desc pool = {.kernel = {2, 2}};
    const clprune_net_conv last = {.out = CHANNELS, .kernel = {1, 1}, .bias = true};
    const clprune_net_keep keep = {.preset = preset, .keep = {.bits = 4}};
    clprune_net *net;
    check(clprune_net_create(context, &(clprune_net_desc){.batch = BATCH}, &net));
    const clprune_net_value image = clprune_net_pixels(net, CHANNELS, SIDE, SIDE);
    const clprune_net_value down1 = conv(net, "down1", image, 16);
    const clprune_net_value down2 =
        conv(net, "down2", clprune_net_max_pool(net, "pool1", down1, &pool), 32);
    clprune_net_value v = conv(net, "middle", clprune_net_max_pool(net, "pool2", down2, &pool), 32);
    v = conv(net, "up2",
        clprune_net_add(net, "skip2", clprune_net_upsample(net, "larger2", v, 2), down2), 16);
    v = conv(net, "up1",
        clprune_net_add(net, "skip1", clprune_net_upsample(net, "larger1", v, 2), down1), 16);
    clprune_net_mean_squared_error(net, clprune_net_conv2d(net, "noise", v, &last));
    check(clprune_net_settle(net, &keep));
    check(clprune_net_init(net, 1));
    return net;
}

/* ---- training ---------------------------------------------------------------------------------
 */

/* The mean of the losses of a batch after a forward pass. */
static double forward(
    clprune_net *net, const clprune_net_data *data, clprune_mat losses, uint64_t batch, bool learns)
{
    static float noisy[ELEMENTS], noise[ELEMENTS];
    float values[BATCH];
    double sum = 0;
    draw_batch(batch, noisy, noise);
    check(clprune_mat_write(context, data->rows, noisy));
    check(clprune_mat_write(context, data->targets, noise));
    clprune_net_set_seed(net, batch); /* of the rounding to codes */
    check(clprune_net_forward(net, data, learns));
    check(clprune_net_loss(net, data, losses, CLPRUNE_NO_MAT));
    check(clprune_mat_read(context, losses, values));
    for (int i = 0; i < BATCH; i++)
        sum += (double)values[i];
    return sum / BATCH;
}

/* Trains and tests; returns the bytes that are kept of a batch. */
static double run(
    const char *name, clprune_net_preset preset, const clprune_net_data *data, clprune_mat losses)
{
    const clprune_optimizer_desc adamw = {
        .kind = CLPRUNE_OPTIMIZER_ADAMW, .beta1 = 0.9f, .beta2 = 0.999f, .eps = 1e-8f};
    clprune_net *net = create_net(preset);
    clprune_optimizer *optimizer;
    size_t count;
    double sum = 0;
    clprune_param *params = clprune_net_params(net, &count);
    check(clprune_optimizer_create(context, &adamw, count, params, &optimizer));
    const double bytes = (double)clprune_memory_query(context, CLPRUNE_MEMORY_ACTIVATIONS).live;
    for (uint64_t batch = 0; batch < TRAIN + TEST; batch++) {
        const bool learns = batch < TRAIN;
        sum += forward(net, data, losses, batch, learns);
        if (learns) {
            check(clprune_net_backward(net, data));
            check(clprune_optimizer_step(optimizer, 2e-3f, NULL));
        }
        if ((batch + 1) % 100 == 0 || batch + 1 == TRAIN + TEST) {
            printf("%-8s %s  loss %.5f\n", name, learns ? "train" : "test ",
                sum / (learns ? 100 : TEST));
            sum = 0;
        }
    }
    clprune_optimizer_destroy(optimizer);
    clprune_net_destroy(net);
    return bytes;
}

int main(void)
{
    clprune_mat mats[3];
#ifdef SIGCHLD
    (void)signal(SIGCHLD, SIG_DFL); /* else PoCL cannot wait for its linker, and aborts */
#endif
    check(clprune_context_create(NULL, NULL, &context));
    for (int i = 0; i < 3; i++)
        check(clprune_mat_create(context, CLPRUNE_MEMORY_INPUT, "data",
            i < 2 ? BATCH * SIDE * SIDE : BATCH, i < 2 ? CHANNELS : 1, &mats[i]));
    const clprune_net_data data = {.batch = BATCH, .rows = mats[0], .targets = mats[1]};
    const double dense = run("dense", CLPRUNE_NET_DENSE, &data, mats[2]);
    const double compact = run("compact", CLPRUNE_NET_COMPACT, &data, mats[2]);
    printf("noise alone has 0.09000; kept of a batch: dense %.0f bytes, compact %.0f (%.1f %%)\n",
        dense, compact, 100 * compact / dense);
    clprune_context_destroy(context); /* and the matrices */
    return 0;
}
