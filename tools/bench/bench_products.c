/* bench_products.c: dense products, also with weights as codes, and BSpMM.
 *
 * x: rows x in, dy: rows x out. Linear layer: w out x in. Token layer: w out x tokens, dy
 * (batch * out) x in. Each product takes 2 * rows * in * out operations when dense. */
#include "bench.h"

#include <string.h>

static double product_flops(const bench_job *job)
{
    return 2.0 * (double)job->rows * (double)job->shape.in * (double)job->shape.out;
}

/* A dense product c = op(a) op(b), m x k by k x n. */
typedef struct product {
    bool transpose_a, transpose_b;
    bench_tensor *a, *b, *c;
    size_t m, n, k;
} product;

/* The product of the operation's form: y = x w^T (nt), dx = dy w (nn), dw = dy^T x (tn). The nn of
 * bspmm is y = x w. */
static product product_of(bench_job *job)
{
    const size_t rows = job->rows, in = job->shape.in, out = job->shape.out;
    const char *form = job->op->form;
    if (form[0] == 't')
        return (product){true, false, &job->dy, &job->x, &job->dw, out, in, rows};
    if (form[1] == 't')
        return (product){false, true, &job->x, &job->w, &job->y, rows, out, in};
    if (strcmp(job->op->name, "bspmm") == 0)
        return (product){false, false, &job->x, &job->w, &job->y, rows, out, in};
    return (product){false, false, &job->dy, &job->w, &job->dx, rows, in, out};
}

static void prepare_gemm(bench_job *job)
{
    const product p = product_of(job);
    const bool ta = p.transpose_a, tb = p.transpose_b;
    bench_tensor_create(job, "a", ta ? p.k : p.m, ta ? p.m : p.k, p.a);
    bench_tensor_create(job, "b", tb ? p.n : p.k, tb ? p.k : p.n, p.b);
    bench_tensor_create(job, "c", p.m, p.n, p.c);
    job->flops = product_flops(job);
}

static clprune_status gemm(bench_job *job)
{
    const product p = product_of(job);
    return clprune_gemm(
        job->context, p.transpose_a, p.transpose_b, 1.0f, 0.0f, p.a->mat, p.b->mat, p.c->mat, NULL);
}

/* w as frozen weights are stored: in the form that the operation's name ends with. */
static void prepare_stored(bench_job *job)
{
    static const struct {
        const char *name;
        clprune_value_type type;
    } forms[] = {{"bf16", CLPRUNE_VALUES_BF16}, {"8", CLPRUNE_VALUES_CODES8},
        {"4", CLPRUNE_VALUES_CODES4}, {"nf4", CLPRUNE_VALUES_NF4}};
    const char *name = strchr(job->op->name, '-') + 1;
    size_t form = 0;
    prepare_gemm(job);
    while (strcmp(forms[form].name, name) != 0)
        form++;
    CHECK(job->context, clprune_mat_create_as(job->context, CLPRUNE_MEMORY_INPUT, "stored",
                            forms[form].type, job->shape.out, job->shape.in, &job->stored.mat));
    CHECK(job->context, clprune_mat_write(job->context, job->stored.mat, job->w.host));
}

static clprune_status gemm_stored(bench_job *job)
{
    const product p = product_of(job);
    return clprune_gemm(job->context, p.transpose_a, p.transpose_b, 1.0f, 0.0f, p.a->mat,
        job->stored.mat, p.c->mat, NULL);
}

void bench_peer_product(bench_job *job)
{
    const product p = product_of(job);
    bench_peer_gemm(
        p.transpose_a, p.transpose_b, p.m, p.n, p.k, 0.0f, p.a->host, p.b->host, p.c->host);
}

/* The token layer; w is shared by all samples. Form nn: y = w x; tn: dx = w^T dy. */
typedef struct batched {
    bool transpose;
    bench_tensor *from, *to;
    size_t from_rows, to_rows; /* of a sample */
} batched;

static batched batched_of(bench_job *job)
{
    const size_t tokens = job->shape.tokens, out = job->shape.out;
    return job->op->form[0] == 'n' ? (batched){false, &job->x, &job->y, tokens, out}
                                   : (batched){true, &job->dy, &job->dx, out, tokens};
}

static void prepare_batched(bench_job *job)
{
    const bench_shape *shape = &job->shape;
    const batched p = batched_of(job);
    bench_tensor_create(job, "w", shape->out, shape->tokens, &job->w);
    bench_tensor_create(job, "from", shape->batch * p.from_rows, shape->in, p.from);
    bench_tensor_create(job, "to", shape->batch * p.to_rows, shape->in, p.to);
    job->flops = product_flops(job);
}

