/* Products of convolutions on channels-last images: forward, dx, and dw from dense images, kept
 * blocks, pooled cells, means or codes. Callers have checked all operands; no size is zero. */
#ifndef CLPRUNE_OPS_CONV_PRIVATE_H
#define CLPRUNE_OPS_CONV_PRIVATE_H

#include "clprune/bsr.h"
#include "clprune/conv2d.h"
#include "ops/codes/quantise_private.h"
#include "ops/products/gemm_tile.h"
#include "ops/sparse/bspmm_private.h"
#include "runtime/launch/launch.h"

/* The sizes of a layer and its images: `batch` images of image.height x image.width with `in`
 * channels; results are output.height x output.width with `out` channels. */
typedef struct clprune__conv {
    size_t batch, in, out;
    clprune_extent image, output, kernel, stride, padding, dilation;
    size_t groups; /* 0 or 1: one */
} clprune__conv;

/* The largest side of an image, its padding, a stride and the reach of a kernel's taps. */
#define CLPRUNE__CONV_SIDE ((size_t)INT32_MAX / 4)

/* Floor: conv_shape.c. */

/* Whether no side, except that of the output, is above CLPRUNE__CONV_SIDE. */
bool clprune__conv_in_range(const clprune__conv *conv);

/* Fills in conv->output of sizes in range; false if the kernel is larger than the padded image. */
bool clprune__conv_settle(clprune__conv *conv);

/* Whether the layer is a matrix product of the rows of x: 1 x 1 taps, stride 1, no padding. */
bool clprune__conv_is_linear(const clprune__conv *conv);

/* The grid that dw is summed over: the cells of an image or, if a cell is a pixel (1), the result
 * pixels. */
clprune_extent clprune__conv_grid(const clprune__conv *conv, size_t cell);

/* One launch of an implicit product, to = product + beta * to: for each result pixel (u, v) of
 * grid.height x grid.width in each image, the sum over `taps` of the source pixel (u * step + first
 * + tap * tap_step) times weights. The result pixel is (u, v) * spread + shift of an image of
 * `result` pixels. Tap (i, j) has weights (weight_first + i * weight_step) along each axis. Signed
 * sizes wrap as unsigned ones do. */
typedef struct clprune__conv_gather {
    size_t batch;
    bool back;    /* weights are read as o x (taps * n), k = o; else as n x (taps * k) */
    bool rounded; /* `from` is of bf16: for CPUs words, which are pairs */
    float beta;
    size_t n, k; /* channels of results and source */
    clprune_extent grid, source, result;
    clprune_extent step, spread, shift, taps;
    ptrdiff_t first_y, first_x, tap_step_y, tap_step_x;
    clprune_extent weight_first, weight_step;
    size_t kernel_width;
    clprune_mat from, w, bias, to;
} clprune__conv_gather;

/* The product of a forward pass, and of dx at the pixels (y, x) + multiples of the strides, which
 * the same taps reach; without matrices, bias and beta. */
clprune__conv_gather clprune__conv_forward_job(const clprune__conv *conv);
clprune__conv_gather clprune__conv_dx_job(const clprune__conv *conv, size_t y, size_t x);

/* With cells and strides of multiples of `side` pixels, taps of pooled images read the same cells
 * wherever floor((tap * dilation - padding) / side) is equal, because
 *
 *     floor((u * stride + a) / cell) = floor((u * s + floor(a / side)) / c),
 *     s = stride / side, c = cell / side.
 *
 * dw then is dw of a convolution `coarse` over images of side x side pixels in one, in cells of
 * cell / side; several taps of conv share one of its taps, clprune__conv_shared_tap on each axis.
 * Returns the side; 1: no taps are shared, and coarse is conv. */
size_t clprune__conv_share_taps(const clprune__conv *conv, size_t cell, clprune__conv *coarse);
size_t clprune__conv_shared_tap(size_t tap, size_t dilation, size_t padding, size_t side);

/* Whether the vector kernels are used: on CPUs, and on devices without work-groups of the tiled
 * kernels' size. */
bool clprune__conv_uses_vectors(const clprune_context *context);

/* Channels as conv_vector.cl counts them: k, or pairs of bf16. */
size_t clprune__conv_terms(const clprune_context *context, size_t k);

