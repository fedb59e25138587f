#include "core/checked.h"
#include "nn/layers/activation_private.h"
#include "nn/layers/sums.h"
#include "ops/device/bf16.h"
#include "runtime/context/check.h"
#include "runtime/launch/rowwise.h"
#include "runtime/memory/scratch.h"

static const clprune__kernel_def gelu_code_forward_kernel = {
    "layers/gelu_code.cl", "gelu_code_forward"};
static const clprune__kernel_def gelu_code_backward_kernel = {
    "layers/gelu_code.cl", "gelu_code_backward"};

clprune_status clprune__gelu_code_sizes(
    clprune_context *context, size_t rows, size_t cols, unsigned bits, size_t *words, size_t *bytes)
{
    size_t all;
    REQUIRE(bits == 2 || bits == 4 || bits == 8, CLPRUNE_INVALID_ARGUMENT,
        "bits is %u, expected 2, 4 or 8", bits);
    REQUIRE(clprune__mul(cols, bits, &all), CLPRUNE_SIZE_OVERFLOW,
        "%zu codes of %u bits overflow size_t", cols, bits);
    *words = clprune__ceil_div(all, 32);
    REQUIRE(clprune__mul3(rows, *words, sizeof(float), bytes), CLPRUNE_SIZE_OVERFLOW,
        "codes of %zu x %zu overflow size_t", rows, cols);
    return CLPRUNE_SUCCESS;
}

clprune_status clprune__gelu_code_forward(clprune_context *context, clprune_activation f,
    unsigned bits, clprune_mat h, clprune_mat b, clprune_mat g, clprune_mat codes, cl_event *event)
{
    const bool bias = !clprune__is_absent(b);
    size_t words, bytes;
    REQUIRE(context != NULL, CLPRUNE_INVALID_ARGUMENT, "context is NULL");
    TRY(clprune__gelu_code_sizes(context, h.rows, h.cols, bits, &words, &bytes));
    enum { B, H, G, CODES, ALL }; /* b must not overlap h, as in gelu_forward */
    const clprune__operand operands[ALL] = {{"b", b, 1, h.cols, .optional = true},
        {"h", h, h.rows, h.cols, .bf16 = true},
        {"g", g, h.rows, h.cols, .in_place = 1u << H, .bf16 = true},
        {"codes", codes, h.rows, words}};
    TRY(clprune__check_operands(context, operands, H, ALL));
    clprune__rowwise plan = clprune__rowwise_plan(context, h.rows, h.cols);
    clprune__define(&plan.defines, "BITS", bits);
    clprune__define(&plan.defines, "BIAS", bias);
    clprune__narrow_define(context, h, g, &plan.defines);
    if (f != CLPRUNE_ACTIVATION_GELU)
        clprune__define(&plan.defines, "ACTIVATION", (size_t)f);
    const clprune_mat mats[ALL] = {bias ? b : clprune__untouched(h), h, g, codes};
    return clprune__rowwise_run(context, &gelu_code_forward_kernel, &plan, ALL, mats, event);
}

/* Forward: g = h * Phi(h), whose slope was kept as a code. */
clprune_status clprune__gelu_code_backward(clprune_context *context, unsigned bits, float beta,
    clprune_mat dg, clprune_mat codes, clprune_mat dh, clprune_mat db, cl_event *event)
{
    SCRATCH_SCOPE(context);
    REQUIRE(context != NULL, CLPRUNE_INVALID_ARGUMENT, "context is NULL");
    const size_t rows = dg.rows, cols = dg.cols;
    size_t words, bytes;
    TRY(clprune__gelu_code_sizes(context, rows, cols, bits, &words, &bytes));
    enum { DG, CODES, DH, DB, ALL };
    const clprune__operand operands[ALL] = {{"dg", dg, rows, cols}, {"codes", codes, rows, words},
        {"dh", dh, rows, cols, .in_place = 1u << DG, .bf16 = true},
        {"db", db, 1, cols, .optional = true}};
    TRY(clprune__check_operands(context, operands, DH, ALL));
    const size_t sums = clprune__is_absent(db) ? 0 : 1;
    clprune__rowwise plan = clprune__sums_plan(context, rows, cols, sums, 1, 0);
    clprune__define(&plan.defines, "BITS", bits);
    clprune__narrow_define(context, CLPRUNE_NO_MAT, dh, &plan.defines);
    clprune_mat partial = clprune__untouched(dh); /* without sums */
    if (sums > 0)
        TRY(clprune__scratch_mat(context, plan.groups, cols, &partial));
    const clprune_mat mats[] = {dg, dh, codes, partial};
    TRY(clprune__rowwise_run(
        context, &gelu_code_backward_kernel, &plan, 4, mats, sums > 0 ? NULL : event));
    if (sums > 0)
        TRY(clprune__column_sums_final(context, beta, plan.groups, partial, 1, &db, event));
    return CLPRUNE_SUCCESS;
}
