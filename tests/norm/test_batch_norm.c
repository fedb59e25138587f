/* Batch normalisation: forward and backward passes over all shapes, with and without residual, ReLU
 * and mask; chunks, aliasing, special values, derivatives, invalid arguments.
 *
 * Chunks and passes in place give the same bits, and so do codes of x and what they restore to. */
#include "nn/norm/batch_norm_private.h"
#include "nn/store/saved_private.h"
#include "ref/batch_norm_ref.h"
#include "support/test_layer.h"

#define NONE CLPRUNE_NO_MAT

/* Inputs of all passes, and on the device parameters and statistics. */
typedef struct inputs {
    size_t rows, cols, gap, count, words; /* words: columns of a mask */
    float *x, *dy, *residual;
    double *wide_x, *wide_dy, *wide_residual;
    float *gamma, *beta, *mean, *inv; /* mean and inv near those of x */
    double *wide[4];                  /* of these */
    test_mat param[4];
    clprune_batch_norm bn;
    batch_norm_ref ref;
} inputs;

static inputs inputs_new(const layer_shape *s)
{
    inputs in = {.rows = s->rows, .cols = s->cols, .gap = s->gap, .count = s->rows * s->cols};
    in.words = (s->cols + 31) / 32;
    in.x = test_new_normal(21, in.count);
    in.dy = test_new_normal(22, in.count);
    in.residual = test_new_normal(23, in.count);
    in.gamma = test_new_uniform(24, -1.5f, 1.5f, s->cols);
    in.beta = test_new_normal(25, s->cols);
    in.mean = test_new_normal(26, s->cols);
    in.inv = test_new_uniform(27, 0.5f, 2, s->cols);
    for (size_t i = 0; i < in.count; i++)
        in.x[i] += in.mean[i % s->cols];
    in.wide_x = layer_widen(in.count, in.x);
    in.wide_dy = layer_widen(in.count, in.dy);
    in.wide_residual = layer_widen(in.count, in.residual);
    const float *values[4] = {in.gamma, in.beta, in.mean, in.inv};
    for (int i = 0; i < 4; i++) {
        in.wide[i] = layer_widen(s->cols, values[i]);
        in.param[i] = test_mat_make(1, s->cols, (size_t)i, values[i]);
    }
    in.bn =
        (clprune_batch_norm){in.param[0].mat, in.param[1].mat, in.param[2].mat, in.param[3].mat};
    in.ref = (batch_norm_ref){s->cols, in.wide[0], in.wide[1], in.wide[2], in.wide[3]};
    return in;
}

static void inputs_unchanged(const inputs *in)
{
    for (int i = 0; i < 4; i++)
        test_mat_unchanged(&in->param[i], "parameter");
}

/* ---- forward ---- */

/* The mask has a bit exactly where y, after ReLU, is not 0; bits behind a row are 0. */
static void check_mask(const test_mat *mask, size_t cols, const float *y)
{
    const size_t words = mask->mat.cols;
    float *packed = test_mat_get(mask, "mask");
    for (size_t r = 0; r < mask->mat.rows; r++)
        for (size_t c = 0; c < words * 32; c++)
            if (layer_bit(packed, words, r, c) != (c < cols && y[r * cols + c] != 0))
                fail_msg("row %zu, bit %zu", r, c);
}

/* y: the output of a forward pass that wrote `mask`, `values` on the host. From the same x a gated
 * pass gives the same bits, from another one z where the mask has a bit. */
static void check_gated(const clprune_batch_norm *bn, const test_mat *x, clprune_mat residual,
    const test_mat *mask, const float *values, test_mat *y, const test_mat *another)
{
    clprune_context *context = test_context();
    const size_t rows = y->mat.rows, cols = y->mat.cols;
    test_mat again = test_mat_make(rows, cols, 1, NULL);
    TEST_OK(clprune_batch_norm_forward_gated(
        context, bn, x->mat, residual, mask->mat, again.mat, NULL));
    layer_same("gated", y, &again);
    TEST_OK(clprune_batch_norm_forward(
        context, bn, false, another->mat, residual, again.mat, NONE, NULL));
    float *want = test_mat_get(&again, "z");
    for (size_t i = 0; i < rows * cols; i++)
        want[i] = values[i] > 0 ? want[i] : 0;
    TEST_OK(clprune_mat_copy(context, another->mat, again.mat, NULL));
    TEST_OK(clprune_batch_norm_forward_gated(
        context, bn, again.mat, residual, mask->mat, again.mat, NULL));
    test_same_floats(
        "gated over another x", rows, cols, test_mat_get(&again, "gated"), want, "gated");
}

