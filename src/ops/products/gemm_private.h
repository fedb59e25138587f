/* Dense products, and the engines behind them, which take checked operands without a size of
 * zero. */
#ifndef CLPRUNE_OPS_GEMM_PRIVATE_H
#define CLPRUNE_OPS_GEMM_PRIVATE_H

#include <stdbool.h>

#include "ops/codes/quantise_private.h"
#include "ops/device/ops_state.h"
#include "ops/device/switches.h"
#include "ops/products/gemm_tile.h"
#include "ops/prune/prune_private.h"
#include "runtime/launch/launch.h"

/* The bias of a product: none, a value for each column of c, or a value for each row of a
 * sample. */
typedef enum clprune__gemm_bias {
    CLPRUNE__NO_BIAS,
    CLPRUNE__BIAS_OF_COLUMNS,
    CLPRUNE__BIAS_OF_ROWS
} clprune__gemm_bias;

/* Norms of the 1 x `width` blocks of a's rows: block i of row r at r * ceil(k / width) + i, the
 * same bits as those of clprune__prune_score. */
typedef struct clprune__gemm_scores {
    clprune__region to; /* buffer NULL: none are wanted */
    size_t width;
    clprune_norm norm;
} clprune__gemm_scores;

/* `batch` products; operands of sample i start i * stride elements after those of sample 0. */
typedef struct clprune__gemm_job {
    size_t batch, m, n, k;
    size_t k_last;   /* of gemm_tiled's parts of a sum: the last one's inner size; 0: k */
    bool of_samples; /* of samples: the engine must not depend on `batch` */
    bool transpose_a, transpose_b;
    bool padded_a; /* a of bf16: its rows have zeros up to the next multiple of 16 columns */
    float alpha, beta;
    clprune_mat a, b, c;
    size_t stride_a, stride_b, stride_c;
    const clprune__quantised *quantised_b; /* NULL, or b: samples one below the other */
    clprune__quantised codes_b;            /* that of a b of bf16 or codes; set by settle */
    clprune__gemm_bias bias;
    clprune_mat bias_values; /* 1 x n or 1 x m */
    clprune__gemm_scores scores;
} clprune__gemm_job;

/* Floor: gemm_shape.c and mat_scale.c. */

/* Checks the sizes of a, b and c, and their types (bf16_a, bf16: whether a, and c with beta 0, may
 * be of bf16), and fills in m, n, k and the stride of a quantised b, which a b of bf16 or codes
 * becomes. */
clprune_status clprune__gemm_settle(
    clprune_context *context, clprune__gemm_job *job, bool bf16_a, bool bf16);

/* Fails unless all samples of a settled job, none of whose sizes is 0, lie in their buffers, and
 * those of c apart from each other and from a and b. */
clprune_status clprune__gemm_check_samples(clprune_context *context, const clprune__gemm_job *job);

/* What a job is to do: clprune_plan_command. */
clprune_plan_work clprune__gemm_work(const clprune_context *context, const clprune__gemm_job *job);

/* Parameters of our own kernels: factors, and operands with their strides. */
void clprune__arg_gemm(clprune__launch *launch, const clprune__gemm_job *job);

/* The rows of a panel of `width` floats in local memory: `most`, halved until the panel and 1 KiB
 * for the compiler fit. Few values, so that few programs are built. */
size_t clprune__panel_rows(const clprune_context *context, size_t most, size_t width);

/* sample_sum.c: dw = sum of `samples` products, rows of `products`, + beta * dw. */
clprune_status clprune__sample_sum(clprune_context *context, float beta, size_t samples,
    clprune_mat products, clprune_mat dw, cl_event *event);

/* c = beta * c, the result of a product whose sum is empty. beta 0 does not read c. */
clprune_status clprune__scale(clprune_context *context, float beta, clprune_mat c, cl_event *event);

/* Floor of the kernels for CPUs: gemm_panels.c. */

