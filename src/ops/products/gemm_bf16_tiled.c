/* Dense products on tensor cores, of operands of bf16: gemm_bf16_tiled.cl. */
#include "core/checked.h"
#include "ops/device/mma.h"
#include "ops/device/ops_state.h"
#include "ops/products/gemm_private.h"
#include "runtime/context/context_private.h"
#include "runtime/context/fail.h"
#include "runtime/memory/scratch.h"

/* bf16_tile.clh: tiles of 128 x 128 or 128 x 64, three stages of them, copied in chunks of 8
 * elements. */
enum { ROWS = 128, COLS = 128, NARROW_COLS = 64, LOCAL = 256, DEPTH = 32, STAGES = 3, CHUNK = 8 };

/* Operands of floats are converted where that takes less time than it saves: in products of at
 * least this many operations, and operands of which each element takes part in at least as many
 * sums. Emulated tensor cores convert always, for tests. */
static const double least_work = 1 << 30;
enum { LEAST_SUMS = 256 };

clprune__gemm_tile clprune__gemm_bf16_tile(const clprune_context *context, size_t m, size_t n)
{
    const size_t groups = clprune__ceil_div(m, ROWS) * clprune__ceil_div(n, COLS);
    const bool narrow = clprune__round_up(n, NARROW_COLS) < clprune__round_up(n, COLS) ||
                        groups < context->facts.compute_units;
    return (clprune__gemm_tile){
        ROWS, narrow ? NARROW_COLS : COLS, LOCAL, DEPTH, .mma = true, .resident = 2};
}

void clprune__gemm_bf16_tile_defines(
    const clprune_context *context, const clprune__gemm_tile *tile, clprune__defines *defines)
{
    clprune__mma_defines(context, tile->cols / 32, 4, defines);
}

bool clprune__gemm_is_bf16_tiled(const clprune__gemm_job *job)
{
    return job->a.type == CLPRUNE_VALUES_BF16 && job->quantised_b == NULL &&
           job->b.type == CLPRUNE_VALUES_BF16;
}

/* Samples of an operand, as a matrix that the kernel reads as it is. padded: its rows end with
 * zeros for a whole chunk. */
static bool reads(clprune_mat mat, size_t stride, bool padded)
{
    return mat.type == CLPRUNE_VALUES_BF16 && mat.offset % CHUNK == 0 && mat.ld % CHUNK == 0 &&
           (padded || mat.cols % CHUNK == 0) && stride % CHUNK == 0;
}

/* Whether samples of floats can be rounded to bf16 in one go, and are worth it: each element is in
 * `sums` sums of a sample. */
static bool converts(
    const clprune_context *context, clprune_mat mat, size_t batch, size_t stride, size_t sums)
{
    return mat.type == CLPRUNE_VALUES_FP32 && (sums >= LEAST_SUMS || context->ops->mma_emulated) &&
           (batch == 1 || stride == 0 || stride == mat.rows * mat.ld);
}

/* A matrix of bf16 in scratch, as codes, whose rows take whole units. */
static clprune_status take_bf16(
    clprune_context *context, size_t rows, size_t cols, clprune__quantised *q)
{
    const clprune__quantised_desc desc = {.rows = rows, .cols = cols, .bits = 16};
    clprune_mat words;
    size_t count;
    TRY(clprune__quantised_words(context, &desc, &count));
    TRY(clprune__scratch_mat(context, 1, count, &words));
    *q = clprune__quantised_of(&desc, words.buffer, words.offset);
    return CLPRUNE_SUCCESS;
}

clprune_status clprune__scratch_bf16(
    clprune_context *context, size_t rows, size_t cols, clprune_mat *mat)
{
    clprune__quantised q;
    TRY(take_bf16(context, rows, cols, &q));
    *mat = clprune__quantised_pairs(&q);
    return CLPRUNE_SUCCESS;
}

