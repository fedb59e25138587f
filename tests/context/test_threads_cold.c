/* The first calls of the library in a process, made by 16 threads at once: 6 open contexts of their
 * own, 4 open theirs on queues of one OpenCL context, 6 share two thread-safe contexts and a layer
 * in each. Half of each kind runs the vector family, half the tiled one, whose dense products are
 * CLBlast's. Each thread checks products, a pruned matrix and a layer against integers computed on
 * the host, then trains; afterwards one thread trains the same and must get the same bits.
 *
 *     test_threads_cold [short]
 *
 * Prints "hash H" of the trained weights and ends with 0, or says what was wrong and ends with 1.
 * "short" does not train, which needs half of the kernels. test_threads_cold.sh runs it with cold
 * caches, and compares the hashes. */
#include <CL/cl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "support/thread_job.h"

enum { THREADS = 16, OWN = 6, SIBLINGS = 4, FAMILIES = 2 }; /* the others share */

typedef struct worker {
    thread_job job;
    int number;
    const char *failed; /* the call outside of the job that failed, or NULL */
} worker;

static pthread_mutex_t gate_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t gate_open = PTHREAD_COND_INITIALIZER;
static int arrived; /* at all gates so far */
static bool trains = true;

/* What threads share; the first that needs it makes it. */
static pthread_mutex_t shared_mutex = PTHREAD_MUTEX_INITIALIZER;
static clprune_context *base; /* of the OpenCL context of the siblings */
static clprune_context *shared[FAMILIES];
static clprune_linear *shared_layer[FAMILIES];

static clprune_kernels kernels_of(int family)
{
    return family == 0 ? CLPRUNE_KERNELS_VECTOR : CLPRUNE_KERNELS_TILED;
}

static int family_of(int number)
{
    return number / 2 % FAMILIES;
}

/* Returns when all threads are at gate 1, or 2. */
static void meet(int gate)
{
    (void)pthread_mutex_lock(&gate_mutex);
    arrived++;
    (void)pthread_cond_broadcast(&gate_open);
    while (arrived < gate * THREADS)
        (void)pthread_cond_wait(&gate_open, &gate_mutex);
    (void)pthread_mutex_unlock(&gate_mutex);
}

static clprune_status open_own(int family, clprune_context **context)
{
    const clprune_context_options options = {.kernels = kernels_of(family)};
    return clprune_context_create(NULL, &options, context);
}

static clprune_status open_sibling(int family, clprune_context **context)
{
    clprune_status status = CLPRUNE_SUCCESS;
    const clprune_context_options options = {.kernels = kernels_of(family)};
    (void)pthread_mutex_lock(&shared_mutex);
    if (base == NULL)
        status = clprune_context_create(NULL, NULL, &base);
    (void)pthread_mutex_unlock(&shared_mutex);
    if (status != CLPRUNE_SUCCESS)
        return status;
    cl_int error;
    cl_command_queue queue =
        clCreateCommandQueue(clprune_context_cl(base), clprune_context_device(base), 0, &error);
    if (error != CL_SUCCESS)
        return CLPRUNE_OPENCL_ERROR;
    status = clprune_context_create(queue, &options, context);
    (void)clReleaseCommandQueue(queue);
    return status;
}

static clprune_status open_shared(int family, clprune_context **context, clprune_linear **layer)
{
    clprune_status status = CLPRUNE_SUCCESS;
    const clprune_context_options options = {.kernels = kernels_of(family), .thread_safe = 1};
    (void)pthread_mutex_lock(&shared_mutex);
    if (shared[family] == NULL)
        status = clprune_context_create(NULL, &options, &shared[family]);
    if (status == CLPRUNE_SUCCESS && shared_layer[family] == NULL)
        status = thread_layer(shared[family], &shared_layer[family]);
    (void)pthread_mutex_unlock(&shared_mutex);
    *context = shared[family];
    *layer = shared_layer[family];
    return status;
}

