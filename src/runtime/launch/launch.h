/* The kernel launcher: arguments are set in order, without indices, and checked on enqueue.
 *
 *     clprune__launch launch;
 *     TRY(clprune__launch_begin(context, &gelu_forward_kernel, &defines, &launch));
 *     clprune__arg_mat(&launch, h);
 *     ARG_ULONGS(&launch, rows, cols);
 *     TRY(clprune__launch_enqueue(&launch, 2, global, local, event));
 *
 * Enqueue checks that all arguments are set, that local divides global and that the work-group fits
 * kernel and device. */
#ifndef CLPRUNE_RUNTIME_LAUNCH_H
#define CLPRUNE_RUNTIME_LAUNCH_H

#include <stdbool.h>

#include "clprune/matrix.h"
#include "clprune/plan.h"
#include "runtime/launch/defines.h"
#include "runtime/launch/program_cache.h"

enum { CLPRUNE__LAUNCH_ARGUMENTS = 64, CLPRUNE__LAUNCH_BUFFERS = 16 }; /* most of a kernel */

typedef struct clprune__argument {
    size_t size;
    union {
        cl_mem buffer;
        cl_ulong wide;
        cl_uint word;
        cl_float real;
    } value;
} clprune__argument;

typedef struct clprune__launch {
    clprune_context *context;
    const clprune__kernel_def *def;
    const clprune__kernel *kernel; /* NULL: the backend needs none */
    /* 0: the work-group size is fixed. Else, if the driver refuses it, as many groups of fewer
     * work-items, a multiple of this, are tried. Set after begin, for kernels that take their group
     * size from the define LOCAL alone. */
    size_t least_group;
    bool lost;              /* the offset of a window was lost */
    clprune_plan_work work; /* bytes: of the matrices and regions among the arguments */
    size_t arguments_count, buffers_count;
    clprune__argument arguments[CLPRUNE__LAUNCH_ARGUMENTS];
    cl_mem buffers[CLPRUNE__LAUNCH_BUFFERS]; /* among the arguments */
} clprune__launch;

/* The start of an array in a buffer; the offset counts its elements, of `size` bytes. */
typedef struct clprune__region {
    cl_mem buffer; /* NULL: none */
    size_t offset, size;
    size_t count; /* of elements, for the work of launches; 0 where it is not known */
} clprune__region;

clprune_status clprune__launch_begin(clprune_context *context, const clprune__kernel_def *def,
    const clprune__defines *defines, clprune__launch *launch);

/* A matrix is three kernel parameters, MAT(name): buffer, ulong offset, ulong ld. */
void clprune__arg_mat(clprune__launch *launch, clprune_mat mat);
/* Two kernel parameters: ulong offset, buffer. */
void clprune__arg_region(clprune__launch *launch, clprune__region region);
void clprune__arg_ints(clprune__launch *launch, clprune_ints ints); /* likewise */
/* Buffers from byte 0 on. For one in an arena, it is the caller who adds the offset of its window
 * (arena.h), and gives window.whole. */
void clprune__arg_mem(clprune__launch *launch, cl_mem buffer);
void clprune__arg_ulong(clprune__launch *launch, size_t value);
void clprune__arg_uint(clprune__launch *launch, uint32_t value);
void clprune__arg_float(clprune__launch *launch, float value);

/* A matrix that stands for an absent one, as an argument that the kernel does not touch. */
static inline clprune_mat clprune__untouched(clprune_mat mat)
{
    mat.rows = 0;
    return mat;
}

/* Says what the launch multiplies: clprune_plan_command. */
void clprune__launch_multiplies(
    clprune__launch *launch, clprune_precision precision, double multiplications);

/* Several arguments of one kind in a row. */
#define ARG_MATS(launch, ...)   CLPRUNE__ARGS(clprune__arg_mat, clprune_mat, launch, __VA_ARGS__)
#define ARG_MEMS(launch, ...)   CLPRUNE__ARGS(clprune__arg_mem, cl_mem, launch, __VA_ARGS__)
#define ARG_ULONGS(launch, ...) CLPRUNE__ARGS(clprune__arg_ulong, size_t, launch, __VA_ARGS__)
#define ARG_FLOATS(launch, ...) CLPRUNE__ARGS(clprune__arg_float, float, launch, __VA_ARGS__)
#define CLPRUNE__ARGS(set, type, launch, ...)                                                      \
    do {                                                                                           \
        const type values_[] = {__VA_ARGS__};                                                      \
        for (size_t i_ = 0; i_ < sizeof values_ / sizeof values_[0]; i_++)                         \
            set(launch, values_[i_]);                                                              \
    } while (0)

/* A global size of zero in any dimension enqueues nothing. */
clprune_status clprune__launch_enqueue(clprune__launch *launch, cl_uint dimensions,
    const size_t *global, const size_t *local, cl_event *event);

#endif
