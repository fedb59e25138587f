/* Gradients of bf16 between layers: what kernels write is their fp32 result, rounded; products have
 * the bits of the same gradients in fp32. */
#include "clprune/activation.h"
#include "clprune/batch_norm.h"
#include "clprune/conv2d.h"
#include "clprune/swiglu.h"
#include "clprune/token_loss.h"
#include "support/test_narrow.h"

typedef struct shape {
    size_t rows, cols, gap;
} shape;

static const shape shapes[] = {{1, 1, 0}, {3, 16, 0}, {5, 33, 3}, {9, 48, 16}, {2, 130, 1}};

typedef struct gradient_row {
    const char *name;
    clprune_activation activation;
    clprune_keep keep;
    bool again; /* y can be made again */
} gradient_row;

static const gradient_row gradient_rows[] = {
    {"GELU", CLPRUNE_ACTIVATION_GELU, {.form = CLPRUNE_FORM_DENSE}, true},
    {"SiLU from codes", CLPRUNE_ACTIVATION_SILU, {.form = CLPRUNE_FORM_QUANTISED, .bits = 4}, true},
    {"GELU from rotated codes", CLPRUNE_ACTIVATION_GELU,
        {.form = CLPRUNE_FORM_QUANTISED, .bits = 8, .rotate = true}, true},
    {"GELU, codes of the derivative", CLPRUNE_ACTIVATION_GELU,
        {.form = CLPRUNE_FORM_GELU_CODE, .bits = 4}, false},
    {"ReLU", CLPRUNE_ACTIVATION_RELU, {.form = CLPRUNE_FORM_DENSE}, false},
    {"ReLU6, signs", CLPRUNE_ACTIVATION_RELU6, {.form = CLPRUNE_FORM_MASK}, false},
};

/* dx, and with it y made again, in fp32 and in bf16; sums over columns are those of dx in fp32. */
static void gradients(void **state)
{
    const gradient_row *r = *state;
    clprune_context *context = test_context();
    for (size_t s = 0; s < COUNT_OF(shapes); s++) {
        const size_t mark = test_mark();
        const size_t rows = shapes[s].rows, cols = shapes[s].cols, gap = shapes[s].gap;
        const test_mat x = test_mat_make(rows, cols, 0, values_of(91, rows * cols));
        const test_mat dy = test_mat_make(rows, cols, gap, test_new_normal(92, rows * cols));
        test_mat y = test_mat_make(rows, cols, 0, NULL);
        clprune_saved *saved = test_new_saved(context, r->keep, 1, rows, cols);
        TEST_OK(clprune_activation_forward(
            context, r->activation, 0, 1, x.mat, CLPRUNE_NO_MAT, y.mat, saved, NULL));
        for (size_t again = 0; again < (r->again ? 2 : 1); again++) {
            const narrow dx16 = narrow_make(rows, cols, gap, NULL),
                         y16 = narrow_make(rows, cols, gap, NULL);
            test_mat dx = test_mat_make(rows, cols, 0, NULL), db[2];
            for (size_t i = 0; i < 2; i++) {
                db[i] = test_mat_make(1, cols, 0, NULL);
                const clprune_grads grads = {.dx = i == 0 ? dx.mat : dx16.mat, .db = db[i].mat};
                TEST_OK(again ? clprune_activation_backward_recompute(context, r->activation, 0, 1,
                                    saved, dy.mat, i == 0 ? y.mat : y16.mat, &grads, NULL)
                              : clprune_activation_backward(
                                    context, r->activation, 0, 1, saved, dy.mat, &grads, NULL));
            }
            check_rounded("dx", &dx16, &dx);
            layer_same("db", &db[0], &db[1]);
            if (again)
                check_rounded("y", &y16, &y);
        }
        test_release(mark);
    }
}

