/* Products of two values: output and gradients in each layout of heads beside double precision, and
 * attention from products and softmax beside attention, in every preset. */
#include <math.h>

#include "net/net_models.h"
#include "support/test_buffer.h"
#include "support/test_compare.h"

/* ---- every layout ------------------------------------------------------------------------------
 */

enum { BATCH = 2, ROWS = 12, MOST = 48, PARTS = 2 };

typedef struct layout {
    clprune_net_products set;
    size_t heads, parts;
    size_t m, n, k;             /* of a head's product */
    size_t a_cols, b_cols, all; /* columns of a, of b; elements of y of a sample */
} layout;

/* Of a number; false where a and b, of as many rows, have no product. */
static bool layout_of(uint64_t number, layout *l)
{
    const bool ta = number & 1, tb = number & 2, a_below = number & 4, b_below = number & 8,
               y_below = number & 16;
    const size_t parts = number & 32 ? PARTS : 1, heads = number & 64 ? 3 : 1;
    const size_t a_rows = ROWS / parts / (a_below ? heads : 1),
                 b_rows = ROWS / parts / (b_below ? heads : 1);
    const size_t k = ta ? a_rows : tb ? 4 : b_rows, a_cols = ta ? 3 : k, b_cols = tb ? k : 5;
    l->set = (clprune_net_products){.parts = parts > 1 ? parts : 0,
        .heads = heads > 1 ? heads : 0,
        .transpose_a = ta,
        .transpose_b = tb,
        .a_below = a_below,
        .b_below = b_below,
        .y_below = y_below,
        .factor = number & 1 ? 0 : -0.5f};
    l->parts = parts;
    l->heads = heads;
    l->m = ta ? a_cols : a_rows;
    l->n = tb ? b_rows : b_cols;
    l->k = k;
    l->a_cols = a_cols * (a_below ? 1 : heads);
    l->b_cols = b_cols * (b_below ? 1 : heads);
    l->all = parts * heads * l->m * l->n;
    return tb || b_rows == k;
}

/* Where element (i, j) of a head's matrix of `rows` x `cols` is, before it is transposed. */
static size_t place(const layout *l, bool below, size_t sample, size_t part, size_t head,
    size_t rows, size_t cols, size_t i, size_t j)
{
    const size_t first = sample * l->parts + part;
    return below ? ((first * l->heads + head) * rows + i) * cols + j
                 : ((first * rows + i) * l->heads + head) * cols + j;
}

static void build_layout(clprune_net *net, const net_model *model)
{
    layout l;
    (void)layout_of(model->seed, &l);
    clprune_net_value x = clprune_net_rows(net, ROWS, model->cols);
    clprune_net_value a = clprune_net_slice(net, "of a", x, CLPRUNE_AXIS_FEATURES, 0, l.a_cols);
    clprune_net_value b =
        clprune_net_slice(net, "of b", x, CLPRUNE_AXIS_FEATURES, l.a_cols, l.b_cols);
    a = clprune_net_positions(net, "a", a);
    b = clprune_net_positions(net, "b", b);
    clprune_net_custom_loss(net, clprune_net_product(net, "y", a, b, &l.set));
}

