/* tune_check.c: products of ragged and boundary shapes against naive sums in double. */
#include "tune.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "trainer/base/stop.h"

#define ALPHA 0.5f
#define BETA  (-1.0f)

/* One sum of `terms` products and the sum of their magnitudes. */
typedef struct exact {
    double sum, magnitude;
    size_t terms;
} exact;

static void add_product(exact *e, float a, float b)
{
    e->sum += (double)a * (double)b;
    e->magnitude += fabs((double)a * (double)b);
    e->terms++;
}

/* x rounded to an operand of tensor cores: see clprune_precision. */
static float rounded(clprune_precision precision, float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    if (precision == CLPRUNE_PRECISION_TF32)
        bits = (bits + 0x1000u) & ~0x1fffu;
    else if (precision == CLPRUNE_PRECISION_BF16)
        bits = (bits + 0x7fffu + (bits >> 16 & 1u)) & ~0xffffu;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static void round_all(float *x, size_t count, clprune_precision precision)
{
    for (size_t i = 0; i < count; i++)
        x[i] = rounded(precision, x[i]);
}

/* Whether `got` is alpha * sum + beta * old within `slack` times the error bound of fp32 sums;
 * false for NaN. */
static bool is_close(const exact *e, float old, bool read, double slack, float got)
{
    const double before = read ? (double)BETA * (double)old : 0.0;
    const double want = (double)ALPHA * e->sum + before;
    const double magnitude = (double)ALPHA * e->magnitude + fabs(before);
    const double bound =
        2.0 * sqrt((double)e->terms + 1.0) * 0x1p-24 * magnitude + 0x1p-24 * fabs(want);
    return fabs((double)got - want) <= slack * bound;
}

/* An output: random if it is read, else NaN, which beta = 0 must not read. */
static void make_output(tune *t, size_t rows, size_t cols, bool read, float **old, clprune_mat *c)
{
    tune_mat_make(t, rows, cols, old, c);
    for (size_t i = 0; !read && i < rows * cols; i++)
        (*old)[i] = NAN;
    CHECK(t->base, clprune_mat_write(t->base, *c, *old));
}

static float *read_output(tune *t, clprune_mat c)
{
    float *got = malloc(c.rows * c.cols * sizeof *got);
    if (got == NULL)
        tool_fail(NULL, CLPRUNE_OUT_OF_HOST_MEMORY);
    CHECK(t->base, clprune_mat_read(t->base, c, got));
    return got;
}

static bool check_gemm(
    tune *t, clprune_context *context, const size_t shape[3], unsigned transposes, char why[256])
{
    const size_t m = shape[0], n = shape[1], k = shape[2];
    const bool ta = transposes & 1, tb = transposes & 2, read = (m + n + k) % 2 == 0;
    float *a, *b, *old;
    clprune_mat da, db, dc;
    tune_mat_make(t, ta ? k : m, ta ? m : k, &a, &da);
    tune_mat_make(t, tb ? n : k, tb ? k : n, &b, &db);
    make_output(t, m, n, read, &old, &dc);
    clprune_status status =
        clprune_gemm(context, ta, tb, ALPHA, read ? BETA : 0.0f, da, db, dc, NULL);
    if (status == CLPRUNE_SUCCESS)
        status = clprune_context_finish(context);
    float *got = read_output(t, dc);
    bool good = status == CLPRUNE_SUCCESS;
    if (tune_sections(t, t->op) == t->op->bf16) {
        round_all(a, m * k, t->precision);
        round_all(b, k * n, t->precision);
    }
    for (size_t r = 0; good && r < m; r++)
        for (size_t j = 0; good && j < n; j++) {
            exact e = {0.0, 0.0, 0};
            for (size_t i = 0; i < k; i++)
                add_product(&e, ta ? a[i * m + r] : a[r * k + i], tb ? b[j * k + i] : b[i * n + j]);
            good = is_close(&e, old[r * n + j], read, 1.0, got[r * n + j]);
        }
    if (!good)
        (void)snprintf(why, 256, "%zu x %zu x %zu, transposes %d %d: %s", m, n, k, ta, tb,
            status == CLPRUNE_SUCCESS ? "wrong result" : clprune_status_name(status));
    clprune_buffer_release(t->base, da.buffer);
    clprune_buffer_release(t->base, db.buffer);
    clprune_buffer_release(t->base, dc.buffer);
    free(a);
    free(b);
    free(old);
    free(got);
    return good;
}

typedef struct sparse_shape {
    clprune_bsr_desc desc;
    float sparsity;
    size_t outputs;
} sparse_shape;

static bool check_sparse(
    tune *t, clprune_context *context, const sparse_shape *shape, char why[256])
{
    const clprune_bsr_desc *d = &shape->desc;
    const bool tn = t->op->kind == KIND_TN;
    const size_t outputs = shape->outputs, cols = tn ? d->cols : d->rows;
    const size_t dy_rows = d->batch * (tn ? d->rows : outputs), dy_cols = tn ? outputs : d->cols;
    const bool read = outputs % 4 == 1;
    float *dy, *x, *old;
    tune_case c = {.kind = t->op->kind};
    tune_mat_make(t, dy_rows, dy_cols, &dy, &c.a);
    tune_xs_make(t, d, shape->sparsity, &x, &c.xs);
    make_output(t, outputs, cols, read, &old, &c.c);
    const float beta = read ? BETA : 0.0f;
    clprune_status status = tn ? clprune_bspmm_tn(context, ALPHA, beta, c.a, &c.xs, c.c, NULL)
                               : clprune_bspmm_nt(context, ALPHA, beta, c.a, &c.xs, c.c, NULL);
    if (status == CLPRUNE_SUCCESS)
        status = clprune_context_finish(context);
    float *got = read_output(t, c.c);
    bool good = status == CLPRUNE_SUCCESS;
    /* Rounded as tensor cores do. They may also truncate sums where fp32 rounds: hence the
     * slack. */
    round_all(dy, dy_rows * dy_cols, t->precision);
    for (size_t i = 0; i < d->batch * d->rows * d->cols; i++)
        x[i] = rounded(t->precision, x[i]);
    const double slack = t->precision == CLPRUNE_PRECISION_FP32 ? 1.0 : 4.0;
    for (size_t o = 0; good && o < outputs; o++)
        for (size_t j = 0; good && j < cols; j++) {
            exact e = {0.0, 0.0, 0};
            for (size_t i = 0; tn && i < dy_rows; i++)
                add_product(&e, dy[i * outputs + o], x[i * cols + j]);
            for (size_t n = 0; !tn && n < d->batch; n++)
                for (size_t i = 0; i < d->cols; i++)
                    add_product(&e, dy[(n * outputs + o) * d->cols + i],
                        x[(n * d->rows + j) * d->cols + i]);
            good = is_close(&e, old[o * cols + j], read, slack, got[o * cols + j]);
        }
    if (!good)
        (void)snprintf(why, 256, "%zu x %zu x %zu, blocks %zu x %zu, %zu outputs: %s", d->batch,
            d->rows, d->cols, d->block.rows, d->block.cols, outputs,
            status == CLPRUNE_SUCCESS ? "wrong result" : clprune_status_name(status));
    clprune_buffer_release(t->base, c.a.buffer);
    clprune_buffer_release(t->base, c.c.buffer);
    clprune_bsr_destroy(t->base, &c.xs);
    free(dy);
    free(x);
    free(old);
    free(got);
    return good;
}

/* A value of the row, cut to `most` so that the naive sums stay short. */
static size_t value_of(
    const tune *t, const tune_row *row, const char *section, const char *key, size_t most)
{
    for (size_t i = 0; i < t->count; i++)
        if (strcmp(t->parameters[i].section, section) == 0 &&
            strcmp(t->parameters[i].key, key) == 0)
            return row->values[i] < most ? row->values[i] : most;
    return most;
}

static bool check_gemms(
    tune *t, clprune_context *context, const tune_row *row, bool full, char why[256])
{
    size_t width = 64, height = 64, depth = value_of(t, row, "clblast", "inner_run", 600);
    size_t high = 129;
    if (!t->op->blast) {
        const char *section = tune_sections(t, t->op)[0];
        const size_t vectors = value_of(t, row, section, "tile_vectors", 8);
        width = 16 * vectors;
        height = value_of(t, row, section, "accumulators", 64) / vectors;
        depth = value_of(t, row, section, "panel_depth", 600);
        high = value_of(t, row, section, "block_rows", 300);
    }
    const size_t shapes[][3] = {{height + 1, width + 1, depth + 1}, {97, 2 * width - 3, 113},
        {high + 1, width, 7}, {height, 3 * width, depth}, {1, 1, 1},
        {height > 1 ? height - 1 : 1, width - 1, depth > 1 ? depth - 1 : 1}, {101, 17, 3},
        {7, 31, 211}, {1, width, 1}, {height, 1, depth}};
    for (unsigned i = 0; stop_signal() == 0 && i < (full ? 10 : 6); i++)
        for (unsigned transposes = 0; transposes < 4; transposes++)
            if ((full || i == 0 || transposes == i % 4) &&
                !check_gemm(t, context, shapes[i], transposes, why))
                return false;
    return true;
}

static bool check_sparses(
    tune *t, clprune_context *context, const tune_row *row, bool full, char why[256])
{
    const size_t segment = value_of(t, row, tune_sections(t, t->op)[0], "segment_rows", 300);
    const sparse_shape shapes[] = {
        {{2, 37, 101, {1, 16}, 0}, 0.5f, 83},
        {{1, segment + 1, 67, {1, 16}, 0}, 0.5f, 65},
        {{2, 15, 63, {3, 7}, 0}, 0.5f, 17},
        {{1, 1, 1, {1, 16}, 0}, 0.0f, 1},
        {{3, segment, 16, {1, 16}, 0}, 0.9f, 64},
        {{2, segment > 1 ? segment - 1 : 1, 33, {1, 4}, 0}, 0.7f, 63},
        {{5, 7, 129, {1, 64}, 0}, 0.7f, 97},
        {{2, 31, 23, {1, 1}, 0}, 0.5f, 127},
        {{2, 33, 47, {1, 5}, 0}, 0.3f, 129},
        {{1, 17, 17, {16, 16}, 0}, 0.0f, 15},
    };
    for (unsigned i = 0; stop_signal() == 0 && i < (full ? 10 : 5); i++)
        if (!check_sparse(t, context, &shapes[i], why))
            return false;
    return true;
}

bool tune_check(tune *t, clprune_context *context, const tune_row *row, bool full, char why[256])
{
    return t->op->kind == KIND_GEMM ? check_gemms(t, context, row, full, why)
                                    : check_sparses(t, context, row, full, why);
}
