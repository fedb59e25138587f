/* Products of convolutions in bf16 on CPUs that have AMX. */
#include "core/checked.h"
#include "ops/conv/conv_private.h"
#include "ops/device/bf16.h"
#include "ops/device/ops_state.h"
#include "ops/products/gemm_private.h"
#include "runtime/context/context_private.h"
#include "runtime/context/fail.h"
#include "runtime/memory/matrix_private.h"
#include "runtime/memory/scratch.h"

static const clprune__kernel_def conv_amx_kernel = {"amx/conv_amx.cl", "conv_amx"};
static const clprune__kernel_def conv_dw_amx_kernel = {"amx/conv_dw_amx.cl", "conv_dw_amx"};
static const clprune__kernel_def conv_dw_amx_quantised_kernel = {
    "amx/conv_dw_amx.cl", "conv_dw_amx_quantised"};

/* Of conv_amx.cl: pixels of a group, and words of each, which are packed at once and fit a
 * second-level cache; words of a tile; taps at once. Of conv_dw_amx.cl: outputs of a group, pixels
 * at once. */
enum {
    BLOCK = 256,
    DEPTH = 1152,
    WORDS = 16,
    TAPS = 64,
    DW_BLOCK = 512,
    DW_DEPTH = 1024,
    DW_PANELS = 4
};
/* Of both: tiles. */
enum { ROWS = 32, VECTORS = 2 };

static bool fits(const clprune_context *context, size_t words)
{
    return words * sizeof(float) <= context->facts.local_memory;
}

bool clprune__conv_takes_amx(const clprune_context *context, const clprune__conv_gather *job)
{
    return context->ops->amx != CLPRUNE__AMX_NONE && job->k % (2 * WORDS) == 0 &&
           clprune__conv_terms(context, job->k) <= DEPTH && fits(context, BLOCK * (DEPTH + 4));
}

static void define_tiles(const clprune_context *context, size_t vectors, clprune__defines *defines)
{
    clprune__bf16_define(context, defines);
    clprune__define(defines, "AMX", context->ops->amx);
    clprune__define(defines, "V", vectors);
    clprune__define(defines, "MR", ROWS);
}

clprune_status clprune__conv_gather_amx(
    clprune_context *context, const clprune__conv_gather *job, cl_event *event)
{
    const size_t rows = job->batch * job->grid.height * job->grid.width;
    const size_t taps = job->taps.height * job->taps.width;
    const size_t vectors = clprune__gemm_tile_vectors(VECTORS, job->n);
    const size_t panels = clprune__ceil_div(job->n, 16 * vectors);
    const size_t k = clprune__conv_terms(context, job->k);
    const size_t most_run = clprune__min(TAPS, DEPTH / clprune__max(k, 1));
    const size_t run = /* equal runs of taps */
        clprune__max(
            1, clprune__ceil_div(taps, clprune__max(1, clprune__ceil_div(taps, most_run))));
    /* All panels in a group, unless groups would be too few for the device. */
    const size_t wanted =
        (size_t)context->facts.compute_units * context->ops->tuning.gemm_bf16.groups_per_unit;
    const size_t ranges = clprune__ceil_div(rows, BLOCK);
    const size_t panel_run =
        clprune__max(1, clprune__min(panels, panels * ranges / clprune__max(wanted, 1)));
    const size_t local[2] = {1, 1}, global[2] = {ranges, clprune__ceil_div(panels, panel_run)};
    SCRATCH_SCOPE(context);
    clprune__region packed;
    /* In panels of conv_vector.cl, so that both take as much scratch: a plan without a device does
     * not know which of them runs. A tile may read words of the next row, or the zeros behind the
     * last. */
    const size_t wide = clprune__gemm_tile_vectors(context->ops->tuning.gemm.tile_vectors, job->n);
    TRY(clprune__conv_pack_weights(context, job, wide, true, k, &packed));
    clprune__defines defines = {0};
    define_tiles(context, vectors, &defines);
    clprune__define(&defines, "MC", BLOCK);
    clprune__define(&defines, "KW", DEPTH);
    clprune__define(&defines, "WP", 16 * wide);
    clprune__launch launch;
    TRY(clprune__launch_begin(context, &conv_amx_kernel, &defines, &launch));
    ARG_ULONGS(&launch, rows, (size_t)BLOCK, panel_run);
    clprune__arg_uint(&launch, (uint32_t)job->n);
    clprune__arg_uint(&launch, (uint32_t)k);
    clprune__arg_uint(&launch, (uint32_t)taps);
    clprune__arg_uint(&launch, (uint32_t)run);
    clprune__arg_gather_pixels(&launch, job);
    clprune__arg_gather_operands(&launch, job, packed);
    return clprune__launch_enqueue(&launch, 2, global, local, event);
}

