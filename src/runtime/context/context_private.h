/* The body of clprune_context. The structs of its parts are described by their own headers. */
#ifndef CLPRUNE_RUNTIME_CONTEXT_PRIVATE_H
#define CLPRUNE_RUNTIME_CONTEXT_PRIVATE_H

#include <stdbool.h>

#include "clprune/context.h"
#include "clprune/memory.h"

#define CLPRUNE__ERROR_TEXT 16384

/* What a blocking read looks at first: whether earlier commands met something wrong. */
typedef struct clprune__watch {
    struct clprune__watch *next;
    bool pending; /* a command that may have met it was enqueued since the last look */
    clprune_status (*look)(void *user);
    void *user;
} clprune__watch;

struct clprune_context {
    /* NULL in dry contexts. */
    cl_context cl;
    cl_device_id device;
    cl_command_queue queue;
    cl_command_queue *former; /* queues before that, each once, retained until `finish`; malloced */
    size_t former_count;

    const struct clprune__backend *backend;
    clprune_kernels kernels;   /* VECTOR or TILED */
    clprune_device_info facts; /* read once */
    bool is_cpu;
    bool poison;   /* forgotten and new buffers, and borrowed scratch, become NaN */
    bool is_apart; /* buffers of a plan lie apart, each in an OpenCL buffer of its own */
    bool quiet;    /* failures of an attempt: neither logged nor the last error */
    clprune_allocator allocator;
    clprune_log_fn log;
    void *log_user;

    struct clprune__ledger *ledger;
    const clprune_memory_usage *total; /* of the ledger, which messages quote */
    struct clprune__scratch *scratch;
    struct clprune__arena *arena;
    struct clprune__program_cache *cache;
    struct clprune__record *record;   /* of a dry context; NULL: commands run */
    struct clprune__ops *ops;         /* state of src/ops, which opens and closes it */
    uint64_t most_slab;               /* bytes of a slab that src/ops can index; 0: any */
    const char *setup;                /* text of src/ops; where it is equal, calls enqueue the same
                                         commands, with the same scratch */
    struct clprune__wrap *wraps;      /* host memory */
    clprune__watch *watches;          /* of nets */
    struct clprune__lock *lock;       /* NULL: not thread-safe */
    struct clprune__verbose *verbose; /* NULL: CLPRUNE_VERBOSE is off */
    unsigned generation;              /* of the process, see guard.c */
    char error[CLPRUNE__ERROR_TEXT];  /* the last error; with a lock, per thread */
};

/* fp32 elements of a tensor that is worked on in parts, at a time: `least`; on a GPU whose memory
 * is known 1 / share of it, from `least` to `most`. */
size_t clprune__part_elements(
    const clprune_context *context, size_t least, size_t share, size_t most);

#endif
