/* CLPRUNE_VERBOSE: the lines of calls, commands and errors, refused values; silence without it. */
#include <fcntl.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support/test_device.h"
#include "support/test_folder.h"
#include "support/test_rng.h"

enum { ROWS = 24, IN = 32, OUT = 16 };

/* A context with $CLPRUNE_VERBOSE. */
static clprune_context *open_verbose(const char *verbose, const char *cache)
{
    clprune_context *context = NULL;
    test_environment("CLPRUNE_VERBOSE", verbose);
    const clprune_context_options options = {
        .kernels = clprune_context_kernels(test_context()), .cache_dir = cache};
    const clprune_status status = test_create(options, &context);
    test_environment("CLPRUNE_VERBOSE", NULL);
    assert_int_equal(status, CLPRUNE_SUCCESS);
    return context;
}

/* Runs one layer and a call that fails; y goes to `result`. */
static void use(const char *verbose, float result[ROWS * OUT])
{
    clprune_context *context = open_verbose(verbose, NULL);
    clprune_mat x, w, y;
    TEST_OK(clprune_mat_create(context, CLPRUNE_MEMORY_INPUT, "x", ROWS, IN, &x));
    TEST_OK(clprune_mat_create(context, CLPRUNE_MEMORY_PARAMETERS, "w", OUT, IN, &w));
    TEST_OK(clprune_mat_create(context, CLPRUNE_MEMORY_ACTIVATIONS, "y", ROWS, OUT, &y));
    float *numbers = test_new_normal(1, ROWS * IN);
    TEST_OK(clprune_mat_write(context, x, numbers));
    TEST_OK(clprune_mat_write(context, w, numbers));
    for (int i = 0; i < 2; i++) {
        cl_event event = NULL;
        TEST_OK(clprune_gemm(context, false, true, 1.0f, 0.0f, x, w, y, &event));
        assert_non_null(event);
        assert_int_equal(clReleaseEvent(event), CL_SUCCESS);
        TEST_OK(clprune_activation_forward(
            context, CLPRUNE_ACTIVATION_RELU, 0, 0, y, CLPRUNE_NO_MAT, y, NULL, NULL));
    }
    TEST_OK(clprune_mat_read(context, y, result));
    assert_int_equal(
        clprune_gemm(context, false, false, 1.0f, 0.0f, x, w, y, NULL), CLPRUNE_INVALID_SIZE);
    clprune_context_destroy(context);
}

/* A file of lines. Lines of calls and commands have eight fields, the last is a number
 * with three decimals. */
static char *read_lines(const char *path)
{
    size_t bytes;
    char *text = test_file_read(path, &bytes);
    text[bytes] = '\0';
    for (const char *line = text, *end; *line != '\0'; line = end + 1) {
        size_t fields = 1;
        bool quoted = false;
        const char *last = line;
        for (end = line; *end != '\n'; end++) {
            assert_int_not_equal(*end, '\0');
            quoted ^= *end == '"';
            if (*end == ',' && !quoted) {
                fields++;
                last = end + 1;
            }
        }
        const bool call = strncmp(line, "clprune,call,", 13) == 0;
        if (!call && strncmp(line, "clprune,command,", 16) != 0)
            continue;
        const size_t whole = strspn(last, "0123456789");
        if (fields != 8 || whole == 0 || last[whole] != '.' ||
            strspn(last + whole + 1, "0123456789") != 3 || last + whole + 4 != end)
            fail_msg("%zu fields: %.*s", fields, (int)(end - line), line);
    }
    return text;
}

/* The lines of `text` that begin with `start`. */
static size_t count_lines(const char *text, const char *start)
{
    size_t count = 0;
    for (const char *line = text; line != NULL && *line != '\0';) {
        count += strncmp(line, start, strlen(start)) == 0;
        line = strchr(line, '\n');
        line = line != NULL ? line + 1 : NULL;
    }
    return count;
}

static void lines(void **state)
{
    (void)state;
    char folder[TEST_PATH], path[TEST_PATH + 16], value[TEST_PATH + 32];
    float silent[ROWS * OUT], loud[ROWS * OUT];
    test_folder_make(folder);
    (void)snprintf(path, sizeof path, "%s/calls.csv", folder);
    use(NULL, silent);
    for (int level = 1; level <= 2; level++) {
        (void)snprintf(value, sizeof value, "%d:%s", level, path);
        use(value, loud);
        assert_memory_equal(silent, loud, sizeof silent);
        char *text = read_lines(path);
        const size_t runs = (size_t)level; /* the second appends to the file */
        assert_int_equal(count_lines(text, "clprune,info,0."), runs);
        assert_int_equal(count_lines(text, "clprune,call,gemm,a:24x32 b:16x32 c:24x16,"), 2 * runs);
        assert_int_equal(count_lines(text, "clprune,call,activation_forward,"), 2 * runs);
        assert_int_equal(count_lines(text, "clprune,call,mat_write,mat:24x32,write,1,,"), runs);
        assert_int_equal(count_lines(text, "clprune,call,mat_read,mat:24x16,read,1,,"), runs);
        assert_int_equal(count_lines(text, "clprune,call,"), 7 * runs);
        assert_int_equal(count_lines(text, "clprune,error,gemm,CLPRUNE_INVALID_SIZE,\""), runs);
        assert_true(count_lines(text, "clprune,command,") >= (level == 2 ? 7 : 0));
        assert_int_equal(count_lines(text, "clprune,command,") > 0, level == 2);
        /* of two equal calls, the first builds its kernel or loads it, the second has it */
        const char *first = strstr(text, "clprune,call,activation_forward"), *second = NULL;
        if (first != NULL)
            second = strstr(first + 1, "clprune,call,activation_forward");
        assert_non_null(second);
        const char *end = strchr(second, '\n');
        assert_non_null(end);
        char line[256];
        (void)snprintf(line, sizeof line, "%.*s", (int)(end - second), second);
        assert_non_null(strstr(line, ",1,memory,"));
        (void)snprintf(line, sizeof line, "%.*s", (int)(strchr(first, '\n') - first), first);
        assert_null(strstr(line, ",memory,"));
    }
    test_folder_remove(folder);
}

