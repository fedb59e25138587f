/* The body of clprune_context. */
#ifndef CLPRUNE_RUNTIME_CONTEXT_PRIVATE_H
#define CLPRUNE_RUNTIME_CONTEXT_PRIVATE_H

#include <stdbool.h>

#include "clprune/context.h"
#include "runtime/arena.h"
#include "runtime/dry.h"
#include "runtime/guard.h"
#include "runtime/ledger.h"
#include "runtime/program_cache.h"
#include "runtime/scratch.h"
#include "runtime/tuning.h"
#include "runtime/wrap.h"

#define CLPRUNE__ERROR_TEXT 16384

/* What makes dense products: gemm_vector.cl, gemm_tiled.cl, CLBlast, or the last two: CLBlast one
 * product, gemm_tiled.cl several of a batch. */
typedef enum clprune__gemm_engine {
    CLPRUNE__ENGINE_VECTOR,
    CLPRUNE__ENGINE_TILED,
    CLPRUNE__ENGINE_BLAST,
    CLPRUNE__ENGINE_BY_BATCH
} clprune__gemm_engine;

struct clprune_context {
    cl_context cl;
    cl_device_id device;
    cl_command_queue queue;
    clprune_kernels kernels;   /* VECTOR or TILED */
    clprune_device_info facts; /* read once */
    bool is_cpu;
    clprune_allocator allocator;
    clprune_log_fn log;
    void *log_user;
    clprune__ledger ledger;
    clprune__scratch scratch;
    clprune__dry *dry; /* NULL: there is a device */
    clprune__arena arena;
    bool poison; /* what is forgotten, and scratch, becomes NaN */
    clprune__program_cache cache;
    clprune__tuning tuning;
    clprune__gemm_engine gemm_engine;
    clprune_precision precision; /* of the products that matrix units can do */
    bool mma_emulated;           /* ... which OpenCL C stands in for */
    bool blast_ready;            /* CLBlast was told this device's parameters */
    clprune__wrap *wraps;        /* host memory */
    clprune__lock *lock;         /* NULL: not thread-safe */
    unsigned generation;         /* of the process, see guard.c */
    char error[CLPRUNE__ERROR_TEXT]; /* without a lock; else each thread has one */
};

#endif
