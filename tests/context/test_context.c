/* Contexts: creation, selection, options, errors, the log hook. */
#include <ctype.h>
#include <locale.h>
#include <pthread.h>
#ifndef _WIN32
#include <sys/resource.h>
#endif

#include "support/test.h"

static void callers_queue(NO_ROW)
{
    const cl_command_queue_properties kinds[] = {0, CL_QUEUE_PROFILING_ENABLE};
    for (int i = 0; i < 2; i++) {
        cl_command_queue queue = test_new_queue(test_context(), kinds[i]);
        clprune_context *context = test_open_on(queue, NULL);
        assert_ptr_equal(clprune_context_queue(context), queue);
        assert_ptr_equal(clprune_context_cl(context), clprune_context_cl(test_context()));
        assert_ptr_equal(clprune_context_device(context), clprune_context_device(test_context()));
        assert_string_equal(clprune_last_error(context), "");
        test_end(context);
        TEST_CL(clFinish(queue));
    }
}

#ifndef _WIN32
/* PoCL crashes where it lists its devices. */
static void small_stack(NO_ROW)
{
    struct rlimit before, small;
    assert_int_equal(getrlimit(RLIMIT_STACK, &before), 0);
    small = before;
    small.rlim_cur = 127 * 1024;
    assert_int_equal(setrlimit(RLIMIT_STACK, &small), 0);
    test_open_fails(NULL, NULL, CLPRUNE_INVALID_ARGUMENT,
        "the stack may have 127 KiB, with which drivers crash, expected at least 128; ulimit -s");
    assert_int_equal(setrlimit(RLIMIT_STACK, &before), 0);
}
#endif

/* Creation with a selection; true if it is on the device under test. */
static bool selects(const char *selection)
{
    const clprune_context_options options = {.device = selection};
    clprune_context *context = test_open_on(NULL, &options);
    return clprune_context_device(context) == clprune_context_device(test_context());
}

/* A selection that chooses no device. */
static void selects_nothing(const char *selection, const char *part)
{
    const clprune_context_options options = {.device = selection};
    test_open_fails(NULL, &options, CLPRUNE_NO_DEVICE, part);
}

static void device_under_test(clprune_device_info *info)
{
    clprune_device_info devices[16];
    size_t count = 0;
    TEST_OK(clprune_device_list(16, devices, &count));
    for (size_t i = 0; i < count && i < 16; i++) {
        char indices[64];
        (void)snprintf(
            indices, sizeof indices, "%zu:%zu", devices[i].platform_index, devices[i].device_index);
        if (strcmp(indices, test_device_selection()) == 0) {
            *info = devices[i];
            return;
        }
    }
    fail_msg("%s is not in the device list", test_device_selection());
}

static void selection_by_index_and_name(NO_ROW)
{
    clprune_device_info info;
    device_under_test(&info);
    assert_true(selects(test_device_selection()));
    /* A name may fit an earlier device too, so only its acceptance is certain. */
    char name[128];
    (void)snprintf(name, sizeof name, "%s", info.device);
    (void)selects(name);
    for (char *p = name; *p != '\0'; p++)
        *p = (char)(isupper((unsigned char)*p) ? tolower((unsigned char)*p)
                                               : toupper((unsigned char)*p));
    (void)selects(name);
    (void)selects(name + strlen(name) / 2);
    (void)selects(info.platform);
    (void)selects("");
    test_environment("CLPRUNE_DEVICE", test_device_selection());
    assert_true(selects(NULL));
    test_environment("CLPRUNE_DEVICE", "no such device");
    assert_true(selects(test_device_selection())); /* the option goes before the environment */
    selects_nothing(NULL, "no such device");
    selects_nothing("", "no such device");
    test_environment("CLPRUNE_DEVICE", "");
    (void)selects(NULL);
}

