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
    const clprune_keep dense = {.form = CLPRUNE_FORM_DENSE};
    bench_dw_create(job);
    create_store(job, &keep, &job->saved);
    create_store(job, &dense, &job->dense_saved);
}

/* The name of the operation ends with the number of bits. */
static void prepare_quantised(bench_job *job)
{
    const unsigned bits = (unsigned)(strchr(job->op->name, '-')[1] - '0');
    prepare(job, (clprune_keep){.form = CLPRUNE_FORM_QUANTISED, .bits = bits});
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

#define PRODUCTS(name, prepare)                                                                    \
    {name, "tn", PRODUCT_AXES, prepare, kept_product, dense_product, bench_peer_product, false},   \
    {                                                                                              \
        name, "nt", PRODUCT_AXES, prepare, kept_product, dense_product, bench_peer_nt, false       \
    }

const bench_op bench_forms[] = {
    PRODUCTS("quantised-2", prepare_quantised),
    PRODUCTS("quantised-4", prepare_quantised),
    PRODUCTS("quantised-8", prepare_quantised),
    PRODUCTS("pooled", prepare_pooled),
    {0},
};
