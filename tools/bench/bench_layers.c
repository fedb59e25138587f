/* bench_layers.c: the layers bound by memory, and the optimizers.
 *
 * `bytes` counts each operand once: the least traffic of a fused kernel. Attention is there, too.
 */
#include "bench.h"

#include <CL/cl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static double floats(size_t rows, size_t cols)
{
    return 4.0 * (double)rows * (double)cols;
}

static bool is_forward(const bench_job *job)
{
    return strcmp(job->op->form, "forward") == 0;
}

/* h = x; g = y; dg = dy; dh = dx */
static void prepare_gelu(bench_job *job)
{
    const size_t in = job->shape.in;
    bench_tensor_create(job, "x", job->rows, in, &job->x);
    if (is_forward(job)) {
        bench_tensor_create(job, "y", job->rows, in, &job->y);
    } else {
        bench_tensor_create(job, "dy", job->rows, in, &job->dy);
        bench_tensor_create(job, "dx", job->rows, in, &job->dx);
    }
    job->bytes = (is_forward(job) ? 2.0 : 3.0) * floats(job->rows, in);
}

static clprune_status gelu_forward(bench_job *job)
{
    return clprune_gelu_forward(job->context, job->x.mat, CLPRUNE_NO_MAT, job->y.mat, NULL);
}

static clprune_status gelu_backward(bench_job *job)
{
    return clprune_gelu_backward(
        job->context, 0, job->x.mat, job->dy.mat, job->dx.mat, CLPRUNE_NO_MAT, NULL);
}

/* alpha = w; beta = b */
static void prepare_affine(bench_job *job)
{
    prepare_gelu(job);
    bench_tensor_create(job, "alpha", 1, job->shape.in, &job->w);
    bench_tensor_create(job, "beta", 1, job->shape.in, &job->b);
    bench_tensor_create(job, "dalpha", 1, job->shape.in, &job->dw);
    bench_tensor_create(job, "dbeta", 1, job->shape.in, &job->db);
}

static clprune_status affine_forward(bench_job *job)
{
    return clprune_affine_forward(
        job->context, job->x.mat, job->w.mat, job->b.mat, job->y.mat, NULL);
}

static clprune_status affine_backward(bench_job *job)
{
    return clprune_affine_backward(job->context, 0, 0, job->x.mat, job->w.mat, job->dy.mat,
        job->dx.mat, &(clprune_affine){.alpha = job->dw.mat, .beta = job->db.mat}, NULL);
}

/* ls = w; backward: t = x; dt = dx */
static void prepare_layerscale(bench_job *job)
{
    prepare_gelu(job);
    bench_tensor_create(job, "ls", 1, job->shape.in, &job->w);
    bench_tensor_create(job, "dls", 1, job->shape.in, &job->dw);
    if (is_forward(job))
        bench_tensor_create(job, "t", job->rows, job->shape.in, &job->t);
    job->bytes = 3.0 * floats(job->rows, job->shape.in);
}

static clprune_status layerscale_forward(bench_job *job)
{
    return clprune_layerscale_forward(
        job->context, job->x.mat, job->t.mat, job->w.mat, job->y.mat, NULL);
}

static clprune_status layerscale_backward(bench_job *job)
{
    return clprune_layerscale_backward(job->context, 0, job->x.mat, job->w.mat, job->dy.mat,
        job->dx.mat, &(clprune_layerscale_grads){.dls = job->dw.mat}, NULL);
}

