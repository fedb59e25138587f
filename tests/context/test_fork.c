/* A process that forks: the child gets an error, not a hang, and the parent goes on.
 *
 * The child destroys its parent's objects without a call of OpenCL, also if a thread of the parent
 * was inside a call at the fork. */
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/test_objects.h"

enum { HANG_SECONDS = 60 };

/* The line of the first check that failed in a child, its exit code; 0: none. */
#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "child, line %d: %s\n", __LINE__, #condition);                         \
            return 1;                                                                              \
        }                                                                                          \
    } while (0)

#define REFUSED(call) CHECK((call) == CLPRUNE_FORKED)
#define WORKS(call)   CHECK((call) == CLPRUNE_SUCCESS)

/* Calls of OpenCL in a child, which would wait for threads that it does not have. */
static int calls_in_child;
static bool in_child;

#define COUNTED(name, type, object)                                                                \
    TEST_WRAP(cl_int, name, (type object))                                                         \
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

TEST_WRAP(void, free, (void *memory))
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

static int use_parents_objects(void *what)
{
    work *w = what;
    clprune_mat mat = w->x;
    cl_mem buffer = w->x.buffer;
    float host[64];
    REFUSED(clprune_mat_fill(w->context, 1, w->x, NULL));
    CHECK(strstr(clprune_last_error(w->context), "after fork") != NULL);
    REFUSED(clprune_mat_read(w->context, w->x, host));
    REFUSED(clprune_gemm(w->context, false, true, 1, 0, w->x, w->x, w->y, NULL));
    REFUSED(clprune_context_finish(w->context));
    REFUSED(clprune_saved_store(w->saved, 0, 1, w->x, NULL));
    clprune_saved *saved = w->saved;
    REFUSED(clprune_linear_saved_create(w->layer, 1, 4, "s", &saved));
    CHECK(saved == NULL);
    REFUSED(clprune_optimizer_step(w->optimizer, 1, NULL));
    REFUSED(clprune_context_set_queue(w->context, NULL));
    REFUSED(clprune_mat_create(w->context, CLPRUNE_MEMORY_INPUT, "z", 1, 1, &mat));
    CHECK(mat.buffer == NULL && mat.rows == 0);
    mat = w->x;
    REFUSED(clprune_mat_unwrap(w->context, &mat));
    CHECK(mat.buffer == NULL && mat.rows == 0);
    REFUSED(clprune_buffer_create(w->context, CLPRUNE_MEMORY_INPUT, "z", 1, &buffer));
    CHECK(buffer == NULL);
    REFUSED(clprune_mat_fill(w->safe, 1, w->x, NULL));
    CHECK(strstr(clprune_last_error(w->safe), "after fork") != NULL);
    REFUSED(clprune_buffer_forget(w->dry, NULL));
    REFUSED(clprune_buffer_window(w->dry, NULL, NULL, NULL));
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
    REFUSED(clprune_context_create(NULL, NULL, &context));
    CHECK(context == NULL);
    CHECK(strstr(clprune_last_error(NULL), "fork first") != NULL);
    REFUSED(clprune_device_list(0, NULL, &count));
    CHECK(count == 0);
    /* Dry contexts use no OpenCL. */
    WORKS(clprune_context_create_dry(NULL, NULL, &context));
    clprune_mat mat;
    WORKS(clprune_mat_create(context, CLPRUNE_MEMORY_INPUT, "x", 4, 4, &mat));
    WORKS(clprune_mat_fill(context, 1, mat, NULL));
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
    const clprune_keep dense = {.form = CLPRUNE_FORM_DENSE};
    clprune_context *c = w->context = test_open((clprune_context_options){0});
    w->safe = test_open((clprune_context_options){.thread_safe = 1});
    w->dry = test_open_dry(NULL, NULL);
    w->x = test_new_mat(c, 4, 16);
    w->y = test_new_mat(c, 4, 4);
    w->kept = test_new_bsr(
        c, (clprune_bsr_desc){.batch = 1, .rows = 4, .cols = 16, .block = {1, 4}, .keep = 9});
    w->layer = test_new_linear(c, (clprune_linear_desc){.in = 16, .out = 4, .keep = dense});
    w->saved = test_new_saved(c, dense, 1, 4, 16);
    w->param = (clprune_param){.name = "p", .value = w->x, .grad = w->x};
    w->param.value.rows = w->param.grad.rows = 2;
    w->param.grad.offset = 32;
    w->optimizer = test_new_optimizer(
        c, (clprune_optimizer_desc){.kind = CLPRUNE_OPTIMIZER_SGD, .momentum = 0.5f}, 1, &w->param);
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
    TEST_OK(clprune_context_finish(w.safe));
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
    busy b = {.context = *dry ? test_open_dry(NULL, &options) : test_open(options)};
    pthread_t thread;
    TEST_OK(clprune_mat_create(b.context, CLPRUNE_MEMORY_INPUT, "x", 1, 1, &b.x));
    b.y = test_new_mat(b.context, 1, 1);
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
    assert_true(passes);
}

/* Before this process has used OpenCL: a child may. */
static int use_own_objects(void *what)
{
    (void)what;
    clprune_context *context;
    size_t count;
    WORKS(clprune_device_list(0, NULL, &count));
    if (count == 0)
        return 0;
    WORKS(clprune_context_create(NULL, NULL, &context));
    clprune_mat mat;
    float host[4] = {0};
    WORKS(clprune_mat_create(context, CLPRUNE_MEMORY_INPUT, "x", 2, 2, &mat));
    WORKS(clprune_mat_fill(context, 7, mat, NULL));
    WORKS(clprune_mat_read(context, mat, host));
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
