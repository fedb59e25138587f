/* Attention in windows of images, with a bias of a table for each head and masks, as Swin's, and
 * cross-attention: every preset's gradients; the same by full attention whose mask hides other
 * windows; one table of several layers; passes that add up. */
#include <string.h>

#include "net/net_models.h"
#include "support/test_buffer.h"

enum { BATCH = 5, SIDE = 4, WINDOW = 4, WINDOWS = 4, ALL = SIDE * SIDE, COLS = 16, HEADS = 2 };
enum { ENTRIES = 9 }; /* distances of -1, 0 and 1 along each axis */

/* Rows are pixels in the order of windows of 2 x 2. */
static size_t pixel_of(size_t row)
{
    const size_t window = row / WINDOW, place = row % WINDOW;
    return (window / 2 * 2 + place / 2) * SIDE + window % 2 * 2 + place % 2;
}

static uint32_t entry_of(size_t i, size_t j)
{
    return (uint32_t)((1 + i / 2 - j / 2) * 3 + 1 + i % 2 - j % 2);
}

/* What mask `window` adds to place i and j: the last window hides its two halves from each other.
 */
static float mask_of(size_t window, size_t i, size_t j)
{
    return window == 3 && i / 2 != j / 2 ? -1e4f : window == 1 && i == j ? 0.5f : 0;
}

enum { IN_WINDOWS, FULL, MASKS_ALONE, TABLE_ALONE, SHARED };

static clprune_net_value attend(
    clprune_net *net, const char *name, clprune_net_value qkv, uint64_t way)
{
    static uint32_t index[ALL * ALL];
    static float mask[ALL * ALL];
    const size_t rows = way == FULL ? ALL : WINDOW;
    for (size_t i = 0; i < rows * rows; i++)
        index[i] = entry_of(i / rows % WINDOW, i % rows % WINDOW);
    for (size_t i = 0; i < ALL * ALL; i++) { /* of pixels, or window by window */
        const size_t a = i / ALL, b = i % ALL;
        if (way == FULL)
            mask[pixel_of(a) * ALL + pixel_of(b)] =
                a / WINDOW == b / WINDOW ? mask_of(a / WINDOW, a % WINDOW, b % WINDOW) : -1e4f;
        else if (i < WINDOWS * WINDOW * WINDOW)
            mask[i] = mask_of(i / WINDOW / WINDOW, i / WINDOW % WINDOW, i % WINDOW);
        if (way == FULL)
            index[pixel_of(a) * ALL + pixel_of(b)] = entry_of(a % WINDOW, b % WINDOW);
    }
    const clprune_net_bias bias = {.table = way == MASKS_ALONE ? NULL : "table",
        .entries = ENTRIES,
        .index = index,
        .masks = way == TABLE_ALONE ? 0
                 : way == FULL      ? 1
                                    : WINDOWS,
        .mask = mask};
    return clprune_net_attention(net, name, qkv,
        &(clprune_net_attn){
            .heads = HEADS, .kv_heads = 1, .window = way == FULL ? 0 : WINDOW, .bias = &bias});
}

static clprune_net_value add_block(
    clprune_net *net, const char *name, clprune_net_value x, uint64_t way)
{
    clprune_net_part(net, name);
    clprune_net_value t = clprune_net_layer_norm(net, "ln", x);
    t = clprune_net_linear(net, "qkv", t, COLS + 2 * COLS / HEADS);
    t = attend(net, "attn", t, way);
    x = clprune_net_add(net, "sum", x, clprune_net_linear(net, "proj", t, COLS));
    clprune_net_part(net, NULL);
    return x;
}

static void build(clprune_net *net, const net_model *model)
{
    static const clprune_permute_desc windows = {5, {2, 2, 2, 2, COLS}, {0, 2, 1, 3, 4}};
    clprune_net_value x = clprune_net_rows(net, ALL, model->cols);
    x = clprune_net_linear(net, "stem", x, COLS);
    if (model->seed != FULL)
        x = clprune_net_permute(net, "windows", x, &windows, COLS, (clprune_extent){0, 0});
    x = add_block(net, "one", x, model->seed);
    if (model->seed != FULL)
        x = clprune_net_permute(net, "pixels", x, &windows, COLS, (clprune_extent){SIDE, SIDE});
    x = clprune_net_gelu(net, "gelu", clprune_net_linear(net, "fc", x, 2 * COLS));
    if (model->seed == SHARED) {
        x = clprune_net_linear(net, "fc2", x, COLS);
        x = add_block(net, "two", x, TABLE_ALONE);
        clprune_net_tie(net, "two.attn.table", "one.attn.table");
    }
    /* merged patches */
    x = clprune_net_permute(net, "merge", x,
        &(clprune_permute_desc){1, {ALL * (model->seed == SHARED ? COLS : 2 * COLS)}, {0}},
        4 * COLS, (clprune_extent){0, 0});
    x = clprune_net_linear(net, "head", clprune_net_mean(net, "mean", x), NET_CLASSES);
    clprune_net_cross_entropy(net, x);
}