/* Floats that the tiled kernels read at once of rows that begin at multiples of `unit` elements. */
size_t clprune__conv_row_vector(clprune_mat mat, size_t unit);

/* Whether the taps are few enough for conv_dw_tiled.cl to take several in a group. */
bool clprune__conv_dw_tiled_flattens(const clprune__conv *conv);

/* Kernel arguments: the sizes of a layer without its channels; the images and taps of a gathered
 * product; the indices of its weights. */
void clprune__arg_conv(clprune__launch *launch, const clprune__conv *conv);
void clprune__arg_gather_pixels(clprune__launch *launch, const clprune__conv_gather *job);
void clprune__arg_gather_weights(clprune__launch *launch, const clprune__conv_gather *job);

/* The last arguments of the kernels for CPUs: beta, whether there is a bias, and the matrices, w as
 * clprune__conv_pack_weights packs it. */
void clprune__arg_gather_operands(
    clprune__launch *launch, const clprune__conv_gather *job, clprune__region packed);

/* Of a product by tiles: floats that a kernel writes at once (TV); and the arguments from the
 * images on, w the rows of weights, and the launch, a group for each tile. */
size_t clprune__conv_result_vector(const clprune__conv_gather *job);
clprune_status clprune__conv_enqueue_tiles(clprune__launch *launch, const clprune__conv_gather *job,
    const clprune__gemm_tile *tile, clprune_mat w, cl_event *event);

/* Floor of weight gradients: conv_dw_sums.c. */

/* The input of dw's product: images, pooled cells, or codes. */
typedef struct clprune__conv_source {
    clprune_mat x;
    const clprune__quantised *q; /* codes in place of x; else NULL */
    size_t cell;                 /* x has the means of cells of cell x cell pixels; 1: the pixels */
    const clprune__conv *of;     /* if its taps share cells, the layer of dw; else NULL */
    size_t side;                 /* of the shared cells, from clprune__conv_share_taps */
} clprune__conv_source;

/* Whether a vector kernel of dw can write dw itself (direct.clh): one split, in a multiple of 16, a
 * tile that divides 16, and local memory for 16 columns beside the segment. padded: channels of
 * whole blocks. */
bool clprune__conv_direct(const clprune_context *context, const clprune__conv *conv,
    const clprune__bspmm_plan *plan, size_t padded);

/* Scratch for the partial results of a plan. */
clprune_status clprune__conv_take_partial(
    clprune_context *context, const clprune__bspmm_plan *plan, clprune__bspmm_scratch *scratch);

/* Enqueues such a kernel, a group for each run of panels and split: dw = sum + beta * dw if the
 * plan is direct, else partial results. */
clprune_status clprune__conv_enqueue_dw(clprune__launch *launch, const clprune__bspmm_plan *plan,
    float beta, clprune_mat dw, cl_event *event);

/* Adds up the partial results of kept blocks: dw = sum + beta * dw. A tap has `padded` rows of each
 * panel, those of whole blocks, at least conv->in. */
clprune_status clprune__conv_finish(clprune_context *context, const clprune__conv *conv,
    const clprune__bspmm_plan *plan, size_t padded, float beta, clprune__bspmm_scratch scratch,
    clprune_mat dw, cl_event *event);

/* dw = sum + beta * dw from the partial results of a product, of the coarse convolution `conv` if
 * taps share cells. */
clprune_status clprune__conv_finish_source(clprune_context *context, const clprune__conv *conv,
    const clprune__conv_source *from, const clprune__bspmm_plan *plan, float beta,
    clprune__bspmm_scratch scratch, clprune_mat dw, cl_event *event);

/* The engines. */

/* The weights of a product in panels of 16 * vectors results, in scratch: conv_weights.cl. Terms of
 * a panel are in the order of taps, then channels, or the other way round. `zeros` zeros follow
 * them. */
clprune_status clprune__conv_pack_weights(clprune_context *context, const clprune__conv_gather *job,
    size_t vectors, bool taps_first, size_t zeros, clprune__region *packed);

/* The weights of a product as rows for conv_tiled.cl: n x (taps * k), with zeros up to a multiple
 * of `multiple`, of fp32 or bf16. job->w itself where it lies so, else a copy in scratch. */
clprune_status clprune__conv_weight_rows(clprune_context *context, const clprune__conv_gather *job,
    size_t multiple, clprune_value_type type, clprune_mat *rows);

