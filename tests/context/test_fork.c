/* A process that forks: the child gets an error, not a hang, and the parent goes on.
 *
 * The child destroys its parent's objects without a call of OpenCL, also if a thread of the parent
 * was inside a call at the fork. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/test_device.h"

enum { HANG_SECONDS = 60 };

/* The line of the first check that failed in a child, its exit code; 0: none. */
#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "child, line %d: %s\n", __LINE__, #condition);                         \
            return 1;                                                                              \
        }                                                                                          \
    } while (0)

/* Calls of OpenCL in a child, which would wait for threads that it does not have. */
static int calls_in_child;
static bool in_child;

#define COUNTED(name, type, object)                                                                \
    cl_int __real_##name(type object);                                                             \
    cl_int __wrap_##name(type object);                                                             \
    cl_int __wrap_##name(type object)                                                              \
    {                                                                                              \
        calls_in_child += in_child;                                                                \
        return __real_##name(object);                                                              \
    }

COUNTED(clFinish, cl_command_queue, queue)
COUNTED(clReleaseCommandQueue, cl_command_queue, queue)
COUNTED(clReleaseContext, cl_context, context)
COUNTED(clReleaseKernel, cl_kernel, kernel)
COUNTED(clReleaseMemObject, cl_mem, buffer)
COUNTED(clReleaseProgram, cl_program, program)

/* A thread that frees memory waits there until the process has forked. */
static _Thread_local bool stops_in_free;
static pthread_barrier_t in_free, forked;
static void *freed; /* by that thread */
static bool freed_again;

void __real_free(void *memory);
void __wrap_free(void *memory);

void __wrap_free(void *memory)
{
    if (in_child && memory != NULL && memory == freed) {
        freed_again = true;
        return;
    }
    __real_free(memory);
    if (!stops_in_free)
        return;
    stops_in_free = false;
    freed = memory;
    (void)pthread_barrier_wait(&in_free);
    (void)pthread_barrier_wait(&forked);
}

typedef int (*child_fn)(void *what);

/* Runs `child` in a fork; true if it returned 0 in time. */
static bool passes_in_child(child_fn run, void *what)
{
    fflush(NULL);
    const pid_t pid = fork();
    if (pid == 0) {
        alarm(HANG_SECONDS); /* a hang becomes a signal */
        in_child = true;
        _exit(run(what));
    }
    int told = 0;
    if (pid < 0 || waitpid(pid, &told, 0) != pid)
        return false;
    if (WIFSIGNALED(told))
        fprintf(stderr, "the child was ended by signal %d\n", WTERMSIG(told));
    return WIFEXITED(told) && WEXITSTATUS(told) == 0;
}

typedef struct work {
    clprune_context *context, *safe, *dry;
    clprune_mat x, y;
    clprune_bsr kept;
    clprune_linear *layer;
    clprune_saved *saved;
    clprune_optimizer *optimizer;
    clprune_param param;
} work;

static const clprune_bsr_desc shape = {.batch = 1, .rows = 4, .cols = 16, .block = {1, 4}};

static int use_parents_objects(void *what)
{
    work *w = what;
    clprune_mat mat = w->x;
    cl_mem buffer = w->x.buffer;
    float host[64];
    CHECK(clprune_mat_fill(w->context, 1, w->x, NULL) == CLPRUNE_FORKED);
    CHECK(strstr(clprune_last_error(w->context), "after fork") != NULL);
    CHECK(clprune_mat_read(w->context, w->x, host) == CLPRUNE_FORKED);
    CHECK(clprune_gemm(w->context, false, true, 1, 0, w->x, w->x, w->y, NULL) == CLPRUNE_FORKED);
    CHECK(clprune_context_finish(w->context) == CLPRUNE_FORKED);
    CHECK(clprune_saved_store(w->saved, 0, 1, w->x, NULL) == CLPRUNE_FORKED);
    clprune_saved *saved = w->saved;
    CHECK(clprune_linear_saved_create(w->layer, 1, 4, "s", &saved) == CLPRUNE_FORKED);
    CHECK(saved == NULL);
    CHECK(clprune_optimizer_step(w->optimizer, 1, NULL) == CLPRUNE_FORKED);
    CHECK(clprune_context_set_queue(w->context, NULL) == CLPRUNE_FORKED);
    CHECK(clprune_mat_create(w->context, CLPRUNE_MEMORY_INPUT, "z", 1, 1, &mat) == CLPRUNE_FORKED);
    CHECK(mat.buffer == NULL && mat.rows == 0);
    mat = w->x;
    CHECK(clprune_mat_unwrap(w->context, &mat) == CLPRUNE_FORKED);
    CHECK(mat.buffer == NULL && mat.rows == 0);
    CHECK(
        clprune_buffer_create(w->context, CLPRUNE_MEMORY_INPUT, "z", 1, &buffer) == CLPRUNE_FORKED);
    CHECK(buffer == NULL);
    CHECK(clprune_mat_fill(w->safe, 1, w->x, NULL) == CLPRUNE_FORKED);
    CHECK(strstr(clprune_last_error(w->safe), "after fork") != NULL);
    CHECK(clprune_buffer_forget(w->dry, NULL) == CLPRUNE_FORKED);
    /* What only looks at the host's memory works. */
    CHECK(clprune_memory_query(w->context, CLPRUNE_MEMORY_INPUT).live > 0);
    CHECK(clprune_context_kernels(w->context) != CLPRUNE_KERNELS_AUTO);
    return 0;
}

