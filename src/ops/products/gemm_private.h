/* The engines behind clprune_gemm. All take checked operands without a size of zero. */
#ifndef CLPRUNE_OPS_GEMM_PRIVATE_H
#define CLPRUNE_OPS_GEMM_PRIVATE_H

#include <stdbool.h>

#include "ops/codes/quantise_private.h"
#include "ops/device/ops_state.h"
#include "ops/device/switches.h"
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
 * same bits as those of clprune_prune_score. */
typedef struct clprune__gemm_scores {
    clprune__region to; /* buffer NULL: none are wanted */
    size_t width;
    clprune_norm norm;
} clprune__gemm_scores;

/* `batch` products; operands of sample i start i * stride elements after those of sample 0. */
typedef struct clprune__gemm_job {
    size_t batch, m, n, k;
    bool of_samples; /* of samples: the engine must not depend on `batch` */
    bool transpose_a, transpose_b;
    float alpha, beta;
    clprune_mat a, b, c;
    size_t stride_a, stride_b, stride_c;
    const clprune__quantised *quantised_b; /* NULL, or b: samples one below the other */
    clprune__gemm_bias bias;
    clprune_mat bias_values; /* 1 x n or 1 x m */
    clprune__gemm_scores scores;
} clprune__gemm_job;

/* As clprune_gemm_batched; fills in m, n and k. A bias and scores are fused if the engine can.
 * Otherwise bias is CLPRUNE__NO_BIAS or scores.to.buffer NULL on return, and the caller must add or
 * compute them. */
clprune_status clprune__gemm(clprune_context *context, clprune__gemm_job *job, cl_event *event);

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

/* c = beta * c, the result of a product whose sum is empty. beta 0 does not read c. */
clprune_status clprune__scale(clprune_context *context, float beta, clprune_mat c, cl_event *event);

/* CLBlast, one product a sample: the engine of GPUs for single products. */
clprune_status clprune__gemm_blast(
    clprune_context *context, const clprune__gemm_job *job, cl_event *event);

/* Releases what CLBlast holds for a context whose commands have finished. */
void clprune__gemm_blast_close(clprune_context *context);

/* gemm_tiled.cl, a launch for up to 65535 samples: the engine of GPUs for products of samples. */
clprune_status clprune__gemm_tiled(
    clprune_context *context, const clprune__gemm_job *job, cl_event *event);

/* Whether the device allows the work-groups of gemm_tiled.cl, 64 work-items. */
bool clprune__gemm_tiled_fits(const clprune_context *context);

/* gemm_vector.cl, one launch for the batch: the engine of CPUs. It scores blocks that do not cross
 * a depth of its panels; otherwise it sets job->scores.to.buffer to NULL. */
clprune_status clprune__gemm_vector(
    clprune_context *context, clprune__gemm_job *job, cl_event *event);

/* The last parameters of our own kernels: factors, operands with their strides, and a bias. */
void clprune__arg_gemm(clprune__launch *launch, const clprune__gemm_job *job);

/* The rows of a panel of `width` floats in local memory: `most`, halved until the panel and 1 KiB
 * for the compiler fit. Few values, so that few programs are built. */
size_t clprune__panel_rows(const clprune_context *context, size_t most, size_t width);

#endif
