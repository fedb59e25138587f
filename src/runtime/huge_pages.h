/* Buffers of CPU devices in huge pages: products read matrices row by row, and each row of a wide
 * one lies in a page of its own, more of them than a processor keeps the addresses of. */
#ifndef CLPRUNE_RUNTIME_HUGE_PAGES_H
#define CLPRUNE_RUNTIME_HUGE_PAGES_H

#include <CL/cl.h>

#include "clprune/context.h"

/* clCreateBuffer for a CPU device, read and write. On Linux a large buffer lies in memory that asks
 * for huge pages, as far as it fills them; that memory goes with the buffer. */
cl_mem clprune__buffer_in_huge_pages(cl_context cl, size_t bytes, cl_int *error);

#endif
