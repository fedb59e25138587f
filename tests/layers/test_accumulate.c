/* beta of the layers' backward passes: each gradient becomes value + beta * old. With beta 0 the
 * old value is not read; with 0.5, 1 and -2 the result has the bits of fma(beta, old, value) if the
 * value is a sum, and is close to it if the value is a product. */
#include <math.h>
#include <stdio.h>

#include "nn/layers/activation_private.h"
#include "nn/layers/sums.h"
#include "support/test_layer.h"

enum { SUMS = 5, TOKENS = 12, PATCH = 4, CHANNELS = 3, PIXELS = CHANNELS * PATCH * PATCH };

/* Random inputs of the passes, of rows x cols. */
typedef struct inputs {
    size_t rows, cols;
    test_mat x, dy, dx, work, codes; /* rows x cols; dx and work are overwritten */
    test_mat row[4];                 /* 1 x cols */
    test_mat column[2];              /* 1 x rows */
    test_mat w, b;                   /* TOKENS x TOKENS, 1 x TOKENS */
    test_mat images, stem_w;         /* rows / TOKENS images of TOKENS patches; cols x PIXELS */
} inputs;

/* A pass that leaves sums in `out`, of the sizes that size() gives. */
typedef struct pass {
    const char *name;
    size_t sums;
    unsigned products; /* bit i: sum i is a product */
    void (*size)(const inputs *in, size_t i, size_t *rows, size_t *cols);
    clprune_status (*run)(const inputs *in, float beta, const clprune_mat *out);
} pass;

typedef struct pass_case {
    const pass *pass;
    size_t rows, cols;
} pass_case;

static inputs inputs_new(size_t rows, size_t cols)
{
    inputs in = {.rows = rows, .cols = cols};
    const clprune_patch_embed_desc stem = {CHANNELS, PATCH, TOKENS * PATCH, PATCH, cols};
    struct {
        test_mat *mat;
        size_t rows, cols;
    } all[] = {{&in.x, rows, cols}, {&in.dy, rows, cols}, {&in.dx, rows, cols},
        {&in.work, rows, cols}, {&in.row[0], 1, cols}, {&in.row[1], 1, cols}, {&in.row[2], 1, cols},
        {&in.row[3], 1, cols}, {&in.column[0], 1, rows}, {&in.column[1], 1, rows},
        {&in.w, TOKENS, TOKENS}, {&in.b, 1, TOKENS},
        {&in.images, rows / TOKENS, CHANNELS * stem.height * stem.width},
        {&in.stem_w, cols, PIXELS}, {&in.codes, rows, (cols + 3) / 4}};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        float *values = test_new_normal(60 + i, all[i].rows * all[i].cols);
        *all[i].mat = test_mat_make(all[i].rows, all[i].cols, 0, values);
    }
    return in;
}

/* --- The passes --- */

static void size_columns(const inputs *in, size_t i, size_t *rows, size_t *cols)
{
    (void)i;
    *rows = 1, *cols = in->cols;
}

static void size_rows(const inputs *in, size_t i, size_t *rows, size_t *cols)
{
    (void)i;
    *rows = 1, *cols = in->rows;
}

static void size_tokens(const inputs *in, size_t i, size_t *rows, size_t *cols)
{
    *rows = 1, *cols = i == 2 ? TOKENS : in->cols;
}

static void size_batch_norm(const inputs *in, size_t i, size_t *rows, size_t *cols)
{
    *rows = i == 0 ? 2 : 1, *cols = in->cols;
}

static void size_mix(const inputs *in, size_t i, size_t *rows, size_t *cols)
{
    *rows = i == 4 ? TOKENS : 1, *cols = i < 3 ? in->cols : TOKENS;
}

static void size_stem(const inputs *in, size_t i, size_t *rows, size_t *cols)
{
    *rows = i == 0 ? in->cols : 1, *cols = i == 0 ? PIXELS : in->cols;
}

static clprune_status run_column_sum(const inputs *in, float beta, const clprune_mat *out)
{
    return clprune__column_sum(test_context(), beta, in->x.mat, out[0], NULL);
}

static clprune_status run_batch_norm(const inputs *in, float beta, const clprune_mat *out)
{
    const clprune_batch_norm bn = {in->row[0].mat, in->row[1].mat, in->row[2].mat, in->row[3].mat};
    const clprune_mat none = CLPRUNE_NO_MAT;
    return clprune_batch_norm_backward_sums(test_context(), beta, beta, &bn, true, in->x.mat,
        in->dy.mat, none, none, none, out[0], out[1], out[2], NULL);
}

