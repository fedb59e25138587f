/* Attention: the checks of its operands, and one launch for each kernel. */
#include "clprune/attention.h"

#include <math.h>

#include "clprune/add.h"
#include "core/checked.h"
#include "ops/device/bf16.h"
#include "ops/device/mma.h"
#include "ops/device/ops_state.h"
#include "runtime/context/check.h"
#include "runtime/context/context_private.h"
#include "runtime/launch/launch.h"
#include "runtime/launch/rowwise.h"
#include "runtime/memory/matrix_private.h"
#include "runtime/memory/scratch.h"

static const clprune__kernel_def forward_kernel = {
    "tokens/attention_forward.cl", "attention_forward"};
static const clprune__kernel_def queries_kernel = {
    "tokens/attention_backward.cl", "attention_backward_queries"};
static const clprune__kernel_def whole_kernel = {
    "tokens/attention_backward_whole.cl", "attention_backward_whole"};
static const clprune__kernel_def keys_kernel = {
    "tokens/attention_backward.cl", "attention_backward_keys"};
static const clprune__kernel_def bias_kernel = {
    "tokens/attention_backward_bias.cl", "attention_backward_bias"};

static const clprune__kernel_def forward_mma_kernel = {
    "tokens/attention_forward_mma.cl", "attention_forward_mma"};
static const clprune__kernel_def queries_mma_kernel = {
    "tokens/attention_backward_mma.cl", "attention_backward_queries_mma"};
static const clprune__kernel_def keys_mma_kernel = {
    "tokens/attention_backward_keys_mma.cl", "attention_backward_keys_mma"};

enum { MOST_COLS = 512, MOST_ROWS = INT32_MAX };
enum { MOST_WHOLE = 1024 }; /* keys: scores of a block of queries take 256 KiB */

/* The sizes of a launch. */
typedef struct plan {
    /* lanes: rows of a group */
    size_t rows, keys, past, queries, heads, share, blocks, local, lanes;
    float scale, cap, kept_scale;
    uint64_t seed, first;
    uint32_t threshold; /* of 32 random bits: below it a probability is dropped */
    clprune_ints lengths, starts;
    clprune_mat bias;
    size_t biases;
    bool mma;
    bool paired; /* operands are of bf16, by pairs.clh */
    clprune__defines defines;
    double product; /* multiplications of a sample's scores */
} plan;

/* Of all samples: rows of q and dq, and those of k and v. */
typedef struct all_rows {
    size_t queries, keys;
} all_rows;