static void layouts(void **state)
{
    const uint64_t number = *(const uint64_t *)*state;
    layout l;
    if (!layout_of(number, &l))
        return;
    const net_model model = {
        "layout", build_layout, ROWS, l.a_cols + l.b_cols, 1, 1, false, false, number};
    net_job job = net_open_preset(&model, BATCH, CLPRUNE_NET_EXACT, 8);
    const size_t cols = l.a_cols + l.b_cols, sizes[2] = {ROWS * l.a_cols, ROWS * l.b_cols};
    const float *x = test_new_normal(1, BATCH * ROWS * cols),
                *p[2] = {test_new_normal(2, sizes[0]), test_new_normal(3, sizes[1])},
                *dy = test_new_normal(4, BATCH * l.all);
    double *ab[2] = {test_doubles(BATCH * sizes[0]), test_doubles(BATCH * sizes[1])};
    double *want[2] = {test_doubles(sizes[0]), test_doubles(sizes[1])};
    double *y = test_doubles(BATCH * l.all);
    TEST_OK(clprune_mat_write(job.context, job.data.rows, x));
    for (size_t w = 0; w < 2; w++) {
        const size_t of = w == 0 ? l.a_cols : l.b_cols;
        TEST_OK(clprune_mat_write(job.context, job.params[w].value, p[w]));
        for (size_t r = 0; r < BATCH * ROWS; r++)
            for (size_t c = 0; c < of; c++)
                ab[w][r * of + c] =
                    (double)x[r * cols + w * l.a_cols + c] + (double)p[w][r % ROWS * of + c];
    }
    const double factor = l.set.factor == 0 ? 1 : (double)l.set.factor;
    for (size_t s = 0; s < BATCH; s++)
        for (size_t part = 0; part < l.parts; part++)
            for (size_t h = 0; h < l.heads; h++)
                for (size_t e = 0; e < l.m * l.n * l.k; e++) {
                    const size_t i = e / l.k / l.n, j = e / l.k % l.n, k = e % l.k;
                    const size_t at_y = place(&l, l.set.y_below, s, part, h, l.m, l.n, i, j);
                    const size_t at_a = l.set.transpose_a
                                            ? place(&l, l.set.a_below, s, part, h, l.k, l.m, k, i)
                                            : place(&l, l.set.a_below, s, part, h, l.m, l.k, i, k);
                    const size_t at_b = l.set.transpose_b
                                            ? place(&l, l.set.b_below, s, part, h, l.n, l.k, j, k)
                                            : place(&l, l.set.b_below, s, part, h, l.k, l.n, k, j);
                    y[at_y] += factor * ab[0][at_a] * ab[1][at_b];
                    want[0][at_a % sizes[0]] += factor * (double)dy[at_y] * ab[1][at_b];
                    want[1][at_b % sizes[1]] += factor * (double)dy[at_y] * ab[0][at_a];
                }
    TEST_OK(clprune_net_forward(job.net, &job.data, true));
    const clprune_mat out = clprune_net_output(job.net, BATCH);
    job.data.output_grad = test_new_mat_of(job.context, "dy", out.rows, out.cols, dy);
    const float *got = net_output(&job, BATCH);
    for (size_t i = 0; i < BATCH * l.all; i++)
        assert_true(fabs((double)got[i] - y[i]) < 1e-4);
    TEST_OK(clprune_net_backward(job.net, &job.data));
    const float *grads = net_grads(&job);
    for (size_t i = 0; i < sizes[0] + sizes[1]; i++)
        assert_true(
            fabs((double)grads[i] - (i < sizes[0] ? want[0][i] : want[1][i - sizes[0]])) < 1e-4);
}

/* ---- attention ---------------------------------------------------------------------------------
 */

enum { TOKENS = 8, COLS = 24, HEADS = 3 };
enum { FUSED, OF_PRODUCTS, OF_WINDOWS, FUSED_WINDOWS, ACROSS };

static clprune_net_value slice(clprune_net *net, const char *name, clprune_net_value x, size_t i)
{
    return clprune_net_slice(net, name, x, CLPRUNE_AXIS_FEATURES, i * COLS, COLS);
}

static void build(clprune_net *net, const net_model *model)
{
    const size_t parts = model->seed == OF_WINDOWS || model->seed == FUSED_WINDOWS ? 2 : 1;
    const bool across = model->seed == ACROSS; /* of channels: q^T k */
    clprune_net_value x = clprune_net_rows(net, TOKENS, model->cols);
    x = clprune_net_linear(net, "stem", x, COLS);
    clprune_net_value qkv = clprune_net_linear(net, "qkv", x, 3 * COLS), y;
    if (model->seed == FUSED || model->seed == FUSED_WINDOWS) {
        y = clprune_net_attention(net, "attn", qkv,
            &(clprune_net_attn){.heads = HEADS, .window = parts > 1 ? TOKENS / parts : 0});
    } else {
        const clprune_net_value q = slice(net, "q", qkv, 0), k = slice(net, "k", qkv, 1),
                                v = slice(net, "v", qkv, 2);
        y = clprune_net_product(net, "scores", q, k,
            &(clprune_net_products){.parts = parts,
                .heads = HEADS,
                .transpose_a = across,
                .transpose_b = !across,
                .y_below = true,
                .factor = 1 / sqrtf((float)COLS / HEADS)});
        y = clprune_net_softmax(net, "probabilities", y);
        y = across
                ? clprune_net_product(net, "sums", v, y,
                      &(clprune_net_products){.heads = HEADS, .transpose_b = true, .b_below = true})
                : clprune_net_product(net, "sums", y, v,
                      &(clprune_net_products){.parts = parts, .heads = HEADS, .a_below = true});
    }
    x = clprune_net_add(net, "sum", x, clprune_net_linear(net, "proj", y, COLS));
    x = clprune_net_linear(net, "head", clprune_net_mean(net, "mean", x), NET_CLASSES);
    clprune_net_cross_entropy(net, x);
}