/* y and dx of a gated unit; the halves of dx are aligned as their columns are. */
static void gated_unit(NO_ROW)
{
    const clprune_activation f = CLPRUNE_ACTIVATION_SILU;
    clprune_context *context = test_context();
    for (size_t s = 0; s < COUNT_OF(shapes); s++) {
        const size_t rows = shapes[s].rows, cols = shapes[s].cols, gap = shapes[s].gap;
        const test_mat x = test_mat_make(rows, 2 * cols, 0, values_of(95, 2 * rows * cols));
        const test_mat dy = test_mat_make(rows, cols, gap, test_new_normal(96, rows * cols));
        const test_mat y = test_mat_make(rows, cols, 0, NULL),
                       dx = test_mat_make(rows, 2 * cols, 0, NULL);
        const narrow y16 = narrow_make(rows, cols, gap, NULL),
                     dx16 = narrow_make(rows, 2 * cols, gap, NULL);
        TEST_OK(clprune_glu_forward(context, f, x.mat, y.mat, NULL));
        TEST_OK(clprune_glu_forward(context, f, x.mat, y16.mat, NULL));
        TEST_OK(clprune_glu_backward(context, f, x.mat, dy.mat, dx.mat, NULL));
        TEST_OK(clprune_glu_backward(context, f, x.mat, dy.mat, dx16.mat, NULL));
        check_rounded("y", &y16, &y);
        check_rounded("dx", &dx16, &dx);
    }
}

static void batch_norm_gradient(NO_ROW)
{
    clprune_context *context = test_context();
    for (size_t s = 0; s < COUNT_OF(shapes); s++) {
        const size_t rows = shapes[s].rows, cols = shapes[s].cols, gap = shapes[s].gap;
        const test_mat x = test_mat_make(rows, cols, 0, values_of(97, rows * cols)),
                       dy = test_mat_make(rows, cols, gap, test_new_normal(98, rows * cols)),
                       of = test_mat_make(4, cols, 0, test_new_uniform(99, 0.5, 2, 4 * cols)),
                       sums = test_mat_make(2, cols, 0, test_new_normal(100, 2 * cols)),
                       dx = test_mat_make(rows, cols, 0, NULL);
        const clprune_batch_norm bn = {clprune_mat_rows(of.mat, 0, 1),
            clprune_mat_rows(of.mat, 1, 1), clprune_mat_rows(of.mat, 2, 1),
            clprune_mat_rows(of.mat, 3, 1)};
        const clprune_batch_norm_in in = {.bn = &bn, .relu = true, .x = x.mat, .dy = dy.mat};
        const narrow dx16 = narrow_make(rows, cols, gap, NULL);
        TEST_OK(clprune_batch_norm_backward_input(context, rows, &in, sums.mat, dx.mat, NULL));
        TEST_OK(clprune_batch_norm_backward_input(context, rows, &in, sums.mat, dx16.mat, NULL));
        check_rounded("dx", &dx16, &dx);
    }
}

/* ---- products ----------------------------------------------------------------------------------
 */

/* On tensor cores the gradients have the bits of those from the same dy in fp32. */
static void backward_products(NO_ROW)
{
    enum { BATCH = 2, ROWS = 21, IN = 48, OUT = 80 };
    static const clprune_keep keeps[] = {{.form = CLPRUNE_FORM_DENSE},
        {.form = CLPRUNE_FORM_QUANTISED, .bits = 16}, {.form = CLPRUNE_FORM_QUANTISED, .bits = 4},
        {.form = CLPRUNE_FORM_QUANTISED, .bits = 8, .rotate = true}};
    clprune_context *context = test_context();
    const size_t rows = (size_t)BATCH * ROWS;
    float *values = rounded(values_of(101, rows * OUT), rows * OUT);
    const test_mat x = test_mat_make(rows, IN, 0, test_new_normal(102, rows * IN)),
                   w = test_mat_make(OUT, IN, 0, test_new_normal(103, OUT * IN)),
                   wide = test_mat_make(rows, OUT, 0, values),
                   y = test_mat_make(rows, OUT, 0, NULL);
    const narrow dy = narrow_make(rows, OUT, 16, values);
    for (size_t k = 0; k < COUNT_OF(keeps); k++) {
        const size_t mark = test_mark();
        clprune_linear *layer =
            test_new_linear(context, (clprune_linear_desc){.in = IN, .out = OUT, .keep = keeps[k]});
        clprune_saved *saved = test_new_saved(context, keeps[k], BATCH, ROWS, IN);
        test_mat dx[2], dw[2], db[2];
        TEST_OK(
            clprune_linear_forward(layer, BATCH, x.mat, w.mat, CLPRUNE_NO_MAT, y.mat, saved, NULL));
        for (size_t i = 0; i < 2; i++) {
            dx[i] = test_mat_make(rows, IN, 0, NULL);
            dw[i] = test_mat_make(OUT, IN, 0, NULL);
            db[i] = test_mat_make(1, OUT, 0, NULL);
            const clprune_grads grads = {.dx = dx[i].mat, .dw = dw[i].mat, .db = db[i].mat};
            if (i == 1 && !(clprune_linear_takes_bf16(context) &&
                              clprune_context_kernels(context) == CLPRUNE_KERNELS_TILED)) {
                TEST_FAILS(
                    clprune_linear_backward(layer, BATCH, saved, dy.mat, w.mat, &grads, NULL),
                    CLPRUNE_INVALID_ARGUMENT, "dy has elements of type 2, expected fp32");
                return;
            }
            TEST_OK(clprune_linear_backward(
                layer, BATCH, saved, i == 0 ? wide.mat : dy.mat, w.mat, &grads, NULL));
        }
        layer_same("dx", &dx[0], &dx[1]);
        layer_same("dw", &dw[0], &dw[1]);
        layer_same("db", &db[0], &db[1]);
        test_release(mark);
    }
}

