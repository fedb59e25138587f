/* CLPRUNE_VERBOSE: the lines of calls, commands and errors, refused values; silence without it.
 *
 * A line has eight fields, also in a locale with a decimal comma, and so have the texts of errors.
 * It names operands, kernels and where programs came from: `build`, then `disk`. Its time is the
 * time of the event. Results have the same bits. Without the variable calls that fail print nothing
 * either. */
#include <fcntl.h>
#include <locale.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support/test.h"

enum { ROWS = 24, IN = 32, OUT = 16 };

/* A context with $CLPRUNE_VERBOSE. */
static clprune_context *open_verbose(const char *verbose, const char *cache)
{
    test_environment("CLPRUNE_VERBOSE", verbose);
    clprune_context *context = test_open((clprune_context_options){
        .kernels = clprune_context_kernels(test_context()), .cache_dir = cache});
    test_environment("CLPRUNE_VERBOSE", NULL);
    return context;
}

/* Runs one layer and a call that fails; y goes to `result`. */
static void use(const char *verbose, float result[ROWS * OUT])
{
    clprune_context *context = open_verbose(verbose, NULL);
    const float *numbers = test_new_normal(1, ROWS * IN);
    const clprune_mat x = test_new_mat_of(context, "x", ROWS, IN, numbers),
                      w = test_new_mat_of(context, "w", OUT, IN, numbers),
                      y = test_new_mat(context, ROWS, OUT);
    for (int i = 0; i < 2; i++) {
        TEST_EVENT(clprune_gemm(context, false, true, 1.0f, 0.0f, x, w, y, &event));
        TEST_OK(clprune_activation_forward(
            context, CLPRUNE_ACTIVATION_RELU, 0, 0, y, CLPRUNE_NO_MAT, y, NULL, NULL));
    }
    TEST_OK(clprune_mat_read(context, y, result));
    assert_int_equal(
        clprune_gemm(context, false, false, 1.0f, 0.0f, x, w, y, NULL), CLPRUNE_INVALID_SIZE);
    test_end(context);
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

static void lines(NO_ROW)
{
    float silent[ROWS * OUT], loud[ROWS * OUT];
    const char *path = test_text("%s/calls.csv", test_folder());
    use(NULL, silent);
    for (int level = 1; level <= 2; level++) {
        use(test_text("%d:%s", level, path), loud);
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
        test_says(test_text("%.*s", (int)(end - second), second), ",1,memory,");
        const char *line = test_text("%.*s", (int)(strchr(first, '\n') - first), first);
        assert_null(strstr(line, ",memory,"));
    }
}

/* A program may have a locale of its own. */
static void decimal_comma(NO_ROW)
{
    float numbers[2] = {1, 2};
    const clprune_linear_desc desc = {
        .in = IN, .out = OUT, .keep = {.form = CLPRUNE_FORM_PRUNED, .sparsity = 1.5f}};
    clprune_linear *layer;
    test_comma_locale(LC_NUMERIC);
    const char *text = test_text("%.1f", 1.5);
    TEST_FAILS(clprune_linear_create(test_context(), &desc, &layer), CLPRUNE_INVALID_ARGUMENT,
        "sparsity is 1.5, expected");
    const char *path = test_text("2:%s/calls.csv", test_folder());
    clprune_context *context = open_verbose(path, NULL);
    (void)test_new_mat_of(context, "x", 1, 2, numbers);
    test_end(context);
    (void)setlocale(LC_NUMERIC, "C");
    assert_string_equal(text, "1,5");
    char *lines_written = read_lines(path + 2);
    assert_int_equal(count_lines(lines_written, "clprune,c"), 2);
}

/* The time is the event's. The first context builds the program, the second loads it. */
static void times_and_sources(NO_ROW)
{
    const char *const sources[] = {"build", "disk"};
    float numbers[ROWS * OUT] = {0};
    const char *folder = test_folder();
    test_debug("check=off"); /* one program */
    for (size_t i = 0; i < 2; i++) {
        const char *path = test_text("1:%s/%s.csv", folder, sources[i]);
        clprune_context *context = open_verbose(path, test_text("%s/cache", folder));
        const clprune_mat y = test_new_mat_of(context, "y", ROWS, OUT, numbers);
        cl_event event;
        cl_ulong from = 0, to = 0;
        TEST_OK(clprune_activation_forward(
            context, CLPRUNE_ACTIVATION_RELU, 0, 0, y, CLPRUNE_NO_MAT, y, NULL, &event));
        TEST_CL(
            clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_START, sizeof from, &from, NULL));
        TEST_CL(clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_END, sizeof to, &to, NULL));
        TEST_CL(clReleaseEvent(event));
        test_end(context);
        char *text = read_lines(path + 2);
        const char *line = strstr(text, "clprune,call,activation_forward,");
        assert_non_null(line);
        const char *end = test_text(",1,%s,", sources[i]);
        const char *at = strstr(line, end);
        if (at == NULL || fabs(strtod(at + strlen(end), NULL) - (double)(to - from) * 1e-6) > 6e-4)
            fail_msg("expected '%s' and %.6f ms: %s", end, (double)(to - from) * 1e-6, line);
    }
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
static void silent(NO_ROW)
{
    clprune_context *context = NULL, *none = NULL;
    clprune_mat x, y = CLPRUNE_NO_MAT;
    clprune_status good[4], bad[3];
    float numbers[ROWS * OUT] = {0};
    size_t bytes;
    const char *path = test_text("%s/printed", test_folder());
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
    for (size_t i = 0; i < COUNT_OF(good); i++)
        assert_int_equal(good[i], CLPRUNE_SUCCESS);
    for (size_t i = 0; i < COUNT_OF(bad); i++)
        assert_int_not_equal(bad[i], CLPRUNE_SUCCESS);
    char *text = test_file_read(path, &bytes);
    if (bytes > 0)
        fail_msg("printed: %.*s", (int)bytes, text);
}

