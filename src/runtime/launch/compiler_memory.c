#ifdef __linux__
#define _GNU_SOURCE /* dl_iterate_phdr, madvise */
#include <link.h>
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
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

struct clprune__compiler_watch {
    pthread_t thread;
    atomic_bool ends;
};

static void *watch(void *user)
{
    static const struct timespec pause = {.tv_nsec = 1000000};
    clprune__compiler_watch *made = user;
    while (!atomic_load(&made->ends)) {
        (void)nanosleep(&pause, NULL);
        clprune__compiler_pages_drop();
    }
    return NULL;
}

clprune__compiler_watch *clprune__compiler_watch_begin(void)
{
    clprune__compiler_watch *made = calloc(1, sizeof *made);
    if (made != NULL && pthread_create(&made->thread, NULL, watch, made) != 0) {
        free(made);
        made = NULL;
    }
    return made;
}

void clprune__compiler_watch_end(clprune__compiler_watch *made)
{
    if (made == NULL)
        return;
    atomic_store(&made->ends, true);
    (void)pthread_join(made->thread, NULL);
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
