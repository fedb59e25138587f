/* bench_conv_peer.c: the peer of convolutions on CPU devices, oneDNN, where the build found it. */
#include "bench.h"

#ifdef CLPRUNE_BENCH_ONEDNN
#include <dnnl.h>
#include <stdlib.h>

/* The tensors; each pass computes one of them. */
enum { SRC, WEIGHTS, DST, TENSORS };

struct bench_conv_peer {
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    dnnl_primitive_t primitive;
    dnnl_exec_arg_t args[TENSORS];
};

const char *bench_conv_peer_name(void)
{
    static char name[64];
    const dnnl_version_t *version = dnnl_version();
    (void)snprintf(name, sizeof name, "oneDNN %d.%d.%d convolution", version->major, version->minor,
        version->patch);
    return name;
}

static void check(dnnl_status_t status, const char *what)
{
    if (status != dnnl_success)
        tool_quit(EXIT_RUN, "oneDNN: %s fails with status %d", what, (int)status);
}
#define DNNL(call) check((call), #call)

/* Since version 3 a descriptor is a handle. */
#if DNNL_VERSION_MAJOR >= 3
#define describe_by_tag dnnl_memory_desc_create_with_tag
typedef const_dnnl_memory_desc_t const_desc;
#define DESC(d) (d)
#else
#define describe_by_tag dnnl_memory_desc_init_by_tag
typedef const dnnl_memory_desc_t *const_desc;
#define DESC(d)         (&(d))
#endif

static dnnl_memory_desc_t describe(int rank, const dnnl_dims_t dims, dnnl_format_tag_t tag)
{
    dnnl_memory_desc_t desc;
    DNNL(describe_by_tag(&desc, rank, dims, dnnl_f32, tag));
    return desc;
}

static dnnl_memory_t room(const struct bench_conv_peer *p, const_desc desc, void *data)
{
    dnnl_memory_t memory;
    DNNL(dnnl_memory_create(&memory, desc, p->engine, data));
    return memory;
}

/* The primitive of a pass; its descriptor tells which layout it wants for the weights. */
static dnnl_primitive_desc_t choose(const struct bench_conv_peer *p, bench_conv_pass pass,
    const dnnl_memory_desc_t *d, const dnnl_dims_t stride, const dnnl_dims_t padding)
{
    const dnnl_dims_t dilation = {0, 0};
    dnnl_primitive_desc_t forward, chosen;
#if DNNL_VERSION_MAJOR >= 3
    DNNL(dnnl_convolution_forward_primitive_desc_create(&forward, p->engine, dnnl_forward_training,
        dnnl_convolution_direct, d[SRC], d[WEIGHTS], NULL, d[DST], stride, dilation, padding,
        padding, NULL));
    if (pass == BENCH_CONV_FORWARD)
        return forward;
    if (pass == BENCH_CONV_DX)
        DNNL(dnnl_convolution_backward_data_primitive_desc_create(&chosen, p->engine,
            dnnl_convolution_direct, d[SRC], d[WEIGHTS], d[DST], stride, dilation, padding, padding,
            forward, NULL));
    else
        DNNL(dnnl_convolution_backward_weights_primitive_desc_create(&chosen, p->engine,
            dnnl_convolution_direct, d[SRC], d[WEIGHTS], NULL, d[DST], stride, dilation, padding,
            padding, forward, NULL));
#else
    dnnl_convolution_desc_t conv;
    DNNL(dnnl_dilated_convolution_forward_desc_init(&conv, dnnl_forward_training,
        dnnl_convolution_direct, &d[SRC], &d[WEIGHTS], NULL, &d[DST], stride, dilation, padding,
        padding));
    DNNL(dnnl_primitive_desc_create(&forward, &conv, NULL, p->engine, NULL));
    if (pass == BENCH_CONV_FORWARD)
        return forward;
    if (pass == BENCH_CONV_DX)
        DNNL(dnnl_dilated_convolution_backward_data_desc_init(&conv, dnnl_convolution_direct,
            &d[SRC], &d[WEIGHTS], &d[DST], stride, dilation, padding, padding));
    else
        DNNL(dnnl_dilated_convolution_backward_weights_desc_init(&conv, dnnl_convolution_direct,
            &d[SRC], &d[WEIGHTS], NULL, &d[DST], stride, dilation, padding, padding));
    DNNL(dnnl_primitive_desc_create(&chosen, &conv, NULL, p->engine, forward));
#endif
    dnnl_primitive_desc_destroy(forward);
    return chosen;
}

