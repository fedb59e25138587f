/* A context on one device of an OpenCL context that has two; a device that does not answer beside
 * one that does. PoCL makes two of $POCL_DEVICES, which tests/CMakeLists.txt sets; other drivers
 * may have one, then this is skipped.
 *
 * Both devices load their programs from the cache. */
#include "support/test_cache.h"
#include "support/test_folder.h"

enum { DEVICES = 2 };

/* Of a program that was built for one of its devices, drivers have an empty binary for the other;
 * PoCL 3.1 has none. */
static bool lists_all;
static cl_device_id device[DEVICES], built_for;

TEST_WRAP(cl_int, clGetProgramInfo,
    (cl_program program, cl_program_info info, size_t size, void *value, size_t *size_found))
{
    const size_t index = built_for == device[1];
    size_t bytes = 0;
    if (lists_all && (info == CL_PROGRAM_BINARY_SIZES || info == CL_PROGRAM_BINARIES))
        (void)__real_clGetProgramInfo(program, info, 0, NULL, &bytes);
    if (bytes != sizeof(void *)) /* of another value, or the driver lists all itself */
        return __real_clGetProgramInfo(program, info, size, value, size_found);
    if (size < DEVICES * sizeof(void *))
        return CL_INVALID_VALUE;
    if (size_found != NULL)
        *size_found = DEVICES * sizeof(void *);
    if (info == CL_PROGRAM_BINARIES)
        return __real_clGetProgramInfo(
            program, info, sizeof(void *), (unsigned char **)value + index, NULL);
    memset(value, 0, DEVICES * sizeof(size_t));
    return __real_clGetProgramInfo(program, info, sizeof(size_t), (size_t *)value + index, NULL);
}

static unsigned silent; /* bit i: queries of device i fail */

TEST_WRAP(cl_int, clGetDeviceInfo,
    (cl_device_id of, cl_device_info info, size_t size, void *value, size_t *size_found))
{
    for (unsigned i = 0; i < DEVICES; i++)
        if ((silent >> i & 1) != 0 && of == device[i])
            return CL_INVALID_DEVICE;
    return __real_clGetDeviceInfo(of, info, size, value, size_found);
}

/* The device that a selection finds; NULL: none, for want of answers. */
static cl_device_id selected(const char *selection, test_warnings *seen)
{
    const clprune_context_options options = {
        .device = selection, .log = test_note, .log_user = seen};
    clprune_context *context = NULL;
    cl_device_id found;
    *seen = (test_warnings){0};
    const clprune_status status = clprune_context_create(NULL, &options, &context);
    if (status == CLPRUNE_OPENCL_ERROR)
        return NULL;
    TEST_OK(status);
    TEST_CL(clGetCommandQueueInfo(
        clprune_context_queue(context), CL_QUEUE_DEVICE, sizeof found, &found, NULL));
    clprune_context_destroy(context);
    return found;
}

/* Finds both devices, or skips the case. */
static cl_platform_id find_devices(void)
{
    cl_platform_id platform;
    cl_uint count = 0;
    TEST_CL(clGetPlatformIDs(1, &platform, NULL));
    TEST_CL(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, DEVICES, device, &count));
    if (count < DEVICES)
        skip();
    return platform;
}

/* A device whose driver is broken does not keep the other one from being found. */
static void one_answers(NO_ROW)
{
    char name[1024];
    test_warnings seen;
    TEST_CL(clGetPlatformInfo(find_devices(), CL_PLATFORM_NAME, sizeof name, name, NULL));
    const char *const selections[] = {name, ""};
    for (size_t i = 0; i < 2; i++) {
        silent = 0;
        assert_ptr_equal(selected(selections[i], &seen), device[0]);
        assert_string_equal(seen.last, "");
        silent = 1;
        assert_ptr_equal(selected(selections[i], &seen), device[1]);
        test_says(seen.last, "of device 0:0: CL_INVALID_DEVICE");
        silent = 3;
        assert_null(selected(selections[i], &seen));
        test_says(clprune_last_error(NULL), "CL_INVALID_DEVICE");
    }
    silent = 0;
}

static void each_device(void **state)
{
    lists_all = *(const bool *)*state;
    cl_int code;
    (void)find_devices();
    const char *dir = test_folder();
    cl_context cl = clCreateContext(NULL, DEVICES, device, NULL, NULL, &code);
    TEST_CL(code);
    for (int i = 0; i < 2 * DEVICES; i++) { /* each twice: built, then loaded */
        built_for = device[i % DEVICES];
        cl_command_queue queue = clCreateCommandQueue(cl, built_for, 0, &code);
        TEST_CL(code);
        test_warnings seen = {0};
        const clprune_context_options options = {
            .cache_dir = dir, .log = test_note, .log_user = &seen};
        clprune_context *context = test_open_on(queue, &options);
        test_run_fill(context);
        const clprune_cache_stats stats = clprune_context_cache_stats(context);
        assert_true(i < DEVICES ? stats.builds > 0 : stats.builds == 0);
        assert_true(i < DEVICES ? stats.disk_hits == 0 : stats.disk_hits > 0);
        assert_string_equal(seen.last, "");
        test_end(context);
        TEST_CL(clReleaseCommandQueue(queue));
    }
    TEST_CL(clReleaseContext(cl));
}

int main(void)
{
    test_list list = {0};
    static const bool all[] = {false, true};
    test_add(&list, each_device, &all[0], "each device");
    test_add(&list, each_device, &all[1], "each device, with a binary for each");
    test_add(&list, one_answers, NULL, "one device answers");
    return test_run_on_host("two devices", &list);
}