static void backward_convolutions(NO_ROW)
{
    enum { BATCH = 2 };
    const clprune_extent image = {7, 9};
    static const clprune_conv2d_desc descs[] = {
        {.in = 32, .out = 48, .kernel = {3, 3}, .padding = {1, 1}},
        {.in = 16, .out = 32, .kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1}},
        {.in = 48, .out = 32, .kernel = {1, 1}}};
    static const clprune_keep keeps[] = {
        {.form = CLPRUNE_FORM_DENSE}, {.form = CLPRUNE_FORM_QUANTISED, .bits = 16}};
    clprune_context *context = test_context();
    if (!clprune_linear_takes_bf16(context) ||
        clprune_context_kernels(context) != CLPRUNE_KERNELS_TILED)
        return;
    for (size_t i = 0; i < COUNT_OF(descs) * COUNT_OF(keeps); i++) {
        const size_t mark = test_mark();
        const clprune_conv2d_desc *desc = &descs[i / 2];
        const clprune_extent out = clprune_conv2d_output(desc, image);
        const size_t x_rows = BATCH * image.height * image.width,
                     y_rows = BATCH * out.height * out.width,
                     inner = desc->kernel.height * desc->kernel.width * desc->in;
        float *values = rounded(values_of(111, y_rows * desc->out), y_rows * desc->out);
        const test_mat x = test_mat_make(
                           x_rows, desc->in, 0, test_new_normal(112, x_rows * desc->in)),
                       w = test_mat_make(
                           desc->out, inner, 0, test_new_normal(113, desc->out * inner)),
                       wide = test_mat_make(y_rows, desc->out, 0, values);
        const narrow dy = narrow_make(y_rows, desc->out, 8, values);
        clprune_conv2d *layer = test_new_conv2d(context, *desc);
        clprune_saved *saved =
            test_new_saved(context, keeps[i % 2], BATCH, image.height * image.width, desc->in);
        test_mat dx[2], dw[2], db[2];
        TEST_OK(clprune_saved_store(saved, 0, BATCH, x.mat, NULL));
        for (size_t k = 0; k < 2; k++) {
            dx[k] = test_mat_make(x_rows, desc->in, 0, NULL);
            dw[k] = test_mat_make(desc->out, inner, 0, NULL);
            db[k] = test_mat_make(1, desc->out, 0, NULL);
            TEST_OK(clprune_conv2d_backward(layer, BATCH, image, saved, k == 0 ? wide.mat : dy.mat,
                w.mat, &(clprune_grads){.dx = dx[k].mat, .dw = dw[k].mat, .db = db[k].mat}, NULL));
        }
        layer_same("dx", &dx[0], &dx[1]);
        layer_same("dw", &dw[0], &dw[1]);
        layer_same("db", &db[0], &db[1]);
        test_release(mark);
    }
}

enum { PART = 128 }; /* rows of a head with so many logits */
static clprune_mat part_of(const test_mat *m, size_t first)
{
    const size_t left = m->mat.rows - first;
    return clprune_mat_rows(m->mat, first, left < PART ? left : PART);
}