static clprune_status check_desc(clprune_context *context, const clprune_attention_desc *desc,
    size_t batch, clprune_attention_desc *settled, all_rows *rows)
{
    REQUIRE(desc != NULL, CLPRUNE_INVALID_ARGUMENT, "desc is NULL");
    TRY(clprune__check_reserved(context, "desc", desc->reserved, sizeof desc->reserved));
    *settled = *desc;
    if (desc->kv_heads == 0)
        settled->kv_heads = desc->heads;
    if (desc->queries == 0)
        settled->queries = desc->rows;
    if (desc->keys == 0)
        settled->keys = desc->rows;
    REQUIRE(desc->rows > 0 && desc->rows <= MOST_ROWS, CLPRUNE_INVALID_SIZE,
        "desc has %zu rows, expected 1 to %d", desc->rows, MOST_ROWS);
    REQUIRE(settled->keys <= MOST_ROWS, CLPRUNE_INVALID_SIZE,
        "desc has %zu keys, expected at most %d", desc->keys, MOST_ROWS);
    REQUIRE(desc->past == 0 || desc->causal, CLPRUNE_INVALID_ARGUMENT,
        "desc has a past of %zu, expected 0 without causal", desc->past);
    REQUIRE(desc->past <= MOST_ROWS - desc->rows, CLPRUNE_INVALID_SIZE,
        "desc has a past of %zu before %zu rows, expected at most %d in all", desc->past,
        desc->rows, MOST_ROWS);
    REQUIRE(desc->cols > 0 && desc->cols <= MOST_COLS, CLPRUNE_INVALID_SIZE,
        "desc has heads of %zu columns, expected 1 to %d", desc->cols, MOST_COLS);
    REQUIRE(desc->heads > 0 && desc->heads <= MOST_ROWS, CLPRUNE_INVALID_SIZE,
        "desc has %zu heads, expected 1 to %d", desc->heads, MOST_ROWS);
    REQUIRE(desc->rate >= 0 && desc->rate < 1, CLPRUNE_INVALID_ARGUMENT,
        "desc has a rate of %g, expected a value in [0, 1)", (double)desc->rate);
    REQUIRE(desc->cap >= 0 && isfinite(desc->cap), CLPRUNE_INVALID_ARGUMENT,
        "desc has a cap of %g, expected 0 or a finite number above", (double)desc->cap);
    REQUIRE(desc->starts.buffer == NULL ||
                (desc->causal && desc->past == 0 && settled->keys == desc->rows &&
                    clprune__is_absent(desc->bias)),
        CLPRUNE_INVALID_ARGUMENT,
        "desc has starts, expected causal, and no keys, past or bias of its own");
    REQUIRE(settled->queries <= desc->rows, CLPRUNE_INVALID_SIZE,
        "desc has %zu queries, expected at most its %zu rows", desc->queries, desc->rows);
    REQUIRE(desc->heads % settled->kv_heads == 0, CLPRUNE_INVALID_SIZE,
        "%zu heads of k and v do not divide %zu heads of q", settled->kv_heads, desc->heads);
    REQUIRE(clprune__mul(batch, desc->rows, &rows->queries) &&
                clprune__mul(batch, settled->keys, &rows->keys) && batch <= SIZE_MAX - desc->first,
        CLPRUNE_SIZE_OVERFLOW, "%zu samples of %zu rows and %zu keys, from %zu on, are too many",
        batch, desc->rows, settled->keys, desc->first);
    return CLPRUNE_SUCCESS;
}

/* As an operand. */
static clprune_status check_bias(clprune_context *context, const clprune_attention_desc *desc,
    bool optional, clprune__operand *operand)
{
    size_t rows;
    const clprune_mat bias = desc->bias;
    optional = optional && clprune__is_absent(bias);
    REQUIRE(clprune__mul(desc->heads, desc->keys, &rows), CLPRUNE_SIZE_OVERFLOW,
        "%zu heads of %zu keys are too many", desc->heads, desc->keys);
    REQUIRE(optional || (bias.rows > 0 && bias.rows % rows == 0), CLPRUNE_INVALID_SIZE,
        "bias has %zu rows, expected a multiple of %zu heads of %zu", bias.rows, desc->heads,
        desc->keys);
    *operand = (clprune__operand){"bias", bias, bias.rows, desc->rows, .optional = optional};
    return CLPRUNE_SUCCESS;
}

/* As an operand. */
static clprune_status check_lengths(clprune_context *context, const clprune_attention_desc *desc,
    size_t batch, clprune__operand *operand)
{
    clprune_mat mat = CLPRUNE_NO_MAT;
    const size_t count = desc->first + batch;
    if (desc->lengths.buffer != NULL)
        TRY(clprune__check_ints(context, "lengths", desc->lengths, count, &mat));
    *operand = (clprune__operand){"lengths", mat, 1, count, .optional = true};
    return CLPRUNE_SUCCESS;
}

/* As an operand. */
static clprune_status check_starts(clprune_context *context, const clprune_attention_desc *desc,
    size_t batch, clprune__operand *operand)
{
    clprune_mat mat = CLPRUNE_NO_MAT;
    size_t count;
    REQUIRE(clprune__mul(desc->first + batch, desc->rows, &count), CLPRUNE_SIZE_OVERFLOW,
        "%zu samples of %zu rows are too many", desc->first + batch, desc->rows);
    if (desc->starts.buffer != NULL)
        TRY(clprune__check_ints(context, "starts", desc->starts, count, &mat));
    *operand = (clprune__operand){"starts", mat, 1, count, .optional = true};
    return CLPRUNE_SUCCESS;
}