/* With and without residual and ReLU, with ReLU with and without its mask, in place too. */
static void forward(void **state)
{
    const layer_shape *s = *state;
    clprune_context *context = test_context();
    inputs in = inputs_new(s);
    double *want = test_doubles(in.count), *bound = test_doubles(in.count);
    test_mat x = test_mat_make(s->rows, s->cols, s->gap, in.x);
    test_mat residual = test_mat_make(s->rows, s->cols, s->gap + 1, in.residual);
    test_mat y = test_mat_make(s->rows, s->cols, s->gap + 2, NULL);
    test_mat mask = test_mat_make(s->rows, in.words, s->gap, NULL);
    for (int way = 0; way < 4; way++) {
        const bool relu = way % 2 != 0, add = way / 2 != 0;
        const clprune_mat other = add ? residual.mat : NONE;
        const char *text = add ? relu ? "residual, relu" : "residual" : relu ? "relu" : "plain";
        batch_norm_ref_z(&in.ref, s->rows, in.wide_x, add ? in.wide_residual : NULL, want, bound);
        for (size_t i = 0; relu && i < in.count; i++)
            want[i] = fmax(want[i], 0);
        test_mat_set(&y, NULL);
        TEST_EVENT(
            clprune_batch_norm_forward(context, &in.bn, relu, x.mat, other, y.mat, NONE, &event));
        layer_check("y", &y, want, bound, text);
        TEST_UNCHANGED(&x, &residual);
        if (relu) {
            test_mat masked = test_mat_make(s->rows, s->cols, 0, NULL);
            TEST_OK(clprune_batch_norm_forward(
                context, &in.bn, true, x.mat, other, masked.mat, mask.mat, NULL));
            layer_same("y with a mask", &y, &masked);
            float *values = test_mat_get(&masked, "y");
            check_mask(&mask, s->cols, values);
            check_gated(&in.bn, &x, other, &mask, values, &masked, &residual);
        }
        if (add) {
            TEST_OK(clprune_batch_norm_forward(
                context, &in.bn, relu, x.mat, other, residual.mat, NONE, NULL));
            layer_same("y over residual", &y, &residual);
            test_mat_set(&residual, in.residual);
        }
        TEST_OK(clprune_batch_norm_forward(
            context, &in.bn, relu, x.mat, other, x.mat, relu ? mask.mat : NONE, NULL));
        layer_same("y over x", &y, &x);
        test_mat_set(&x, in.x);
    }
    inputs_unchanged(&in);
}

/* ---- backward ---- */

typedef enum gate { PLAIN, MASKED, SIGN, SIGN_RESIDUAL, GATES } gate;

/* dz in double: dy where a forward pass of the device passed. Its mask goes to `mask`. */
static void gradient_of_z(
    inputs *in, gate way, clprune_mat x, clprune_mat residual, test_mat *mask, double *dz)
{
    memcpy(dz, in->wide_dy, in->count * sizeof *dz);
    if (way == PLAIN)
        return;
    test_mat y = test_mat_make(in->rows, in->cols, 0, NULL);
    TEST_OK(clprune_batch_norm_forward(test_context(), &in->bn, true, x,
        way == SIGN_RESIDUAL ? residual : NONE, y.mat, mask->mat, NULL));
    float *values = test_mat_get(&y, "y"), *packed = test_mat_get(mask, "mask");
    test_mat_set(mask, packed);
    for (size_t i = 0; i < in->count; i++)
        dz[i] = values[i] != 0 ? dz[i] : 0;
}