/* How a product is cut: register tiles of tile_rows x vectors of 16; groups of most_rows rows;
 * `depth` of the inner size at a time, at most most_depth. */
typedef struct clprune__gemm_panels {
    size_t vectors, tile_rows, most_rows, most_depth, depth, groups_per_unit;
} clprune__gemm_panels;

/* The width of tiles: `most` vectors, fewer where most of a tile would be padding. */
size_t clprune__gemm_tile_vectors(size_t most, size_t n);

/* The rows of op(a) that a group multiplies with a panel: whole tiles and, if asked for, whole
 * vectors of 16. */
size_t clprune__gemm_block_rows(size_t most, size_t tile_rows, bool whole_vectors);

/* Sets the kernel's other defines and arguments, and enqueues it. If the kernel cannot score
 * blocks, job->scores.to.buffer becomes NULL. */
clprune_status clprune__gemm_enqueue_panels(clprune_context *context,
    const clprune__kernel_def *kernel, const clprune__gemm_panels *plan, clprune__defines *defines,
    clprune__gemm_job *job, cl_event *event);

/* The engines. */

/* gemm_vector.cl, one launch for the batch: the engine of CPUs. It scores blocks that do not cross
 * a depth of its panels; otherwise it sets job->scores.to.buffer to NULL. */
clprune_status clprune__gemm_vector(
    clprune_context *context, clprune__gemm_job *job, cl_event *event);

/* gemm_bf16_vector.cl, likewise: operands are rounded to bf16. */
clprune_status clprune__gemm_bf16(
    clprune_context *context, clprune__gemm_job *job, cl_event *event);

/* Whether it makes each sum in one go, as a c of bf16 needs. */
bool clprune__gemm_bf16_at_once(const clprune_context *context, const clprune__gemm_job *job);

/* gemm_tiled.cl or gemm_bf16_tiled.cl, a launch for up to 65535 samples: the engine of GPUs for
 * products of samples, and on tensor cores for all. It may change the job's operands to others of
 * the same values in bf16. */
clprune_status clprune__gemm_tiled(
    clprune_context *context, clprune__gemm_job *job, cl_event *event);

/* gemm_bf16_tiled.c: on tensor cores, in bf16. Makes both operands of a job matrices of bf16 that
 * its kernel reads, in scratch where they lie otherwise. No-op where that cannot be, or is not
 * worth it. */
clprune_status clprune__gemm_narrow(clprune_context *context, clprune__gemm_job *job);

/* Whether products of m x n sums of k terms are on tensor cores, in bf16, from operands that lie
 * so, or (not as_it_is) are worth their conversion; always where tensor cores are emulated. */
bool clprune__gemm_takes_bf16(
    const clprune_context *context, size_t m, size_t n, size_t k, bool as_it_is);

/* Rounds a matrix to bf16 in the caller's scratch, unless it is of bf16. */
clprune_status clprune__gemm_to_bf16(clprune_context *context, clprune_mat *mat);

/* A matrix of bf16 in the caller's scratch, whose rows take multiples of 16 elements. */
clprune_status clprune__scratch_bf16(
    clprune_context *context, size_t rows, size_t cols, clprune_mat *mat);

/* Whether a rows x cols operand of floats, each of which is in so many sums, would be rounded by
 * its product. */
bool clprune__gemm_rounds(const clprune_context *context, size_t rows, size_t cols, size_t sums);

/* *rounded = dy in bf16, in the caller's scratch, where the products dy * w and dy^T * x, w:
 * dy.cols x `cols`, would each round it; else dy. The context reads bf16
 * (clprune__gemm_reads_bf16). */
clprune_status clprune__gemm_round(
    clprune_context *context, clprune_mat dy, size_t cols, clprune_mat *rounded);

/* Whether a job's operands are such matrices. */
bool clprune__gemm_is_bf16_tiled(const clprune__gemm_job *job);

/* The tile for such a product, m x n, and the defines that choose it. */
clprune__gemm_tile clprune__gemm_bf16_tile(const clprune_context *context, size_t m, size_t n);
void clprune__gemm_bf16_tile_defines(
    const clprune_context *context, const clprune__gemm_tile *tile, clprune__defines *defines);

