/* Cases for the functions that take matrices: the table of test_functions.h, with real values. */
#include <string.h>

#include "support/fault_case.h"
#include "support/test_functions.h"

static const function *f;
static clprune_mat mats[MOST];
static float values[MOST][BATCH * PIXELS * COLS];

static size_t count_of(const function *of)
{
    size_t count = 0;
    while (count < MOST && of->mats[count].name != NULL)
        count++;
    return count;
}

static bool is(const operand *o, const char *name)
{
    return strcmp(o->name, name) == 0;
}

/* Valid values for an operand: indices if it is an index, else numbers around 1. */
static void fill(const operand *o, unsigned salt, float *to)
{
    const size_t count = o->rows * o->cols;
    int32_t words[BATCH * PIXELS * COLS];
    uint8_t *bytes = (uint8_t *)words;
    bool is_words = true;
    memset(words, 0, sizeof words);
    if (is(o, "labels"))
        for (size_t i = 0; i < count; i++)
            words[i] = (int32_t)(i * 5 % COLS);
    else if (is(o, "crow")) /* the first KEPT of 6 blocks a row */
        for (int i = 0; i < CROW; i++)
            words[i] = i % (TOKENS + 1) == 0 ? 0 : i % (TOKENS + 1) == 1 ? 6 : KEPT;
    else if (is(o, "col"))
        for (int i = 0; i < KEPT * BATCH; i++)
            words[i] = i % KEPT % 6;
    else if (is(o, "mask") && (o->flags & BUFFER) != 0)
        for (int i = 0; i < BATCH * TOKENS * COLS / 4; i++)
            bytes[i] = i % (TOKENS * COLS / 4) < KEPT;
    else if (is(o, "positions"))
        for (size_t i = 0; i < count; i++)
            words[i] = 0x32103210;
    else if (is(o, "mask") || is(o, "codes"))
        for (size_t i = 0; i < count; i++)
            words[i] = (int32_t)(0x5a17c3 * (i + 1));
    else
        is_words = false;
    if (is_words)
        memcpy(to, words, count * sizeof *to);
    for (size_t i = 0; !is_words && i < count; i++)
        to[i] = 0.5f + (float)((i * 37 + salt * 11) % 101) / 64;
}

static clprune_saved *store(
    clprune_context *c, clprune_form form, size_t rows, size_t cols, clprune_mat from)
{
    const clprune_keep keep = {.form = form, .block = {1, 4}, .sparsity = 0.5f, .bits = 4};
    clprune_saved *made = NULL;
    from.rows = BATCH * rows;
    from.cols = from.ld = cols;
    TEST_OK(clprune_saved_create(c, "store", &keep, BATCH, rows, cols, &made));
    /* Nothing writes the padding of the store's rows, but all its bytes are compared: they begin as
     * 0. */
    const clprune_saved_info info = clprune_saved_describe(made);
    clprune_mat all = clprune_mat_of(info.buffer, 1, info.sizes.bytes / sizeof(float));
    all.offset = info.offset / sizeof(float);
    TEST_OK(clprune_mat_fill(c, 0, all, NULL));
    if (form == CLPRUNE_FORM_MASK)
        TEST_OK(clprune_activation_forward(
            c, CLPRUNE_ACTIVATION_RELU, 0, BATCH, from, CLPRUNE_NO_MAT, from, made, NULL));
    else
        TEST_OK(clprune_saved_store(made, 0, BATCH, from, NULL));
    return made;
}

/* The store that a function uses, with something in it. */
static void open_store(clprune_context *c)
{
    const operand x = {.name = "x", .rows = BATCH * PIXELS, .cols = COLS};
    clprune_mat from;
    fill(&x, 77, values[0]);
    TEST_OK(clprune_mat_create(c, CLPRUNE_MEMORY_INPUT, "x", x.rows, x.cols, &from));
    TEST_OK(clprune_mat_write(c, from, values[0]));
    const struct {
        clprune_saved **store;
        clprune_form form;
        size_t rows, cols;
    } stores[] = {{&with.dense, CLPRUNE_FORM_DENSE, TOKENS, COLS},
        {&with.pruned, CLPRUNE_FORM_PRUNED, TOKENS, COLS},
        {&with.mean, CLPRUNE_FORM_MEAN, TOKENS, COLS},
        {&with.quantised, CLPRUNE_FORM_QUANTISED, TOKENS, COLS},
        {&with.mask, CLPRUNE_FORM_MASK, TOKENS, COLS},
        {&with.code, CLPRUNE_FORM_GELU_CODE, TOKENS, COLS},
        {&with.pixels, CLPRUNE_FORM_DENSE, PIXELS, CHANNELS}};
    for (size_t i = 0; i < sizeof stores / sizeof stores[0]; i++)
        if (f->store == stores[i].store)
            *f->store = store(c, stores[i].form, stores[i].rows, stores[i].cols, from);
    clprune_buffer_release(c, from.buffer);
}

static void open_function(clprune_context *c, const void *row)
{
    const clprune_linear_desc linear = {.in = COLS, .out = OUT};
    const clprune_linear_desc token = {.in = TOKENS, .out = OUT, .axis = CLPRUNE_AXIS_ROWS};
    const clprune_conv2d_desc conv = {.in = CHANNELS, .out = OUT, .kernel = {2, 2}};
    f = row;
    context = c;
    TEST_OK(clprune_linear_create(c, &linear, &with.linear));
    TEST_OK(clprune_linear_create(c, &token, &with.token));
    TEST_OK(clprune_conv2d_create(c, &conv, &with.conv));
    if (f->store != NULL)
        open_store(c);
    for (size_t i = 0; i < count_of(f); i++) {
        const operand *o = &f->mats[i];
        TEST_OK(clprune_mat_create(c, CLPRUNE_MEMORY_INPUT, o->name, o->rows, o->cols, &mats[i]));
        fill(o, (unsigned)i, values[i]);
    }
}

static void prepare_function(clprune_context *c)
{
    for (size_t i = 0; i < count_of(f); i++)
        TEST_OK(clprune_mat_write(c, mats[i], values[i]));
}

static clprune_status call_function(clprune_context *c)
{
    (void)c;
    return f->call(mats);
}

static void result_of_function(clprune_context *c, fault_bytes *to)
{
    for (size_t i = 0; i < count_of(f); i++)
        if ((f->mats[i].flags & OUTPUT) != 0)
            fault_add_mat(to, c, mats[i]);
    if (f->store == NULL)
        return;
    const clprune_saved_info info = clprune_saved_describe(*f->store);
    fault_add_buffer(to, c, info.buffer, info.offset, info.sizes.bytes);
}

static void close_function(clprune_context *c)
{
    for (size_t i = 0; i < count_of(f); i++)
        clprune_buffer_release(c, mats[i].buffer);
    if (f->store != NULL)
        clprune_saved_destroy(*f->store);
    clprune_linear_destroy(with.linear);
    clprune_linear_destroy(with.token);
    clprune_conv2d_destroy(with.conv);
    memset(&with, 0, sizeof with);
}

size_t fault_function_cases(const fault_case **cases)
{
    enum { COUNT = sizeof functions / sizeof functions[0] };
    static fault_case made[COUNT];
    for (size_t i = 0; i < COUNT; i++)
        made[i] = (fault_case){functions[i].name, &functions[i], open_function, prepare_function,
            call_function, result_of_function, NULL, close_function, NULL};
    *cases = made;
    return COUNT;
}