/* In a Turkish program tolower('I') is 'I'. */
static void selection_in_any_locale(NO_ROW)
{
    clprune_device_info info;
    device_under_test(&info);
    for (char *p = info.platform; *p != '\0'; p++)
        *p = (char)tolower((unsigned char)*p);
    test_comma_locale(LC_CTYPE);
    const int kept = tolower('P');
    const clprune_context_options options = {.device = info.platform};
    clprune_context *context = NULL;
    cl_ulong memory = 0;
    const cl_int asked = clGetDeviceInfo(clprune_context_device(test_context()),
        CL_DEVICE_GLOBAL_MEM_SIZE, sizeof memory, &memory, NULL);
    const clprune_status status = clprune_context_create(NULL, &options, &context);
    (void)setlocale(LC_CTYPE, "C");
    clprune_context_destroy(context);
    TEST_CL(asked);
    if (memory == 0) { /* Mesa 25's rusticl */
        print_message("this driver has no memory in that locale\n");
        skip();
    }
    assert_int_equal(kept, 'P');
    if (status != CLPRUNE_SUCCESS)
        fail_msg("selection \"%s\": %s", info.platform, clprune_last_error(NULL));
}

static void selection_of_nothing(void **state)
{
    const char *selection = *state;
    selects_nothing(selection, selection);
}

/* Digits are in many names, so a number does not choose by name. */
static void bare_number(void **state)
{
    const char *selection = *state;
    selects_nothing(selection, "a bare number");
    selects_nothing(selection, "expected \"platform:device\"");
    test_environment("CLPRUNE_DEVICE", selection);
    selects_nothing(NULL, "a bare number");
}

static void long_selection(NO_ROW)
{
    static char text[100000];
    memset(text, 'x', sizeof text - 1);
    selects_nothing(text, "xxxx");
}

static cl_mem some_allocate(void *user, cl_context cl, size_t bytes, cl_int *error)
{
    (void)user;
    return clCreateBuffer(cl, CL_MEM_READ_WRITE, bytes, NULL, error);
}

static void some_release(void *user, cl_mem buffer)
{
    (void)user;
    (void)clReleaseMemObject(buffer);
}

static void bad_options(NO_ROW)
{
    static const struct {
        clprune_context_options options;
        const char *part;
    } rows[] = {{{.allocator = {some_allocate, NULL, NULL}}, "allocator"},
        {{.allocator = {NULL, some_release, NULL}}, "allocator"},
        {{.kernels = (clprune_kernels)3}, "kernels"},
        {{.kernels = (clprune_kernels)-1}, "kernels"}};
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        test_open_fails(NULL, &rows[i].options, CLPRUNE_INVALID_ARGUMENT, rows[i].part);
    for (size_t i = 0; i < COUNT_OF(rows->options.reserved); i++) {
        clprune_context_options options = {0};
        options.reserved[i] = (uint64_t)1 << 63;
        test_open_fails(NULL, &options, CLPRUNE_INVALID_ARGUMENT, "options.reserved");
    }
    clprune_context *dry = test_context();
    const clprune_device_info device = {
        .compute_units = 1, .max_work_group = 1, .reserved = {0, 0, 0, 1}};
    TEST_FAILS_IN(NULL, clprune_context_create_dry(&device, NULL, &dry), CLPRUNE_INVALID_ARGUMENT,
        "device.reserved");
    assert_null(dry);
    TEST_FAILS_IN(NULL, clprune_context_create(NULL, NULL, NULL), CLPRUNE_INVALID_ARGUMENT,
        "context is NULL");
}

static void kernel_family(NO_ROW)
{
    static const struct {
        const char *text;
        clprune_kernels kernels;
    } rows[] = {{"kernels=vector", CLPRUNE_KERNELS_VECTOR},
        {"kernels=tiled", CLPRUNE_KERNELS_TILED},
        {"kernels=tiled,mma=auto,gemm=tiled,kernels=vector", CLPRUNE_KERNELS_VECTOR}};
    for (int i = 0; i < 3; i++) {
        test_debug(rows[i].text);
        clprune_context *context = test_open((clprune_context_options){0});
        assert_int_equal(clprune_context_kernels(context), rows[i].kernels);
        test_end(context);
    }
}