/* Images of `tokens` patches of 16 x 16, as square as possible; x = images. */
static void prepare_patch_embed(bench_job *job)
{
    enum { PATCH = 16, CHANNELS = 3 };
    const bench_shape *shape = &job->shape;
    const size_t features = CHANNELS * PATCH * PATCH;
    size_t across = 1;
    for (size_t i = 1; i * i <= shape->tokens; i++)
        if (shape->tokens % i == 0)
            across = i;
    job->patch = (clprune_patch_embed_desc){
        CHANNELS, across * PATCH, shape->tokens / across * PATCH, PATCH, shape->out};
    bench_tensor_create(job, "images", shape->batch, features * shape->tokens, &job->x);
    bench_tensor_create(job, "w", shape->out, features, &job->w);
    bench_tensor_create(job, "b", 1, shape->out, &job->b);
    if (is_forward(job)) {
        bench_tensor_create(job, "y", job->rows, shape->out, &job->y);
    } else {
        bench_tensor_create(job, "dy", job->rows, shape->out, &job->dy);
        bench_tensor_create(job, "dw", shape->out, features, &job->dw);
        bench_tensor_create(job, "db", 1, shape->out, &job->db);
    }
    job->shape.in = features;
    job->bytes =
        floats(job->rows, features) + floats(job->rows, shape->out) + floats(shape->out, features);
    job->flops = 2.0 * (double)job->rows * (double)features * (double)shape->out;
}

static clprune_status patch_embed_forward(bench_job *job)
{
    return clprune_patch_embed_forward(job->context, &job->patch, job->shape.batch, job->x.mat,
        job->w.mat, job->b.mat, job->y.mat, NULL);
}

/* As in training: images have no gradient. */
static clprune_status patch_embed_backward(bench_job *job)
{
    return clprune_patch_embed_backward(job->context, &job->patch, job->shape.batch, job->x.mat,
        job->dy.mat, job->w.mat, &(clprune_grads){.dw = job->dw.mat, .db = job->db.mat}, NULL);
}

static void prepare_token_mean(bench_job *job)
{
    const size_t batch = job->shape.batch, in = job->shape.in;
    bench_tensor_create(job, "x", job->rows, in, &job->x); /* dx backward */
    bench_tensor_create(job, "y", batch, in, &job->y);     /* dy backward */
    job->bytes = floats(job->rows, in) + floats(batch, in);
}

static clprune_status token_mean_forward(bench_job *job)
{
    return clprune_token_mean_forward(
        job->context, job->shape.batch, job->shape.tokens, job->x.mat, job->y.mat, NULL);
}

static clprune_status token_mean_backward(bench_job *job)
{
    return clprune_token_mean_backward(
        job->context, job->shape.batch, job->shape.tokens, job->y.mat, job->x.mat, NULL);
}

/* Heads of 64 columns, where those divide the features. */
static clprune_attention_desc heads_of(const bench_job *job)
{
    const size_t in = job->shape.in, cols = in % 64 == 0 ? 64 : in;
    return (clprune_attention_desc){.rows = job->shape.tokens, .heads = in / cols, .cols = cols};
}

/* q = x; k = w; v = b, and their gradients. The products of the backward pass are five. */
static void prepare_attention(bench_job *job)
{
    const size_t in = job->shape.in;
    prepare_gelu(job);
    bench_tensor_create(job, "k", job->rows, in, &job->w);
    bench_tensor_create(job, "v", job->rows, in, &job->b);
    if (!is_forward(job)) {
        bench_tensor_create(job, "dk", job->rows, in, &job->dw);
        bench_tensor_create(job, "dv", job->rows, in, &job->db);
    }
    job->flops = (is_forward(job) ? 4.0 : 10.0) * (double)(job->rows * job->shape.tokens * in);
    job->bytes = (is_forward(job) ? 4.0 : 7.0) * floats(job->rows, in);
}

static clprune_status attention_forward(bench_job *job)
{
    const clprune_attention_desc desc = heads_of(job);
    return clprune_attention_forward(job->context, &desc, job->shape.batch, job->x.mat, job->w.mat,
        job->b.mat, job->y.mat, NULL);
}

static clprune_status attention_backward(bench_job *job)
{
    const clprune_attention_desc desc = heads_of(job);
    return clprune_attention_backward(job->context, &desc, job->shape.batch, job->x.mat, job->w.mat,
        job->b.mat, job->dy.mat, job->dx.mat, job->dw.mat, job->db.mat, NULL);
}

