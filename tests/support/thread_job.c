#include "support/thread_job.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/test_owned.h"
#include "support/test_rng.h"

enum { STEPS = 5, BLOCK = 8 };
enum { BLOCKS = JOB_ROWS * JOB_IN / BLOCK, KEPT = BLOCKS / 2 }; /* of a sample */

#define DO(call)                                                                                   \
    do {                                                                                           \
        j->status = (call);                                                                        \
        if (j->status != CLPRUNE_SUCCESS)                                                          \
            goto done;                                                                             \
    } while (0)

static void note_error(thread_job *j)
{
    if (j->status != CLPRUNE_SUCCESS)
        (void)snprintf(j->told, sizeof j->told, "%s", clprune_last_error(j->context));
}

void *thread_train(void *what)
{
    thread_job *j = what;
    clprune_context *c = j->context;
    clprune_mat x = {0}, y = {0}, w = {0}, dw = {0};
    clprune_linear *layer = NULL;
    clprune_saved *kept = NULL;
    clprune_optimizer *optimizer = NULL;
    const clprune_linear_desc desc = {.in = JOB_IN,
        .out = JOB_OUT,
        .keep = {.form = CLPRUNE_FORM_PRUNED,
            .sparsity = 0.6f,
            .block = {1, BLOCK},
            .criterion = CLPRUNE_CRITERION_SAMPLED,
            .value_type = j->seed % 2 == 0 ? CLPRUNE_VALUES_FP32 : CLPRUNE_VALUES_FP16}};
    const clprune_optimizer_desc adamw = {.kind = CLPRUNE_OPTIMIZER_ADAMW,
        .beta1 = 0.9f,
        .beta2 = 0.999f,
        .eps = 1e-8f,
        .weight_decay = 0.01f};
    float *numbers = test_new_normal(j->seed, JOB_X);
    DO(clprune_mat_create(c, CLPRUNE_MEMORY_INPUT, "x", JOB_TOKENS, JOB_IN, &x));
    DO(clprune_mat_create(c, CLPRUNE_MEMORY_ACTIVATIONS, "y", JOB_TOKENS, JOB_OUT, &y));
    DO(clprune_mat_create(c, CLPRUNE_MEMORY_PARAMETERS, "w", JOB_OUT, JOB_IN, &w));
    DO(clprune_mat_create(c, CLPRUNE_MEMORY_GRADIENTS, "dw", JOB_OUT, JOB_IN, &dw));
    DO(clprune_linear_create(c, &desc, &layer));
    DO(clprune_linear_saved_create(layer, JOB_BATCH, JOB_ROWS, "kept", &kept));
    const clprune_param param = {.name = "w", .value = w, .grad = dw, .decay = true};
    DO(clprune_optimizer_create(c, &adamw, 1, &param, &optimizer));
    DO(clprune_mat_write(c, w, numbers));
    for (unsigned step = 0; step < STEPS; step++) {
        DO(clprune_mat_write(c, x, numbers));
        clprune_saved_set_seed(kept, step);
        DO(clprune_linear_forward(layer, JOB_BATCH, x, w, CLPRUNE_NO_MAT, y, kept, NULL));
        DO(clprune_gelu_forward(c, y, CLPRUNE_NO_MAT, y, NULL));
        DO(clprune_linear_backward(
            layer, JOB_BATCH, kept, y, w, &(clprune_grads){.dx = x, .dw = dw}, NULL)); /* x is dx */
        DO(clprune_optimizer_step(optimizer, 1e-2f, NULL));
    }
    DO(clprune_mat_read(c, w, j->w));
done:
    note_error(j);
    clprune_optimizer_destroy(optimizer);
    clprune_saved_destroy(kept);
    clprune_linear_destroy(layer);
    clprune_buffer_release(c, x.buffer);
    clprune_buffer_release(c, y.buffer);
    clprune_buffer_release(c, w.buffer);
    clprune_buffer_release(c, dw.buffer);
    return NULL;
}

clprune_status thread_layer(clprune_context *context, clprune_linear **layer)
{
    const clprune_linear_desc desc = {.in = JOB_IN,
        .out = JOB_OUT,
        .keep = {.form = CLPRUNE_FORM_PRUNED,
            .sparsity = 0.5f,
            .block = {1, BLOCK},
            .norm = CLPRUNE_NORM_L1}};
    return clprune_linear_create(context, &desc, layer);
}

/* The host's reference. Blocks of x that are not kept are zero in `kept`. */
typedef struct host_side {
    float x[JOB_X], w[JOB_W], dy[JOB_Y];
    float y[JOB_Y], kept[JOB_X], dx[JOB_X], dw[JOB_W];
} host_side;

static void fill_whole(test_rng *rng, size_t count, float *values)
{
    for (size_t i = 0; i < count; i++)
        values[i] = (float)test_rng_below(rng, 9) - 4.0f;
}

static float norm_of(const float *sample, size_t block)
{
    float sum = 0;
    for (size_t i = 0; i < BLOCK; i++)
        sum +=
            sample[block * BLOCK + i] < 0 ? -sample[block * BLOCK + i] : sample[block * BLOCK + i];
    return sum;
}