/* The family of a device that is described to a dry context. */
static void kernel_family_by_vectors(NO_ROW)
{
    static const struct {
        uint64_t type;
        uint32_t vector_width;
        clprune_kernels kernels;
    } rows[] = {{CL_DEVICE_TYPE_CPU, 16, CLPRUNE_KERNELS_VECTOR},
        {CL_DEVICE_TYPE_CPU, 4, CLPRUNE_KERNELS_VECTOR},
        {CL_DEVICE_TYPE_CPU, 0, CLPRUNE_KERNELS_VECTOR}, /* not told */
        {CL_DEVICE_TYPE_CPU, 2, CLPRUNE_KERNELS_TILED},
        {CL_DEVICE_TYPE_CPU, 1, CLPRUNE_KERNELS_TILED}, /* llvmpipe */
        {CL_DEVICE_TYPE_GPU, 1, CLPRUNE_KERNELS_TILED},
        {CL_DEVICE_TYPE_GPU, 16, CLPRUNE_KERNELS_TILED}};
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const clprune_device_info device = {.type = rows[i].type,
            .vector_width = rows[i].vector_width,
            .compute_units = 1,
            .max_work_group = 256};
        clprune_context_options options = {.kernels = CLPRUNE_KERNELS_AUTO};
        clprune_context *context = test_open_dry(&device, &options);
        if (clprune_context_kernels(context) != rows[i].kernels)
            fail_msg("type %u, %u wide: %d", (unsigned)device.type, device.vector_width,
                (int)clprune_context_kernels(context));
        options.kernels = CLPRUNE_KERNELS_VECTOR; /* the choice can be overridden */
        context = test_open_dry(&device, &options);
        assert_int_equal(clprune_context_kernels(context), CLPRUNE_KERNELS_VECTOR);
        test_end(context);
    }
}

/* Words of $CLPRUNE_DEBUG that there are not; the message tells those that there are. */
static void bad_debug(NO_ROW)
{
    static const char *const words[] = {"kernels=both", "kernels", "kernels=", "=tiled", "tiled",
        "Kernels=tiled", "kernels=tiled ", "kernels=tiled, mma=auto", "gemm=tiled,,mma=auto",
        "row=gpu-nvidia", "forget", "forget=vector", "kernels=clblast", "kernels=til",
        "kernels=tiledx", "order=random", "order", "units", "units=", "units=0", "units=00000",
        "units=-1", "units=+1", "units=1 ", "units=1x", "units=100000", "units=4294967297"};
    for (size_t i = 0; i < COUNT_OF(words); i++) {
        test_debug(words[i]);
        test_open_fails(NULL, NULL, CLPRUNE_INVALID_ARGUMENT, "CLPRUNE_DEBUG has \"");
        test_says(clprune_last_error(NULL),
            "expected kernels=auto|vector|tiled, gemm=auto|vector|tiled|clblast, "
            "mma=auto|emulated, bf16=auto|converted|pairs|tiles, "
            "row=auto|gpu|gpu-amd|gpu-intel|cpu-avx2, "
            "forget=keep|poison, arena=on|off, order=plain|reversed|mixed, units=1 to 99999 or "
            "check=on|off");
    }
}

static void good_limit(NO_ROW)
{
    static const struct {
        const char *text;
        size_t bytes;
    } rows[] = {{"1500", 1500}, {"64K", 65536}, {"64k", 65536}, {"2M", 2u << 20}};
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        test_environment("CLPRUNE_MEM_LIMIT", rows[i].text);
        clprune_context *context = test_open((clprune_context_options){0});
        cl_mem buffer;
        assert_int_equal(
            clprune_buffer_create(context, CLPRUNE_MEMORY_INPUT, "x", rows[i].bytes + 1, &buffer),
            CLPRUNE_OUT_OF_DEVICE_MEMORY);
        TEST_OK(clprune_buffer_create(context, CLPRUNE_MEMORY_INPUT, "x", rows[i].bytes, &buffer));
    }
}

static void bad_limit(void **state)
{
    const char *text = *state;
    test_environment("CLPRUNE_MEM_LIMIT", text);
    test_open_fails(NULL, NULL, CLPRUNE_INVALID_ARGUMENT, "CLPRUNE_MEM_LIMIT");
    /* The option goes before the environment. */
    (void)test_open((clprune_context_options){.mem_limit = 1000});
}