/* The largest of 8, 4, 2 and 1 that divides n. */
static size_t power_in(size_t n)
{
    size_t power = 8;
    while (n % power != 0)
        power /= 2;
    return power;
}

/* Floats of a row of a head in local memory, in fp32; where products are of bf16 rows have words of
 * two elements. */
static size_t row_floats(const clprune_context *context, size_t cols)
{
    const bool pairs = context->ops->pairs != CLPRUNE__PAIRS_NONE;
    return pairs ? clprune__round_up(cols, 32) / 2 : clprune__round_up(cols, 16);
}

/* The keys that attention_backward_whole has room for: a power of two; 0 where scores of that many
 * do not fit local memory, and on GPUs. With bf16 keys and values are there, too. */
static size_t whole_rows(const clprune_context *context, const clprune_attention_desc *desc)
{
    enum { LANES = 32 };
    size_t room = 64;
    while (room < desc->keys)
        room *= 2;
    const size_t row = row_floats(context, desc->cols), scores = desc->cap > 0 ? 3 : 2,
                 copies = context->ops->pairs != CLPRUNE__PAIRS_NONE ? 3 * room : 0;
    const size_t floats = LANES * (4 * row + scores * room) + copies * row;
    const bool fits = floats <= context->facts.local_memory / sizeof(float) && room <= MOST_WHOLE;
    return context->kernels == CLPRUNE_KERNELS_VECTOR && fits ? room : 0;
}

/* On tensor cores: the rows of the other side that lie in local memory at once, 0 where attention
 * stays in fp32; the 16s of rows that a warp owns; a group's work-items, 32 a warp. */
typedef struct mma_shape {
    size_t tile, own, local;
} mma_shape;

/* Whether the kernels' 32 bits are enough: for rows of all heads, and bytes of a stride. */
static bool is_small(const clprune_attention_desc *desc, const all_rows *rows,
    const clprune__operand *operands, size_t count)
{
    const uint64_t most = rows->queries > rows->keys ? rows->queries : rows->keys;
    bool small = most < ((uint64_t)1 << 32) / desc->heads && desc->bias.ld < (uint64_t)1 << 30;
    for (size_t i = 0; i < count; i++)
        small = small && operands[i].mat.ld < (uint64_t)1 << 30;
    return small;
}

/* Registers limit them: backward passes have two sums. Wide heads have more warps for the reads of
 * a tile, which go through registers. `operands`: those that are read. */
static mma_shape mma_of(const clprune_context *context, const clprune_attention_desc *desc,
    const all_rows *rows, const clprune__operand *operands, size_t count, bool backward)
{
    enum { MOST = 128, FEW = 64, LOCAL = 128, PAD = 4, TILES = 4 };
    const mma_shape none = {0, 0, 0};
    const bool bf16 = context->ops->precision == CLPRUNE_PRECISION_BF16;
    const size_t e = desc->cols;
    if (context->kernels == CLPRUNE_KERNELS_VECTOR || !clprune__uses_mma(context) || e % 16 != 0 ||
        e > (bf16 ? MOST : FEW) || !is_small(desc, rows, operands, count))
        return none;
    mma_shape shape = {32, 1, LOCAL};
    if (backward && e > FEW)
        shape = (mma_shape){16, 1, 2 * LOCAL};
    else if (!backward && bf16 && e <= FEW && e >= 32 && desc->queries > LOCAL / 2)
        shape = (mma_shape){48, 2, LOCAL};
    else if (!backward && bf16 && e <= FEW)
        shape = (mma_shape){64, 1, LOCAL};
    const size_t words = bf16 ? e / 2 : e, statistics = backward ? 4 * shape.tile : 0;
    const size_t exchanged = context->ops->mma_emulated ? 5 * shape.local : 0;
    const size_t bytes =
        (TILES * shape.tile * (words + PAD) + exchanged + statistics) * sizeof(cl_uint);
    const bool fits =
        bytes <= context->facts.local_memory && shape.local <= context->facts.max_work_group;
    return fits ? shape : none;
}

