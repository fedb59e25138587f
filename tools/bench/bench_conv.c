/* bench_conv.c: convolutions on channels-last images of image x image pixels, and their weight
 * gradient from an input that is kept in some form. */
#include "bench.h"

#include <CL/cl.h>
#include <stdlib.h>
#include <string.h>

/* The settings of the operation's form. */
static clprune_keep keep_of(const bench_job *job)
{
    const char *form = job->op->form;
    if (strcmp(form, "pruned") == 0)
        return (clprune_keep){.form = CLPRUNE_FORM_PRUNED,
            .block = {1, job->shape.block},
            .sparsity = job->shape.sparsity};
    if (strncmp(form, "pooled-", 7) == 0)
        return (clprune_keep){.form = CLPRUNE_FORM_POOLED, .cell = (unsigned)(form[7] - '0')};
    if (strncmp(form, "quantised-", 10) == 0)
        return (clprune_keep){.form = CLPRUNE_FORM_QUANTISED, .bits = (unsigned)(form[10] - '0')};
    return (clprune_keep){.form = CLPRUNE_FORM_DENSE};
}

static clprune_extent square(size_t side)
{
    return (clprune_extent){side, side};
}

static clprune_extent image_of(const bench_job *job)
{
    return square(job->shape.image);
}

static clprune_conv2d *create_layer(
    bench_job *job, const clprune_conv2d_desc *desc, clprune_saved **saved)
{
    clprune_conv2d *layer;
    CHECK(job->context, clprune_conv2d_create(job->context, desc, &layer));
    CHECK(job->context,
        clprune_conv2d_saved_create(layer, job->shape.batch, image_of(job), "saved", saved));
    CHECK(job->context, clprune_saved_store(*saved, 0, job->shape.batch, job->x.mat, NULL));
    return layer;
}

/* Cells along an axis of `pixels`. */
static size_t cells(size_t pixels, const clprune_keep *keep)
{
    return (pixels + keep->cell - 1) / keep->cell;
}

/* Makes x one of bf16, in half of its buffer, if the layer takes it: values from 1 to 2. */
static void narrow_x(bench_job *job, const clprune_conv2d_desc *desc)
{
    const size_t count = job->x.mat.rows * job->x.mat.cols;
    if (!clprune_conv2d_takes_bf16(job->context, desc, image_of(job)))
        return;
    uint16_t *values = malloc(count * sizeof *values);
    if (values == NULL)
        tool_quit(EXIT_RUN, "no host memory for %zu elements", count);
    for (size_t i = 0; i < count; i++)
        values[i] = (uint16_t)(0x3f80u + ((uint32_t)i * 2654435761u >> 25));
    const cl_int error = clEnqueueWriteBuffer(clprune_context_queue(job->context),
        job->x.mat.buffer, CL_TRUE, 0, count * sizeof *values, values, 0, NULL, NULL);
    free(values);
    if (error != CL_SUCCESS)
        tool_quit(EXIT_RUN, "OpenCL error %d while writing x", (int)error);
    job->x.mat.type = CLPRUNE_VALUES_BF16;
}

