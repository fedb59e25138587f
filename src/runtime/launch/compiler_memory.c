#ifdef __linux__
#define _GNU_SOURCE /* dl_iterate_phdr, madvise */
#include <errno.h>
#include <link.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
#endif

#include "runtime/launch/compiler_memory.h"

#if defined(__linux__) && defined(__GLIBC__)

static bool is_compiler(const char *path)
{
    static const char *const names[] = {"LLVM", "clang", "pocl", "z3", "clblast"};
    const char *slash = strrchr(path, '/'), *name = slash != NULL ? slash + 1 : path;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strstr(name, names[i]) != NULL)
            return true;
    return false;
}

/* Drops the pages of segments that are never written; the next access reads them from the file. */
static int drop_pages(struct dl_phdr_info *library, size_t size, void *user)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    (void)size;
    (void)user;
    for (size_t i = 0; is_compiler(library->dlpi_name) && i < library->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &library->dlpi_phdr[i];
        if (segment->p_type != PT_LOAD || (segment->p_flags & PF_W) != 0)
            continue;
        const uintptr_t first = (library->dlpi_addr + segment->p_vaddr) / page * page;
        const uintptr_t last =
            (library->dlpi_addr + segment->p_vaddr + segment->p_filesz) / page * page;
        (void)madvise((void *)first, last - first, MADV_DONTNEED);
    }
    return 0;
}

void clprune__compiler_pages_drop(void)
{
    (void)dl_iterate_phdr(drop_pages, NULL);
}

void clprune__compiler_memory_return(void)
{
    clprune__compiler_pages_drop();
    (void)malloc_trim(0);
}

enum { PAUSE = 20000000, SECOND = 1000000000 }; /* ns */

struct clprune__compiler_watch {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t change;
    bool ends;
};

static int64_t cpu_time(void)
{
    struct timespec now = {0};
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (int64_t)now.tv_sec * SECOND + now.tv_nsec;
}

/* On a busy machine the compiler may not have run: then its pages stay, or it would read them again
 * and again and come to nothing else. */
static void *watch(void *user)
{
    clprune__compiler_watch *made = user;
    int64_t dropped = cpu_time();
    (void)pthread_mutex_lock(&made->lock);
    while (!made->ends) {
        struct timespec until;
        (void)clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += PAUSE;
        until.tv_sec += until.tv_nsec / SECOND;
        until.tv_nsec %= SECOND;
        if (pthread_cond_timedwait(&made->change, &made->lock, &until) != ETIMEDOUT)
            continue;
        const int64_t worked = cpu_time();
        if (worked - dropped < PAUSE)
            continue;
        clprune__compiler_pages_drop();
        dropped = worked;
    }
    (void)pthread_mutex_unlock(&made->lock);
    return NULL;
}

clprune__compiler_watch *clprune__compiler_watch_begin(void)
{
    sigset_t all, before;
    clprune__compiler_watch *made = calloc(1, sizeof *made);
    if (made == NULL)
        return NULL;
    (void)pthread_mutex_init(&made->lock, NULL);
    (void)pthread_cond_init(&made->change, NULL);
    (void)sigfillset(&all); /* signals are for the program's own threads */
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    const bool good = pthread_create(&made->thread, NULL, watch, made) == 0;
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!good) {
        free(made);
        made = NULL;
    }
    return made;
}

void clprune__compiler_watch_end(clprune__compiler_watch *made)
{
    if (made == NULL)
        return;
    (void)pthread_mutex_lock(&made->lock);
    made->ends = true;
    (void)pthread_cond_signal(&made->change);
    (void)pthread_mutex_unlock(&made->lock);
    (void)pthread_join(made->thread, NULL);
    (void)pthread_cond_destroy(&made->change);
    (void)pthread_mutex_destroy(&made->lock);
    free(made);
}

#else

void clprune__compiler_pages_drop(void)
{
}

void clprune__compiler_memory_return(void)
{
}

clprune__compiler_watch *clprune__compiler_watch_begin(void)
{
    return NULL;
}

void clprune__compiler_watch_end(clprune__compiler_watch *made)
{
    (void)made;
}

#endif