/* A causal query sees the keys up to its own. */
static double score_product(const clprune_attention_desc *desc)
{
    const double queries = (double)desc->queries, all = queries * (double)desc->keys;
    const double seen = queries * (double)desc->past + queries * (queries + 1) / 2;
    return (double)(desc->heads * desc->cols) * (desc->causal && seen < all ? seen : all);
}

/* A vector kernel's work-item has 32 rows, whose sums fit the registers 8 at a time; a GPU's has
 * one, as it has where 16 do not fit local memory. `tiles`: matrices of a group there; `rows`: that
 * work-items own. */
static plan make_plan(const clprune_context *context, const clprune_attention_desc *desc,
    size_t tiles, size_t rows, size_t whole, mma_shape mma)
{
    const size_t floats = (size_t)clprune__min(context->facts.local_memory, (uint64_t)1 << 30) / 4,
                 fit = floats / (tiles * clprune__round_up(desc->cols, 16)); /* lanes */
    const bool vector = context->kernels == CLPRUNE_KERNELS_VECTOR && fit >= 16;
    const size_t width = vector ? 16 : 1,
                 vectors = vector && desc->queries > 16 && fit >= 32 ? 2 : 1,
                 tile = mma.tile > 0 ? mma.tile
                        : whole > 0  ? whole
                        : vector     ? 64
                                     : 8;
    const size_t paired = (tiles * width * vectors + tile) * row_floats(context, desc->cols);
    size_t local = vector ? 1 : clprune__group_size(context, 64);
    while (local > 1 && local > fit)
        local /= 2;
    if (mma.tile > 0)
        local = mma.local;
    plan p = {.rows = desc->rows,
        .keys = desc->keys,
        .past = desc->causal ? desc->past : desc->keys,
        .queries = desc->queries,
        .heads = desc->heads,
        .share = desc->heads / desc->kv_heads,
        .lanes = mma.tile > 0 ? local / 2 * mma.own : local * width * vectors,
        .mma = mma.tile > 0,
        .paired =
            vector && context->ops->pairs != CLPRUNE__PAIRS_NONE && (whole > 0 || paired <= floats),
        .local = local,
        .scale = 1.0f / sqrtf((float)desc->cols),
        .cap = desc->cap,
        .kept_scale = (float)(1 / (1 - (double)desc->rate)),
        .seed = desc->seed,
        .first = desc->first,
        .threshold = (uint32_t)((double)desc->rate * 0x1p32),
        .lengths = desc->lengths,
        .starts = desc->starts,
        .bias = desc->bias,
        .biases = desc->bias.rows / desc->heads / desc->keys};
    p.blocks = clprune__ceil_div(rows, p.lanes);
    p.product = score_product(desc);
    clprune__define(&p.defines, "LOCAL", local);
    clprune__define(&p.defines, "VW", width);
    clprune__define(&p.defines, "QV", vectors);
    clprune__define(&p.defines, "E", desc->cols);
    clprune__define(&p.defines, "KT", vector ? 8 : 4);
    clprune__define(&p.defines, "TILE", tile);
    clprune__define(&p.defines, "WHOLE", whole > 0);
    clprune__define(&p.defines, "ET", power_in(desc->cols));
    clprune__define(&p.defines, "DROP", desc->rate > 0);
    clprune__define(&p.defines, "STARTS", desc->starts.buffer != NULL);
    clprune__define(&p.defines, "BIAS", p.biases > 0);
    clprune__define(&p.defines, "CAP", desc->cap > 0);
    if (p.paired)
        clprune__bf16_define(context, &p.defines);
    if (p.mma) {
        clprune__define(&p.defines, "CAUSAL", desc->causal);
        clprune__define(&p.defines, "LENGTHS", desc->lengths.buffer != NULL);
        clprune__mma_defines(context, mma.own, 2, &p.defines);
    }
    return p;
}

