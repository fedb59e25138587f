/* Sizes around 2^31, 2^32 and 2^64 in every function that creates or measures: the exact status, by
 * integers of 128 bits, a text, and no object. All of it runs in a dry context with a small budget:
 * nothing is allocated. */
#include <limits.h>

#include "support/test_objects.h"

__extension__ typedef unsigned __int128 wide;

#define BUDGET ((size_t)1 << 20) /* bytes */

static clprune_context *context;
static size_t calls;

static void expect(clprune_status status, clprune_status expected, const char *name,
    const char *what, const char *text)
{
    if (status != expected || (status != CLPRUNE_SUCCESS && text[0] == 0))
        fail_msg("%s, %s: %s \"%s\", expected %s", name, what, clprune_status_name(status),
            status == CLPRUNE_SUCCESS ? "" : text, clprune_status_name(expected));
    calls++;
}

/* Each case has a context of its own. */
static void open_context(void)
{
    const clprune_context_options options = {.mem_limit = BUDGET};
    context = test_open_dry(NULL, &options);
    calls = 0;
}

/* ---- sizes ----------------------------------------------------------------------------------- */

static wide ceil_div(wide a, wide b)
{
    return (a + b - 1) / b;
}

/* a * b, or 2^100, which stands for more than any size_t. */
static wide times(wide a, wide b)
{
    const wide most = (wide)1 << 100;
    return a == 0 || b == 0 ? 0 : a > most / b ? most : a * b;
}

#define TOO_MANY ((wide)1 << 100)

enum { DIMS = 3 };

/* A function of up to three sizes. `bytes` is what it must come to; TOO_MANY where another limit
 * says no. */
typedef struct sized {
    const char *name;
    clprune_status (*call)(const size_t *d, size_t *bytes);
    wide (*bytes)(const size_t *d);
    size_t good[DIMS]; /* 0: there is no such size */
    bool allocates;
} sized;

static clprune_status mat_create(const size_t *d, size_t *bytes)
{
    clprune_mat mat = {.rows = 7};
    const clprune_status status =
        clprune_mat_create(context, CLPRUNE_MEMORY_INPUT, "m", d[0], d[1], &mat);
    assert_true((status == CLPRUNE_SUCCESS) == (mat.buffer != NULL));
    *bytes = mat.rows * mat.cols * sizeof(float);
    clprune_buffer_release(context, mat.buffer);
    return status;
}

static wide floats(const size_t *d)
{
    return times(times(d[0], d[1]), sizeof(float));
}

static clprune_status mats_create(const size_t *d, size_t *bytes)
{
    static const char *const names[] = {"a", "b"};
    clprune_mat mats[2] = {{.rows = d[0], .cols = d[1]}, {.rows = d[2], .cols = 1}};
    const clprune_status status =
        clprune_mats_create(context, CLPRUNE_MEMORY_INPUT, 2, names, mats);
    assert_true((status == CLPRUNE_SUCCESS) == (mats[0].buffer != NULL));
    *bytes = (d[0] * d[1] + d[2]) * sizeof(float);
    clprune_buffer_release(context, mats[0].buffer);
    return status;
}

static wide two_mats(const size_t *d)
{
    return floats(d) + times(d[2], sizeof(float));
}

static clprune_status buffer_create(const size_t *d, size_t *bytes)
{
    cl_mem buffer = (cl_mem)&calls;
    const clprune_status status =
        clprune_buffer_create(context, CLPRUNE_MEMORY_INPUT, "b", d[0], &buffer);
    assert_true((status == CLPRUNE_SUCCESS) == (buffer != NULL));
    *bytes = d[0];
    clprune_buffer_release(context, buffer);
    return status;
}

static wide as_given(const size_t *d)
{
    return d[0];
}

/* Blocks of 1 x 16, two of which are kept. */
static clprune_bsr_desc bsr_desc(const size_t *d)
{
    return (clprune_bsr_desc){d[0], d[1], d[2], {1, 16}, d[1] > 0 && d[2] > 0 ? 1 : 0};
}

static wide bsr_total(const size_t *d)
{
    const wide block_cols = ceil_div(d[2], 16), blocks = times(d[1], block_cols);
    const wide kept = d[1] > 0 && d[2] > 0 ? d[0] : 0;
    if (blocks > INT_MAX || d[1] >= INT_MAX || times(times(d[0], d[1]), times(d[2], 4)) >> 64 != 0)
        return TOO_MANY;
    return times(kept, 16 * sizeof(float) + sizeof(int32_t)) +
           times(d[0], (wide)(d[1] + 1) * sizeof(int32_t));
}

