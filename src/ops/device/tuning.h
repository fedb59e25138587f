/* Tuned parameters are data: a row of numbers, chosen once per context by its device, and
 * overridden by the row for that device in the file $CLPRUNE_TUNING. clprune-tune finds them.
 *
 * The file is text, a "key = value" on each line; # begins a comment line. A row is the lines from
 * one "device" to the next; rows for other devices are skipped. Any parameter may be left out, but
 * a CLBlast kernel that the built-in row does not set needs all of its parameters or none. Unknown
 * keys are errors. The last line, "end", shows that the file is complete.
 *
 *     clprune_tuning = 1
 *     device = name
 *     driver = version
 *     gemm.panel_depth = 256
 *     clblast.Xgemm.KWG = 16
 *     # gemm: 1.07 times as fast as the built-in row
 *     end
 *
 * A new parameter is a field here, a line in tuning_table.c with its legal range, and a value in
 * each built-in row of tuning.c. */
#ifndef CLPRUNE_OPS_TUNING_H
#define CLPRUNE_OPS_TUNING_H

#include <stdbool.h>

#include "clprune/context.h"

enum { CLPRUNE__BLAST_KERNELS = 5, CLPRUNE__BLAST_PARAMETERS = 28, CLPRUNE__BLAST_MOST = 16 };

/* A register tile has at most `accumulators` of 16 floats, so that registers remain for the
 * operands. groups_per_unit: groups that keep a compute unit busy to the end. groups: wanted of a
 * whole product; if panels are fewer, the batch is split, and each group sums a part of it. It does
 * not depend on the device, so that a CPU gives the same bits with any number of compute units. */
typedef struct clprune__tuning {
    char source[4096]; /* the name of the built-in row, or the file: PATH_MAX */

    /* gemm_vector.cl. A tile is tile_vectors wide, less for few columns, and as high as
     * accumulators allow. panel_depth: deep panels update c less often, although they leave the
     * first-level cache. panel_depth x block_rows floats of op(a) fit the second-level cache beside
     * the panel. A transposed a is packed, and has packed_depth, packed_rows and
     * packed_accumulators instead. */
    struct {
        uint32_t accumulators, tile_vectors, panel_depth, block_rows, packed_depth, packed_rows,
            packed_accumulators, groups_per_unit;
    } gemm;

    /* gemm_bf16_vector.cl, likewise: op(a) is packed in either case. panel_depth: a multiple of 32.
     */
    struct {
        uint32_t accumulators, tile_vectors, panel_depth, block_rows, groups_per_unit;
    } gemm_bf16;

    /* bspmm_tn_vector.cl. Tiles have long_list_columns if the lists of a segment's columns have
     * long_list entries or more, else tile_columns. panel_bytes: of dy in the first-level cache,
     * with room left for values and results. Panels with up to results_bytes of results share a
     * pass over the values. ahead: rows between the prefetch of a value and its use. */
    struct {
        uint32_t accumulators, tile_columns, long_list_columns, long_list, panel_bytes,
            results_bytes, ahead, segment_rows, groups;
    } bspmm_tn;

    /* bspmm_tn_bf16_vector.cl, likewise. */
    struct {
        uint32_t accumulators, tile_columns, panel_bytes, results_bytes, segment_rows, groups;
    } bspmm_tn_bf16;

    /* bspmm_nt_vector.cl. chunk_columns of dy are held transposed at a time; ahead: rows between
     * the prefetch of their values and their use. accumulators, ahead and segment_rows are also
     * those of nn in fp32 and bf16. */
    struct {
        uint32_t accumulators, tile_rows, chunk_columns, ahead, segment_rows, groups;
    } bspmm_nt;

    /* bspmm_nt_bf16_vector.cl, likewise. chunk_columns: a multiple of 32. */
    struct {
        uint32_t accumulators, tile_rows, chunk_columns, segment_rows, groups;
    } bspmm_nt_bf16;

    /* gemm_tiled.cl, conv_tiled.cl and conv_dw_tiled.cl. rows: of a work-item's results, which have
     * 8 columns. */
    struct {
        uint32_t rows;
    } gemm_tiled;

    /* bspmm_tn_tiled.cl and bspmm_nt_tiled.cl. panel: outputs of a group. */
    struct {
        uint32_t panel, tile_columns, segment_rows, groups_per_unit;
    } tiled_tn;
    struct {
        uint32_t panel, tile_columns, segment_rows, groups_per_unit;
    } tiled_nt;

    /* bspmm_tn_mma.cl and bspmm_nt_mma.cl, likewise; tile_columns: a multiple of a matrix's 8. */
    struct {
        uint32_t panel, tile_columns, segment_rows, groups_per_unit;
    } mma_tn;
    struct {
        uint32_t panel, segment_rows, groups_per_unit;
    } mma_nt;

    /* inner_run: the inner size is cut into runs of this length; 0: not cut. */
    struct {
        uint32_t inner_run;
    } clblast;
    uint32_t blast[CLPRUNE__BLAST_PARAMETERS]; /* in the order of the table */
    bool blast_set[CLPRUNE__BLAST_KERNELS];    /* false: CLBlast's own default serves */
} clprune__tuning;

/* A parameter of the table; every one is a uint32_t. */
typedef struct clprune__tuning_entry {
    const char *section, *key;
    size_t offset; /* in clprune__tuning */
    uint32_t least, most, multiple;
    int blast; /* the number of its CLBlast kernel, or -1 */
} clprune__tuning_entry;

const clprune__tuning_entry *clprune__tuning_entries(size_t *count);
uint32_t *clprune__tuning_value(clprune__tuning *tuning, const clprune__tuning_entry *entry);

/* Returns a text if parameters, each in its range, conflict with each other or the device; else
 * NULL. */
const char *clprune__tuning_conflict(const clprune_context *context, const clprune__tuning *tuning);

/* Which built-in row: that of the context's device, or of a kind of device on any. */
typedef enum clprune__tuning_row {
    CLPRUNE__ROW_AUTO,
    CLPRUNE__ROW_GPU,
    CLPRUNE__ROW_GPU_AMD,
    CLPRUNE__ROW_GPU_INTEL,
    CLPRUNE__ROW_CPU_AVX2
} clprune__tuning_row;

/* The built-in row, overridden by $CLPRUNE_TUNING. Errors: INVALID_ARGUMENT (the file). */
clprune_status clprune__tuning_open(
    clprune_context *context, clprune__tuning_row row, clprune__tuning *tuning);

/* Overrides *tuning with the row for the context's device in a file, if there is one. */
clprune_status clprune__tuning_read(
    clprune_context *context, const char *path, clprune__tuning *tuning);

/* The parameters of one CLBlast kernel, for CLBlastOverrideParameters. */
typedef struct clprune__blast_tuning {
    const char *kernel;
    size_t count; /* 0: CLBlast's own default serves */
    const char *names[CLPRUNE__BLAST_MOST];
    size_t values[CLPRUNE__BLAST_MOST];
} clprune__blast_tuning;

clprune__blast_tuning clprune__tuning_blast(const clprune__tuning *tuning, int kernel);

#endif