/* Each sum becomes sum + beta * old, to the bit: of the sums, then of the parameters. */
static void check_betas(const clprune_batch_norm_in *in, const float *once)
{
    static const float betas[] = {0.5f, 1, -2};
    const size_t cols = in->x.cols;
    const float *old = test_new_normal(90, 2 * cols);
    for (size_t b = 0; b < COUNT_OF(betas); b++) {
        test_mat out[] = {test_mat_make(2, cols, b, old), test_mat_make(1, cols, 0, old + cols),
            test_mat_make(1, cols, 1, old)}; /* sums, dgamma, dbeta */
        TEST_OK(clprune_batch_norm_backward_sums(test_context(), betas[b], betas[b], in, NONE,
            out[0].mat, out[1].mat, out[2].mat, NULL));
        const float *sums = test_mat_get(&out[0], "sums");
        for (size_t i = 0; i < 2 * cols; i++)
            assert_true(sums[i] == fmaf(betas[b], old[i], once[i]));
        test_same_floats("dgamma", 1, cols, test_mat_get(&out[1], "dgamma"), sums + cols, "beta");
        test_same_floats("dbeta", 1, cols, test_mat_get(&out[2], "dbeta"), sums, "beta");
    }
}

/* `count` rows from `at` on. */
static clprune_batch_norm_in part_of(clprune_batch_norm_in in, size_t at, size_t count)
{
    in.x = clprune_mat_rows(in.x, at, count);
    in.dy = clprune_mat_rows(in.dy, at, count);
    in.mask = clprune_mat_rows(in.mask, at, count);
    in.residual = clprune_mat_rows(in.residual, at, count);
    return in;
}

/* Both passes at once and in two chunks, dz kept or not, outputs in place. */
static void backward_way(inputs *in, gate way)
{
    static const char *const names[GATES] = {"plain", "mask", "sign", "sign with residual"};
    clprune_context *context = test_context();
    const size_t rows = in->rows, cols = in->cols, gap = in->gap, first = rows / 3;
    const bool relu = way != PLAIN;
    test_mat x = test_mat_make(rows, cols, gap, in->x);
    test_mat dy = test_mat_make(rows, cols, gap + 1, in->dy);
    test_mat residual = test_mat_make(rows, cols, gap + 2, in->residual);
    test_mat mask = test_mat_make(rows, in->words, gap, NULL);
    test_mat dz = test_mat_make(rows, cols, gap, NULL), dx = test_mat_make(rows, cols, gap, NULL);
    test_mat dx2 = test_mat_make(rows, cols, 0, NULL);
    test_mat sums = test_mat_make(2, cols, 3, NULL), sums2 = test_mat_make(2, cols, 0, NULL);
    test_mat dgamma = test_mat_make(1, cols, 0, NULL), dbeta = test_mat_make(1, cols, 1, NULL);
    double *dz_want = test_doubles(in->count), *sums_want = test_doubles(2 * cols);
    double *sums_bound = test_doubles(2 * cols), *exact = test_doubles(in->count);
    double *dx_want = test_doubles(in->count), *dx_bound = test_doubles(in->count);
    gradient_of_z(in, way, x.mat, residual.mat, &mask, dz_want);
    batch_norm_ref_sums(
        &in->ref, rows, in->wide_x, dz_want, sums_want, sums_want + cols, sums_bound);
    const clprune_batch_norm_in given = {.bn = &in->bn,
        .relu = relu,
        .x = x.mat,
        .dy = dy.mat,
        .mask = way == MASKED ? mask.mat : NONE,
        .residual = way == SIGN_RESIDUAL ? residual.mat : NONE};
    clprune_batch_norm_in unmasked = given, ungated = {.bn = &in->bn, .x = x.mat, .dy = dz.mat};
    unmasked.mask = NONE;

    TEST_EVENT(clprune_batch_norm_backward_sums(
        context, 0, 0, &given, dz.mat, sums.mat, dgamma.mat, dbeta.mat, &event));
    layer_check("dz", &dz, dz_want, exact, names[way]);
    layer_check("sums", &sums, sums_want, sums_bound, names[way]);
    layer_check("dbeta", &dbeta, sums_want, sums_bound, names[way]);
    layer_check("dgamma", &dgamma, sums_want + cols, sums_bound + cols, names[way]);
    TEST_EVENT(clprune_batch_norm_backward_sums(
        context, 0, 0, &given, NONE, sums2.mat, NONE, NONE, &event));
    layer_same("sums without dz", &sums, &sums2);
    if (way == MASKED) {
        TEST_OK(clprune_batch_norm_backward_sums(
            context, 0, 0, &unmasked, NONE, sums2.mat, NONE, NONE, NULL));
        layer_same("sums without the mask", &sums, &sums2);
    }

    /* beta is the factor of the parameters' gradients, sums_beta that of the sums. */
    TEST_OK(clprune_batch_norm_backward_sums(
        context, 1, 0, &given, NONE, sums2.mat, dgamma.mat, dbeta.mat, NULL));
    layer_same("sums without sums_beta", &sums, &sums2);
    float *twice = test_mat_get(&dbeta, "dbeta");

    /* From the device's sums, whose error is its own. */
    float *got = test_mat_get(&sums, "sums");
    for (size_t c = 0; c < cols; c++)
        assert_true(twice[c] == 2 * got[c]);
    check_betas(&given, got);
    double *wide_sums = layer_widen(2 * cols, got);
    test_mat_set(&sums, got);
    batch_norm_ref_dx(
        &in->ref, rows, rows, in->wide_x, dz_want, wide_sums, wide_sums + cols, dx_want, dx_bound);
    TEST_EVENT(clprune_batch_norm_backward_input(context, rows, &given, sums.mat, dx.mat, &event));
    layer_check("dx", &dx, dx_want, dx_bound, names[way]);
    TEST_OK(clprune_batch_norm_backward_input(context, rows, &ungated, sums.mat, dz.mat, NULL));
    layer_same("dx over dz", &dx, &dz);
    TEST_UNCHANGED(&sums, &x, &dy, &residual);
    if (way == MASKED)
        test_mat_unchanged(&mask, "mask");

    /* In chunks: the sums add up, and dx has the same bits. dz takes the place of dy. */
    test_mat_set(&dx, NULL);
    for (size_t k = 0; k < 2; k++) {
        const size_t at = k == 0 ? 0 : first, count = k == 0 ? first : rows - first;
        const clprune_batch_norm_in part = part_of(given, at, count);
        TEST_OK(clprune_batch_norm_backward_input(
            context, rows, &part, sums.mat, clprune_mat_rows(dx2.mat, at, count), NULL));
    }
    for (size_t k = 0; k < 2; k++) {
        const size_t at = k == 0 ? 0 : first, count = k == 0 ? first : rows - first;
        const clprune_batch_norm_in part = part_of(given, at, count);
        TEST_OK(clprune_batch_norm_backward_sums(
            context, (float)k, (float)k, &part, part.dy, sums2.mat, dgamma.mat, dbeta.mat, NULL));
    }
    layer_same("dx in chunks", &dz, &dx2);
    layer_check("dz over dy", &dy, dz_want, exact, names[way]);
    layer_check("sums", &sums2, sums_want, sums_bound, "two chunks");
    layer_check("dbeta", &dbeta, sums_want, sums_bound, "two chunks");
    layer_check("dgamma", &dgamma, sums_want + cols, sums_bound + cols, "two chunks");
    ungated.dy = dy.mat;
    TEST_OK(clprune_batch_norm_backward_input(context, rows, &ungated, sums.mat, x.mat, NULL));
    layer_same("dx over x", &dz, &x);
}