/* Blocks have one row, so they are contiguous; of equal norms the first is kept. */
static void prune_sample(const float *sample, float *kept)
{
    for (size_t b = 0; b < BLOCKS; b++) {
        const float norm = norm_of(sample, b);
        size_t before = 0;
        for (size_t other = 0; other < BLOCKS; other++) {
            const float its = norm_of(sample, other);
            before += its > norm || (its == norm && other < b);
        }
        for (size_t i = b * BLOCK; i < (b + 1) * BLOCK; i++)
            kept[i] = before < KEPT ? sample[i] : 0;
    }
}

static void compute(host_side *h, unsigned seed)
{
    test_rng rng = {seed};
    fill_whole(&rng, JOB_X, h->x);
    fill_whole(&rng, JOB_W, h->w);
    fill_whole(&rng, JOB_Y, h->dy);
    for (size_t n = 0; n < JOB_BATCH; n++)
        prune_sample(h->x + n * JOB_ROWS * JOB_IN, h->kept + n * JOB_ROWS * JOB_IN);
    for (size_t t = 0; t < JOB_TOKENS; t++)
        for (size_t o = 0; o < JOB_OUT; o++)
            for (size_t i = 0; i < JOB_IN; i++) {
                h->y[t * JOB_OUT + o] += h->x[t * JOB_IN + i] * h->w[o * JOB_IN + i];
                h->dx[t * JOB_IN + i] += h->dy[t * JOB_OUT + o] * h->w[o * JOB_IN + i];
                h->dw[o * JOB_IN + i] += h->dy[t * JOB_OUT + o] * h->kept[t * JOB_IN + i];
            }
}

/* Reads a matrix and compares it; -0 and 0 are one number. */
static clprune_status compare(
    thread_job *j, const char *name, clprune_mat mat, const float *want, float *got)
{
    const clprune_status status = clprune_mat_read(j->context, mat, got);
    for (size_t i = 0; status == CLPRUNE_SUCCESS && i < mat.rows * mat.cols; i++)
        if (got[i] != want[i] && j->wrong == NULL)
            j->wrong = name;
    return status;
}

void *thread_exact(void *what)
{
    thread_job *j = what;
    clprune_context *c = j->context;
    clprune_mat x = {0}, y = {0}, w = {0}, dw = {0}, dx = {0};
    clprune_linear *layer = j->layer;
    clprune_saved *saved = NULL;
    clprune_bsr bsr = {0};
    const clprune_bsr_desc desc = {
        .batch = JOB_BATCH, .rows = JOB_ROWS, .cols = JOB_IN, .block = {1, BLOCK}, .keep = KEPT};
    host_side *h = test_alloc(sizeof *h);
    float *got = test_alloc(JOB_X * sizeof *got);
    if (h == NULL || got == NULL)
        abort();
    compute(h, j->seed);
    DO(clprune_mat_create(c, CLPRUNE_MEMORY_INPUT, "x", JOB_TOKENS, JOB_IN, &x));
    DO(clprune_mat_create(c, CLPRUNE_MEMORY_ACTIVATIONS, "y", JOB_TOKENS, JOB_OUT, &y));
    DO(clprune_mat_create(c, CLPRUNE_MEMORY_PARAMETERS, "w", JOB_OUT, JOB_IN, &w));
    DO(clprune_mat_create(c, CLPRUNE_MEMORY_GRADIENTS, "dw", JOB_OUT, JOB_IN, &dw));
    DO(clprune_mat_create(c, CLPRUNE_MEMORY_GRADIENTS, "dx", JOB_TOKENS, JOB_IN, &dx));
    DO(clprune_mat_write(c, x, h->x));
    DO(clprune_mat_write(c, w, h->w));
    DO(clprune_gemm(c, false, true, 1, 0, x, w, y, NULL));
    DO(compare(j, "the dense product", y, h->y, got));
    DO(clprune_bsr_create(c, CLPRUNE_MEMORY_ACTIVATIONS, "pruned", &desc, &bsr));
    DO(clprune_prune(c, CLPRUNE_NORM_L1, CLPRUNE_CRITERION_LARGEST, 0, x, &bsr, NULL));
    DO(clprune_bsr_unpack(c, &bsr, dx, NULL));
    DO(compare(j, "the pruned matrix", dx, h->kept, got));
    if (layer == NULL)
        DO(thread_layer(c, &layer));
    DO(clprune_linear_saved_create(layer, JOB_BATCH, JOB_ROWS, "saved", &saved));
    DO(clprune_linear_forward(layer, JOB_BATCH, x, w, CLPRUNE_NO_MAT, y, saved, NULL));
    DO(compare(j, "the layer's y", y, h->y, got));
    DO(clprune_mat_write(c, y, h->dy));
    DO(clprune_linear_backward(
        layer, JOB_BATCH, saved, y, w, &(clprune_grads){.dx = dx, .dw = dw}, NULL));
    DO(compare(j, "the layer's dx", dx, h->dx, got));
    DO(compare(j, "the layer's dw", dw, h->dw, got));
done:
    note_error(j);
    clprune_saved_destroy(saved);
    clprune_bsr_destroy(c, &bsr);
    if (j->layer == NULL)
        clprune_linear_destroy(layer);
    clprune_buffer_release(c, x.buffer);
    clprune_buffer_release(c, y.buffer);
    clprune_buffer_release(c, w.buffer);
    clprune_buffer_release(c, dw.buffer);
    clprune_buffer_release(c, dx.buffer);
    return NULL;
}
