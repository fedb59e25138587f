#include "ops/codes/quantise_private.h"

#include "core/checked.h"
#include "ops/codes/rotate_private.h"
#include "ops/device/bf16.h"
#include "ops/device/ops_state.h"
#include "runtime/context/check.h"
#include "runtime/context/context_private.h"
#include "runtime/launch/rowwise.h"

static const clprune__kernel_def quantise_kernel = {"codes/quantise.cl", "quantise"};
static const clprune__kernel_def quantise_rotated_kernel = {
    "codes/quantise_rotated.cl", "quantise_rotated"};
static const clprune__kernel_def dequantise_kernel = {"codes/dequantise.cl", "dequantise"};
static const clprune__kernel_def dequantise_add_kernel = {"codes/dequantise.cl", "dequantise_add"};
static const clprune__kernel_def dequantise_rotated_kernel = {
    "codes/dequantise_rotated.cl", "dequantise_rotated"};
static const clprune__kernel_def quantise_bf16_kernel = {"codes/quantise_bf16.cl", "quantise_bf16"};
static const clprune__kernel_def quantise_nf4_kernel = {"codes/quantise_nf4.cl", "quantise_nf4"};

/* Codes of this many bits are bf16. */
enum { BF16_BITS = 16 };

/* Codes of a unit; each unit begins with a new word. */
#define UNIT 16

/* Words of a row. */
static size_t code_words(const clprune__quantised_desc *desc)
{
    return clprune__ceil_div(desc->cols, UNIT) * (desc->bits / 2);
}

static size_t group_words(const clprune__quantised_desc *desc)
{
    return desc->nf4                 ? clprune__nf4_words(desc->cols)
           : desc->bits == BF16_BITS ? 0
                                     : clprune__ceil_div(desc->cols, desc->group);
}

static clprune_status check_desc(clprune_context *context, const clprune__quantised_desc *desc)
{
    REQUIRE(desc->bits == 2 || desc->bits == 4 || desc->bits == 8 || desc->bits == BF16_BITS,
        CLPRUNE_INVALID_ARGUMENT, "bits is %u, expected 2, 4, 8 or 16", desc->bits);
    REQUIRE(!desc->rotated || desc->bits != BF16_BITS, CLPRUNE_INVALID_ARGUMENT,
        "rotate is set with 16 bits, which have no groups; expected 2, 4 or 8 bits");
    if (desc->bits == BF16_BITS)
        return CLPRUNE_SUCCESS;
    REQUIRE(desc->group >= CLPRUNE__GROUP_LEAST && desc->group <= CLPRUNE__GROUP_MOST &&
                desc->group % UNIT == 0,
        CLPRUNE_INVALID_ARGUMENT, "group is %zu, expected a multiple of %d from %d to %d",
        desc->group, UNIT, CLPRUNE__GROUP_LEAST, CLPRUNE__GROUP_MOST);
    return CLPRUNE_SUCCESS;
}

clprune_status clprune__quantised_words(
    clprune_context *context, const clprune__quantised_desc *desc, size_t *words)
{
    size_t row, bytes;
    TRY(check_desc(context, desc));
    REQUIRE(clprune__add(code_words(desc), group_words(desc), &row) &&
                clprune__mul(desc->rows, row, words) &&
                clprune__mul(*words, sizeof(cl_uint), &bytes),
        CLPRUNE_SIZE_OVERFLOW, "%zu x %zu codes of %u bits overflow size_t", desc->rows, desc->cols,
        desc->bits);
    return CLPRUNE_SUCCESS;
}

clprune__quantised clprune__quantised_of(
    const clprune__quantised_desc *desc, cl_mem buffer, size_t offset)
{
    const size_t codes = code_words(desc), groups = group_words(desc);
    clprune__quantised q = {.desc = *desc,
        .codes = clprune_mat_of(buffer, desc->rows, codes),
        .groups = clprune_mat_of(buffer, desc->rows, groups)};
    q.codes.offset = offset;
    q.groups.offset = offset + desc->rows * codes;
    return q;
}

clprune_status clprune__check_units(clprune_context *context, const char *name, clprune_mat mat)
{
    REQUIRE(mat.type != CLPRUNE_VALUES_BF16 ||
                (mat.cols % UNIT == 0 && mat.ld % 2 == 0 && mat.offset % 2 == 0),
        CLPRUNE_INVALID_ARGUMENT,
        "%s of bf16 has %zu columns, ld %zu and offset %zu, expected multiples of %d, 2 and 2",
        name, mat.cols, mat.ld, mat.offset, UNIT);
    return CLPRUNE_SUCCESS;
}

