/* bench.h: the parts of clprune-bench: operations, cases, measurement, peer, peak, report. */
#ifndef CLPRUNE_BENCH_H
#define CLPRUNE_BENCH_H

#include <clprune/clprune.h>

#include "tool.h"

enum { MAX_LIST = 64, MAX_REPETITIONS = 1000 };

/* Values of a numeric option: a list, a range or the default. */
typedef struct bench_list {
    double values[MAX_LIST];
    int count; /* 0: the option was not given */
} bench_list;

/* The numeric options; a case takes one value of each that its operation uses. */
typedef enum bench_axis {
    AXIS_BATCH,
    AXIS_TOKENS, /* by --tokens, or by --rows as rows / batch */
    AXIS_IN,
    AXIS_OUT,
    AXIS_BLOCK,
    AXIS_SPARSITY,
    AXIS_IMAGE, /* of convolutions: pixels per side */
    AXIS_KERNEL,
    AXIS_STRIDE,
    AXES
} bench_axis;

/* Axes of operations, as in bench_op. */
enum {
    ROWS_AXES = 1u << AXIS_BATCH | 1u << AXIS_TOKENS,
    X_AXES = ROWS_AXES | 1u << AXIS_IN,
    PRODUCT_AXES = X_AXES | 1u << AXIS_OUT,
    BLOCK_AXES = 1u << AXIS_BLOCK | 1u << AXIS_SPARSITY
};

typedef struct bench_settings {
    char **ops; /* the operations named on the command line */
    int op_count;
    bench_list axes[AXES];
    bool by_rows;                /* axes[AXIS_TOKENS] holds totals of rows */
    const char *forms[MAX_LIST]; /* none: every form */
    int form_count;
    int repetitions;
    const char *device;
    clprune_precision precision; /* asked for */
    const char *output_dir;      /* of the figures */
    FILE *json;                  /* NULL: a table on stdout */
} bench_settings;

/* Fills *settings from the command line; ends the program on an error and on --help. */
void bench_options_parse(int argc, char **argv, bench_settings *settings);

typedef struct bench_shape {
    size_t batch, tokens; /* samples, rows of one */
    size_t in, out;
    size_t block; /* 1 x block */
    float sparsity;
    size_t image, kernel, stride; /* of convolutions */
} bench_shape;

/* The program's state: the device and what is known of it. */
typedef struct bench {
    clprune_context *context;
    const bench_settings *settings;
    char device[128];
    bool peers;         /* the device is a CPU, as the peers are */
    double peak_gflops; /* measured; NaN where it could not be */
} bench;

/* A matrix on the device and its copy on the host, where the peer works. */
typedef struct bench_tensor {
    clprune_mat mat;
    float *host;
} bench_tensor;

typedef struct bench_op bench_op;

/* One case with its operands. The peer reads the host copies. */
typedef struct bench_job {
    clprune_context *context;
    const bench_op *op;
    bench_shape shape;
    size_t rows; /* batch * tokens */
    bench_tensor x, w, b, y, t, dx, dy, dw, db, stored; /* stored: w, without a host copy */
    clprune_bsr xs; /* x pruned */
    clprune_linear *layer, *dense_layer;
    clprune_conv2d *conv;
    struct bench_conv_peer *conv_peer;
    clprune_saved *saved, *dense_saved;
    clprune_optimizer *optimizer;
    clprune_patch_embed_desc patch;
    clprune_ints labels;
    double kept;  /* fraction of the blocks that is multiplied */
    double flops; /* useful operations; 0: not a product */
    double bytes; /* least bytes to be read and written; 0: bound by compute */
} bench_job;

/* One operation in one form. The steps enqueue; the measurement waits. */
struct bench_op {
    const char *name;
    const char *form; /* NULL: the operation has one form */
    unsigned axes;    /* 1u << bench_axis of those it uses */
    void (*prepare)(bench_job *job);
    clprune_status (*ours)(bench_job *job);
    /* The same product, dense; for prune the forward product. */
    clprune_status (*dense)(bench_job *job);
    void (*peer)(bench_job *job); /* the same product by the peer, on the host */
    bool dense_is_forward;
    const char *(*peer_name)(void); /* NULL: bench_peer_name */
};

