/* On CPUs, weight gradients and products with kept blocks have the same bits with any number of
 * compute units. */
#include "runtime/context/context_private.h"
#include "support/test_packed.h"

enum { BATCH = 24, OUT = 41 };

static const uint32_t units[] = {1, 2, 3, 4, 16, 64};

typedef struct form_row {
    const char *name;
    clprune_keep keep;
} form_row;

static const form_row rows[] = {
    {"dense", {.form = CLPRUNE_FORM_DENSE}},
    {"pruned", {.form = CLPRUNE_FORM_PRUNED, .sparsity = 0.6f, .block = {1, 4}}},
    {"pruned, centred", {.form = CLPRUNE_FORM_PRUNED,
                            .sparsity = 0.6f,
                            .block = {1, 4},
                            .centre = CLPRUNE_CENTRE_SAMPLE}},
    {"pruned, centred by cells", {.form = CLPRUNE_FORM_PRUNED,
                                     .sparsity = 0.6f,
                                     .block = {1, 4},
                                     .centre = CLPRUNE_CENTRE_CELLS,
                                     .cell = 2}},
    {"pooled", {.form = CLPRUNE_FORM_POOLED, .cell = 2}},
    {"quantised", {.form = CLPRUNE_FORM_QUANTISED, .bits = 4}},
    {"quantised, rotated", {.form = CLPRUNE_FORM_QUANTISED, .bits = 4, .rotate = true}},
};

/* Says that the context's device has so many; the launches do not depend on it. */
static void pretend(uint32_t count)
{
    test_context()->facts.compute_units = count;
}

typedef enum kind { PRODUCT_TN, PRODUCT_NT, CONV } kind;

typedef struct shape {
    const char *name;
    kind kind;
    size_t rows, cols; /* of a sample; of CONV the sides of an image and its channels */
    size_t out, stride;
} shape;

static const shape shapes[] = {
    {"linear", PRODUCT_TN, 12, 40, OUT, 0},
    {"linear, one panel", PRODUCT_TN, 40, 20, 16, 0},
    {"plain MLP", PRODUCT_TN, 1, 40, OUT, 0},
    {"token mix", PRODUCT_NT, 20, 40, OUT, 0},
    {"3x3", CONV, 8, 20, OUT, 1},
    {"3x3, 2 panels", CONV, 8, 20, 128, 1},
    {"3x3, stride 2", CONV, 8, 20, OUT, 2},
    {"3x3, 3 channels", CONV, 8, 3, OUT, 1},
};

/* dw of one shape and form, and its bytes. */
static float *gradient(const shape *s, const clprune_keep *keep, size_t *bytes)
{
    const bool conv = s->kind == CONV;
    const size_t x_rows = conv ? s->rows * s->rows : s->rows;
    const size_t side = conv ? s->rows / s->stride : 0;
    const size_t dy_rows = conv ? side * side : s->kind == PRODUCT_NT ? s->out : s->rows;
    const size_t dy_cols = s->kind == PRODUCT_NT ? s->cols : s->out;
    const size_t dw_cols = conv ? 9 * s->cols : s->kind == PRODUCT_NT ? s->rows : s->cols;
    float *x = test_new_normal(1, BATCH * x_rows * s->cols);
    float *dy = test_new_normal(2, BATCH * dy_rows * dy_cols);
    test_mat mx = test_mat_make(BATCH * x_rows, s->cols, 0, x);
    test_mat mdy = test_mat_make(BATCH * dy_rows, dy_cols, 0, dy);
    test_mat mdw = test_mat_make(s->out, dw_cols, 0, NULL);
    clprune_context *context = test_context();
    if (conv) {
        const clprune_extent image = {s->rows, s->rows};
        clprune_conv2d *layer = test_new_conv2d(context, (clprune_conv2d_desc){.in = s->cols,
                                                             .out = s->out,
                                                             .kernel = {3, 3},
                                                             .stride = {s->stride, s->stride},
                                                             .padding = {1, 1},
                                                             .keep = *keep});
        clprune_saved *saved = test_new_conv2d_saved(context, layer, BATCH, image);
        TEST_OK(clprune_saved_store(saved, 0, BATCH, mx.mat, NULL));
        TEST_OK(clprune_conv2d_backward(layer, BATCH, image, saved, mdy.mat, CLPRUNE_NO_MAT,
            &(clprune_grads){.dw = mdw.mat}, NULL));
    } else {
        clprune_saved *saved = test_new_saved(context, *keep, BATCH, s->rows, s->cols);
        TEST_OK(clprune_saved_store(saved, 0, BATCH, mx.mat, NULL));
        TEST_OK((s->kind == PRODUCT_NT ? clprune_saved_product_nt : clprune_saved_product_tn)(
            saved, 0, BATCH, 0.0f, mdy.mat, mdw.mat, NULL));
    }
    *bytes = s->out * dw_cols * sizeof(float);
    return test_mat_get(&mdw, "dw");
}

static void any_number(void **state)
{
    const form_row *row = *state;
    const uint32_t real = test_context()->facts.compute_units;
    if (clprune_context_kernels(test_context()) != CLPRUNE_KERNELS_VECTOR)
        skip(); /* the tiled family splits its sums by their number */
    for (size_t i = 0; i < COUNT_OF(shapes); i++) {
        const shape *s = &shapes[i];
        float *want = NULL;
        for (size_t u = 0; u < COUNT_OF(units); u++) {
            pretend(units[u]);
            size_t bytes;
            float *got = gradient(s, &row->keep, &bytes);
            if (want == NULL)
                want = got;
            else if (memcmp(got, want, bytes) != 0)
                fail_msg("%s, %s: other bits with %u compute units", row->name, s->name, units[u]);
        }
    }
    pretend(real);
}

/* nn cuts its rows by their number: into segments of lists, or into runs of strips. */
static void dense_results(NO_ROW)
{
    static const clprune_block blocks[] = {{1, 8}, {3, 4}};
    const uint32_t real = test_context()->facts.compute_units;
    if (clprune_context_kernels(test_context()) != CLPRUNE_KERNELS_VECTOR)
        skip();
    for (size_t i = 0; i < COUNT_OF(blocks); i++) {
        const clprune_bsr_desc d = {2, 301, 53, blocks[i], 200};
        packed xs = pack(d, 3, NULL);
        operands o = operands_make(NN, sizes_of(d, OUT), 4, 0, 0);
        pretend(units[0]);
        float *want = product_on(test_context(), &o, &xs.bsr.bsr);
        (void)operands_check(&o, 1, 0, bsr_ref_unpack(&xs.wide), "one compute unit");
        for (size_t u = 1; u < COUNT_OF(units); u++) {
            pretend(units[u]);
            test_same_floats("y", o.out_rows, o.out_cols,
                product_on(test_context(), &o, &xs.bsr.bsr), want, "%zu x %zu, %u units",
                blocks[i].rows, blocks[i].cols, units[u]);
        }
    }
    pretend(real);
}

int main(void)
{
    test_list list = {0};
    TEST_ADD_EACH(&list, any_number, rows, "%s");
    test_add(&list, dense_results, NULL, "products with dense results");
    return test_run_on_each_device("compute_units", &list);
}
