/* The table of parameters: names, places, legal ranges and conflicts. */
#include "core/checked.h"
#include "ops/device/tuning.h"
#include "runtime/context/context_private.h"

static const char *const blast_kernels[CLPRUNE__BLAST_KERNELS] = {
    "Xgemm", "GemmRoutine", "Transpose", "Padtranspose", "Pad"};

#define PARAMETER(section, key, least, most, multiple)                                             \
    {                                                                                              \
#section, #key, offsetof(clprune__tuning, section.key), least, most, multiple, -1          \
    }
#define BLAST(kernel, number, index, key, least, most)                                             \
    {                                                                                              \
        "clblast." kernel, key, offsetof(clprune__tuning, blast[index]), least, most, 1, number    \
    }

/* The ranges are what kernels and launches accept, not recommendations. */
static const clprune__tuning_entry entries[] = {
    PARAMETER(gemm, accumulators, 1, 64, 1),
    PARAMETER(gemm, tile_vectors, 1, 8, 1),
    PARAMETER(gemm, panel_depth, 1, 4096, 1),
    PARAMETER(gemm, block_rows, 1, 4096, 1),
    PARAMETER(gemm, packed_depth, 1, 4096, 1),
    PARAMETER(gemm, packed_rows, 1, 1024, 1),
    PARAMETER(gemm, packed_accumulators, 1, 64, 1),
    PARAMETER(gemm, groups_per_unit, 1, 256, 1),
    PARAMETER(gemm_bf16, accumulators, 1, 64, 1),
    PARAMETER(gemm_bf16, tile_vectors, 1, 8, 1),
    PARAMETER(gemm_bf16, panel_depth, 32, 4096, 32),
    PARAMETER(gemm_bf16, block_rows, 1, 4096, 1),
    PARAMETER(gemm_bf16, groups_per_unit, 1, 256, 1),
    PARAMETER(bspmm_tn, accumulators, 1, 64, 1),
    PARAMETER(bspmm_tn, tile_columns, 1, 64, 1),
    PARAMETER(bspmm_tn, long_list_columns, 1, 64, 1),
    PARAMETER(bspmm_tn, long_list, 1, 1 << 20, 1),
    PARAMETER(bspmm_tn, panel_bytes, 64, 1 << 24, 1),
    PARAMETER(bspmm_tn, results_bytes, 64, 1 << 28, 1),
    PARAMETER(bspmm_tn, ahead, 0, 1024, 1),
    PARAMETER(bspmm_tn, segment_rows, 1, 4096, 1),
    PARAMETER(bspmm_tn, groups, 1, 4096, 1),
    PARAMETER(bspmm_tn_bf16, accumulators, 2, 64, 2),
    PARAMETER(bspmm_tn_bf16, tile_columns, 1, 64, 1),
    PARAMETER(bspmm_tn_bf16, panel_bytes, 64, 1 << 24, 1),
    PARAMETER(bspmm_tn_bf16, results_bytes, 64, 1 << 28, 1),
    PARAMETER(bspmm_tn_bf16, segment_rows, 1, 4096, 1),
    PARAMETER(bspmm_tn_bf16, groups, 1, 4096, 1),
    PARAMETER(bspmm_nt, accumulators, 1, 64, 1),
    PARAMETER(bspmm_nt, tile_rows, 1, 64, 1),
    PARAMETER(bspmm_nt, chunk_columns, 1, 1024, 1),
    PARAMETER(bspmm_nt, ahead, 0, 1024, 1),
    PARAMETER(bspmm_nt, segment_rows, 1, 4096, 1),
    PARAMETER(bspmm_nt, groups, 1, 4096, 1),
    PARAMETER(bspmm_nt_bf16, accumulators, 1, 64, 1),
    PARAMETER(bspmm_nt_bf16, tile_rows, 1, 64, 1),
    PARAMETER(bspmm_nt_bf16, chunk_columns, 32, 1024, 32),
    PARAMETER(bspmm_nt_bf16, segment_rows, 1, 4096, 1),
    PARAMETER(bspmm_nt_bf16, groups, 1, 4096, 1),
    PARAMETER(gemm_tiled, rows, 4, 8, 4),
    PARAMETER(tiled_tn, panel, 16, 256, 16),
    PARAMETER(tiled_tn, tile_columns, 1, 16, 1),
    PARAMETER(tiled_tn, segment_rows, 1, 256, 1),
    PARAMETER(tiled_tn, groups_per_unit, 1, 256, 1),
    PARAMETER(tiled_nt, panel, 16, 256, 16),
    PARAMETER(tiled_nt, tile_columns, 1, 16, 1),
    PARAMETER(tiled_nt, segment_rows, 1, 256, 1),
    PARAMETER(tiled_nt, groups_per_unit, 1, 256, 1),
    PARAMETER(mma_tn, panel, 32, 128, 32),
    PARAMETER(mma_tn, tile_columns, 8, 32, 8),
    PARAMETER(mma_tn, segment_rows, 1, 4096, 1),
    PARAMETER(mma_tn, groups_per_unit, 1, 256, 1),
    PARAMETER(mma_nt, panel, 32, 128, 32),
    PARAMETER(mma_nt, segment_rows, 1, 4096, 1),
    PARAMETER(mma_nt, groups_per_unit, 1, 256, 1),
    PARAMETER(clblast, inner_run, 0, 1 << 20, 1),
    BLAST("Xgemm", 0, 0, "GEMMK", 0, 1),
    BLAST("Xgemm", 0, 1, "KREG", 1, 64),
    BLAST("Xgemm", 0, 2, "KWG", 1, 256),
    BLAST("Xgemm", 0, 3, "KWI", 1, 64),
    BLAST("Xgemm", 0, 4, "MDIMA", 1, 64),
    BLAST("Xgemm", 0, 5, "MDIMC", 1, 64),
    BLAST("Xgemm", 0, 6, "MWG", 1, 512),
    BLAST("Xgemm", 0, 7, "NDIMB", 1, 64),
    BLAST("Xgemm", 0, 8, "NDIMC", 1, 64),
    BLAST("Xgemm", 0, 9, "NWG", 1, 512),
    BLAST("Xgemm", 0, 10, "SA", 0, 1),
    BLAST("Xgemm", 0, 11, "SB", 0, 1),
    BLAST("Xgemm", 0, 12, "STRM", 0, 1),
    BLAST("Xgemm", 0, 13, "STRN", 0, 1),
    BLAST("Xgemm", 0, 14, "VWM", 1, 16),
    BLAST("Xgemm", 0, 15, "VWN", 1, 16),
    BLAST("GemmRoutine", 1, 16, "XGEMM_MIN_INDIRECT_SIZE", 1, 65536),
    BLAST("Transpose", 2, 17, "TRA_DIM", 1, 64),
    BLAST("Transpose", 2, 18, "TRA_PAD", 0, 1),
    BLAST("Transpose", 2, 19, "TRA_SHUFFLE", 0, 1),
    BLAST("Transpose", 2, 20, "TRA_WPT", 1, 16),
    BLAST("Padtranspose", 3, 21, "PADTRA_PAD", 0, 1),
    BLAST("Padtranspose", 3, 22, "PADTRA_TILE", 1, 64),
    BLAST("Padtranspose", 3, 23, "PADTRA_WPT", 1, 16),
    BLAST("Pad", 4, 24, "PAD_DIMX", 1, 256),
    BLAST("Pad", 4, 25, "PAD_DIMY", 1, 256),
    BLAST("Pad", 4, 26, "PAD_WPTX", 1, 16),
    BLAST("Pad", 4, 27, "PAD_WPTY", 1, 16),
};

