#include "clprune/batch_norm.h"

#include "core/checked.h"
#include "nn/layers/sums.h"
#include "nn/norm/batch_norm_private.h"
#include "ops/device/bf16.h"
#include "runtime/context/check.h"
#include "runtime/launch/rowwise.h"
#include "runtime/memory/matrix_private.h"
#include "runtime/memory/scratch.h"

static const clprune__kernel_def partial_kernel = {
    "norm/batch_norm_statistics.cl", "batch_norm_partial"};
static const clprune__kernel_def merge_kernel = {
    "norm/batch_norm_statistics.cl", "batch_norm_merge"};
static const clprune__kernel_def statistics_kernel = {
    "norm/batch_norm_statistics.cl", "batch_norm_statistics"};
static const clprune__kernel_def forward_kernel = {
    "norm/batch_norm_forward.cl", "batch_norm_forward"};
static const clprune__kernel_def backward_sums_kernel = {
    "norm/batch_norm_backward_sums.cl", "batch_norm_backward_sums"};
static const clprune__kernel_def backward_input_kernel = {
    "norm/batch_norm_backward_input.cl", "batch_norm_backward_input"};

/* ---- statistics ---- */

/* The moments of no rows: zeros, or unchanged if there were rows before. */
static clprune_status no_rows(
    clprune_context *context, size_t rows_before, clprune_mat mean, clprune_mat m2, cl_event *event)
{
    if (rows_before == 0) {
        TRY(clprune__mat_fill(context, 0.0f, mean, NULL));
        TRY(clprune__mat_fill(context, 0.0f, m2, event));
    } else {
        TRY(clprune__empty_event(context, event));
    }
    return CLPRUNE_SUCCESS;
}

/* The second stage; the arguments are checked. */
static clprune_status merge(clprune_context *context, size_t rows_before, size_t rows,
    size_t group_rows, clprune_mat partial, clprune_mat mean, clprune_mat m2, cl_event *event)
{
    const size_t width = clprune__vector_width(context);
    size_t local;
    /* Few lanes, so that a group has many slices to share the partial moments. */
    const size_t lanes = clprune__lanes(context, clprune__min(mean.cols, 32), width, &local);
    const size_t global = clprune__ceil_div(mean.cols, lanes * width) * local;
    clprune__defines defines = {0};
    clprune__define(&defines, "LOCAL", local);
    clprune__define(&defines, "VW", width);
    clprune__launch launch;
    TRY(clprune__launch_begin(context, &merge_kernel, &defines, &launch));
    launch.least_group = lanes;
    ARG_ULONGS(&launch, rows, mean.cols, group_rows);
    clprune__arg_uint(&launch, (uint32_t)lanes);
    clprune__arg_ulong(&launch, rows_before);
    ARG_MATS(&launch, partial, mean, m2);
    return clprune__launch_enqueue(&launch, 1, &global, &local, event);
}

static clprune_status check_count(clprune_context *context, size_t rows_before, size_t rows)
{
    size_t all;
    REQUIRE(clprune__add(rows_before, rows, &all), CLPRUNE_SIZE_OVERFLOW,
        "%zu rows before and %zu rows overflow size_t", rows_before, rows);
    return CLPRUNE_SUCCESS;
}

clprune_status clprune__batch_norm_merge(clprune_context *context, size_t rows_before, size_t rows,
    size_t group_rows, clprune_mat partial, clprune_mat mean, clprune_mat m2, cl_event *event)
{
    REQUIRE(context != NULL, CLPRUNE_INVALID_ARGUMENT, "context is NULL");
    REQUIRE(group_rows > 0, CLPRUNE_INVALID_ARGUMENT, "group_rows is 0, expected at least 1");
    TRY(check_count(context, rows_before, rows));
    size_t needed;
    REQUIRE(clprune__mul(clprune__ceil_div(rows, group_rows), 2, &needed), CLPRUNE_SIZE_OVERFLOW,
        "the partial moments of %zu rows in groups of %zu overflow size_t", rows, group_rows);
    enum { PARTIAL, MEAN, M2, ALL };
    const clprune__operand operands[ALL] = {{"partial", partial, needed, mean.cols},
        {"mean", mean, 1, mean.cols}, {"m2", m2, 1, mean.cols}};
    TRY(clprune__check_operands(context, operands, MEAN, ALL));
    if (rows == 0)
        TRY(no_rows(context, rows_before, mean, m2, event));
    else
        TRY(merge(context, rows_before, rows, clprune__min(group_rows, rows), partial, mean, m2,
            event)); /* the kernel adds them */
    return CLPRUNE_SUCCESS;
}