/* A head rounds what products read once, and the gradient of the logits as it is made: the bits are
 * those of its operations one by one. One shape has parts, the last of two rows. */
static void head(NO_ROW)
{
    enum { BATCH = 2 };
    static const struct {
        size_t rows, vocabulary, cols;
        bool frozen; /* w is of bf16 */
    } cases[] = {
        {6, 35, 16, false}, {18, 48, 32, true}, {10, 9, 5, false}, {130, 16401, 16, false}};
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        const size_t rows = cases[i].rows, v = cases[i].vocabulary, d = cases[i].cols;
        int32_t *ids = test_alloc(rows * sizeof *ids);
        for (size_t r = 0; r < rows; r++)
            ids[r] = r % 4 == 3 ? CLPRUNE_IGNORED : (int32_t)(5 * r % v);
        const test_buf buf = test_buf_make(rows * sizeof *ids, ids);
        const clprune_ints labels = test_buf_ints(&buf);
        const test_mat x = test_mat_make(rows, d, 0, test_new_normal(31, rows * d)),
                       w = test_mat_make(v, d, 1, test_new_normal(32, v * d)),
                       z = test_mat_make(rows, v, 0, NULL), weight = test_mat_make(1, 1, 0, NULL);
        test_mat loss[2], hit[2], dx[2], dw[2];
        for (size_t k = 0; k < 2; k++) {
            loss[k] = test_mat_make(BATCH, 1, 0, NULL);
            hit[k] = test_mat_make(BATCH, 1, 0, NULL);
            dx[k] = test_mat_make(rows, d, 0, NULL);
            dw[k] = test_mat_make(v, d, 0, NULL);
        }
        clprune_context *context = test_context();
        const bool frozen = cases[i].frozen && clprune_linear_takes_bf16(context);
        const narrow w16 = narrow_make(v, d, 8, test_new_normal(32, v * d));
        const clprune_mat weights = frozen ? w16.mat : w.mat;
        TEST_OK(clprune_token_head(context, BATCH, 0, 0.1f, 0.5f, 0, x.mat, weights, CLPRUNE_NO_MAT,
            labels, loss[0].mat, hit[0].mat, dx[0].mat, frozen ? CLPRUNE_NO_MAT : dw[0].mat,
            CLPRUNE_NO_MAT, NULL));
        for (size_t at = 0; at < rows; at += PART) /* their sums may be split by their sizes */
            TEST_OK(clprune_gemm(
                context, false, true, 1, 0, part_of(&x, at), weights, part_of(&z, at), NULL));
        TEST_OK(clprune_token_loss_forward(
            context, BATCH, 0.1f, z.mat, labels, z.mat, weight.mat, loss[1].mat, hit[1].mat, NULL));
        TEST_OK(clprune_token_loss_backward(
            context, 0.1f, 0.5f, weight.mat, z.mat, labels, z.mat, NULL));
        for (size_t at = 0; at < rows; at += PART) {
            TEST_OK(clprune_gemm(
                context, false, false, 1, 0, part_of(&z, at), weights, part_of(&dx[1], at), NULL));
            TEST_OK(clprune_gemm(context, true, false, 1, at > 0, part_of(&z, at), part_of(&x, at),
                dw[1].mat, NULL));
        }
        layer_same("loss", &loss[0], &loss[1]);
        layer_same("hit", &hit[0], &hit[1]);
        layer_same("dx", &dx[0], &dx[1]);
        if (!frozen)
            layer_same("dw", &dw[0], &dw[1]);
    }
}

int main(void)
{
    test_list list = {0};
    for (size_t i = 0; i < COUNT_OF(gradient_rows); i++)
        test_add(
            &list, gradients, (void *)(uintptr_t)&gradient_rows[i], "%s", gradient_rows[i].name);
    test_add(&list, gated_unit, NULL, "a gated unit");
    test_add(&list, batch_norm_gradient, NULL, "batch norm");
    test_add(&list, backward_products, NULL, "linear");
    test_add(&list, backward_convolutions, NULL, "convolutions");
    test_add(&list, head, NULL, "a head");
    return test_run_on_devices("narrow_grads", &list);
}
