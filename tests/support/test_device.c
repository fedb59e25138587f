#include "support/test_device.h"

#include "ref/gemm_ref.h"
#include "support/test_folder.h"
#include "support/test_owned.h"

#define MAX_DEVICES 16

static clprune_context *context;
static char label[192], selection[32];
static clprune_kernels family;
static size_t before_cases; /* what main made lives on */

clprune_context *test_context(void)
{
    return context;
}

clprune_status test_create(clprune_context_options options, clprune_context **other)
{
    options.device = selection;
    return clprune_context_create(NULL, &options, other);
}

/* The contexts of test_open that were not destroyed, for messages. */
enum { OPENED = 16 };
static clprune_context *opened[OPENED];

static void close_opened(void *of, void *other)
{
    (void)of;
    for (size_t i = 0; i < OPENED; i++)
        if (opened[i] == other)
            opened[i] = NULL;
    clprune_context_destroy(other);
}

static clprune_context *own_context(clprune_status status, clprune_context *other)
{
    if (status != CLPRUNE_SUCCESS)
        fail_msg("%s", clprune_last_error(NULL));
    for (size_t i = 0; i < OPENED; i++)
        if (opened[i] == NULL) {
            opened[i] = other;
            break;
        }
    test_later(close_opened, NULL, other);
    return other;
}

void test_open_fails(cl_command_queue queue, const clprune_context_options *options,
    clprune_status expected, const char *part)
{
    clprune_context *other = context;
    TEST_FAILS_IN(NULL, clprune_context_create(queue, options, &other), expected, part);
    assert_null(other);
}

clprune_context *test_open_on(cl_command_queue queue, const clprune_context_options *options)
{
    clprune_context *other = NULL;
    const clprune_status status = clprune_context_create(queue, options, &other);
    return own_context(status, other);
}

clprune_context *test_open(clprune_context_options options)
{
    options.device = selection;
    return test_open_on(NULL, &options);
}

clprune_context *test_open_dry(
    const clprune_device_info *device, const clprune_context_options *options)
{
    clprune_context *dry = NULL;
    const clprune_status status = clprune_context_create_dry(device, options, &dry);
    return own_context(status, dry);
}

clprune_context *test_open_gpu(uint64_t memory, clprune_precision precision)
{
    const clprune_device_info device = {.type = CL_DEVICE_TYPE_GPU,
        .vendor = "NVIDIA",
        .global_memory = memory,
        .local_memory = 48 << 10,
        .compute_units = 132,
        .vector_width = 1,
        .max_work_group = 1024};
    return test_open_dry(&device, &(clprune_context_options){.precision = precision});
}

const char *test_device_label(void)
{
    return label;
}

const char *test_device_selection(void)
{
    return selection;
}

static bool is_set(const char *name)
{
    const char *value = getenv(name);
    return value != NULL && value[0] != '\0' && strcmp(value, "0") != 0;
}

bool test_small(void)
{
    return is_set("CLPRUNE_TEST_SMALL");
}

static int end_case(void **state)
{
    (void)state;
    test_release(before_cases);
    return 0;
}

void test_add(test_list *list, CMUnitTestFunction run, const void *row, const char *name, ...)
{
    char text[256];
    va_list arguments;
    va_start(arguments, name);
    (void)vsnprintf(text, sizeof text, name, arguments);
    va_end(arguments);
    const char *only = getenv("CLPRUNE_TEST_CASES");
    if (only != NULL && strstr(text, only) == NULL)
        return;
    if (list->count == list->capacity) {
        list->capacity = list->capacity == 0 ? 64 : 2 * list->capacity;
        list->tests = realloc(list->tests, list->capacity * sizeof *list->tests);
    }
    const size_t size = strlen(text) + 1;
    char *copy = malloc(size);
    if (list->tests == NULL || copy == NULL)
        abort();
    memcpy(copy, text, size);
    list->tests[list->count++] =
        (struct CMUnitTest){copy, run, NULL, end_case, (void *)(uintptr_t)row};
}

static void free_list(test_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        free((char *)(uintptr_t)list->tests[i].name);
    free(list->tests);
    *list = (test_list){0};
}

static void print_log(void *user, clprune_log_level level, const char *message)
{
    static const char *const names[] = {"error", "warning", "info"};
    (void)user;
    printf("[ %7s  ] %s\n", names[level], message);
}

/* Whether $DEVICE_LAYER (support/device_layer.h) says group=N, and groups of the device are larger:
 * no layer is loaded. */
static bool layer_is_missing(void)
{
    const char *layer = getenv("DEVICE_LAYER"),
               *group = layer == NULL ? NULL : strstr(layer, "group=");
    size_t most = SIZE_MAX;
    if (group == NULL)
        return false;
    (void)clGetDeviceInfo(
        clprune_context_device(context), CL_DEVICE_MAX_WORK_GROUP_SIZE, sizeof most, &most, NULL);
    return most > strtoull(group + strlen("group="), NULL, 10);
}

static int open_context(void **state)
{
    (void)state;
    const clprune_context_options options = {.device = selection,
        .kernels = family,
        .log = is_set("CLPRUNE_TEST_VERBOSE") ? print_log : NULL};
    if (clprune_context_create(NULL, &options, &context) != CLPRUNE_SUCCESS) {
        fprintf(stderr, "%s\n", clprune_last_error(NULL));
        return -1;
    }
    const clprune_precision precision = clprune_context_precision(context);
    gemm_ref_operand = precision == CLPRUNE_PRECISION_BF16   ? gemm_ref_bf16
                       : precision == CLPRUNE_PRECISION_TF32 ? gemm_ref_tf32
                                                             : NULL;
    if (layer_is_missing()) {
        fprintf(stderr,
            "the device is larger than DEVICE_LAYER=%s: OPENCL_LAYERS names no layer, "
            "or the loader does not know layers\n",
            getenv("DEVICE_LAYER"));
        return -1;
    }
    return 0;
}