/* Whether rows begin at multiples of 16 bytes, and with them each head. */
static void define_quads(plan *p, size_t count, const clprune__operand *mats)
{
    bool quads = true;
    for (size_t i = 0; i < count; i++)
        quads = quads && mats[i].mat.offset % 4 == 0 && mats[i].mat.ld % 4 == 0;
    if (p->mma)
        clprune__define(&p->defines, "QUADS", quads ? 4 : 1);
}

/* Without lengths, starts or bias the kernels get `q` in their place, and do not touch it. */
static clprune_status begin(clprune_context *context, const clprune__kernel_def *kernel,
    const plan *p, clprune_mat q, clprune__launch *launch)
{
    TRY(clprune__launch_begin(context, kernel, &p->defines, launch));
    clprune__arg_uint(launch, (uint32_t)p->rows);
    clprune__arg_uint(launch, (uint32_t)p->keys);
    clprune__arg_uint(launch, (uint32_t)p->past);
    clprune__arg_uint(launch, (uint32_t)p->queries);
    clprune__arg_uint(launch, (uint32_t)p->heads);
    clprune__arg_uint(launch, (uint32_t)p->share);
    clprune__arg_ulong(launch, p->blocks);
    clprune__arg_float(launch, p->scale);
    clprune__arg_float(launch, p->cap);
    ARG_ULONGS(launch, p->seed, p->first);
    clprune__arg_uint(launch, p->threshold);
    clprune__arg_float(launch, p->kept_scale);
    const clprune_ints none = {q.buffer, 0};
    clprune__arg_ints(launch, p->lengths.buffer != NULL ? p->lengths : none);
    clprune__arg_ints(launch, p->starts.buffer != NULL ? p->starts : none);
    clprune__arg_ulong(launch, p->biases);
    clprune__arg_mat(launch, p->biases > 0 ? p->bias : clprune__untouched(q));
    clprune__arg_uint(launch, p->lengths.buffer != NULL);
    return CLPRUNE_SUCCESS;
}

/* `products` as large as that of the scores; what a kernel makes twice counts once. */
static void multiplies(clprune__launch *launch, const plan *p, size_t batch, int products)
{
    clprune__launch_multiplies(launch, clprune__precision_on(launch->context, p->mma || p->paired),
        (double)batch * products * p->product);
}

/* `groups` of a sample. */
static clprune_status end(
    clprune__launch *launch, const plan *p, size_t batch, size_t groups, cl_event *event)
{
    size_t all = 0, global = 0;
    clprune_context *context = launch->context;
    REQUIRE(clprune__mul(batch, groups, &all) && clprune__mul(all, p->local, &global),
        CLPRUNE_SIZE_OVERFLOW, "%zu samples of %zu heads are too many", batch, p->heads);
    return clprune__launch_enqueue(launch, 1, &global, &p->local, event);
}

/* What all three functions check, and the sizes that follow. */
typedef struct inputs {
    clprune_attention_desc desc; /* settled */
    all_rows rows;
    size_t cols, kv_cols; /* of q, and of k and v */
    clprune__operand lengths, starts, bias;
} inputs;

static clprune_status take_inputs(clprune_context *context, const clprune_attention_desc *desc,
    size_t batch, bool has_bias, inputs *in)
{
    TRY(check_desc(context, desc, batch, &in->desc, &in->rows));
    TRY(check_lengths(context, &in->desc, batch, &in->lengths));
    TRY(check_starts(context, &in->desc, batch, &in->starts));
    TRY(check_bias(context, &in->desc, !has_bias, &in->bias));
    in->cols = in->desc.heads * in->desc.cols;
    in->kv_cols = in->desc.kv_heads * in->desc.cols;
    return CLPRUNE_SUCCESS;
}

