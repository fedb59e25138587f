/* Several threads on one context: at once where it is thread-safe, in turn where it is not. */
#include <pthread.h>

#include "support/test.h"
#include "support/thread_job.h"

enum { RUNS = 20, ANEW = 4, MOST_THREADS = 3 };

static void check_job(const thread_job *j, const thread_job *want)
{
    if (j->status != CLPRUNE_SUCCESS)
        fail_msg("%s: %s", clprune_status_name(j->status), j->told);
    assert_memory_equal(j->w, want->w, sizeof j->w);
}

/* Threads that train at once give the bits of one after the other. */
static void at_once(NO_ROW)
{
    clprune_context *context = NULL;
    thread_job want[MOST_THREADS], got[MOST_THREADS];
    for (unsigned i = 0; i < MOST_THREADS; i++) {
        want[i] = (thread_job){.context = test_context(), .seed = i + 1};
        (void)thread_train(&want[i]);
        check_job(&want[i], &want[i]);
    }
    for (int run = 0; run < RUNS; run++) {
        /* Often anew: the first calls, which build, race too. */
        clprune_context_options options = {
            .kernels = clprune_context_kernels(test_context()), .thread_safe = 1};
        if (run % ANEW == 0)
            context = test_open(options);
        pthread_t thread[MOST_THREADS];
        for (unsigned i = 0; i < MOST_THREADS; i++) {
            got[i] = (thread_job){.context = context, .seed = i + 1};
            assert_int_equal(pthread_create(&thread[i], NULL, thread_train, &got[i]), 0);
        }
        for (unsigned i = 0; i < MOST_THREADS; i++)
            assert_int_equal(pthread_join(thread[i], NULL), 0);
        for (unsigned i = 0; i < MOST_THREADS; i++)
            check_job(&got[i], &want[i]);
        assert_int_equal(clprune_memory_query(context, CLPRUNE_MEMORY_INPUT).live, 0);
        assert_int_equal(clprune_memory_query(context, CLPRUNE_MEMORY_ACTIVATIONS).live, 0);
        if (run % ANEW == ANEW - 1)
            test_end(context);
    }
}

/* Without the option any thread may use a context, one after the other. */
static void in_turn(NO_ROW)
{
    thread_job want = {.context = test_context(), .seed = 5};
    (void)thread_train(&want);
    for (int run = 0; run < 3; run++) {
        thread_job got = {.context = test_context(), .seed = 5};
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, thread_train, &got), 0);
        assert_int_equal(pthread_join(thread, NULL), 0);
        check_job(&got, &want);
    }
}

typedef struct failing {
    clprune_context *context;
    size_t rows;
    int wrong; /* texts that were not its own */
} failing;

/* Fails with a text of its own, again and again. */
static void *fail_often(void *what)
{
    failing *f = what;
    const clprune_mat beyond = {(cl_mem)f, 1, 2, f->rows, SIZE_MAX};
    const clprune_mat none = {NULL, 0, f->rows, 1, 1};
    for (int i = 0; i < 500; i++) {
        const bool first = f->rows % 2 == 0;
        const clprune_status status = clprune_mat_fill(f->context, 1, first ? beyond : none, NULL);
        const char *want = first ? "overflows size_t" : "mat has no buffer";
        if (status == CLPRUNE_SUCCESS || strstr(clprune_last_error(f->context), want) == NULL)
            f->wrong++;
    }
    return NULL;
}

/* In a thread-safe context each thread reads the text of its own failure. */
static void own_errors(NO_ROW)
{
    clprune_context *context = test_open((clprune_context_options){.thread_safe = 1});
    failing f[2] = {{context, 2, 0}, {context, 3, 0}};
    pthread_t thread[2];
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, fail_often, &f[i]), 0);
    for (int i = 0; i < 2; i++) /* both, before a check may leave the stack that they use */
        assert_int_equal(pthread_join(thread[i], NULL), 0);
    for (int i = 0; i < 2; i++)
        assert_int_equal(f[i].wrong, 0);
}

/* A failure in creating a thread-safe context leaves its text with the thread. */
static void failed_creation(NO_ROW)
{
    clprune_context *context = test_context();
    const clprune_context_options options = {.kernels = (clprune_kernels)9, .thread_safe = 1};
    assert_int_equal(test_create(options, &context), CLPRUNE_INVALID_ARGUMENT);
    assert_null(context);
    test_says(clprune_last_error(NULL), "kernels is 9");
}

static void fail_with(clprune_context *context, const char *name, clprune_memory_category category)
{
    cl_mem buffer;
    assert_int_equal(
        clprune_buffer_create(context, category, name, 1, &buffer), CLPRUNE_INVALID_ARGUMENT);
}

/* Failures with and without a context have a text each. */
static void two_texts(NO_ROW)
{
    clprune_context *context = test_open((clprune_context_options){.thread_safe = 1});
    fail_with(context, NULL, CLPRUNE_MEMORY_INPUT);
    fail_with(NULL, "x", CLPRUNE_MEMORY_INPUT);
    test_says(clprune_last_error(context), "name is NULL");
    test_says(clprune_last_error(NULL), "context is NULL");
    fail_with(context, "x", CLPRUNE_MEMORY_TOTAL);
    test_says(clprune_last_error(context), "category is ");
    test_says(clprune_last_error(NULL), "context is NULL");
}

/* The creation of another context leaves the text of a failure, and begins with no memory. */
static void text_outlives_creation(NO_ROW)
{
    clprune_context_options options = {.thread_safe = 1};
    clprune_context *context = test_open(options);
    fail_with(context, NULL, CLPRUNE_MEMORY_INPUT);
    options.precision = CLPRUNE_PRECISION_BF16; /* with a probe */
    test_debug("mma=emulated");
    clprune_context *other = test_open(options);
    test_says(clprune_last_error(context), "name is NULL");
    for (int i = 0; i <= CLPRUNE_MEMORY_TOTAL; i++)
        assert_int_equal(clprune_memory_query(other, (clprune_memory_category)i).peak, 0);
}

static void visit(void *user, const clprune_memory_entry *entry)
{
    uint64_t *bytes = user;
    *bytes += entry->bytes;
}

static void *visit_often(void *context)
{
    uint64_t bytes = 0;
    for (int i = 0; i < 200; i++) {
        clprune_memory_visit(context, visit, &bytes);
        clprune_memory_reset_peak(context);
    }
    return NULL;
}

/* The ledger changes while another thread walks along it. */
static void ledger(NO_ROW)
{
    clprune_context *context = test_open((clprune_context_options){.thread_safe = 1});
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, visit_often, context), 0);
    for (int i = 0; i < 200; i++) {
        cl_mem buffers[5];
        for (int k = 0; k < 5; k++)
            TEST_OK(clprune_buffer_create(context, CLPRUNE_MEMORY_INPUT, "b", 64, &buffers[k]));
        for (int k = 0; k < 5; k++)
            clprune_buffer_release(context, buffers[k]);
    }
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(clprune_memory_query(context, CLPRUNE_MEMORY_TOTAL).count, 0);
}

int main(void)
{
    test_list list = {0};
    test_add(&list, at_once, NULL, "three threads train at once");
    test_add(&list, in_turn, NULL, "threads in turn, without the option");
    test_add(&list, own_errors, NULL, "each thread reads its own error");
    test_add(&list, failed_creation, NULL, "a creation that fails");
    test_add(&list, two_texts, NULL, "errors with and without a context");
    test_add(&list, text_outlives_creation, NULL, "an error is read after a creation");
    test_add(&list, ledger, NULL, "the ledger is walked while it changes");
    return test_run_on_devices("threads", &list);
}