static clprune_status bsr_query(const size_t *d, size_t *bytes)
{
    const clprune_bsr_desc desc = bsr_desc(d);
    clprune_bsr_sizes sizes = {.total_bytes = 1};
    const clprune_status status = clprune_bsr_size_query(&desc, &sizes);
    *bytes = sizes.total_bytes;
    assert_true(status == CLPRUNE_SUCCESS || sizes.total_bytes == 0);
    return status;
}

static clprune_status bsr_create(const size_t *d, size_t *bytes)
{
    const clprune_bsr_desc desc = bsr_desc(d);
    clprune_bsr_sizes sizes;
    clprune_bsr bsr;
    const clprune_status status =
        clprune_bsr_create(context, CLPRUNE_MEMORY_ACTIVATIONS, "x", &desc, &bsr);
    assert_true((status == CLPRUNE_SUCCESS) == (bsr.values != NULL));
    if (status == CLPRUNE_SUCCESS)
        TEST_OK(clprune_bsr_size_query(&desc, &sizes));
    *bytes = status == CLPRUNE_SUCCESS ? sizes.total_bytes : 0;
    clprune_bsr_destroy(context, &bsr);
    return status;
}

/* Stores: the form is the function's. */
static wide blob(const size_t *d, wide bytes)
{
    return times(times(d[0], d[1]), times(d[2], sizeof(float))) > SIZE_MAX - CLPRUNE_SAVED_ALIGN
               ? TOO_MANY
               : ceil_div(bytes, CLPRUNE_SAVED_ALIGN) * CLPRUNE_SAVED_ALIGN;
}

static clprune_keep keep_of(clprune_form form)
{
    return (clprune_keep){.form = form, .sparsity = 0.5f, .bits = 4, .cell = 1};
}

static clprune_status saved_query(clprune_form form, const size_t *d, size_t *bytes)
{
    const clprune_keep keep = keep_of(form);
    clprune_saved_sizes sizes = {.bytes = 1};
    const clprune_status status = clprune_saved_size_query(&keep, d[0], d[1], d[2], &sizes);
    *bytes = sizes.bytes;
    assert_true(status == CLPRUNE_SUCCESS || sizes.bytes == 0);
    return status;
}

/* The bytes of a store that was made, or not. */
static clprune_status measure(clprune_status status, clprune_saved *saved, size_t *bytes)
{
    assert_true((status == CLPRUNE_SUCCESS) == (saved != NULL));
    *bytes = clprune_saved_describe(saved).sizes.bytes;
    clprune_saved_destroy(saved);
    return status;
}

static clprune_status saved_create(clprune_form form, const size_t *d, size_t *bytes)
{
    const clprune_keep keep = keep_of(form);
    clprune_saved *saved = (clprune_saved *)&calls;
    const clprune_status status =
        clprune_saved_create(context, "s", &keep, d[0], d[1], d[2], &saved);
    return measure(status, saved, bytes);
}

#define STORE(name, form, expression)                                                              \
    static wide name##_bytes(const size_t *d)                                                      \
    {                                                                                              \
        const wide rows = times(d[0], d[1]), cols = d[2];                                          \
        (void)rows;                                                                                \
        return blob(d, expression);                                                                \
    }                                                                                              \
    static clprune_status name##_query(const size_t *d, size_t *bytes)                             \
    {                                                                                              \
        return saved_query(form, d, bytes);                                                        \
    }                                                                                              \
    static clprune_status name##_create(const size_t *d, size_t *bytes)                            \
    {                                                                                              \
        return saved_create(form, d, bytes);                                                       \
    }

STORE(dense, CLPRUNE_FORM_DENSE, times(rows, cols * 4))
STORE(mean, CLPRUNE_FORM_MEAN, times(d[0], cols * 4))
STORE(bits, CLPRUNE_FORM_MASK, rows >> 64 != 0 ? TOO_MANY : times(rows, ceil_div(cols, 32) * 4))
STORE(codes, CLPRUNE_FORM_GELU_CODE,
    rows >> 64 != 0 || cols * 4 >> 64 != 0 ? TOO_MANY : times(rows, ceil_div(cols * 4, 32) * 4))
