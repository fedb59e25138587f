/* The context: one command queue, its kernels, its memory ledger and its last error.
 *
 * Threads. One context, with everything made from it, is used by one thread at a time, but by any
 * thread in turn: no object belongs to the thread that made it. With options.thread_safe a lock in
 * the context is taken by each call, so several threads may call at once; commands then run in the
 * order of the calls. Calls that wait, such as clprune_context_finish and clprune_mat_read, hold
 * the lock. What several calls do together, such as setting a seed and storing, is for the caller
 * to order where two threads do it with the same object. A context is destroyed when no other
 * thread uses it. Different contexts are independent, also on the same device.
 *
 * Processes. OpenCL does not survive a fork. In a child, calls with objects made before the fork
 * return FORKED, and functions that destroy free host memory only. A child that makes its first
 * context itself is fine if its parent has not used OpenCL; else creating one is FORKED too. Start
 * workers with exec (Python: the "spawn" method), or fork before the first context.
 *
 * No function of the library prints, exits or aborts. */
#ifndef CLPRUNE_CONTEXT_H
#define CLPRUNE_CONTEXT_H

#include <stddef.h>
#include <stdint.h>

#include "clprune/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* OpenCL's handles, declared as CL/cl.h declares them. The headers of clprune include none of
 * OpenCL's: include CL/cl.h or CL/opencl.hpp before or after them, for any target version. */
typedef struct _cl_context *cl_context;
typedef struct _cl_device_id *cl_device_id;
typedef struct _cl_command_queue *cl_command_queue;
typedef struct _cl_mem *cl_mem;
typedef struct _cl_event *cl_event;

typedef struct clprune_context clprune_context;

typedef enum clprune_log_level {
    CLPRUNE_LOG_ERROR = 0,   /* a call failed; the text is that of clprune_last_error */
    CLPRUNE_LOG_WARNING = 1, /* something best-effort did not work, such as the disk cache */
    CLPRUNE_LOG_INFO = 2     /* program builds, cache hits, kernel choices */
} clprune_log_level;

/* Receives one message without a trailing newline; `message` lives only during the call. It runs in
 * the thread whose call logs, with the lock of a thread-safe context held: it must not wait for
 * another thread that uses the context. */
typedef void (*clprune_log_fn)(void *user, clprune_log_level level, const char *message);

/* Where device memory comes from. Both functions or neither must be set. They run in the thread
 * whose call needs or releases memory, and must outlive the context. */
typedef struct clprune_allocator {
    /* Returns a buffer of `bytes` > 0, or NULL with *error (OpenCL's cl_int) set to an OpenCL error
     * code. */
    cl_mem (*allocate)(void *user, cl_context context, size_t bytes, int32_t *error);
    void (*release)(void *user, cl_mem buffer);
    void *user;
} clprune_allocator;

/* Which of two implementations of the same contract the operations take. */
typedef enum clprune_kernels {
    CLPRUNE_KERNELS_AUTO = 0,   /* $CLPRUNE_DEBUG, else by device type */
    CLPRUNE_KERNELS_VECTOR = 1, /* CPUs: one work-item a group, explicit vectors */
    CLPRUNE_KERNELS_TILED = 2   /* GPUs: many work-items a group, tiles in local memory */
} clprune_kernels;

/* What the products with a block-sparse matrix that matrix units can do (clprune_bspmm_tn,
 * clprune_bspmm_nt) may round their operands to; sums stay in fp32. */
typedef enum clprune_precision {
    CLPRUNE_PRECISION_DEFAULT = 0, /* as an option: $CLPRUNE_PRECISION, else FP32 */
    CLPRUNE_PRECISION_FP32 = 1,    /* no rounding */
    CLPRUNE_PRECISION_TF32 = 2,    /* 10 bits behind the point, ties away from zero: 2^-11 of each
                                      operand */
    CLPRUNE_PRECISION_BF16 = 3     /* 7 bits behind the point, ties to even: 2^-8 of each operand */
} clprune_precision;

