/* Status codes, their names and texts; the names of memory categories. */
#include "support/test_device.h"

typedef struct status_row {
    clprune_status status;
    int value;
    const char *name;
} status_row;

static const status_row rows[] = {
#define ROW(name, value, text) {name, value, #name},
    CLPRUNE_STATUS_LIST(ROW)
#undef ROW
};

enum { ROWS = COUNT_OF(rows) };

static void name_and_text(void **state)
{
    const status_row *row = *state;
    assert_int_equal(row->status, row->value);
    assert_string_equal(clprune_status_name(row->status), row->name);
    const char *text = clprune_status_string(row->status);
    assert_non_null(text);
    assert_true(strlen(text) > 10);
    for (size_t i = 0; i < ROWS; i++) {
        if (&rows[i] == row)
            continue;
        assert_int_not_equal(rows[i].value, row->value);
        assert_string_not_equal(clprune_status_string(rows[i].status), text);
    }
}

/* The numbers are part of the ABI. */
static void values_stay(NO_ROW)
{
    assert_int_equal(CLPRUNE_SUCCESS, 0);
    assert_int_equal(CLPRUNE_INVALID_ARGUMENT, 10);
    assert_int_equal(CLPRUNE_INVALID_SIZE, 11);
    assert_int_equal(CLPRUNE_SIZE_OVERFLOW, 12);
    assert_int_equal(CLPRUNE_INVALID_BSR, 13);
    assert_int_equal(CLPRUNE_NOT_FINITE, 14);
    assert_int_equal(CLPRUNE_OUT_OF_HOST_MEMORY, 20);
    assert_int_equal(CLPRUNE_OUT_OF_DEVICE_MEMORY, 21);
    assert_int_equal(CLPRUNE_NO_DEVICE, 30);
    assert_int_equal(CLPRUNE_UNSUPPORTED, 31);
    assert_int_equal(CLPRUNE_FORKED, 32);
    assert_int_equal(CLPRUNE_BUILD_FAILED, 40);
    assert_int_equal(CLPRUNE_OPENCL_ERROR, 41);
    assert_int_equal(CLPRUNE_CLBLAST_ERROR, 42);
    assert_int_equal(CLPRUNE_INTERNAL_ERROR, 50);
}

static void unknown_status(NO_ROW)
{
    static const int strange[] = {-1, 1, 9, 15, 51, 1000};
    for (size_t i = 0; i < COUNT_OF(strange); i++) {
        const clprune_status status = (clprune_status)strange[i];
        assert_string_equal(clprune_status_name(status), "CLPRUNE_UNKNOWN_STATUS");
        assert_true(strlen(clprune_status_string(status)) > 10);
    }
}

static void categories(NO_ROW)
{
    static const char *const names[] = {
        "input", "parameters", "gradients", "optimizer", "activations", "workspace", "arena"};
    assert_int_equal(CLPRUNE_MEMORY_TOTAL, 255); /* behind any category to come */
    assert_int_equal(CLPRUNE_MEMORY_CATEGORIES, COUNT_OF(names));
    assert_string_equal(clprune_memory_category_name(CLPRUNE_MEMORY_TOTAL), "total");
    for (int i = 0; i < CLPRUNE_MEMORY_CATEGORIES; i++)
        assert_string_equal(clprune_memory_category_name((clprune_memory_category)i), names[i]);
    assert_string_equal(clprune_memory_category_name((clprune_memory_category)7), "unknown");
    assert_string_equal(clprune_memory_category_name((clprune_memory_category)-1), "unknown");
}

/* The enumerators of every public enum are part of the ABI too: a change here breaks programs that
 * were built before. From 0 on; -1: no enumerator has this number, or the end. */
