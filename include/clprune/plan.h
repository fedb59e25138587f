/* Memory planning: places the buffers of a repeated step, such as a training step, in one arena
 * before the run. Buffers that are never live at once share a place.
 *
 *     clprune_device_info device = clprune_context_device_info(context);
 *     clprune_context_options options = {.kernels = clprune_context_kernels(context),
 *         .precision = clprune_context_precision(context)};   // as the context that will run it
 *     clprune_context *dry;                                   // no device is opened
 *     clprune_context_create_dry(&device, &options, &dry);
 *     clprune_plan_begin(dry);
 *     ... create buffers and layers, enqueue a step: nothing runs ...
 *     clprune_plan_end_step(dry);
 *     clprune_plan_create(dry, &plan);
 *     clprune_plan_sizes(plan).arena_bytes                    // known before anything runs
 *
 *     clprune_context_use_plan(context, plan);
 *     ... create the same buffers: they lie in the arena ...
 *     ... enqueue the same step as often as you like ...
 *
 * Life. A buffer is live from the first command that uses it to the last, or until
 * clprune_buffer_forget; its next use begins another life. Contents do not survive the end of a
 * step, because another buffer may use the same place. To plan several kinds of step, such as a
 * smaller last batch or a forward pass alone, enqueue each in the dry context, with
 * clprune_plan_end_step after it. The program may then run these kinds in any order, but no others.
 *
 * Setup. Which commands a call enqueues, and how much scratch they borrow, depends on the context:
 * on its kernels, precision, tuning parameters and engine of dense products, on the device's local
 * memory and largest work-group, and, except for vector kernels in fp32, on its compute units. A
 * plan serves contexts that agree with its dry context in all of these; others refuse it. With
 * `device` NULL a dry context estimates the bytes of a step, but a device may refuse its plan.
 *
 * The scratch of operations is planned too, except for CLBlast's temporary buffers, whose use only
 * CLBlast knows. */
#ifndef CLPRUNE_PLAN_H
#define CLPRUNE_PLAN_H

#include "clprune/memory.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Creates a dry context: it has no device and notes commands instead of running them. Objects are
 * created and commands enqueued as usual; clprune_mat_read gives zeros, events and OpenCL objects
 * are NULL. Wrapped memory, and memory given to the functions of saved_host.h, keeps its values.
 * `device` describes the device to plan for: an entry of clprune_device_list, the result of
 * clprune_context_device_info, or NULL for a CPU with this machine's processors and vectors of 16
 * floats. Of `options`, device, cache_dir and allocator are ignored. It has no memory budget unless
 * options.mem_limit is set, which counts all its buffers side by side. Errors: INVALID_ARGUMENT,
 * OUT_OF_HOST_MEMORY. */
CLPRUNE_API clprune_status clprune_context_create_dry(const clprune_device_info *device,
    const clprune_context_options *options, clprune_context **context);

/* The number of commands that a dry context has noted, also the index of the next command; 0 for
 * other contexts. */
CLPRUNE_API uint64_t clprune_context_commands(const clprune_context *context);

/* Declares that a buffer's contents are no longer needed: the next command that uses it must write
 * each element before reading it. In a dry context this ends the buffer's life; in others it is a
 * no-op. With CLPRUNE_DEBUG=forget=poison it fills the buffer with NaN instead, also buffers when
 * they are created and scratch when it is borrowed, on the context's queue, and no buffers share a
 * place: a read of what was not written then shows. Accepts NULL. Errors: INVALID_ARGUMENT (a buffer of another OpenCL context, or one that the dry context
 * did not create). */
CLPRUNE_API clprune_status clprune_buffer_forget(clprune_context *context, cl_mem buffer);

/* A plan: the places of the planned buffers in one arena. The caller destroys it. */
typedef struct clprune_plan clprune_plan;

/* Activations and workspace buffers that are created in the dry context after this call, other than
 * by clprune_buffer_create, are planned, except those with the category, name and size of a buffer
 * that was created before the call or is released after it: a place is found by these three.
 * Another plan needs another dry context. Errors: INVALID_ARGUMENT (the context is not dry, or this
 * was called before). */
CLPRUNE_API clprune_status clprune_plan_begin(clprune_context *dry);

/* Ends a step: the contents of all planned buffers are no longer needed. In contexts that are not
 * dry this is a no-op, except with CLPRUNE_DEBUG=forget=poison, which fills all planned buffers
 * with NaN. Errors: INVALID_ARGUMENT. */
CLPRUNE_API clprune_status clprune_plan_end_step(clprune_context *context);

/* Places the buffers that were created since clprune_plan_begin and not released. The dry context
 * may be destroyed before the plan. On failure *plan is NULL. A buffer larger than the device's
 * max_allocation (0: no limit) has no place. Errors: INVALID_ARGUMENT (the context is not dry, or
 * clprune_plan_begin was not called), OUT_OF_DEVICE_MEMORY (operations borrow more scratch than
 * max_allocation), OUT_OF_HOST_MEMORY, SIZE_OVERFLOW. */
