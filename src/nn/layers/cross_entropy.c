#include "clprune/cross_entropy.h"

#include "core/checked.h"
#include "nn/layers/cross_entropy_private.h"
#include "runtime/context/check.h"
#include "runtime/launch/rowwise.h"

static const clprune__kernel_def cross_entropy_forward_kernel = {
    "layers/cross_entropy.cl", "cross_entropy_forward"};
static const clprune__kernel_def cross_entropy_backward_kernel = {
    "layers/cross_entropy.cl", "cross_entropy_backward"};

/* The target is `off` for each class, plus `on` at the label. */
static float target_on(float smoothing)
{
    return 1 - smoothing;
}

static float target_off(float smoothing, size_t classes)
{
    return classes > 0 ? (float)((double)smoothing / (double)classes) : 0;
}

/* Checks smoothing and the labels; *mat: these, as a row. */
static clprune_status check_labels(
    clprune_context *context, float smoothing, clprune_ints labels, size_t batch, clprune_mat *mat)
{
    REQUIRE(smoothing >= 0 && smoothing < 1, CLPRUNE_INVALID_ARGUMENT,
        "smoothing is %g, expected a value in [0, 1)", (double)smoothing);
    return clprune__check_ints(context, "labels", labels, batch, mat);
}

/* The mix of a call: without one, labels and no shares. *mat: the other labels, as a row, or none.
 */
static clprune_status take_mix(clprune_context *context, const clprune__label_mix *mix,
    clprune_ints labels, size_t batch, clprune__label_mix *taken, clprune_mat *mat)
{
    *taken = (clprune__label_mix){labels, CLPRUNE_NO_MAT};
    *mat = CLPRUNE_NO_MAT;
    if (mix == NULL || clprune__is_absent(mix->shares))
        return CLPRUNE_SUCCESS;
    *taken = *mix;
    return clprune__check_ints(context, "other labels", mix->others, batch, mat);
}

clprune_status clprune__cross_entropy_forward(clprune_context *context, float smoothing,
    clprune_mat logits, clprune_ints labels, const clprune__label_mix *mix, clprune_mat log_p,
    clprune_mat loss, clprune_mat hit, cl_event *event)
{
    const size_t batch = logits.rows, classes = logits.cols;
    const bool has_hit = !clprune__is_absent(hit);
    clprune__label_mix both;
    clprune_mat all, others;
    TRY(check_labels(context, smoothing, labels, batch, &all));
    TRY(take_mix(context, mix, labels, batch, &both, &others));
    const bool mixes = !clprune__is_absent(both.shares);
    enum { LOGITS, LABELS, OTHERS, SHARES, LOG_P, LOSS, HIT, ALL };
    const clprune__operand operands[ALL] = {{"logits", logits, batch, classes},
        {"labels", all, 1, batch}, {"other labels", others, 1, batch, .optional = true},
        {"shares", both.shares, batch, 1, .optional = true},
        {"log_p", log_p, batch, classes, .in_place = 1u << LOGITS}, {"loss", loss, batch, 1},
        {"hit", hit, batch, 1, .optional = true}};
    TRY(clprune__check_operands(context, operands, LOG_P, ALL));
    const clprune__rowwise plan = clprune__team_plan(context, batch, classes);
    clprune__launch launch;
    TRY(clprune__rowwise_begin(context, &cross_entropy_forward_kernel, &plan, &launch));
    ARG_FLOATS(&launch, target_on(smoothing), target_off(smoothing, classes));
    clprune__arg_uint(&launch, has_hit);
    clprune__arg_uint(&launch, mixes);
    clprune__arg_mat(&launch, logits);
    clprune__arg_ints(&launch, labels);
    clprune__arg_ints(&launch, both.others);
    ARG_MATS(&launch, mixes ? both.shares : clprune__untouched(logits), log_p, loss, hit);
    return clprune__rowwise_end(&launch, &plan, event);
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
    const clprune__label_mix *mix, clprune_mat dlogits, cl_event *event)
{
    const size_t batch = log_p.rows, classes = log_p.cols;
    const bool has_weight = !clprune__is_absent(weight);
    clprune__label_mix both;
    clprune_mat all, others;
    TRY(check_labels(context, smoothing, labels, batch, &all));
    TRY(take_mix(context, mix, labels, batch, &both, &others));
    const bool mixes = !clprune__is_absent(both.shares);
    enum { WEIGHT, LOG_P, LABELS, OTHERS, SHARES, DLOGITS, ALL };
    const clprune__operand operands[ALL] = {{"weight", weight, 1, 1, .optional = true},
        {"log_p", log_p, batch, classes}, {"labels", all, 1, batch},
        {"other labels", others, 1, batch, .optional = true},
        {"shares", both.shares, batch, 1, .optional = true},
        {"dlogits", dlogits, batch, classes, .in_place = 1u << LOG_P}};
    TRY(clprune__check_operands(context, operands, DLOGITS, ALL));
    const clprune__rowwise plan = clprune__team_plan(context, batch, classes);
    clprune__launch launch;
    TRY(clprune__rowwise_begin(context, &cross_entropy_backward_kernel, &plan, &launch));
    ARG_FLOATS(&launch, target_on(smoothing), target_off(smoothing, classes), scale);
    clprune__arg_uint(&launch, has_weight);
    clprune__arg_uint(&launch, mixes);
    ARG_MATS(&launch, has_weight ? weight : clprune__untouched(log_p), log_p);
    clprune__arg_ints(&launch, labels);
    clprune__arg_ints(&launch, both.others);
    ARG_MATS(&launch, mixes ? both.shares : log_p, dlogits);
    return clprune__rowwise_end(&launch, &plan, event);
}

clprune_status clprune_cross_entropy_backward(clprune_context *context, float smoothing,
    float scale, clprune_mat log_p, clprune_ints labels, clprune_mat dlogits, cl_event *event)
{
    ENTER(context);
    return clprune__cross_entropy_backward(
        context, smoothing, scale, CLPRUNE_NO_MAT, log_p, labels, NULL, dlogits, event);
}