static const int enumerators[][11] = {
    {CLPRUNE_LOG_ERROR, CLPRUNE_LOG_WARNING, CLPRUNE_LOG_INFO, -1},
    {CLPRUNE_KERNELS_AUTO, CLPRUNE_KERNELS_VECTOR, CLPRUNE_KERNELS_TILED, -1},
    {CLPRUNE_PRECISION_DEFAULT, CLPRUNE_PRECISION_FP32, CLPRUNE_PRECISION_TF32,
        CLPRUNE_PRECISION_BF16, -1},
    {CLPRUNE_MEMORY_INPUT, CLPRUNE_MEMORY_PARAMETERS, CLPRUNE_MEMORY_GRADIENTS,
        CLPRUNE_MEMORY_OPTIMIZER, CLPRUNE_MEMORY_ACTIVATIONS, CLPRUNE_MEMORY_WORKSPACE,
        CLPRUNE_MEMORY_ARENA, -1},
    {CLPRUNE_VALUES_FP32, CLPRUNE_VALUES_FP16, CLPRUNE_VALUES_BF16, CLPRUNE_VALUES_INT8,
        CLPRUNE_VALUES_INT4, -1},
    {CLPRUNE_INDEX_INT32, -1, CLPRUNE_INDEX_BITMAP, CLPRUNE_INDEX_SMALLEST, -1},
    {CLPRUNE_NORM_L2, CLPRUNE_NORM_L1, CLPRUNE_NORM_MAX, -1},
    {CLPRUNE_CRITERION_LARGEST, CLPRUNE_CRITERION_SAMPLED, CLPRUNE_CRITERION_RANDOM, -1},
    {CLPRUNE_FORM_DENSE, CLPRUNE_FORM_PRUNED, CLPRUNE_FORM_MEAN, CLPRUNE_FORM_GELU_CODE,
        CLPRUNE_FORM_QUANTISED, CLPRUNE_FORM_POOLED, CLPRUNE_FORM_MASK, -1},
    {CLPRUNE_ACTIVATION_RELU, CLPRUNE_ACTIVATION_GELU, CLPRUNE_ACTIVATION_GELU_TANH,
        CLPRUNE_ACTIVATION_SILU, CLPRUNE_ACTIVATION_TANH, CLPRUNE_ACTIVATION_RELU6,
        CLPRUNE_ACTIVATION_HARD_SIGMOID, CLPRUNE_ACTIVATION_HARD_SWISH, CLPRUNE_ACTIVATION_SIGMOID,
        CLPRUNE_ACTIVATION_RECIPROCAL, -1},
    {CLPRUNE_AXIS_FEATURES, CLPRUNE_AXIS_ROWS, -1},
    {CLPRUNE_ROUNDING_STOCHASTIC, CLPRUNE_ROUNDING_NEAREST, -1},
    {-1, CLPRUNE_ACCESS_READ, CLPRUNE_ACCESS_WRITE, CLPRUNE_ACCESS_READ_WRITE, -1},
};

static void enumerators_stay(NO_ROW)
{
    for (size_t i = 0; i < COUNT_OF(enumerators); i++)
        for (int k = 0; k < 11 && (k == 0 || enumerators[i][k] != 0); k++)
            if (enumerators[i][k] != -1)
                assert_int_equal(enumerators[i][k], k);
}

static void version(NO_ROW)
{
    assert_int_equal(clprune_version(), CLPRUNE_VERSION_NUMBER);
    assert_string_equal(clprune_version_string(), CLPRUNE_VERSION);
    assert_string_equal(clprune_version_string(), TEST_PROJECT_VERSION); /* that of CMake */
    char text[32];
    (void)snprintf(text, sizeof text, "%d.%d.%d", CLPRUNE_VERSION_MAJOR, CLPRUNE_VERSION_MINOR,
        CLPRUNE_VERSION_PATCH);
    assert_string_equal(text, CLPRUNE_VERSION);
}

int main(void)
{
    test_list list = {0};
    TEST_ADD_EACH(&list, name_and_text, rows, "name and text of %s");
    test_add(&list, values_stay, NULL, "the values stay what they were");
    test_add(&list, enumerators_stay, NULL, "enumerators stay what they were");
    test_add(&list, unknown_status, NULL, "unknown statuses have a name and a text");
    test_add(&list, categories, NULL, "names of memory categories");
    test_add(&list, version, NULL, "the version of headers, library and build is one");
    return test_run_on_host("status", &list);
}