static void backward(void **state)
{
    inputs in = inputs_new(*state);
    for (gate way = PLAIN; way < GATES; way++)
        backward_way(&in, way);
    inputs_unchanged(&in);
}

/* ---- from codes ---- */

/* All passes from `codes` and from x, which they restore to. */
static void codes_way(const inputs *in, const test_mat *x, const clprune__quantised *codes,
    bool add, bool masked, test_mat *mask)
{
    enum { Y, DZ, DX, SUMS, DGAMMA, DBETA, ALL };
    static const char *const names[ALL] = {"y", "dz", "dx", "sums", "dgamma", "dbeta"};
    clprune_context *context = test_context();
    const size_t rows[ALL] = {in->rows, in->rows, in->rows, 2, 1, 1};
    test_mat residual = test_mat_make(in->rows, in->cols, 2, in->residual);
    test_mat dy = test_mat_make(in->rows, in->cols, 1, in->dy), out[2][ALL];
    const clprune_mat other = add ? residual.mat : NONE, kept = masked ? mask->mat : NONE;
    for (int way = 0; way < 2; way++) {
        const clprune__quantised *q = way == 0 ? NULL : codes;
        const clprune_batch_norm_in given = {
            &in->bn, masked, q == NULL ? x->mat : NONE, dy.mat, kept, NONE};
        test_mat *m = out[way];
        for (int i = 0; i < ALL; i++)
            m[i] = test_mat_make(rows[i], in->cols, (size_t)(i + way) % 3, NULL);
        if (q != NULL)
            TEST_OK(clprune__batch_norm_forward_quantised(
                context, &in->bn, true, q, other, kept, m[Y].mat, NULL));
        else if (masked)
            TEST_OK(clprune_batch_norm_forward_gated(
                context, &in->bn, x->mat, other, kept, m[Y].mat, NULL));
        else
            TEST_OK(clprune_batch_norm_forward(
                context, &in->bn, true, x->mat, other, m[Y].mat, NONE, NULL));
        TEST_OK(clprune__batch_norm_backward_sums(
            context, 0, 0, &given, q, m[DZ].mat, m[SUMS].mat, m[DGAMMA].mat, m[DBETA].mat, NULL));
        TEST_OK(clprune__batch_norm_backward_input(
            context, in->rows, &given, q, m[SUMS].mat, m[DX].mat, NULL));
    }
    for (int i = 0; i < ALL; i++)
        layer_same(names[i], &out[0][i], &out[1][i]);
}