clprune_status clprune__quantised_view(
    clprune_context *context, const char *name, clprune_mat mat, clprune__quantised *q)
{
    const unsigned bits = clprune__code_bits(mat);
    if (bits > 0) {
        const clprune__quantised_desc desc = {
            mat.rows, mat.cols, bits, CLPRUNE__CODES_GROUP, .nf4 = mat.type == CLPRUNE_VALUES_NF4};
        *q = (clprune__quantised){.desc = desc, .codes = mat, .groups = mat};
        q->codes.cols = code_words(&desc);
        q->groups.cols = group_words(&desc);
        q->groups.offset += q->codes.cols;
        q->codes.type = q->groups.type = CLPRUNE_VALUES_FP32;
        return CLPRUNE_SUCCESS;
    }
    TRY(clprune__check_units(context, name, mat));
    *q = (clprune__quantised){.desc = {.rows = mat.rows, .cols = mat.cols, .bits = BF16_BITS},
        .codes = clprune__words_of(mat),
        .groups = {mat.buffer, 0, mat.rows, 0, 0, CLPRUNE_VALUES_FP32}};
    return CLPRUNE_SUCCESS;
}

clprune_mat clprune__quantised_pairs(const clprune__quantised *q)
{
    clprune_mat mat = clprune__pairs_of(q->codes);
    mat.cols = q->desc.cols;
    return mat;
}

clprune_mat clprune__quantised_mat(const clprune__quantised *q)
{
    if (q->desc.bits != BF16_BITS || q->desc.cols == 0 || q->desc.cols % UNIT != 0)
        return CLPRUNE_NO_MAT;
    return clprune__quantised_pairs(q);
}

clprune__quantised clprune__quantised_rows(const clprune__quantised *q, size_t first, size_t rows)
{
    clprune__quantised part = *q;
    part.desc.rows = rows;
    part.codes = clprune_mat_rows(q->codes, first, rows);
    part.groups = clprune_mat_rows(q->groups, first, rows);
    return part;
}

clprune_status clprune__check_quantised(
    clprune_context *context, const char *name, const clprune__quantised *q)
{
    TRY(check_desc(context, &q->desc));
    TRY(clprune__check_mat(context, name, q->codes, q->desc.rows, code_words(&q->desc)));
    return clprune__check_mat(context, name, q->groups, q->desc.rows, group_words(&q->desc));
}

clprune_status clprune__check_quantised_apart(
    clprune_context *context, const char *name, clprune_mat mat, const clprune__quantised *q)
{
    TRY(clprune__check_apart(context, name, mat, "the codes", q->codes));
    return clprune__check_apart(context, name, mat, "the groups", q->groups);
}

void clprune__quantised_defines(const clprune__quantised *q, clprune__defines *defines)
{
    clprune__define(defines, "BITS", q->desc.bits);
    if (q->desc.bits != BF16_BITS)
        clprune__define(defines, "GROUP", q->desc.group);
    if (q->desc.nf4)
        clprune__define(defines, "NF4", 1);
}

void clprune__arg_quantised(clprune__launch *launch, const clprune__quantised *q)
{
    ARG_MATS(launch, q->codes, q->groups);
}

/* Checks both parts of q and a dense matrix, which must have its size and lie apart. */
static clprune_status check_dense(
    clprune_context *context, const clprune__quantised *q, const char *name, clprune_mat dense)
{
    TRY(clprune__check_quantised(context, "q", q));
    TRY(clprune__check_mat(context, name, dense, q->desc.rows, q->desc.cols));
    return clprune__check_quantised_apart(context, name, dense, q);
}

/* Without products of bf16, the conversion in OpenCL C; or to NF4. */
static clprune_status round_values(
    clprune_context *context, clprune_mat x, const clprune__quantised *q, cl_event *event)
{
    const clprune__rowwise plan = clprune__rowwise_plan(context, x.rows, x.cols);
    clprune__defines defines = {0};
    clprune__define(&defines, "LOCAL", plan.local);
    if (q->desc.nf4) { /* those of the scales */
        clprune__define(&defines, "BITS", 8);
        clprune__define(&defines, "GROUP", CLPRUNE__NF4_SCALES);
        clprune__define(&defines, "STOCHASTIC", 0);
    } else {
        clprune__quantised_defines(q, &defines);
        clprune__rounding_define(context, &defines);
    }
    clprune__launch launch;
    TRY(clprune__launch_begin(
        context, q->desc.nf4 ? &quantise_nf4_kernel : &quantise_bf16_kernel, &defines, &launch));
    launch.least_group = 1;
    ARG_ULONGS(&launch, plan.group_rows, x.rows, x.cols);
    clprune__arg_mat(&launch, x);
    clprune__arg_quantised(&launch, q);
    return clprune__launch_enqueue(&launch, 1, &plan.global, &plan.local, event);
}

