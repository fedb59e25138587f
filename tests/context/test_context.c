/* Contexts: creation, selection, options, errors, the log hook. */
#include <ctype.h>
#include <locale.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/test_folder.h"

#include "support/test_device.h"

/* Creation must fail with `expected` and a text with `part`. */
static void creation_fails(cl_command_queue queue, const clprune_context_options *options,
    clprune_status expected, const char *part)
{
    clprune_context *context = test_context();
    assert_int_equal(clprune_context_create(queue, options, &context), expected);
    assert_null(context);
    if (strstr(clprune_last_error(NULL), part) == NULL)
        fail_msg("\"%s\" is not in \"%s\"", part, clprune_last_error(NULL));
}

static cl_uint references(cl_command_queue queue)
{
    cl_uint count = 0;
    assert_int_equal(
        clGetCommandQueueInfo(queue, CL_QUEUE_REFERENCE_COUNT, sizeof count, &count, NULL),
        CL_SUCCESS);
    return count;
}

static cl_command_queue make_queue(cl_command_queue_properties properties)
{
    cl_int code;
    cl_command_queue queue = clCreateCommandQueue(clprune_context_cl(test_context()),
        clprune_context_device(test_context()), properties, &code);
    assert_int_equal(code, CL_SUCCESS);
    return queue;
}

static void callers_queue(void **state)
{
    (void)state;
    const cl_command_queue_properties kinds[] = {0, CL_QUEUE_PROFILING_ENABLE};
    for (int i = 0; i < 2; i++) {
        cl_command_queue queue = make_queue(kinds[i]);
        const cl_uint before = references(queue);
        clprune_context *context = NULL;
        assert_int_equal(clprune_context_create(queue, NULL, &context), CLPRUNE_SUCCESS);
        assert_ptr_equal(clprune_context_queue(context), queue);
        assert_ptr_equal(clprune_context_cl(context), clprune_context_cl(test_context()));
        assert_ptr_equal(clprune_context_device(context), clprune_context_device(test_context()));
        assert_true(references(queue) > before);
        assert_string_equal(clprune_last_error(context), "");
        clprune_context_destroy(context);
        assert_int_equal(references(queue), before);
        assert_int_equal(clFinish(queue), CL_SUCCESS);
        assert_int_equal(clReleaseCommandQueue(queue), CL_SUCCESS);
    }
}

static void out_of_order_queue(void **state)
{
    (void)state;
    cl_command_queue_properties can = 0;
    assert_int_equal(clGetDeviceInfo(clprune_context_device(test_context()),
                         CL_DEVICE_QUEUE_PROPERTIES, sizeof can, &can, NULL),
        CL_SUCCESS);
    if ((can & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE) == 0)
        skip();
    cl_command_queue queue = make_queue(CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE);
    const cl_uint before = references(queue);
    creation_fails(queue, NULL, CLPRUNE_INVALID_ARGUMENT, "out-of-order");
    assert_int_equal(references(queue), before);
    assert_int_equal(clReleaseCommandQueue(queue), CL_SUCCESS);
}

/* Creation with a selection; true if it is on the device under test. */
static bool selects(const char *selection)
{
    const clprune_context_options options = {.device = selection};
    clprune_context *context = NULL;
    if (clprune_context_create(NULL, &options, &context) != CLPRUNE_SUCCESS)
        fail_msg("selection \"%s\": %s", selection, clprune_last_error(NULL));
    const bool same = clprune_context_device(context) == clprune_context_device(test_context());
    clprune_context_destroy(context);
    return same;
}