/* Whether the library was built with CLBlast (CLPRUNE_CLBLAST); without it nothing chooses it. */
extern const bool clprune__gemm_blast_built;

/* CLBlast, one product a sample: the engine of GPUs for single products. */
clprune_status clprune__gemm_blast(
    clprune_context *context, const clprune__gemm_job *job, cl_event *event);

/* Bytes of a buffer that CLBlast's indices, which are ints, reach. */
#define CLPRUNE__BLAST_BYTES ((uint64_t)INT32_MAX * sizeof(float))

/* Whether they reach all elements. */
bool clprune__gemm_blast_reaches(const clprune_context *context, const clprune__gemm_job *job);

/* Releases what CLBlast holds for a context whose commands have finished. */
void clprune__gemm_blast_close(clprune_context *context);

/* Roof: gemm.c, gemm_sum.c and quantised_product.c. */

/* As clprune_gemm_batched; settles the job. A bias and scores are fused if the engine can.
 * Otherwise bias is CLPRUNE__NO_BIAS or scores.to.buffer NULL on return, and the caller must add or
 * compute them. */
clprune_status clprune__gemm(clprune_context *context, clprune__gemm_job *job, cl_event *event);

/* As clprune_gemm and clprune_gemm_batched. */
clprune_status clprune__gemm_single(clprune_context *context, bool transpose_a, bool transpose_b,
    float alpha, float beta, clprune_mat a, clprune_mat b, clprune_mat c, cl_event *event);
clprune_status clprune__gemm_batched(clprune_context *context, size_t batch, bool transpose_a,
    bool transpose_b, float alpha, float beta, clprune_mat a, size_t stride_a, clprune_mat b,
    size_t stride_b, clprune_mat c, size_t stride_c, cl_event *event);

/* Whether a, unless it is transposed on CPUs, and c with beta 0 may be of bf16: products that round
 * their operands to it. Its b is a quantised one of 16 bits. */
bool clprune__gemm_reads_bf16(const clprune_context *context);

/* Whether dy may be of bf16 in dy * w and dy^T * x: on tensor cores. */
bool clprune__gemm_reads_bf16_dy(const clprune_context *context);

/* The engine of a context: the switch, else that of its kernel family. */
clprune__gemm_engine clprune__gemm_choose(
    const clprune_context *context, clprune__gemm_switch choice);

/* Whether the engine fuses a bias, of either kind. of_samples: as in clprune__gemm_job. */
bool clprune__gemm_fuses_bias(const clprune_context *context, bool of_samples);

/* dw = sum over the samples of dy_n * x_n^T + beta * dw, in their order. dy: (batch * o) x d; x:
 * (batch * p) x d, or q in its place if q is not NULL; dw: o x p. Takes at most 8 MiB of scratch,
 * for the products of several samples. */
clprune_status clprune__gemm_sum_nt(clprune_context *context, size_t batch, float beta,
    clprune_mat dy, clprune_mat x, const clprune__quantised *q, clprune_mat dw, cl_event *event);

/* dw = dy^T * q + beta * dw. dy: rows x o; dw: o x cols. On CPUs, where our own kernels multiply,
 * the bits are those of clprune_gemm with the dequantised matrix. Of a rotated q, x = q R^T takes
 * its place, and dw is rotated in place. */
clprune_status clprune__quantised_tn(clprune_context *context, float beta, clprune_mat dy,
    const clprune__quantised *q, clprune_mat dw, cl_event *event);

/* dw = sum over the samples of dy_n * q_n^T + beta * dw. dy: (batch * o) x cols; dw: o x p; q has
 * batch * p rows and is not rotated. */
clprune_status clprune__quantised_nt(clprune_context *context, size_t batch, float beta,
    clprune_mat dy, const clprune__quantised *q, clprune_mat dw, cl_event *event);

#endif