STORE(quantised, CLPRUNE_FORM_QUANTISED,
    times(d[1], cols) > UINT32_MAX ? TOO_MANY
                                   : times(rows, (ceil_div(cols, 16) * 2 + ceil_div(cols, 64)) * 4))
STORE(pooled, CLPRUNE_FORM_POOLED, times(rows, cols * 4))

static clprune_status reshape(const size_t *d, size_t *bytes)
{
    const clprune_keep keep = keep_of(CLPRUNE_FORM_DENSE);
    clprune_saved *saved = NULL;
    TEST_OK(clprune_saved_create(context, "s", &keep, 2, 3, 4, &saved));
    const clprune_status status = clprune_saved_reshape(saved, d[0], d[1], d[2]);
    const clprune_saved_info info = clprune_saved_describe(saved);
    *bytes = info.sizes.bytes;
    if (status != CLPRUNE_SUCCESS) /* as it was */
        assert_true(info.batch == 2 && info.rows == 3 && info.cols == 4);
    clprune_saved_destroy(saved);
    return status;
}

#define QUERY(name, object)                                                                        \
    static clprune_status name##_query(const size_t *d, size_t *bytes)                             \
    {                                                                                              \
        clprune_##object##_sizes sizes = {.bytes = 1, .cols = 1};                                  \
        const clprune_status status = clprune_##object##_size_query(d[0], d[1], &sizes);           \
        *bytes = sizes.bytes;                                                                      \
        assert_true(status == CLPRUNE_SUCCESS || (sizes.bytes == 0 && sizes.cols == 0));           \
        return status;                                                                             \
    }

QUERY(mask, relu_mask)
QUERY(position, max_pool)

static wide mask_words(const size_t *d)
{
    return times(d[0], ceil_div(d[1], 32) * 4);
}

static wide position_words(const size_t *d)
{
    return times(d[0], ceil_div(d[1], 16) * 8);
}

static clprune_status linear_saved(const size_t *d, size_t *bytes)
{
    const clprune_linear_desc desc = {.in = 5, .out = 3};
    clprune_linear *layer = NULL;
    clprune_saved *saved = (clprune_saved *)&calls;
    TEST_OK(clprune_linear_create(context, &desc, &layer));
    const clprune_status status = clprune_linear_saved_create(layer, d[0], d[1], "s", &saved);
    clprune_linear_destroy(layer);
    return measure(status, saved, bytes);
}

static wide linear_bytes(const size_t *d)
{
    return dense_bytes((const size_t[]){d[0], d[1], 5});
}

static clprune_status conv_saved(const size_t *d, size_t *bytes)
{
    const clprune_conv2d_desc desc = {.in = 5, .out = 3, .kernel = {1, 1}};
    clprune_conv2d *layer = NULL;
    clprune_saved *saved = (clprune_saved *)&calls;
    TEST_OK(clprune_conv2d_create(context, &desc, &layer));
    const clprune_extent image = {d[1], d[2]};
    const clprune_status status = clprune_conv2d_saved_create(layer, d[0], image, "s", &saved);
    clprune_conv2d_destroy(layer);
    return measure(status, saved, bytes);
}

static wide conv_bytes(const size_t *d)
{
    const wide pixels = times(d[1], d[2]);
    if (pixels >> 64 != 0 || d[1] > UINT32_MAX || d[2] > UINT32_MAX)
        return TOO_MANY;
    return dense_bytes((const size_t[]){d[0], (size_t)pixels, 5});
}

/* A layer has no memory of its own: 0 bytes, where its weights have less than 2^31 columns. */
static clprune_status conv_create(const size_t *d, size_t *bytes)
{
    const clprune_conv2d_desc desc = {.in = d[0], .out = d[1], .kernel = {d[2], 3}};
    clprune_conv2d *layer = (clprune_conv2d *)&calls;
    const clprune_status status = clprune_conv2d_create(context, &desc, &layer);
    assert_true((status == CLPRUNE_SUCCESS) == (layer != NULL));
    *bytes = 0;
    clprune_conv2d_destroy(layer);
    return status;
}

static wide conv_weights(const size_t *d)
{
    return times(d[0], times(d[2], 3)) > INT32_MAX || d[1] > INT32_MAX ? TOO_MANY : 0;
}