static void device_under_test(clprune_device_info *info)
{
    clprune_device_info devices[16];
    size_t count = 0;
    assert_int_equal(clprune_device_list(16, devices, &count), CLPRUNE_SUCCESS);
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

static void selection_by_index_and_name(void **state)
{
    (void)state;
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
    creation_fails(NULL, NULL, CLPRUNE_NO_DEVICE, "no such device");
    const clprune_context_options unset = {.device = ""};
    creation_fails(NULL, &unset, CLPRUNE_NO_DEVICE, "no such device");
    test_environment("CLPRUNE_DEVICE", "");
    (void)selects(NULL);
    test_environment("CLPRUNE_DEVICE", NULL);
}

/* In a Turkish program tolower('I') is 'I'. */
static void selection_in_any_locale(void **state)
{
    (void)state;
    char folder[TEST_PATH], command[2 * TEST_PATH];
    clprune_device_info info;
    device_under_test(&info);
    for (char *p = info.platform; *p != '\0'; p++)
        *p = (char)tolower((unsigned char)*p);
    test_folder_make(folder);
    (void)snprintf(command, sizeof command, "sh '%s/comma_locale.sh' '%s'", TEST_SUPPORT, folder);
    const bool made = system(command) == 0;
    test_environment("LOCPATH", folder);
    if (!made || setlocale(LC_CTYPE, "comma") == NULL) {
        test_folder_remove(folder);
        print_message("no locale can be made here\n");
        skip();
    }
    const int kept = tolower('P');
    const clprune_context_options options = {.device = info.platform};
    clprune_context *context = NULL;
    cl_ulong memory = 0;
    const cl_int asked = clGetDeviceInfo(clprune_context_device(test_context()),
        CL_DEVICE_GLOBAL_MEM_SIZE, sizeof memory, &memory, NULL);
    const clprune_status status = clprune_context_create(NULL, &options, &context);
    (void)setlocale(LC_CTYPE, "C");
    test_environment("LOCPATH", NULL);
    test_folder_remove(folder);
    clprune_context_destroy(context);
    assert_int_equal(asked, CL_SUCCESS);
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
    const clprune_context_options options = {.device = selection};
    creation_fails(NULL, &options, CLPRUNE_NO_DEVICE, selection);
}

/* Digits are in many names, so a number does not choose by name. */
static void bare_number(void **state)
{
    const char *selection = *state;
    const clprune_context_options options = {.device = selection};
    creation_fails(NULL, &options, CLPRUNE_NO_DEVICE, "a bare number");
    creation_fails(NULL, &options, CLPRUNE_NO_DEVICE, "expected \"platform:device\"");
    test_environment("CLPRUNE_DEVICE", selection);
    creation_fails(NULL, NULL, CLPRUNE_NO_DEVICE, "a bare number");
    test_environment("CLPRUNE_DEVICE", NULL);
}

static void long_selection(void **state)
{
    (void)state;
    static char text[100000];
    memset(text, 'x', sizeof text - 1);
    const clprune_context_options options = {.device = text};
    creation_fails(NULL, &options, CLPRUNE_NO_DEVICE, "xxxx");
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

static void bad_options(void **state)
{
    (void)state;
    clprune_context_options options = {.allocator = {some_allocate, NULL, NULL}};
    creation_fails(NULL, &options, CLPRUNE_INVALID_ARGUMENT, "allocator");
    options = (clprune_context_options){.allocator = {NULL, some_release, NULL}};
    creation_fails(NULL, &options, CLPRUNE_INVALID_ARGUMENT, "allocator");
    options = (clprune_context_options){.kernels = (clprune_kernels)3};
    creation_fails(NULL, &options, CLPRUNE_INVALID_ARGUMENT, "kernels");
    options = (clprune_context_options){.kernels = (clprune_kernels)-1};
    creation_fails(NULL, &options, CLPRUNE_INVALID_ARGUMENT, "kernels");
    for (size_t i = 0; i < sizeof options.reserved / sizeof *options.reserved; i++) {
        options = (clprune_context_options){0};
        options.reserved[i] = (uint64_t)1 << 63;
        creation_fails(NULL, &options, CLPRUNE_INVALID_ARGUMENT, "options.reserved");
    }
    clprune_context *dry = test_context();
    const clprune_device_info device = {
        .compute_units = 1, .max_work_group = 1, .reserved = {0, 0, 0, 1}};
    assert_int_equal(clprune_context_create_dry(&device, NULL, &dry), CLPRUNE_INVALID_ARGUMENT);
    assert_non_null(strstr(clprune_last_error(NULL), "device.reserved"));
    assert_null(dry);
    assert_int_equal(clprune_context_create(NULL, NULL, NULL), CLPRUNE_INVALID_ARGUMENT);
    assert_non_null(strstr(clprune_last_error(NULL), "context is NULL"));
}

static void kernel_family(void **state)
{
    (void)state;
    clprune_context *context;
    clprune_context_options options = {.kernels = CLPRUNE_KERNELS_AUTO};
    static const struct {
        const char *text;
        clprune_kernels kernels;
    } rows[] = {{"kernels=vector", CLPRUNE_KERNELS_VECTOR},
        {"kernels=tiled", CLPRUNE_KERNELS_TILED},
        {"kernels=tiled,mma=auto,gemm=tiled,kernels=vector", CLPRUNE_KERNELS_VECTOR}};
    for (int i = 0; i < 3; i++) {
        test_debug(rows[i].text);
        assert_int_equal(test_create(options, &context), CLPRUNE_SUCCESS);
        assert_int_equal(clprune_context_kernels(context), rows[i].kernels);
        clprune_context_destroy(context);
    }
    test_debug(NULL);
}

/* The family of a device that is described to a dry context. */
static void kernel_family_by_vectors(void **state)
{
    (void)state;
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
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const clprune_device_info device = {.type = rows[i].type,
            .vector_width = rows[i].vector_width,
            .compute_units = 1,
            .max_work_group = 256};
        clprune_context_options options = {.kernels = CLPRUNE_KERNELS_AUTO};
        clprune_context *context = NULL;
        assert_int_equal(clprune_context_create_dry(&device, &options, &context), CLPRUNE_SUCCESS);
        if (clprune_context_kernels(context) != rows[i].kernels)
            fail_msg("type %u, %u wide: %d", (unsigned)device.type, device.vector_width,
                (int)clprune_context_kernels(context));
        clprune_context_destroy(context);
        options.kernels = CLPRUNE_KERNELS_VECTOR; /* the choice can be overridden */
        assert_int_equal(clprune_context_create_dry(&device, &options, &context), CLPRUNE_SUCCESS);
        assert_int_equal(clprune_context_kernels(context), CLPRUNE_KERNELS_VECTOR);
        clprune_context_destroy(context);
    }
}

/* Words of $CLPRUNE_DEBUG that there are not; the message tells those that there are. */
static void bad_debug(void **state)
{
    static const char *const words[] = {"kernels=both", "kernels", "kernels=", "=tiled", "tiled",
        "Kernels=tiled", "kernels=tiled ", "kernels=tiled, mma=auto", "gemm=tiled,,mma=auto",
        "forget", "forget=vector", "kernels=clblast", "kernels=til", "kernels=tiledx"};
    (void)state;
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        test_debug(words[i]);
        creation_fails(NULL, NULL, CLPRUNE_INVALID_ARGUMENT, "CLPRUNE_DEBUG has \"");
        assert_non_null(strstr(clprune_last_error(NULL),
            "expected kernels=auto|vector|tiled, gemm=auto|vector|tiled|clblast, "
            "mma=auto|emulated, forget=keep|poison or check=on|off"));
    }
    test_debug(NULL);
}