CLPRUNE_API clprune_status clprune_plan_create(clprune_context *dry, clprune_plan **plan);

/* Accepts NULL. */
CLPRUNE_API void clprune_plan_destroy(clprune_plan *plan);

/* Totals of a plan, in bytes except for `commands`. */
typedef struct clprune_plan_totals {
    uint64_t commands;      /* noted by the dry context */
    uint64_t arena_bytes;   /* size of the arena */
    uint64_t live_bytes;    /* the most bytes that are live at once: a lower bound of any arena */
    uint64_t buffer_bytes;  /* all planned buffers side by side, plus scratch_bytes */
    uint64_t scratch_bytes; /* the most scratch that operations borrow at once */
    uint64_t other_bytes;   /* live in the dry context, but not planned */
} clprune_plan_totals;

/* The totals of a plan; zeros for NULL. */
CLPRUNE_API clprune_plan_totals clprune_plan_sizes(const clprune_plan *plan);

/* The first and last command of one life of a buffer. */
typedef struct clprune_plan_span {
    uint64_t first, last;
} clprune_plan_span;

/* A planned buffer: the category and name it is booked under, its bytes, place and lives. A buffer
 * of clprune_mats_create is one entry, with the name of its first matrix. */
typedef struct clprune_plan_entry {
    clprune_memory_category category;
    const char *name; /* owned by the plan */
    uint64_t bytes;
    uint64_t offset; /* in the arena */
    const clprune_plan_span *spans;
    size_t spans_count; /* 0: no command uses it; it has a place of its own */
} clprune_plan_entry;

/* Calls `visit` for each planned buffer, in order of creation. */
CLPRUNE_API void clprune_plan_visit(const clprune_plan *plan,
    void (*visit)(void *user, const clprune_plan_entry *entry), void *user);

/* Bytes of scratch that are borrowed while command `command` is enqueued; 0 beyond the last. */
CLPRUNE_API uint64_t clprune_plan_scratch(const clprune_plan *plan, uint64_t command);

/* What a command is to do, as the shapes of its operands say: to estimate its time on a device
 * without running it. */
typedef struct clprune_plan_work {
    const char *kernel; /* its name, or "CLBlast", "fill", "write", "read" (of the host); "" for no
                           command. Owned by the library. */
    double bytes; /* read and written, each element once; what is updated in place may count once */
    double multiplications;      /* of products, each with an addition */
    clprune_precision precision; /* of the operands of these; FP32 without any */
} clprune_plan_work;

/* The work of command `command` of a plan; zeros beyond the last. */
CLPRUNE_API clprune_plan_work clprune_plan_command(const clprune_plan *plan, uint64_t command);

/* Builds the programs of all commands of the plan, which their first use would build. Called before
 * clprune_context_use_plan, compilers take their memory while there is no arena. Errors:
 * INVALID_ARGUMENT (as there), OUT_OF_HOST_MEMORY, BUILD_FAILED. */
CLPRUNE_API clprune_status clprune_plan_build(clprune_context *context, const clprune_plan *plan);

/* Creates the arena, booked as CLPRUNE_MEMORY_ARENA: one buffer, or several if the largest buffer
 * of the plan's device (max_allocation) is smaller than the arena. A buffer created later with the
 * category, name and size of a planned one, but by clprune_buffer_create, lies in the arena until
 * it is released; each place is used once. It counts in its category; the total counts the arena
 * instead. Its cl_mem is a handle for calls of this library: for your own OpenCL commands, ask
 * clprune_buffer_window. The plan may be destroyed afterwards. A context has at most one arena,
 * which it keeps. With `plan` NULL, buffers created later are not placed in it. Errors:
 * INVALID_ARGUMENT (the context is dry, or has an arena already, or has another setup than the
 * plan's dry context: the text says what differs), OUT_OF_DEVICE_MEMORY, OUT_OF_HOST_MEMORY,
 * UNSUPPORTED (the arena needs more than 64 buffers). */
CLPRUNE_API clprune_status clprune_context_use_plan(
    clprune_context *context, const clprune_plan *plan);

/* Where a buffer lies for OpenCL: *whole is an OpenCL buffer, *origin the byte of it where the
 * buffer begins. For a buffer outside of an arena, that is the buffer itself and 0. Other buffers
 * lie in *whole, too: use no byte beyond this one's. Errors: INVALID_ARGUMENT (buffer is NULL, or
 * of another OpenCL context). */
CLPRUNE_API clprune_status clprune_buffer_window(
    clprune_context *context, cl_mem buffer, cl_mem *whole, size_t *origin);

#ifdef __cplusplus
}
#endif
#endif