static int destroy_parents_objects(void *what)
{
    work *w = what;
    clprune_optimizer_destroy(w->optimizer);
    clprune_bsr_destroy(w->context, &w->kept);
    clprune_saved_destroy(w->saved);
    clprune_linear_destroy(w->layer);
    clprune_buffer_release(w->context, w->x.buffer);
    CHECK(clprune_memory_query(w->context, CLPRUNE_MEMORY_INPUT).count == 2); /* as at the fork */
    clprune_context_destroy(w->context);
    clprune_context_destroy(w->safe);
    clprune_context_destroy(w->dry);
    CHECK(calls_in_child == 0);
    CHECK(strstr(clprune_last_error(NULL), "fork") == NULL); /* none of these calls failed */
    return 0;
}

static int create_anew(void *what)
{
    (void)what;
    clprune_context *context = NULL;
    size_t count = 7;
    CHECK(clprune_context_create(NULL, NULL, &context) == CLPRUNE_FORKED);
    CHECK(context == NULL);
    CHECK(strstr(clprune_last_error(NULL), "fork first") != NULL);
    CHECK(clprune_device_list(0, NULL, &count) == CLPRUNE_FORKED);
    CHECK(count == 0);
    /* Dry contexts use no OpenCL. */
    CHECK(clprune_context_create_dry(NULL, NULL, &context) == CLPRUNE_SUCCESS);
    clprune_mat mat;
    CHECK(clprune_mat_create(context, CLPRUNE_MEMORY_INPUT, "x", 4, 4, &mat) == CLPRUNE_SUCCESS);
    CHECK(clprune_mat_fill(context, 1, mat, NULL) == CLPRUNE_SUCCESS);
    CHECK(clprune_context_commands(context) == 1);
    clprune_context_destroy(context);
    return 0;
}

static int fork_again(void *what)
{
    return passes_in_child(use_parents_objects, what) ? 0 : 1;
}

static void make_work(work *w)
{
    assert_int_equal(test_create((clprune_context_options){0}, &w->context), CLPRUNE_SUCCESS);
    assert_int_equal(
        test_create((clprune_context_options){.thread_safe = 1}, &w->safe), CLPRUNE_SUCCESS);
    assert_int_equal(clprune_context_create_dry(NULL, NULL, &w->dry), CLPRUNE_SUCCESS);
    TEST_OK(clprune_mat_create(w->context, CLPRUNE_MEMORY_INPUT, "x", 4, 16, &w->x));
    TEST_OK(clprune_mat_create(w->context, CLPRUNE_MEMORY_INPUT, "y", 4, 4, &w->y));
    clprune_bsr_desc desc = shape;
    desc.keep = 9;
    TEST_OK(clprune_bsr_create(w->context, CLPRUNE_MEMORY_ACTIVATIONS, "kept", &desc, &w->kept));
    const clprune_linear_desc linear = {.in = 16, .out = 4, .keep = {.form = CLPRUNE_FORM_DENSE}};
    TEST_OK(clprune_linear_create(w->context, &linear, &w->layer));
    TEST_OK(clprune_linear_saved_create(w->layer, 1, 4, "saved", &w->saved));
    w->param = (clprune_param){.name = "p", .value = w->x, .grad = w->x};
    w->param.value.rows = w->param.grad.rows = 2;
    w->param.grad.offset = 32;
    const clprune_optimizer_desc sgd = {.kind = CLPRUNE_OPTIMIZER_SGD, .momentum = 0.5f};
    TEST_OK(clprune_optimizer_create(w->context, &sgd, 1, &w->param, &w->optimizer));
}