static clprune_status gemm_batched(bench_job *job)
{
    const bench_shape *shape = &job->shape;
    const batched p = batched_of(job);
    return clprune_gemm_batched(job->context, shape->batch, p.transpose, false, 1.0f, 0.0f,
        job->w.mat, 0, clprune_mat_rows(p.from->mat, 0, p.from_rows), p.from_rows * shape->in,
        clprune_mat_rows(p.to->mat, 0, p.to_rows), p.to_rows * shape->in, NULL);
}

static void peer_batched(bench_job *job)
{
    const bench_shape *shape = &job->shape;
    const batched p = batched_of(job);
    for (size_t n = 0; n < shape->batch; n++)
        bench_peer_gemm(p.transpose, false, p.to_rows, shape->in, p.from_rows, 0.0f, job->w.host,
            p.from->host + n * p.from_rows * shape->in, p.to->host + n * p.to_rows * shape->in);
}

void bench_dw_create(bench_job *job)
{
    const bench_shape *shape = &job->shape;
    const bool nt = strcmp(job->op->form, "nt") == 0;
    bench_tensor_create(job, "x", job->rows, shape->in, &job->x);
    bench_tensor_create(job, "dy", nt ? shape->batch * shape->out : job->rows,
        nt ? shape->in : shape->out, &job->dy);
    bench_tensor_create(job, "dw", shape->out, nt ? shape->tokens : shape->in, &job->dw);
    job->flops = product_flops(job);
}

static void prepare_bspmm(bench_job *job)
{
    bench_dw_create(job);
    bench_prune_x(job);
    job->flops *= job->kept;
}

static clprune_status bspmm_tn(bench_job *job)
{
    return clprune_bspmm_tn(job->context, 1.0f, 0.0f, job->dy.mat, &job->xs, job->dw.mat, NULL);
}

static clprune_status bspmm_nt(bench_job *job)
{
    return clprune_bspmm_nt(job->context, 1.0f, 0.0f, job->dy.mat, &job->xs, job->dw.mat, NULL);
}

/* dw = sum_n dy_n * x_n^T: one product a sample, each added to the one before. */
static clprune_status dense_nt(bench_job *job)
{
    const bench_shape *shape = &job->shape;
    clprune_status status = CLPRUNE_SUCCESS;
    for (size_t n = 0; n < shape->batch && status == CLPRUNE_SUCCESS; n++)
        status = clprune_gemm(job->context, false, true, 1.0f, n == 0 ? 0.0f : 1.0f,
            clprune_mat_rows(job->dy.mat, n * shape->out, shape->out),
            clprune_mat_rows(job->x.mat, n * shape->tokens, shape->tokens), job->dw.mat, NULL);
    return status;
}

static void prepare_bspmm_nn(bench_job *job)
{
    prepare_gemm(job);
    bench_prune_x(job);
    job->flops *= job->kept;
}

static clprune_status bspmm_nn(bench_job *job)
{
    return clprune_bspmm_nn(job->context, 1.0f, 0.0f, &job->xs, job->w.mat, job->y.mat, NULL);
}

enum { PRUNED_AXES = PRODUCT_AXES | BLOCK_AXES };

#define STORED(name)                                                                               \
    {name, "nt", PRODUCT_AXES, prepare_stored, gemm_stored, gemm, bench_peer_product, false},      \
    {                                                                                              \
        name, "nn", PRODUCT_AXES, prepare_stored, gemm_stored, gemm, bench_peer_product, false     \
    }

const bench_op bench_products[] = {
    {"gemm", "nt", PRODUCT_AXES, prepare_gemm, gemm, NULL, bench_peer_product, false},
    {"gemm", "nn", PRODUCT_AXES, prepare_gemm, gemm, NULL, bench_peer_product, false},
    {"gemm", "tn", PRODUCT_AXES, prepare_gemm, gemm, NULL, bench_peer_product, false},
    {"gemm-batched", "nn", PRODUCT_AXES, prepare_batched, gemm_batched, NULL, peer_batched, false},
    {"gemm-batched", "tn", PRODUCT_AXES, prepare_batched, gemm_batched, NULL, peer_batched, false},
    {"bspmm", "tn", PRUNED_AXES, prepare_bspmm, bspmm_tn, gemm, bench_peer_product, false},
    {"bspmm", "nt", PRUNED_AXES, prepare_bspmm, bspmm_nt, dense_nt, bench_peer_nt, false},
    {"bspmm", "nn", PRUNED_AXES, prepare_bspmm_nn, bspmm_nn, gemm, bench_peer_product, false},
    STORED("stored-bf16"),
    STORED("stored-8"),
    STORED("stored-4"),
    STORED("stored-nf4"),
    {0},
};