/* A program may have a locale of its own. */
static void decimal_comma(void **state)
{
    (void)state;
    char folder[TEST_PATH], path[TEST_PATH + 16], text[2 * TEST_PATH];
    float numbers[2] = {1, 2};
    const clprune_linear_desc desc = {
        .in = IN, .out = OUT, .keep = {.form = CLPRUNE_FORM_PRUNED, .sparsity = 1.5f}};
    clprune_linear *layer;
    test_folder_make(folder);
    (void)snprintf(text, sizeof text, "sh '%s/comma_locale.sh' '%s'", TEST_SUPPORT, folder);
    const bool made = system(text) == 0;
    test_environment("LOCPATH", folder);
    if (!made || setlocale(LC_NUMERIC, "comma") == NULL) {
        test_folder_remove(folder);
        print_message("no locale with a decimal comma can be made here\n");
        skip();
    }
    (void)snprintf(text, sizeof text, "%.1f", 1.5);
    TEST_FAILS(clprune_linear_create(test_context(), &desc, &layer), CLPRUNE_INVALID_ARGUMENT,
        "sparsity is 1.5, expected");
    (void)snprintf(path, sizeof path, "2:%s/calls.csv", folder);
    clprune_context *context = open_verbose(path, NULL);
    clprune_mat x;
    TEST_OK(clprune_mat_create(context, CLPRUNE_MEMORY_INPUT, "x", 1, 2, &x));
    TEST_OK(clprune_mat_write(context, x, numbers));
    clprune_context_destroy(context);
    (void)setlocale(LC_NUMERIC, "C");
    assert_string_equal(text, "1,5");
    char *lines_written = read_lines(path + 2);
    assert_int_equal(count_lines(lines_written, "clprune,c"), 2);
    test_folder_remove(folder);
}

/* The time is the event's. The first context builds the program, the second loads it. */
static void times_and_sources(void **state)
{
    (void)state;
    const char *const sources[] = {"build", "disk"};
    char folder[TEST_PATH], path[TEST_PATH + 16], cache[TEST_PATH + 16], end[32];
    float numbers[ROWS * OUT] = {0};
    test_folder_make(folder);
    (void)snprintf(cache, sizeof cache, "%s/cache", folder);
    test_debug("check=off"); /* one program */
    for (size_t i = 0; i < 2; i++) {
        (void)snprintf(path, sizeof path, "1:%s/%s.csv", folder, sources[i]);
        clprune_context *context = open_verbose(path, cache);
        clprune_mat y;
        cl_event event;
        cl_ulong from = 0, to = 0;
        TEST_OK(clprune_mat_create(context, CLPRUNE_MEMORY_ACTIVATIONS, "y", ROWS, OUT, &y));
        TEST_OK(clprune_mat_write(context, y, numbers));
        TEST_OK(clprune_activation_forward(
            context, CLPRUNE_ACTIVATION_RELU, 0, 0, y, CLPRUNE_NO_MAT, y, NULL, &event));
        assert_int_equal(
            clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_START, sizeof from, &from, NULL),
            CL_SUCCESS);
        assert_int_equal(
            clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_END, sizeof to, &to, NULL),
            CL_SUCCESS);
        assert_int_equal(clReleaseEvent(event), CL_SUCCESS);
        clprune_context_destroy(context);
        char *text = read_lines(path + 2);
        const char *line = strstr(text, "clprune,call,activation_forward,");
        assert_non_null(line);
        (void)snprintf(end, sizeof end, ",1,%s,", sources[i]);
        const char *at = strstr(line, end);
        if (at == NULL || fabs(strtod(at + strlen(end), NULL) - (double)(to - from) * 1e-6) > 6e-4)
            fail_msg("expected '%s' and %.6f ms: %s", end, (double)(to - from) * 1e-6, line);
    }
    test_debug(NULL);
    test_folder_remove(folder);
}

