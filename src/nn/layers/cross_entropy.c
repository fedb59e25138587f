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

clprune_status clprune__cross_entropy_forward(clprune_context *context, float smoothing,
    clprune_mat logits, clprune_ints labels, clprune_mat log_p, clprune_mat loss, clprune_mat hit,
    cl_event *event)
{
    const size_t batch = logits.rows, classes = logits.cols;
    const bool has_hit = !clprune__is_absent(hit);
    clprune_mat all;
    TRY(check_labels(context, smoothing, labels, batch, &all));
    enum { LOGITS, LABELS, LOG_P, LOSS, HIT, ALL };
    const clprune__operand operands[ALL] = {{"logits", logits, batch, classes},
        {"labels", all, 1, batch}, {"log_p", log_p, batch, classes, .in_place = 1u << LOGITS},
        {"loss", loss, batch, 1}, {"hit", hit, batch, 1, .optional = true}};
    TRY(clprune__check_operands(context, operands, LOG_P, ALL));
    const clprune__rowwise plan = clprune__team_plan(context, batch, classes);
    clprune__launch launch;
    TRY(clprune__rowwise_begin(context, &cross_entropy_forward_kernel, &plan, &launch));
    ARG_FLOATS(&launch, target_on(smoothing), target_off(smoothing, classes));
    clprune__arg_uint(&launch, has_hit);
    clprune__arg_mat(&launch, logits);
    clprune__arg_ints(&launch, labels);
    ARG_MATS(&launch, log_p, loss, hit);
    return clprune__rowwise_end(&launch, &plan, event);
}

clprune_status clprune_cross_entropy_forward(clprune_context *context, float smoothing,
    clprune_mat logits, clprune_ints labels, clprune_mat log_p, clprune_mat loss, clprune_mat hit,
    cl_event *event)
{
    ENTER(context);
    return clprune__cross_entropy_forward(
        context, smoothing, logits, labels, log_p, loss, hit, event);
}

clprune_status clprune__cross_entropy_backward(clprune_context *context, float smoothing,
    float scale, clprune_mat weight, clprune_mat log_p, clprune_ints labels, clprune_mat dlogits,
    cl_event *event)
{
    const size_t batch = log_p.rows, classes = log_p.cols;
    const bool has_weight = !clprune__is_absent(weight);
    clprune_mat all;
    TRY(check_labels(context, smoothing, labels, batch, &all));
    enum { WEIGHT, LOG_P, LABELS, DLOGITS, ALL };
    const clprune__operand operands[ALL] = {{"weight", weight, 1, 1, .optional = true},
        {"log_p", log_p, batch, classes}, {"labels", all, 1, batch},
        {"dlogits", dlogits, batch, classes, .in_place = 1u << LOG_P}};
    TRY(clprune__check_operands(context, operands, DLOGITS, ALL));
    const clprune__rowwise plan = clprune__team_plan(context, batch, classes);
    clprune__launch launch;
    TRY(clprune__rowwise_begin(context, &cross_entropy_backward_kernel, &plan, &launch));
    ARG_FLOATS(&launch, target_on(smoothing), target_off(smoothing, classes), scale);
    clprune__arg_uint(&launch, has_weight);
    ARG_MATS(&launch, has_weight ? weight : log_p, log_p); /* without it it is not touched */
    clprune__arg_ints(&launch, labels);
    clprune__arg_mat(&launch, dlogits);
    return clprune__rowwise_end(&launch, &plan, event);
}

clprune_status clprune_cross_entropy_backward(clprune_context *context, float smoothing,
    float scale, clprune_mat log_p, clprune_ints labels, clprune_mat dlogits, cl_event *event)
{
    ENTER(context);
    return clprune__cross_entropy_backward(
        context, smoothing, scale, CLPRUNE_NO_MAT, log_p, labels, dlogits, event);
}
