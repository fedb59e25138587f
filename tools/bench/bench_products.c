/* bench_products.c: dense products and BSpMM.
 *
 * x: rows x in, dy: rows x out. Linear layer: w out x in. Token layer: w out x tokens, dy
 * (batch * out) x in. Each product takes 2 * rows * in * out operations when dense. */
#include "bench.h"

static double product_flops(const bench_job *job)
{
    return 2.0 * (double)job->rows * (double)job->shape.in * (double)job->shape.out;
}

static void prepare_gemm(bench_job *job)
{
    const size_t in = job->shape.in, out = job->shape.out;
    const char first = job->op->form[0], second = job->op->form[1];
    const bool forward = first == 'n' && second == 't', dw = first == 't';
    if (forward || dw)
        bench_tensor_create(job, "x", job->rows, in, &job->x);
    if (!forward)
        bench_tensor_create(job, "dy", job->rows, out, &job->dy);
    if (!dw)
        bench_tensor_create(job, "w", out, in, &job->w);
    if (forward)
        bench_tensor_create(job, "y", job->rows, out, &job->y);
    else if (dw)
        bench_tensor_create(job, "dw", out, in, &job->dw);
    else
        bench_tensor_create(job, "dx", job->rows, in, &job->dx);
    job->flops = product_flops(job);
}

static void gemm_nt(bench_job *job)
{
    CHECK(job->context, clprune_gemm(job->context, false, true, 1.0f, 0.0f, job->x.mat, job->w.mat,
                            job->y.mat, NULL));
}

static void gemm_nn(bench_job *job)
{
    CHECK(job->context, clprune_gemm(job->context, false, false, 1.0f, 0.0f, job->dy.mat,
                            job->w.mat, job->dx.mat, NULL));
}

static void gemm_tn(bench_job *job)
{
    CHECK(job->context, clprune_gemm(job->context, true, false, 1.0f, 0.0f, job->dy.mat, job->x.mat,
                            job->dw.mat, NULL));
}

static void peer_gemm_nt(bench_job *job)
{
    bench_peer_gemm(false, true, job->rows, job->shape.out, job->shape.in, 0.0f, job->x.host,
        job->w.host, job->y.host);
}

static void peer_gemm_nn(bench_job *job)
{
    bench_peer_gemm(false, false, job->rows, job->shape.in, job->shape.out, 0.0f, job->dy.host,
        job->w.host, job->dx.host);
}

static void peer_gemm_tn(bench_job *job)
{
    bench_peer_gemm(true, false, job->shape.out, job->shape.in, job->rows, 0.0f, job->dy.host,
        job->x.host, job->dw.host);
}

/* The token layer; w is shared by all samples. */
static void prepare_batched(bench_job *job)
{
    const bench_shape *shape = &job->shape;
    const bool forward = job->op->form[0] == 'n';
    bench_tensor_create(job, "w", shape->out, shape->tokens, &job->w);
    bench_tensor_create(
        job, forward ? "x" : "dx", job->rows, shape->in, forward ? &job->x : &job->dx);
    bench_tensor_create(job, forward ? "y" : "dy", shape->batch * shape->out, shape->in,
        forward ? &job->y : &job->dy);
    job->flops = product_flops(job);
}

static clprune_mat first_sample(const bench_tensor *tensor, size_t rows)
{
    return clprune_mat_rows(tensor->mat, 0, rows);
}

static void batched_nn(bench_job *job)
{
    const bench_shape *shape = &job->shape;
    CHECK(job->context,
        clprune_gemm_batched(job->context, shape->batch, false, false, 1.0f, 0.0f, job->w.mat, 0,
            first_sample(&job->x, shape->tokens), shape->tokens * shape->in,
            first_sample(&job->y, shape->out), shape->out * shape->in, NULL));
}

static void batched_tn(bench_job *job)
{
    const bench_shape *shape = &job->shape;
    CHECK(
        job->context, clprune_gemm_batched(job->context, shape->batch, true, false, 1.0f, 0.0f,
                          job->w.mat, 0, first_sample(&job->dy, shape->out), shape->out * shape->in,
                          first_sample(&job->dx, shape->tokens), shape->tokens * shape->in, NULL));
}

static void peer_batched_nn(bench_job *job)
{
    const bench_shape *shape = &job->shape;
    for (size_t n = 0; n < shape->batch; n++)
        bench_peer_gemm(false, false, shape->out, shape->in, shape->tokens, 0.0f, job->w.host,
            job->x.host + n * shape->tokens * shape->in, job->y.host + n * shape->out * shape->in);
}