/* Zero-initialise, then set what matters; NULL and 0 mean the default said here.
 *
 * The environment is read when a context is created. "" counts as unset. Invalid values fail
 * creation; an unusable cache only warns in the log:
 *     CLPRUNE_DEVICE, CLPRUNE_CACHE_DIR, CLPRUNE_MEM_LIMIT
 *                       defaults of the options below
 *     CLPRUNE_TUNING    a file of clprune-tune; its row for the context's device overrides the
 *                       built-in tile sizes
 *     CLPRUNE_PRECISION fp32, tf32 or bf16: for options.precision = DEFAULT
 *     CLPRUNE_DEBUG     switches for tests, separated by commas; of a word given twice the last
 *                       one counts:
 *         kernels=auto|vector|tiled       for options.kernels = AUTO
 *         gemm=auto|vector|tiled|clblast  the engine of dense products, see gemm.h
 *         mma=auto|emulated               OpenCL C stands in for tensor cores, on any device
 *         forget=keep|poison              see clprune_buffer_forget */
typedef struct clprune_context_options {
    const char *device;    /* "platform:device" (indices) or part of a device or platform name, any
                              case; default $CLPRUNE_DEVICE, else the first GPU, else the first */
    const char *cache_dir; /* folder of the program cache, or "off"; default $CLPRUNE_CACHE_DIR,
                              else $XDG_CACHE_HOME/clprune, else $HOME/.cache/clprune */
    uint64_t mem_limit;    /* bytes of device memory the library may hold; default
                              $CLPRUNE_MEM_LIMIT (suffixes K, M, G), else the device's size */
    clprune_kernels kernels;
    clprune_allocator allocator; /* default: clCreateBuffer and clReleaseMemObject */
    clprune_log_fn log;          /* default: nothing is logged */
    void *log_user;
    clprune_precision precision; /* DEFAULT: $CLPRUNE_PRECISION (fp32, tf32, bf16), else FP32. For
                                    NVIDIA's devices of compute capability 8.0 or later; where the
                                    device is another, or its probe fails, fp32 serves, with a
                                    warning to the log. The probe builds and runs a small kernel
                                    while the context is created, and waits for it */
    int thread_safe;             /* non-zero: several threads may use the context at once; see
                                    above */
    uint64_t reserved[4];        /* zeros */
} clprune_context_options;

/* Creates a context on `queue`, which must be in-order and is retained, or, where `queue` is NULL,
 * on a queue of its own on the device that `options` selects. `options` may be NULL; nothing in it
 * is referenced after the call but allocator and log. On failure *context is NULL and
 * clprune_last_error(NULL) tells the reason.
 * Errors: NO_DEVICE, INVALID_ARGUMENT (an out-of-order queue, a bad option or tuning file),
 * OPENCL_ERROR, OUT_OF_HOST_MEMORY, FORKED (see above). */
CLPRUNE_API clprune_status clprune_context_create(
    cl_command_queue queue, const clprune_context_options *options, clprune_context **context);

/* Waits for the queue, then releases everything the context owns; accepts NULL. Layers, stores and
 * optimizers made from the context must be destroyed before it; buffers still booked go with it. */
CLPRUNE_API void clprune_context_destroy(clprune_context *context);

/* The OpenCL objects behind a context; not retained for the caller. */
CLPRUNE_API cl_command_queue clprune_context_queue(const clprune_context *context);
CLPRUNE_API cl_context clprune_context_cl(const clprune_context *context);
CLPRUNE_API cl_device_id clprune_context_device(const clprune_context *context);

/* Makes everything that is enqueued on the context afterwards wait for `count` events, without
 * blocking the host: together with the event that each call gives, a wait list for every call. The
 * events may come from any queue of the same OpenCL context, or be user events; they are not
 * released and may be at once. In a dry context it does nothing. Errors: INVALID_ARGUMENT (no
 * events, a NULL among them, one of another OpenCL context), SIZE_OVERFLOW, OPENCL_ERROR. */
CLPRUNE_API clprune_status clprune_context_wait(
    clprune_context *context, size_t count, const cl_event *events);

/* Enqueues on `queue` from here on: in-order, of the same OpenCL context and device. It is
 * retained, the former one released: a caller that goes back to it holds a reference of its own.
 * The first command on `queue` waits for all that was enqueued on the former one, so results are
 * the same as with one queue; the host does not wait. What the caller enqueues himself, on
 * whichever queue, he orders by events and clprune_context_wait. Errors: INVALID_ARGUMENT,
 * OPENCL_ERROR. */
