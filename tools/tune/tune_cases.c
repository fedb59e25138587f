/* tune_cases.c: what the operations search, and the products that are timed: those of a ResMLP-S12
 * of 196 tokens, 384 features. */
#include "tune.h"

#include <stdlib.h>
#include <string.h>

enum { TOKENS = 196, WIDTH = 384, HIDDEN = 1536 };

const char *const *tune_sections(const tune *t, const tune_op *op)
{
    const bool tiled = clprune_context_kernels(t->base) == CLPRUNE_KERNELS_TILED;
    if (t->precision == CLPRUNE_PRECISION_BF16 && !tiled && op->bf16[0] != NULL)
        return op->bf16;
    if (t->precision != CLPRUNE_PRECISION_FP32 && op->mma[0] != NULL)
        return op->mma;
    return tiled ? op->tiled : op->vector;
}

bool tune_searches(const tune *t, const tune_op *op, size_t parameter)
{
    for (const char *const *s = tune_sections(t, op); *s != NULL; s++)
        if (strcmp(*s, t->parameters[parameter].section) == 0)
            return true;
    return false;
}

/* A random matrix. *host, unless NULL, receives a copy that the caller frees. */
void tune_mat_make(tune *t, size_t rows, size_t cols, float **host, clprune_mat *mat)
{
    CHECK(t->base, clprune_mat_create(t->base, CLPRUNE_MEMORY_WORKSPACE, "tune", rows, cols, mat));
    float *values = malloc(rows * cols * sizeof *values);
    if (values == NULL)
        tool_quit(EXIT_RUN, "no host memory for %zu floats", rows * cols);
    random_activations(values, rows * cols);
    CHECK(t->base, clprune_mat_write(t->base, *mat, values));
    if (host != NULL)
        *host = values;
    else
        free(values);
}

/* A pruned random matrix; shape.keep is not read. *dense, unless NULL, receives its dense form. */
void tune_xs_make(
    tune *t, const clprune_bsr_desc *shape, float sparsity, float **dense, clprune_bsr *xs)
{
    clprune_bsr_desc desc = *shape;
    clprune_bsr_sizes sizes;
    clprune_mat x;
    desc.keep = 0;
    CHECK(t->base, clprune_bsr_size_query(&desc, &sizes));
    desc.keep = clprune_keep_count(sizes.blocks, sparsity);
    tune_mat_make(t, desc.batch * desc.rows, desc.cols, dense, &x);
    CHECK(t->base, clprune_bsr_create(t->base, CLPRUNE_MEMORY_WORKSPACE, "tune", &desc, xs));
    CHECK(t->base,
        clprune_prune(t->base, CLPRUNE_NORM_L2, CLPRUNE_CRITERION_LARGEST, 0, x, xs, NULL));
    if (dense != NULL) {
        CHECK(t->base, clprune_bsr_unpack(t->base, xs, x, NULL));
        CHECK(t->base, clprune_mat_read(t->base, x, *dense));
    }
    CHECK(t->base, clprune_context_finish(t->base));
    clprune_buffer_release(t->base, x.buffer);
}

static tune_case *next_case(tune *t)
{
    tune_case *c = &t->cases[t->case_count++];
    *c = (tune_case){.kind = t->op->kind, .batch = 1};
    return c;
}

static void add_gemm(tune *t, bool ta, bool tb, size_t m, size_t n, size_t k)
{
    tune_case *c = next_case(t);
    c->transpose_a = ta;
    c->transpose_b = tb;
    c->m = m;
    c->n = n;
    c->k = k;
    tune_mat_make(t, ta ? k : m, ta ? m : k, NULL, &c->a);
    tune_mat_make(t, tb ? n : k, tb ? k : n, NULL, &c->b);
    tune_mat_make(t, m, n, NULL, &c->c);
}