static void peer_batched_tn(bench_job *job)
{
    const bench_shape *shape = &job->shape;
    for (size_t n = 0; n < shape->batch; n++)
        bench_peer_gemm(true, false, shape->tokens, shape->in, shape->out, 0.0f, job->w.host,
            job->dy.host + n * shape->out * shape->in,
            job->dx.host + n * shape->tokens * shape->in);
}

static void prepare_bspmm_tn(bench_job *job)
{
    bench_tensor_create(job, "x", job->rows, job->shape.in, &job->x);
    bench_tensor_create(job, "dy", job->rows, job->shape.out, &job->dy);
    bench_tensor_create(job, "dw", job->shape.out, job->shape.in, &job->dw);
    bench_prune_x(job);
    job->flops = job->kept * product_flops(job);
}

static void bspmm_tn(bench_job *job)
{
    CHECK(job->context,
        clprune_bspmm_tn(job->context, 1.0f, 0.0f, job->dy.mat, &job->xs, job->dw.mat, NULL));
}

static void prepare_bspmm_nt(bench_job *job)
{
    const bench_shape *shape = &job->shape;
    bench_tensor_create(job, "x", job->rows, shape->in, &job->x);
    bench_tensor_create(job, "dy", shape->batch * shape->out, shape->in, &job->dy);
    bench_tensor_create(job, "dw", shape->out, shape->tokens, &job->dw);
    bench_prune_x(job);
    job->flops = job->kept * product_flops(job);
}

static void bspmm_nt(bench_job *job)
{
    CHECK(job->context,
        clprune_bspmm_nt(job->context, 1.0f, 0.0f, job->dy.mat, &job->xs, job->dw.mat, NULL));
}

/* dw = sum_n dy_n * x_n^T: one product a sample, each added to the one before. */
static void dense_nt(bench_job *job)
{
    const bench_shape *shape = &job->shape;
    for (size_t n = 0; n < shape->batch; n++)
        CHECK(job->context,
            clprune_gemm(job->context, false, true, 1.0f, n == 0 ? 0.0f : 1.0f,
                clprune_mat_rows(job->dy.mat, n * shape->out, shape->out),
                clprune_mat_rows(job->x.mat, n * shape->tokens, shape->tokens), job->dw.mat, NULL));
}

static void prepare_bspmm_nn(bench_job *job)
{
    bench_tensor_create(job, "x", job->rows, job->shape.in, &job->x);
    bench_tensor_create(job, "w", job->shape.in, job->shape.out, &job->w);
    bench_tensor_create(job, "y", job->rows, job->shape.out, &job->y);
    bench_prune_x(job);
    job->flops = job->kept * product_flops(job);
}

static void bspmm_nn(bench_job *job)
{
    CHECK(job->context,
        clprune_bspmm_nn(job->context, 1.0f, 0.0f, &job->xs, job->w.mat, job->y.mat, NULL));
}

static void dense_nn(bench_job *job)
{
    CHECK(job->context, clprune_gemm(job->context, false, false, 1.0f, 0.0f, job->x.mat, job->w.mat,
                            job->y.mat, NULL));
}

static void peer_nn(bench_job *job)
{
    bench_peer_gemm(false, false, job->rows, job->shape.out, job->shape.in, 0.0f, job->x.host,
        job->w.host, job->y.host);
}

enum {
    DENSE_AXES = 1u << AXIS_BATCH | 1u << AXIS_TOKENS | 1u << AXIS_IN | 1u << AXIS_OUT,
    BLOCK_AXES = DENSE_AXES | 1u << AXIS_BLOCK | 1u << AXIS_SPARSITY
};

const bench_op bench_products[] = {
    {"gemm", "nt", DENSE_AXES, prepare_gemm, gemm_nt, NULL, peer_gemm_nt, false},
    {"gemm", "nn", DENSE_AXES, prepare_gemm, gemm_nn, NULL, peer_gemm_nn, false},
    {"gemm", "tn", DENSE_AXES, prepare_gemm, gemm_tn, NULL, peer_gemm_tn, false},
    {"gemm-batched", "nn", DENSE_AXES, prepare_batched, batched_nn, NULL, peer_batched_nn, false},
    {"gemm-batched", "tn", DENSE_AXES, prepare_batched, batched_tn, NULL, peer_batched_tn, false},
    {"bspmm", "tn", BLOCK_AXES, prepare_bspmm_tn, bspmm_tn, gemm_tn, peer_gemm_tn, false},
    {"bspmm", "nt", BLOCK_AXES, prepare_bspmm_nt, bspmm_nt, dense_nt, bench_peer_nt, false},
    {"bspmm", "nn", BLOCK_AXES, prepare_bspmm_nn, bspmm_nn, dense_nn, peer_nn, false},
    {0},
};