clprune_status clprune_batch_norm_moments(clprune_context *context, size_t rows_before,
    clprune_mat x, clprune_mat mean, clprune_mat m2, cl_event *event)
{
    ENTER_CONTEXT(context);
    SCRATCH_SCOPE(context);
    enum { X, MEAN, M2, ALL };
    const clprune__operand operands[ALL] = {
        {"x", x, x.rows, x.cols}, {"mean", mean, 1, x.cols}, {"m2", m2, 1, x.cols}};
    TRY(clprune__check_operands(context, operands, MEAN, ALL));
    TRY(check_count(context, rows_before, x.rows));
    if (x.rows == 0) {
        TRY(no_rows(context, rows_before, mean, m2, event));
        return CLPRUNE_SUCCESS;
    }
    const clprune__rowwise plan =
        clprune__lanes_plan(context, x.rows, x.cols, 2, clprune__vector_width(context));
    clprune_mat partial;
    TRY(clprune__scratch_mat(context, 2 * plan.groups, x.cols, &partial));
    const clprune_mat mats[] = {x, partial};
    TRY(clprune__rowwise_run(context, &partial_kernel, &plan, 2, mats, NULL));
    return clprune__batch_norm_merge(
        context, rows_before, x.rows, plan.group_rows, partial, mean, m2, event);
}

/* Computes inv and, if given, the running statistics; the arguments are checked. */
static clprune_status finish(clprune_context *context, size_t rows, float eps, float momentum,
    clprune_mat mean, clprune_mat m2, clprune_mat inv, clprune_mat running_mean,
    clprune_mat running_var, cl_event *event)
{
    const bool running = !clprune__is_absent(running_mean);
    clprune__rowwise plan = clprune__rowwise_plan(context, 1, inv.cols);
    clprune__define(&plan.defines, "RUNNING", running);
    clprune__launch launch;
    TRY(clprune__rowwise_begin(context, &statistics_kernel, &plan, &launch));
    ARG_FLOATS(&launch, (float)clprune__max(rows, 1), eps, momentum);
    ARG_MATS(&launch, mean, m2, inv);
    clprune__arg_mat(&launch, running ? running_mean : clprune__untouched(inv));
    clprune__arg_mat(&launch, running ? running_var : inv);
    return clprune__rowwise_end(&launch, &plan, event);
}

clprune_status clprune_batch_norm_statistics(clprune_context *context, size_t rows, float eps,
    clprune_mat mean, clprune_mat m2, clprune_mat inv, const clprune_batch_norm_running *running,
    cl_event *event)
{
    ENTER_CONTEXT(context);
    REQUIRE(eps > 0.0f, CLPRUNE_INVALID_ARGUMENT, "eps is %g, expected above 0", (double)eps);
    const clprune_batch_norm_running none = {0}, *const r = running != NULL ? running : &none;
    const float momentum = r->momentum;
    REQUIRE(momentum >= 0.0f && momentum <= 1.0f, CLPRUNE_INVALID_ARGUMENT,
        "momentum is %g, expected 0 to 1", (double)momentum);
    enum { MEAN, M2, INV, RUNNING_MEAN, RUNNING_VAR, ALL };
    const clprune__operand operands[ALL] = {{"mean", mean, 1, mean.cols}, {"m2", m2, 1, mean.cols},
        {"inv", inv, 1, mean.cols, .in_place = 1u << M2},
        {"running->mean", r->mean, 1, mean.cols, .optional = running == NULL},
        {"running->var", r->var, 1, mean.cols, .optional = running == NULL}};
    TRY(clprune__check_operands(context, operands, INV, ALL));
    REQUIRE(running == NULL || rows > 1, CLPRUNE_INVALID_ARGUMENT,
        "rows is %zu, expected at least 2 for running->var", rows);
    return finish(context, rows, eps, momentum, mean, m2, inv, r->mean, r->var, event);
}

clprune_status clprune_batch_norm_inverse(
    clprune_context *context, float eps, clprune_mat var, clprune_mat inv, cl_event *event)
{
    ENTER_CONTEXT(context);
    const clprune_mat none = CLPRUNE_NO_MAT;
    REQUIRE(eps > 0.0f, CLPRUNE_INVALID_ARGUMENT, "eps is %g, expected above 0", (double)eps);
    enum { VAR, INV, ALL };
    const clprune__operand operands[ALL] = {
        {"var", var, 1, var.cols}, {"inv", inv, 1, var.cols, .in_place = 1u << VAR}};
    TRY(clprune__check_operands(context, operands, INV, ALL));
    return finish(context, 1, eps, 0.0f, var, var, inv, none, none, event);
}