const clprune__tuning_entry *clprune__tuning_entries(size_t *count)
{
    *count = sizeof entries / sizeof *entries;
    return entries;
}

uint32_t *clprune__tuning_value(clprune__tuning *tuning, const clprune__tuning_entry *entry)
{
    return (uint32_t *)((char *)tuning + entry->offset);
}

clprune__blast_tuning clprune__tuning_blast(const clprune__tuning *tuning, int kernel)
{
    clprune__blast_tuning row = {.kernel = blast_kernels[kernel]};
    for (size_t i = 0; i < sizeof entries / sizeof *entries; i++)
        if (entries[i].blast == kernel && tuning->blast_set[kernel]) {
            row.names[row.count] = entries[i].key;
            row.values[row.count++] = *(const uint32_t *)((const char *)tuning + entries[i].offset);
        }
    return row;
}

static bool is_power_of_two(uint32_t value)
{
    return value != 0 && (value & (value - 1)) == 0;
}

/* Returns which requirement of CLBlast's kernels the parameters break; NULL: none. */
static const char *xgemm_conflict(const uint32_t *v)
{
    enum {
        GEMMK,
        KREG,
        KWG,
        KWI,
        MDIMA,
        MDIMC,
        MWG,
        NDIMB,
        NDIMC,
        NWG,
        SA,
        SB,
        STRM,
        STRN,
        VWM,
        VWN
    };
    if (!is_power_of_two(v[VWM]) || !is_power_of_two(v[VWN]))
        return "clblast.Xgemm: VWM and VWN must be powers of two";
    if (v[MWG] % (v[MDIMC] * v[VWM]) != 0 || v[MWG] % (v[MDIMA] * v[VWM]) != 0)
        return "clblast.Xgemm: MDIMC * VWM and MDIMA * VWM must divide MWG";
    if (v[NWG] % (v[NDIMC] * v[VWN]) != 0 || v[NWG] % (v[NDIMB] * v[VWN]) != 0)
        return "clblast.Xgemm: NDIMC * VWN and NDIMB * VWN must divide NWG";
    if (v[KWG] % v[KWI] != 0)
        return "clblast.Xgemm: KWI must divide KWG";
    if (v[GEMMK] == 1 && (v[MDIMA] != v[MDIMC] || v[NDIMB] != v[NDIMC] || v[SA] + v[SB] != 0))
        return "clblast.Xgemm: GEMMK 1 needs MDIMA = MDIMC, NDIMB = NDIMC, SA = SB = 0";
    if (v[GEMMK] == 1 && (v[KREG] % v[VWN] != 0 || v[KWG] % v[KREG] != 0))
        return "clblast.Xgemm: GEMMK 1 needs KREG a multiple of VWN and a divisor of KWG";
    const uint32_t items = v[MDIMC] * v[NDIMC];
    if (v[GEMMK] == 0 && (items % v[MDIMA] != 0 || items % v[NDIMB] != 0 ||
                             v[KWG] % (items / v[MDIMA]) != 0 || v[KWG] % (items / v[NDIMB]) != 0))
        return "clblast.Xgemm: MDIMC * NDIMC / MDIMA and / NDIMB must be whole and divide KWG";
    return NULL;
}