static clprune_status run_gelu(const inputs *in, float beta, const clprune_mat *out)
{
    return clprune_gelu_backward(
        test_context(), beta, in->x.mat, in->dy.mat, in->dx.mat, out[0], NULL);
}

static clprune_status run_recompute(const inputs *in, float beta, const clprune_mat *out)
{
    return clprune_gelu_backward_recompute(
        test_context(), beta, in->x.mat, in->dy.mat, in->work.mat, in->dx.mat, out[0], NULL);
}

static clprune_status run_gelu_code(const inputs *in, float beta, const clprune_mat *out)
{
    return clprune__gelu_code_backward(
        test_context(), 8, beta, in->dy.mat, in->codes.mat, in->dx.mat, out[0], NULL);
}

static clprune_status run_affine(const inputs *in, float beta, const clprune_mat *out)
{
    return clprune_affine_backward(test_context(), beta, 0, in->x.mat, in->row[0].mat, in->dy.mat,
        in->dx.mat, out[0], out[1], NULL);
}

static clprune_status run_affine_product(const inputs *in, float beta, const clprune_mat *out)
{
    TEST_OK(clprune_mat_copy(test_context(), in->dy.mat, in->dx.mat, NULL));
    return clprune_affine_backward_product(test_context(), beta, in->x.mat, in->row[0].mat,
        in->row[1].mat, in->row[2].mat, in->column[0].mat, in->dx.mat, out[0], out[1], NULL);
}

static clprune_status run_layerscale(const inputs *in, float beta, const clprune_mat *out)
{
    return clprune_layerscale_backward(test_context(), beta, in->x.mat, in->row[0].mat, in->dy.mat,
        in->dx.mat, out[0], out[1], out[2], NULL);
}

static clprune_status run_layerscale_product(const inputs *in, float beta, const clprune_mat *out)
{
    TEST_OK(clprune_mat_copy(test_context(), in->dy.mat, in->dx.mat, NULL));
    const clprune_mat db = {in->work.mat.buffer, in->work.mat.offset, 1, in->rows, in->rows};
    TEST_OK(clprune_mat_copy(test_context(), in->column[0].mat, db, NULL));
    return clprune_layerscale_backward_product(test_context(), beta, in->x.mat, in->column[0].mat,
        in->column[1].mat, out[0], in->dx.mat, db, NULL);
}

static clprune_status run_token_mix(const inputs *in, float beta, const clprune_mat *out)
{
    TEST_OK(clprune_mat_copy(test_context(), in->dy.mat, in->dx.mat, NULL));
    const clprune_token_mix params = {.alpha = in->row[0].mat,
        .beta = in->row[1].mat,
        .w = in->w.mat,
        .b = in->b.mat,
        .ls = in->row[2].mat};
    const clprune_token_mix grads = {
        .alpha = out[0], .beta = out[1], .w = out[4], .b = out[3], .ls = out[2]};
    return clprune_token_mix_backward(test_context(), in->rows / TOKENS, beta, in->x.mat, &params,
        in->dx.mat, in->work.mat, &grads, NULL);
}

static clprune_status run_patch_embed(const inputs *in, float beta, const clprune_mat *out)
{
    const clprune_patch_embed_desc stem = {CHANNELS, PATCH, TOKENS * PATCH, PATCH, in->cols};
    return clprune_patch_embed_backward(test_context(), &stem, in->rows / TOKENS, beta,
        in->images.mat, in->dy.mat, in->stem_w.mat, CLPRUNE_NO_MAT, out[0], out[1], NULL);
}

static clprune_status run_token_bias(const inputs *in, float beta, const clprune_mat *out)
{
    return clprune__token_bias_grad(
        test_context(), beta, in->rows / TOKENS, TOKENS, in->x.mat, out[0], NULL);
}

static void size_token_bias(const inputs *in, size_t i, size_t *rows, size_t *cols)
{
    (void)in;
    (void)i;
    *rows = 1, *cols = TOKENS;
}

static const pass passes[] = {
    {"column sum", 1, 0, size_columns, run_column_sum},
    {"token bias", 1, 0, size_token_bias, run_token_bias},
    {"batch norm", 3, 0, size_batch_norm, run_batch_norm},
    {"gelu", 1, 0, size_columns, run_gelu},
    {"gelu recompute", 1, 0, size_columns, run_recompute},
    {"gelu code", 1, 0, size_columns, run_gelu_code},
    {"affine", 2, 0, size_columns, run_affine},
    {"affine product", 2, 0, size_columns, run_affine_product},
    {"layerscale", 3, 0, size_tokens, run_layerscale},
    {"layerscale product", 1, 0, size_rows, run_layerscale_product},
    {"token mix", 5, 1u << 4, size_mix, run_token_mix},
    {"patch embed", 2, 1u << 0, size_stem, run_patch_embed},
};

