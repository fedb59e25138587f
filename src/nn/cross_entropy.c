#include "clprune/cross_entropy.h"

#include "nn/team_plan.h"
#include "runtime/check.h"
#include "runtime/launch.h"

static const clprune__kernel_def cross_entropy_forward_kernel = {
    "cross_entropy.cl", "cross_entropy_forward", "nn.clh"};
static const clprune__kernel_def cross_entropy_backward_kernel = {
    "cross_entropy.cl", "cross_entropy_backward", "nn.clh"};

/* The target is `on` more than `off` at the label and `off` elsewhere. */
static float target_on(float smoothing)
{
    return 1 - smoothing;
}

static float target_off(float smoothing, size_t classes)
{
    return classes > 0 ? (float)((double)smoothing / (double)classes) : 0;
}

static bool absent(clprune_mat mat)
{
    return mat.buffer == NULL && mat.rows == 0 && mat.cols == 0;
}

clprune_status clprune_cross_entropy_forward(clprune_context *context, float smoothing,
    clprune_mat logits, cl_mem labels, clprune_mat log_p, clprune_mat loss, clprune_mat hit,
    cl_event *event)
{
    clprune_status status = CLPRUNE_SUCCESS;
    const size_t batch = logits.rows, classes = logits.cols;
    const bool has_hit = !absent(hit);
    REQUIRE(smoothing >= 0 && smoothing < 1, CLPRUNE_INVALID_ARGUMENT, "smoothing is %g",
        (double)smoothing);
    TRY(clprune__check_mat(context, "logits", logits, batch, classes));
    TRY(clprune__check_buffer(context, "labels", labels, batch, sizeof(cl_int)));
    TRY(clprune__check_mat(context, "log_p", log_p, batch, classes));
    TRY(clprune__check_mat(context, "loss", loss, batch, 1));
    if (!clprune__same_mat(log_p, logits))
        TRY(clprune__check_apart(context, "log_p", log_p, "logits", logits));
    TRY(clprune__check_apart(context, "loss", loss, "logits", logits));
    TRY(clprune__check_apart(context, "loss", loss, "log_p", log_p));
    if (has_hit) {
        TRY(clprune__check_mat(context, "hit", hit, batch, 1));
        TRY(clprune__check_apart(context, "hit", hit, "logits", logits));
        TRY(clprune__check_apart(context, "hit", hit, "log_p", log_p));
        TRY(clprune__check_apart(context, "hit", hit, "loss", loss));
    }
    const clprune__team_plan plan = clprune__plan_teams(context, batch, classes);
    clprune__launch launch;
    TRY(clprune__launch_begin(context, &cross_entropy_forward_kernel, &plan.defines, &launch));
    clprune__arg_ulong(&launch, batch);
    clprune__arg_ulong(&launch, classes);
    clprune__arg_float(&launch, target_on(smoothing));
    clprune__arg_float(&launch, target_off(smoothing, classes));
    clprune__arg_uint(&launch, has_hit);
    clprune__arg_mat(&launch, logits);
    clprune__arg_mem(&launch, labels);
    clprune__arg_mat(&launch, log_p);
    clprune__arg_mat(&launch, loss);
    clprune__arg_mat(&launch, hit);
    TRY(clprune__launch_enqueue(&launch, 1, &plan.global, &plan.local, event));
done:
    return status;
}

clprune_status clprune_cross_entropy_backward(clprune_context *context, float smoothing,
    float scale, clprune_mat log_p, cl_mem labels, clprune_mat dlogits, cl_event *event)
{
    clprune_status status = CLPRUNE_SUCCESS;
    const size_t batch = log_p.rows, classes = log_p.cols;
    REQUIRE(smoothing >= 0 && smoothing < 1, CLPRUNE_INVALID_ARGUMENT, "smoothing is %g",
        (double)smoothing);
    TRY(clprune__check_mat(context, "log_p", log_p, batch, classes));
    TRY(clprune__check_buffer(context, "labels", labels, batch, sizeof(cl_int)));
    TRY(clprune__check_mat(context, "dlogits", dlogits, batch, classes));
    if (!clprune__same_mat(dlogits, log_p))
        TRY(clprune__check_apart(context, "dlogits", dlogits, "log_p", log_p));
    const clprune__team_plan plan = clprune__plan_teams(context, batch, classes);
    clprune__launch launch;
    TRY(clprune__launch_begin(context, &cross_entropy_backward_kernel, &plan.defines, &launch));
    clprune__arg_ulong(&launch, batch);
    clprune__arg_ulong(&launch, classes);
    clprune__arg_float(&launch, target_on(smoothing));
    clprune__arg_float(&launch, target_off(smoothing, classes));
    clprune__arg_float(&launch, scale);
    clprune__arg_mat(&launch, log_p);
    clprune__arg_mem(&launch, labels);
    clprune__arg_mat(&launch, dlogits);
    TRY(clprune__launch_enqueue(&launch, 1, &plan.global, &plan.local, event));
done:
    return status;
}
