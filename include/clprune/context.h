/* The context: one command queue, its kernels, its memory ledger and its last error.
 *
 * Threads. By default one thread at a time may use a context and the objects made from it; it may
 * be a different thread each time. With options.thread_safe several threads may call at once: each
 * call takes the context's lock, and commands run in the order of the calls. Blocking calls, such
 * as clprune_context_finish and clprune_mat_read, hold the lock. The lock covers single calls: if
 * two threads share an object and need two calls in a row, such as setting a seed and storing, the
 * caller must synchronise them. Destroy a context when no other thread uses it. Different contexts
 * are independent, also on the same device.
 *
 * Processes. OpenCL does not survive a fork. In a child, calls with objects made before the fork
 * return FORKED. Functions that destroy or release them may be called, even if another thread was
 * inside a call at the fork; they free nothing of the context, whose memory stays until the child
 * ends. A child can create a context of its own only if its parent had not used OpenCL; otherwise
 * creation returns FORKED. So start workers with exec (Python: the "spawn" method), or fork before
 * the first context.
 *
 * Objects. A call takes objects of one context only: an object that was created with another
 * context is refused with INVALID_ARGUMENT. Buffers belong to an OpenCL context, so contexts on one
 * OpenCL context may share them. Buffers of a dry context (plan.h) serve that context only.
 *
 * No function of the library exits or aborts. It prints only if CLPRUNE_VERBOSE is set. CLBlast,
 * which serves KERNELS_TILED, writes "CLBlast: OpenCL error: ..." to stderr when a call of OpenCL
 * in it fails. */
#ifndef CLPRUNE_CONTEXT_H
#define CLPRUNE_CONTEXT_H

#include <stddef.h>
#include <stdint.h>

#include "clprune/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* OpenCL's handles, declared as in CL/cl.h. clprune's headers do not include OpenCL's: include
 * CL/cl.h or CL/opencl.hpp before or after them, for any target version. */
typedef struct _cl_context *cl_context;
typedef struct _cl_device_id *cl_device_id;
typedef struct _cl_command_queue *cl_command_queue;
typedef struct _cl_mem *cl_mem;
typedef struct _cl_event *cl_event;

/* A device with a queue, kernels, a memory ledger and an error text; the caller destroys it. */
typedef struct clprune_context clprune_context;

/* The severity of a message. */
typedef enum clprune_log_level {
    CLPRUNE_LOG_ERROR = 0,   /* a call failed; same text as clprune_last_error */
    CLPRUNE_LOG_WARNING = 1, /* the library continued with a fallback, e.g. no disk cache */
    CLPRUNE_LOG_INFO = 2     /* program builds, cache hits, kernel choices */
} clprune_log_level;

/* Receives one message without a trailing newline; `message` is valid only during the call. It runs
 * in the thread whose call logs, which holds the lock of a thread-safe context: it must not wait
 * for another thread that uses the context. It may query the context, and create and
 * release its buffers (memory.h), but must enqueue nothing. */
typedef void (*clprune_log_fn)(void *user, clprune_log_level level, const char *message);

/* An allocator of device memory. Set both functions or neither. They run in the thread whose call
 * allocates or releases memory, and must stay valid as long as the context. They must enqueue
 * nothing. They may query the context, and create and release its buffers (memory.h): an allocator
 * can release buffers that it caches to make room. */
typedef struct clprune_allocator {
    /* Returns a buffer of `bytes` > 0, which may be a sub-buffer, or NULL with *error (OpenCL's
     * cl_int) set to an OpenCL error code. */
    cl_mem (*allocate)(void *user, cl_context context, size_t bytes, int32_t *error);
    void (*release)(void *user, cl_mem buffer);
    void *user;
} clprune_allocator;

/* The kernel family that operations use; both have the same contract. */
typedef enum clprune_kernels {
    CLPRUNE_KERNELS_AUTO = 0,   /* $CLPRUNE_DEBUG, else VECTOR for CPUs with native vectors of 4
                                   floats or more and for devices whose work-groups are limited
                                   to fewer than 64 work-items, else TILED */
    CLPRUNE_KERNELS_VECTOR = 1, /* one work-item a group, explicit vectors; slow if the driver
                                   splits vectors, as Mesa's llvmpipe does */
    CLPRUNE_KERNELS_TILED = 2   /* many work-items a group, tiles in local memory */
} clprune_kernels;