/* --- Their sums --- */

/* got = value + beta * old: exactly as fma has it, but for products. */
static void check_sum(
    const pass *p, size_t i, float beta, const test_mat *out, const float *value, const float *old)
{
    char what[80];
    (void)snprintf(what, sizeof what, "%s, sum %zu, beta %g", p->name, i, (double)beta);
    const size_t count = out->mat.rows * out->mat.cols;
    float *got = test_mat_get(out, what);
    for (size_t k = 0; k < count; k++) {
        const float want = fmaf(beta, old[k], value[k]);
        const float slack = 1e-4f * (fabsf(beta * old[k]) + fabsf(value[k]) + 10);
        if ((p->products >> i & 1) != 0 ? !(fabsf(got[k] - want) <= slack) : got[k] != want)
            fail_msg(
                "%s: element %zu is %.9g instead of %.9g", what, k, (double)got[k], (double)want);
    }
}

static void accumulate(void **state)
{
    static const float betas[] = {0.5f, 1, -2};
    const pass_case *c = *state;
    const pass *p = c->pass;
    inputs in = inputs_new(c->rows, c->cols);
    test_mat out[SUMS];
    clprune_mat mats[SUMS];
    float *value[SUMS], *old[SUMS], *bad[SUMS];
    for (size_t i = 0; i < p->sums; i++) {
        size_t rows, cols;
        p->size(&in, i, &rows, &cols);
        old[i] = test_new_normal(90 + i, rows * cols);
        bad[i] = test_new_normal(0, rows * cols);
        for (size_t k = 0; k < rows * cols; k++)
            bad[i][k] = NAN;
        out[i] = test_mat_make(rows, cols, i, bad[i]);
        mats[i] = out[i].mat;
    }
    TEST_OK(p->run(&in, 0, mats));
    for (size_t i = 0; i < p->sums; i++) {
        value[i] = test_mat_get(&out[i], p->name);
        for (size_t k = 0; k < mats[i].rows * mats[i].cols; k++)
            if (isnan(value[i][k]))
                fail_msg("%s: sum %zu was read with beta 0", p->name, i);
    }
    for (size_t b = 0; b < sizeof betas / sizeof betas[0]; b++) {
        for (size_t i = 0; i < p->sums; i++)
            test_mat_set(&out[i], old[i]);
        TEST_OK(p->run(&in, betas[b], mats));
        for (size_t i = 0; i < p->sums; i++)
            check_sum(p, i, betas[b], &out[i], value[i], old[i]);
    }
}

/* dx of the affine has a factor of its own: alpha * dy + dx_beta * dx. */
static void affine_dx(void **state)
{
    (void)state;
    inputs in = inputs_new(2 * TOKENS, 21);
    clprune_context *context = test_context();
    float *alpha = test_mat_get(&in.row[0], "alpha"), *dy = test_mat_get(&in.dy, "dy");
    float *old = test_mat_get(&in.dx, "dx");
    TEST_OK(clprune_affine_backward(context, 0, 0.5f, in.x.mat, in.row[0].mat, in.dy.mat, in.dx.mat,
        in.row[1].mat, in.row[2].mat, NULL));
    float *got = test_mat_get(&in.dx, "dx");
    for (size_t i = 0; i < in.rows * in.cols; i++)
        if (got[i] != fmaf(alpha[i % in.cols], dy[i], 0.5f * old[i]))
            fail_msg("element %zu is %.9g", i, (double)got[i]);
}

int main(void)
{
    test_list list = {0};
    /* One group of rows, several, and columns beside the vectors. */
    static const size_t rows[] = {2 * TOKENS, 125 * TOKENS}, cols[] = {21, 37};
    enum { PASSES = sizeof passes / sizeof passes[0] };
    static pass_case cases[2 * PASSES];
    for (size_t i = 0; i < 2 * PASSES; i++) {
        cases[i] = (pass_case){&passes[i / 2], rows[i % 2], cols[i % 2]};
        test_add(&list, accumulate, &cases[i], "%s, %zu x %zu", cases[i].pass->name, cases[i].rows,
            cases[i].cols);
    }
    test_add(&list, affine_dx, NULL, "dx of the affine");
    return test_run_on_devices("accumulate", &list);
}