static const sized sized_functions[] = {
    {"mat_create", mat_create, floats, {3, 4}, true},
    {"mats_create", mats_create, two_mats, {3, 4, 5}, true},
    {"buffer_create", buffer_create, as_given, {100}, true},
    {"bsr_size_query", bsr_query, bsr_total, {2, 3, 40}, false},
    {"bsr_create", bsr_create, bsr_total, {2, 3, 40}, true},
    {"saved_size_query, dense", dense_query, dense_bytes, {2, 3, 4}, false},
    {"saved_size_query, mean", mean_query, mean_bytes, {2, 3, 4}, false},
    {"saved_size_query, mask", bits_query, bits_bytes, {2, 3, 4}, false},
    {"saved_size_query, GELU code", codes_query, codes_bytes, {2, 3, 4}, false},
    {"saved_size_query, quantised", quantised_query, quantised_bytes, {2, 3, 4}, false},
    {"saved_size_query, pooled", pooled_query, pooled_bytes, {2, 3, 4}, false},
    {"saved_create, dense", dense_create, dense_bytes, {2, 3, 4}, true},
    {"saved_create, mean", mean_create, mean_bytes, {2, 3, 4}, true},
    {"saved_create, mask", bits_create, bits_bytes, {2, 3, 4}, true},
    {"saved_create, GELU code", codes_create, codes_bytes, {2, 3, 4}, true},
    {"saved_create, quantised", quantised_create, quantised_bytes, {2, 3, 4}, true},
    {"saved_create, pooled", pooled_create, pooled_bytes, {2, 3, 4}, true},
    {"saved_reshape", reshape, dense_bytes, {2, 3, 4}, false},
    {"relu_mask_size_query", mask_query, mask_words, {3, 70}, false},
    {"max_pool_size_query", position_query, position_words, {3, 70}, false},
    {"linear_saved_create", linear_saved, linear_bytes, {2, 3}, true},
    {"conv2d_saved_create", conv_saved, conv_bytes, {2, 3, 4}, true},
    {"conv2d_create", conv_create, conv_weights, {2, 3, 4}, false},
};

enum { FUNCTIONS = COUNT_OF(sized_functions) };

static const size_t sizes[] = {0, 1, ((size_t)1 << 31) - 1, (size_t)1 << 31, UINT32_MAX,
    (size_t)1 << 32, ((size_t)1 << 32) + 1, (size_t)1 << 61, (size_t)1 << 62, (size_t)1 << 63,
    SIZE_MAX - 1, SIZE_MAX};
enum { SIZES = COUNT_OF(sizes) };

static void check_size(const sized *f, const size_t *d)
{
    const wide want = f->bytes(d);
    const bool is_reshape = f->call == reshape;
    size_t bytes = 0;
    char what[128];
    (void)snprintf(what, sizeof what, "sizes %zu, %zu, %zu", d[0], d[1], d[2]);
    const clprune_status status = f->call(d, &bytes);
    const char *text = clprune_last_error(context);
    clprune_status expected = CLPRUNE_SUCCESS;
    if (want >> 64 != 0)
        expected = CLPRUNE_SIZE_OVERFLOW;
    else if (f->allocates && want > BUDGET)
        expected = CLPRUNE_OUT_OF_DEVICE_MEMORY;
    else if (is_reshape && want > 128) /* the store's bytes */
        expected = CLPRUNE_INVALID_SIZE;
    expect(status, expected, f->name, what, text[0] != 0 ? text : clprune_last_error(NULL));
    if (status == CLPRUNE_SUCCESS && bytes != want)
        fail_msg("%s, %s: %zu bytes, expected %zu", f->name, what, bytes, (size_t)want);
}

/* Each size alone, and each pair, at every limit. */
static void at_the_limits(void **state)
{
    const sized *f = *state;
    const size_t first = f->call == conv_create ? 1 : 0; /* layers need at least one of each */
    open_context();
    check_size(f, f->good);
    for (size_t i = 0; i < DIMS; i++)
        for (size_t k = i; k < DIMS; k++)
            for (size_t a = first; a < SIZES; a++)
                for (size_t b = first; b < SIZES; b++) {
                    size_t d[DIMS];
                    memcpy(d, f->good, sizeof d);
                    if (d[i] == 0 || d[k] == 0 || (i == k && b > first))
                        continue;
                    d[k] = sizes[b];
                    d[i] = sizes[a];
                    check_size(f, d);
                }
    assert_int_equal(test_live(context, CLPRUNE_MEMORY_TOTAL), 0);
    print_message("    %zu calls\n", calls);
}

