/* Token pooling: means against the reference, the products against the dense ones of the upsampled
 * tensor. */
#include <math.h>
#include <stdlib.h>

#include "ops/codes/pool_private.h"
#include "ref/gemm_ref.h"
#include "ref/pool_ref.h"
#include "support/test_buffer.h"
#include "support/test_compare.h"
#include "support/test_rng.h"

typedef struct row {
    clprune__pool_grid grid;
    size_t batch, cols, outputs;
} row;

/* Whole cells, partial cells at both edges and in the corner, runs in one dimension, cells of one
 * place and of more than there are, nothing. The last but two has sums in several runs. */
static const row rows[] = {
    {{14, 14, 2}, 3, 40, 33},
    {{7, 5, 2}, 4, 37, 20},
    {{7, 8, 3}, 2, 16, 66},
    {{1, 10, 4}, 3, 21, 17},
    {{11, 1, 2}, 2, 7, 130},
    {{3, 3, 1}, 2, 100, 18},
    {{4, 5, 9}, 5, 19, 7},
    {{1, 1, 2}, 3, 65, 64},
    {{32, 32, 2}, 9, 3, 1024},
    {{1, 700, 1}, 6, 5, 600},
    {{0, 5, 2}, 3, 6, 5},
    {{4, 4, 2}, 0, 6, 5},
    {{4, 4, 2}, 2, 0, 5},
};

enum { ROWS = sizeof rows / sizeof rows[0] };

/* x, pooled on the device; cells of the reference. */
typedef struct pooled {
    row shape;
    size_t rows, cells; /* of a sample */
    size_t *cell_of;
    float *x, *p;
    test_mat dx, dp;
} pooled;

static pooled make(const row *r)
{
    pooled m = {.shape = *r, .rows = r->grid.height * r->grid.width};
    m.cell_of = pool_ref_cells(r->grid.height, r->grid.width, r->grid.cell, &m.cells);
    assert_int_equal(clprune__pool_cells(&r->grid), m.cells);
    m.x = test_new_normal(11, r->batch * m.rows * r->cols);
    m.dx = test_mat_make(r->batch * m.rows, r->cols, 3, m.x);
    m.dp = test_mat_make(r->batch * m.cells, r->cols, 1, NULL);
    cl_event event = NULL;
    TEST_OK(clprune__pool(test_context(), &r->grid, r->batch, m.dx.mat, m.dp.mat, &event));
    assert_non_null(event);
    assert_int_equal(clReleaseEvent(event), CL_SUCCESS);
    m.p = test_mat_get(&m.dp, "p");
    return m;
}

/* What stands for x: each row's cell. */
static float *upsampled(const pooled *m)
{
    const size_t cols = m->shape.cols, count = m->shape.batch * m->rows * cols;
    float *up = test_alloc((count + 1) * sizeof *up);
    for (size_t i = 0; i < count; i++) {
        const size_t r = i / cols;
        up[i] = m->p[(r / m->rows * m->cells + m->cell_of[r % m->rows]) * cols + i % cols];
    }
    return up;
}

static void means(void **state)
{
    const row *r = *state;
    pooled m = make(r);
    double *bound,
        *want = pool_ref_means(r->batch, m.rows, r->cols, m.cells, m.cell_of, m.x, &bound);
    test_close("p", r->batch * m.cells, r->cols, m.p, want, bound, "grid %zu x %zu, cells %zu",
        r->grid.height, r->grid.width, r->grid.cell);
    test_mat_unchanged(&m.dx, "x");
    test_mat y = test_mat_make(r->batch * m.rows, r->cols, 2, NULL);
    TEST_OK(clprune__pool_spread(test_context(), &r->grid, r->batch, m.dp.mat, y.mat, NULL));
    float *got = test_mat_get(&y, "y"), *up = upsampled(&m);
    test_same_floats("spread", r->batch * m.rows, r->cols, got, up, "grid %zu x %zu, cells %zu",
        r->grid.height, r->grid.width, r->grid.cell);
}

static void product(const pooled *m, bool nt, float beta)
{
    const row *r = &m->shape;
    clprune_context *context = test_context();
    const size_t in_rows = r->batch * (nt ? r->outputs : m->rows);
    const size_t in_cols = nt ? r->cols : r->outputs, dw_cols = nt ? m->rows : r->cols;
    float *up = upsampled(m);
    float *dy = test_new_normal(21, in_rows * in_cols);
    float *old = test_new_normal(22, r->outputs * dw_cols);
    test_mat ddy = test_mat_make(in_rows, in_cols, 1, dy);
    test_mat dw = test_mat_make(r->outputs, dw_cols, 2, beta == 0.0f ? NULL : old);
    gemm_ref ref = gemm_ref_begin(r->outputs, dw_cols);
    cl_event event = NULL;
    if (nt) {
        for (size_t n = 0; n < r->batch; n++)
            gemm_ref_add(&ref, false, true, r->cols, dy + n * r->outputs * r->cols,
                up + n * m->rows * r->cols);
        TEST_OK(clprune__pool_nt(
            context, &r->grid, r->batch, beta, ddy.mat, m->dp.mat, dw.mat, &event));
    } else {
        gemm_ref_add(&ref, true, false, r->batch * m->rows, dy, up);
        TEST_OK(clprune__pool_tn(
            context, &r->grid, r->batch, beta, ddy.mat, m->dp.mat, dw.mat, &event));
    }
    assert_non_null(event);
    assert_int_equal(clReleaseEvent(event), CL_SUCCESS);
    gemm_ref_end(&ref, 1, beta, old);
    float *got = test_mat_get(&dw, "dw");
    test_close("dw", r->outputs, dw_cols, got, ref.want, ref.bound,
        "%s, grid %zu x %zu, cells %zu, beta %g", nt ? "nt" : "tn", r->grid.height, r->grid.width,
        r->grid.cell, (double)beta);
    test_mat_unchanged(&ddy, "dy");
}