/* Rounds an operand to bf16 in scratch, unless it is of bf16. */
static clprune_status narrow(
    clprune_context *context, size_t batch, clprune_mat *mat, size_t *stride)
{
    if (mat->type == CLPRUNE_VALUES_BF16)
        return CLPRUNE_SUCCESS;
    const size_t rows = mat->rows, samples = *stride == 0 ? 1 : batch;
    const clprune_mat all = {
        mat->buffer, mat->offset, samples * rows, mat->cols, mat->ld, CLPRUNE_VALUES_FP32};
    clprune__quantised q;
    TRY(take_bf16(context, all.rows, all.cols, &q));
    TRY(clprune__quantise(context, NULL, 1, 0, all, &q, NULL));
    *mat = clprune_mat_rows(clprune__quantised_pairs(&q), 0, rows);
    *stride = *stride == 0 ? 0 : rows * mat->ld;
    return CLPRUNE_SUCCESS;
}

/* The matrix of a quantised b of 16 bits; CLPRUNE_NO_MAT of codes. */
static clprune_mat bf16_b(const clprune__gemm_job *job, size_t *stride)
{
    const clprune__quantised *q = job->quantised_b;
    clprune_mat all = clprune__quantised_mat(q);
    *stride = job->stride_b * all.ld;
    return clprune__is_absent(all) ? all : clprune_mat_rows(all, 0, q->desc.rows / job->batch);
}

bool clprune__gemm_takes_bf16(
    const clprune_context *context, size_t m, size_t n, size_t k, bool as_it_is)
{
    const size_t least = STAGES * DEPTH * (ROWS + COLS) * sizeof(uint16_t);
    const double work = 2.0 * (double)m * (double)n * (double)k;
    return context->ops->precision == CLPRUNE_PRECISION_BF16 &&
           clprune__gemm_tile_of(context).mma && context->facts.local_memory >= least &&
           k <= 1u << 30 && (as_it_is || work >= least_work || context->ops->mma_emulated);
}

clprune_status clprune__gemm_narrow(clprune_context *context, clprune__gemm_job *job)
{
    clprune_mat a = job->a, b = job->b;
    size_t stride_a = job->stride_a, stride_b = job->stride_b;
    if (job->quantised_b != NULL)
        b = bf16_b(job, &stride_b);
    if (clprune__is_absent(b)) /* codes, which gemm_tiled.cl reads */
        return CLPRUNE_SUCCESS;
    const bool reads_a = reads(a, stride_a, job->padded_a), reads_b = reads(b, stride_b, false);
    if (!clprune__gemm_takes_bf16(context, job->m, job->n, job->k, reads_a && reads_b) ||
        !(reads_a || converts(context, a, job->batch, stride_a, job->n)) ||
        !(reads_b || converts(context, b, job->batch, stride_b, job->m)))
        return CLPRUNE_SUCCESS;
    TRY(narrow(context, job->batch, &a, &stride_a));
    TRY(narrow(context, job->batch, &b, &stride_b));
    job->quantised_b = NULL;
    job->a = a, job->b = b;
    job->stride_a = stride_a, job->stride_b = stride_b;
    return CLPRUNE_SUCCESS;
}

clprune_status clprune__gemm_to_bf16(clprune_context *context, clprune_mat *mat)
{
    size_t stride = 0;
    return narrow(context, 1, mat, &stride);
}

bool clprune__gemm_rounds(const clprune_context *context, size_t rows, size_t cols, size_t sums)
{
    return (sums >= LEAST_SUMS || context->ops->mma_emulated) &&
           clprune__gemm_takes_bf16(context, rows, sums, cols, false);
}

clprune_status clprune__gemm_round(
    clprune_context *context, clprune_mat dy, size_t cols, clprune_mat *rounded)
{
    *rounded = dy;
    if (dy.cols % CHUNK != 0 || dy.type != CLPRUNE_VALUES_FP32 ||
        !clprune__gemm_rounds(context, dy.rows, dy.cols, cols))
        return CLPRUNE_SUCCESS;
    return clprune__gemm_to_bf16(context, rounded);
}
