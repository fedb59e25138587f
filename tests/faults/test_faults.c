/* Each call of OpenCL fails in turn (support/fault_layer.c): the library returns the right status
 * with a text, and its next call works. CTest loads the layer; without it the program is skipped.
 *
 * Also queries of the device, and a platform without devices. */
#include "support/fault_control.h"
#include "support/test.h"

static fault_controls layer;

/* One call of `function` fails. */
static void arm(const char *function, unsigned at, int code)
{
    layer.arm(function, at, code, false);
}

/* The function that failed, or NULL; no call fails any more. */
static const char *disarm(void)
{
    const char *function = layer.fired();
    arm(NULL, 0, 0);
    return function;
}

/* Whether a failed call may be of a platform that is not needed: there are several. */
static bool may_be_passed_over(const char *function)
{
    cl_uint count = 0;
    assert_int_equal(clGetPlatformIDs(0, NULL, &count), CL_SUCCESS);
    return count > 1 &&
           (strcmp(function, "clGetPlatformInfo") == 0 || strcmp(function, "clGetDeviceIDs") == 0);
}

/* Every query that a choice depends on fails in turn. */
static void queries(void **state)
{
    clprune_device_info first;
    size_t count;
    assert_int_equal(clprune_device_list(1, &first, &count), CLPRUNE_SUCCESS);
    const char *const selections[] = {
        NULL, test_text("%zu:%zu", first.platform_index, first.device_index), first.platform};
    const char *function = *state;
    unsigned failures = 0;
    for (size_t s = 0; s < COUNT_OF(selections); s++)
        for (unsigned at = 1;; at++) {
            const clprune_context_options options = {
                .device = selections[s], .cache_dir = "off", .precision = CLPRUNE_PRECISION_TF32};
            clprune_context *context = NULL;
            arm(function, at, CL_INVALID_OPERATION);
            const clprune_status status = clprune_context_create(NULL, &options, &context);
            const bool failed = disarm() != NULL;
            clprune_context_destroy(context);
            if (!failed && status == CLPRUNE_SUCCESS)
                break;
            if (status == CLPRUNE_SUCCESS && may_be_passed_over(function))
                continue;
            failures++;
            assert_null(context);
            assert_int_equal(status, CLPRUNE_OPENCL_ERROR);
            test_says(clprune_last_error(NULL), test_text("%s of CL_", function));
            test_says(clprune_last_error(NULL), "failed with CL_INVALID_OPERATION (-59)");
        }
    assert_true(failures >= 3);
}

/* A cache that does not know its device is off; that changes no result. */
static void queries_of_the_cache(NO_ROW)
{
    const char *folder = test_folder();
    unsigned off = 0, refused = 0;
    for (unsigned at = 1;; at++) {
        const clprune_context_options options = {.cache_dir = folder};
        clprune_context *context = NULL;
        arm("clGetDeviceInfo", at, CL_INVALID_OPERATION);
        const clprune_status status = clprune_context_create(NULL, &options, &context);
        const bool failed = disarm() != NULL;
        off += status == CLPRUNE_SUCCESS && clprune_context_cache_dir(context) == NULL;
        refused += status != CLPRUNE_SUCCESS;
        clprune_context_destroy(context);
        if (!failed)
            break;
    }
    assert_true(off > 0 && refused > 0);
}

/* As PoCL answers where it cannot write its cache. */
static void platform_without_devices(NO_ROW)
{
    clprune_context *context = NULL;
    size_t count = 7;
    arm("clGetDeviceIDs", 1, CL_DEVICE_NOT_FOUND);
    assert_int_equal(clprune_device_list(0, NULL, &count), CLPRUNE_SUCCESS);
    assert_non_null(disarm());
    if (count > 0 || may_be_passed_over("clGetDeviceIDs"))
        skip(); /* of another platform; or the text names another one without devices */
    arm("clGetDeviceIDs", 1, CL_DEVICE_NOT_FOUND);
    assert_int_equal(clprune_context_create(NULL, NULL, &context), CLPRUNE_NO_DEVICE);
    arm(NULL, 0, 0);
    test_says(clprune_last_error(NULL), "clGetDeviceIDs of platform 0 (");
    test_says(clprune_last_error(NULL), "CL_DEVICE_NOT_FOUND (-1)");
    test_says(clprune_last_error(NULL), "set POCL_CACHE_DIR, or HOME");
    assert_null(context);
}

static clprune_context *create(clprune_kernels kernels)
{
    return test_open_on(NULL, &(clprune_context_options){.cache_dir = "off", .kernels = kernels});
}