clprune_status clprune__quantise(clprune_context *context, const uint64_t *seed, size_t sample_rows,
    size_t first, clprune_mat x, const clprune__quantised *q, cl_event *event)
{
    size_t elements;
    TRY(check_dense(context, q, "x", x));
    REQUIRE(sample_rows > 0, CLPRUNE_INVALID_ARGUMENT, "sample_rows is 0, expected at least 1");
    REQUIRE(clprune__mul(sample_rows, x.cols, &elements) && elements <= UINT32_MAX,
        CLPRUNE_SIZE_OVERFLOW, "samples are %zu x %zu, expected fewer than 2^32 elements",
        sample_rows, x.cols);
    if (q->desc.bits == BF16_BITS || q->desc.nf4)
        return round_values(context, x, q, event);
    const clprune__rowwise plan = clprune__rowwise_plan(context, x.rows, x.cols);
    clprune__defines defines = {0};
    clprune__quantised_defines(q, &defines);
    clprune__define(&defines, "STOCHASTIC", seed != NULL);
    clprune__define(&defines, "LOCAL", plan.local);
    if (q->desc.rotated)
        clprune__rotate_defines(q->desc.group, &defines);
    clprune__launch launch;
    TRY(clprune__launch_begin(
        context, q->desc.rotated ? &quantise_rotated_kernel : &quantise_kernel, &defines, &launch));
    launch.least_group = 1;
    ARG_ULONGS(
        &launch, plan.group_rows, x.rows, x.cols, sample_rows, first, seed != NULL ? *seed : 0);
    clprune__arg_mat(&launch, x);
    clprune__arg_quantised(&launch, q);
    return clprune__launch_enqueue(&launch, 1, &plan.global, &plan.local, event);
}

/* y = q, or with x what clprune__dequantise_add says. */
static clprune_status read(clprune_context *context, const clprune__quantised *q,
    const clprune_mat *x, clprune_mat ls, clprune_mat y, cl_event *event)
{
    const bool scaled = !clprune__is_absent(ls);
    const clprune__rowwise plan = clprune__rowwise_plan(context, y.rows, y.cols);
    clprune__defines defines = {0};
    clprune__quantised_defines(q, &defines);
    clprune__define(&defines, "LOCAL", plan.local);
    if (x != NULL)
        clprune__define(&defines, "LAYERSCALE", scaled);
    if (q->desc.rotated) {
        clprune__rotate_defines(q->desc.group, &defines);
        clprune__define(&defines, "ADD", x != NULL);
    }
    const clprune__kernel_def *def = q->desc.rotated ? &dequantise_rotated_kernel
                                     : x != NULL     ? &dequantise_add_kernel
                                                     : &dequantise_kernel;
    clprune__launch launch;
    TRY(clprune__launch_begin(context, def, &defines, &launch));
    launch.least_group = 1;
    ARG_ULONGS(&launch, plan.group_rows, y.rows, y.cols);
    clprune__arg_quantised(&launch, q);
    if (x != NULL)
        ARG_MATS(&launch, *x, scaled ? ls : clprune__untouched(*x));
    clprune__arg_mat(&launch, y);
    return clprune__launch_enqueue(&launch, 1, &plan.global, &plan.local, event);
}

clprune_status clprune__dequantise(
    clprune_context *context, const clprune__quantised *q, clprune_mat y, cl_event *event)
{
    TRY(check_dense(context, q, "y", y));
    return read(context, q, NULL, CLPRUNE_NO_MAT, y, event);
}

clprune_status clprune__dequantise_add(clprune_context *context, const clprune__quantised *q,
    clprune_mat x, clprune_mat ls, clprune_mat y, cl_event *event)
{
    enum { X, LS, Y, ALL };
    const clprune__operand operands[ALL] = {{"x", x, q->desc.rows, q->desc.cols},
        {"ls", ls, 1, q->desc.cols, .optional = true},
        {"y", y, q->desc.rows, q->desc.cols, .in_place = 1u << X}};
    TRY(clprune__check_operands(context, operands, Y, ALL));
    TRY(check_dense(context, q, "y", y));
    return read(context, q, &x, ls, y, event);
}