static void from_codes(void **state)
{
    const layer_shape *s = *state;
    static const unsigned bits[] = {4, 8, 16};
    inputs in = inputs_new(s);
    if (in.count == 0)
        return;
    test_mat x = test_mat_make(s->rows, s->cols, s->gap, in.x);
    test_mat mask = test_mat_make(s->rows, in.words, s->gap, NULL);
    test_mat y = test_mat_make(s->rows, s->cols, 0, NULL);
    TEST_OK(clprune_batch_norm_forward(
        test_context(), &in.bn, true, x.mat, NONE, y.mat, mask.mat, NULL));
    for (size_t b = 0; b < COUNT_OF(bits); b++) {
        const clprune_keep keep = {.form = CLPRUNE_FORM_QUANTISED, .bits = bits[b]};
        clprune_saved *saved = test_new_saved(test_context(), keep, 1, s->rows, s->cols);
        test_mat restored = test_mat_make(s->rows, s->cols, s->gap, NULL);
        clprune__quantised q;
        TEST_OK(clprune_saved_store(saved, 0, 1, x.mat, NULL));
        TEST_OK(clprune_saved_restore(saved, 0, 1, restored.mat, NULL));
        TEST_OK(clprune__saved_quantised(saved, 0, 1, &q));
        for (int way = 0; way < 4; way++)
            codes_way(&in, &restored, &q, way / 2 != 0, way % 2 != 0, &mask);
    }
}

/* ---- all of it ---- */

enum { SLOPE_ROWS = 23, SLOPE_COLS = 19, SLOPE_COUNT = SLOPE_ROWS * SLOPE_COLS };
enum { SLOPE_TOTAL = 2 * SLOPE_COUNT + 2 * SLOPE_COLS }; /* x, residual, gamma, beta */

/* sum dy * relu(gamma * xhat + beta + residual), with the statistics of x itself. */
static double loss(void *user, const double *theta)
{
    const double *dy = user, *residual = theta + SLOPE_COUNT, *gamma = residual + SLOPE_COUNT;
    double mean[SLOPE_COLS], inv[SLOPE_COLS], z[SLOPE_COUNT], total = 0;
    batch_norm_ref_moments(SLOPE_ROWS, SLOPE_COLS, theta, mean, inv);
    for (size_t c = 0; c < SLOPE_COLS; c++)
        inv[c] = 1 / sqrt(inv[c] / SLOPE_ROWS + (double)1e-5f);
    const batch_norm_ref bn = {SLOPE_COLS, gamma, gamma + SLOPE_COLS, mean, inv};
    batch_norm_ref_z(&bn, SLOPE_ROWS, theta, residual, z, NULL);
    for (size_t i = 0; i < SLOPE_COUNT; i++)
        total += dy[i] * fmax(z[i], 0);
    return total;
}