/* Precision of the operands of matrix products, convolutions among them. Everything else stays in
 * fp32: sums, results, parameters, gradients, statistics, optimizers.
 *
 * CPUs (vector kernels) take BF16 in every product, those of attention among them: operands are
 * rounded as they are copied to panels, and multiplied by AMX or AVX512-BF16 if the device has
 * them, else by fp32, which is slower and gives the same values up to the order of terms. TF32 is
 * fp32 there. GPUs (tiled kernels) take TF32 and BF16 on tensor cores, in dense products,
 * convolutions, clprune_bspmm_tn and clprune_bspmm_nt, and attention with heads of a multiple of 16
 * columns, up to 64, with BF16 up to 128. Weight gradients of convolutions from pruned images stay
 * in fp32 there. */
typedef enum clprune_precision {
    CLPRUNE_PRECISION_DEFAULT = 0, /* an option only: $CLPRUNE_PRECISION, else FP32 */
    CLPRUNE_PRECISION_FP32 = 1,    /* no rounding */
    CLPRUNE_PRECISION_TF32 = 2,    /* 10 fraction bits, ties away from zero: relative error 2^-11 of
                                      each operand */
    CLPRUNE_PRECISION_BF16 = 3     /* 7 fraction bits, ties to even: relative error 2^-8. Subnormal
                                      operands are 0 on CPUs, as may be subnormal sums. In both,
                                      operands above 3.39e38 may become Inf */
} clprune_precision;

/* Zero-initialise, then set the fields you need; NULL, "" and 0 mean the default given here.
 *
 * The environment is read when a context is created. "" counts as unset. Invalid values fail
 * creation; an unusable cache only warns in the log:
 *     CLPRUNE_DEVICE, CLPRUNE_CACHE_DIR, CLPRUNE_MEM_LIMIT
 *                       defaults of the options below
 *     CLPRUNE_CACHE_LIMIT
 *                       bytes of the cache folder, at least 1; default 1G. Suffixes K, M, G. When
 *                       a program is stored, the least recently used ones make room
 *     CLPRUNE_TUNING    a file of clprune-tune; its row for the context's device overrides the
 *                       built-in tile sizes
 *     CLPRUNE_PRECISION fp32, tf32 or bf16: for options.precision = DEFAULT
 *     CLPRUNE_VERBOSE   0, or 1 or 2 [":file"]: prints a line of CSV per call, or per command
 *                       too, to stderr or a file; the API guide (README.md here) describes them.
 *                       The context then waits for each command
 *     CLPRUNE_DEBUG     switches for tests, separated by commas; if a switch is repeated, the last
 *                       one counts:
 *         kernels=auto|vector|tiled       for options.kernels = AUTO
 *         gemm=auto|vector|tiled|clblast  the engine of dense products, see gemm.h
 *         mma=auto|emulated               emulate tensor cores in OpenCL C, on any device
 *         bf16=auto|converted|pairs|tiles on CPUs: use neither AVX512-BF16 nor AMX; not AMX; emulate
 *                                         AMX in OpenCL C, on any device
 *         row=auto|gpu|gpu-amd|gpu-intel|cpu-avx2
 *                                         the built-in tile sizes of one of these, on any device
 *         forget=keep|poison              see clprune_buffer_forget
 *         arena=on|off                    give each buffer of a plan an OpenCL buffer of its own
 *         order=plain|reversed|mixed      the work-items of a group trade their ids: the same bits,
 *                                         unless a barrier is missing on a device that runs them
 *                                         in the order of their ids. Not in kernels of inline PTX
 *         units=1 to 99999                the number of compute units, by which sums are split;
 *                                         device_info says it, too
 *         check=on|off                    skip the self-check of clprune_context_create */