static void bad_cache_limit(void **state)
{
    const char *text = *state;
    test_environment("CLPRUNE_CACHE_LIMIT", text);
    test_open_fails(NULL, NULL, CLPRUNE_INVALID_ARGUMENT, "CLPRUNE_CACHE_LIMIT is \"");
}

typedef struct log_record {
    int errors, others;
    char last[16384];
} log_record;

static void record(void *user, clprune_log_level level, const char *message)
{
    log_record *log = user;
    if (level != CLPRUNE_LOG_ERROR) {
        log->others++;
        return;
    }
    log->errors++;
    (void)snprintf(log->last, sizeof log->last, "%s", message);
}

static void log_hook(NO_ROW)
{
    log_record log = {0};
    clprune_context *context =
        test_open((clprune_context_options){.log = record, .log_user = &log});
    assert_int_equal(log.errors, 0);
    cl_mem buffer;
    assert_int_equal(clprune_buffer_create(context, CLPRUNE_MEMORY_INPUT, NULL, 1, &buffer),
        CLPRUNE_INVALID_ARGUMENT);
    assert_int_equal(log.errors, 1);
    assert_string_equal(log.last, clprune_last_error(context));
    /* file:line: text */
    test_says(log.last, ".c:");
    const char *end = strstr(log.last, "name is NULL");
    assert_non_null(end);
    assert_string_equal(end, "name is NULL"); /* and no C behind it */
    assert_null(strchr(log.last, '\n'));
    assert_null(strchr(log.last, '/'));
    /* As long as a build log. */
    char name[6000];
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    assert_int_equal(clprune_buffer_create(context, CLPRUNE_MEMORY_INPUT, name, SIZE_MAX, &buffer),
        CLPRUNE_OUT_OF_DEVICE_MEMORY);
    assert_string_equal(log.last, clprune_last_error(context));
    test_says(log.last, name);
    test_end(context);
}

typedef struct failing_log {
    clprune_context *context;
    char first[1000]; /* message */
} failing_log;

/* At the first error, a call fails. */
static void fail_in_log(void *user, clprune_log_level level, const char *message)
{
    failing_log *log = user;
    cl_mem buffer;
    if (level != CLPRUNE_LOG_ERROR || log->first[0] != '\0')
        return;
    (void)snprintf(log->first, sizeof log->first, "%s", message);
    assert_string_equal(clprune_last_error(log->context), message);
    assert_int_equal(clprune_buffer_create(log->context, CLPRUNE_MEMORY_TOTAL, "x", 1, &buffer),
        CLPRUNE_INVALID_ARGUMENT);
    assert_string_equal(message, log->first);
}

/* The failure of a call in the log hook changes neither the message nor the last error. */
static void log_hook_fails(NO_ROW)
{
    for (int shared = 0; shared < 2; shared++) {
        failing_log log = {0};
        const clprune_context_options options = {
            .log = fail_in_log, .log_user = &log, .thread_safe = shared};
        cl_mem buffer;
        log.context = test_open(options);
        assert_int_equal(clprune_buffer_create(log.context, CLPRUNE_MEMORY_INPUT, NULL, 1, &buffer),
            CLPRUNE_INVALID_ARGUMENT);
        test_says(log.first, "name is NULL");
        assert_string_equal(clprune_last_error(log.context), log.first);
        test_end(log.context);
    }
}

static void *other_thread(void *none)
{
    (void)none;
    char *copy = test_alloc(strlen(clprune_last_error(NULL)) + 1);
    return strcpy(copy, clprune_last_error(NULL));
}

static void last_error_is_per_thread(NO_ROW)
{
    selects_nothing("no such device", "no such device");
    pthread_t thread;
    void *seen = NULL;
    assert_int_equal(pthread_create(&thread, NULL, other_thread, NULL), 0);
    assert_int_equal(pthread_join(thread, &seen), 0);
    assert_non_null(seen);
    assert_string_equal((char *)seen, "");
}

static void null_contexts(NO_ROW)
{
    clprune_context_destroy(NULL);
    assert_int_equal(clprune_context_finish(NULL), CLPRUNE_INVALID_ARGUMENT);
    assert_null(clprune_context_queue(NULL));
    assert_null(clprune_context_cl(NULL));
    assert_null(clprune_context_device(NULL));
    assert_null(clprune_context_cache_dir(NULL));
    assert_int_equal(clprune_context_cache_stats(NULL).builds, 0);
    assert_non_null(clprune_last_error(NULL));
}