/* The gradients of the device's training passes against differences of the loss. */
static void slopes(NO_ROW)
{
    enum { X, RESIDUAL, GAMMA, BETA, DY, MEAN, INV, DZ, DX, SUMS, DGAMMA, DBETA, ALL };
    static const size_t rows[ALL] = {
        SLOPE_ROWS, SLOPE_ROWS, 1, 1, SLOPE_ROWS, 1, 1, SLOPE_ROWS, SLOPE_ROWS, 2, 1, 1};
    clprune_context *context = test_context();
    float *theta = test_new_normal(41, SLOPE_TOTAL), *dy = test_new_normal(42, SLOPE_COUNT);
    const float *values[ALL] = {theta, theta + SLOPE_COUNT, theta + 2 * SLOPE_COUNT,
        theta + 2 * SLOPE_COUNT + SLOPE_COLS, dy};
    test_mat m[ALL];
    for (int i = 0; i < ALL; i++)
        m[i] = test_mat_make(rows[i], SLOPE_COLS, (size_t)i % 3, values[i]);
    const clprune_batch_norm bn = {m[GAMMA].mat, m[BETA].mat, m[MEAN].mat, m[INV].mat};
    TEST_OK(clprune_batch_norm_moments(context, 0, m[X].mat, bn.mean, bn.inv, NULL));
    TEST_OK(clprune_batch_norm_statistics(
        context, SLOPE_ROWS, 1e-5f, bn.mean, bn.inv, bn.inv, NULL, NULL));
    TEST_OK(clprune_batch_norm_backward_sums(context, 0, 0,
        &(clprune_batch_norm_in){
            .bn = &bn, .relu = true, .x = m[X].mat, .dy = m[DY].mat, .residual = m[RESIDUAL].mat},
        m[DZ].mat, m[SUMS].mat, m[DGAMMA].mat, m[DBETA].mat, NULL));
    TEST_OK(clprune_batch_norm_backward_input(context, SLOPE_ROWS,
        &(clprune_batch_norm_in){.bn = &bn, .x = m[X].mat, .dy = m[DZ].mat}, m[SUMS].mat, m[DX].mat,
        NULL));
    static const int order[] = {DX, DZ, DGAMMA, DBETA};
    double *grad = test_doubles(SLOPE_TOTAL), *wide = layer_widen(SLOPE_TOTAL, theta);
    double *wide_dy = layer_widen(SLOPE_COUNT, dy), *to = grad;
    for (size_t i = 0; i < COUNT_OF(order); i++) {
        float *got = test_mat_get(&m[order[i]], "gradient");
        for (size_t k = 0; k < rows[order[i]] * SLOPE_COLS; k++)
            *to++ = (double)got[k];
    }
    layer_slopes("training", loss, wide_dy, SLOPE_TOTAL, wide, grad, 1e-6, 1e-5);
}

/* NaN and infinities pass or are stopped as by ReLU; a gradient that does not pass is 0. */
static void special_values(NO_ROW)
{
    static const float x[] = {NAN, INFINITY, -INFINITY, 0.0f, -0.0f, 2, -2, 1};
    static const float dy[] = {1, NAN, NAN, INFINITY, NAN, INFINITY, NAN, NAN};
    enum { COUNT = COUNT_OF(x) };
    static const bool passes[COUNT] = {1, 1, 0, 0, 0, 1, 0, 1};
    test_mat in = test_mat_make(1, COUNT, 0, x), out = test_mat_make(1, COUNT, 0, NULL);
    test_mat one = test_mat_make(1, COUNT, 0, layer_same_values(COUNT, 1)),
             zero = test_mat_make(1, COUNT, 0, test_floats(COUNT));
    test_mat mask = test_mat_make(1, 1, 0, NULL), d = test_mat_make(1, COUNT, 0, dy);
    test_mat sums = test_mat_make(2, COUNT, 0, NULL);
    const clprune_batch_norm bn = {one.mat, zero.mat, zero.mat, one.mat};
    TEST_OK(clprune_batch_norm_forward(
        test_context(), &bn, true, in.mat, NONE, out.mat, mask.mat, NULL));
    float *y = test_mat_get(&out, "y");
    check_mask(&mask, COUNT, y);
    assert_true(isnan(y[0]));
    for (size_t i = 1; i < COUNT; i++)
        assert_true(y[i] == (passes[i] ? x[i] : 0.0f) && !signbit(y[i]));
    for (int masked = 0; masked < 2; masked++) {
        TEST_OK(clprune_batch_norm_backward_sums(test_context(), 0, 0,
            &(clprune_batch_norm_in){.bn = &bn,
                .relu = true,
                .x = in.mat,
                .dy = d.mat,
                .mask = masked ? mask.mat : NONE},
            out.mat, sums.mat, NONE, NONE, NULL));
        float *dz = test_mat_get(&out, "dz");
        for (size_t i = 0; i < COUNT; i++)
            assert_true(!passes[i] ? dz[i] == 0.0f : isnan(dy[i]) ? isnan(dz[i]) : dz[i] == dy[i]);
    }
}

