/* Kernels by name and defines: built once, kept in the context, and on disk as a best effort.
 *
 * A program consists of the files that the kernel's file includes and this file, each after a
 * #line, so that build logs name the file. */
#ifndef CLPRUNE_RUNTIME_PROGRAM_CACHE_H
#define CLPRUNE_RUNTIME_PROGRAM_CACHE_H

#include <stdbool.h>

#include <CL/cl.h>

#include "clprune/context.h"

/* A kernel of cl/. Each file that launches one declares it, static const: its address is the
 * kernel's identity. */
typedef struct clprune__kernel_def {
    const char *file, *entry; /* "layers/gelu.cl", "gelu_forward" */
} clprune__kernel_def;

typedef struct clprune__program {
    char *key; /* file and defines */
    uint64_t hash;
    cl_program program; /* NULL in a dry context */
} clprune__program;

typedef struct clprune__kernel {
    const clprune__kernel_def *def;
    char *defines;
    cl_kernel kernel;
    /* Facts that the launcher checks. */
    cl_uint arguments;
    size_t max_work_group;
    size_t reqd_work_group[3]; /* zeros: none required */
    /* What runs instead, in smaller groups, because the driver refused this kernel's; NULL: this
     * kernel runs. */
    const struct clprune__kernel *smaller;
} clprune__kernel;

/* An entry of the lookup. Kernels are allocated one by one: a launch holds a pointer to its kernel
 * while further kernels are added. */
typedef struct clprune__kernel_entry {
    uint64_t hash;
    clprune__kernel *kernel;
} clprune__kernel_entry;

/* In what order the ids of a group's work-items count: in what order PoCL runs them. common.clh has
 * the orders, by these numbers. */
typedef enum clprune__order {
    CLPRUNE__ORDER_PLAIN,
    CLPRUNE__ORDER_REVERSED,
    CLPRUNE__ORDER_MIXED
} clprune__order;

typedef struct clprune__program_cache {
    clprune__program *programs;
    size_t programs_count, programs_capacity;
    clprune__kernel_entry *kernels;
    size_t kernels_count, kernels_capacity;
    clprune_cache_stats stats;
    bool is_fresh;        /* a kernel was made, and the queue not finished since */
    clprune__order order; /* of all programs; set before the first */
    char *dir;            /* NULL: no disk layer */
    uint64_t disk_limit;  /* bytes; set before the cache is opened */
    char
        *device_key; /* name, vendor, driver and versions: the part of a file's key that is fixed */
} clprune__program_cache;

/* Chooses and prepares the cache folder. An unusable one only turns the disk layer off, with a
 * warning. On PoCL a folder is used only if the caller or the environment names it. */
void clprune__program_cache_open(clprune_context *context, const char *dir);
void clprune__program_cache_close(clprune_context *context);

/* The kernel `def` compiled with `defines` ("-DBR=1 -DBC=16", in one canonical order). The result
 * lives as long as the context. Errors: BUILD_FAILED, OUT_OF_HOST_MEMORY, OPENCL_ERROR. */
clprune_status clprune__kernel_get(clprune_context *context, const clprune__kernel_def *def,
    const char *defines, const clprune__kernel **kernel);

/* Notes that a kernel is needed, for a context that builds none: its program counts once in
 * stats.builds. Errors: OUT_OF_HOST_MEMORY. */
clprune_status clprune__program_note(
    clprune_context *context, const clprune__kernel_def *def, const char *defines);

/* The programs that a dry context has noted, as texts of one block that the caller frees, each with
 * a zero behind it and an empty one at the end; NULL: no memory. */
char *clprune__programs_noted(const clprune_context *context);
/* Makes them in a context that builds, as the first use of their kernels would. Errors as for
 * clprune__kernel_get. */
clprune_status clprune__programs_prepare(clprune_context *context, const char *noted);

/* Sets *smaller to the same kernel with another value of its define LOCAL: `local`, at most the
 * present one. Errors: those of clprune__kernel_get. */
clprune_status clprune__kernel_shrink(clprune_context *context, const clprune__kernel *kernel,
    size_t local, const clprune__kernel **smaller);

/* From now on kernel->smaller is `smaller`, which has run where `kernel` was refused. */
void clprune__kernel_replace(
    clprune_context *context, const clprune__kernel *kernel, const clprune__kernel *smaller);

#endif
