/* The embedded kernel files; the definitions are generated from cl/ when the library is built. */
#ifndef CLPRUNE_RUNTIME_KERNEL_SOURCE_H
#define CLPRUNE_RUNTIME_KERNEL_SOURCE_H

#include <stddef.h>

/* Files of a program, at most: a kernel file and what it includes, each once. */
enum { CLPRUNE__KERNEL_PARTS = 16 };

typedef struct clprune__kernel_part {
    const char *name; /* "prelude/rowwise.clh" */
    const unsigned char *text;
    size_t size; /* bytes, without the terminating zero that text also has */
} clprune__kernel_part;

typedef struct clprune__kernel_source {
    const char *name; /* "layers/gelu.cl" */
    /* In the order of the program, the kernel file last; then NULL. */
    const clprune__kernel_part *parts[CLPRUNE__KERNEL_PARTS + 1];
} clprune__kernel_source;

extern const clprune__kernel_source clprune__kernel_sources[];
extern const size_t clprune__kernel_sources_count;

#endif