bool clprune__conv_dw_takes_amx(
    const clprune_context *context, const clprune__conv *conv, const clprune__conv_source *from)
{
    return context->ops->amx != CLPRUNE__AMX_NONE && from->cell == 1 && from->of == NULL &&
           conv->in % (16 * VECTORS) == 0 &&
           fits(context, DW_DEPTH / 2 * (DW_BLOCK + DW_PANELS * 16 * VECTORS + 8));
}

/* Forward: y[p][o] = the sum over t and c of x[source(p, t)][c] * w[o][t * C + c]. */
clprune_status clprune__conv_dw_amx(clprune_context *context, const clprune__conv *conv,
    const clprune__conv_source *from, float beta, size_t splits, clprune__region partial,
    clprune_mat dy, clprune_mat dw, cl_event *event)
{
    enum {
        RUNS = 8
    }; /* groups for a split: not by the device, as the splits, whose sums have its bits */
    const size_t columns = conv->kernel.height * conv->kernel.width * conv->in;
    const size_t panels = columns / (16 * VECTORS), images = clprune__ceil_div(conv->batch, splits);
    splits = clprune__ceil_div(conv->batch, images);
    const size_t panel_run = clprune__ceil_div(panels, clprune__max(1, RUNS / splits));
    const size_t local[3] = {1, 1, 1};
    const size_t global[3] = {
        clprune__ceil_div(panels, panel_run), clprune__ceil_div(conv->out, DW_BLOCK), splits};
    const clprune_mat products = {
        partial.buffer, partial.offset, splits * conv->out, columns, columns, CLPRUNE_VALUES_FP32};
    clprune__defines defines = {0};
    define_tiles(context, VECTORS, &defines);
    clprune__define(&defines, "MC", DW_BLOCK);
    clprune__define(&defines, "KC", DW_DEPTH);
    clprune__define(&defines, "PANELS", DW_PANELS);
    if (from->q != NULL)
        clprune__quantised_defines(from->q, &defines);
    clprune__launch launch;
    TRY(clprune__launch_begin(context,
        from->q != NULL ? &conv_dw_amx_quantised_kernel : &conv_dw_amx_kernel, &defines, &launch));
    ARG_ULONGS(&launch, conv->batch, images);
    clprune__arg_uint(&launch, (uint32_t)conv->in);
    clprune__arg_uint(&launch, (uint32_t)conv->out);
    clprune__arg_conv(&launch, conv);
    clprune__arg_ulong(&launch, panel_run);
    clprune__arg_uint(&launch, splits > 1);
    clprune__arg_float(&launch, beta);
    if (from->q != NULL)
        clprune__arg_quantised(&launch, from->q);
    else
        clprune__arg_mat(&launch, from->x);
    clprune__arg_mat(&launch, dy);
    clprune__arg_mat(&launch, splits > 1 ? products : dw);
    TRY(clprune__launch_enqueue(&launch, 3, global, local, splits > 1 ? NULL : event));
    if (splits == 1)
        return CLPRUNE_SUCCESS;
    const clprune_mat samples = {partial.buffer, partial.offset, splits, conv->out * columns,
        conv->out * columns, CLPRUNE_VALUES_FP32};
    return clprune__sample_sum(context, beta, splits, samples, dw, event);
}
