/* Trains two linear layers on digits, twice from the same weights: dense, and with everything that
 * is kept for the backward pass in codes of 4 bits.
 *
 *     clprune-mlp [DIR]     DIR has MNIST's four files, unpacked; without DIR digits are drawn */
#include <clprune/clprune.h>

#include <CL/cl.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>

#include "digits.h"

enum { HIDDEN = 256, BATCH = 100 };

/* h = x * w1^T + b1, g = gelu(h), y = g * w2^T + b2; a row is a digit. x, h and g are kept. */
enum { X, H, G, Y, LOSS, HIT, LABELS, W1, B1, W2, B2, DW1, DB1, DW2, DB2, MATRICES };
enum { KEPT = G + 1, PARAMETERS = DW1 - W1 };
static const size_t sizes[MATRICES][2] = {{BATCH, PIXELS}, {BATCH, HIDDEN}, {BATCH, HIDDEN},
    {BATCH, CLASSES}, {BATCH, 1}, {BATCH, 1}, {BATCH, 1}, {HIDDEN, PIXELS}, {1, HIDDEN},
    {CLASSES, HIDDEN}, {1, CLASSES}, {HIDDEN, PIXELS}, {1, HIDDEN}, {CLASSES, HIDDEN},
    {1, CLASSES}};
static clprune_mat m[MATRICES]; /* m[LABELS] has int32 instead of floats */
static clprune_context *context;
static clprune_linear *linear1, *linear2;
static clprune_saved *kept[KEPT];
static clprune_optimizer *optimizer;

static void check(clprune_status status)
{
    if (status == CLPRUNE_SUCCESS)
        return;
    fprintf(
        stderr, "clprune-mlp: %s. clprune-info shows the device\n", clprune_last_error(context));
    exit(1);
}

/* Layers and stores that keep x and g as `input`, h as `slope`; the same weights each time. */
static void create_network(clprune_keep input, clprune_keep slope)
{
    static float weights[HIDDEN * PIXELS];
    unsigned seed = 1;
    clprune_param parameters[PARAMETERS];
    for (int i = 0; i < PARAMETERS; ++i) {
        const clprune_mat w = m[W1 + i];
        const float limit = w.rows == 1 ? 0.0f : 1.0f / sqrtf((float)w.cols); /* biases are 0 */
        for (size_t j = 0; j < w.rows * w.cols; ++j)
            weights[j] = limit * ((float)draw(&seed, 2001) / 1000.0f - 1.0f);
        check(clprune_mat_write(context, w, weights));
        parameters[i] = (clprune_param){.name = "w", .value = w, .grad = m[DW1 + i]};
    }
    const clprune_optimizer_desc adamw = {
        .kind = CLPRUNE_OPTIMIZER_ADAMW, .beta1 = 0.9f, .beta2 = 0.999f, .eps = 1e-8f};
    const clprune_linear_desc first = {.in = PIXELS, .out = HIDDEN, .keep = input};
    const clprune_linear_desc second = {.in = HIDDEN, .out = CLASSES, .keep = input};
    check(clprune_optimizer_create(context, &adamw, PARAMETERS, parameters, &optimizer));
    check(clprune_linear_create(context, &first, &linear1));
    check(clprune_linear_create(context, &second, &linear2));
    check(clprune_linear_saved_create(linear1, BATCH, 1, "x", &kept[X]));
    check(clprune_saved_create(context, "h", &slope, BATCH, 1, HIDDEN, &kept[H]));
    check(clprune_linear_saved_create(linear2, BATCH, 1, "g", &kept[G]));
}