/* Sends stdout and stderr to a new file; without a path, back. */
static void redirect(const char *path)
{
    static int before[2];
    (void)fflush(NULL);
    for (int i = 0; i < 2; i++) {
        const int to =
            path == NULL ? before[i] : open(path, O_WRONLY | O_CREAT | O_APPEND, S_IRUSR | S_IWUSR);
        if (path != NULL)
            before[i] = dup(i + 1);
        (void)dup2(to, i + 1);
        (void)close(to);
    }
}

/* Neither calls that succeed nor warnings and errors print. */
static void silent(void **state)
{
    (void)state;
    char folder[TEST_PATH], path[TEST_PATH + 16];
    clprune_context *context = NULL, *none = NULL;
    clprune_mat x, y = CLPRUNE_NO_MAT;
    clprune_status good[4], bad[3];
    float numbers[ROWS * OUT] = {0};
    size_t bytes;
    test_folder_make(folder);
    (void)snprintf(path, sizeof path, "%s/printed", folder);
    test_environment("CLPRUNE_VERBOSE", NULL);
    redirect(path); /* an assertion that fails would skip the way back */
    good[0] = test_create((clprune_context_options){.cache_dir = path}, &context); /* a warning */
    good[1] = clprune_mat_create(context, CLPRUNE_MEMORY_ACTIVATIONS, "y", ROWS, OUT, &y);
    good[2] = clprune_mat_write(context, y, numbers);
    good[3] = clprune_activation_forward(
        context, CLPRUNE_ACTIVATION_RELU, 0, 0, y, CLPRUNE_NO_MAT, y, NULL, NULL);
    bad[0] = clprune_mat_create(context, CLPRUNE_MEMORY_INPUT, "x", SIZE_MAX / 8, 1, &x);
    bad[1] =
        clprune_activation_forward(context, CLPRUNE_ACTIVATION_RELU, 0, 0, y, y, y, NULL, NULL);
    bad[2] = test_create((clprune_context_options){.kernels = 99}, &none);
    clprune_context_destroy(context);
    redirect(NULL);
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        assert_int_equal(good[i], CLPRUNE_SUCCESS);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_not_equal(bad[i], CLPRUNE_SUCCESS);
    char *text = test_file_read(path, &bytes);
    if (bytes > 0)
        fail_msg("printed: %.*s", (int)bytes, text);
    test_folder_remove(folder);
}

static void refused(void **state)
{
    (void)state;
    const char *const values[] = {"3", "yes", "1:", "12", "1:/nowhere/calls.csv"};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        clprune_context *context = test_context();
        test_environment("CLPRUNE_VERBOSE", values[i]);
        const clprune_status status = test_create((clprune_context_options){0}, &context);
        test_environment("CLPRUNE_VERBOSE", NULL);
        assert_int_equal(status, CLPRUNE_INVALID_ARGUMENT);
        assert_null(context);
        assert_non_null(strstr(clprune_last_error(NULL), "CLPRUNE_VERBOSE"));
    }
    clprune_context *dry = test_context();
    test_environment("CLPRUNE_VERBOSE", "yes"); /* a dry context prints nothing, but knows it too */
    const clprune_status status = clprune_context_create_dry(NULL, NULL, &dry);
    test_environment("CLPRUNE_VERBOSE", NULL);
    assert_int_equal(status, CLPRUNE_INVALID_ARGUMENT);
    assert_null(dry);
    float result[ROWS * OUT];
    use("0", result); /* off, as unset is */
    use("", result);
}

/* A pipe takes the lines if it has a reader; without one the creation fails instead of waiting. */
static void pipes(void **state)
{
    (void)state;
    char folder[TEST_PATH], path[TEST_PATH + 16], value[TEST_PATH + 32], text[4096];
    test_folder_make(folder);
    (void)snprintf(path, sizeof path, "%s/pipe", folder);
    (void)snprintf(value, sizeof value, "1:%s", path);
    assert_int_equal(mkfifo(path, 0600), 0);
    clprune_context *context = test_context();
    test_environment("CLPRUNE_VERBOSE", value);
    (void)alarm(60); /* in case it waits */
    const clprune_status status = test_create((clprune_context_options){0}, &context);
    (void)alarm(0);
    test_environment("CLPRUNE_VERBOSE", NULL);
    assert_int_equal(status, CLPRUNE_INVALID_ARGUMENT);
    assert_null(context);
    assert_non_null(strstr(clprune_last_error(NULL), path));

    const int reader = open(path, O_RDONLY | O_NONBLOCK);
    assert_true(reader >= 0);
    float result[ROWS * OUT];
    use(value, result);
    const ssize_t bytes = read(reader, text, sizeof text - 1);
    assert_true(bytes > 0);
    text[bytes] = '\0';
    assert_int_equal(count_lines(text, "clprune,call,activation_forward,"), 2);
    assert_int_equal(close(reader), 0);
    test_folder_remove(folder);
}

int main(void)
{
    test_list list = {0};
    test_add(&list, lines, NULL, "lines");
    test_add(&list, decimal_comma, NULL, "in a locale with a decimal comma");
    test_add(&list, times_and_sources, NULL, "times and sources");
    test_add(&list, silent, NULL, "silent without it");
    test_add(&list, refused, NULL, "refused values");
    test_add(&list, pipes, NULL, "pipes");
    return test_run_on_each_device("verbose", &list);
}