/* ---- passes ---- */

/* The operands of all passes, and facts that follow from them. */
enum { MEAN, INV, GAMMA, BETA, X, DY, MASK, RESIDUAL, OWN };

typedef struct pass {
    clprune__operand operands[OWN + 4]; /* from OWN on: those of one pass */
    size_t rows, cols;
    const clprune__quantised *codes; /* x, or NULL */
    bool relu, masked, residual;
} pass;

/* Fills *p. In the forward pass in->dy is x. A backward pass accepts a residual only with relu and
 * without a mask. */
static clprune_status pass_begin(clprune_context *context, const clprune_batch_norm_in *in,
    const clprune__quantised *codes, bool forward, pass *p)
{
    const clprune_batch_norm *bn = in->bn;
    const bool relu = in->relu;
    REQUIRE(context != NULL, CLPRUNE_INVALID_ARGUMENT, "context is NULL");
    REQUIRE(bn != NULL, CLPRUNE_INVALID_ARGUMENT, "bn is NULL");
    const size_t rows = codes != NULL ? codes->desc.rows : in->x.rows;
    const size_t cols = codes != NULL ? codes->desc.cols : in->x.cols;
    const bool no_x = codes != NULL;
    *p =
        (pass){.operands = {[MEAN] = {"mean", bn->mean, 1, cols},
                   [INV] = {"inv", bn->inv, 1, cols},
                   [GAMMA] = {"gamma", bn->gamma, 1, cols},
                   [BETA] = {"beta", bn->beta, 1, cols},
                   [X] = {"x", in->x, rows, cols, .optional = no_x},
                   [DY] = {"dy", in->dy, rows, cols, .optional = no_x && forward},
                   [MASK] = {"mask", in->mask, rows, clprune__ceil_div(cols, 32), .optional = true},
                   [RESIDUAL] = {"residual", in->residual, rows, cols, .optional = true}},
            .rows = rows,
            .cols = cols,
            .codes = codes,
            .relu = relu,
            .masked = !clprune__is_absent(in->mask),
            .residual = !clprune__is_absent(in->residual)};
    REQUIRE(relu || !p->masked, CLPRUNE_INVALID_ARGUMENT,
        "mask is given without relu, expected CLPRUNE_NO_MAT");
    REQUIRE(forward || !p->residual || (relu && !p->masked), CLPRUNE_INVALID_ARGUMENT,
        "residual is given, but only relu without a mask reads it; expected CLPRUNE_NO_MAT");
    return CLPRUNE_SUCCESS;
}

/* The defines of residual and codes. */
static void define_inputs(const pass *p, clprune__rowwise *plan)
{
    clprune__define(&plan->defines, "RESIDUAL", p->residual);
    if (p->codes != NULL)
        clprune__quantised_defines(p->codes, &plan->defines);
}

/* Those of the backward passes, and of ReLU. GATE: 0 no ReLU, 1 from the mask, 2 recomputed. */
static void define_gate(const pass *p, clprune__rowwise *plan)
{
    clprune__define(&plan->defines, "GATE", !p->relu ? 0 : p->masked ? 1 : 2);
    define_inputs(p, plan);
}

/* x, mean, inv, gamma, beta and residual, which is beta where there is none. */
static void set_inputs(clprune__launch *launch, const pass *p)
{
    if (p->codes != NULL)
        clprune__arg_quantised(launch, p->codes);
    else
        clprune__arg_mat(launch, p->operands[X].mat);
    ARG_MATS(launch, p->operands[MEAN].mat, p->operands[INV].mat, p->operands[GAMMA].mat,
        p->operands[BETA].mat, p->operands[p->residual ? RESIDUAL : BETA].mat);
}