typedef struct clprune_context_options {
    const char *device;    /* "platform:device" (indices) or part of a device or platform name, any
                              case; a bare number is refused. Default $CLPRUNE_DEVICE, else the
                              first GPU, else the first device. One whose queries fail
                              is passed over with a warning */
    const char *cache_dir; /* folder of the program cache, no symbolic link, or "off"; default
                              $CLPRUNE_CACHE_DIR, else "off" on PoCL, which keeps compiled
                              kernels itself, else $XDG_CACHE_HOME/clprune, else
                              $HOME/.cache/clprune; on Windows %LOCALAPPDATA%/clprune */
    uint64_t mem_limit;    /* bytes of device memory the library may hold; default
                              $CLPRUNE_MEM_LIMIT (suffixes K, M, G), else the device's size */
    clprune_kernels kernels;
    clprune_allocator allocator; /* default: clCreateBuffer and clReleaseMemObject */
    clprune_log_fn log;          /* default: nothing is logged */
    void *log_user;
    clprune_precision precision; /* DEFAULT: $CLPRUNE_PRECISION (fp32, tf32, bf16), else FP32. On
                                    GPUs, TF32 and BF16 need an NVIDIA device of compute capability
                                    8.0 or later. Where they are missing, or the device's probe
                                    fails, the products run in fp32, and the log gets a warning.
                                    The probe builds and runs a small kernel during creation, on a
                                    queue of its own, and waits for it */
    int thread_safe;             /* non-zero: several threads may use the context at once, see
                                    Threads above */
    uint64_t reserved[4];        /* zeros */
} clprune_context_options;

/* Creates a context on `queue`, which must be in-order and is retained. With `queue` NULL, it opens
 * the device that `options` selects, with a queue of its own. `options` may be NULL; only
 * allocator, log and their `user` must stay valid after the call. On failure *context is NULL and
 * clprune_last_error(NULL) has the reason.
 *
 * The first context of a process on a device runs a self-check: a small kernel on a queue of its
 * own, whose results are compared with the host's. Some drivers compute NaN or wrong numbers
 * without an error; such a device is refused with UNSUPPORTED and a text that names it and its
 * driver.
 * Errors: NO_DEVICE, UNSUPPORTED, BUILD_FAILED (the self-check, or damaged files in PoCL's cache),
 * INVALID_ARGUMENT (an out-of-order queue, a bad option or tuning file), OPENCL_ERROR (also a query
 * of the device that failed; the text names it), OUT_OF_HOST_MEMORY, FORKED (see above). */
CLPRUNE_API clprune_status clprune_context_create(
    cl_command_queue queue, const clprune_context_options *options, clprune_context **context);

/* Waits for the queue, then releases everything the context owns, including buffers that are still
 * booked; accepts NULL. Destroy layers, stores and optimizers made from the context first. */
CLPRUNE_API void clprune_context_destroy(clprune_context *context);

/* The OpenCL objects of a context; not retained for the caller. */
CLPRUNE_API cl_command_queue clprune_context_queue(const clprune_context *context);
CLPRUNE_API cl_context clprune_context_cl(const clprune_context *context);
CLPRUNE_API cl_device_id clprune_context_device(const clprune_context *context);

/* Makes all commands enqueued later on the context wait for `count` events; the host does not wait.
 * This serves as the wait list of the next call. The events may come from any queue of the same
 * OpenCL context, or be user events. The caller keeps them and may release them right after the
 * call. Complete user events without an error: PoCL 3.1 aborts the process otherwise. In OpenCL
 * nothing but events may be released while a user event is pending that commands wait for: set it
 * before a call that creates, destroys or finishes, or that has new shapes. A no-op in a dry
 * context. Errors: INVALID_ARGUMENT (no events, a NULL event, an event of another OpenCL
 * context), SIZE_OVERFLOW, OPENCL_ERROR. */
CLPRUNE_API clprune_status clprune_context_wait(
    clprune_context *context, size_t count, const cl_event *events);

/* Switches the context to `queue`, which must be in-order and of the same OpenCL context and
 * device. `queue` is retained, and the previous queue is released by clprune_context_finish or when
 * the context is destroyed; to return to it after that, hold a reference of your own. The first
 * command on `queue` waits for all work on the previous queue, so results are the same as with one
 * queue; the host does not wait. Order your own commands with events and clprune_context_wait.
 * Errors: INVALID_ARGUMENT, OPENCL_ERROR. */