static void prepare(bench_job *job)
{
    const bench_shape *s = &job->shape;
    const char *form = job->op->form;
    const bool depthwise = strcmp(job->op->name, "depthwise") == 0;
    const size_t out = depthwise ? s->in : s->out, groups = depthwise ? s->in : 1;
    clprune_conv2d_desc desc = {.in = s->in,
        .out = out,
        .groups = groups,
        .kernel = square(s->kernel),
        .stride = square(s->stride),
        .padding = square(s->kernel / 2)};
    const clprune_extent image = image_of(job), output = clprune_conv2d_output(&desc, image);
    const size_t inner = s->kernel * s->kernel * s->in / groups,
                 results = s->batch * output.height * output.width;
    bench_tensor_create(job, "x", s->batch * image.height * image.width, s->in, &job->x);
    bench_tensor_create(job, "w", out, inner, &job->w);
    bench_tensor_create(job, "y", results, out, &job->y);
    bench_tensor_create(job, "dy", results, out, &job->dy);
    bench_tensor_create(job, "dx", s->batch * image.height * image.width, s->in, &job->dx);
    bench_tensor_create(job, "dw", out, inner, &job->dw);
    job->flops = 2.0 * (double)results * (double)inner * (double)out;
    clprune_conv2d_destroy(create_layer(job, &desc, &job->dense_saved));
    desc.keep = keep_of(job);
    job->conv = create_layer(job, &desc, &job->saved);
    bench_take_kept(job);
    job->flops *= job->kept;
    if (desc.keep.form == CLPRUNE_FORM_POOLED) /* smaller cells at the edges, too */
        job->flops *= (double)(cells(image.height, &desc.keep) * cells(image.width, &desc.keep)) /
                      (double)(image.height * image.width);
    if (strcmp(form, "forward-bf16") == 0)
        narrow_x(job, &desc);
    const bench_conv_pass pass = strncmp(form, "forward", 7) == 0 ? BENCH_CONV_FORWARD
                                 : strcmp(form, "dx") == 0        ? BENCH_CONV_DX
                                                                  : BENCH_CONV_DW;
    job->conv_peer = bench_conv_peer_create(job, pass, &desc, image, output);
}

static clprune_status forward(bench_job *job)
{
    return clprune_conv2d_forward(job->conv, job->shape.batch, image_of(job), job->x.mat,
        job->w.mat, CLPRUNE_NO_MAT, job->y.mat, NULL, NULL);
}

static clprune_status dx(bench_job *job)
{
    return clprune_conv2d_backward(job->conv, job->shape.batch, image_of(job), NULL, job->dy.mat,
        job->w.mat, &(clprune_grads){.dx = job->dx.mat}, NULL);
}

static clprune_status dw_of(bench_job *job, const clprune_saved *saved)
{
    return clprune_conv2d_backward(job->conv, job->shape.batch, image_of(job), saved, job->dy.mat,
        job->w.mat, &(clprune_grads){.dw = job->dw.mat}, NULL);
}

static clprune_status dw(bench_job *job)
{
    return dw_of(job, job->saved);
}

static clprune_status dense_dw(bench_job *job)
{
    return dw_of(job, job->dense_saved);
}

static void peer(bench_job *job)
{
    bench_conv_peer_run(job->conv_peer);
}

enum {
    DEPTHWISE_AXES =
        1u << AXIS_BATCH | 1u << AXIS_IN | 1u << AXIS_IMAGE | 1u << AXIS_KERNEL | 1u << AXIS_STRIDE,
    CONV_AXES = DEPTHWISE_AXES | 1u << AXIS_OUT,
    PRUNED_AXES = CONV_AXES | BLOCK_AXES
};

const bench_op bench_convs[] = {
    {"conv", "forward", CONV_AXES, prepare, forward, NULL, peer, false, bench_conv_peer_name},
    {"conv", "forward-bf16", CONV_AXES, prepare, forward, NULL, peer, false, bench_conv_peer_name},
    {"conv", "dx", CONV_AXES, prepare, dx, NULL, peer, false, bench_conv_peer_name},
    {"conv", "dw", CONV_AXES, prepare, dw, NULL, peer, false, bench_conv_peer_name},
    {"conv", "pruned", PRUNED_AXES, prepare, dw, dense_dw, peer, false, bench_conv_peer_name},
    {"conv", "pooled-2", CONV_AXES, prepare, dw, dense_dw, peer, false, bench_conv_peer_name},
    {"conv", "pooled-4", CONV_AXES, prepare, dw, dense_dw, peer, false, bench_conv_peer_name},
    {"conv", "quantised-4", CONV_AXES, prepare, dw, dense_dw, peer, false, bench_conv_peer_name},
    {"depthwise", "forward", DEPTHWISE_AXES, prepare, forward, NULL, peer, false,
        bench_conv_peer_name},
    {"depthwise", "dx", DEPTHWISE_AXES, prepare, dx, NULL, peer, false, bench_conv_peer_name},
    {"depthwise", "dw", DEPTHWISE_AXES, prepare, dw, NULL, peer, false, bench_conv_peer_name},
    {0},
};
