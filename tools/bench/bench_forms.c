/* bench_forms.c: dw from activations kept in other forms than blocks, beside the same product from
 * a dense store. Shapes as in bench_products.c. */
#include "bench.h"

#include <math.h>
#include <string.h>

static void create_store(bench_job *job, const clprune_keep *keep, clprune_saved **saved)
{
    const bench_shape *shape = &job->shape;
    CHECK(job->context, clprune_saved_create(job->context, "saved", keep, shape->batch,
                            shape->tokens, shape->in, saved));
    CHECK(job->context, clprune_saved_store(*saved, 0, shape->batch, job->x.mat, NULL));
}

/* x in both stores, and the operands of the product. */
static void prepare(bench_job *job, clprune_keep keep)
{
    const bench_shape *shape = &job->shape;
    const clprune_keep dense = {.form = CLPRUNE_FORM_DENSE};
    const bool nt = strcmp(job->op->form, "nt") == 0;
    bench_tensor_create(job, "x", job->rows, shape->in, &job->x);
    bench_tensor_create(job, "dy", nt ? shape->batch * shape->out : job->rows,
        nt ? shape->in : shape->out, &job->dy);
    bench_tensor_create(job, "dw", shape->out, nt ? shape->tokens : shape->in, &job->dw);
    create_store(job, &keep, &job->saved);
    create_store(job, &dense, &job->dense_saved);
    job->flops = 2.0 * (double)job->rows * (double)shape->in * (double)shape->out;
}

static void prepare_quantised(bench_job *job, unsigned bits)
{
    prepare(job, (clprune_keep){.form = CLPRUNE_FORM_QUANTISED, .bits = bits});
}

static void prepare_quantised_2(bench_job *job)
{
    prepare_quantised(job, 2);
}

static void prepare_quantised_4(bench_job *job)
{
    prepare_quantised(job, 4);
}

static void prepare_quantised_8(bench_job *job)
{
    prepare_quantised(job, 8);
}

/* Cells of 2 x 2 on a square grid, or runs of 2 where the tokens are no square. */
static void prepare_pooled(bench_job *job)
{
    const size_t tokens = job->shape.tokens;
    const unsigned side = (unsigned)lround(sqrt((double)tokens));
    const bool square = (size_t)side * side == tokens;
    const size_t cells = square ? (size_t)((side + 1) / 2) * ((side + 1) / 2) : (tokens + 1) / 2;
    prepare(job, (clprune_keep){.form = CLPRUNE_FORM_POOLED,
                     .cell = 2,
                     .grid_height = square ? side : 0,
                     .grid_width = square ? side : 0});
    job->flops *= (double)cells / (double)tokens;
}

static clprune_status product(bench_job *job, const clprune_saved *saved)
{
    const bool nt = strcmp(job->op->form, "nt") == 0;
    return (nt ? clprune_saved_product_nt : clprune_saved_product_tn)(
        saved, 0, job->shape.batch, 0.0f, job->dy.mat, job->dw.mat, NULL);
}

static clprune_status kept_product(bench_job *job)
{
    return product(job, job->saved);
}

static clprune_status dense_product(bench_job *job)
{
    return product(job, job->dense_saved);
}

static void peer_tn(bench_job *job)
{
    bench_peer_gemm(true, false, job->shape.out, job->shape.in, job->rows, 0.0f, job->dy.host,
        job->x.host, job->dw.host);
}

enum { PRODUCT_AXES = 1u << AXIS_BATCH | 1u << AXIS_TOKENS | 1u << AXIS_IN | 1u << AXIS_OUT };

#define PRODUCTS(name, prepare)                                                                    \
    {name, "tn", PRODUCT_AXES, prepare, kept_product, dense_product, peer_tn, false},              \
    {                                                                                              \
        name, "nt", PRODUCT_AXES, prepare, kept_product, dense_product, bench_peer_nt, false       \
    }

const bench_op bench_forms[] = {
    PRODUCTS("quantised-2", prepare_quantised_2),
    PRODUCTS("quantised-4", prepare_quantised_4),
    PRODUCTS("quantised-8", prepare_quantised_8),
    PRODUCTS("pooled", prepare_pooled),
    {0},
};