static void good_limit(void **state)
{
    static const struct {
        const char *text;
        size_t bytes;
    } rows[] = {{"1500", 1500}, {"64K", 65536}, {"64k", 65536}, {"2M", 2u << 20}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        test_environment("CLPRUNE_MEM_LIMIT", rows[i].text);
        clprune_context *context;
        assert_int_equal(test_create((clprune_context_options){0}, &context), CLPRUNE_SUCCESS);
        cl_mem buffer;
        assert_int_equal(
            clprune_buffer_create(context, CLPRUNE_MEMORY_INPUT, "x", rows[i].bytes + 1, &buffer),
            CLPRUNE_OUT_OF_DEVICE_MEMORY);
        assert_int_equal(
            clprune_buffer_create(context, CLPRUNE_MEMORY_INPUT, "x", rows[i].bytes, &buffer),
            CLPRUNE_SUCCESS);
        clprune_context_destroy(context);
    }
    test_environment("CLPRUNE_MEM_LIMIT", NULL);
}

static void bad_limit(void **state)
{
    const char *text = *state;
    test_environment("CLPRUNE_MEM_LIMIT", text);
    creation_fails(NULL, NULL, CLPRUNE_INVALID_ARGUMENT, "CLPRUNE_MEM_LIMIT");
    /* The option goes before the environment. */
    clprune_context *context;
    assert_int_equal(
        test_create((clprune_context_options){.mem_limit = 1000}, &context), CLPRUNE_SUCCESS);
    clprune_context_destroy(context);
    test_environment("CLPRUNE_MEM_LIMIT", NULL);
}