clprune_status clprune_attention_forward(clprune_context *context,
    const clprune_attention_desc *desc, size_t batch, clprune_mat q, clprune_mat k, clprune_mat v,
    clprune_mat y, cl_event *event)
{
    ENTER(context);
    inputs in = {.rows = {0}};
    TRY(take_inputs(context, desc, batch, false, &in));
    const clprune_attention_desc d = in.desc;
    enum { Q, K, V, LENGTHS, STARTS, BIAS, Y, ALL };
    const clprune__operand operands[ALL] = {{"q", q, in.rows.queries, in.cols},
        {"k", k, in.rows.keys, in.kv_cols}, {"v", v, in.rows.keys, in.kv_cols}, in.lengths,
        in.starts, in.bias, {"y", y, batch * d.queries, in.cols}};
    TRY(clprune__check_operands(context, operands, Y, ALL));
    const mma_shape mma = mma_of(context, &d, &in.rows, operands, LENGTHS, false);
    plan p = make_plan(context, &d, 1, d.rows, 0, mma);
    define_quads(&p, LENGTHS, operands);
    clprune__launch launch;
    TRY(begin(context, p.mma ? &forward_mma_kernel : &forward_kernel, &p, q, &launch));
    ARG_MATS(&launch, q, k, v, y);
    multiplies(&launch, &p, batch, 2);
    return end(&launch, &p, batch, d.heads * p.blocks, event);
}

/* Forward: y = p v, p = softmax(cap * tanh(scale * q k^T / cap)). */
clprune_status clprune_attention_backward(clprune_context *context,
    const clprune_attention_desc *desc, size_t batch, clprune_mat q, clprune_mat k, clprune_mat v,
    clprune_mat dy, clprune_mat dq, clprune_mat dk, clprune_mat dv, cl_event *event)
{
    ENTER_CONTEXT(context);
    SCRATCH_SCOPE(context);
    inputs in = {.rows = {0}};
    TRY(take_inputs(context, desc, batch, false, &in));
    const clprune_attention_desc d = in.desc;
    enum { Q, K, V, DY, LENGTHS, STARTS, BIAS, DQ, DK, DV, ALL };
    const clprune__operand operands[ALL] = {{"q", q, in.rows.queries, in.cols},
        {"k", k, in.rows.keys, in.kv_cols}, {"v", v, in.rows.keys, in.kv_cols},
        {"dy", dy, batch * d.queries, in.cols}, in.lengths, in.starts, in.bias,
        {"dq", dq, in.rows.queries, in.cols}, {"dk", dk, in.rows.keys, in.kv_cols},
        {"dv", dv, in.rows.keys, in.kv_cols}};
    TRY(clprune__check_operands(context, operands, DQ, ALL));
    if (in.rows.queries == 0)
        return clprune__empty_event(context, event);
    if (d.queries < d.rows)
        TRY(clprune__mat_fill(context, 0.0f, dq, NULL));
    const size_t whole = whole_rows(context, &d);
    const mma_shape mma = mma_of(context, &d, &in.rows, operands, LENGTHS, true);
    plan p = make_plan(context, &d, 2, d.rows, whole, mma),
         of_keys = make_plan(context, &d, 2, d.keys, 0, mma);
    define_quads(&p, LENGTHS, operands);
    define_quads(&of_keys, LENGTHS, operands);
    clprune__launch launch;
    if (whole > 0) {
        TRY(begin(context, &whole_kernel, &p, q, &launch));
        ARG_MATS(&launch, q, k, v, dy, dq, dk, dv);
        multiplies(&launch, &p, batch, 5);
        return end(&launch, &p, batch, d.kv_heads, event);
    }
    clprune_mat slope, log_mass;
    TRY(clprune__scratch_mat(context, batch * d.heads, d.rows, &slope));
    TRY(clprune__scratch_mat(context, batch * d.heads, d.rows, &log_mass));
    TRY(begin(context, p.mma ? &queries_mma_kernel : &queries_kernel, &p, q, &launch));
    ARG_MATS(&launch, q, k, v, dy, dq, slope, log_mass);
    multiplies(&launch, &p, batch, 3);
    TRY(end(&launch, &p, batch, d.heads * p.blocks, NULL));
    TRY(begin(context, p.mma ? &keys_mma_kernel : &keys_kernel, &of_keys, q, &launch));
    ARG_MATS(&launch, q, k, v, dy, slope, log_mass, dk, dv);
    multiplies(&launch, &of_keys, batch, 4);
    return end(&launch, &of_keys, batch, d.kv_heads * of_keys.blocks, event);
}