static void child(void **state)
{
    work w;
    make_work(&w);
    TEST_OK(clprune_mat_fill(w.context, 3, w.x, NULL)); /* in flight while the process forks */
    assert_true(passes_in_child(*(const child_fn *)*state, &w));
    /* The parent goes on. */
    float host[16];
    TEST_OK(clprune_gemm(w.context, false, true, 1, 0, w.x, w.x, w.y, NULL));
    TEST_OK(clprune_mat_read(w.context, w.y, host));
    for (int i = 0; i < 16; i++)
        assert_true(host[i] == 16 * 9.0f);
    assert_int_equal(clprune_context_finish(w.safe), CLPRUNE_SUCCESS);
    clprune_optimizer_destroy(w.optimizer);
    clprune_saved_destroy(w.saved);
    clprune_linear_destroy(w.layer);
    clprune_context_destroy(w.context);
    clprune_context_destroy(w.safe);
    clprune_context_destroy(w.dry);
}

typedef struct busy {
    clprune_context *context;
    clprune_mat x, y;
} busy;

static void *release_in_thread(void *what)
{
    const busy *b = what;
    stops_in_free = true;
    clprune_buffer_release(b->context, b->x.buffer);
    return NULL;
}

static void visit_nothing(void *user, const clprune_memory_entry *entry)
{
    (void)entry;
    *(int *)user += 1;
}

static int destroy_half_changed(void *what)
{
    busy *b = what;
    int visited = 0;
    clprune_memory_visit(b->context, visit_nothing, &visited);
    CHECK(visited == 0);
    clprune_buffer_release(b->context, b->y.buffer);
    clprune_context_destroy(b->context);
    CHECK(!freed_again);
    CHECK(calls_in_child == 0);
    return 0;
}

/* The process forks while another thread has half released a buffer. */
static void forks_in_call(void **state)
{
    const bool *dry = *state;
    const clprune_context_options options = {.thread_safe = 1};
    busy b = {0};
    pthread_t thread;
    assert_int_equal(*dry ? clprune_context_create_dry(NULL, &options, &b.context)
                          : test_create(options, &b.context),
        CLPRUNE_SUCCESS);
    const clprune_memory_category input = CLPRUNE_MEMORY_INPUT;
    assert_int_equal(clprune_mat_create(b.context, input, "x", 1, 1, &b.x), CLPRUNE_SUCCESS);
    assert_int_equal(clprune_mat_create(b.context, input, "y", 1, 1, &b.y), CLPRUNE_SUCCESS);
    assert_int_equal(pthread_barrier_init(&in_free, NULL, 2), 0);
    assert_int_equal(pthread_barrier_init(&forked, NULL, 2), 0);
    assert_int_equal(pthread_create(&thread, NULL, release_in_thread, &b), 0);
    (void)pthread_barrier_wait(&in_free);
    const bool passes = passes_in_child(destroy_half_changed, &b);
    (void)pthread_barrier_wait(&forked);
    assert_int_equal(pthread_join(thread, NULL), 0);
    freed = NULL;
    (void)pthread_barrier_destroy(&in_free);
    (void)pthread_barrier_destroy(&forked);
    clprune_context_destroy(b.context);
    assert_true(passes);
}

/* Before this process has used OpenCL: a child may. */
static int use_own_objects(void *what)
{
    (void)what;
    clprune_context *context;
    size_t count;
    CHECK(clprune_device_list(0, NULL, &count) == CLPRUNE_SUCCESS);
    if (count == 0)
        return 0;
    CHECK(clprune_context_create(NULL, NULL, &context) == CLPRUNE_SUCCESS);
    clprune_mat mat;
    float host[4] = {0};
    CHECK(clprune_mat_create(context, CLPRUNE_MEMORY_INPUT, "x", 2, 2, &mat) == CLPRUNE_SUCCESS);
    CHECK(clprune_mat_fill(context, 7, mat, NULL) == CLPRUNE_SUCCESS);
    CHECK(clprune_mat_read(context, mat, host) == CLPRUNE_SUCCESS);
    CHECK(host[0] == 7.0f && host[3] == 7.0f);
    clprune_context_destroy(context);
    return 0;
}

int main(void)
{
    for (int i = 0; i < 2; i++)
        if (!passes_in_child(use_own_objects, NULL)) {
            fprintf(stderr, "a child cannot create the first context\n");
            return 1;
        }
    static const child_fn children[] = {
        use_parents_objects, destroy_parents_objects, create_anew, fork_again};
    static const bool is_dry[] = {false, true};
    test_list list = {0};
    test_add(&list, child, &children[0], "objects of the parent are refused");
    test_add(&list, child, &children[1], "objects of the parent are destroyed");
    test_add(&list, child, &children[2], "a context of the child's own, too late");
    test_add(&list, child, &children[3], "a child of the child");
    test_add(&list, forks_in_call, &is_dry[0], "a thread is inside a call");
    test_add(&list, forks_in_call, &is_dry[1], "a thread is inside a call of a dry context");
    return test_run_on_each_device("fork", &list);
}
