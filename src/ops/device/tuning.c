/* The built-in rows, and which one a context takes. */
#include "ops/device/tuning.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/context/context_private.h"
#include "runtime/context/fail.h"

/* Parameters that clprune-tune does not search on CPUs, because tiled kernels, tensor cores and
 * CLBlast are not their engine. inner_run: CLBlast's kernel does not block the inner size, and a
 * long one would not fit the caches. */
#define CPU_COMMON                                                                                 \
    .gemm_tiled = {.rows = 8},                                                                     \
    .tiled_tn = {.panel = 128, .tile_columns = 16, .segment_rows = 32, .groups_per_unit = 2},      \
    .tiled_nt = {.panel = 64, .tile_columns = 16, .segment_rows = 16, .groups_per_unit = 4},       \
    .mma_tn = {.panel = 64, .tile_columns = 32, .segment_rows = 128, .groups_per_unit = 2},        \
    .mma_nt = {.panel = 64, .segment_rows = 32, .groups_per_unit = 4},                             \
    .clblast = {.inner_run = 512}

/* Found by search on an AVX-512 CPU with PoCL 3.1: 32 registers of 16 floats, 48 KiB and 2 MiB of
 * caches. gemm: of 28 accumulators some have no register, which costs more than the wider tile
 * gains. */
static const clprune__tuning cpu_avx512 = {
    .source = "cpu-avx512",
    .gemm = {.accumulators = 24,
        .tile_vectors = 4,
        .panel_depth = 384,
        .block_rows = 392,
        .packed_depth = 384,
        .packed_rows = 192,
        .packed_accumulators = 24,
        .groups_per_unit = 6},
    .gemm_bf16 = {.accumulators = 28,
        .tile_vectors = 2,
        .panel_depth = 384,
        .block_rows = 392,
        .groups_per_unit = 2},
    .bspmm_tn = {.accumulators = 24,
        .tile_columns = 8,
        .long_list_columns = 4,
        .long_list = 28,
        .panel_bytes = 40 << 10,
        .results_bytes = 768 << 10,
        .ahead = 32,
        .segment_rows = 256,
        .groups = 8},
    .bspmm_tn_bf16 = {.accumulators = 24,
        .tile_columns = 8,
        .panel_bytes = 32 << 10,
        .results_bytes = 768 << 10,
        .segment_rows = 512,
        .groups = 8},
    .bspmm_nt = {.accumulators = 24,
        .tile_rows = 3,
        .chunk_columns = 32,
        .ahead = 16,
        .segment_rows = 256,
        .groups = 16},
    .bspmm_nt_bf16 = {.accumulators = 16,
        .tile_rows = 4,
        .chunk_columns = 128,
        .segment_rows = 256,
        .groups = 16},
    CPU_COMMON,
};

/* Derived, not measured. AVX2 has 16 registers of 8 floats: six accumulators of 16 take twelve, the
 * panel's vector two, a broadcast value one. A panel one vector wide, 256 deep, takes half of a
 * first-level cache of 32 KiB; 96 rows of op(a) beside it fit a second-level cache of 256 KiB. */
static const clprune__tuning cpu_avx2 = {
    .source = "cpu-avx2",
    .gemm = {.accumulators = 6,
        .tile_vectors = 1,
        .panel_depth = 256,
        .block_rows = 96,
        .packed_depth = 256,
        .packed_rows = 96,
        .packed_accumulators = 6,
        .groups_per_unit = 6},
    .gemm_bf16 = {.accumulators = 6,
        .tile_vectors = 1,
        .panel_depth = 256,
        .block_rows = 96,
        .groups_per_unit = 6},
    .bspmm_tn = {.accumulators = 6,
        .tile_columns = 6,
        .long_list_columns = 6,
        .long_list = 28,
        .panel_bytes = 20 << 10,
        .results_bytes = 128 << 10,
        .ahead = 32,
        .segment_rows = 256,
        .groups = 8},
    .bspmm_tn_bf16 = {.accumulators = 6,
        .tile_columns = 3,
        .panel_bytes = 20 << 10,
        .results_bytes = 128 << 10,
        .segment_rows = 256,
        .groups = 8},
    .bspmm_nt = {.accumulators = 6,
        .tile_rows = 6,
        .chunk_columns = 32,
        .ahead = 16,
        .segment_rows = 256,
        .groups = 16},
    .bspmm_nt_bf16 =
        {.accumulators = 6, .tile_rows = 3, .chunk_columns = 64, .segment_rows = 256, .groups = 16},
    CPU_COMMON,
};

