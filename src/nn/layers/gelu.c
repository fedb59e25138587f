#include "clprune/gelu.h"

#include "nn/layers/activation_private.h"
#include "nn/layers/sums.h"
#include "ops/device/bf16.h"
#include "runtime/context/check.h"
#include "runtime/launch/rowwise.h"
#include "runtime/memory/scratch.h"

static const clprune__kernel_def gelu_forward_kernel = {"layers/gelu.cl", "gelu_forward"};
static const clprune__kernel_def gelu_backward_kernel = {"layers/gelu.cl", "gelu_backward"};
static const clprune__kernel_def gelu_backward_quantised_kernel = {
    "layers/gelu.cl", "gelu_backward_quantised"};

/* Of GELU the kernels need no define. */
static void define_activation(clprune__defines *defines, clprune_activation f)
{
    if (f != CLPRUNE_ACTIVATION_GELU)
        clprune__define(defines, "ACTIVATION", (size_t)f);
}

clprune_status clprune__gelu_forward(clprune_context *context, clprune_activation f, clprune_mat h,
    clprune_mat b, clprune_mat g, cl_event *event)
{
    const bool bias = !clprune__is_absent(b);
    enum { B, H, G, ALL }; /* with a bias, h is an output */
    const clprune__operand operands[ALL] = {{"b", b, 1, h.cols, .optional = true},
        {"h", h, h.rows, h.cols, .bf16 = !bias},
        {"g", g, h.rows, h.cols, .in_place = 1u << H, .bf16 = true}};
    TRY(clprune__check_operands(context, operands, H, ALL));
    clprune__rowwise plan = clprune__rowwise_plan(context, h.rows, h.cols);
    clprune__define(&plan.defines, "BIAS", bias);
    clprune__narrow_define(context, h, g, &plan.defines);
    define_activation(&plan.defines, f);
    const clprune_mat mats[ALL] = {bias ? b : clprune__untouched(h), h, g};
    return clprune__rowwise_run(context, &gelu_forward_kernel, &plan, ALL, mats, event);
}

clprune_status clprune_gelu_forward(
    clprune_context *context, clprune_mat h, clprune_mat b, clprune_mat g, cl_event *event)
{
    ENTER(context);
    return clprune__gelu_forward(context, CLPRUNE_ACTIVATION_GELU, h, b, g, event);
}

/* Forward: g = h * Phi(h), with h from `codes` unless that is NULL. g is recomputed unless absent.
 */
static clprune_status backward(clprune_context *context, clprune_activation f, float beta,
    clprune_mat h, const clprune__quantised *codes, clprune_mat dg, clprune_mat g, clprune_mat dh,
    clprune_mat db, cl_event *event)
{
    SCRATCH_SCOPE(context);
    const bool again = !clprune__is_absent(g);
    const size_t sums = clprune__is_absent(db) ? 0 : 1;
    const size_t strip = codes != NULL && codes->desc.bits <= 4 ? 4 : 1; /* measured */
    clprune__rowwise plan = clprune__sums_plan(context, dg.rows, dg.cols, sums, strip, 0);
    clprune__define(&plan.defines, "AGAIN", again);
    clprune_mat result = dh; /* of both, as far as they are aligned */
    if (again)
        result.offset |= g.offset, result.ld |= g.ld;
    clprune__narrow_define(context, CLPRUNE_NO_MAT, result, &plan.defines);
    define_activation(&plan.defines, f);
    if (codes != NULL)
        clprune__quantised_defines(codes, &plan.defines);
    clprune_mat partial = clprune__untouched(dh); /* without sums */
    if (sums > 0)
        TRY(clprune__scratch_mat(context, plan.groups, dg.cols, &partial));
    clprune__launch launch;
    TRY(clprune__rowwise_begin(context,
        codes != NULL ? &gelu_backward_quantised_kernel : &gelu_backward_kernel, &plan, &launch));
    if (codes != NULL)
        clprune__arg_quantised(&launch, codes);
    else
        clprune__arg_mat(&launch, h);
    ARG_MATS(&launch, dg, again ? g : dh, dh, partial);
    TRY(clprune__rowwise_end(&launch, &plan, sums > 0 ? NULL : event));
    if (sums > 0)
        TRY(clprune__column_sums_final(context, beta, plan.groups, partial, 1, &db, event));
    return CLPRUNE_SUCCESS;
}

clprune_status clprune__gelu_backward_quantised(clprune_context *context, clprune_activation f,
    float beta, const clprune__quantised *h, clprune_mat dg, clprune_mat g, clprune_mat dh,
    clprune_mat db, cl_event *event)
{
    return backward(context, f, beta, CLPRUNE_NO_MAT, h, dg, g, dh, db, event);
}

clprune_status clprune__gelu_backward(clprune_context *context, clprune_activation f, float beta,
    bool again, clprune_mat h, clprune_mat dg, clprune_mat g, clprune_mat dh, clprune_mat db,
    cl_event *event)
{
    REQUIRE(context != NULL, CLPRUNE_INVALID_ARGUMENT, "context is NULL");
    enum { H, DG, G, DH, DB, ALL };
    const size_t rows = h.rows, cols = h.cols;
    const clprune__operand operands[ALL] = {{"h", h, rows, cols}, {"dg", dg, rows, cols},
        {"g", g, rows, cols, .optional = !again, .in_place = 1u << H, .bf16 = true},
        {"dh", dh, rows, cols, .in_place = again ? 1u << DG : 1u << DG | 1u << H, .bf16 = true},
        {"db", db, 1, cols, .optional = true}};
    TRY(clprune__check_operands(context, operands, G, ALL));
    REQUIRE(!again || g.type == dh.type, CLPRUNE_INVALID_ARGUMENT,
        "one of y and dx is of bf16, expected both or none");
    return backward(context, f, beta, h, NULL, dg, g, dh, db, event);
}

clprune_status clprune_gelu_backward(clprune_context *context, float beta, clprune_mat h,
    clprune_mat dg, clprune_mat dh, clprune_mat db, cl_event *event)
{
    ENTER(context);
    return clprune__gelu_backward(
        context, CLPRUNE_ACTIVATION_GELU, beta, false, h, dg, CLPRUNE_NO_MAT, dh, db, event);
}
