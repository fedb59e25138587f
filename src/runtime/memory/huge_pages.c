#ifdef __linux__
#define _DEFAULT_SOURCE /* madvise */
#include <sys/mman.h>
#endif

#include "runtime/memory/huge_pages.h"

#include <stdint.h>
#include <stdlib.h>

#ifdef MADV_HUGEPAGE
#define HUGE_PAGE    ((size_t)2 << 20)
#define LARGE_BUFFER (2 * HUGE_PAGE) /* smaller ones would mostly lie in small pages */
#define LINE         ((size_t)64)    /* bytes of a cache line: avoids a copy by the driver */

static void CL_CALLBACK free_memory(cl_mem buffer, void *memory)
{
    (void)buffer;
    free(memory);
}

static cl_mem create_large(cl_context cl, size_t bytes)
{
    if (bytes > SIZE_MAX - LINE)
        return NULL;
    void *memory = NULL;
    if (posix_memalign(&memory, HUGE_PAGE, (bytes + LINE - 1) / LINE * LINE) != 0)
        return NULL;
    (void)madvise(memory, bytes / HUGE_PAGE * HUGE_PAGE, MADV_HUGEPAGE); /* a hint, may fail */
    cl_int error;
    cl_mem buffer =
        clCreateBuffer(cl, CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR, bytes, memory, &error);
    if (error == CL_SUCCESS &&
        clSetMemObjectDestructorCallback(buffer, free_memory, memory) == CL_SUCCESS)
        return buffer;
    if (error == CL_SUCCESS)
        (void)clReleaseMemObject(buffer);
    free(memory);
    return NULL;
}
#endif

cl_mem clprune__buffer_in_huge_pages(cl_context cl, size_t bytes, cl_int *error)
{
#ifdef MADV_HUGEPAGE
    cl_mem buffer = bytes >= LARGE_BUFFER ? create_large(cl, bytes) : NULL;
    if (buffer != NULL) {
        *error = CL_SUCCESS;
        return buffer;
    }
#endif
    return clCreateBuffer(cl, CL_MEM_READ_WRITE, bytes, NULL, error);
}