/* Measured on Zen 5 (48 KiB and 1 MiB of caches). */
static clprune__tuning cpu_avx512_amd(void)
{
    clprune__tuning row = cpu_avx512;
    (void)snprintf(row.source, sizeof row.source, "cpu-avx512-amd");
    row.gemm.groups_per_unit = 4;
    row.bspmm_tn.long_list_columns = 8;
    row.bspmm_tn.long_list = 40;
    row.bspmm_tn.results_bytes = 1280 << 10;
    row.bspmm_tn.ahead = 64;
    return row;
}

/* The vector kernels keep the values of cpu-avx512. */
static clprune__tuning gpu_row(void)
{
    clprune__tuning row = cpu_avx512;
    (void)snprintf(row.source, sizeof row.source, "gpu");
    row.clblast.inner_run = 0;
    return row;
}

/* The next two are from what compilers report (tools/kernel-report.sh), not measured.
 *
 * AMD: of 64 KiB of local memory, segments half as long leave room for three groups instead of one;
 * with half of the columns, registers do too. */
static clprune__tuning gpu_amd_row(void)
{
    clprune__tuning row = gpu_row();
    (void)snprintf(row.source, sizeof row.source, "gpu-amd");
    row.tiled_tn.tile_columns = 8;
    row.tiled_tn.segment_rows = 16;
    row.tiled_nt.tile_columns = 8;
    row.tiled_nt.segment_rows = 8;
    return row;
}

/* Intel: 128 registers of 32 bytes for 8 work-items or more; larger tiles go to memory. */
static clprune__tuning gpu_intel_row(void)
{
    clprune__tuning row = gpu_row();
    (void)snprintf(row.source, sizeof row.source, "gpu-intel");
    row.gemm_tiled.rows = 4;
    row.tiled_tn.tile_columns = 8;
    row.tiled_nt.tile_columns = 8;
    return row;
}

static clprune__tuning_row row_of(const clprune_context *context)
{
    const char *vendor = context->facts.vendor;
    if (context->is_cpu)
        return CLPRUNE__ROW_AUTO;
    if (strstr(vendor, "Advanced Micro Devices") != NULL || strstr(vendor, "AMD") != NULL)
        return CLPRUNE__ROW_GPU_AMD;
    return strstr(vendor, "Intel") != NULL ? CLPRUNE__ROW_GPU_INTEL : CLPRUNE__ROW_GPU;
}

static clprune__tuning cpu_row(const clprune_context *context)
{
    if (context->facts.vector_width < 16)
        return cpu_avx2;
    return strstr(context->facts.vendor, "AMD") != NULL ? cpu_avx512_amd() : cpu_avx512;
}

clprune_status clprune__tuning_open(
    clprune_context *context, clprune__tuning_row row, clprune__tuning *tuning)
{
    const char *path = getenv("CLPRUNE_TUNING");
    switch (row == CLPRUNE__ROW_AUTO ? row_of(context) : row) {
    case CLPRUNE__ROW_GPU:
        *tuning = gpu_row();
        break;
    case CLPRUNE__ROW_GPU_AMD:
        *tuning = gpu_amd_row();
        break;
    case CLPRUNE__ROW_GPU_INTEL:
        *tuning = gpu_intel_row();
        break;
    case CLPRUNE__ROW_CPU_AVX2:
        *tuning = cpu_avx2;
        break;
    case CLPRUNE__ROW_AUTO:
        *tuning = cpu_row(context);
    }
    if (path != NULL && path[0] != '\0')
        TRY(clprune__tuning_read(context, path, tuning));
    return CLPRUNE_SUCCESS;
}
