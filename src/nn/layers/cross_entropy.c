#include "clprune/cross_entropy.h"

#include "core/checked.h"
#include "nn/layers/loss_private.h"
#include "ops/device/bf16.h"
#include "runtime/context/check.h"
#include "runtime/launch/rowwise.h"

static const clprune__kernel_def cross_entropy_forward_kernel = {
    "layers/cross_entropy.cl", "cross_entropy_forward"};
static const clprune__kernel_def cross_entropy_backward_kernel = {
    "layers/cross_entropy.cl", "cross_entropy_backward"};
static const clprune__kernel_def cross_entropy_step_kernel = {
    "layers/cross_entropy.cl", "cross_entropy_step"};

/* The target is `off` for each class, plus `on` at the label. */
static float target_on(float smoothing)
{
    return 1 - smoothing;
}

static float target_off(float smoothing, size_t classes)
{
    return classes > 0 ? (float)((double)smoothing / (double)classes) : 0;
}

/* Checks smoothing, and the labels unless there are targets; *mat: these, as a row. */
static clprune_status check_labels(clprune_context *context, float smoothing, clprune_ints labels,
    const clprune__label_terms *terms, size_t batch, clprune_mat *mat)
{
    *mat = CLPRUNE_NO_MAT;
    REQUIRE(smoothing >= 0 && smoothing < 1, CLPRUNE_INVALID_ARGUMENT,
        "smoothing is %g, expected a value in [0, 1)", (double)smoothing);
    return terms != NULL && !clprune__is_absent(terms->targets)
               ? CLPRUNE_SUCCESS
               : clprune__check_ints(context, "labels", labels, batch, mat);
}

/* The terms of a call: without a mix, labels and no shares. *mat: the other labels, as a row, or
 * none. */
static clprune_status take_terms(clprune_context *context, const clprune__label_terms *terms,
    clprune_ints labels, size_t batch, clprune__label_terms *taken, clprune_mat *mat)
{
    *taken = terms != NULL ? *terms : (clprune__label_terms){.shares = CLPRUNE_NO_MAT};
    *mat = CLPRUNE_NO_MAT;
    if (!clprune__is_absent(taken->shares)) {
        REQUIRE(clprune__is_absent(taken->class_weights) && clprune__is_absent(taken->targets),
            CLPRUNE_INVALID_ARGUMENT,
            "rows have two labels, which do not go with weights of classes, nor with targets");
        return clprune__check_ints(context, "other labels", taken->others, batch, mat);
    }
    taken->others = labels;
    return CLPRUNE_SUCCESS;
}

/* A team for each row; with targets in place of labels; with weights of classes, which are the last
 * argument. */
static clprune__rowwise plan_rows(
    const clprune_context *context, size_t batch, size_t classes, bool soft, bool weighted)
{
    clprune__rowwise plan = clprune__team_plan(context, batch, classes);
    if (soft)
        clprune__define(&plan.defines, "SOFT", 1);
    if (weighted)
        clprune__define(&plan.defines, "WEIGHTS", 1);
    return plan;
}

/* The arguments that say what is right: targets, or labels. shares: any matrix without them. */
static void add_labels(clprune__launch *launch, const clprune__label_terms *terms,
    clprune_ints labels, clprune_mat shares)
{
    if (!clprune__is_absent(terms->targets)) {
        clprune__arg_mat(launch, terms->targets);
        return;
    }
    clprune__arg_ints(launch, labels);
    clprune__arg_ints(launch, terms->others);
    clprune__arg_mat(launch, shares);
}

/* Forward, whose result is log_p; with `step` also backward, whose result is in its place. */
static clprune_status forward(clprune_context *context, const clprune__gradient_scale *step,
    float smoothing, clprune_mat logits, clprune_ints labels, const clprune__label_terms *terms,
    clprune_mat result, clprune_mat loss, clprune_mat hit, cl_event *event)
{
    const size_t batch = logits.rows, classes = logits.cols;
    const bool has_hit = !clprune__is_absent(hit);
    const clprune_mat weight = step != NULL ? step->weight : CLPRUNE_NO_MAT;
    clprune__label_terms t;
    clprune_mat all, others;
    TRY(check_labels(context, smoothing, labels, terms, batch, &all));
    TRY(take_terms(context, terms, labels, batch, &t, &others));
    const bool mixes = !clprune__is_absent(t.shares);
    const bool soft = !clprune__is_absent(t.targets);
    const bool weighted = !clprune__is_absent(t.class_weights);
    const bool has_samples = step != NULL && !clprune__is_absent(t.weights);
    enum {
        LOGITS,
        LABELS,
        OTHERS,
        SHARES,
        TARGETS,
        WEIGHTS,
        WEIGHT,
        SAMPLES,
        RESULT,
        LOSS,
        HIT,
        ALL
    };
    const clprune__operand operands[ALL] = {{"logits", logits, batch, classes},
        {"labels", all, 1, batch, .optional = soft},
        {"other labels", others, 1, batch, .optional = true},
        {"shares", t.shares, batch, 1, .optional = true},
        {"targets", t.targets, batch, classes, .optional = true},
        {"class_weights", t.class_weights, 1, classes, .optional = true},
        {"weight", weight, 1, 1, .optional = step == NULL},
        {"weights", t.weights, t.weights.rows, 1, .optional = true},
        {step != NULL ? "dlogits" : "log_p", result, batch, classes, .in_place = 1u << LOGITS,
            .bf16 = step != NULL},
        {"loss", loss, batch, 1}, {"hit", hit, batch, 1, .optional = true}};
    TRY(clprune__check_operands(context, operands, RESULT, ALL));
    clprune__rowwise plan = plan_rows(context, batch, classes, soft, weighted);
    if (step != NULL) {
        clprune__define(&plan.defines, "STEP", 1);
        clprune__narrow_define(context, CLPRUNE_NO_MAT, result, &plan.defines);
    }
    clprune__launch launch;
    TRY(clprune__rowwise_begin(context,
        step != NULL ? &cross_entropy_step_kernel : &cross_entropy_forward_kernel, &plan, &launch));
    ARG_FLOATS(&launch, target_on(smoothing), target_off(smoothing, classes));
    clprune__arg_uint(&launch, has_hit);
    clprune__arg_uint(&launch, mixes);
    clprune__arg_mat(&launch, logits);
    add_labels(&launch, &t, labels, mixes ? t.shares : clprune__untouched(logits));
    clprune__arg_mat(&launch, result);
    if (step != NULL) {
        clprune__arg_float(&launch, step->scale);
        ARG_ULONGS(&launch, has_samples ? t.sample_rows : 0, t.first_row);
        ARG_MATS(&launch, weight, has_samples ? t.weights : clprune__untouched(logits));
    }
    ARG_MATS(&launch, loss, hit);
    if (weighted)
        clprune__arg_mat(&launch, t.class_weights);
    return clprune__rowwise_end(&launch, &plan, event);
}