static void refused(NO_ROW)
{
    const char *const values[] = {"3", "yes", "1:", "12", "1:/nowhere/calls.csv"};
    for (size_t i = 0; i < COUNT_OF(values); i++) {
        test_environment("CLPRUNE_VERBOSE", values[i]);
        test_open_fails(NULL, NULL, CLPRUNE_INVALID_ARGUMENT, "CLPRUNE_VERBOSE");
    }
    clprune_context *dry = test_context();
    test_environment("CLPRUNE_VERBOSE", "yes"); /* a dry context prints nothing, but knows it too */
    assert_int_equal(clprune_context_create_dry(NULL, NULL, &dry), CLPRUNE_INVALID_ARGUMENT);
    assert_null(dry);
    float result[ROWS * OUT];
    use("0", result); /* off, as unset is */
    use("", result);
}

/* A pipe takes the lines if it has a reader; without one the creation fails instead of waiting. */
static void pipes(NO_ROW)
{
    char text[4096];
    const char *path = test_text("%s/pipe", test_folder()), *value = test_text("1:%s", path);
    assert_int_equal(mkfifo(path, 0600), 0);
    test_environment("CLPRUNE_VERBOSE", value);
    (void)alarm(60); /* in case it waits */
    test_open_fails(NULL, NULL, CLPRUNE_INVALID_ARGUMENT, path);
    (void)alarm(0);

    const int reader = open(path, O_RDONLY | O_NONBLOCK);
    assert_true(reader >= 0);
    float result[ROWS * OUT];
    use(value, result);
    const ssize_t bytes = read(reader, text, sizeof text - 1);
    assert_true(bytes > 0);
    text[bytes] = '\0';
    assert_int_equal(count_lines(text, "clprune,call,activation_forward,"), 2);
    assert_int_equal(close(reader), 0);
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