/* Slices of the samples that have one bias: groups enough for a GPU, which keep a partial sum each.
 */
static size_t bias_slices(const plan *p, size_t batch)
{
    enum { GROUPS = 64, MOST = 8 };
    const size_t groups = p->blocks * p->heads * p->biases, samples = batch / p->biases;
    const size_t slices = groups < GROUPS ? GROUPS / groups : 1,
                 most = samples < MOST ? samples : MOST;
    return slices < most ? slices : most > 0 ? most : 1;
}

/* dbias = the sum over slices of what the queries have of `partial`. Rows are no queries beyond
 * them. */
static clprune_status sum_slices(clprune_context *context, const plan *p, size_t slices,
    clprune_mat partial, clprune_mat dbias, cl_event *event)
{
    clprune_mat to = dbias;
    to.cols = partial.cols = p->queries;
    if (p->queries < p->rows)
        TRY(clprune__mat_fill(context, 0.0f, dbias, NULL));
    for (size_t i = 0; i < slices; i++) {
        const clprune_mat part = clprune_mat_rows(partial, i * dbias.rows, dbias.rows);
        cl_event *last = i + 1 == slices ? event : NULL;
        TRY(i == 0 ? clprune_mat_copy(context, part, to, last)
                   : clprune_add(context, 1, part, 1, to, to, last));
    }
    return CLPRUNE_SUCCESS;
}

/* Forward: y = p v, p = softmax(scale * q k^T + bias). */
clprune_status clprune_attention_backward_bias(clprune_context *context,
    const clprune_attention_desc *desc, size_t batch, clprune_mat q, clprune_mat k, clprune_mat v,
    clprune_mat dy, clprune_mat dbias, cl_event *event)
{
    ENTER_CONTEXT(context);
    SCRATCH_SCOPE(context);
    inputs in = {.rows = {0}};
    TRY(take_inputs(context, desc, batch, true, &in));
    const clprune_attention_desc d = in.desc;
    REQUIRE(dbias.rows == d.bias.rows, CLPRUNE_INVALID_SIZE,
        "bias and dbias have %zu and %zu rows, expected as many", d.bias.rows, dbias.rows);
    enum { Q, K, V, DY, LENGTHS, BIAS, DBIAS, ALL };
    const clprune__operand operands[ALL] = {{"q", q, in.rows.queries, in.cols},
        {"k", k, in.rows.keys, in.kv_cols}, {"v", v, in.rows.keys, in.kv_cols},
        {"dy", dy, batch * d.queries, in.cols}, in.lengths, in.bias,
        {"dbias", dbias, d.bias.rows, d.rows}};
    TRY(clprune__check_operands(context, operands, DBIAS, ALL));
    if (in.rows.queries == 0)
        return clprune_mat_fill(context, 0.0f, dbias, event);
    const plan p = make_plan(context, &d, 2, d.rows, 0, (mma_shape){0, 0, 0});
    const size_t slices = bias_slices(&p, batch);
    clprune_mat partial;
    size_t all;
    REQUIRE(clprune__mul(slices, dbias.rows, &all), CLPRUNE_SIZE_OVERFLOW,
        "%zu rows of bias are too many", dbias.rows);
    TRY(clprune__scratch_mat(context, all, p.blocks * p.lanes, &partial));
    clprune__launch launch;
    TRY(begin(context, &bias_kernel, &p, q, &launch));
    ARG_ULONGS(&launch, batch, slices);
    ARG_MATS(&launch, q, k, v, dy, partial);
    multiplies(&launch, &p, batch, 2);
    TRY(end(&launch, &p, slices * p.biases, d.heads * p.blocks, NULL));
    return sum_slices(context, &p, slices, partial, dbias, event);
}
