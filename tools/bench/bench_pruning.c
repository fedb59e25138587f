/* bench_pruning.c: prune + pack, unpack, and the whole linear layer around them. */
#include "bench.h"

#include <string.h>

/* BSR and dense matrix are each read or written once. */
static double pass_bytes(const bench_job *job)
{
    clprune_bsr_sizes sizes;
    CHECK(job->context, clprune_bsr_size_query(&job->xs.desc, &sizes));
    return (double)sizes.total_bytes + (double)sizes.dense_bytes;
}

/* w and y are for the forward product of the pruned input. */
static void prepare_prune(bench_job *job)
{
    bench_tensor_create(job, "x", job->rows, job->shape.in, &job->x);
    bench_tensor_create(job, "w", job->shape.out, job->shape.in, &job->w);
    bench_tensor_create(job, "y", job->rows, job->shape.out, &job->y);
    bench_prune_x(job);
    job->bytes = pass_bytes(job);
}

static clprune_status prune(bench_job *job)
{
    return clprune_prune(
        job->context, CLPRUNE_NORM_L2, CLPRUNE_CRITERION_LARGEST, 0, job->x.mat, &job->xs, NULL);
}

static clprune_status forward_product(bench_job *job)
{
    return clprune_gemm(
        job->context, false, true, 1.0f, 0.0f, job->x.mat, job->w.mat, job->y.mat, NULL);
}

static void prepare_unpack(bench_job *job)
{
    bench_tensor_create(job, "x", job->rows, job->shape.in, &job->x);
    bench_prune_x(job);
    job->bytes = pass_bytes(job);
}

static clprune_status unpack(bench_job *job)
{
    return clprune_bsr_unpack(job->context, &job->xs, job->x.mat, NULL);
}

static void create_layer(
    bench_job *job, float sparsity, clprune_linear **layer, clprune_saved **saved)
{
    const bench_shape *shape = &job->shape;
    const clprune_keep pruned = {
        .form = CLPRUNE_FORM_PRUNED, .block = {1, shape->block}, .sparsity = sparsity};
    const clprune_linear_desc desc = {.in = shape->in,
        .out = shape->out,
        .keep = sparsity > 0.0f ? pruned : (clprune_keep){.form = CLPRUNE_FORM_DENSE}};
    CHECK(job->context, clprune_linear_create(job->context, &desc, layer));
    CHECK(job->context,
        clprune_linear_saved_create(*layer, shape->batch, shape->tokens, "saved", saved));
}

static bool is_step(const bench_job *job)
{
    return strcmp(job->op->form, "step") == 0;
}

/* The layer as it is used, with bias; `dense` is the same layer at sparsity 0. */
static void prepare_linear(bench_job *job)
{
    const bench_shape *shape = &job->shape;
    bench_tensor_create(job, "x", job->rows, shape->in, &job->x);
    bench_tensor_create(job, "w", shape->out, shape->in, &job->w);
    bench_tensor_create(job, "b", 1, shape->out, &job->b);
    bench_tensor_create(job, "y", job->rows, shape->out, &job->y);
    bench_tensor_create(job, "dy", job->rows, shape->out, &job->dy);
    bench_tensor_create(job, "dx", job->rows, shape->in, &job->dx);
    bench_tensor_create(job, "dw", shape->out, shape->in, &job->dw);
    bench_tensor_create(job, "db", 1, shape->out, &job->db);
    create_layer(job, shape->sparsity, &job->layer, &job->saved);
    create_layer(job, 0.0f, &job->dense_layer, &job->dense_saved);
    CHECK(job->context,
        clprune_mat_write(job->context,
            clprune_saved_target(job->dense_saved, 0, shape->batch, job->x.mat), job->x.host));
    bench_take_kept(job);
    const double products = is_step(job) ? 2.0 + job->kept : 1.0;
    job->flops = products * 2.0 * (double)job->rows * (double)shape->in * (double)shape->out;
}

/* Forward: y and kept x. Backward, in a step: dx, dw and db. */
static clprune_status pass(bench_job *job, clprune_linear *layer, clprune_saved *saved)
{
    const size_t batch = job->shape.batch;
    const clprune_mat x = clprune_saved_target(saved, 0, batch, job->x.mat);
    const clprune_status status =
        clprune_linear_forward(layer, batch, x, job->w.mat, job->b.mat, job->y.mat, saved, NULL);
    if (!is_step(job) || status != CLPRUNE_SUCCESS)
        return status;
    return clprune_linear_backward(layer, batch, saved, job->dy.mat, job->w.mat,
        &(clprune_grads){.dx = job->dx.mat, .dw = job->dw.mat, .db = job->db.mat}, NULL);
}

static clprune_status linear(bench_job *job)
{
    return pass(job, job->layer, job->saved);
}

static clprune_status dense_linear(bench_job *job)
{
    return pass(job, job->dense_layer, job->dense_saved);
}

/* The products alone: y = x * w^T; in a step dx = dy * w, dw = dy^T * x. */
static void peer_linear(bench_job *job)
{
    const size_t rows = job->rows, in = job->shape.in, out = job->shape.out;
    bench_peer_gemm(false, true, rows, out, in, 0.0f, job->x.host, job->w.host, job->y.host);
    if (!is_step(job))
        return;
    bench_peer_gemm(false, false, rows, in, out, 0.0f, job->dy.host, job->w.host, job->dx.host);
    bench_peer_gemm(true, false, out, in, rows, 0.0f, job->dy.host, job->x.host, job->dw.host);
}

enum { LAYER_AXES = PRODUCT_AXES | BLOCK_AXES };

const bench_op bench_pruning[] = {
    {"prune", NULL, LAYER_AXES, prepare_prune, prune, forward_product, NULL, true},
    {"unpack", NULL, X_AXES | BLOCK_AXES, prepare_unpack, unpack, NULL, NULL, false},
    {"linear", "step", LAYER_AXES, prepare_linear, linear, dense_linear, peer_linear, false},
    {"linear", "forward", LAYER_AXES, prepare_linear, linear, dense_linear, peer_linear, false},
    {0},
};