static void bad_cache_limit(void **state)
{
    const char *text = *state;
    test_environment("CLPRUNE_CACHE_LIMIT", text);
    creation_fails(NULL, NULL, CLPRUNE_INVALID_ARGUMENT, "CLPRUNE_CACHE_LIMIT is \"");
    test_environment("CLPRUNE_CACHE_LIMIT", NULL);
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

static void log_hook(void **state)
{
    (void)state;
    log_record log = {0};
    clprune_context *context;
    assert_int_equal(
        test_create((clprune_context_options){.log = record, .log_user = &log}, &context),
        CLPRUNE_SUCCESS);
    assert_int_equal(log.errors, 0);
    cl_mem buffer;
    assert_int_equal(clprune_buffer_create(context, CLPRUNE_MEMORY_INPUT, NULL, 1, &buffer),
        CLPRUNE_INVALID_ARGUMENT);
    assert_int_equal(log.errors, 1);
    assert_string_equal(log.last, clprune_last_error(context));
    /* file:line: text */
    assert_non_null(strstr(log.last, ".c:"));
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
    assert_non_null(strstr(log.last, name));
    clprune_context_destroy(context);
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
static void log_hook_fails(void **state)
{
    (void)state;
    for (int shared = 0; shared < 2; shared++) {
        failing_log log = {0};
        const clprune_context_options options = {
            .log = fail_in_log, .log_user = &log, .thread_safe = shared};
        cl_mem buffer;
        assert_int_equal(test_create(options, &log.context), CLPRUNE_SUCCESS);
        assert_int_equal(clprune_buffer_create(log.context, CLPRUNE_MEMORY_INPUT, NULL, 1, &buffer),
            CLPRUNE_INVALID_ARGUMENT);
        assert_non_null(strstr(log.first, "name is NULL"));
        assert_string_equal(clprune_last_error(log.context), log.first);
        clprune_context_destroy(log.context);
    }
}

static void *other_thread(void *unused)
{
    (void)unused;
    char *copy = test_alloc(strlen(clprune_last_error(NULL)) + 1);
    if (copy != NULL)
        strcpy(copy, clprune_last_error(NULL));
    return copy;
}

static void last_error_is_per_thread(void **state)
{
    (void)state;
    const clprune_context_options options = {.device = "no such device"};
    creation_fails(NULL, &options, CLPRUNE_NO_DEVICE, "no such device");
    pthread_t thread;
    void *seen = NULL;
    assert_int_equal(pthread_create(&thread, NULL, other_thread, NULL), 0);
    assert_int_equal(pthread_join(thread, &seen), 0);
    assert_non_null(seen);
    assert_string_equal((char *)seen, "");
}

static void null_contexts(void **state)
{
    (void)state;
    clprune_context_destroy(NULL);
    assert_int_equal(clprune_context_finish(NULL), CLPRUNE_INVALID_ARGUMENT);
    assert_null(clprune_context_queue(NULL));
    assert_null(clprune_context_cl(NULL));
    assert_null(clprune_context_device(NULL));
    assert_null(clprune_context_cache_dir(NULL));
    assert_int_equal(clprune_context_cache_stats(NULL).builds, 0);
    assert_non_null(clprune_last_error(NULL));
}

static void device_list(void **state)
{
    (void)state;
    size_t count = 0, again = 0;
    assert_int_equal(clprune_device_list(0, NULL, &count), CLPRUNE_SUCCESS);
    assert_true(count >= 1);
    clprune_device_info *devices = test_alloc(count * sizeof *devices);
    memset(devices, 0x5A, (count + 1) * sizeof *devices);
    assert_int_equal(clprune_device_list(count + 1, devices, &again), CLPRUNE_SUCCESS);
    assert_int_equal(again, count);
    for (size_t i = 0; i < count; i++) {
        assert_true(strlen(devices[i].platform) > 0 && strlen(devices[i].device) > 0);
        assert_non_null(strstr(devices[i].version, "OpenCL"));
        assert_true(devices[i].global_memory > 0 && devices[i].local_memory > 0);
        assert_true(devices[i].max_allocation > 0);
        assert_true(devices[i].compute_units > 0 && devices[i].max_work_group > 0);
        assert_true(devices[i].type != 0);
    }
    assert_int_equal(((unsigned char *)&devices[count])[0], 0x5A); /* not beyond the count */
    assert_int_equal(clprune_device_list(1, devices, &again), CLPRUNE_SUCCESS);
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
    test_add(&list, out_of_order_queue, NULL, "an out-of-order queue is refused");
    test_add(&list, selection_in_any_locale, NULL, "selection by name in any locale");
    test_add(&list, selection_by_index_and_name, NULL, "selection by index, name, environment");
    for (size_t i = 0; i < sizeof nothing / sizeof nothing[0]; i++)
        test_add(&list, selection_of_nothing, nothing[i], "selection \"%s\"", nothing[i]);
    static const char *const numbers[] = {"0", "1", "007", "4090"};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        test_add(&list, bare_number, numbers[i], "selection \"%s\"", numbers[i]);
    test_add(&list, long_selection, NULL, "a selection of 100000 characters");
    test_add(&list, bad_options, NULL, "bad options");
    test_add(&list, kernel_family, NULL, "the kernel family by environment");
    test_add(&list, kernel_family_by_vectors, NULL, "the kernel family by the width of vectors");
    test_add(&list, bad_debug, NULL, "words of CLPRUNE_DEBUG that there are not");
    test_add(&list, good_limit, NULL, "memory limits with and without suffix");
    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++)
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
