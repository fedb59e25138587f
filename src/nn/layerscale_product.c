/* LayerScale behind a linear layer, without that one's output. */
#include "clprune/layerscale.h"
#include "nn/team_plan.h"
#include "runtime/check.h"
#include "runtime/launch.h"
#include "runtime/rowwise.h"

clprune_status clprune_layerscale_weights(
    clprune_context *context, clprune_mat ls, clprune_mat w, clprune_mat scaled, cl_event *event)
{
    clprune_status status = CLPRUNE_SUCCESS;
    TRY(clprune__check_mat(context, "ls", ls, 1, w.rows));
    TRY(clprune__check_mat(context, "w", w, w.rows, w.cols));
    TRY(clprune__check_mat(context, "scaled", scaled, w.rows, w.cols));
    if (!clprune__same_mat(scaled, w))
        TRY(clprune__check_apart(context, "scaled", scaled, "w", w));
    TRY(clprune__check_apart(context, "scaled", scaled, "ls", ls));
    const clprune__rowwise plan = clprune__rowwise_plan(context, w.rows, w.cols);
    clprune__launch launch;
    TRY(clprune__launch_begin(context, CLPRUNE__LAYERSCALE_WEIGHTS, plan.defines, &launch));
    clprune__arg_ulong(&launch, w.rows);
    clprune__arg_ulong(&launch, w.cols);
    clprune__arg_mat(&launch, ls);
    clprune__arg_mat(&launch, w);
    clprune__arg_mat(&launch, scaled);
    TRY(clprune__launch_enqueue(&launch, 1, &plan.global, &plan.local, event));
done:
    return status;
}

/* Sizes, and each output apart from all that comes before it. */
static clprune_status check_product(clprune_context *context, clprune_mat w, clprune_mat b,
    clprune_mat ls, clprune_mat dls, clprune_mat dw, clprune_mat db)
{
    clprune_status status = CLPRUNE_SUCCESS;
    enum { INPUTS = 3, ALL = 6 };
    const struct {
        const char *name;
        clprune_mat mat;
        size_t rows, cols;
    } part[ALL] = {{"w", w, w.rows, w.cols}, {"b", b, 1, w.rows}, {"ls", ls, 1, w.rows},
        {"dls", dls, 1, w.rows}, {"dw", dw, w.rows, w.cols}, {"db", db, 1, w.rows}};
    for (int i = 0; i < ALL; i++)
        TRY(clprune__check_mat(context, part[i].name, part[i].mat, part[i].rows, part[i].cols));
    for (int i = INPUTS; i < ALL; i++)
        for (int k = 0; k < i; k++)
            TRY(clprune__check_apart(
                context, part[i].name, part[i].mat, part[k].name, part[k].mat));
done:
    return status;
}

clprune_status clprune_layerscale_backward_product(clprune_context *context, clprune_mat w,
    clprune_mat b, clprune_mat ls, clprune_mat dls, clprune_mat dw, clprune_mat db, cl_event *event)
{
    clprune_status status = CLPRUNE_SUCCESS;
    REQUIRE(context != NULL, CLPRUNE_INVALID_ARGUMENT, "context is NULL");
    TRY(check_product(context, w, b, ls, dls, dw, db));
    const clprune__team_plan plan = clprune__plan_teams(context, w.rows, w.cols);
    clprune__launch launch;
    TRY(clprune__launch_begin(context, CLPRUNE__LAYERSCALE_PRODUCT, plan.defines, &launch));
    clprune__arg_ulong(&launch, w.rows);
    clprune__arg_ulong(&launch, w.cols);
    clprune__arg_mat(&launch, w);
    clprune__arg_mat(&launch, b);
    clprune__arg_mat(&launch, ls);
    clprune__arg_mat(&launch, dls);
    clprune__arg_mat(&launch, dw);
    clprune__arg_mat(&launch, db);
    TRY(clprune__launch_enqueue(&launch, 1, &plan.global, &plan.local, event));
done:
    return status;
}