/* With `gated` the mask is read; else it is written, if there is one. */
static clprune_status forward(clprune_context *context, const clprune_batch_norm *bn, bool relu,
    bool gated, clprune_mat x, const clprune__quantised *codes, clprune_mat residual, clprune_mat y,
    clprune_mat mask, cl_event *event)
{
    enum { Y = OWN, KEPT, ALL };
    pass p;
    const clprune_batch_norm_in in = {bn, relu, x, x, mask, residual};
    TRY(pass_begin(context, &in, codes, true, &p));
    /* A mask without columns counts as absent. */
    p.masked = p.masked || gated;
    if (!gated) { /* the mask is an output */
        p.operands[KEPT] = p.operands[MASK];
        p.operands[MASK] = p.operands[X];
    }
    p.operands[RESIDUAL].bf16 = true;
    p.operands[Y] = (clprune__operand){"y", y, p.rows, p.cols,
        .in_place = 1u << X | 1u << DY | 1u << RESIDUAL | (gated ? 0 : 1u << MASK), .bf16 = true};
    TRY(clprune__check_operands(context, p.operands, Y, gated ? KEPT : ALL));
    /* With a mask to write at least 8 floats, a whole byte of it. */
    const bool writes_mask = p.masked && !gated;
    const size_t width = clprune__max(writes_mask ? 8 : 1, clprune__vector_width(context));
    clprune__rowwise plan = clprune__lanes_plan(context, p.rows, p.cols, 0, width);
    clprune__define(&plan.defines, "RELU", relu);
    define_inputs(&p, &plan);
    clprune__define(&plan.defines, "KEEP_MASK", writes_mask);
    clprune__define(&plan.defines, "GATE", gated);
    clprune__narrow_define(context, p.residual ? residual : CLPRUNE_NO_MAT, y, &plan.defines);
    clprune__launch launch;
    TRY(clprune__rowwise_begin(context, &forward_kernel, &plan, &launch));
    set_inputs(&launch, &p);
    clprune__arg_mat(&launch, y);
    clprune__arg_mat(&launch, p.masked ? mask : clprune__untouched(y));
    return clprune__rowwise_end(&launch, &plan, event);
}

clprune_status clprune_batch_norm_forward(clprune_context *context, const clprune_batch_norm *bn,
    bool relu, clprune_mat x, clprune_mat residual, clprune_mat y, clprune_mat mask,
    cl_event *event)
{
    ENTER(context);
    return forward(context, bn, relu, false, x, NULL, residual, y, mask, event);
}

clprune_status clprune_batch_norm_forward_gated(clprune_context *context,
    const clprune_batch_norm *bn, clprune_mat x, clprune_mat residual, clprune_mat mask,
    clprune_mat y, cl_event *event)
{
    ENTER(context);
    REQUIRE(!clprune__is_absent(mask) || x.cols == 0, CLPRUNE_INVALID_ARGUMENT,
        "mask is CLPRUNE_NO_MAT, expected the mask of a forward pass");
    return forward(context, bn, true, true, x, NULL, residual, y, mask, event);
}

clprune_status clprune__batch_norm_forward_quantised(clprune_context *context,
    const clprune_batch_norm *bn, bool relu, const clprune__quantised *x, clprune_mat residual,
    clprune_mat mask, clprune_mat y, cl_event *event)
{
    return forward(
        context, bn, relu, !clprune__is_absent(mask), CLPRUNE_NO_MAT, x, residual, y, mask, event);
}

/* Forward: y = relu(gamma * xhat + beta + residual), so with dz the gradient of what relu gets,
 * dbeta = sum dz and dgamma = sum dz * xhat. */
