/* A machine without any OpenCL driver: an empty list and a clear error. CTest points the loader at
 * an empty folder. */
#include "support/test_device.h"

static void empty_list(NO_ROW)
{
    clprune_device_info info;
    size_t count = 7;
    TEST_OK(clprune_device_list(1, &info, &count));
    assert_int_equal(count, 0);
}

static void no_context(NO_ROW)
{
    clprune_context *context = NULL;
    assert_int_equal(clprune_context_create(NULL, NULL, &context), CLPRUNE_NO_DEVICE);
    assert_null(context);
    test_says(clprune_last_error(NULL), "no OpenCL device is installed");
    test_says(clprune_last_error(NULL), "OCL_ICD_VENDORS");
    const clprune_context_options options = {.device = "0:0"};
    assert_int_equal(clprune_context_create(NULL, &options, &context), CLPRUNE_NO_DEVICE);
    assert_null(context);
}

int main(void)
{
    test_list list = {0};
    test_add(&list, empty_list, NULL, "the device list is empty");
    test_add(&list, no_context, NULL, "a context cannot be created");
    return test_run_on_host("no device", &list);
}