static void *work(void *what)
{
    worker *w = what;
    thread_job *j = &w->job;
    const int family = family_of(w->number);
    const bool shares = w->number >= OWN + SIBLINGS;
    meet(1); /* the driver's first call */
    if (shares)
        j->status = open_shared(family, &j->context, &j->layer);
    else if (w->number < OWN)
        j->status = open_own(family, &j->context);
    else
        j->status = open_sibling(family, &j->context);
    meet(2); /* CLBlast's first call is soon */
    if (j->status != CLPRUNE_SUCCESS) {
        w->failed = "the context";
        (void)snprintf(j->told, sizeof j->told, "%s", clprune_last_error(NULL));
        return NULL;
    }
    (void)thread_exact(j);
    if (j->status != CLPRUNE_SUCCESS)
        w->failed = "a call on whole numbers";
    else if (trains && ((void)thread_train(j), j->status != CLPRUNE_SUCCESS))
        w->failed = "a call of the training";
    if (!shares)
        clprune_context_destroy(j->context);
    return NULL;
}

static int wrong;

static void complain(int number, const char *what, const char *text)
{
    printf("thread %d: %s: %s\n", number, what, text);
    wrong = 1;
}

/* The same trainings, one after the other. */
static void compare(const worker *workers)
{
    for (int family = 0; family < FAMILIES; family++) {
        clprune_context *context = NULL;
        if (open_own(family, &context) != CLPRUNE_SUCCESS)
            complain(-1, "the last context", clprune_last_error(NULL));
        for (int i = 0; context != NULL && i < THREADS; i++) {
            thread_job alone = {.context = context, .seed = workers[i].job.seed};
            if (family_of(i) != family)
                continue;
            (void)thread_train(&alone);
            if (alone.status != CLPRUNE_SUCCESS)
                complain(i, "alone", alone.told);
            else if (memcmp(alone.w, workers[i].job.w, sizeof alone.w) != 0)
                complain(i, "training", "other bits than alone");
        }
        clprune_context_destroy(context);
    }
}

/* FNV-1a. */
static unsigned long long hash(const worker *workers)
{
    unsigned long long state = 0xcbf29ce484222325u;
    for (int i = 0; i < THREADS; i++) {
        const unsigned char *bytes = (const unsigned char *)workers[i].job.w;
        for (size_t b = 0; b < sizeof workers[i].job.w; b++)
            state = (state ^ bytes[b]) * 0x100000001b3u;
    }
    return state;
}

int main(int argc, char **argv)
{
    static worker workers[THREADS];
    pthread_t threads[THREADS];
    trains = argc < 2 || strcmp(argv[1], "short") != 0;
    for (int i = 0; i < THREADS; i++) {
        workers[i] = (worker){.job = {.seed = (unsigned)i + 1}, .number = i};
        if (pthread_create(&threads[i], NULL, work, &workers[i]) != 0) {
            printf("no thread\n");
            return 1;
        }
    }
    for (int i = 0; i < THREADS; i++)
        (void)pthread_join(threads[i], NULL);
    for (int i = 0; i < THREADS; i++) {
        const thread_job *j = &workers[i].job;
        if (workers[i].failed != NULL)
            complain(i, workers[i].failed, j->told);
        else if (j->wrong != NULL)
            complain(i, j->wrong, "is not the host's");
    }
    for (int family = 0; family < FAMILIES; family++) {
        for (int c = CLPRUNE_MEMORY_INPUT; c <= CLPRUNE_MEMORY_ACTIVATIONS; c++)
            if (shared[family] != NULL &&
                clprune_memory_query(shared[family], (clprune_memory_category)c).live != 0)
                complain(-1, "a shared context", "memory is left");
        clprune_linear_destroy(shared_layer[family]);
        clprune_context_destroy(shared[family]);
    }
    clprune_context_destroy(base);
    if (trains)
        compare(workers);
    printf("hash %016llx\n", hash(workers));
    return wrong;
}