clprune_status clprune__batch_norm_backward_sums(clprune_context *context, float beta,
    float sums_beta, const clprune_batch_norm_in *in, const clprune__quantised *codes,
    clprune_mat dz, clprune_mat sums, clprune_mat dgamma, clprune_mat dbeta, cl_event *event)
{
    SCRATCH_SCOPE(context);
    enum { DZ = OWN, SUMS, DGAMMA, DBETA, ALL };
    pass p;
    REQUIRE(in != NULL, CLPRUNE_INVALID_ARGUMENT, "in is NULL");
    TRY(pass_begin(context, in, codes, false, &p));
    const clprune_mat dy = in->dy;
    p.operands[DZ] = (clprune__operand){
        "dz", dz, p.rows, p.cols, .optional = true, .in_place = 1u << DY | 1u << RESIDUAL};
    p.operands[SUMS] = (clprune__operand){"sums", sums, 2, p.cols};
    p.operands[DGAMMA] = (clprune__operand){"dgamma", dgamma, 1, p.cols, .optional = true};
    p.operands[DBETA] = (clprune__operand){"dbeta", dbeta, 1, p.cols, .optional = true};
    TRY(clprune__check_operands(context, p.operands, DZ, ALL));
    const bool keep = !clprune__is_absent(dz), gradients = !clprune__is_absent(dgamma);
    REQUIRE(gradients == !clprune__is_absent(dbeta), CLPRUNE_INVALID_ARGUMENT,
        "dgamma and dbeta: one is CLPRUNE_NO_MAT, expected both or neither");
    /* Not wider with a mask, so that the sums are taken in the same order without. */
    clprune__rowwise plan =
        clprune__lanes_plan(context, p.rows, p.cols, 2, clprune__vector_width(context));
    clprune__define(&plan.defines, "KEEP_DZ", keep);
    define_gate(&p, &plan);
    clprune_mat partial;
    TRY(clprune__scratch_mat(context, 2 * plan.groups, p.cols, &partial));
    clprune__launch launch;
    TRY(clprune__rowwise_begin(context, &backward_sums_kernel, &plan, &launch));
    set_inputs(&launch, &p);
    clprune__arg_mat(&launch, dy);
    clprune__arg_mat(&launch, p.masked ? in->mask : clprune__untouched(dy));
    ARG_MATS(&launch, keep ? dz : partial, partial);
    TRY(clprune__rowwise_end(&launch, &plan, NULL));
    const clprune_mat out[2] = {clprune_mat_rows(sums, 0, 1), clprune_mat_rows(sums, 1, 1)};
    const clprune_mat grads[2] = {dbeta, dgamma};
    TRY(clprune__column_sums_final(
        context, sums_beta, plan.groups, partial, 2, out, gradients ? NULL : event));
    if (gradients)
        TRY(clprune__column_sums_final(context, beta, plan.groups, partial, 2, grads, event));
    return CLPRUNE_SUCCESS;
}

clprune_status clprune_batch_norm_backward_sums(clprune_context *context, float beta,
    float sums_beta, const clprune_batch_norm_in *in, clprune_mat dz, clprune_mat sums,
    clprune_mat dgamma, clprune_mat dbeta, cl_event *event)
{
    ENTER_CONTEXT(context);
    return clprune__batch_norm_backward_sums(
        context, beta, sums_beta, in, NULL, dz, sums, dgamma, dbeta, event);
}

/* Forward: y = relu(gamma * xhat + beta + residual), xhat = (x - mean(x)) * inv(x). */
clprune_status clprune__batch_norm_backward_input(clprune_context *context, size_t rows,
    const clprune_batch_norm_in *in, const clprune__quantised *codes, clprune_mat sums,
    clprune_mat dx, cl_event *event)
{
    enum { SUMS = OWN, DX, ALL };
    pass p;
    REQUIRE(in != NULL, CLPRUNE_INVALID_ARGUMENT, "in is NULL");
    TRY(pass_begin(context, in, codes, false, &p));
    const clprune_mat dy = in->dy;
    REQUIRE(rows >= p.rows, CLPRUNE_INVALID_ARGUMENT,
        "rows is %zu, expected at least the %zu rows of x", rows, p.rows);
    p.operands[SUMS] = (clprune__operand){"sums", sums, 2, p.cols};
    p.operands[DX] = (clprune__operand){
        "dx", dx, p.rows, p.cols, .in_place = 1u << X | 1u << DY | 1u << RESIDUAL, .bf16 = true};
    TRY(clprune__check_operands(context, p.operands, DX, ALL));
    clprune__rowwise plan =
        clprune__lanes_plan(context, p.rows, p.cols, 0, clprune__vector_width(context));
    clprune__narrow_define(context, CLPRUNE_NO_MAT, dx, &plan.defines);
    define_gate(&p, &plan);
    clprune__launch launch;
    TRY(clprune__rowwise_begin(context, &backward_input_kernel, &plan, &launch));
    clprune__arg_float(&launch, rows > 0 ? 1 / (float)rows : 0.0f);
    set_inputs(&launch, &p);
    clprune__arg_mat(&launch, dy);
    clprune__arg_mat(&launch, p.masked ? in->mask : clprune__untouched(dy));
    ARG_MATS(&launch, sums, dx);
    return clprune__rowwise_end(&launch, &plan, event);
}

clprune_status clprune_batch_norm_backward_input(clprune_context *context, size_t rows,
    const clprune_batch_norm_in *in, clprune_mat sums, clprune_mat dx, cl_event *event)
{
    ENTER(context);
    return clprune__batch_norm_backward_input(context, rows, in, NULL, sums, dx, event);
}