static const net_model models[] = {{"attention", build, TOKENS, 5, 0, 0, false, false, FUSED},
    {"products", build, TOKENS, 5, 0, 0, false, false, OF_PRODUCTS},
    {"products of windows", build, TOKENS, 5, 0, 0, false, false, OF_WINDOWS},
    {"attention in windows", build, TOKENS, 5, 0, 0, false, false, FUSED_WINDOWS},
    {"products of channels", build, TOKENS, 5, 0, 0, false, false, ACROSS}};

static void presets(void **state)
{
    net_check_presets(*state, BATCH);
}

static void same_as_attention(NO_ROW)
{
    static const size_t pairs[2][2] = {{FUSED, OF_PRODUCTS}, {FUSED_WINDOWS, OF_WINDOWS}};
    for (size_t i = 0; i < COUNT_OF(pairs); i++) {
        net_job fused = net_open(test_context(), &models[pairs[i][0]], BATCH, NULL),
                other = net_open(test_context(), &models[pairs[i][1]], BATCH, NULL);
        net_copy_params(&fused, &other);
        net_close(
            &other, models[pairs[i][1]].name, net_step_grads(&other), net_step_grads(&fused), 2e-5);
    }
}

/* ---- errors ------------------------------------------------------------------------------------
 */

static void bad(NO_ROW)
{
    static const struct {
        clprune_net_products set;
        clprune_status status;
        const char *text;
    } rows[] = {{{.heads = 5}, CLPRUNE_INVALID_SIZE,
                    "layer bad: 8 x 24 and 8 x 24 are not 1 parts of 5 heads whose products exist"},
        {{.parts = 3, .transpose_b = true}, CLPRUNE_INVALID_SIZE, "3 parts of 1 heads"},
        {{.heads = 4}, CLPRUNE_INVALID_SIZE, "1 parts of 4 heads"},
        {{.heads = 3, .transpose_b = true, .b_below = true}, CLPRUNE_INVALID_SIZE, "8 x 24"},
        {{.transpose_b = true, .factor = NAN}, CLPRUNE_INVALID_ARGUMENT,
            "layer bad: its factor is nan"},
        {{.transpose_b = true, .reserved = {0, 1}}, CLPRUNE_INVALID_ARGUMENT,
            "layer bad: a reserved field is not 0"}};
    clprune_context *context = test_context();
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        clprune_net *net;
        TEST_OK(clprune_net_create(context, &(clprune_net_desc){.batch = 2}, &net));
        const clprune_net_value x = clprune_net_rows(net, TOKENS, COLS);
        clprune_net_mean_squared_error(net, clprune_net_product(net, "bad", x, x, &rows[i].set));
        TEST_FAILS(clprune_net_settle(net, NULL), rows[i].status, rows[i].text);
        clprune_net_destroy(net);
    }
    const int32_t lengths[BATCH] = {1, 2};
    const test_buf buffer = test_buf_make(sizeof lengths, lengths);
    net_job job = net_open(context, &models[OF_PRODUCTS], BATCH, NULL);
    job.data.lengths = test_buf_ints(&buffer);
    TEST_FAILS(clprune_net_forward(job.net, &job.data, false), CLPRUNE_INVALID_ARGUMENT,
        "layer scores is a product of two values, which takes no data.lengths");
}

int main(void)
{
    enum { LAYOUTS = 128 };
    static uint64_t numbers[LAYOUTS];
    test_list list = {0};
    for (uint64_t i = 0; i < LAYOUTS; i++) {
        layout l;
        numbers[i] = i;
        if (layout_of(i, &l))
            test_add(&list, layouts, &numbers[i], "%zu parts of %zu heads, %s%s%s%s%s", l.parts,
                l.heads, l.set.transpose_a ? "a^T " : "a ", l.set.transpose_b ? "b^T" : "b",
                l.set.a_below ? ", a below" : "", l.set.b_below ? ", b below" : "",
                l.set.y_below ? ", y below" : "");
    }
    for (size_t i = 0; i < COUNT_OF(models); i++)
        test_add(&list, presets, &models[i], "gradients of %s", models[i].name);
    test_add(&list, same_as_attention, NULL, "attention from products");
    test_add(&list, bad, NULL, "bad");
    return test_run_on_devices("net_product", &list);
}