static int close_context(void **state)
{
    (void)state;
    clprune_context_destroy(context);
    context = NULL;
    return 0;
}

/* A filter that selects nothing is a mistake, not a success. */
static bool selects_nothing(const char *group, const test_list *list)
{
    const char *kernels = getenv("CLPRUNE_TEST_KERNELS");
    const bool known = kernels == NULL || kernels[0] == '\0' || strcmp(kernels, "vector") == 0 ||
                       strcmp(kernels, "tiled") == 0;
    if (!known)
        fprintf(
            stderr, "%s: CLPRUNE_TEST_KERNELS is '%s', expected vector or tiled\n", group, kernels);
    if (list->count == 0)
        fprintf(stderr, "%s: no name of a case contains CLPRUNE_TEST_CASES\n", group);
    return !known || list->count == 0;
}

/* Whether any case failed on one device with one family. */
static int run_family(const char *group, const test_list *list, const clprune_device_info *info,
    clprune_kernels kernels)
{
    static const char *const names[] = {"auto", "vector", "tiled"};
    const char *only = getenv("CLPRUNE_TEST_KERNELS");
    if (only != NULL && only[0] != '\0' && strcmp(only, names[kernels]) != 0 && kernels != 0)
        return 0;
    family = kernels;
    (void)snprintf(
        selection, sizeof selection, "%zu:%zu", info->platform_index, info->device_index);
    (void)snprintf(label, sizeof label, "%s %s, %s", selection, info->device, names[kernels]);
    print_message("%s on %s\n", group, label); /* not every cmocka prints a group's name */
    return _cmocka_run_group_tests(group, list->tests, list->count, open_context, close_context) !=
           0;
}

/* Whether $CLPRUNE_TEST_DEVICE, "platform:device", names another one. */
static bool is_left_out(const clprune_device_info *info)
{
    const char *only = getenv("CLPRUNE_TEST_DEVICE");
    char place[32];
    (void)snprintf(place, sizeof place, "%zu:%zu", info->platform_index, info->device_index);
    return only != NULL && only[0] != '\0' && strcmp(only, place) != 0;
}

static int run_on_devices(const char *group, test_list *list, bool both_families)
{
    clprune_device_info devices[MAX_DEVICES];
    size_t count = 0;
    int failed = selects_nothing(group, list);
    before_cases = test_mark();
    test_keep_environment();
    if (clprune_device_list(MAX_DEVICES, devices, &count) != CLPRUNE_SUCCESS) {
        fprintf(stderr, "%s: %s\n", group, clprune_last_error(NULL));
        failed = 1;
    } else if (count == 0) {
        fprintf(stderr, "%s: no OpenCL device\n", group);
        failed = is_set("CLPRUNE_TEST_SKIP_NO_DEVICE") ? TEST_SKIPPED : 1;
    }
    size_t ran = 0;
    for (size_t i = 0; i < count && i < MAX_DEVICES; i++) {
        if (is_left_out(&devices[i]))
            continue;
        ran++;
        if (!both_families) {
            failed += run_family(group, list, &devices[i], CLPRUNE_KERNELS_AUTO);
            continue;
        }
        failed += run_family(group, list, &devices[i], CLPRUNE_KERNELS_VECTOR);
        failed += run_family(group, list, &devices[i], CLPRUNE_KERNELS_TILED);
    }
    if (count > 0 && ran == 0) {
        fprintf(stderr, "%s: no device is CLPRUNE_TEST_DEVICE=%s, expected platform:device\n",
            group, getenv("CLPRUNE_TEST_DEVICE"));
        failed = 1;
    }
    free_list(list);
    test_release(0);
    return failed;
}

int test_run_on_devices(const char *group, test_list *list)
{
    return run_on_devices(group, list, true);
}

int test_run_on_each_device(const char *group, test_list *list)
{
    return run_on_devices(group, list, false);
}

int test_run_on_host(const char *group, test_list *list)
{
    before_cases = test_mark();
    test_keep_environment();
    const int failed = selects_nothing(group, list) ||
                       _cmocka_run_group_tests(group, list->tests, list->count, NULL, NULL) != 0;
    free_list(list);
    test_release(0);
    return failed != 0;
}

void test_ok(clprune_status status, const char *call, const char *file, int line)
{
    if (status == CLPRUNE_SUCCESS)
        return;
    print_error("%s:%d: %s is %s\n    %s\n    %s\n", file, line, call, clprune_status_name(status),
        clprune_last_error(context), label);
    print_error("    without a context: %s\n", clprune_last_error(NULL));
    for (size_t i = 0; i < OPENED; i++)
        if (opened[i] != NULL)
            print_error("    of a context of the case: %s\n", clprune_last_error(opened[i]));
    _fail(file, line);
}

void test_fails(clprune_status status, const clprune_context *of, clprune_status expected,
    const char *part, const char *call, const char *file, int line)
{
    const char *text = clprune_last_error(of);
    const bool told = part == NULL ? text[0] != '\0' : strstr(text, part) != NULL;
    if (status == expected && told)
        return;
    print_error("%s:%d: %s\n    returned %s, expected %s\n    last error: %s\n    expected in it: "
                "%s\n    %s\n",
        file, line, call, clprune_status_name(status), clprune_status_name(expected), text,
        part == NULL ? "(anything)" : part, label);
    _fail(file, line);
}
