/* Buffers of CPU devices in huge pages. Products read matrices row by row; the rows of a wide
 * matrix lie in different small pages, more than the TLB has entries. */
#ifndef CLPRUNE_RUNTIME_HUGE_PAGES_H
#define CLPRUNE_RUNTIME_HUGE_PAGES_H

#include <CL/cl.h>

#include "clprune/context.h"

/* clCreateBuffer for a CPU device, read and write. On Linux, buffers of 4 MiB or more lie in memory
 * that asks for huge pages of 2 MiB, except for a rest smaller than one; it is freed with the
 * buffer. */
cl_mem clprune__buffer_in_huge_pages(cl_context cl, size_t bytes, cl_int *error);

#endif