/* The calls fail for ever: a launch that a driver refuses is tried again with fewer work-items. */
static void texts(void **state)
{
    const clprune_kernels kernels = *(const clprune_kernels *)*state;
    static const struct {
        const char *function;
        cl_int code;
        clprune_status status;
        const char *parts[4];
    } rows[] = {
        {"clEnqueueNDRangeKernel", CL_INVALID_WORK_GROUP_SIZE, CLPRUNE_UNSUPPORTED,
            {"kernel fill in work-groups of ", " x ", "CL_INVALID_WORK_GROUP_SIZE (-54)",
                "reports at most "}},
        {"clEnqueueNDRangeKernel", CL_OUT_OF_RESOURCES, CLPRUNE_OUT_OF_DEVICE_MEMORY,
            {"kernel fill", "CL_OUT_OF_RESOURCES (-5)", "holds 4000 bytes", "the device has "}},
        {"clCreateKernel", CL_INVALID_KERNEL_NAME, CLPRUNE_OPENCL_ERROR,
            {"clCreateKernel failed with CL_INVALID_KERNEL_NAME (-46)"}},
        {"clGetKernelWorkGroupInfo", CL_INVALID_VALUE, CLPRUNE_OPENCL_ERROR,
            {"clGetKernelWorkGroupInfo of CL_KERNEL_WORK_GROUP_SIZE failed with "}},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        clprune_context *context = create(kernels);
        const clprune_mat mat = test_new_mat(context, 10, 100);
        layer.arm(rows[i].function, 1, rows[i].code, true);
        assert_int_equal(clprune_mat_fill(context, 1, mat, NULL), rows[i].status);
        arm(NULL, 0, 0);
        for (size_t p = 0; p < 4 && rows[i].parts[p] != NULL; p++)
            test_says(clprune_last_error(context), rows[i].parts[p]);
        assert_int_equal(clprune_mat_fill(context, 1, mat, NULL), CLPRUNE_SUCCESS);
        test_end(context);
    }
}

enum { ROWS = 8, COLS = 24 };

/* A device that is lost fails each later call, too: the text is that of the first. */
static void first_text(void **state)
{
    const clprune_kernels kernels = *(const clprune_kernels *)*state;
    const clprune_keep keep = {.form = CLPRUNE_FORM_PRUNED, .block = {1, 4}, .sparsity = 0.5f};
    static float memory[ROWS * COLS];
    unsigned failures = 0;
    bool more = true;
    for (unsigned at = 1; more; at++) {
        clprune_context *context = create(kernels);
        clprune_saved *saved = test_new_saved(context, keep, 1, ROWS, COLS);
        assert_int_equal(clprune_saved_store_host(saved, 0, 1, memory, COLS), CLPRUNE_SUCCESS);
        layer.arm(NULL, at, CL_INVALID_OPERATION, true);
        const clprune_status status = clprune_saved_restore_host(saved, 0, 1, memory, COLS);
        const char *function = disarm(), *text = clprune_last_error(context);
        more = function != NULL;
        if (status != CLPRUNE_SUCCESS) {
            failures++;
            assert_non_null(function);
            if (strstr(text, function) == NULL &&
                (strcmp(function, "clEnqueueNDRangeKernel") != 0 ||
                    strstr(text, "kernel ") == NULL) &&
                (strcmp(function, "clCreateBuffer") != 0 || strstr(text, "buffer") == NULL))
                fail_msg("call %u: %s is not in \"%s\"", at, function, text);
        }
        test_end(context);
    }
    if (failures < 5)
        fail_msg("only %u calls failed", failures);
}

int main(void)
{
    if (!fault_find_layer(&layer)) {
        print_message("faults: $OPENCL_LAYERS has no fault layer that the loader knows\n");
        return TEST_SKIPPED;
    }
    test_list list = {0};
    test_add(&list, queries, "clGetDeviceInfo", "each clGetDeviceInfo of a creation");
    test_add(&list, queries, "clGetPlatformInfo", "each clGetPlatformInfo of a creation");
    test_add(&list, queries_of_the_cache, NULL, "each clGetDeviceInfo with a program cache");
    test_add(&list, platform_without_devices, NULL, "a platform that lists no devices");
    static const clprune_kernels families[] = {CLPRUNE_KERNELS_VECTOR, CLPRUNE_KERNELS_TILED};
    test_add(&list, texts, &families[0], "what the errors tell, vector kernels");
    test_add(&list, texts, &families[1], "what the errors tell, tiled kernels");
    test_add(&list, first_text, &families[0], "the first failure is told, vector kernels");
    test_add(&list, first_text, &families[1], "the first failure is told, tiled kernels");
    return test_run_on_host("faults", &list);
}
