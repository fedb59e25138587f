#include "clprune/gelu.h"

#include "nn/column_sum.h"
#include "runtime/check.h"
#include "runtime/launch.h"
#include "runtime/scratch.h"

static const clprune__kernel_def gelu_forward_kernel = {"gelu.cl", "gelu_forward", "nn.clh"};
static const clprune__kernel_def gelu_backward_kernel = {"gelu.cl", "gelu_backward", "nn.clh"};

clprune_status clprune_gelu_forward(
    clprune_context *context, clprune_mat h, clprune_mat b, clprune_mat g, cl_event *event)
{
    clprune_status status = CLPRUNE_SUCCESS;
    const bool bias = b.buffer != NULL;
    TRY(clprune__check_mat(context, "h", h, h.rows, h.cols));
    TRY(clprune__check_mat(context, "g", g, h.rows, h.cols));
    if (!clprune__same_mat(g, h))
        TRY(clprune__check_apart(context, "g", g, "h", h));
    if (bias) {
        TRY(clprune__check_mat(context, "b", b, 1, h.cols));
        TRY(clprune__check_apart(context, "h", h, "b", b));
        TRY(clprune__check_apart(context, "g", g, "b", b));
    }
    clprune__rowwise plan = clprune__rowwise_plan(context, h.rows, h.cols);
    clprune__define(&plan.defines, "BIAS", bias);
    clprune__launch launch;
    TRY(clprune__launch_begin(context, &gelu_forward_kernel, &plan.defines, &launch));
    clprune__arg_ulong(&launch, h.rows);
    clprune__arg_ulong(&launch, h.cols);
    clprune__arg_mat(&launch, bias ? b : h); /* a buffer it does not read */
    clprune__arg_mat(&launch, h);
    clprune__arg_mat(&launch, g);
    TRY(clprune__launch_enqueue(&launch, 1, &plan.global, &plan.local, event));
done:
    return status;
}

/* The gradients of a backward pass, and with `again` also g. */
typedef struct gelu_job {
    clprune_mat h, dg;
    bool again;
    clprune_mat g;
    clprune_mat dh, db; /* db: or none */
} gelu_job;

static clprune_status check_backward(clprune_context *context, const gelu_job *job)
{
    clprune_status status = CLPRUNE_SUCCESS;
    const clprune_mat h = job->h, dg = job->dg, g = job->g, dh = job->dh, db = job->db;
    TRY(clprune__check_mat(context, "h", h, h.rows, h.cols));
    TRY(clprune__check_mat(context, "dg", dg, h.rows, h.cols));
    TRY(clprune__check_mat(context, "dh", dh, h.rows, h.cols));
    if (!clprune__same_mat(dh, dg))
        TRY(clprune__check_apart(context, "dh", dh, "dg", dg));
    if (job->again || !clprune__same_mat(dh, h))
        TRY(clprune__check_apart(context, "dh", dh, "h", h));
    if (job->again) {
        TRY(clprune__check_mat(context, "g", g, h.rows, h.cols));
        if (!clprune__same_mat(g, h))
            TRY(clprune__check_apart(context, "g", g, "h", h));
        TRY(clprune__check_apart(context, "g", g, "dg", dg));
        TRY(clprune__check_apart(context, "dh", dh, "g", g));
    }
    if (db.buffer != NULL) {
        TRY(clprune__check_mat(context, "db", db, 1, h.cols));
        TRY(clprune__check_apart(context, "db", db, "h", h));
        TRY(clprune__check_apart(context, "db", db, "dg", dg));
        TRY(clprune__check_apart(context, "db", db, "dh", dh));
        if (job->again)
            TRY(clprune__check_apart(context, "db", db, "g", g));
    }
done:
    return status;
}

static clprune_status backward(
    clprune_context *context, bool accumulate, const gelu_job *job, cl_event *event)
{
    clprune_status status = CLPRUNE_SUCCESS;
    REQUIRE(context != NULL, CLPRUNE_INVALID_ARGUMENT, "context is NULL");
    const clprune__scratch_mark mark = clprune__scratch_begin(context);
    TRY(check_backward(context, job));
    const clprune_mat h = job->h;
    const bool sums = job->db.buffer != NULL;
    clprune__rowwise plan = sums ? clprune__strip_plan(context, h.rows, h.cols, 1)
                                 : clprune__rowwise_plan(context, h.rows, h.cols);
    clprune__define(&plan.defines, "AGAIN", job->again);
    clprune__define(&plan.defines, "SUMS", sums);
    clprune_mat partial = job->dh; /* a buffer that is not touched, as dh for g */
    if (sums)
        TRY(clprune__scratch_mat(context, plan.groups, h.cols, &partial));
    clprune__launch launch;
    TRY(clprune__launch_begin(context, &gelu_backward_kernel, &plan.defines, &launch));
    clprune__arg_ulong(&launch, h.rows);
    clprune__arg_ulong(&launch, h.cols);
    clprune__arg_mat(&launch, h);
    clprune__arg_mat(&launch, job->dg);
    clprune__arg_mat(&launch, job->again ? job->g : job->dh);
    clprune__arg_mat(&launch, job->dh);
    clprune__arg_mat(&launch, partial);
    TRY(clprune__launch_enqueue(&launch, 1, &plan.global, &plan.local, sums ? NULL : event));
    if (sums)
        TRY(clprune__column_sums_final(
            context, accumulate, plan.groups, partial, 1, &job->db, event));
done:
    if (context != NULL)
        clprune__scratch_end(context, mark);
    return status;
}

clprune_status clprune_gelu_backward(clprune_context *context, bool accumulate, clprune_mat h,
    clprune_mat dg, clprune_mat dh, clprune_mat db, cl_event *event)
{
    const gelu_job job = {.h = h, .dg = dg, .dh = dh, .db = db};
    return backward(context, accumulate, &job, event);
}

clprune_status clprune_gelu_backward_recompute(clprune_context *context, bool accumulate,
    clprune_mat h, clprune_mat dg, clprune_mat g, clprune_mat dh, clprune_mat db, cl_event *event)
{
    const gelu_job job = {.h = h, .dg = dg, .again = true, .g = g, .dh = dh, .db = db};
    return backward(context, accumulate, &job, event);
}