/* Rows that attend to fewer others, and to more. */
static void build_cross(clprune_net *net, const net_model *model)
{
    clprune_net_value x = clprune_net_rows(net, ALL, model->cols);
    x = clprune_net_linear(net, "stem", x, COLS);
    clprune_net_value t = clprune_net_slice(net, "few", x, CLPRUNE_AXIS_ROWS, 2, 5);
    t = clprune_net_gelu(net, "gelu", clprune_net_linear(net, "kv", t, COLS));
    t = clprune_net_cross_attention(
        net, "fewer", clprune_net_linear(net, "q", x, COLS), t, 2, 1, 0);
    x = clprune_net_add(net, "sum", x, clprune_net_linear(net, "proj", t, COLS));
    t = clprune_net_concat(net, "twice", x, x, CLPRUNE_AXIS_ROWS);
    t = clprune_net_linear(net, "kv2", clprune_net_layer_norm(net, "ln", t), 2 * COLS);
    x = clprune_net_cross_attention(net, "more", x, t, HEADS, 0, 0);
    x = clprune_net_linear(net, "head", clprune_net_mean(net, "mean", x), NET_CLASSES);
    clprune_net_cross_entropy(net, x);
}

static const net_model models[] = {{"windows", build, ALL, 3, 0, 0, false, false, IN_WINDOWS},
    {"full attention", build, ALL, 3, 0, 0, false, false, FULL},
    {"masks alone", build, ALL, 3, 0, 0, false, false, MASKS_ALONE},
    {"a table alone", build, ALL, 3, 0, 0, false, false, TABLE_ALONE},
    {"a table of two layers", build, ALL, 3, 0, 0, false, false, SHARED},
    {"cross-attention", build_cross, ALL, 3, 0, 0, false, false, 0}};

static void gradients(void **state)
{
    net_check_presets(*state, BATCH);
}

static void same_as_full(NO_ROW)
{
    net_job windows = net_open(test_context(), &models[IN_WINDOWS], BATCH, NULL),
            full = net_open(test_context(), &models[FULL], BATCH, NULL);
    net_copy_params(&windows, &full);
    const float *want = net_step_grads(&windows);
    net_close(&full, "full attention", net_step_grads(&full), want, 2e-5);
}

static void added(NO_ROW)
{
    const clprune_net_desc adds = {.batch = BATCH, .adds = true};
    net_job once = net_open(test_context(), &models[SHARED], BATCH, NULL),
            twice = net_open_desc(test_context(), &models[SHARED], &adds, NULL);
    float *want = net_step_grads(&once);
    net_copy_params(&once, &twice);
    net_step(&twice, BATCH);
    twice.data.add = true;
    for (size_t i = 0; i < once.elements; i++)
        want[i] *= 2;
    net_close(&twice, "two passes", net_step_grads(&twice), want, 1e-5);
}

/* A sample in the first or the last place of a batch has the same windows and masks. */
static void parts(NO_ROW)
{
    net_job job = net_open(test_context(), &models[IN_WINDOWS], BATCH, NULL);
    TEST_OK(clprune_net_forward(job.net, &job.data, false));
    const float *all = net_output(&job, BATCH);
    net_job one = net_open(test_context(), &models[IN_WINDOWS], 1, NULL);
    net_copy_params(&job, &one);
    one.data.rows = clprune_mat_rows(job.data.rows, (BATCH - 1) * ALL, ALL);
    TEST_OK(clprune_net_forward(one.net, &one.data, false));
    const float *last = net_output(&one, 1);
    for (size_t i = 0; i < NET_CLASSES; i++)
        assert_true(fabsf(last[i] - all[(BATCH - 1) * NET_CLASSES + i]) < 1e-5f);
}