CLPRUNE_API clprune_status clprune_context_set_queue(
    clprune_context *context, cl_command_queue queue);

/* Blocks until all enqueued work is done. Kernels that ran out of device memory report it here, as
 * OUT_OF_DEVICE_MEMORY. */
CLPRUNE_API clprune_status clprune_context_finish(clprune_context *context);

/* The text of the last failure on `context`: file:line of the library and a sentence with the
 * values seen, the OpenCL call and its code and, for BUILD_FAILED, the build log; "" before the
 * first failure. For a thread-safe context it is the calling thread's last failure on any
 * thread-safe context. For NULL it is the calling thread's last failure of clprune_context_create
 * or of a query of devices, tuning or sizes. Never NULL. Valid until the next failure in the same
 * context, or thread: copy it. */
CLPRUNE_API const char *clprune_last_error(const clprune_context *context);

/* Counters of the program cache; CLBlast's programs do not count. In a dry context (plan.h) nothing
 * is built, and `builds` counts the programs that its commands need: after one dry step it is the
 * number of programs that a first step on a device builds or loads. */
typedef struct clprune_cache_stats {
    uint64_t memory_hits; /* programs found in the context */
    uint64_t disk_hits;   /* programs loaded from the cache folder */
    uint64_t builds;      /* programs compiled from source */
    uint64_t rejected;    /* files refused: wrong owner, mode, size, key or checksum; binaries that
                             the driver refuses */
} clprune_cache_stats;

/* The counters since the context was created; zeros for NULL. */
CLPRUNE_API clprune_cache_stats clprune_context_cache_stats(const clprune_context *context);

/* The folder of the program cache, or NULL if the cache is off. Owned by the context. */
CLPRUNE_API const char *clprune_context_cache_dir(const clprune_context *context);

/* The kernel family in use: VECTOR or TILED. */
CLPRUNE_API clprune_kernels clprune_context_kernels(const clprune_context *context);

/* The precision in use: the requested one if the device passed its probe, else FP32. */
CLPRUNE_API clprune_precision clprune_context_precision(const clprune_context *context);

/* The name that CLPRUNE_PRECISION takes: "fp32", "tf32" or "bf16"; NULL for other values. */
CLPRUNE_API const char *clprune_precision_name(clprune_precision precision);

/* One tuning parameter: a tile size, a panel size, a prefetch distance. */
typedef struct clprune_tuning_parameter {
    const char *section, *key;      /* "gemm", "panel_depth"; static storage */
    uint32_t value;                 /* in this context */
    uint32_t least, most, multiple; /* a tuning file may set multiples of `multiple` in [least,
                                       most]; some parameters also limit each other */
    int is_set;                     /* 0: a parameter of CLBlast that has CLBlast's default */
} clprune_tuning_parameter;

/* Writes up to `capacity` parameters and sets *count to the number of all parameters. `parameters`
 * may be NULL if capacity is 0. Errors: INVALID_ARGUMENT, with its text in
 * clprune_last_error(NULL). */
CLPRUNE_API clprune_status clprune_context_tuning(const clprune_context *context, size_t capacity,
    clprune_tuning_parameter *parameters, size_t *count);

/* The source of the parameters: the name of a built-in row, or a file. Owned by the context. */
CLPRUNE_API const char *clprune_context_tuning_source(const clprune_context *context);

/* An OpenCL device. */
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

/* The device of a context; platform_index and device_index are 0. */
CLPRUNE_API clprune_device_info clprune_context_device_info(const clprune_context *context);

/* Writes up to `capacity` devices in selection order and sets *count to the number of all devices.
 * Without an OpenCL platform it succeeds with *count 0. `devices` may be NULL if capacity is 0.
 * If a query of a device fails, its field is 0 or ""; creating a context on that device fails. */
CLPRUNE_API clprune_status clprune_device_list(
    size_t capacity, clprune_device_info *devices, size_t *count);

#ifdef __cplusplus
}
#endif
#endif
