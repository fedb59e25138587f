/* The embedded kernel files; the definitions are generated from cl/ at build time. */
#ifndef CLPRUNE_RUNTIME_KERNEL_SOURCE_H
#define CLPRUNE_RUNTIME_KERNEL_SOURCE_H

#include <stddef.h>

typedef struct clprune__kernel_source {
    const char *name; /* "prune_score.cl" */
    const unsigned char *text;
    size_t size; /* bytes, without the terminating zero that text also has */
} clprune__kernel_source;

extern const clprune__kernel_source clprune__kernel_sources[];
extern const size_t clprune__kernel_sources_count;

#endif