/* conv_strip_vector.cl, where a strip of the source fits local memory, ... */
bool clprune__conv_strips(const clprune_context *context, const clprune__conv_gather *job);
clprune_status clprune__conv_gather_strip(
    clprune_context *context, const clprune__conv_gather *job, cl_event *event);

/* ... conv_vector.cl and conv_tiled.cl. */
clprune_status clprune__conv_gather_vector(
    clprune_context *context, const clprune__conv_gather *job, cl_event *event);
clprune_status clprune__conv_gather_tiled(
    clprune_context *context, const clprune__conv_gather *job, cl_event *event);

/* conv_bf16_tiled.cl, of a `from` of bf16, with at most 15 x 16 taps. Whether it makes a product of
 * one that lies so or (not as_it_is) is worth rounding. */
bool clprune__conv_gathers_bf16(
    const clprune_context *context, const clprune__conv_gather *job, bool as_it_is);
clprune_status clprune__conv_gather_bf16(
    clprune_context *context, const clprune__conv_gather *job, cl_event *event);

/* conv_amx.cl and conv_dw_amx.cl, where the functions before say true; `partial` has room for the
 * partial results of `splits`. */
bool clprune__conv_takes_amx(const clprune_context *context, const clprune__conv_gather *job);
clprune_status clprune__conv_gather_amx(
    clprune_context *context, const clprune__conv_gather *job, cl_event *event);
bool clprune__conv_dw_takes_amx(
    const clprune_context *context, const clprune__conv *conv, const clprune__conv_source *from);
clprune_status clprune__conv_dw_amx(clprune_context *context, const clprune__conv *conv,
    const clprune__conv_source *from, float beta, size_t splits, clprune__region partial,
    clprune_mat dy, clprune_mat dw, cl_event *event);

/* Whether clprune__conv_forward takes an x of bf16, with ld and offset even, or on tensor cores
 * multiples of 8. */
bool clprune__conv_forward_reads_bf16(const clprune_context *context, const clprune__conv *conv);

/* Whether conv_vector.cl makes this product, and reads `from` as pairs of bf16. The second function
 * rounds it: *from becomes pairs in scratch, for jobs with `rounded`. */
bool clprune__conv_takes_pairs(const clprune_context *context, const clprune__conv_gather *job);
clprune_status clprune__conv_round_source(clprune_context *context, clprune_mat *from);

/* conv_dw_vector.cl and conv_dw_tiled.cl. The former takes cells of more than a pixel only if
 * clprune__conv_dw_vector_pools says true: a row of cells fits local memory. The latter takes codes
 * only if clprune__conv_dw_tiled_flattens says true: at most 16 x 16 taps. */
bool clprune__conv_dw_vector_pools(
    const clprune_context *context, const clprune__conv *conv, size_t cell);
clprune_status clprune__conv_dw_vector(clprune_context *context, const clprune__conv *conv,
    const clprune__conv_source *from, float beta, clprune_mat dy, clprune_mat dw, cl_event *event);
clprune_status clprune__conv_dw_tiled(clprune_context *context, const clprune__conv *conv,
    const clprune__conv_source *from, float beta, clprune_mat dy, clprune_mat dw, cl_event *event);

/* conv_dw_bf16_tiled.cl, where the first function says true, which it does for less work if dy is
 * of bf16; splits have `run` pixels. */
bool clprune__conv_dw_takes_bf16(const clprune_context *context, const clprune__conv *conv,
    const clprune__conv_source *from, bool as_it_is);
clprune_status clprune__conv_dw_bf16(clprune_context *context, const clprune__conv *conv,
    const clprune__conv_source *from, float beta, size_t run, clprune_mat dy, clprune_mat dw,
    cl_event *event);

/* From kept blocks, at least one: conv_dw_pruned_vector.cl, which adds `means` as
 * clprune__conv_dw_pruned does, if clprune__conv_dw_pruned_vector_fits says true; and
 * bspmm_tn_tiled.cl. */
bool clprune__conv_dw_pruned_vector_fits(
    const clprune_context *context, const clprune__conv *conv, const clprune_bsr *xs);
clprune_status clprune__conv_dw_pruned_vector(clprune_context *context, const clprune__conv *conv,
    float beta, const clprune_bsr *xs, const clprune_bsr_sizes *sizes, const clprune_mat *means,
    clprune_mat dy, clprune_mat dw, cl_event *event);
