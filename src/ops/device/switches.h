/* The switches for tests, $CLPRUNE_DEBUG: "kernels=tiled,gemm=clblast,mma=emulated,
 * bf16=converted|pairs|tiles,row=gpu-intel,forget=poison,arena=off,order=reversed,units=132,check=off".
 */
#ifndef CLPRUNE_OPS_SWITCHES_H
#define CLPRUNE_OPS_SWITCHES_H

#include <stdbool.h>

#include "clprune/context.h"
#include "ops/device/tuning.h"
#include "runtime/launch/program_cache.h"

typedef enum clprune__gemm_switch {
    CLPRUNE__GEMM_AUTO,
    CLPRUNE__GEMM_VECTOR,
    CLPRUNE__GEMM_TILED,
    CLPRUNE__GEMM_BLAST
} clprune__gemm_switch;

/* bf16 on CPUs: by the best instructions; by conversion to fp32; by AVX512-BF16 at most; or as AUTO
 * with AMX emulated. */
typedef enum clprune__bf16_switch {
    CLPRUNE__BF16_AUTO,
    CLPRUNE__BF16_CONVERTED,
    CLPRUNE__BF16_PAIRS,
    CLPRUNE__BF16_TILES
} clprune__bf16_switch;

typedef struct clprune__switches {
    clprune_kernels kernels;   /* kernels=auto, vector or tiled */
    clprune__gemm_switch gemm; /* gemm=auto, vector, tiled or clblast */
    bool emulate_mma;          /* mma=auto or emulated */
    clprune__bf16_switch bf16; /* bf16=auto, converted, pairs or tiles */
    clprune__tuning_row row;   /* row=auto, gpu, gpu-amd, gpu-intel or cpu-avx2 */
    bool poison;               /* forget=keep or poison */
    bool is_apart;             /* arena=on or off */
    clprune__order order;      /* order=plain, reversed or mixed */
    uint32_t units;            /* units=N; 0: the device's */
    bool skip_check;           /* check=on or off */
} clprune__switches;

/* Reads $CLPRUNE_DEBUG. A key that is missing has its first value; of a key given twice, the last
 * one counts. Errors, in the thread's text: INVALID_ARGUMENT, with the keys and values allowed. */
clprune_status clprune__switches_read(clprune__switches *switches);

#endif
