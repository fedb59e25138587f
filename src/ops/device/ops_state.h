/* The operations' state of a context: context->ops, opened after the runtime's part and closed
 * before it. */
#ifndef CLPRUNE_OPS_OPS_STATE_H
#define CLPRUNE_OPS_OPS_STATE_H

#include "ops/device/tuning.h"

/* The engine of dense products: gemm_vector.cl, gemm_tiled.cl, CLBlast, or by kind: gemm_tiled.cl
 * on tensor cores, for the samples of a batch and for devices of small work-groups, else CLBlast.
 */
typedef enum clprune__gemm_engine {
    CLPRUNE__ENGINE_VECTOR,
    CLPRUNE__ENGINE_TILED,
    CLPRUNE__ENGINE_BLAST,
    CLPRUNE__ENGINE_BY_KIND
} clprune__gemm_engine;

/* Products of bf16 in vector kernels: none, or the values of BF16 in pairs.clh. */
typedef enum clprune__pairs {
    CLPRUNE__PAIRS_NONE,
    CLPRUNE__PAIRS_CONVERTED,  /* by fp32 */
    CLPRUNE__PAIRS_INSTRUCTION /* AVX512-BF16 */
} clprune__pairs;

/* Whether those kernels that can multiply by AMX: the values of AMX in amx.clh. */
typedef enum clprune__amx {
    CLPRUNE__AMX_NONE,
    CLPRUNE__AMX_INSTRUCTION,
    CLPRUNE__AMX_EMULATED
} clprune__amx;

enum { CLPRUNE__SETUP_TEXT = 4096 }; /* bytes, with the zero at the end */

typedef struct clprune__ops {
    clprune__tuning tuning;
    char setup[CLPRUNE__SETUP_TEXT]; /* context->setup */
    clprune__gemm_engine gemm_engine;
    clprune_precision precision; /* of products */
    clprune__pairs pairs;        /* vector kernels: bf16 */
    clprune__amx amx;            /* only beside pairs */
    bool mma_emulated;           /* OpenCL C emulates tensor cores */
    bool blast_ready;            /* CLBlast was told this context's parameters */
    cl_mem blast_temp;           /* CLBlast's temporary, in a buffer of its own */
    size_t blast_temp_bytes;
} clprune__ops;

#endif