/* logits = x; log_p = y; loss = t; dlogits = dx */
static void prepare_cross_entropy(bench_job *job)
{
    const size_t batch = job->shape.batch, classes = job->shape.out;
    bench_tensor_create(job, "logits", batch, classes, &job->x);
    bench_tensor_create(job, "log_p", batch, classes, &job->y);
    bench_tensor_create(job, "loss", batch, 1, &job->t);
    bench_tensor_create(job, "dlogits", batch, classes, &job->dx);
    CHECK(job->context, clprune_buffer_create(job->context, CLPRUNE_MEMORY_INPUT, "labels",
                            batch * sizeof(int32_t), &job->labels.buffer));
    int32_t *labels = malloc(batch * sizeof *labels);
    if (labels == NULL)
        tool_quit(EXIT_RUN, "no host memory for %zu labels", batch);
    for (size_t n = 0; n < batch; n++)
        labels[n] = (int32_t)(n * 7919 % classes);
    const cl_int error = clEnqueueWriteBuffer(clprune_context_queue(job->context),
        job->labels.buffer, CL_TRUE, 0, batch * sizeof *labels, labels, 0, NULL, NULL);
    free(labels);
    if (error != CL_SUCCESS)
        tool_quit(EXIT_RUN, "OpenCL error %d while writing labels", error);
    job->bytes = 2.0 * floats(batch, classes);
}

static clprune_status cross_entropy_forward(bench_job *job)
{
    return clprune_cross_entropy_forward(
        job->context, 0.1f, job->x.mat, job->labels, job->y.mat, job->t.mat, CLPRUNE_NO_MAT, NULL);
}

static clprune_status cross_entropy_backward(bench_job *job)
{
    return clprune_cross_entropy_backward(
        job->context, 0.1f, 1.0f, job->y.mat, job->labels, job->dx.mat, NULL);
}

static void prepare_optimizer(bench_job *job)
{
    const size_t in = job->shape.in, out = job->shape.out;
    const clprune_optimizer_info info =
        clprune_optimizer_describe((size_t)(job->op - bench_optimizers));
    clprune_optimizer_desc desc = info.desc;
    desc.weight_decay = 0.05f;
    bench_tensor_create(job, "w", out, in, &job->w);
    bench_tensor_create(job, "b", 1, out, &job->b);
    bench_tensor_create(job, "dw", out, in, &job->dw);
    bench_tensor_create(job, "db", 1, out, &job->db);
    const clprune_param params[] = {
        {"w", job->w.mat, job->dw.mat, true}, {"b", job->b.mat, job->db.mat, false}};
    CHECK(job->context, clprune_optimizer_create(job->context, &desc, 2, params, &job->optimizer));
    /* p and g are read, p is written, and each slot both. */
    const double slots = (double)strlen(info.slots);
    const double state = desc.state_bits / 32.0 * 2 * slots;
    job->bytes = (3 + state) * floats(out, in) + (3 + 2 * slots) * floats(1, out);
}

static clprune_status optimizer_step(bench_job *job)
{
    return clprune_optimizer_step(job->optimizer, 1e-3f, NULL);
}

enum { IN = 1u << AXIS_IN, OUT = 1u << AXIS_OUT, BATCH = 1u << AXIS_BATCH };

#define LAYER(name, axes)                                                                          \
    {#name, "forward", axes, prepare_##name, name##_forward, NULL, NULL, false},                   \
    {                                                                                              \
#name, "backward", axes, prepare_##name, name##_backward, NULL, NULL, false                \
    }

const bench_op bench_layers[] = {
    LAYER(gelu, X_AXES),
    LAYER(affine, X_AXES),
    LAYER(layerscale, X_AXES),
    LAYER(patch_embed, ROWS_AXES | OUT),
    LAYER(token_mean, X_AXES),
    LAYER(attention, X_AXES),
    LAYER(cross_entropy, BATCH | OUT),
    {0},
};

bench_op bench_optimizers[BENCH_OPTIMIZERS];

void bench_list_optimizers(void)
{
    for (size_t i = 0; i + 1 < BENCH_OPTIMIZERS && clprune_optimizer_describe(i).name != NULL; i++)
        bench_optimizers[i] = (bench_op){.name = "optimizer",
            .form = clprune_optimizer_describe(i).name,
            .axes = IN | OUT,
            .prepare = prepare_optimizer,
            .ours = optimizer_step};
}
