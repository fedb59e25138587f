/* Memory planned before the run: what a program that repeats itself, such as a training step, keeps
 * and borrows is placed in one arena, where buffers that are never needed at once share a place.
 *
 *     clprune_context *dry;                                   // no device is opened
 *     clprune_context_create_dry(NULL, NULL, &dry);
 *     clprune_plan_begin(dry);
 *     ... create the buffers, layers and so on; enqueue a step, which ends with
 *         clprune_plan_end_step(dry): nothing runs ...
 *     clprune_plan_create(dry, &plan);
 *     clprune_plan_sizes(plan).arena_bytes                    // known without a device
 *
 *     clprune_context_use_plan(context, plan);                // a context with a device
 *     ... create the same buffers: they lie in its arena; enqueue the same step, again and again
 * ...
 *
 * Life. A buffer is live from the first command that touches it to the last, or until
 * clprune_buffer_forget says that its contents are not needed any more; the next touch begins
 * another life. Contents do not outlive a step: their place may be another buffer's. Steps of
 * several kinds, as for a smaller last batch or for a forward pass alone, are noted one after the
 * other; the program may then take them in any order, but no others.
 *
 * What operations borrow inside is planned too, but for the temporary buffers of CLBlast, which
 * only it knows. */
#ifndef CLPRUNE_PLAN_H
#define CLPRUNE_PLAN_H

#include "clprune/memory.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A context without a device, which notes commands instead of running them: everything can be
 * created and enqueued in it, reading gives zeros, events are NULL, cl objects are NULL. `device`
 * says what it stands for: a line of clprune_device_list, clprune_context_device_info, or NULL for
 * a CPU with this machine's processors and vectors of 16 floats. Of `options` kernels, mem_limit
 * and log are read; device, cache_dir and allocator are not. Errors: INVALID_ARGUMENT,
 * OUT_OF_HOST_MEMORY. */
CLPRUNE_API clprune_status clprune_context_create_dry(const clprune_device_info *device,
    const clprune_context_options *options, clprune_context **context);

/* How many commands a dry context has noted: the number of its next one. 0 for other contexts. */
CLPRUNE_API uint64_t clprune_context_commands(const clprune_context *context);

/* Says that the contents of a buffer are not needed any more: whatever touches it next writes what
 * it reads. In a dry context its life ends; in others nothing happens, unless the environment has
 * CLPRUNE_DEBUG=forget=poison: then the buffer is filled with NaN, which shows a promise that was not
 * kept, and no places are shared; so is scratch that an operation borrows. NULL is accepted. */
CLPRUNE_API clprune_status clprune_buffer_forget(clprune_context *context, cl_mem buffer);

typedef struct clprune_plan clprune_plan;

/* From here on the buffers of activations and workspace that the dry context is asked for are to be
 * planned. Errors: INVALID_ARGUMENT (the context is not dry). */
CLPRUNE_API clprune_status clprune_plan_begin(clprune_context *dry);

/* A step is over: no contents are needed any more. In contexts that are not dry nothing happens,
 * but for CLPRUNE_DEBUG=forget=poison, which then fills all planned buffers. Errors: INVALID_ARGUMENT. */
CLPRUNE_API clprune_status clprune_plan_end_step(clprune_context *context);

/* Places the buffers that were created since clprune_plan_begin and are still there. The plan does
 * not refer to the context. On failure *plan is NULL. Errors: INVALID_ARGUMENT (not dry, not
 * begun), OUT_OF_HOST_MEMORY, SIZE_OVERFLOW. */
CLPRUNE_API clprune_status clprune_plan_create(clprune_context *dry, clprune_plan **plan);

/* Accepts NULL. */
CLPRUNE_API void clprune_plan_destroy(clprune_plan *plan);

/* In bytes, but for `commands`, which says how many the dry context had noted. */
typedef struct clprune_plan_totals {
    uint64_t commands;
    uint64_t arena_bytes;   /* what the plan takes */
    uint64_t live_bytes;    /* the most that is live at once: no plan takes less */
    uint64_t buffer_bytes;  /* the buffers and the most that is borrowed, side by side */
    uint64_t scratch_bytes; /* the most that operations borrow */
    uint64_t other_bytes;   /* live in the dry context beside what is planned */
} clprune_plan_totals;

CLPRUNE_API clprune_plan_totals clprune_plan_sizes(const clprune_plan *plan);

/* Commands between which a buffer is live, both included. */
typedef struct clprune_plan_span {
    uint64_t first, last;
} clprune_plan_span;

typedef struct clprune_plan_entry {
    clprune_memory_category category;
    const char *name;
    uint64_t bytes;
    uint64_t offset; /* in the arena */
    const clprune_plan_span *spans;
    size_t spans_count; /* 0: nothing touches it; it keeps a place of its own */
} clprune_plan_entry;

/* Calls `visit` for each planned buffer, in order of creation. */
CLPRUNE_API void clprune_plan_visit(const clprune_plan *plan,
    void (*visit)(void *user, const clprune_plan_entry *entry), void *user);

/* Bytes that operations borrow while a command is enqueued. 0 beyond the last command. */
CLPRUNE_API uint64_t clprune_plan_scratch(const clprune_plan *plan, uint64_t command);

/* Makes the arena, booked as CLPRUNE_MEMORY_ARENA. Buffers created later whose category, name and
 * size are a planned one's lie in it until they are released, as OpenCL sub-buffers; each place is
 * given once. They count in their category, but not in the total, where the arena does. The plan
 * may be destroyed afterwards. A context has one arena, for as long as it lives; `plan` NULL gives
 * no more places from it. Errors: INVALID_ARGUMENT (the context is dry, or has an arena already),
 * OUT_OF_DEVICE_MEMORY, OUT_OF_HOST_MEMORY, UNSUPPORTED (a device that aligns buffers to more than
 * the plan does, 1024 bytes). */
CLPRUNE_API clprune_status clprune_context_use_plan(
    clprune_context *context, const clprune_plan *plan);

#ifdef __cplusplus
}
#endif
#endif