clprune_status clprune__conv_dw_pruned_tiled(clprune_context *context, const clprune__conv *conv,
    float beta, const clprune_bsr *xs, const clprune_bsr_sizes *sizes, clprune_mat dy,
    clprune_mat dw, cl_event *event);

/* dw from m, batch x in, one vector for all pixels of an image. Only if clprune__conv_sums_taps
 * says true: at most 256 taps, whose sums a work-item holds. */
bool clprune__conv_sums_taps(const clprune__conv *conv);
clprune_status clprune__conv_dw_mean(clprune_context *context, const clprune__conv *conv,
    float beta, clprune_mat m, clprune_mat dy, clprune_mat dw, cl_event *event);

/* conv_depthwise.cl, conv_depthwise_dw.cl: groups of one channel with a few near taps, on every
 * device. As the functions of the roof. */
bool clprune__conv_is_depthwise(const clprune__conv *conv);
clprune_status clprune__conv_depthwise_forward(clprune_context *context, const clprune__conv *conv,
    clprune_mat x, clprune_mat w, clprune_mat b, clprune_mat y, cl_event *event);
clprune_status clprune__conv_depthwise_dx(clprune_context *context, const clprune__conv *conv,
    float beta, clprune_mat dy, clprune_mat w, clprune_mat dx, cl_event *event);
clprune_status clprune__conv_depthwise_dw(clprune_context *context, const clprune__conv *conv,
    float beta, clprune_mat x, clprune_mat dy, clprune_mat dw, cl_event *event);

/* Roof: conv.c. Only forward, dx, and dw from dense images take groups. */

/* y = x * w + b; b may be CLPRUNE_NO_MAT. */
clprune_status clprune__conv_forward(clprune_context *context, const clprune__conv *conv,
    clprune_mat x, clprune_mat w, clprune_mat b, clprune_mat y, cl_event *event);

/* Whether dx, and dw from dense images or those of 16 bits, read a dy of bf16 with ld and offset
 * multiples of 8, and unless it lies as_it_is are worth its rounding. */
bool clprune__conv_backward_reads_bf16(
    const clprune_context *context, const clprune__conv *conv, bool as_it_is);

/* dx = product + beta * dx, from dy. */
clprune_status clprune__conv_dx(clprune_context *context, const clprune__conv *conv, float beta,
    clprune_mat dy, clprune_mat w, clprune_mat dx, cl_event *event);

/* dw = product + beta * dw, from dense images, ... */
clprune_status clprune__conv_dw(clprune_context *context, const clprune__conv *conv, float beta,
    clprune_mat x, clprune_mat dy, clprune_mat dw, cl_event *event);

/* ... or from p, the means of cells of cell x cell pixels, as if upsampled. Only if
 * clprune__conv_pools says true. */
bool clprune__conv_pools(const clprune_context *context, const clprune__conv *conv, size_t cell);
clprune_status clprune__conv_dw_pooled(clprune_context *context, const clprune__conv *conv,
    size_t cell, float beta, clprune_mat p, clprune_mat dy, clprune_mat dw, cl_event *event);

/* dw from codes; only if clprune__conv_reads_codes says true: on GPUs of at most 16 x 16 taps, and
 * on CPUs from codes of 16 bits with products of bf16, unless taps are joined, as those of at most
 * 15 channels. Then the bits are those of clprune__conv_dw with the dequantised images. */
bool clprune__conv_reads_codes(
    const clprune_context *context, const clprune__conv *conv, const clprune__quantised *q);
clprune_status clprune__conv_dw_quantised(clprune_context *context, const clprune__conv *conv,
    float beta, const clprune__quantised *q, clprune_mat dy, clprune_mat dw, cl_event *event);

/* Whether clprune__conv_dw_pruned has kernels for these blocks; ... */
bool clprune__conv_prunes(
    const clprune_context *context, const clprune__conv *conv, const clprune_bsr *xs);

/* ... then dw from the kept blocks, whose rows are pixels. means: batch x in, added to all pixels
 * of their image; NULL: none. */
clprune_status clprune__conv_dw_pruned(clprune_context *context, const clprune__conv *conv,
    float beta, const clprune_bsr *xs, const clprune_mat *means, clprune_mat dy, clprune_mat dw,
    cl_event *event);

#endif
