#include "clprune/cross_entropy.h"

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

clprune_status clprune_cross_entropy_forward(clprune_context *context, float smoothing,
    clprune_mat logits, cl_mem labels, clprune_mat log_p, clprune_mat loss, clprune_mat hit,
    cl_event *event)
{
    ENTER(context);
    const size_t batch = logits.rows, classes = logits.cols;
    const bool has_hit = !clprune__is_absent(hit);
    REQUIRE(smoothing >= 0 && smoothing < 1, CLPRUNE_INVALID_ARGUMENT,
        "smoothing is %g, expected a value in [0, 1)", (double)smoothing);
    TRY(clprune__check_buffer(context, "labels", labels, batch, sizeof(cl_int)));
    enum { LOGITS, LABELS, LOG_P, LOSS, HIT, ALL };
    const clprune__operand operands[ALL] = {{"logits", logits, batch, classes},
        {"labels", clprune_mat_of(labels, 1, batch), 1, batch}, /* an int32 is as wide as a float */
        {"log_p", log_p, batch, classes, .in_place = 1u << LOGITS}, {"loss", loss, batch, 1},
        {"hit", hit, batch, 1, .optional = true}};
    TRY(clprune__check_operands(context, operands, LOG_P, ALL));
    const clprune__rowwise plan = clprune__team_plan(context, batch, classes);
    clprune__launch launch;
    TRY(clprune__rowwise_begin(context, &cross_entropy_forward_kernel, &plan, &launch));
    ARG_FLOATS(&launch, target_on(smoothing), target_off(smoothing, classes));
    clprune__arg_uint(&launch, has_hit);
    clprune__arg_mat(&launch, logits);
    clprune__arg_mem(&launch, labels);
    ARG_MATS(&launch, log_p, loss, hit);
    return clprune__rowwise_end(&launch, &plan, event);
}

clprune_status clprune_cross_entropy_backward(clprune_context *context, float smoothing,
    float scale, clprune_mat log_p, cl_mem labels, clprune_mat dlogits, cl_event *event)
{
    ENTER(context);
    const size_t batch = log_p.rows, classes = log_p.cols;
    REQUIRE(smoothing >= 0 && smoothing < 1, CLPRUNE_INVALID_ARGUMENT,
        "smoothing is %g, expected a value in [0, 1)", (double)smoothing);
    TRY(clprune__check_buffer(context, "labels", labels, batch, sizeof(cl_int)));
    enum { LOG_P, LABELS, DLOGITS, ALL };
    const clprune__operand operands[ALL] = {{"log_p", log_p, batch, classes},
        {"labels", clprune_mat_of(labels, 1, batch), 1, batch},
        {"dlogits", dlogits, batch, classes, .in_place = 1u << LOG_P}};
    TRY(clprune__check_operands(context, operands, DLOGITS, ALL));
    const clprune__rowwise plan = clprune__team_plan(context, batch, classes);
    clprune__launch launch;
    TRY(clprune__rowwise_begin(context, &cross_entropy_backward_kernel, &plan, &launch));
    ARG_FLOATS(&launch, target_on(smoothing), target_off(smoothing, classes), scale);
    clprune__arg_mat(&launch, log_p);
    clprune__arg_mem(&launch, labels);
    clprune__arg_mat(&launch, dlogits);
    return clprune__rowwise_end(&launch, &plan, event);
}