static void device_list(NO_ROW)
{
    size_t count = 0, again = 0;
    TEST_OK(clprune_device_list(0, NULL, &count));
    assert_true(count >= 1);
    clprune_device_info *devices = test_alloc((count + 1) * sizeof *devices);
    memset(devices, 0x5A, (count + 1) * sizeof *devices);
    TEST_OK(clprune_device_list(count + 1, devices, &again));
    assert_int_equal(again, count);
    for (size_t i = 0; i < count; i++) {
        assert_true(strlen(devices[i].platform) > 0 && strlen(devices[i].device) > 0);
        test_says(devices[i].version, "OpenCL");
        assert_true(devices[i].global_memory > 0 && devices[i].local_memory > 0);
        assert_true(devices[i].max_allocation > 0);
        assert_true(devices[i].compute_units > 0 && devices[i].max_work_group > 0);
        assert_true(devices[i].type != 0);
    }
    assert_int_equal(((unsigned char *)&devices[count])[0], 0x5A); /* not beyond the count */
    TEST_OK(clprune_device_list(1, devices, &again));
    assert_int_equal(again, count);
    assert_int_equal(clprune_device_list(1, NULL, &again), CLPRUNE_INVALID_ARGUMENT);
    assert_int_equal(clprune_device_list(1, devices, NULL), CLPRUNE_INVALID_ARGUMENT);
}

int main(void)
{
    static const char *const nothing[] = {"9:9", "0:99", "99999999999999:0", "0:0x", "0:", ":0",
        "-1:0", " 0:0", "no such device", "%s%n"};
    static const char *const limits[] = {"0", "-1", "K", "12Q", "1.5G", "1 G", "1GB", "0x10", "+5",
        "99999999999999999999", "18446744073709551616", "17179869184G", "lots"};
    unsetenv("CLPRUNE_DEVICE");
    unsetenv("CLPRUNE_MEM_LIMIT");
    test_list list = {0};
    test_add(&list, callers_queue, NULL, "the caller's queue is used, retained and given back");
#ifndef _WIN32
    test_add(&list, small_stack, NULL, "a stack that is too small is refused");
#endif
    test_add(&list, selection_in_any_locale, NULL, "selection by name in any locale");
    test_add(&list, selection_by_index_and_name, NULL, "selection by index, name, environment");
    for (size_t i = 0; i < COUNT_OF(nothing); i++)
        test_add(&list, selection_of_nothing, nothing[i], "selection \"%s\"", nothing[i]);
    static const char *const numbers[] = {"0", "1", "007", "4090"};
    for (size_t i = 0; i < COUNT_OF(numbers); i++)
        test_add(&list, bare_number, numbers[i], "selection \"%s\"", numbers[i]);
    test_add(&list, long_selection, NULL, "a selection of 100000 characters");
    test_add(&list, bad_options, NULL, "bad options");
    test_add(&list, kernel_family, NULL, "the kernel family by environment");
    test_add(&list, kernel_family_by_vectors, NULL, "the kernel family by the width of vectors");
    test_add(&list, bad_debug, NULL, "words of CLPRUNE_DEBUG that there are not");
    test_add(&list, good_limit, NULL, "memory limits with and without suffix");
    for (size_t i = 0; i < COUNT_OF(limits); i++)
        test_add(&list, bad_limit, limits[i], "CLPRUNE_MEM_LIMIT=%s", limits[i]);
    for (size_t i = 0; i < 3; i++)
        test_add(&list, bad_cache_limit, limits[i], "CLPRUNE_CACHE_LIMIT=%s", limits[i]);
    test_add(&list, log_hook, NULL, "the log hook gets the last error");
    test_add(&list, log_hook_fails, NULL, "a call that fails in the log hook");
    test_add(&list, last_error_is_per_thread, NULL, "the last error without context is per thread");
    test_add(&list, null_contexts, NULL, "NULL contexts");
    test_add(&list, device_list, NULL, "the device list");
    return test_run_on_devices("context", &list);
}
