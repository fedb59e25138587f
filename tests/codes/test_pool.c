/* Token pooling: means against the reference, the products against the dense ones of the upsampled
 * tensor. */
#include "ops/codes/pool_private.h"
#include "ref/pool_ref.h"
#include "support/test_product.h"

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

enum { ROWS = COUNT_OF(rows) };

/* x, pooled on the device; cells of the reference. */
typedef struct pooled {
    row shape;
    const char *name;
    size_t rows, cells; /* of a sample */
    size_t *cell_of;
    float *x, *p;
    test_mat dx, dp;
} pooled;

static pooled make(const row *r)
{
    pooled m = {.shape = *r, .rows = r->grid.height * r->grid.width};
    m.name = test_text("grid %zu x %zu, cells %zu", r->grid.height, r->grid.width, r->grid.cell);
    m.cell_of = pool_ref_cells(r->grid.height, r->grid.width, r->grid.cell, &m.cells);
    assert_int_equal(clprune__pool_cells(&r->grid), m.cells);
    m.x = test_new_normal(11, r->batch * m.rows * r->cols);
    m.dx = test_mat_make(r->batch * m.rows, r->cols, 3, m.x);
    m.dp = test_mat_make(r->batch * m.cells, r->cols, 1, NULL);
    TEST_EVENT(clprune__pool(test_context(), &r->grid, r->batch, m.dx.mat, m.dp.mat, &event));
    m.p = test_mat_get(&m.dp, "p");
    return m;
}

/* What stands for x: each row's cell. */
static float *upsampled(const pooled *m)
{
    const size_t cols = m->shape.cols, count = m->shape.batch * m->rows * cols;
    float *up = test_floats(count);
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
    double *bound;
    double *want = pool_ref_means(r->batch, m.rows, r->cols, m.cells, m.cell_of, m.x, &bound);
    test_close("p", r->batch * m.cells, r->cols, m.p, want, bound, "%s", m.name);
    test_mat_unchanged(&m.dx, "x");
    test_mat y = test_mat_make(r->batch * m.rows, r->cols, 2, NULL);
    TEST_OK(clprune__pool_spread(test_context(), &r->grid, r->batch, m.dp.mat, y.mat, NULL));
    test_same_floats(
        "spread", r->batch * m.rows, r->cols, test_mat_get(&y, "y"), upsampled(&m), "%s", m.name);
}

/* Both products are those of the upsampled tensor. */
static void products(void **state)
{
    static const float betas[] = {0.0f, 1.0f, 0.5f};
    const row *r = *state;
    pooled m = make(r);
    float *up = upsampled(&m);
    for (int kind = TN; kind <= NT; kind++) {
        const bspmm_ref_sizes sizes = {r->batch, m.rows, r->cols, r->outputs};
        operands o = operands_make((product)kind, sizes, 21, 1, 2);
        for (size_t i = 0; i < COUNT_OF(betas); i++) {
            operands_reset(&o, betas[i]);
            TEST_EVENT((kind == TN ? clprune__pool_tn : clprune__pool_nt)(test_context(), &r->grid,
                r->batch, betas[i], o.din.mat, m.dp.mat, o.out.mat, &event));
            (void)operands_check(&o, 1, betas[i], up, m.name);
        }
    }
    test_same_floats("p", 1, r->batch * m.cells * r->cols, test_mat_get(&m.dp, "p"), m.p, "after");
}

static void refused(NO_ROW)
{
    clprune_context *context = test_context();
    const clprune_status bad = CLPRUNE_INVALID_ARGUMENT, size = CLPRUNE_INVALID_SIZE;
    const clprune__pool_grid grid = {4, 4, 2}, none = {4, 4, 0}, huge = {SIZE_MAX, 2, 1};
    test_mat x = test_mat_make(32, 6, 0, NULL), p = test_mat_make(8, 6, 0, NULL);
    test_mat dw = test_mat_make(6, 6, 0, NULL);
    const clprune_mat few = clprune_mat_rows(p.mat, 0, 7), upon_x = clprune_mat_rows(x.mat, 0, 8);
    const clprune_mat dw_upon_x = clprune_mat_rows(x.mat, 9, 6);
    TEST_FAILS(clprune__pool(context, &none, 2, x.mat, p.mat, NULL), bad, "cell is 0");
    TEST_FAILS(
        clprune__pool(context, &huge, 2, x.mat, p.mat, NULL), CLPRUNE_SIZE_OVERFLOW, "samples");
    TEST_FAILS(clprune__pool(context, &grid, 3, x.mat, p.mat, NULL), size, "x");
    TEST_FAILS(clprune__pool(context, &grid, 2, x.mat, few, NULL), size, "p");
    TEST_FAILS(clprune__pool(context, &grid, 2, x.mat, upon_x, NULL), bad, "p");
    TEST_FAILS(clprune__pool_tn(context, &grid, 2, 0, x.mat, p.mat, dw_upon_x, NULL), bad, "dw");
    TEST_FAILS(clprune__pool_nt(context, &grid, 2, 0, x.mat, p.mat, dw.mat, NULL), size, "dw");
    TEST_UNCHANGED(&p, &dw);
}

/* A store pools on the grid it is given, and multiplies from any sample on. */
static void in_a_store(NO_ROW)
{
    clprune_context *context = test_context();
    const row r = {{7, 5, 2}, 4, 37, 20};
    clprune_keep keep = {.form = CLPRUNE_FORM_POOLED, .cell = 2, .grid_height = 7, .grid_width = 5};
    pooled m = make(&r);
    clprune_saved *saved = test_new_saved(context, keep, 4, 35, 37), *refused_one = NULL;
    assert_int_equal(clprune_saved_describe(saved).sizes.values_bytes, 4 * 12 * 37 * sizeof(float));
    TEST_OK(clprune_saved_store(saved, 0, 4, m.dx.mat, NULL));
    test_mat y = test_mat_make(4 * 35, 37, 0, NULL), dy = test_mat_make(2 * 35, 20, 0, m.x);
    test_mat dw = test_mat_make(20, 37, 0, NULL), want = test_mat_make(20, 37, 0, NULL);
    TEST_OK(clprune_saved_restore(saved, 0, 4, y.mat, NULL));
    test_same_floats("restored", 4 * 35, 37, test_mat_get(&y, "y"), upsampled(&m), "a store");
    TEST_OK(clprune_saved_product_tn(saved, 1, 2, 0, dy.mat, dw.mat, NULL));
    TEST_OK(clprune__pool_tn(
        context, &r.grid, 2, 0, dy.mat, clprune_mat_rows(m.dp.mat, 12, 24), want.mat, NULL));
    test_same_floats("dw", 20, 37, test_mat_get(&dw, "dw"), test_mat_get(&want, "dw"), "a store");
    TEST_FAILS(clprune_saved_reshape(saved, 1, 36, 37), CLPRUNE_INVALID_SIZE, "grid of 7 x 5");
    keep.grid_width = 0;
    TEST_FAILS(clprune_saved_create(context, "r", &keep, 1, 35, 1, &refused_one),
        CLPRUNE_INVALID_ARGUMENT, "grid of 7 x 0");
    keep.grid_height = keep.cell = 0;
    TEST_FAILS(clprune_saved_create(context, "r", &keep, 1, 35, 1, &refused_one),
        CLPRUNE_INVALID_ARGUMENT, "cell is 0");
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