/* Tables, each ended by a name of NULL, and all operations in the order of `all`. */
enum { BENCH_TABLES = 7, BENCH_OPTIMIZERS = 32 };
extern const bench_op bench_products[], bench_forms[], bench_pruning[], bench_layers[],
    bench_images[], bench_convs[];
extern bench_op bench_optimizers[BENCH_OPTIMIZERS];
void bench_list_optimizers(void); /* fills the table of optimizers; first of all */
extern const bench_op *const bench_tables[BENCH_TABLES];
/* Whether an operation has this name (any has "all"), this form. */
bool bench_has_name(const bench_op *op, const char *name);
bool bench_has_form(const bench_op *op, const char *form);
/* The first operation of a name, or with "all" of any, that has a form (NULL: any); NULL: none. */
const bench_op *bench_op_find(const char *name, const char *form);

/* Sets job->kept from job->saved, if that keeps blocks. */
void bench_take_kept(bench_job *job);

/* For the `prepare` steps: a random matrix; x, dy and dw of the form tn or nt, and the operations
 * of their dense product; the pruned x. */
void bench_tensor_create(
    bench_job *job, const char *name, size_t rows, size_t cols, bench_tensor *tensor);
void bench_dw_create(bench_job *job);
void bench_prune_x(bench_job *job);

/* The name of the peer with its version, or NULL where the program was built without one. */
const char *bench_peer_name(void);
/* c = op(a) * op(b) + beta * c by the peer, all dense and row-major: M x K, K x N, M x N. */
void bench_peer_gemm(bool transpose_a, bool transpose_b, size_t m, size_t n, size_t k, float beta,
    const float *a, const float *b, float *c);
/* The dense product of the job's form by the peer: y = x w^T (nt), dx = dy w (nn), dw = dy^T x
 * (tn). */
void bench_peer_product(bench_job *job);
/* dw = sum_n dy_n * x_n^T of a job by the peer: one product a sample, added to the one before. */
void bench_peer_nt(bench_job *job);

/* The peer of convolutions, likewise: a convolution of channels-last images whose result, dx or dw
 * it computes from host copies of the job's tensors, with weights in a layout of its choice. */
typedef enum bench_conv_pass { BENCH_CONV_FORWARD, BENCH_CONV_DX, BENCH_CONV_DW } bench_conv_pass;
const char *bench_conv_peer_name(void);
struct bench_conv_peer *bench_conv_peer_create(const bench_job *job, bench_conv_pass pass,
    const clprune_conv2d_desc *desc, clprune_extent image, clprune_extent output);
void bench_conv_peer_run(struct bench_conv_peer *peer);
void bench_conv_peer_destroy(struct bench_conv_peer *peer);

/* Medians in milliseconds; NaN where there is nothing to run. */
typedef struct bench_result {
    const char *peer;           /* NULL: none */
    bench_shape shape;          /* zero, sparsity NaN, where the operation has no such axis */
    double ms, low_ms, high_ms; /* ours and its quartiles */
    double dense_ms, peer_ms;
    double kept, flops, bytes; /* of the job */
    int repetitions;
} bench_result;

/* Prepares, warms up, times and releases one case. */
bench_result bench_measure(const bench *b, const bench_op *op, const bench_shape *shape);
/* The rate of independent fused multiply-adds on the device in GFLOP/s, NaN where it fails. */
double bench_peak(clprune_context *context);

/* Writes one result: as a JSON object in one line; as settings->json says, an object or a table
 * row. */
void bench_report_json(
    FILE *stream, const bench *b, const bench_op *op, const bench_result *result);
void bench_report(const bench *b, const bench_op *op, const bench_result *result);

/* Makes settings->output_dir and opens the files in it; ends the program if one cannot be written.
 * Older files stay as they are until their figure begins. */
void bench_figures_open(const bench_settings *settings);
/* Then measures and draws Fig. 4 and Fig. 5 of arXiv 2311.16883 into them. */
void bench_figures(const bench *b);

#endif