const char *clprune__tuning_conflict(const clprune_context *context, const clprune__tuning *tuning)
{
    if (tuning->gemm.tile_vectors >
        clprune__min(tuning->gemm.accumulators, tuning->gemm.packed_accumulators))
        return "gemm: tile_vectors exceeds accumulators";
    if (clprune__max(tuning->bspmm_tn.tile_columns, tuning->bspmm_tn.long_list_columns) >
        tuning->bspmm_tn.accumulators)
        return "bspmm_tn: tile_columns or long_list_columns exceeds accumulators";
    if (tuning->bspmm_nt.tile_rows > tuning->bspmm_nt.accumulators)
        return "bspmm_nt: tile_rows exceeds accumulators";
    if (tuning->bspmm_nt_bf16.tile_rows > tuning->bspmm_nt_bf16.accumulators)
        return "bspmm_nt_bf16: tile_rows exceeds accumulators";
    if (context->kernels == CLPRUNE_KERNELS_TILED &&
        clprune__max(tuning->tiled_tn.panel, tuning->tiled_nt.panel) / 4 >
            context->facts.max_work_group)
        return "tiled_tn, tiled_nt: panel exceeds the device's largest work-group";
    return tuning->blast_set[0] ? xgemm_conflict(tuning->blast) : NULL;
}