/* ---- regions and parts ----------------------------------------------------------------------- */

/* A store in the caller's buffer: the region must begin at a multiple of 64 bytes, hold the store
 * and lie in the buffer. */
static void regions(NO_ROW)
{
    const clprune_keep keep = keep_of(CLPRUNE_FORM_DENSE);
    open_context();
    const cl_mem buffer = test_new_mat(context, 1, 1024 / sizeof(float)).buffer;
    for (size_t offset = 0; offset <= 1088; offset++)
        for (size_t k = 0; k < 4; k++) {
            const size_t bytes = (const size_t[]){127, 128, 192, SIZE_MAX}[k];
            clprune_saved *saved = (clprune_saved *)&calls;
            const clprune_status expected =
                bytes < 128                             ? CLPRUNE_INVALID_SIZE
                : offset % 64 != 0                      ? CLPRUNE_INVALID_ARGUMENT
                : bytes == SIZE_MAX && offset > 0       ? CLPRUNE_SIZE_OVERFLOW
                : bytes > 1024 || offset + bytes > 1024 ? CLPRUNE_INVALID_SIZE
                                                        : CLPRUNE_SUCCESS;
            const char *part = bytes < 128                       ? "the region has"
                               : offset % 64 != 0                ? "offset"
                               : bytes == SIZE_MAX && offset > 0 ? ""
                                                                 : "buffer";
            char what[64];
            (void)snprintf(what, sizeof what, "%zu bytes from byte %zu", bytes, offset);
            const clprune_status status =
                clprune_saved_create_in(context, &keep, 2, 3, 4, buffer, offset, bytes, &saved);
            expect(status, expected, "saved_create_in", what, clprune_last_error(context));
            if (status != CLPRUNE_SUCCESS)
                test_says(clprune_last_error(context), part);
            assert_true((status == CLPRUNE_SUCCESS) == (saved != NULL));
            clprune_saved_destroy(saved);
        }
    clprune_saved *saved = NULL;
    TEST_FAILS_IN(context, clprune_saved_create_in(context, &keep, 2, 3, 4, NULL, 0, 128, &saved),
        CLPRUNE_INVALID_ARGUMENT, "buffer");
}

/* Parts of a BSR matrix at offsets that are no multiple of their elements' size. */
static void misaligned_parts(NO_ROW)
{
    const clprune_bsr_desc desc = {1, 2, 4, {1, 4}, 1};
    clprune_mat mats[4];
    open_context();
    for (size_t i = 0; i < 4; i++)
        mats[i] = test_new_mat(context, 2, 4);
    clprune_bsr bsr = {desc, mats[1].buffer, mats[2].buffer, mats[3].buffer};
    size_t *const offsets[] = {&bsr.offset.values, &bsr.offset.crow, &bsr.offset.col};
    for (size_t i = 0; i < 3; i++)
        for (size_t offset = 1; offset < 4; offset++) {
            char what[32];
            (void)snprintf(what, sizeof what, "part %zu at %zu", i, offset);
            *offsets[i] = offset;
            expect(clprune_prune(
                       context, CLPRUNE_NORM_L2, CLPRUNE_CRITERION_LARGEST, 1, mats[0], &bsr, NULL),
                CLPRUNE_INVALID_ARGUMENT, "prune", what, clprune_last_error(context));
            *offsets[i] = 0;
        }
}

/* Sizes need a place. */
static void no_place(NO_ROW)
{
    const clprune_status bad = CLPRUNE_INVALID_ARGUMENT;
    TEST_FAILS_IN(NULL, clprune_relu_mask_size_query(2, 3, NULL), bad, "sizes is NULL");
    TEST_FAILS_IN(NULL, clprune_max_pool_size_query(2, 3, NULL), bad, "sizes is NULL");
}

/* ---- the list -------------------------------------------------------------------------------- */

int main(void)
{
    test_list list = {0};
    for (size_t i = 0; i < FUNCTIONS; i++)
        test_add(&list, at_the_limits, &sized_functions[i], "%s", sized_functions[i].name);
    test_add(&list, regions, NULL, "regions of stores");
    test_add(&list, no_place, NULL, "no place for sizes");
    test_add(&list, misaligned_parts, NULL, "misaligned parts");
    return test_run_on_host("invalid sizes", &list);
}
