/* Scratch: a stack of device memory that operations borrow until they return.
 *
 *     SCRATCH_SCOPE(context);
 *     TRY(clprune__scratch_mat(context, rows, cols, &mat));   // or _array; as often as needed
 *
 * The queue is in-order, so the next operation may borrow returned memory at once. The stack grows
 * by chunks. When it is empty again, several chunks are released, and the next run allocates one of
 * their joint size, or if that no longer fits, of what it needs. Chunks whose joint size exceeds
 * the device's largest buffer are kept, and from the first refusal on all chunks are. So a repeated
 * step allocates nothing from its third run on.
 *
 * With a plan the first chunk lies in the arena and stays there. What a larger operation than the
 * planned ones takes beside the arena is released at its end.
 */
#ifndef CLPRUNE_RUNTIME_SCRATCH_H
#define CLPRUNE_RUNTIME_SCRATCH_H

#include <stdbool.h>

#include "clprune/matrix.h"
#include "runtime/launch/launch.h"

#define CLPRUNE__SCRATCH_NAME   "scratch" /* in the ledger */
#define CLPRUNE__SCRATCH_CHUNKS 64
#define CLPRUNE__SCRATCH_KEPT   48  /* chunks at most that are kept unjoined */
#define CLPRUNE__SCRATCH_ALIGN  256 /* bytes */

typedef struct clprune__scratch_mark {
    size_t chunks, used;
} clprune__scratch_mark;

typedef struct clprune__scratch_chunk {
    cl_mem buffer;
    size_t size, used; /* bytes */
    bool placed;       /* in the arena of a plan */
} clprune__scratch_chunk;

typedef struct clprune__scratch {
    clprune__scratch_chunk chunk[CLPRUNE__SCRATCH_CHUNKS];
    size_t chunks;  /* allocated */
    size_t open;    /* chunks in use: the last of them is the one being filled */
    size_t reserve; /* least size of the next first chunk */
    size_t most;    /* bytes borrowed at once, so far */
    bool apart;     /* a joint size was refused: chunks are not joined any more */
} clprune__scratch;

/* Returns at the end of the block what is borrowed behind this line, which goes before any goto. */
#define SCRATCH_SCOPE(context)                                                                     \
    __attribute__((cleanup(clprune__scratch_leave), unused))                                       \
    const clprune__scratch_scope scope_ = {context, clprune__scratch_begin(context)}

typedef struct clprune__scratch_scope {
    clprune_context *context; /* NULL: none */
    clprune__scratch_mark mark;
} clprune__scratch_scope;

void clprune__scratch_leave(const clprune__scratch_scope *scope);

/* The same by hand. */
clprune__scratch_mark clprune__scratch_begin(clprune_context *context);
void clprune__scratch_end(clprune_context *context, clprune__scratch_mark mark);

/* `bytes` of scratch at `*offset` bytes into *buffer, aligned to CLPRUNE__SCRATCH_ALIGN; the
 * next two functions call it. */
clprune_status clprune__scratch_take(
    clprune_context *context, size_t bytes, cl_mem *buffer, size_t *offset);

/* An array of `count` elements of `size` bytes, a power of two up to CLPRUNE__SCRATCH_ALIGN. */
clprune_status clprune__scratch_array(
    clprune_context *context, size_t count, size_t size, clprune__region *array);

/* A dense rows x cols matrix in scratch. */
clprune_status clprune__scratch_mat(
    clprune_context *context, size_t rows, size_t cols, clprune_mat *mat);

/* Allocates one chunk of at least `bytes`, so that borrowing up to `bytes` creates no buffer.
 * Nothing may be borrowed at this time. */
clprune_status clprune__scratch_reserve(clprune_context *context, size_t bytes);

/* Bytes borrowed now. */
size_t clprune__scratch_used(const clprune_context *context);

/* Whether a buffer is a chunk of scratch. */
bool clprune__scratch_owns(const clprune_context *context, cl_mem buffer);

void clprune__scratch_close(clprune_context *context);

#endif
