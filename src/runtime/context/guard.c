#include "runtime/context/guard.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "core/system.h"
#include "runtime/context/context_private.h"
#include "runtime/context/fail.h"
#include "runtime/context/verbose.h"

struct clprune__lock {
    pthread_mutex_t mutex;
};

/* Forks between the process that first called watch_forks and this one. */
static unsigned generation;

/* 1 + the generation that first used OpenCL; 0: none yet. */
static atomic_uint opencl_generation;

static pthread_once_t watched = PTHREAD_ONCE_INIT;
static int watch_failed;

static void after_fork_in_child(void)
{
    generation++;
}

static void watch(void)
{
    watch_failed = clprune__system_watch_forks(after_fork_in_child);
}

static clprune_status watch_forks(void)
{
    clprune_context *context = NULL;
    (void)pthread_once(&watched, watch);
    REQUIRE(watch_failed == 0, CLPRUNE_OUT_OF_HOST_MEMORY, "no memory to watch for forks");
    return CLPRUNE_SUCCESS;
}

clprune_status clprune__claim_opencl(void)
{
    clprune_context *context = NULL;
    TRY(watch_forks());
    unsigned user = 0;
    if (!atomic_compare_exchange_strong(&opencl_generation, &user, generation + 1))
        REQUIRE(user == generation + 1, CLPRUNE_FORKED,
            "the parent process used OpenCL before the fork; fork first, or exec a new program");
    return CLPRUNE_SUCCESS;
}

bool clprune__is_forked(const clprune_context *context)
{
    return context->generation != generation;
}

clprune__guard clprune__enter_quietly(const clprune_context *context)
{
    clprune__guard guard = {NULL, NULL, CLPRUNE_SUCCESS};
    if (context != NULL && context->lock != NULL && !clprune__is_forked(context)) {
        guard.held = context->lock;
        (void)pthread_mutex_lock(&guard.held->mutex);
    }
    return guard;
}

clprune__guard clprune__enter(clprune_context *context, const char *function)
{
    clprune__guard guard = {NULL, NULL, CLPRUNE_SUCCESS};
    if (context == NULL)
        return guard;
    if (clprune__is_forked(context))
        guard.status = clprune__fail(context, CLPRUNE_FORKED, __FILE__, __LINE__,
            "the context is the parent's; create one after fork");
    else
        guard = clprune__enter_quietly(context);
    if (guard.status == CLPRUNE_SUCCESS && context->verbose != NULL) {
        guard.verbose = context->verbose;
        clprune__verbose_enter(guard.verbose, function);
    }
    return guard;
}

clprune__guard clprune__enter_with(
    clprune_context *context, const char *function, const char *name, const clprune_context *owner)
{
    clprune__guard guard = clprune__enter(context, function);
    if (guard.status == CLPRUNE_SUCCESS && context != NULL && owner != NULL && owner != context)
        guard.status = clprune__fail(context, CLPRUNE_INVALID_ARGUMENT, __FILE__, __LINE__,
            "%s belongs to another context; use it with the context that created it", name);
    return guard;
}

void clprune__leave(const clprune__guard *guard)
{
    if (guard->verbose != NULL)
        clprune__verbose_leave(guard->verbose);
    if (guard->held != NULL)
        (void)pthread_mutex_unlock(&guard->held->mutex);
}

clprune_status clprune__guard_open(clprune_context *context)
{
    TRY(watch_forks());
    context->generation = generation;
    return CLPRUNE_SUCCESS;
}

clprune_status clprune__guard_share(clprune_context *context)
{
    clprune_status status = CLPRUNE_SUCCESS;
    pthread_mutexattr_t recursive;
    bool described = false;
    clprune__lock *lock = malloc(sizeof *lock);
    REQUIRE_DONE(lock != NULL, CLPRUNE_OUT_OF_HOST_MEMORY, "no memory for a lock");
    described = pthread_mutexattr_init(&recursive) == 0;
    REQUIRE_DONE(described && pthread_mutexattr_settype(&recursive, PTHREAD_MUTEX_RECURSIVE) == 0 &&
                     pthread_mutex_init(&lock->mutex, &recursive) == 0,
        CLPRUNE_OUT_OF_HOST_MEMORY, "the system could not create a lock");
    context->lock = lock;
    lock = NULL;
done:
    if (described)
        (void)pthread_mutexattr_destroy(&recursive);
    free(lock);
    return status;
}

void clprune__guard_close(clprune_context *context)
{
    if (context->lock == NULL)
        return;
    (void)pthread_mutex_destroy(&context->lock->mutex);
    free(context->lock);
    context->lock = NULL;
}