struct bench_conv_peer *bench_conv_peer_create(const bench_job *job, bench_conv_pass pass,
    const clprune_conv2d_desc *desc, clprune_extent image, clprune_extent output)
{
    const dnnl_dim_t batch = (dnnl_dim_t)job->shape.batch, in = (dnnl_dim_t)desc->in,
                     out = (dnnl_dim_t)desc->out;
    const dnnl_dims_t stride = {(dnnl_dim_t)desc->stride.height, (dnnl_dim_t)desc->stride.width};
    const dnnl_dims_t padding = {(dnnl_dim_t)desc->padding.height, (dnnl_dim_t)desc->padding.width};
    const dnnl_dims_t src = {batch, in, (dnnl_dim_t)image.height, (dnnl_dim_t)image.width};
    const dnnl_dims_t dst = {batch, out, (dnnl_dim_t)output.height, (dnnl_dim_t)output.width};
    const dnnl_dim_t groups = (dnnl_dim_t)desc->groups, height = (dnnl_dim_t)desc->kernel.height,
                     width = (dnnl_dim_t)desc->kernel.width;
    const dnnl_dims_t weights = {groups, out / groups, in / groups, height, width};
    struct bench_conv_peer *p = calloc(1, sizeof *p);
    if (p == NULL)
        return NULL;
    DNNL(dnnl_engine_create(&p->engine, dnnl_cpu, 0));
    DNNL(dnnl_stream_create(&p->stream, p->engine, dnnl_stream_default_flags));
    dnnl_memory_desc_t d[TENSORS] = {[SRC] = describe(4, src, dnnl_nhwc),
        [WEIGHTS] = describe(5, weights, dnnl_format_tag_any),
        [DST] = describe(4, dst, dnnl_nhwc)};
    const dnnl_primitive_desc_t chosen = choose(p, pass, d, stride, padding);
    const bool dx = pass == BENCH_CONV_DX, dw = pass == BENCH_CONV_DW;
    const int names[TENSORS] = {dx ? DNNL_ARG_DIFF_SRC : DNNL_ARG_SRC,
        dw ? DNNL_ARG_DIFF_WEIGHTS : DNNL_ARG_WEIGHTS,
        pass == BENCH_CONV_FORWARD ? DNNL_ARG_DST : DNNL_ARG_DIFF_DST};
    p->args[SRC] =
        (dnnl_exec_arg_t){names[SRC], room(p, DESC(d[SRC]), dx ? job->dx.host : job->x.host)};
    p->args[WEIGHTS] = (dnnl_exec_arg_t){
        names[WEIGHTS], room(p,
                            dnnl_primitive_desc_query_md(
                                chosen, dw ? dnnl_query_diff_weights_md : dnnl_query_weights_md, 0),
                            DNNL_MEMORY_ALLOCATE)};
    p->args[DST] = (dnnl_exec_arg_t){
        names[DST], room(p, DESC(d[DST]), pass == BENCH_CONV_FORWARD ? job->y.host : job->dy.host)};
    DNNL(dnnl_primitive_create(&p->primitive, chosen));
    dnnl_primitive_desc_destroy(chosen);
#if DNNL_VERSION_MAJOR >= 3
    for (int i = 0; i < TENSORS; i++)
        dnnl_memory_desc_destroy(d[i]);
#endif
    return p;
}

void bench_conv_peer_run(struct bench_conv_peer *p)
{
    DNNL(dnnl_primitive_execute(p->primitive, p->stream, TENSORS, p->args));
    DNNL(dnnl_stream_wait(p->stream));
}

void bench_conv_peer_destroy(struct bench_conv_peer *p)
{
    if (p == NULL)
        return;
    for (int i = 0; i < TENSORS; i++)
        dnnl_memory_destroy(p->args[i].memory);
    dnnl_primitive_destroy(p->primitive);
    dnnl_stream_destroy(p->stream);
    dnnl_engine_destroy(p->engine);
    free(p);
}
#else
const char *bench_conv_peer_name(void)
{
    return NULL;
}

struct bench_conv_peer *bench_conv_peer_create(const bench_job *job, bench_conv_pass pass,
    const clprune_conv2d_desc *desc, clprune_extent image, clprune_extent output)
{
    (void)job, (void)pass, (void)desc, (void)image, (void)output;
    return NULL;
}

void bench_conv_peer_run(struct bench_conv_peer *peer)
{
    (void)peer;
}

void bench_conv_peer_destroy(struct bench_conv_peer *peer)
{
    (void)peer;
}
#endif