/* Adds the losses and hits of a batch to sums. The stores keep x, h and g; NULL keeps nothing. */
static void forward(size_t batch, clprune_saved *const stores[KEPT], double sums[2])
{
    static float pixels[BATCH * PIXELS], results[2][BATCH];
    int32_t labels[BATCH];
    digits_at(batch * BATCH, BATCH, pixels, labels);
    check(clprune_mat_write(context, m[X], pixels));
    const cl_int code = clEnqueueWriteBuffer(clprune_context_queue(context), m[LABELS].buffer,
        CL_TRUE, 0, sizeof labels, labels, 0, NULL, NULL);
    check(code == CL_SUCCESS ? CLPRUNE_SUCCESS : CLPRUNE_OPENCL_ERROR);
    check(clprune_linear_forward(linear1, BATCH, m[X], m[W1], m[B1], m[H], stores[X], NULL));
    check(clprune_activation_forward(
        context, CLPRUNE_ACTIVATION_GELU, 0, BATCH, m[H], CLPRUNE_NO_MAT, m[G], stores[H], NULL));
    check(clprune_linear_forward(linear2, BATCH, m[G], m[W2], m[B2], m[Y], stores[G], NULL));
    check(clprune_cross_entropy_forward(
        context, 0, m[Y], m[LABELS].buffer, m[Y], m[LOSS], m[HIT], NULL));
    for (int i = 0; i < 2; ++i) {
        check(clprune_mat_read(context, m[LOSS + i], results[i]));
        for (int j = 0; j < BATCH; ++j)
            sums[i] += (double)results[i][j];
    }
}

/* Computes the gradients from y and the stores. h and g, no longer needed, become dh and dg. */
static void backward(void)
{
    check(clprune_cross_entropy_backward(
        context, 0, 1.0f / BATCH, m[Y], m[LABELS].buffer, m[Y], NULL));
    check(clprune_linear_backward(linear2, BATCH, kept[G], m[Y], m[W2],
        &(clprune_grads){.dx = m[G], .dw = m[DW2], .db = m[DB2]}, NULL));
    check(clprune_activation_backward(context, CLPRUNE_ACTIVATION_GELU, 0, BATCH, kept[H], m[G],
        &(clprune_grads){.dx = m[H], .db = m[DB1]}, NULL));
    check(clprune_linear_backward(
        linear1, BATCH, kept[X], m[H], m[W1], &(clprune_grads){.dw = m[DW1]}, NULL));
}

/* Trains on the first digits and tests on the last; returns the bytes that the stores take. */
static double run(const char *name, clprune_keep input, clprune_keep slope)
{
    static clprune_saved *const none[KEPT];
    double sums[2] = {0, 0};
    create_network(input, slope);
    const double bytes = (double)clprune_memory_query(context, CLPRUNE_MEMORY_ACTIVATIONS).live;
    for (size_t batch = 0; batch < (TRAIN + TEST) / BATCH; ++batch) {
        const int learns = batch < TRAIN / BATCH;
        for (size_t i = 0; i < KEPT; ++i)
            clprune_saved_set_seed(kept[i], KEPT * batch + i); /* of the rounding to codes */
        forward(batch, learns ? kept : none, sums);
        if (learns) {
            backward();
            check(clprune_optimizer_step(optimizer, 1e-3f, NULL));
        }
        if ((batch + 1) % (TEST / BATCH) == 0) {
            printf("%-8s %s  loss %.4f  accuracy %.2f %%\n", name, learns ? "train" : "test ",
                sums[0] / TEST, 100 * sums[1] / TEST);
            sums[0] = sums[1] = 0;
        }
    }
    for (int i = 0; i < KEPT; ++i)
        clprune_saved_destroy(kept[i]);
    clprune_linear_destroy(linear1);
    clprune_linear_destroy(linear2);
    clprune_optimizer_destroy(optimizer);
    return bytes;
}

int main(int count, char **arguments)
{
    (void)signal(SIGCHLD, SIG_DFL); /* else PoCL cannot wait for its linker, and aborts */
    if (count > 1 && !read_digits(arguments[1]))
        return 4;
    if (count == 1)
        draw_digits(1);
    check(clprune_context_create(NULL, NULL, &context));
    for (int i = 0; i < MATRICES; ++i)
        check(clprune_mat_create(
            context, CLPRUNE_MEMORY_WORKSPACE, "m", sizes[i][0], sizes[i][1], &m[i]));
    const clprune_keep dense = {.form = CLPRUNE_FORM_DENSE};
    const clprune_keep codes = {.form = CLPRUNE_FORM_QUANTISED, .bits = 4};
    const clprune_keep slope = {.form = CLPRUNE_FORM_GELU_CODE, .bits = 4};
    const double all = run("dense", dense, dense), compact = run("compact", codes, slope);
    printf("kept of a batch: dense %.0f bytes, compact %.0f (%.1f %%)\n", all, compact,
        100 * compact / all);
    clprune_context_destroy(context); /* and the matrices */
    return 0;
}