clprune_status clprune__cross_entropy_forward(clprune_context *context, float smoothing,
    clprune_mat logits, clprune_ints labels, const clprune__label_terms *terms, clprune_mat log_p,
    clprune_mat loss, clprune_mat hit, cl_event *event)
{
    return forward(context, NULL, smoothing, logits, labels, terms, log_p, loss, hit, event);
}

clprune_status clprune__cross_entropy_step(clprune_context *context,
    const clprune__gradient_scale *step, float smoothing, clprune_mat logits, clprune_ints labels,
    const clprune__label_terms *terms, clprune_mat loss, clprune_mat hit, clprune_mat dlogits,
    cl_event *event)
{
    return forward(context, step, smoothing, logits, labels, terms, dlogits, loss, hit, event);
}

clprune_status clprune_cross_entropy_forward(clprune_context *context, float smoothing,
    clprune_mat logits, clprune_ints labels, clprune_mat log_p, clprune_mat loss, clprune_mat hit,
    cl_event *event)
{
    ENTER(context);
    return clprune__cross_entropy_forward(
        context, smoothing, logits, labels, NULL, log_p, loss, hit, event);
}

clprune_status clprune__cross_entropy_backward(clprune_context *context, float smoothing,
    float scale, clprune_mat weight, clprune_mat log_p, clprune_ints labels,
    const clprune__label_terms *terms, clprune_mat dlogits, cl_event *event)
{
    const size_t batch = log_p.rows, classes = log_p.cols;
    const bool has_weight = !clprune__is_absent(weight);
    clprune__label_terms t;
    clprune_mat all, others;
    TRY(check_labels(context, smoothing, labels, terms, batch, &all));
    TRY(take_terms(context, terms, labels, batch, &t, &others));
    const bool mixes = !clprune__is_absent(t.shares);
    const bool soft = !clprune__is_absent(t.targets);
    const bool weighted = !clprune__is_absent(t.class_weights);
    const bool has_samples = !clprune__is_absent(t.weights);
    enum { WEIGHT, LOG_P, LABELS, OTHERS, SHARES, TARGETS, WEIGHTS, SAMPLES, DLOGITS, ALL };
    const clprune__operand operands[ALL] = {{"weight", weight, 1, 1, .optional = true},
        {"log_p", log_p, batch, classes}, {"labels", all, 1, batch, .optional = soft},
        {"other labels", others, 1, batch, .optional = true},
        {"shares", t.shares, batch, 1, .optional = true},
        {"targets", t.targets, batch, classes, .optional = true},
        {"class_weights", t.class_weights, 1, classes, .optional = true},
        {"weights", t.weights, t.weights.rows, 1, .optional = true},
        {"dlogits", dlogits, batch, classes, .in_place = 1u << LOG_P}};
    TRY(clprune__check_operands(context, operands, DLOGITS, ALL));
    const clprune__rowwise plan = plan_rows(context, batch, classes, soft, weighted);
    clprune__launch launch;
    TRY(clprune__rowwise_begin(context, &cross_entropy_backward_kernel, &plan, &launch));
    ARG_FLOATS(&launch, target_on(smoothing), target_off(smoothing, classes), scale);
    clprune__arg_uint(&launch, has_weight);
    clprune__arg_uint(&launch, mixes);
    ARG_ULONGS(&launch, has_samples ? t.sample_rows : 0, t.first_row);
    ARG_MATS(&launch, has_weight ? weight : clprune__untouched(log_p),
        has_samples ? t.weights : clprune__untouched(log_p), log_p);
    add_labels(&launch, &t, labels, mixes ? t.shares : log_p);
    clprune__arg_mat(&launch, dlogits);
    if (weighted)
        clprune__arg_mat(&launch, t.class_weights);
    return clprune__rowwise_end(&launch, &plan, event);
}

clprune_status clprune_cross_entropy_backward(clprune_context *context, float smoothing,
    float scale, clprune_mat log_p, clprune_ints labels, clprune_mat dlogits, cl_event *event)
{
    ENTER(context);
    return clprune__cross_entropy_backward(
        context, smoothing, scale, CLPRUNE_NO_MAT, log_p, labels, NULL, dlogits, event);
}