/* The token layer: w, TOKENS x TOKENS, on each sample. */
static void add_token_gemm(tune *t, size_t batch)
{
    tune_case *c = next_case(t);
    c->batch = batch;
    c->m = c->k = TOKENS;
    c->n = WIDTH;
    tune_mat_make(t, TOKENS, TOKENS, NULL, &c->a);
    tune_mat_make(t, batch * TOKENS, WIDTH, NULL, &c->b);
    tune_mat_make(t, batch * TOKENS, WIDTH, NULL, &c->c);
}

static void add_sparse(tune *t, size_t batch, size_t in, size_t out, size_t block, float sparsity)
{
    tune_case *c = next_case(t);
    const clprune_bsr_desc desc = {batch, TOKENS, in, {1, block}, 0};
    const bool tn = c->kind == KIND_TN;
    tune_mat_make(t, batch * (tn ? TOKENS : out), tn ? out : in, NULL, &c->a);
    tune_mat_make(t, out, tn ? in : TOKENS, NULL, &c->c);
    tune_xs_make(t, &desc, sparsity, NULL, &c->xs);
}

static void add_gemms(tune *t, size_t batch)
{
    const size_t rows = batch * TOKENS;
    add_gemm(t, false, true, rows, HIDDEN, WIDTH);  /* fc1: y = x w^T */
    add_gemm(t, false, false, rows, WIDTH, HIDDEN); /* fc1: dx = dy w */
    add_gemm(t, true, false, HIDDEN, WIDTH, rows);  /* fc1: dw = dy^T x */
    add_token_gemm(t, batch);
    if (t->quick)
        return;
    add_gemm(t, false, true, rows, WIDTH, HIDDEN);
    add_gemm(t, false, false, rows, HIDDEN, WIDTH);
    add_gemm(t, true, false, WIDTH, HIDDEN, rows);
}

static void add_sparses(tune *t, size_t batch)
{
    static const struct {
        size_t block;
        float sparsity;
        bool quick;
    } rows[] = {
        {16, 0.5f, true}, {16, 0.7f, false}, {16, 0.9f, true}, {4, 0.7f, false}, {64, 0.7f, false}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (t->quick && !rows[i].quick)
            continue;
        if (t->op->kind == KIND_NT) {
            add_sparse(t, batch, WIDTH, TOKENS, rows[i].block, rows[i].sparsity);
        } else {
            add_sparse(t, batch, WIDTH, HIDDEN, rows[i].block, rows[i].sparsity);
            add_sparse(t, batch, HIDDEN, WIDTH, rows[i].block, rows[i].sparsity);
        }
    }
}

void tune_cases_make(tune *t)
{
    t->case_count = 0;
    for (size_t batch = 8; batch <= (t->quick ? 8 : 32); batch *= 4)
        if (t->op->kind == KIND_GEMM)
            add_gemms(t, batch);
        else
            add_sparses(t, batch);
    CHECK(t->base, clprune_context_finish(t->base));
}

void tune_cases_free(tune *t)
{
    for (size_t i = 0; i < t->case_count; i++) {
        clprune_buffer_release(t->base, t->cases[i].a.buffer);
        clprune_buffer_release(t->base, t->cases[i].b.buffer);
        clprune_buffer_release(t->base, t->cases[i].c.buffer);
        clprune_bsr_destroy(t->base, &t->cases[i].xs);
    }
    t->case_count = 0;
}

clprune_status tune_case_run(clprune_context *context, const tune_case *c)
{
    switch (c->kind) {
    case KIND_TN:
        return clprune_bspmm_tn(context, 1.0f, 0.0f, c->a, &c->xs, c->c, NULL);
    case KIND_NT:
        return clprune_bspmm_nt(context, 1.0f, 0.0f, c->a, &c->xs, c->c, NULL);
    default:
        break;
    }
    if (c->batch == 1)
        return clprune_gemm(
            context, c->transpose_a, c->transpose_b, 1.0f, 0.0f, c->a, c->b, c->c, NULL);
    return clprune_gemm_batched(context, c->batch, false, false, 1.0f, 0.0f, c->a, 0,
        clprune_mat_rows(c->b, 0, c->k), c->k * c->n, clprune_mat_rows(c->c, 0, c->m), c->m * c->n,
        NULL);
}