/* A gated pass of nothing takes an empty mask without a buffer, such as a wrapped one. */
static void empty_mask(NO_ROW)
{
    static const size_t shapes[][2] = {{0, 0}, {0, 40}, {4, 0}};
    for (size_t i = 0; i < COUNT_OF(shapes); i++) {
        const size_t rows = shapes[i][0], cols = shapes[i][1];
        test_mat row = test_mat_make(1, cols, 0, NULL);
        const clprune_batch_norm bn = {row.mat, row.mat, row.mat, row.mat};
        const clprune_mat x = clprune_mat_of(NULL, rows, cols);
        const clprune_mat mask = clprune_mat_of(NULL, rows, (cols + 31) / 32);
        TEST_OK(clprune_batch_norm_forward_gated(test_context(), &bn, x, NONE, mask, x, NULL));
    }
}

/* What test_invalid_many.c does not have: which arguments go together. */
static void invalid(NO_ROW)
{
    clprune_context *context = test_context();
    const clprune_status bad = CLPRUNE_INVALID_ARGUMENT;
    test_mat all[4], row = test_mat_make(1, 6, 0, NULL), other = test_mat_make(1, 6, 0, NULL);
    for (size_t i = 0; i < 4; i++)
        all[i] = test_mat_make(4, 6, 0, NULL);
    test_mat mask = test_mat_make(4, 1, 0, NULL), both = test_mat_make(2, 6, 0, NULL);
    const clprune_mat x = all[0].mat, r = all[1].mat, y = all[2].mat, d = all[3].mat;
    const clprune_mat m = mask.mat, g = row.mat, b = other.mat;
    const clprune_batch_norm bn = {g, g, g, g};
    cl_event event = NULL;
#define FORWARD(bn, relu)      clprune_batch_norm_forward(context, bn, relu, x, r, y, m, &event)
#define IN(gated, kept, added) &(clprune_batch_norm_in){&bn, gated, x, y, kept, added}
#define SUMS(in, dgamma, dbeta)                                                                    \
    clprune_batch_norm_backward_sums(context, 0, 0, in, d, both.mat, dgamma, dbeta, &event)
#define INPUT(rows, in) clprune_batch_norm_backward_input(context, rows, in, both.mat, d, &event)
    TEST_FAILS(SUMS(NULL, NONE, NONE), bad, "in is NULL");
    TEST_FAILS(INPUT(4, NULL), bad, "in is NULL");
    TEST_FAILS(FORWARD(NULL, true), bad, "bn is NULL");
    TEST_FAILS(FORWARD(&bn, false), bad, "mask is given without relu");
    TEST_FAILS(clprune_batch_norm_forward_gated(context, &bn, x, r, NONE, y, &event), bad,
        "mask is CLPRUNE_NO_MAT");
    TEST_FAILS(SUMS(IN(true, m, NONE), b, NONE), bad, "both or");
    TEST_FAILS(SUMS(IN(true, m, r), NONE, NONE), bad, "residual is given");
    TEST_FAILS(SUMS(IN(false, NONE, r), NONE, NONE), bad, "residual is");
    TEST_FAILS(SUMS(IN(false, m, NONE), NONE, NONE), bad, "mask is given");
    TEST_FAILS(INPUT(3, IN(true, m, NONE)), bad, "rows is 3, expected");
    TEST_FAILS(INPUT(4, IN(true, m, r)), bad, "residual is given");
    test_mat narrow = test_mat_make(4, 5, 0, NULL);
    TEST_FAILS(SUMS(IN(true, NONE, narrow.mat), NONE, NONE), CLPRUNE_INVALID_SIZE, "residual is");
    assert_null(event);
    TEST_UNCHANGED(&all[2], &all[3], &both, &other);
}

int main(void)
{
    test_list list = {0};
    layer_add_shapes(&list, forward, "forward");
    layer_add_shapes(&list, backward, "backward");
    layer_add_shapes(&list, from_codes, "from codes");
    test_add(&list, slopes, NULL, "slopes");
    test_add(&list, special_values, NULL, "special values");
    test_add(&list, empty_mask, NULL, "empty mask");
    test_add(&list, invalid, NULL, "invalid arguments");
    return test_run_on_devices("batch_norm", &list);
}