static void bad(NO_ROW)
{
    static const uint32_t index[16] = {0, 1, 2, 3, 4};
    static const float mask[32] = {[7] = NAN}, plain[16];
    static const clprune_net_bias empty = {.entries = 0},
                                  no_index = {.table = "table", .entries = 5},
                                  few = {.table = "table", .entries = 4, .index = index},
                                  no_mask = {.masks = 2}, three = {.masks = 3, .mask = plain},
                                  nan = {.masks = 2, .mask = mask},
                                  reserved = {.masks = 1, .mask = plain, .reserved = {0, 1}};
    static const struct {
        clprune_net_attn attn;
        clprune_status status;
        const char *text;
    } rows[] = {{{.heads = HEADS, .window = 3}, CLPRUNE_INVALID_SIZE,
                    "layer bad: windows of 3 rows do not divide the 16 of a sample"},
        {{.heads = HEADS, .window = 17}, CLPRUNE_INVALID_SIZE, "windows of 17 rows"},
        {{.heads = HEADS, .window = 4, .queries = 2}, CLPRUNE_INVALID_SIZE, "queries"},
        {{.heads = HEADS, .window = 4, .bias = &empty}, CLPRUNE_INVALID_ARGUMENT,
            "layer bad: its bias has no table of 0 entries"},
        {{.heads = HEADS, .window = 4, .bias = &no_index}, CLPRUNE_INVALID_ARGUMENT,
            "no table of 5 entries with an index"},
        {{.heads = HEADS, .window = 4, .bias = &few}, CLPRUNE_INVALID_ARGUMENT,
            "layer bad: query 1 and key 0 have entry 4 of 4"},
        {{.heads = HEADS, .window = 4, .bias = &no_mask}, CLPRUNE_INVALID_ARGUMENT, "no mask"},
        {{.heads = HEADS, .window = 4, .bias = &three}, CLPRUNE_INVALID_SIZE,
            "layer bad: 3 masks do not divide the 4 windows of a sample"},
        {{.heads = HEADS, .window = 4, .bias = &nan}, CLPRUNE_INVALID_ARGUMENT,
            "layer bad: element 7 of its mask is"},
        {{.heads = HEADS, .window = 4, .bias = &reserved}, CLPRUNE_INVALID_ARGUMENT,
            "layer bad: a reserved field is not 0"}};
    clprune_context *context = test_context();
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        clprune_net *net;
        TEST_OK(clprune_net_create(context, &(clprune_net_desc){.batch = 2}, &net));
        clprune_net_value x = clprune_net_rows(net, ALL, 3 * COLS);
        x = clprune_net_attention(net, "bad", x, &rows[i].attn);
        clprune_net_mean_squared_error(net, x);
        TEST_FAILS(clprune_net_settle(net, NULL), rows[i].status, rows[i].text);
        clprune_net_destroy(net);
    }
    for (size_t i = 0; i < 4; i++) { /* of 16 and 8 columns: heads, heads of k */
        static const size_t heads[4][2] = {{3, 3}, {0, 0}, {4, 3}, {2, 2}};
        clprune_net *net;
        TEST_OK(clprune_net_create(context, &(clprune_net_desc){.batch = 2}, &net));
        clprune_net_value x = clprune_net_linear(net, "q", clprune_net_rows(net, ALL, 8), COLS);
        clprune_net_value y = clprune_net_linear(net, "kv", x, 8);
        y = clprune_net_cross_attention(net, "bad", x, y, heads[i][0], heads[i][1], 0);
        clprune_net_mean_squared_error(net, y);
        TEST_FAILS(clprune_net_settle(net, NULL), CLPRUNE_INVALID_SIZE,
            "layer bad: 16 and 8 columns are not ");
        clprune_net_destroy(net);
    }
    /* lengths are those of whole samples */
    const int32_t lengths[BATCH] = {1, 2, 3, 4, 5};
    const test_buf buffer = test_buf_make(sizeof lengths, lengths);
    net_job job = net_open(context, &models[IN_WINDOWS], BATCH, NULL);
    job.data.lengths = test_buf_ints(&buffer);
    TEST_FAILS(clprune_net_forward(job.net, &job.data, false), CLPRUNE_INVALID_ARGUMENT,
        "layer one.attn has windows, which take no data.lengths");
}

int main(void)
{
    test_list list = {0};
    for (size_t i = 0; i < COUNT_OF(models); i++)
        test_add(&list, gradients, &models[i], "gradients of %s", models[i].name);
    test_add(&list, same_as_full, NULL, "windows and full attention");
    test_add(&list, added, NULL, "passes that add up");
    test_add(&list, parts, NULL, "parts of a batch");
    test_add(&list, bad, NULL, "bad");
    return test_run_on_devices("net_windows", &list);
}