static void products(void **state)
{
    static const float betas[] = {0.0f, 1.0f, 0.5f};
    pooled m = make(*state);
    for (size_t i = 0; i < 3; i++) {
        product(&m, false, betas[i]);
        product(&m, true, betas[i]);
    }
    float *after = test_mat_get(&m.dp, "p");
    test_same_floats("p", 1, m.shape.batch * m.cells * m.shape.cols, after, m.p, "after");
}

static void refused(void **state)
{
    (void)state;
    clprune_context *context = test_context();
    const clprune__pool_grid grid = {4, 4, 2}, none = {4, 4, 0}, huge = {SIZE_MAX, 2, 1};
    test_mat x = test_mat_make(32, 6, 0, NULL), p = test_mat_make(8, 6, 0, NULL);
    test_mat dw = test_mat_make(6, 6, 0, NULL);
    TEST_FAILS(clprune__pool(context, &none, 2, x.mat, p.mat, NULL), CLPRUNE_INVALID_ARGUMENT,
        "cell is 0");
    TEST_FAILS(
        clprune__pool(context, &huge, 2, x.mat, p.mat, NULL), CLPRUNE_SIZE_OVERFLOW, "samples");
    TEST_FAILS(clprune__pool(context, &grid, 3, x.mat, p.mat, NULL), CLPRUNE_INVALID_SIZE, "x");
    TEST_FAILS(clprune__pool(context, &grid, 2, x.mat, clprune_mat_rows(p.mat, 0, 7), NULL),
        CLPRUNE_INVALID_SIZE, "p");
    TEST_FAILS(clprune__pool(context, &grid, 2, x.mat, clprune_mat_rows(x.mat, 0, 8), NULL),
        CLPRUNE_INVALID_ARGUMENT, "p");
    TEST_FAILS(
        clprune__pool_tn(context, &grid, 2, 0, x.mat, p.mat, clprune_mat_rows(x.mat, 9, 6), NULL),
        CLPRUNE_INVALID_ARGUMENT, "dw");
    TEST_FAILS(clprune__pool_nt(context, &grid, 2, 0, x.mat, p.mat, dw.mat, NULL),
        CLPRUNE_INVALID_SIZE, "dw");
    test_mat_unchanged(&p, "p");
    test_mat_unchanged(&dw, "dw");
}

/* A store pools on the grid it is given, and multiplies from any sample on. */
static void in_a_store(void **state)
{
    (void)state;
    clprune_context *context = test_context();
    const row r = {{7, 5, 2}, 4, 37, 20};
    clprune_keep keep = {.form = CLPRUNE_FORM_POOLED, .cell = 2, .grid_height = 7, .grid_width = 5};
    clprune_saved *saved = NULL;
    pooled m = make(&r);
    TEST_OK(clprune_saved_create(context, "s", &keep, 4, 35, 37, &saved));
    assert_int_equal(clprune_saved_describe(saved).sizes.values_bytes, 4 * 12 * 37 * sizeof(float));
    TEST_OK(clprune_saved_store(saved, 0, 4, m.dx.mat, NULL));
    test_mat y = test_mat_make(4 * 35, 37, 0, NULL), dy = test_mat_make(2 * 35, 20, 0, m.x);
    test_mat dw = test_mat_make(20, 37, 0, NULL), want_dw = test_mat_make(20, 37, 0, NULL);
    TEST_OK(clprune_saved_restore(saved, 0, 4, y.mat, NULL));
    float *got = test_mat_get(&y, "y"), *up = upsampled(&m);
    test_same_floats("restored", 4 * 35, 37, got, up, "a store");
    TEST_OK(clprune_saved_product_tn(saved, 1, 2, 0, dy.mat, dw.mat, NULL));
    TEST_OK(clprune__pool_tn(
        context, &r.grid, 2, 0, dy.mat, clprune_mat_rows(m.dp.mat, 12, 24), want_dw.mat, NULL));
    float *product = test_mat_get(&dw, "dw"), *want = test_mat_get(&want_dw, "dw");
    test_same_floats("dw", 20, 37, product, want, "a store");
    TEST_FAILS(clprune_saved_reshape(saved, 1, 36, 37), CLPRUNE_INVALID_SIZE, "grid of 7 x 5");
    clprune_saved *refused_one = NULL;
    keep.grid_width = 0;
    TEST_FAILS(clprune_saved_create(context, "r", &keep, 1, 35, 1, &refused_one),
        CLPRUNE_INVALID_ARGUMENT, "grid of 7 x 0");
    keep.grid_height = keep.cell = 0;
    TEST_FAILS(clprune_saved_create(context, "r", &keep, 1, 35, 1, &refused_one),
        CLPRUNE_INVALID_ARGUMENT, "cell is 0");
    clprune_saved_destroy(saved);
}

int main(void)
{
    test_list list = {0};
    for (size_t i = 0; i < ROWS; i++) {
        const row *r = &rows[i];
        test_add(&list, means, r, "means: %zu x %zu in cells of %zu", r->grid.height, r->grid.width,
            r->grid.cell);
        if (!test_small() || r->outputs < 200)
            test_add(&list, products, r, "products: %zu x %zu in cells of %zu, o %zu",
                r->grid.height, r->grid.width, r->grid.cell, r->outputs);
    }
    test_add(&list, in_a_store, NULL, "in a store");
    test_add(&list, refused, NULL, "what is refused");
    return test_run_on_devices("pool", &list);
}
