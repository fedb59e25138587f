/* Weights in the order in which the kernels read them. */
#include "core/checked.h"
#include "ops/conv/conv_private.h"
#include "ops/device/bf16.h"
#include "ops/device/ops_state.h"
#include "runtime/context/context_private.h"
#include "runtime/context/fail.h"
#include "runtime/memory/scratch.h"

static const clprune__kernel_def conv_weights_kernel = {"conv/conv_weights.cl", "conv_weights"};
static const clprune__kernel_def conv_weights_bf16_kernel = {
    "conv/conv_weights_bf16.cl", "conv_weights_bf16"};
static const clprune__kernel_def conv_weight_rows_kernel = {
    "conv/conv_weight_rows.cl", "conv_weight_rows"};

clprune_status clprune__conv_pack_weights(clprune_context *context, const clprune__conv_gather *job,
    size_t vectors, bool taps_first, size_t zeros, clprune__region *packed)
{
    const size_t taps = job->taps.height * job->taps.width, panel = 16 * vectors;
    const size_t panels = clprune__ceil_div(job->n, panel);
    const bool pairs = taps_first && context->ops->pairs != CLPRUNE__PAIRS_NONE;
    const size_t k = clprune__conv_terms(context, job->k);
    size_t floats, all;
    REQUIRE(clprune__mul3(panels, panel, taps, &floats) &&
                clprune__mul(floats, pairs ? k : job->k, &floats) &&
                clprune__add(floats, zeros, &all),
        CLPRUNE_SIZE_OVERFLOW, "the packed weights overflow size_t");
    TRY(clprune__scratch_array(context, all, sizeof(float), packed));
    if (floats == 0) /* no taps, so the zeros are not read either */
        return CLPRUNE_SUCCESS;
    const size_t local[2] = {1, 1}, global[2] = {panels, taps};
    clprune__defines defines = {0};
    clprune__define(&defines, "PANEL", panel);
    clprune__define(&defines, "BACK", job->back);
    clprune__bf16_define(context, &defines);
    clprune__launch launch;
    TRY(clprune__launch_begin(
        context, pairs ? &conv_weights_bf16_kernel : &conv_weights_kernel, &defines, &launch));
    clprune__arg_uint(&launch, (uint32_t)job->n);
    clprune__arg_uint(&launch, (uint32_t)job->k);
    clprune__arg_uint(&launch, (uint32_t)taps);
    clprune__arg_uint(&launch, (uint32_t)job->taps.width);
    clprune__arg_gather_weights(&launch, job);
    if (!pairs) {
        clprune__arg_uint(&launch, (uint32_t)(taps_first ? 1 : taps));
        clprune__arg_uint(&launch, (uint32_t)(taps_first ? job->k : 1));
    }
    clprune__arg_uint(&launch, (uint32_t)zeros);
    clprune__arg_mat(&launch, job->w);
    clprune__arg_region(&launch, *packed);
    return clprune__launch_enqueue(&launch, 2, global, local, NULL);
}

clprune_status clprune__conv_weight_rows(clprune_context *context, const clprune__conv_gather *job,
    size_t multiple, clprune_value_type type, clprune_mat *rows)
{
    enum { LOCAL = 64, SIDE = 32 };
    const size_t terms = job->taps.height * job->taps.width * job->k;
    const bool narrow = type == CLPRUNE_VALUES_BF16;
    *rows = job->w;
    if (terms == 0 || (!narrow && !job->back && terms == job->w.cols && terms % multiple == 0 &&
                          clprune__conv_row_vector(job->w, terms) == 4))
        return CLPRUNE_SUCCESS;
    const size_t pitch = clprune__round_up(terms, multiple);
    TRY(clprune__scratch_mat(context, job->n, narrow ? pitch / 2 : pitch, rows));
    if (narrow)
        *rows = (clprune_mat){rows->buffer, 2 * rows->offset, job->n, pitch, pitch, type};
    const size_t local = LOCAL;
    const size_t global = clprune__ceil_div(pitch, SIDE) * clprune__ceil_div(job->n, SIDE) * local;
    clprune__defines defines = {0};
    clprune__define(&defines, "BACK", job->back);
    if (narrow)
        clprune__rounding_define(context, &defines);
    clprune__launch launch;
    TRY(clprune__launch_begin(context, &conv_weight_rows_kernel, &defines, &launch));
    clprune__arg_uint(&launch, (uint32_t)job->n);
    clprune__arg_uint(&launch, (uint32_t)job->k);
    clprune__arg_ulong(&launch, terms);
    clprune__arg_uint(&launch, (uint32_t)job->taps.width);
    clprune__arg_gather_weights(&launch, job);
    ARG_MATS(&launch, job->w, *rows);
    return clprune__launch_enqueue(&launch, 1, &global, &local, NULL);
}
