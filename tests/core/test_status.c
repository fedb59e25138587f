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
    static const int strange[] = {-1, 1, 9, 14, 51, 1000};
    for (size_t i = 0; i < COUNT_OF(strange); i++) {
        const clprune_status status = (clprune_status)strange[i];
        assert_string_equal(clprune_status_name(status), "CLPRUNE_UNKNOWN_STATUS");
        assert_true(strlen(clprune_status_string(status)) > 10);
    }
}

static void categories(NO_ROW)
{
    static const char *const names[] = {"input", "parameters", "gradients", "optimizer",
        "activations", "workspace", "arena", "total"};
    assert_int_equal(CLPRUNE_MEMORY_TOTAL, 7);
    for (int i = 0; i <= CLPRUNE_MEMORY_TOTAL; i++)
        assert_string_equal(clprune_memory_category_name((clprune_memory_category)i), names[i]);
    assert_string_equal(clprune_memory_category_name((clprune_memory_category)8), "unknown");
    assert_string_equal(clprune_memory_category_name((clprune_memory_category)-1), "unknown");
}

/* The enumerators of every public enum are part of the ABI too: a change here breaks programs that
 * were built before. */
_Static_assert(CLPRUNE_LOG_ERROR == 0 && CLPRUNE_LOG_WARNING == 1 && CLPRUNE_LOG_INFO == 2, "");
_Static_assert(
    CLPRUNE_KERNELS_AUTO == 0 && CLPRUNE_KERNELS_VECTOR == 1 && CLPRUNE_KERNELS_TILED == 2, "");
_Static_assert(CLPRUNE_PRECISION_DEFAULT == 0 && CLPRUNE_PRECISION_FP32 == 1 &&
                   CLPRUNE_PRECISION_TF32 == 2 && CLPRUNE_PRECISION_BF16 == 3,
    "");
_Static_assert(CLPRUNE_MEMORY_INPUT == 0 && CLPRUNE_MEMORY_PARAMETERS == 1 &&
                   CLPRUNE_MEMORY_GRADIENTS == 2 && CLPRUNE_MEMORY_OPTIMIZER == 3 &&
                   CLPRUNE_MEMORY_ACTIVATIONS == 4 && CLPRUNE_MEMORY_WORKSPACE == 5 &&
                   CLPRUNE_MEMORY_ARENA == 6 && CLPRUNE_MEMORY_TOTAL == 7,
    "");
_Static_assert(CLPRUNE_VALUES_FP32 == 0 && CLPRUNE_VALUES_FP16 == 1 && CLPRUNE_VALUES_BF16 == 2 &&
                   CLPRUNE_VALUES_INT8 == 3 && CLPRUNE_VALUES_INT4 == 4,
    "");
_Static_assert(
    CLPRUNE_INDEX_INT32 == 0 && CLPRUNE_INDEX_BITMAP == 2 && CLPRUNE_INDEX_SMALLEST == 3, "");
_Static_assert(CLPRUNE_NORM_L2 == 0 && CLPRUNE_NORM_L1 == 1 && CLPRUNE_NORM_MAX == 2, "");
_Static_assert(CLPRUNE_CRITERION_LARGEST == 0 && CLPRUNE_CRITERION_SAMPLED == 1, "");
_Static_assert(CLPRUNE_FORM_DENSE == 0 && CLPRUNE_FORM_PRUNED == 1 && CLPRUNE_FORM_MEAN == 2 &&
                   CLPRUNE_FORM_GELU_CODE == 3 && CLPRUNE_FORM_MASK == 6 &&
                   CLPRUNE_ACTIVATION_RELU == 0 && CLPRUNE_ACTIVATION_GELU == 1 &&
                   CLPRUNE_AXIS_FEATURES == 0 && CLPRUNE_AXIS_ROWS == 1,
    "");
_Static_assert(
    CLPRUNE_OPTIMIZER_SGD == 0 && CLPRUNE_OPTIMIZER_ADAMW == 1 && CLPRUNE_OPTIMIZER_LAMB == 2, "");

_Static_assert(CLPRUNE_FORM_QUANTISED == 4 && CLPRUNE_FORM_POOLED == 5 &&
                   CLPRUNE_ROUNDING_STOCHASTIC == 0 && CLPRUNE_ROUNDING_NEAREST == 1 &&
                   CLPRUNE_ACCESS_READ == 1 && CLPRUNE_ACCESS_WRITE == 2 &&
                   CLPRUNE_ACCESS_READ_WRITE == 3,
    "");

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
    test_add(&list, unknown_status, NULL, "unknown statuses have a name and a text");
    test_add(&list, categories, NULL, "names of memory categories");
    test_add(&list, version, NULL, "the version of headers, library and build is one");
    return test_run_on_host("status", &list);
}