CLPRUNE_API clprune_status clprune_context_set_queue(
    clprune_context *context, cl_command_queue queue);

/* Waits until all enqueued work is done: the only blocking call besides the read functions.
 * Errors of kernels that ran out of device memory surface here as OUT_OF_DEVICE_MEMORY. */
CLPRUNE_API clprune_status clprune_context_finish(clprune_context *context);

/* The text of the last failure on `context`, with file:line, the failed expression, the OpenCL code
 * and, for BUILD_FAILED, the build log; "" before the first failure. For a thread-safe context: the
 * last failure of the calling thread, whichever of them it used. With NULL: the last failure
 * on the calling thread of clprune_context_create or a query: of devices, tuning or sizes. Never
 * NULL; valid until the next call that fails in the same context, or thread: copy it. */
CLPRUNE_API const char *clprune_last_error(const clprune_context *context);

/* Counters of the program cache since the context was created. */
typedef struct clprune_cache_stats {
    uint64_t memory_hits; /* programs found in the context */
    uint64_t disk_hits;   /* programs loaded from the cache folder */
    uint64_t builds;      /* programs compiled from source */
    uint64_t rejected;    /* files refused: wrong owner, mode, size, key or checksum */
} clprune_cache_stats;

CLPRUNE_API clprune_cache_stats clprune_context_cache_stats(const clprune_context *context);

/* The folder of the program cache in use, or NULL where it is off. Owned by the context. */
CLPRUNE_API const char *clprune_context_cache_dir(const clprune_context *context);

/* The kernel family in use: VECTOR or TILED. */
CLPRUNE_API clprune_kernels clprune_context_kernels(const clprune_context *context);

/* The precision in use, after the device was probed for the one that was asked for. */
CLPRUNE_API clprune_precision clprune_context_precision(const clprune_context *context);

/* As CLPRUNE_PRECISION takes it: "fp32", "tf32" or "bf16"; NULL for what is no precision. */
CLPRUNE_API const char *clprune_precision_name(clprune_precision precision);

/* One of the numbers that shape kernels and launches: tile sizes, panels, prefetch distances. */
typedef struct clprune_tuning_parameter {
    const char *section, *key; /* "gemm", "panel_depth"; static storage */
    uint32_t value;            /* in this context */
    uint32_t least, most,
        multiple; /* what a tuning file may say; some parameters bind each other */
    int is_set;   /* 0: a parameter of CLBlast, whose own default serves */
} clprune_tuning_parameter;

/* Writes up to `capacity` parameters and sets *count to the number there are. `parameters` may be
 * NULL where capacity is 0. Errors: INVALID_ARGUMENT, with its text in clprune_last_error(NULL). */
CLPRUNE_API clprune_status clprune_context_tuning(const clprune_context *context, size_t capacity,
    clprune_tuning_parameter *parameters, size_t *count);

/* Where they come from: the name of a built-in row, or the file. Owned by the context. */
CLPRUNE_API const char *clprune_context_tuning_source(const clprune_context *context);

/* What a device list shows of one device. */
typedef struct clprune_device_info {
    size_t platform_index, device_index; /* the selection string is "platform:device" */
    char platform[128], device[128], vendor[128], driver[64], version[128];
    uint64_t type; /* OpenCL's cl_device_type: CL_DEVICE_TYPE_CPU, ... */
    uint64_t global_memory, local_memory, max_allocation; /* bytes */
    uint32_t compute_units;
    uint32_t vector_width; /* floats of a native vector */
    size_t max_work_group;
    uint64_t reserved[4]; /* zeros */
} clprune_device_info;

/* The device of a context; its two indices are 0. */
CLPRUNE_API clprune_device_info clprune_context_device_info(const clprune_context *context);

/* Writes up to `capacity` devices in selection order and sets *count to the number there are.
 * No platform at all is success with *count 0. `devices` may be NULL where capacity is 0. */
CLPRUNE_API clprune_status clprune_device_list(
    size_t capacity, clprune_device_info *devices, size_t *count);

#ifdef __cplusplus
}
#endif
#endif
